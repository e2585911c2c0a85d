//! Registration of plugins: `pluginregistration.Registration`.

/// Question of what a plugin is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InfoRequest {}

/// A plugin.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginInfo {
    /// Kind of plugin.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Name of the driver.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Socket of its service.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    /// Services that it has.
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

/// Result of a registration.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatus {
    /// True if the kubelet uses the plugin.
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    /// Reason if it does not.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// Answer to a [`RegistrationStatus`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatusResponse {}
