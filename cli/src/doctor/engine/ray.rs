//! Checks whether this node's Ray was started with the plugin.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Findings;
use crate::doctor::mps::processes;

const RAYLET: &str = "raylet";
const PLUGIN: &str = "xsched_ray.Plugin";
/// Variable that names plugins to Ray's agent of the node.
const PLUGINS: &str = "RAY_RUNTIME_ENV_PLUGINS";
/// Variable that names this command to the plugin.
const COMMAND: &str = "XSCHED_RAY_COMMAND";
const SOCKET: &str = "XSCHED_SOCKET";

impl Findings {
    pub(super) fn ray(&mut self, root: &Path) {
        let raylets = processes(root, RAYLET);
        if raylets.is_empty() {
            return self.miss("no raylet runs on this node", "run this after `ray start`");
        }
        for pid in raylets {
            let folder = root.join(format!("proc/{pid}"));
            // Its agent, which runs the plugin, has the environment of the raylet.
            match fs::read(folder.join("environ")) {
                Ok(text) => {
                    let uid = fs::metadata(&folder).map(|about| about.uid());
                    self.raylet(pid, uid.ok(), &Variables(text));
                }
                Err(error) => self.miss(
                    format!("the environment of raylet {pid} cannot be read ({error})"),
                    "run this as the user who started Ray, or as root",
                ),
            }
        }
    }

    fn raylet(&mut self, pid: u32, uid: Option<u32>, variables: &Variables) {
        let limits = match uid {
            Some(0) => "root's: each worker has a grant".to_owned(),
            Some(uid) => {
                format!("of user {uid}: a tenant of that user, or of its cgroup, limits it")
            }
            None => "gone meanwhile".to_owned(),
        };
        self.say("raylet", format!("{pid}, {limits}"));
        let plugins = variables.get(PLUGINS).unwrap_or_default();
        if plugins.contains(PLUGIN) {
            self.say("plugin", plugins);
        } else {
            self.miss(
                format!("raylet {pid} has no plugin: it ignores `xsched` in a runtime_env"),
                format!("`export {PLUGINS}='[{{\"class\": \"{PLUGIN}\"}}]'` before `ray start`"),
            );
        }
        if let Some(socket) = variables.get(SOCKET) {
            self.say("socket", socket);
        }
        match variables.command() {
            Ok(command) => self.say("command", command.display().to_string()),
            Err(place) => self.miss(
                format!("raylet {pid} finds no command xsched in {place}"),
                format!("install the package, or `export {COMMAND}=PATH` before `ray start`"),
            ),
        }
    }
}

/// Variables of a process, as the kernel shows them.
struct Variables(Vec<u8>);

impl Variables {
    fn get(&self, name: &str) -> Option<String> {
        let lines = self.0.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let values =
            lines.filter_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()));
        values.into_iter().find(|value| !value.is_empty())
    }

    /// The command that the plugin starts, or where there is none.
    fn command(&self) -> Result<PathBuf, String> {
        let named = self.get(COMMAND).unwrap_or_else(|| "xsched".to_owned());
        if named.contains('/') {
            return Some(PathBuf::from(&named)).filter(|path| path.is_file()).ok_or(named);
        }
        let path = self.get("PATH").unwrap_or_default();
        let mut files = std::env::split_paths(&path).map(|folder| folder.join(&named));
        files.find(|file| file.is_file()).ok_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::whats;
    use super::*;
    use crate::args::Engine;

    #[test]
    fn a_node_of_ray_needs_a_raylet_with_the_plugin_and_the_command() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let of = || whats(Engine::Ray, root, true);
        assert_eq!(of(), ["no raylet runs on this node"]);
        let folder = root.join("proc/7");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("cmdline"), "/ray/raylet/raylet\0--a=b\0").expect("a file");
        assert!(of()[0].contains("cannot be read"));
        let start = |text: &str| fs::write(folder.join("environ"), text).expect("a file");
        start("PATH=/none\0");
        let found = of();
        assert!(found[0].contains("has no plugin"), "{found:?}");
        assert!(found[1].contains("no command xsched in /none"), "{found:?}");
        let (command, plugins) = (root.join("xsched"), format!("{PLUGINS}=[\"{PLUGIN}\"]"));
        fs::write(&command, "").expect("a file");
        start(&format!("PATH={}\0{plugins}\0", root.display()));
        assert_eq!(of(), [""; 0]);
        start(&format!("{COMMAND}={}\0{plugins}\0", command.display()));
        assert_eq!(of(), [""; 0]);
        start(&format!("PATH={}\0{COMMAND}=/none/xsched\0{plugins}\0", root.display()));
        assert!(of()[0].contains("in /none/xsched"));
    }
}
