//! Container Device Interface: devices by which container engines have the programs of a container
//! be scheduled.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use crate::{Class, Interposers, Scheduling};

/// The first version that has hooks and mounts with options; Podman 4.3 takes no later one.
const VERSION: &str = "0.5.0";
/// Kind of the devices that are classes.
pub const CLASSES: &str = "xsched.dev/class";
/// The daemon's socket on a node, unless another is named.
pub const SOCKET: &str = "/run/xsched/socket";
/// The places in a container.
const LIBRARIES: &str = "/usr/lib/xsched";
const SOCKETS: &str = "/run/xsched";
/// The loader's list of files to load first: unlike `LD_PRELOAD` it takes the place of no variable
/// of the image, and survives `env -i`.
const PRELOAD: &str = "/etc/ld.so.preload";

/// Changes of a container.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Edits {
    /// Variables, as `NAME=VALUE`.
    pub env: Vec<String>,
    /// Folders and files of the node that it sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Programs of the node that the runtime runs for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
}

/// A folder or a file of the node in a container, which cannot write there.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    host_path: PathBuf,
    container_path: &'static str,
    options: [&'static str; 4],
}

/// A program of the node that the runtime runs for a container.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    hook_name: &'static str,
    path: PathBuf,
    args: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<String>,
}

/// A device, by its name among those of its kind.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Letters, digits and `_-.:`.
    pub name: String,
    /// Changes of a container with it.
    pub container_edits: Edits,
}

/// Devices of a kind.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Specification {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<Device>,
    container_edits: Edits,
}

/// Places on the node that containers get.
#[derive(Clone, Debug)]
pub struct Places {
    /// The command `xsched`, which grants containers their class.
    pub xsched: PathBuf,
    /// Libraries that programs of a container load first.
    pub interposers: Interposers,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// List of the files to load first, which [`Places::write_list`] writes.
    pub list: PathBuf,
}

impl Places {
    /// Writes the list of files to load first.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_list(&self) -> io::Result<()> {
        fs::write(&self.list, preloaded(&self.interposers).join("\n") + "\n")
    }

    /// Changes of a container whose programs are scheduled like this and have it as a grant, but
    /// for the list.
    #[must_use]
    pub fn granted(&self, scheduling: &Scheduling) -> Edits {
        let hook = self.hook(scheduling).into_iter().collect();
        Edits { hooks: hook, ..edits(scheduling, &self.interposers, &self.socket) }
    }

    /// The devices of a kind. All have the list.
    #[must_use]
    pub fn specification(&self, kind: &'static str, devices: Vec<Device>) -> Specification {
        let mounts = vec![Mount::new(self.list.clone(), PRELOAD)];
        let container_edits = Edits { mounts, ..Edits::default() };
        Specification { cdi_version: VERSION, kind, devices, container_edits }
    }

    /// The devices [`CLASSES`].
    #[must_use]
    pub fn classes(&self) -> Specification {
        let device = |class: &Class| Device {
            name: class.name().to_owned(),
            container_edits: self.granted(&Scheduling::of_class(*class)),
        };
        self.specification(CLASSES, Class::value_variants().iter().map(device).collect())
    }

    /// A grant is of a class.
    fn hook(&self, scheduling: &Scheduling) -> Option<Hook> {
        let mut args = ["xsched", "cdi", "hook", "--class"].map(str::to_owned).to_vec();
        args.push(scheduling.class?.name().to_owned());
        args.extend(scheduling.share.map(|share| format!("--share={share}")));
        args.extend(scheduling.gang.as_ref().map(|gang| format!("--gang={gang}")));
        let is_usual = self.socket == Path::new(SOCKET);
        let env = (!is_usual).then(|| format!("XSCHED_SOCKET={}", self.socket.display()));
        let env = env.into_iter().collect();
        Some(Hook { hook_name: "createRuntime", path: self.xsched.clone(), args, env })
    }
}

/// Changes of a container that make what is in it be scheduled, but for the preloaded files.
#[must_use]
pub fn edits(scheduling: &Scheduling, interposers: &Interposers, socket: &Path) -> Edits {
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    let variables = scheduling.of_node().into_iter();
    let mut env: Vec<_> = variables.map(|(name, value)| format!("{name}={value}")).collect();
    env.push(format!("XSCHED_SOCKET={SOCKETS}/{name}"));
    let folder = socket.parent().unwrap_or(Path::new("/")).to_owned();
    let mounts =
        vec![Mount::new(folder, SOCKETS), Mount::new(interposers.folder().to_owned(), LIBRARIES)];
    Edits { env, mounts, hooks: Vec::new() }
}

/// Paths in a container of the files to load first.
#[must_use]
pub fn preloaded(interposers: &Interposers) -> Vec<String> {
    let inside = |file: &PathBuf| {
        let name = file.strip_prefix(interposers.folder()).unwrap_or(file);
        Path::new(LIBRARIES).join(name).to_string_lossy().into_owned()
    };
    interposers.files().iter().map(inside).collect()
}

impl Mount {
    fn new(host_path: PathBuf, container_path: &'static str) -> Self {
        Self { host_path, container_path, options: ["ro", "nosuid", "nodev", "bind"] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_what_it_is_granted_as_variables_too() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [crate::INTERPOSERS[0], crate::LIBRARY] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        let interposers = Interposers::find(&[folder.path().to_owned()]).expect("they are there");
        let list = folder.path().join("list");
        let socket = PathBuf::from("/run/other/s");
        let places = Places { xsched: "/opt/xsched".into(), interposers, socket, list };
        places.write_list().expect("a file");
        let list = fs::read_to_string(&places.list).expect("a file");
        assert_eq!(list, "/usr/lib/xsched/libshimcuda.so\n");

        let json = serde_json::to_value(places.classes()).expect("JSON");
        let names: Vec<_> = json["devices"].as_array().into_iter().flatten().collect();
        assert_eq!(names.len(), 3);
        assert_eq!(json["containerEdits"]["mounts"][0]["containerPath"], PRELOAD);
        let gang = Some("a b".to_owned());
        let scheduling = Scheduling { share: Some(30), gang, ..Scheduling::of_class(Class::Batch) };
        let edits = serde_json::to_value(places.granted(&scheduling)).expect("JSON");
        let env = edits["env"].to_string();
        assert!(env.contains("PRIORITY=-100") && env.contains("XSCHED_SOCKET=/run/xsched/s"));
        let args = edits["hooks"][0]["args"].to_string();
        assert!(args.ends_with(r#""--class","batch","--share=30","--gang=a b"]"#), "{args}");
        assert_eq!(edits["hooks"][0]["env"][0], "XSCHED_SOCKET=/run/other/s");
    }
}
