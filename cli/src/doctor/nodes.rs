//! The files by which programs reach the vendors' GPUs, and who may open them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::Serialize;

use super::problem::Problem;

/// Files that every CUDA program opens, beside one for each GPU.
const NVIDIA: [&str; 2] = ["dev/nvidiactl", "dev/nvidia-uvm"];
const KFD: &str = "dev/kfd";
/// The vendors' numbers, as sysfs has them.
const VENDORS: [&str; 2] = ["0x10de", "0x1002"];

/// A device file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Node {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Permissions of the file, as in `0660`.
    pub(super) mode: String,
    /// Group of the file, by its name if that is known.
    pub(super) group: String,
    /// True if this user may read and write the file.
    pub(super) usable: bool,
}

/// All of them, and what is wrong with them.
pub(super) fn find(root: &Path) -> (Vec<Node>, Vec<Problem>) {
    let nodes: Vec<_> = paths(root).iter().filter_map(|path| node(root, path)).collect();
    let closed = nodes.iter().filter(|node| !node.usable).map(|node| {
        Problem::new(
            format!("you may not read and write {} ({})", node.path.display(), node.mode),
            format!("join the group {}, or have an administrator change its rights", node.group),
        )
    });
    let mut problems: Vec<_> = closed.collect();
    let container = "in a container, run it with its GPUs";
    if root.join("sys/module/nvidia").exists() {
        let missing = NVIDIA.iter().map(|path| root.join(path)).filter(|path| !path.exists());
        problems.extend(missing.map(|path| {
            let what = format!("NVIDIA's module is loaded, and there is no {}", path.display());
            Problem::new(what, format!("run `nvidia-modprobe -u -c 0` as root; {container}"))
        }));
    }
    if root.join("sys/module/amdgpu").exists() && !root.join(KFD).exists() {
        let what = format!("AMD's module is loaded, and there is no {}", root.join(KFD).display());
        let action = format!("use a kernel with CONFIG_HSA_AMD; {container} (`--device /dev/kfd`)");
        problems.push(Problem::new(what, action));
    }
    (nodes, problems)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn paths(root: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let is_gpu = |name: &String| {
        let number = name.strip_prefix("nvidia");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let gpus = names(&root.join("dev")).into_iter().filter(is_gpu);
    paths.extend(gpus.map(|name| root.join("dev").join(name)));
    paths.extend(NVIDIA.iter().chain([&KFD]).map(|path| root.join(path)));
    let render = names(&root.join("dev/dri")).into_iter().filter(|name| {
        let vendor = root.join("sys/class/drm").join(name).join("device/vendor");
        let vendor = fs::read_to_string(vendor).unwrap_or_default();
        name.starts_with("renderD") && VENDORS.contains(&vendor.trim())
    });
    paths.extend(render.map(|name| root.join("dev/dri").join(name)));
    paths
}

fn node(root: &Path, path: &Path) -> Option<Node> {
    let about = fs::metadata(path).ok()?;
    let groups = fs::read_to_string(root.join("etc/group")).unwrap_or_default();
    let group = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(about.gid())).then(|| name.to_owned())
    });
    Some(Node {
        path: path.to_owned(),
        mode: format!("{:04o}", about.mode() & 0o7777),
        group: group.unwrap_or_else(|| about.gid().to_string()),
        usable: access(path, Access::READ_OK | Access::WRITE_OK).is_ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn files_of_gpus_are_found_and_no_others() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(find(root.path()), (vec![], vec![]));
        for file in ["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps", "kfd", "null"] {
            write(root.path(), &format!("dev/{file}"), "");
        }
        for (render, vendor) in [("renderD128", "0x1002\n"), ("renderD129", "0x8086\n")] {
            write(root.path(), &format!("dev/dri/{render}"), "");
            write(root.path(), &format!("sys/class/drm/{render}/device/vendor"), vendor);
        }
        let gid = fs::metadata(root.path()).expect("a folder").gid();
        write(root.path(), "etc/group", &format!("other:x:4294967295:\nours:x:{gid}:me\n"));
        let (nodes, problems) = find(root.path());
        assert_eq!(problems, []);
        let names: Vec<_> = nodes.iter().map(|node| node.path.file_name().expect("one")).collect();
        assert_eq!(names, ["nvidia0", "nvidiactl", "nvidia-uvm", "kfd", "renderD128"]);
        assert!(nodes.iter().all(|node| node.usable && node.group == "ours"), "{nodes:?}");
    }

    #[test]
    fn modules_without_files_are_problems() {
        let root = tempfile::tempdir().expect("a folder");
        for module in ["nvidia", "amdgpu"] {
            fs::create_dir_all(root.path().join("sys/module").join(module)).expect("a folder");
        }
        let (_, problems) = find(root.path());
        assert_eq!(problems.len(), 3, "{problems:?}");
    }
}
