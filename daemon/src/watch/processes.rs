//! Processes, as the system has them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::peer_cred::{cgroups, groups};
use crate::tenant::Who;

/// The number of the first pid namespace, which the system gives it always.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Returns whether this process numbers processes as drivers do: outside all containers. `None` if
/// that cannot be read.
pub(super) fn is_outside(root: &Path) -> Option<bool> {
    let space = fs::read_link(root.join("proc/self/ns/pid")).ok()?;
    Some(space.to_str() == Some(FIRST_NAMESPACE))
}

/// Reads who a process is, and its name; nothing of one that has gone.
pub(super) fn about(root: &Path, pid: u32) -> (Option<Who>, String) {
    let folder = root.join("proc").join(pid.to_string());
    let read = |file: &str| fs::read(folder.join(file)).unwrap_or_default();
    let text = |file: &str| String::from_utf8_lossy(&read(file)).into_owned();
    let who = fs::metadata(&folder).ok().map(|about| {
        let mut gids = vec![about.gid()];
        gids.extend(groups(&text("status")));
        Who { uid: about.uid(), gids, cgroups: cgroups(&text("cgroup")) }
    });
    (who, text("comm").chars().filter(|c| !c.is_control()).take(64).collect())
}
