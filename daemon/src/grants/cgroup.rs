//! Cgroups, as folders and as what the kernel says of processes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::GrantError;

/// Bytes of a path at most, as Linux has it (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4_096;

/// A cgroup. Its number is never that of another while its hierarchy is mounted, though its path
/// may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cgroup {
    folder: PathBuf,
    /// Controllers of its hierarchy, as in `/proc/PID/cgroup`; empty for version 2.
    pub(super) hierarchy: String,
    /// Path from the root of the hierarchy.
    pub(super) path: String,
    device: u64,
    inode: u64,
}

impl Cgroup {
    /// The cgroup of this folder. No folder outside a cgroup file system is looked at, as one of a
    /// network may hang.
    pub(super) fn of_folder(folder: &str) -> Result<Self, GrantError> {
        let read = |file: &str| fs::read_to_string(file).map_err(GrantError::Proc);
        let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
        let (hierarchy, path) = place(folder, &mounts, &own)?;
        let failed = |source| GrantError::Folder { folder: folder.to_owned(), source };
        let about = fs::symlink_metadata(folder).map_err(failed)?;
        if !about.is_dir() {
            return Err(GrantError::NoCgroup { folder: folder.to_owned() });
        }
        let (device, inode) = (about.dev(), about.ino());
        Ok(Self { folder: folder.into(), hierarchy, path, device, inode })
    }

    /// Returns whether the cgroup is still there, and not another one of the same name.
    pub(super) fn is_there(&self) -> io::Result<bool> {
        match fs::symlink_metadata(&self.folder) {
            Ok(about) => Ok((about.dev(), about.ino()) == (self.device, self.inode)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a process with these cgroups is in this one or below it.
    pub(super) fn has(&self, cgroups: &[(String, String)]) -> bool {
        cgroups
            .iter()
            .any(|(hierarchy, path)| *hierarchy == self.hierarchy && is_within(path, &self.path))
    }
}

/// Folders of the cgroups that a process is in, but for roots of hierarchies.
///
/// # Errors
/// If they cannot be read.
pub fn folders(pid: i32) -> io::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(folders_in(&mounts, &fs::read_to_string(format!("/proc/{pid}/cgroup"))?))
}

fn folders_in(mounts: &str, of_process: &str) -> Vec<PathBuf> {
    let folder = |(hierarchy, path): (String, String)| {
        let mut around = mounts.lines().filter_map(Mount::of).filter(|mount| match mount.kind {
            "cgroup2" => hierarchy.is_empty(),
            "cgroup" => mount.has(&hierarchy),
            _ => false,
        });
        around.find_map(|mount| {
            let below = Path::new(&path).strip_prefix(&mount.root).ok()?;
            (!below.as_os_str().is_empty()).then(|| mount.point.join(below))
        })
    };
    hierarchies(of_process).into_iter().filter_map(folder).collect()
}

/// Returns whether a path is another one or below it.
pub(super) fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The hierarchies and paths in `/proc/PID/cgroup`. A line is `NUMBER:CONTROLLERS:PATH`.
pub(super) fn hierarchies(text: &str) -> Vec<(String, String)> {
    let parts = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1).map(str::to_owned);
        parts.next().zip(parts.next())
    };
    text.lines().filter_map(parts).collect()
}

/// Hierarchy and path of the cgroup with this folder, by `/proc/self/mountinfo` and
/// `/proc/self/cgroup`.
fn place(folder: &str, mounts: &str, own: &str) -> Result<(String, String), GrantError> {
    let wrong = || GrantError::NoCgroup { folder: folder.chars().take(128).collect() };
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let path = Path::new(folder);
    let has_hidden = folder.chars().any(char::is_control) || folder.len() > PATH_BYTES_MAX;
    if !path.is_absolute() || has_hidden || !path.components().all(is_plain) {
        return Err(wrong());
    }
    // The last of those that are mounted at a place is the one that is seen there.
    let around = mounts.lines().filter_map(Mount::of).filter(|m| path.starts_with(&m.point));
    let mount = around.max_by_key(|mount| mount.point.components().count()).ok_or_else(wrong)?;
    let hierarchy = match mount.kind {
        "cgroup2" => String::new(),
        "cgroup" => {
            let mut own = hierarchies(own).into_iter().map(|(controllers, _)| controllers);
            own.find(|controllers| mount.has(controllers)).ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    let below = path.strip_prefix(&mount.point).map_err(|_| wrong())?;
    let full = Path::new(&mount.root).join(below);
    // A root above that of this cgroup namespace has two points.
    if !full.components().all(is_plain) {
        return Err(wrong());
    }
    match full.to_str() {
        Some("/") => Err(GrantError::Root),
        Some(full) => Ok((hierarchy, full.trim_end_matches('/').to_owned())),
        None => Err(wrong()),
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    root: String,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (place, about) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (unescaped(place.next()?), unescaped(place.next()?).into());
        let mut about = about.split(' ');
        let kind = about.next()?;
        Some(Self { root, point, kind, options: about.nth(1)? })
    }

    /// Returns whether this is the hierarchy of version 1 with these controllers.
    fn has(&self, controllers: &str) -> bool {
        let is_there = |one: &str| self.options.split(',').any(|option| option == one);
        !controllers.is_empty() && controllers.split(',').all(is_there)
    }
}

/// A path without the escapes of the kernel: `\040` is a space.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut all, part| {
        let code = part.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                all.push(char::from(code));
                all.push_str(part.get(3..).unwrap_or_default());
            }
            None => all.push_str(part),
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
25 1 0:20 / / rw - ext4 /dev/root rw
30 25 0:26 / /sys/fs/cgroup rw shared:1 - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
34 30 0:30 /pods /sys/fs/cgroup/a\\040b rw - cgroup cgroup rw,xattr,name=systemd
35 32 0:31 / /sys/fs/cgroup/freezer/over rw - tmpfs tmpfs rw
36 25 0:29 /../.. /ns rw - cgroup2 cgroup2 rw
";
    const OWN: &str = "4:freezer:/\n3:cpu,cpuacct:/\n1:name=systemd:/x\n0::/\n";

    fn found(folder: &str) -> Result<(String, String), String> {
        place(folder, MOUNTS, OWN).map_err(|error| error.to_string())
    }

    #[test]
    fn a_folder_is_a_path_in_a_hierarchy() {
        let of = |hierarchy: &str, path: &str| Ok((hierarchy.to_owned(), path.to_owned()));
        assert_eq!(found("/sys/fs/cgroup/freezer/slurm/job_7"), of("freezer", "/slurm/job_7"));
        assert_eq!(found("/sys/fs/cgroup/cpu,cpuacct/a/"), of("cpu,cpuacct", "/a"));
        assert_eq!(found("/sys/fs/cgroup/unified/a:b"), of("", "/a:b"));
        assert_eq!(found("/sys/fs/cgroup/a b/pod1"), of("name=systemd", "/pods/pod1"));
    }

    #[test]
    fn a_process_has_the_folders_that_are_its_cgroups() {
        let of = |text: &str| folders_in(MOUNTS, text);
        let own = "4:freezer:/job\n3:cpu,cpuacct:/\n1:name=systemd:/pods/a\n9:none:/x\n0::/b\n";
        let folders = ["/sys/fs/cgroup/freezer/job", "/sys/fs/cgroup/a b/a"];
        assert_eq!(of(own)[..2], folders.map(PathBuf::from));
        assert_eq!(of(own)[2..], [PathBuf::from("/sys/fs/cgroup/unified/b")]);
        assert!(of("nonsense").is_empty());
    }

    #[test]
    fn other_folders_are_refused_unseen() {
        for folder in [
            "",
            "job",
            "/",
            "/etc",
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/x",
            "/sys/fs/cgroup/freezer/../x",
            "/sys/fs/cgroup/freezer/over/x",
            "/sys/fs/cgroup/freezer/a\nb",
            "/ns/x",
            &format!("/sys/fs/cgroup/freezer/{}", "x".repeat(PATH_BYTES_MAX)),
        ] {
            assert!(found(folder).is_err_and(|why| why.contains("is no folder")), "{folder}");
        }
        let why = found("/sys/fs/cgroup/freezer").expect_err("the root");
        assert!(why.contains("all processes"), "{why}");
    }

    #[test]
    fn a_process_is_in_a_cgroup_by_hierarchy_and_whole_names() {
        let cgroup = Cgroup {
            folder: "/f/a".into(),
            hierarchy: "freezer".to_owned(),
            path: "/a".to_owned(),
            device: 1,
            inode: 2,
        };
        let has = |text: &str| cgroup.has(&hierarchies(text));
        assert!(has("3:freezer:/a\n") && has("1:cpu:/\n3:freezer:/a/b\n"));
        assert!(!has("3:freezer:/ab\n") && !has("0::/a\n") && !has("3:freezer:/\n"));
        assert!(!has("nonsense\n") && !has(""));
    }
}
