//! Health of devices: `v1alpha1.DRAResourceHealth`.

/// A GPU that can be used.
pub const HEALTHY: i32 = 1;
/// A GPU that its driver does not show any more.
pub const UNHEALTHY: i32 = 2;

/// Question after the health of all devices, from now on.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeWatchResourcesRequest {}

/// Health of all devices.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeWatchResourcesResponse {
    /// The devices.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<DeviceHealth>,
}

/// Name of a device.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeviceIdentifier {
    /// Pool.
    #[prost(string, tag = "1")]
    pub pool_name: String,
    /// Name in the pool.
    #[prost(string, tag = "2")]
    pub device_name: String,
}

/// Health of a device.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeviceHealth {
    /// The device.
    #[prost(message, optional, tag = "1")]
    pub device: Option<DeviceIdentifier>,
    /// [`HEALTHY`] or [`UNHEALTHY`].
    #[prost(int32, tag = "2")]
    pub health: i32,
    /// Time of the last look, in seconds since 1970.
    #[prost(int64, tag = "3")]
    pub last_updated_time: i64,
}
