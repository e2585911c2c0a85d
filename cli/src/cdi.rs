//! Container Device Interface: devices `xsched.dev/class=CLASS`, by which container engines have
//! the programs of a container be scheduled.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use xsched_console::Ending;
use xsched_launch::{Class, Interposers, Scheduling};
use xsched_node::{Grant, Grantee, Request, SocketPath};

use crate::args::{Cdi, CdiArgs};
use crate::contract::{interposers, json, variables};
use crate::error::CliError;
use crate::node::PATIENCE;

/// The first version that has hooks and mounts with options; Podman 4.3 takes no later one.
const VERSION: &str = "0.5.0";
const KIND: &str = "xsched.dev/class";
/// The places in a container.
const LIBRARIES: &str = "/usr/lib/xsched";
const SOCKETS: &str = "/run/xsched";
/// The loader's list of files to load first: unlike `LD_PRELOAD` it takes the place of no variable
/// of the image, and survives `env -i`.
const PRELOAD: &str = "/etc/ld.so.preload";
/// The daemon's socket on the node, unless `XSCHED_SOCKET` names another.
const SOCKET: &str = "/run/xsched/socket";

/// Changes of a container.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edits {
    env: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<Mount>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<Hook>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: PathBuf,
    container_path: &'static str,
    options: [&'static str; 4],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Hook {
    hook_name: &'static str,
    path: PathBuf,
    args: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: Edits,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Specification {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<Device>,
    container_edits: Edits,
}

/// Changes of a container that make what is in it be scheduled, but for the preloaded files.
pub(crate) fn edits(scheduling: &Scheduling, interposers: &Interposers) -> Edits {
    let socket = socket();
    let name = socket.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let variables = variables(scheduling).into_iter();
    let mut env: Vec<_> = variables.map(|(name, value)| format!("{name}={value}")).collect();
    env.push(format!("XSCHED_SOCKET={SOCKETS}/{name}"));
    let folder = socket.parent().unwrap_or(Path::new("/")).to_owned();
    let mounts =
        vec![Mount::new(folder, SOCKETS), Mount::new(interposers.folder().to_owned(), LIBRARIES)];
    Edits { env, mounts, hooks: Vec::new() }
}

impl Edits {
    /// These, and one more variable.
    pub(crate) fn with(mut self, variable: String) -> Self {
        self.env.push(variable);
        self
    }
}

impl Mount {
    fn new(host_path: PathBuf, container_path: &'static str) -> Self {
        Self { host_path, container_path, options: ["ro", "nosuid", "nodev", "bind"] }
    }
}

fn socket() -> PathBuf {
    let set = std::env::var_os("XSCHED_SOCKET").filter(|socket| !socket.is_empty());
    set.map_or_else(|| SOCKET.into(), PathBuf::from)
}

/// Paths in a container of the files to load first.
pub(crate) fn preloaded(interposers: &Interposers) -> Vec<String> {
    let inside = |file: &PathBuf| {
        let name = file.strip_prefix(interposers.folder()).unwrap_or(file);
        Path::new(LIBRARIES).join(name).to_string_lossy().into_owned()
    };
    interposers.files().iter().map(inside).collect()
}

/// Carries out `xsched cdi`.
pub(crate) fn execute(command: &Cdi) -> Result<Ending, CliError> {
    match command {
        Cdi::Generate(args) => generate(args),
        Cdi::Hook(args) => {
            // A container that did not start for this would be worse than one without a grant.
            if let Err(error) = grant(args.class) {
                eprintln!("xsched: the container has no grant: {error}");
            }
            Ok(Ending::Fine)
        }
    }
}

fn generate(args: &CdiArgs) -> Result<Ending, CliError> {
    let interposers = interposers()?;
    let own = std::env::current_exe();
    let own = own.map_err(|source| CliError::Read { place: "this program".to_owned(), source })?;
    let socket = std::env::var("XSCHED_SOCKET").ok().map(|path| format!("XSCHED_SOCKET={path}"));
    let device = |class: &Class| {
        let name = class.to_possible_value().map(|value| value.get_name().to_owned());
        let name = name.unwrap_or_default();
        let (priority, share, gang, streams) = (None, None, None, false);
        let class = Some(*class);
        let scheduling = Scheduling { class, priority, share, gang, level: 2, streams };
        let words = ["xsched", "cdi", "hook", "--class", &name].map(str::to_owned);
        let hook = Hook {
            hook_name: "createRuntime",
            path: own.clone(),
            args: words.into(),
            env: socket.clone().into_iter().collect(),
        };
        let of_class = edits(&scheduling, &interposers);
        Device { name, container_edits: Edits { hooks: vec![hook], ..of_class } }
    };
    let devices = Class::value_variants().iter().map(device).collect();
    let list = args.out.with_extension("preload");
    let mount = Mount::new(list.clone(), PRELOAD);
    let container_edits = Edits { mounts: vec![mount], ..Edits::default() };
    let specification =
        Specification { cdi_version: VERSION, kind: KIND, devices, container_edits };
    let write = |path: &Path, text: String| {
        let failed = |source| CliError::Write { place: path.display().to_string(), source };
        fs::write(path, text).map_err(failed)
    };
    if let Some(folder) = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let failed = |source| CliError::Write { place: folder.display().to_string(), source };
        fs::create_dir_all(folder).map_err(failed)?;
    }
    write(&list, preloaded(&interposers).join("\n") + "\n")?;
    write(&args.out, json(&specification))?;
    Ok(Ending::Fine)
}

/// State of a container, as the runtime tells its hooks.
#[derive(Debug, Deserialize)]
struct State {
    id: String,
    pid: i32,
}

/// Grants the container of the state on standard input a class: by its cgroup, which has its
/// number in its name, or else by its first process.
fn grant(class: Class) -> Result<(), CliError> {
    let place = || "the state of the container".to_owned();
    let state = serde_json::from_reader::<_, State>(io::stdin().lock());
    let state = state.map_err(|error| CliError::Read { place: place(), source: error.into() })?;
    let folders = xsched_daemon::cgroup_folders(state.pid);
    let folders = folders.map_err(|source| CliError::Read { place: place(), source })?;
    let to = match folders.iter().find_map(|folder| up_to(folder, &state.id)) {
        Some(folder) => Grantee::Cgroup(folder.to_string_lossy().into_owned()),
        None => Grantee::Pid(state.pid),
    };
    // As engines abbreviate them.
    let name = format!("container {}", state.id.chars().take(12).collect::<String>());
    let priority = class.priority();
    let (share, gang) = (None, None);
    let grant = Grant { name, to, priority, priority_max: priority, share, gang };
    let at = SocketPath::from(socket());
    let failed = |source| CliError::Node { at: at.clone(), source };
    let wire = at.connect(PATIENCE).map_err(failed)?;
    wire.ask(&Request::Grant(grant), None).map_err(failed)?;
    Ok(())
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
}
