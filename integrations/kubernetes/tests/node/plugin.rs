//! The device plugin with a kubelet that starts again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use futures::StreamExt;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use xsched_kubernetes::api::calls::plugin::device_plugin_client::DevicePluginClient;
use xsched_kubernetes::api::calls::plugin_registration::registration_server::{
    Registration, RegistrationServer,
};
use xsched_kubernetes::api::plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, Empty,
    PreferredAllocationRequest, RegisterRequest,
};

use crate::machine::{Machine, channel};

struct Registrar(mpsc::Sender<RegisterRequest>);

#[tonic::async_trait]
impl Registration for Registrar {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        self.0
            .send(request.into_inner())
            .await
            .map_err(|_| Status::aborted("the test has ended"))?;
        Ok(Response::new(Empty {}))
    }
}

/// A kubelet in this folder, which removes all sockets when it starts, and what it registers.
async fn kubelet(folder: &Path) -> (JoinHandle<()>, Vec<RegisterRequest>) {
    fs::create_dir_all(folder).expect("a folder");
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        fs::remove_file(entry.path()).expect("a socket");
    }
    let (sender, mut receiver) = mpsc::channel(8);
    let listener = UnixListener::bind(folder.join("kubelet.sock")).expect("it is free");
    let server = Server::builder()
        .add_service(RegistrationServer::new(Registrar(sender)))
        .serve_with_incoming(UnixListenerStream::new(listener));
    let served = tokio::spawn(async { server.await.expect("it serves") });
    // A plugin whose socket goes while it registers does so twice.
    let mut all = BTreeMap::new();
    while all.len() < 3 {
        let one = receiver.recv().await.expect("a registration");
        all.insert(one.resource_name.clone(), one);
    }
    (served, all.into_values().collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_that_starts_again_has_the_resources_again() {
    let machine = Machine::new();
    let folder = machine.path("kubelet/device-plugins");
    let _plugin = machine.start(&["device-plugin", "--slots", "2"], None);
    let (served, first) = kubelet(&folder).await;
    let names = ["xsched.dev/batch", "xsched.dev/interactive", "xsched.dev/normal"];
    assert!(first.iter().map(|one| one.resource_name.as_str()).eq(names), "{first:?}");
    assert!(first.iter().all(|one| one.version == "v1beta1"));
    served.abort();
    let (_served, again) = kubelet(&folder).await;
    assert_eq!(again, first);

    let mut plugin = DevicePluginClient::new(channel(&folder.join(&again[0].endpoint)).await);
    let mut lists = plugin.list_and_watch(Empty {}).await.expect("an answer").into_inner();
    let list = lists.next().await.expect("a list").expect("no error").devices;
    let ids: Vec<_> = list.iter().map(|device| device.id.clone()).collect();
    assert_eq!(ids, ["nvidia-0-slot-0", "nvidia-0-slot-1"]);
    assert!(list.iter().all(|device| device.health == "Healthy"));

    let container = ContainerPreferredAllocationRequest {
        available_device_ids: ids.clone(),
        must_include_device_ids: vec![ids[1].clone()],
        allocation_size: 2,
    };
    let request = PreferredAllocationRequest { container_requests: vec![container] };
    let answer = plugin.get_preferred_allocation(request).await.expect("an answer").into_inner();
    assert_eq!(answer.container_responses[0].device_ids, [ids[1].clone(), ids[0].clone()]);

    let allocate = |ids: &[String]| {
        let container_requests = vec![ContainerAllocateRequest { devices_ids: ids.to_vec() }];
        AllocateRequest { container_requests }
    };
    let answer = plugin.allocate(allocate(&ids)).await.expect("an answer").into_inner();
    let container = &answer.container_responses[0];
    let devices = "nvidia.com/gpu=GPU-a,xsched.dev/class=batch";
    assert_eq!(container.annotations["cdi.k8s.io/xsched"], devices);
    let names: Vec<_> = container.cdi_devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names.join(","), devices);
    let text = fs::read_to_string(machine.path("cdi/xsched-kubernetes.json")).expect("a file");
    assert!(text.contains("\"xsched.dev/class\"") && text.contains("\"batch\""));

    for wrong in ["nvidia-0-slot-2", "nvidia-1-slot-0", "nvidia-0", "slot"] {
        let refused = plugin.allocate(allocate(&[wrong.to_owned()])).await.expect_err("wrong");
        assert!(refused.message().contains(wrong), "{refused}");
    }
    fs::remove_dir_all(machine.path("proc/driver/nvidia/gpus")).expect("it is there");
    let list = lists.next().await.expect("a list").expect("no error").devices;
    assert!(list.len() == 2 && list.iter().all(|device| device.health == "Unhealthy"));
}
