//! Makes the code for calls of the kubelet's services, from their names and types.

use tonic_build::manual::{Builder, Method, Service};

/// Name in Rust, name, request and answer of a call.
type Call = [&'static str; 4];

fn service(package: &str, name: &str, module: &str, calls: &[Call], streamed: &[Call]) -> Service {
    let method = |[rust, name, request, answer]: &Call| {
        Method::builder()
            .name(rust)
            .route_name(name)
            .input_type(format!("crate::api::{module}::{request}"))
            .output_type(format!("crate::api::{module}::{answer}"))
            .codec_path("tonic_prost::ProstCodec")
    };
    let calls = calls.iter().map(|call| method(call).build());
    let streamed = streamed.iter().map(|call| method(call).server_streaming().build());
    let begin = Service::builder().package(package).name(name);
    calls.chain(streamed).fold(begin, tonic_build::manual::ServiceBuilder::method).build()
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let registration = [
        ["get_info", "GetInfo", "InfoRequest", "PluginInfo"],
        [
            "notify_registration_status",
            "NotifyRegistrationStatus",
            "RegistrationStatus",
            "RegistrationStatusResponse",
        ],
    ];
    let dra = [
        [
            "node_prepare_resources",
            "NodePrepareResources",
            "NodePrepareResourcesRequest",
            "NodePrepareResourcesResponse",
        ],
        [
            "node_unprepare_resources",
            "NodeUnprepareResources",
            "NodeUnprepareResourcesRequest",
            "NodeUnprepareResourcesResponse",
        ],
    ];
    let health = [[
        "node_watch_resources",
        "NodeWatchResources",
        "NodeWatchResourcesRequest",
        "NodeWatchResourcesResponse",
    ]];
    let plugin = [
        ["get_device_plugin_options", "GetDevicePluginOptions", "Empty", "DevicePluginOptions"],
        [
            "get_preferred_allocation",
            "GetPreferredAllocation",
            "PreferredAllocationRequest",
            "PreferredAllocationResponse",
        ],
        ["allocate", "Allocate", "AllocateRequest", "AllocateResponse"],
        [
            "pre_start_container",
            "PreStartContainer",
            "PreStartContainerRequest",
            "PreStartContainerResponse",
        ],
    ];
    let watch = [["list_and_watch", "ListAndWatch", "Empty", "ListAndWatchResponse"]];
    let register = [["register", "Register", "RegisterRequest", "Empty"]];
    let of_version = |version: &str| format!("k8s.io.kubelet.pkg.apis.dra.{version}");
    Builder::new().compile(&[
        service("pluginregistration", "Registration", "registration", &registration, &[]),
        service(&of_version("v1"), "DRAPlugin", "dra", &dra, &[]),
        service(&of_version("v1beta1"), "DRAPlugin", "dra", &dra, &[]),
        service("v1alpha1", "DRAResourceHealth", "health", &[], &health),
        service("v1beta1", "DevicePlugin", "plugin", &plugin, &watch),
        service("v1beta1", "Registration", "plugin", &register, &[]),
    ]);
}
