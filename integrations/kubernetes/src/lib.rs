//! Kubernetes on nodes whose GPUs XSched schedules.
//!
//! | part | for |
//! |---|---|
//! | [`driver`], [`slices`] | clusters with dynamic resource allocation, from Kubernetes 1.34 on |
//! | [`plugin`] | earlier clusters, by extended resources |
//! | [`claim`], [`devices`], [`gpu`] | rights of a pod, and devices that its containers get |
//! | [`http`], [`health`], [`state`] | probes, health of GPUs, metrics |
//!
//! Placement is the scheduler's of Kubernetes. A container that has a device is scheduled on its
//! GPU by `xschedd` of the node, with a grant that a hook of the container runtime makes.
#![forbid(unsafe_code)]

pub mod api;
pub mod claim;
pub mod devices;
pub mod driver;
pub mod gpu;
pub mod health;
pub mod http;
pub mod plugin;
pub mod slices;
pub mod socket;
pub mod state;

/// Name of the driver.
pub const DRIVER: &str = "gpu.xsched.dev";
/// Capacity of a GPU that claims divide, of which there are 100.
pub const CAPACITY: &str = "share";
/// Begin of the names of extended resources, before the name of a class.
pub const RESOURCES: &str = "xsched.dev/";
