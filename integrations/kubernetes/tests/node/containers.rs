//! Pods as containers of Podman, which gets the devices of claims as the kubelet hands them to a
//! container runtime, with a real daemon and an emulated GPU.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::api::Api;
use crate::machine::{Kubelet, Machine, Running, allocation, claim, until};

/// Where Podman looks for container devices.
const CDI: &str = "/run/cdi";
const VENDOR: &str = "/run/cdi/xsched-check-nvidia.json";
/// What is not in a grant: nothing outside pods is above batch work.
const CONFIG: &str = "[[tenant]]\nname = \"default\"\npriority = -200\npriority_max = -200\n";

/// Everything that a container gets from outside its image.
struct Stage {
    folder: PathBuf,
    machine: Machine,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.folder.join("jobs")).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        self.podman(&["rm", "--all", "--force", "--time", "1"]);
        let _ = Command::new("umount").arg("-R").arg(self.folder.join("storage")).output();
        for entry in fs::read_dir(CDI).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_own = ["xsched-claim-uid-", "xsched-check-", "xsched-kubernetes"];
            if is_own.iter().any(|begin| name.starts_with(begin)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Stage {
    fn new() -> Self {
        let folder = env::var_os("XSCHED_STAGE").expect("`cargo xtask kubernetes` sets it");
        let stage = Self { folder: folder.into(), machine: Machine::new() };
        for folder in ["run", "jobs"] {
            fs::create_dir_all(stage.folder.join(folder)).expect("a folder");
        }
        fs::write(stage.folder.join("run/xschedd.toml"), CONFIG).expect("a file");
        fs::create_dir_all(CDI).expect("run this as root");
        let emulated = stage.folder.join("emulated");
        let mount = json!({"hostPath": emulated, "containerPath": "/emulated",
                           "options": ["ro", "bind"]});
        let edits = json!({"env": ["LD_LIBRARY_PATH=/emulated"], "mounts": [mount]});
        let device = json!({"name": "GPU-a", "containerEdits": edits});
        let specification =
            json!({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]});
        fs::write(VENDOR, specification.to_string()).expect("a file");
        let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../check/image.sh");
        let made = Command::new("bash").arg(image).arg(&stage.folder).output().expect("bash");
        assert!(made.status.success(), "{made:?}");
        let file = stage.folder.join("image.tar");
        stage.podman(&["import", &file.to_string_lossy(), "localhost/check"]);
        stage
    }

    fn podman(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("podman");
        for (option, folder) in
            [("--root", "storage"), ("--runroot", "runroot"), ("--tmpdir", "tmp")]
        {
            command.arg(option).arg(self.folder.join(folder));
        }
        command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs"]);
        command.args(["--storage-driver", "vfs", "--events-backend", "none"]);
        command.args(arguments).output().expect("Podman")
    }

    /// A container of a pod with a claim. The options and the command follow.
    fn container(&self, pod: &str, uid: &str, options: &[&str], command: &str) -> String {
        fs::write(self.job(pod), "0").expect("a file");
        let annotations = [
            format!("--annotation=io.kubernetes.cri.sandbox-name={pod}"),
            "--annotation=io.kubernetes.cri.sandbox-namespace=ml".to_owned(),
            "--annotation=io.kubernetes.cri.container-name=main".to_owned(),
            format!("--device=xsched.dev/claim={uid}"),
            format!("--volume={}:/jobs", self.folder.join("jobs").display()),
        ];
        let mut all = vec!["run", "--name", pod, "--network", "none"];
        all.extend(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]);
        all.extend(["--device", "nvidia.com/gpu=GPU-a"]);
        all.extend(annotations.iter().map(String::as_str));
        all.extend(options);
        all.extend(["localhost/check", "sh", "-c", command]);
        let output = self.podman(&all);
        assert!(output.status.success(), "{pod}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn job(&self, pod: &str) -> PathBuf {
        self.folder.join("jobs").join(format!("{pod}.run"))
    }

    fn daemon(&self) -> Running {
        let mut command = Command::new(self.folder.join("bin/xschedd"));
        command.arg("--socket").arg(self.socket());
        command.arg("--config").arg(self.folder.join("run/xschedd.toml"));
        let log =
            fs::File::options().create(true).append(true).open(self.folder.join("xschedd.log"));
        command.stdout(Stdio::null()).stderr(log.expect("a file"));
        Running(command.spawn().expect("it starts"))
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("run/socket")
    }

    fn driver(&self, config: &Path) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-kubernetes"));
        command.args(["dra", "--node", "node-1", "--cdi", CDI]).env("KUBECONFIG", config);
        command.arg("--kubelet").arg(self.machine.path("kubelet"));
        command.arg("--xsched").arg(&self.folder).arg("--socket").arg(self.socket());
        command.arg("--root").arg(self.machine.path(""));
        Running(command.spawn().expect("it starts"))
    }

    /// Answer of the daemon for a process of a pod.
    fn process(&self, pod: &str) -> Option<Value> {
        let tenant = format!("pod ml/{pod}/main");
        let processes = self.status()?["processes"].as_array()?.clone();
        processes.into_iter().find(|process| process["tenant"] == tenant.as_str())
    }

    fn grants(&self) -> Option<usize> {
        self.status()?["grants"].as_array().map(Vec::len)
    }

    fn status(&self) -> Option<Value> {
        let mut command = Command::new(self.folder.join("bin/xsched"));
        let output = command.args(["ps", "--json"]).env("XSCHED_SOCKET", self.socket()).output();
        serde_json::from_slice(&output.ok()?.stdout).ok()
    }

    fn done(&self, pod: &str) -> u64 {
        let text = fs::read_to_string(self.job(pod)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    async fn goes_on(&self, pod: &str) {
        let before = self.done(pod);
        until(&format!("{pod} does not go on"), async || (self.done(pod) > before).then_some(()))
            .await;
    }

    async fn has_priority(&self, pod: &str, priority: i64) {
        let what = format!("{pod} has not priority {priority}: {:?}", self.status());
        let is_it = |process: Value| (process["priority"] == priority).then_some(());
        until(&what, async || self.process(pod).and_then(is_it)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root, Podman, and the folder that `cargo xtask kubernetes` makes"]
async fn an_urgent_pod_runs_beside_a_batch_pod_and_no_restart_changes_that() {
    let (stage, api) = (Stage::new(), Api::start().await);
    let config = api.kubeconfig(&stage.machine.path(""));
    let daemon = stage.daemon();
    until("xschedd does not answer", async || stage.status()).await;
    let driver = stage.driver(&config);
    let kubelet = Kubelet::start(&stage.machine).await;
    let claims = [claim("batch", "uid-batch"), claim("urgent", "uid-urgent")];
    api.put_claim("batch", "uid-batch", allocation("batch", "30"));
    api.put_claim("urgent", "uid-urgent", allocation("interactive", "50"));
    let prepared = kubelet.prepare(&claims).await;
    assert!(prepared.iter().all(|answer| answer.error.is_empty()), "{prepared:?}");

    stage.container("train", "uid-batch", &["--detach"], "exec work /jobs/train.run");
    stage.has_priority("train", -100).await;
    stage.goes_on("train").await;
    let said = stage.container("serve", "uid-urgent", &[], "exec work /jobs/serve.run 4000");
    assert!(said.contains("right 4000"), "{said}");
    let batch = stage.process("train").expect("it is there");
    assert!(batch["holds"].as_u64().expect("a number") > 3, "{batch}");
    println!("the batch pod was held {} times for {} ms", batch["holds"], batch["held_ms"]);
    stage.goes_on("train").await;

    let more = "xsched ctl grant --pid 1 --class interactive && echo RAISED
        xsched ctl revoke 'pod ml/train/main' && echo RAISED
        exec work /jobs/other.run 100";
    let wishes = ["--env", "XSCHED_AUTO_XQUEUE_PRIORITY=200"];
    let said = stage.container("other", "uid-batch", &wishes, more);
    assert!(said.contains("right 100") && !said.contains("RAISED"), "{said}");

    drop(driver);
    stage.goes_on("train").await;
    drop(daemon);
    stage.goes_on("train").await;
    let _daemon = stage.daemon();
    stage.has_priority("train", -100).await;
    let _driver = stage.driver(&config);
    let kubelet = Kubelet::start(&stage.machine).await;
    assert_eq!(kubelet.prepare(&claims).await, prepared);
    stage.goes_on("train").await;

    fs::remove_file(stage.job("train")).expect("it is there");
    until("the container stays", async || {
        let removed = stage.podman(&["rm", "--force", "--time", "1", "--ignore", "train"]);
        removed.status.success().then_some(())
    })
    .await;
    until("a grant stays", async || stage.grants().filter(|count| *count == 0)).await;
    assert_eq!(kubelet.unprepare(&claims).await, ["", ""]);
    assert!(!Path::new(CDI).join("xsched-claim-uid-batch.json").exists());
}
