//! Container Device Interface: devices `xsched.dev/class=CLASS`, by which container engines have
//! the programs of a container be scheduled.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use xsched_console::Ending;
use xsched_launch::cdi::{self, Places};
use xsched_node::{Grant, Grantee, NodeError, Request, SocketPath};

use crate::args::{Cdi, CdiArgs, HookArgs};
use crate::contract::{interposers, json};
use crate::error::CliError;
use crate::node::PATIENCE;

/// The daemon's socket on the node.
pub(crate) fn socket() -> PathBuf {
    let set = std::env::var_os("XSCHED_SOCKET").filter(|socket| !socket.is_empty());
    set.map_or_else(|| cdi::SOCKET.into(), PathBuf::from)
}

/// Carries out `xsched cdi`.
pub(crate) fn execute(command: &Cdi) -> Result<Ending, CliError> {
    match command {
        Cdi::Generate(args) => generate(args),
        Cdi::Hook(args) => {
            // A container that did not start for this would be worse than one without a grant.
            if let Err(error) = grant(args) {
                eprintln!("xsched: the container has no grant: {error}");
            }
            Ok(Ending::Fine)
        }
    }
}

fn generate(args: &CdiArgs) -> Result<Ending, CliError> {
    let own = std::env::current_exe();
    let own = own.map_err(|source| CliError::Read { place: "this program".to_owned(), source })?;
    let list = args.out.with_extension("preload");
    let places = Places { xsched: own, interposers: interposers()?, socket: socket(), list };
    let failed = |path: &Path| {
        let place = path.display().to_string();
        move |source| CliError::Write { place, source }
    };
    if let Some(folder) = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed(folder))?;
    }
    places.write_list().map_err(failed(&places.list))?;
    fs::write(&args.out, json(&places.classes())).map_err(failed(&args.out))?;
    Ok(Ending::Fine)
}

/// State of a container, as the runtime tells its hooks.
#[derive(Debug, Deserialize)]
struct State {
    id: String,
    pid: i32,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Annotations by which containerd, and CRI-O, say of which pod a container is: namespace and name
/// of the pod, and name of the container in it.
const PODS: [[&str; 3]; 2] = [
    [
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.sandbox-name",
        "io.kubernetes.cri.container-name",
    ],
    ["io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name"],
];
/// Characters of a grant's name at most.
const NAME_MAX: usize = 64;

impl State {
    /// The name that engines abbreviate its number to.
    fn number(&self) -> String {
        self.id.chars().take(12).collect()
    }

    /// Name of its pod and its name in it, if an engine of Kubernetes says so.
    fn in_pod(&self) -> Option<String> {
        let of = |keys: &[&str; 3]| {
            let parts: Option<Vec<_>> =
                keys.iter().map(|key| self.annotations.get(*key).map(String::as_str)).collect();
            parts.map(|parts| format!("pod {}", parts.join("/")))
        };
        let name = PODS.iter().find_map(of)?;
        if name.chars().any(char::is_control) {
            return None;
        }
        if name.chars().count() <= NAME_MAX {
            return Some(name);
        }
        let number = self.number();
        let begin: String = name.chars().take(NAME_MAX - 2 - number.chars().count()).collect();
        Some(format!("{begin}… {number}"))
    }
}

/// Grants the container of the state on standard input a class: by its cgroup, which has its
/// number in its name, or else by its first process.
fn grant(args: &HookArgs) -> Result<(), CliError> {
    let place = || "the state of the container".to_owned();
    let state = serde_json::from_reader::<_, State>(io::stdin().lock());
    let state = state.map_err(|error| CliError::Read { place: place(), source: error.into() })?;
    let folders = xsched_daemon::cgroup_folders(state.pid);
    let folders = folders.map_err(|source| CliError::Read { place: place(), source })?;
    let to = match folders.iter().find_map(|folder| up_to(folder, &state.id)) {
        Some(folder) => Grantee::Cgroup(folder.to_string_lossy().into_owned()),
        None => Grantee::Pid(state.pid),
    };
    let at = SocketPath::from(socket());
    let ask = |name: String| {
        let priority = args.class.priority();
        let (to, share, gang) = (to.clone(), args.share, args.gang.clone());
        let grant = Grant { name, to, priority, priority_max: priority, share, gang };
        let grant = Request::Grant(grant);
        at.ask(PATIENCE, |wire| wire.ask(&grant, None).map(drop))
    };
    let name = format!("container {}", state.number());
    let asked = match state.in_pod() {
        // The container before it of this name may still be there.
        Some(in_pod) => ask(in_pod).or_else(|error| match error {
            NodeError::Refused(_) => ask(name),
            error => Err(error),
        }),
        None => ask(name),
    };
    asked.map_err(|source| CliError::Node { at: at.clone(), source })
}

/// The outermost folder of a path with this text in its name.
fn up_to<'a>(folder: &'a Path, id: &str) -> Option<&'a Path> {
    let has_id = |folder: &&Path| {
        let name = folder.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.contains(id))
    };
    folder.ancestors().filter(has_id).last().filter(|_| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_s_cgroup_has_its_number() {
        let of = |path: &'static str| up_to(Path::new(path), "4f1c");
        assert_eq!(
            of("/sys/fs/cgroup/libpod-4f1c/step"),
            Some(Path::new("/sys/fs/cgroup/libpod-4f1c"))
        );
        assert_eq!(of("/sys/fs/cgroup/pod/4f1c"), Some(Path::new("/sys/fs/cgroup/pod/4f1c")));
        assert_eq!(of("/sys/fs/cgroup"), None);
        assert_eq!(up_to(Path::new("/a/b"), ""), None);
    }

    fn state(annotations: &[(&str, &str)]) -> State {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let annotations = annotations.iter().map(owned).collect();
        State { id: "0123456789abcdef".to_owned(), pid: 1, annotations }
    }

    #[test]
    fn a_container_of_a_pod_has_the_pod_s_name() {
        let of = |keys: [&str; 3], values: [&str; 3]| {
            let pairs: Vec<_> = keys.into_iter().zip(values).collect();
            state(&pairs).in_pod()
        };
        let usual = Some("pod ml/train-0/main".to_owned());
        assert_eq!(PODS.map(|keys| of(keys, ["ml", "train-0", "main"])), [usual.clone(), usual]);
        assert_eq!(state(&[(PODS[0][0], "ml")]).in_pod(), None);
        assert_eq!(of(PODS[0], ["ml", "train\n", "main"]), None);
        let long = of(PODS[0], ["ml", &"x".repeat(253), "main"]).expect("a name");
        assert_eq!(long.chars().count(), NAME_MAX);
        assert!(long.starts_with("pod ml/xxx") && long.ends_with("… 0123456789ab"), "{long}");
    }
}
