//! The processes of a program, looked at while they run: which of them loaded a vendor's library,
//! and whether with an interposer in front of it. What ends between two looks is not seen.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::probe;

/// A process that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// File of the process's program.
    pub(super) program: PathBuf,
    /// A vendor's library that it has loaded.
    pub(super) driver: Option<String>,
    /// An interposer is loaded.
    pub(super) is_interposed: bool,
}

/// All processes that come from one.
#[derive(Debug)]
pub(super) struct Watch {
    proc: PathBuf,
    interposers: Vec<PathBuf>,
    seen: BTreeMap<u32, Seen>,
}

impl Watch {
    /// Of this process and those that it starts.
    pub(super) fn new(root: &Path, pid: u32, interposers: &[PathBuf]) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        Self {
            proc: root.join("proc"),
            interposers: interposers.iter().map(real).collect(),
            seen: BTreeMap::from([(pid, Seen::default())]),
        }
    }

    /// Looks once.
    pub(super) fn look(&mut self) {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut parents: Vec<_> = pids.filter_map(|pid| Some((pid, self.parent(pid)?))).collect();
        parents.sort_unstable();
        // Until no child is new: numbers wrap around, so a child's may be less than its parent's.
        loop {
            let is_new = |(pid, parent): &&(u32, u32)| {
                self.seen.contains_key(parent) && !self.seen.contains_key(pid)
            };
            let new: Vec<_> = parents.iter().filter(is_new).map(|(pid, _)| *pid).collect();
            if new.is_empty() {
                break;
            }
            self.seen.extend(new.into_iter().map(|pid| (pid, Seen::default())));
        }
        let running: Vec<_> = parents.into_iter().map(|(pid, _)| pid).collect();
        for pid in running {
            if self.seen.get(&pid).is_some_and(|seen| seen.driver.is_none()) {
                let now = self.see(pid);
                self.seen.insert(pid, now);
            }
        }
    }

    /// Returns the processes that were seen, by their numbers.
    pub(super) fn seen(self) -> BTreeMap<u32, Seen> {
        self.seen
    }

    /// The fourth field of its status, behind the name, which may have anything in it.
    fn parent(&self, pid: u32) -> Option<u32> {
        let status = fs::read_to_string(self.proc.join(format!("{pid}/stat"))).ok()?;
        let (_, fields) = status.rsplit_once(") ")?;
        fields.split(' ').nth(1)?.parse().ok()
    }

    fn see(&self, pid: u32) -> Seen {
        let folder = self.proc.join(pid.to_string());
        let maps = fs::read_to_string(folder.join("maps")).unwrap_or_default();
        let names = self.interposers.iter().map(|path| path.display().to_string());
        let is_interposed = names.into_iter().any(|path| maps.contains(&path));
        let drivers = probe::mapped(&maps, &self.interposers);
        Seen {
            program: fs::read_link(folder.join("exe")).unwrap_or_default(),
            driver: drivers.into_iter().find(|path| !path.contains("libnvidia-ml")),
            is_interposed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn children_are_seen_and_other_processes_are_not() {
        let root = tempfile::tempdir().expect("a folder");
        let process = |pid: u32, parent: u32, maps: &str| {
            let folder = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).expect("a folder");
            let stat = format!("{pid} (a) b) c) S {parent} 1 1");
            fs::write(folder.join("stat"), stat).expect("a file");
            fs::write(folder.join("maps"), maps).expect("a file");
            let _ = symlink(format!("/bin/p{pid}"), folder.join("exe"));
        };
        let driver = "0-1 r-xp 0 0:0 1 /lib/libcuda.so.1\n";
        // What lies with an interposer is no driver, whatever its name is.
        process(10, 1, "0-1 r-xp 0 0:0 1 /x/libamdhip64.so.6\n");
        process(11, 10, "0-1 r-xp 0 0:0 1 /x/libshimcuda.so\n0-1 r-xp 0 0:0 1 /lib/libcuda.so.1\n");
        process(9, 11, driver);
        process(12, 1, driver);
        let mut watch = Watch::new(root.path(), 10, &[PathBuf::from("/x/libshimcuda.so")]);
        watch.look();
        let seen = watch.seen();
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [9, 10, 11]);
        assert!(seen[&11].is_interposed && !seen[&9].is_interposed);
        assert_eq!(seen[&9].driver.as_deref(), Some("/lib/libcuda.so.1"));
        assert_eq!((&seen[&9].program, &seen[&10].driver), (&PathBuf::from("/bin/p9"), &None));
    }
}
