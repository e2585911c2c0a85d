//! Experiments on real devices: how fast they are preempted, and what scheduling costs. Each
//! experiment runs on any device that implements [`Bench`], and answers with a record that says
//! what it was measured on.

mod bench;
pub mod calibrate;
mod clocks;
pub mod devices;
mod gpu;
pub mod graphs;
mod host;
pub mod judge;
pub mod kernels;
pub mod kfd;
pub mod kit;
pub mod mode;
pub mod overhead;
pub mod paper;
pub mod partition;
pub mod place;
pub mod preempt;
pub mod priority;
pub mod processes;
pub mod requests;
mod stats;
mod task;
pub mod threshold;

pub use bench::{Bench, Described, LabError, Making, Plain, Victim};
pub use clocks::DeviceClock;
pub use gpu::{Cuda, Gpu, Hip};
pub use host::{Host, HostStream};
pub use kfd::Kfd;
pub use stats::{P99_SAMPLES, Processor, Quantiles};
pub use task::{Background, Foreground, Options, Runner, Way};
pub use xsched_hal_kfd::topology::Sysfs;
