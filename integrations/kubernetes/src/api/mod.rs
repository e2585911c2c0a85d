//! Services between the kubelet and its plugins, with the numbers of their fields.

pub mod dra;
pub mod health;
pub mod plugin;
pub mod registration;

/// Code for calls, which build.rs makes.
#[expect(unused_qualifications, clippy::too_many_lines, reason = "the code is generated")]
pub mod calls {
    /// Registration of plugins that put a socket into a folder of the kubelet.
    pub mod registration {
        include!(concat!(env!("OUT_DIR"), "/pluginregistration.Registration.rs"));
    }
    /// Claims of dynamic resource allocation.
    pub mod dra_v1 {
        include!(concat!(env!("OUT_DIR"), "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.rs"));
    }
    /// Claims, as kubelets ask that do not know version 1.
    pub mod dra_v1beta1 {
        include!(concat!(env!("OUT_DIR"), "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin.rs"));
    }
    /// Health of devices.
    pub mod health {
        include!(concat!(env!("OUT_DIR"), "/v1alpha1.DRAResourceHealth.rs"));
    }
    /// Device plugins.
    pub mod plugin {
        include!(concat!(env!("OUT_DIR"), "/v1beta1.DevicePlugin.rs"));
    }
    /// Registration of device plugins, which the kubelet serves.
    pub mod plugin_registration {
        include!(concat!(env!("OUT_DIR"), "/v1beta1.Registration.rs"));
    }
}
