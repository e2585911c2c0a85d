//! Claims of pods: `DRAPlugin`, whose versions 1 and 1beta1 have the same messages.

use std::collections::BTreeMap;

/// A claim, by its names.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Claim {
    /// Namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// Number that no other claim has.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// Name in the namespace.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// Claims to prepare.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourcesRequest {
    /// The claims.
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

/// Result for each claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourcesResponse {
    /// By the number of the claim.
    #[prost(btree_map = "string, message", tag = "1")]
    pub claims: BTreeMap<String, NodePrepareResourceResponse>,
}

/// Result for a claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourceResponse {
    /// Devices of the claim.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
    /// Reason why it is not prepared, or else nothing.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// A device of a claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    /// Requests of the claim that it is for.
    #[prost(string, repeated, tag = "1")]
    pub request_names: Vec<String>,
    /// Pool.
    #[prost(string, tag = "2")]
    pub pool_name: String,
    /// Name in the pool.
    #[prost(string, tag = "3")]
    pub device_name: String,
    /// Container devices that containers get.
    #[prost(string, repeated, tag = "4")]
    pub cdi_device_ids: Vec<String>,
    /// Number of the claim's part of a device that several claims have.
    #[prost(string, optional, tag = "5")]
    pub share_id: Option<String>,
}

/// Claims that no pod uses any more.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourcesRequest {
    /// The claims.
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

/// Result for each claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourcesResponse {
    /// By the number of the claim.
    #[prost(btree_map = "string, message", tag = "1")]
    pub claims: BTreeMap<String, NodeUnprepareResourceResponse>,
}

/// Result for a claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourceResponse {
    /// Reason why something of it is left, or else nothing.
    #[prost(string, tag = "1")]
    pub error: String,
}
