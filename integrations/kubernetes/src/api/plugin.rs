//! Device plugins: `v1beta1.DevicePlugin`, and `v1beta1.Registration` of the kubelet.

use std::collections::BTreeMap;

/// Nothing.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}

/// Calls that a plugin wants.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DevicePluginOptions {
    /// [`PreStartContainerRequest`] before each container.
    #[prost(bool, tag = "1")]
    pub pre_start_required: bool,
    /// [`PreferredAllocationRequest`] before each pod.
    #[prost(bool, tag = "2")]
    pub get_preferred_allocation_available: bool,
}

/// Registration of a resource.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterRequest {
    /// Version of the interface.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Name of the plugin's socket in the folder of the kubelet's.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    /// Name of the resource.
    #[prost(string, tag = "3")]
    pub resource_name: String,
    /// Calls that the plugin wants.
    #[prost(message, optional, tag = "4")]
    pub options: Option<DevicePluginOptions>,
}

/// All devices of a resource.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListAndWatchResponse {
    /// The devices.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
}

/// A device.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    /// Name, of at most 63 characters.
    #[prost(string, tag = "1")]
    pub id: String,
    /// `Healthy` or `Unhealthy`.
    #[prost(string, tag = "2")]
    pub health: String,
}

/// Question which devices containers should best get.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreferredAllocationRequest {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerPreferredAllocationRequest>,
}

/// Question which devices a container should best get.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerPreferredAllocationRequest {
    /// Devices that it can get.
    #[prost(string, repeated, tag = "1")]
    pub available_device_ids: Vec<String>,
    /// Devices that it gets.
    #[prost(string, repeated, tag = "2")]
    pub must_include_device_ids: Vec<String>,
    /// Number of devices of the answer.
    #[prost(int32, tag = "3")]
    pub allocation_size: i32,
}

/// Devices for containers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreferredAllocationResponse {
    /// The containers, in the order of the question.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerPreferredAllocationResponse>,
}

/// Devices for a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerPreferredAllocationResponse {
    /// The devices.
    #[prost(string, repeated, tag = "1")]
    pub device_ids: Vec<String>,
}

/// Devices that containers get.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateRequest {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerAllocateRequest>,
}

/// Devices that a container gets.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerAllocateRequest {
    /// The devices.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// Changes of containers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateResponse {
    /// The containers, in the order of the request.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerAllocateResponse>,
}

/// Changes of a container. Variables, mounts and device files, 1 to 3, are not used.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerAllocateResponse {
    /// Annotations for the container runtime.
    #[prost(btree_map = "string, string", tag = "4")]
    pub annotations: BTreeMap<String, String>,
    /// Container devices, for kubelets from 1.29 on.
    #[prost(message, repeated, tag = "5")]
    pub cdi_devices: Vec<CdiDevice>,
}

/// A container device.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CdiDevice {
    /// Kind and name: `vendor.com/class=name`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Call before a container starts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreStartContainerRequest {
    /// Devices of the container.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// Answer to a [`PreStartContainerRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreStartContainerResponse {}
