//! Checks whether this node is set up for a cluster's engine.

mod ray;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::daemon::Daemon;
use super::problem::Problem;
use crate::args::Engine;

/// The number of the form of the JSON document.
const SCHEMA: u32 = 1;

/// Facts about an engine, and what is wrong; everything, as `--json` writes it.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    schema: u32,
    version: &'static str,
    pub(super) engine: Engine,
    pub(super) facts: Vec<Fact>,
    /// Checks that failed: something is missing or wrong.
    pub(super) problems: Vec<Problem>,
    /// Parts of the set-up that work, but not for everything or not for long.
    pub(super) warnings: Vec<Problem>,
}

/// A fact about an engine.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) value: String,
}

/// Where container engines look for devices, the later before the earlier.
const DEVICES: [&str; 3] = ["etc/cdi", "var/run/cdi", "run/cdi"];
const KIND: &str = "xsched.dev/class";
const PLUGIN: &str = "spank_xsched.so";
/// Sockets of the driver and of the device plugin in the kubelet's folder.
const KUBELET: &str = "var/lib/kubelet";
const DRIVER: &str = "plugins_registry/gpu.xsched.dev-reg.sock";
const DEVICE_PLUGIN: &str = "device-plugins/xsched-batch.sock";
/// Kinds of the vendors' container devices, and the modules of their drivers.
const VENDORS: [(&str, &str, &str); 2] = [
    (
        "nvidia.com/gpu",
        "sys/module/nvidia",
        "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    ),
    ("amd.com/gpu", "sys/module/amdgpu", "amd-ctk cdi generate --output=/etc/cdi/amd.json"),
];

impl Findings {
    /// Looks at a machine whose files are below `root`; `slurm_conf` is what `SLURM_CONF` says.
    pub(super) fn of(
        engine: Engine,
        root: &Path,
        slurm_conf: Option<PathBuf>,
        daemon: &Daemon,
    ) -> Self {
        let mut findings = Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            engine,
            facts: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        match &daemon.policy {
            Some(policy) => findings.say("xschedd", format!("answers, policy {policy}")),
            None => findings.miss(
                format!("xschedd does not answer at {}", daemon.sockets),
                "start it on this node, as by `systemctl enable --now xschedd.socket`",
            ),
        }
        match engine {
            Engine::Slurm => {
                let file = slurm_conf.unwrap_or_else(|| root.join("etc/slurm/slurm.conf"));
                findings.slurm(&file);
            }
            Engine::Podman => findings.podman(root),
            Engine::Kubernetes => findings.kubernetes(root),
            Engine::Ray => findings.ray(root),
        }
        findings
    }

    fn say(&mut self, name: &'static str, value: impl Into<String>) {
        self.facts.push(Fact { name, value: value.into() });
    }

    fn miss(&mut self, what: impl Into<String>, action: impl Into<String>) {
        self.problems.push(Problem::new(what, action));
    }

    fn warn(&mut self, what: impl Into<String>, action: impl Into<String>) {
        self.warnings.push(Problem::new(what, action));
    }

    fn slurm(&mut self, file: &Path) {
        let Ok(text) = fs::read_to_string(file) else {
            let what = format!("{} cannot be read", file.display());
            return self.miss(what, "run this on a node of the cluster, or set SLURM_CONF");
        };
        self.say("slurm.conf", file.display().to_string());
        let tracks = value(&text, "ProctrackType").unwrap_or("proctrack/cgroup");
        self.say("tracks by", tracks);
        if tracks != "proctrack/cgroup" {
            self.warn(
                format!("with {tracks}, a grant is for the first process of each task alone"),
                "set ProctrackType=proctrack/cgroup",
            );
        }
        let beside = || file.with_file_name("plugstack.conf");
        let stack = value(&text, "PlugStackConfig").map_or_else(beside, PathBuf::from);
        let text = fs::read_to_string(&stack).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let Some(line) = lines.into_iter().find(|line| line.contains(PLUGIN)) else {
            let what = format!("{} has no line for {PLUGIN}", stack.display());
            return self.miss(what, "add one that begins with `optional`, and restart slurmd");
        };
        self.say("plugin", line);
        let mut words = line.split_whitespace();
        if words.next() == Some("required") {
            let what = "without its file, a plugin that is `required` makes every srun fail";
            self.warn(what, "write `optional` instead");
        }
        let files = words.filter_map(|word| match word.split_once('=') {
            None => word.starts_with('/').then_some(word),
            Some((key, path)) => (key == "xsched").then_some(path),
        });
        for missing in files.filter(|file| !Path::new(file).exists()) {
            let action = "build the plugin, install xsched, or correct the line";
            self.miss(format!("{missing} is not there"), action);
        }
        if !line.contains(" default") {
            self.say("default", "none: jobs without --xsched are not scheduled");
        }
    }

    fn kubernetes(&mut self, root: &Path) {
        let kubelet = root.join(KUBELET);
        if !kubelet.exists() {
            let what = format!("there is no kubelet in {}", kubelet.display());
            return self.miss(what, "run this on a node of the cluster");
        }
        let parts = [("driver", DRIVER), ("device plugin", DEVICE_PLUGIN)];
        let there = parts.into_iter().find(|(_, socket)| kubelet.join(socket).exists());
        match there {
            Some((part, socket)) => self.say(part, kubelet.join(socket).display().to_string()),
            None => self.miss(
                format!("neither driver nor device plugin has a socket in {}", kubelet.display()),
                "`kubectl apply -k integrations/kubernetes/deploy/dra`, and see its pod's log",
            ),
        }
        let texts: Vec<_> =
            device_files(root).filter_map(|file| fs::read_to_string(file).ok()).collect();
        let claims = device_files(root).filter(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("xsched-claim-")
        });
        self.say("claims", claims.count().to_string());
        for (kind, module, command) in VENDORS {
            if root.join(module).exists() && !texts.iter().any(|text| text.contains(kind)) {
                let what =
                    format!("there is no container device {kind}, without which no pod starts");
                self.miss(what, format!("run `{command}` as root"));
            }
        }
    }

    fn podman(&mut self, root: &Path) {
        let parsed = device_files(root).filter_map(|file| {
            let text = fs::read_to_string(&file).ok()?;
            let json: serde_json::Value = serde_json::from_str(&text).ok()?;
            (json["kind"] == KIND).then_some((file, json))
        });
        let Some((file, json)) = parsed.last() else {
            let what = format!("there is no container device {KIND}");
            return self.miss(what, "run `xsched cdi generate` as root");
        };
        self.say("devices", file.display().to_string());
        let mut missing: Vec<_> = paths(&json).filter(|path| !Path::new(path).exists()).collect();
        missing.sort_unstable();
        missing.dedup();
        for path in missing {
            let what = format!("{path}, which containers get, is not there");
            self.miss(what, "run `xsched cdi generate` again, and start xschedd");
        }
    }
}

/// Files in which container devices may be.
fn device_files(root: &Path) -> impl Iterator<Item = PathBuf> {
    let folders = DEVICES.map(|folder| root.join(folder)).into_iter();
    let entries = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

/// Paths of this machine in a specification of container devices: of mounts and of hooks.
fn paths(json: &serde_json::Value) -> impl Iterator<Item = &str> {
    let devices = json["devices"].as_array().into_iter().flatten();
    let all = devices.chain([json]).map(|of| &of["containerEdits"]);
    all.flat_map(|edits| {
        listed(&edits["mounts"], "hostPath").chain(listed(&edits["hooks"], "path"))
    })
}

/// A text of each item of a list.
fn listed<'a>(list: &'a serde_json::Value, key: &'static str) -> impl Iterator<Item = &'a str> {
    list.as_array().into_iter().flatten().filter_map(move |item| item[key].as_str())
}

/// The value of a key of `slurm.conf`, whose keys are of either case.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut pairs = lines.filter_map(|line| line.split_once('='));
    pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case(key)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use xsched_node::{NodeError, Status};

    use super::*;

    fn daemon(is_there: bool) -> Daemon {
        let status = Status { schema: 3, policy: "hpf".to_owned(), ..Status::default() };
        Daemon::answering(if is_there { Ok(status) } else { Err(NodeError::Closed) })
    }

    fn texts(problems: Vec<Problem>) -> Vec<String> {
        problems.into_iter().map(|problem| problem.what).collect()
    }

    pub(super) fn whats(engine: Engine, root: &Path, is_there: bool) -> Vec<String> {
        texts(Findings::of(engine, root, None, &daemon(is_there)).problems)
    }

    #[test]
    fn a_node_of_slurm_needs_a_daemon_cgroups_and_a_plugin_that_is_there() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let of = |is_there| whats(Engine::Slurm, root, is_there);
        assert_eq!(of(false).len(), 2);
        fs::create_dir_all(root.join("etc/slurm")).expect("a folder");
        let write = |name: &str, text: &str| {
            fs::write(root.join("etc/slurm").join(name), text).expect("a file");
        };
        write("slurm.conf", "ClusterName=a\nproctracktype=proctrack/linuxproc # old\n");
        let found = of(true);
        assert!(found.len() == 1 && found[0].contains("no line"), "{found:?}");
        let warned = || texts(Findings::of(Engine::Slurm, root, None, &daemon(true)).warnings);
        assert!(warned()[0].contains("linuxproc"), "{:?}", warned());
        write("slurm.conf", "ProctrackType=proctrack/cgroup\n");
        write("plugstack.conf", "required /none/spank_xsched.so xsched=/none/xsched\n");
        let found = of(true);
        assert!(found[0].contains("/none/spank") && found[1].contains("/none/xsched"), "{found:?}");
        assert!(warned().len() == 1 && warned()[0].contains("required"), "{:?}", warned());
        let plugin = root.join(PLUGIN);
        fs::write(&plugin, "").expect("a file");
        write("plugstack.conf", &format!("optional {} default=batch\n", plugin.display()));
        assert_eq!(of(true), [""; 0]);
    }

    #[test]
    fn a_node_of_podman_needs_devices_whose_files_are_there() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let of = || whats(Engine::Podman, root, true);
        assert!(of()[0].contains("no container device"));
        fs::create_dir_all(root.join("etc/cdi")).expect("a folder");
        let write = |path: &str| {
            let mount =
                format!("{{\"containerEdits\":{{\"mounts\":[{{\"hostPath\":\"{path}\"}}]}}}}");
            let text = format!("{{\"kind\":\"{KIND}\",\"devices\":[{mount}]}}");
            fs::write(root.join("etc/cdi/x.json"), text).expect("a file");
        };
        write("/none/file");
        assert_eq!(of(), ["/none/file, which containers get, is not there"]);
        write("/");
        assert_eq!(of(), [""; 0]);
    }

    #[test]
    fn a_node_of_kubernetes_needs_a_driver_and_the_vendor_s_devices() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let of = || whats(Engine::Kubernetes, root, true);
        assert!(of()[0].contains("no kubelet"));
        let write = |file: &str, text: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        write("var/lib/kubelet/config.yaml", "");
        assert!(of()[0].contains("neither driver nor device plugin"));
        write(&format!("{KUBELET}/{DRIVER}"), "");
        assert_eq!(of(), [""; 0]);
        write("sys/module/nvidia/version", "");
        assert!(of()[0].contains("no container device nvidia.com/gpu"));
        write("etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n");
        write("run/cdi/xsched-claim-a.json", "{}");
        assert_eq!(of(), [""; 0]);
        let facts = Findings::of(Engine::Kubernetes, root, None, &daemon(true)).facts;
        let claims = Fact { name: "claims", value: "1".to_owned() };
        assert!(facts.contains(&claims), "{facts:?}");
    }
}
