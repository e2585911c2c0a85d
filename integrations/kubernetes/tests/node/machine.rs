//! A node with a GPU in files, on which the driver runs as a process, and its kubelet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use xsched_kubernetes::api::calls::dra_v1::d_r_a_plugin_client::DRAPluginClient;
use xsched_kubernetes::api::calls::registration::registration_client::RegistrationClient;
use xsched_kubernetes::api::dra::{
    Claim, NodePrepareResourceResponse, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest,
};
use xsched_kubernetes::api::registration::{InfoRequest, PluginInfo, RegistrationStatus};

/// Time for what may take long on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until there is something.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// A node.
#[derive(Debug)]
pub(crate) struct Machine {
    folder: TempDir,
}

impl Machine {
    /// A node with a GPU for which the vendor has a container device.
    pub(crate) fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().expect("a folder") };
        let gpu = "Model: \t NVIDIA H200\nGPU UUID: \t GPU-a\nBus Location: \t 0000:41:00.0\n";
        machine.write("proc/driver/nvidia/gpus/0000:41:00.0/information", gpu);
        let device = json!({"name": "GPU-a", "containerEdits": {"env": ["A=B"]}});
        let specification =
            json!({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]});
        machine.write("etc/cdi/nvidia.json", &specification.to_string());
        machine.write("opt/lib/xsched/libshimcuda.so", "");
        machine.write("opt/lib/xsched/libpreempt.so", "");
        machine
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.path(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }

    /// Files for container devices of claims.
    pub(crate) fn claims(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cdi")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("xsched-claim-")).collect()
    }

    /// The container device of a claim.
    pub(crate) fn device(&self, uid: &str) -> Value {
        let text = fs::read(self.path(&format!("cdi/xsched-claim-{uid}.json"))).expect("a file");
        serde_json::from_slice(&text).expect("JSON")
    }

    pub(crate) fn start(&self, mode: &[&str], kubeconfig: Option<&Path>) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-kubernetes"));
        command.args(mode).env_remove("KUBECONFIG").env("NODE_NAME", "node-1");
        for (option, file) in
            [("kubelet", "kubelet"), ("cdi", "cdi"), ("xsched", "opt"), ("socket", "run/socket")]
        {
            command.arg(format!("--{option}")).arg(self.path(file));
        }
        command.arg("--root").arg(self.path(""));
        command.envs(kubeconfig.map(|file| ("KUBECONFIG", file)));
        command.stdout(Stdio::null());
        Running(command.spawn().expect("it starts"))
    }
}

/// A driver that runs. It is killed with this.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A channel to a socket, once one listens there.
pub(crate) async fn channel(socket: &Path) -> Channel {
    let endpoint = Endpoint::try_from(format!("unix://{}", socket.display())).expect("a path");
    until(&format!("{} is not served", socket.display()), async || endpoint.connect().await.ok())
        .await
}

/// A kubelet, which has registered the driver.
#[derive(Debug)]
pub(crate) struct Kubelet {
    pub(crate) info: PluginInfo,
    pub(crate) services: Channel,
}

impl Kubelet {
    pub(crate) async fn start(machine: &Machine) -> Self {
        let socket = machine.path("kubelet/plugins_registry/gpu.xsched.dev-reg.sock");
        let mut registration = RegistrationClient::new(channel(&socket).await);
        let info = registration.get_info(InfoRequest {}).await.expect("an answer").into_inner();
        let services = channel(Path::new(&info.endpoint)).await;
        let status = RegistrationStatus { plugin_registered: true, error: String::new() };
        registration.notify_registration_status(status).await.expect("an answer");
        Self { info, services }
    }

    pub(crate) async fn prepare(&self, claims: &[Claim]) -> Vec<NodePrepareResourceResponse> {
        let request = NodePrepareResourcesRequest { claims: claims.to_vec() };
        let mut client = DRAPluginClient::new(self.services.clone());
        let answer = client.node_prepare_resources(request).await.expect("an answer");
        let mut answers = answer.into_inner().claims;
        let of_claim = |claim: &Claim| answers.remove(&claim.uid).expect("an answer for each");
        claims.iter().map(of_claim).collect()
    }

    /// Reasons for which claims are not unprepared.
    pub(crate) async fn unprepare(&self, claims: &[Claim]) -> Vec<String> {
        let request = NodeUnprepareResourcesRequest { claims: claims.to_vec() };
        let mut client = DRAPluginClient::new(self.services.clone());
        let answer = client.node_unprepare_resources(request).await.expect("an answer");
        let answers = answer.into_inner().claims;
        claims.iter().map(|claim| answers[&claim.uid].error.clone()).collect()
    }
}

pub(crate) fn claim(name: &str, uid: &str) -> Claim {
    Claim { namespace: "ml".to_owned(), uid: uid.to_owned(), name: name.to_owned() }
}

/// The allocation of a share of the GPU under a device class.
pub(crate) fn allocation(class: &str, share: &str) -> Value {
    let parameters = json!({
        "apiVersion": "gpu.xsched.dev/v1alpha1", "kind": "GpuConfig", "class": class,
    });
    let opaque = json!({"driver": "gpu.xsched.dev", "parameters": parameters});
    let result = json!({
        "request": "gpu", "driver": "gpu.xsched.dev", "pool": "node-1", "device": "nvidia-0",
        "shareID": "share-1", "consumedCapacity": {"share": share},
    });
    json!({"devices": {"results": [result], "config": [{"source": "FromClass", "opaque": opaque}]}})
}
