//! Grants that there are: whom they are for, and where they are kept while no daemon runs.
//!
//! A grant for a cgroup is no longer there once that has gone, and one for a process once that has
//! ended. They are forgotten when they are looked at, once a second at the latest for the first 64:
//! what has ended has no processes.

mod cgroup;
mod kept;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xsched_core::hint::Priority;
use xsched_node::{Grant, Grantee};

use crate::config::CLIENTS_MAX;
use crate::peer_cred::{checked, seen};
use crate::tenant::{DEFAULT, Tenant, Who};
use crate::text::is_name_of_gang;
pub use cgroup::folders as cgroup_folders;
use cgroup::{Cgroup, hierarchies, is_within};

/// Grants at most: one for each process that may be connected.
const GRANTS_MAX: usize = CLIENTS_MAX as usize;

/// Why a grant is not made, ended or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// Name that a grant cannot have.
    #[error("a grant has a name of 1 to 64 characters, without control characters")]
    Name,
    /// Name that is taken.
    #[error(
        "`{0}` is the name of a tenant of the configuration file, or of a grant for other \
         processes; choose another name, or revoke that grant first"
    )]
    Taken(String),
    /// Name of another grant that the processes have.
    #[error("these processes have the grant `{0}` already; revoke it first")]
    Granted(String),
    /// Numbers that cannot be.
    #[error(
        "priorities are -255 to 255, with the highest no lower than the first, and a share is 0 to \
         100 percent"
    )]
    Range,
    /// Name that a gang cannot have.
    #[error("a gang has a name of 1 to 64 characters, without control characters")]
    Gang,
    /// There are too many.
    #[error("there are {GRANTS_MAX} grants already, the most that there can be; revoke some")]
    Full,
    /// Folder of another kind.
    #[error(
        "`{folder}` is no folder of a cgroup that this daemon can see; say one as in \
         /sys/fs/cgroup/job, without links and points"
    )]
    NoCgroup {
        /// The folder.
        folder: String,
    },
    /// Root of a hierarchy.
    #[error(
        "all processes of the machine are below the root of a hierarchy; set up a tenant in the \
         configuration file instead"
    )]
    Root,
    /// Folder that cannot be looked at.
    #[error("the cgroup {folder}: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// Process that is not there.
    #[error("there is no process {0} that this daemon can see")]
    NoProcess(i32),
    /// Grant that is not there.
    #[error("there is no grant `{0}`; `xsched ps` lists them")]
    Unknown(String),
    /// Error at reading what the kernel says of this process.
    #[error("cannot read what the kernel says of this daemon: {0}")]
    Proc(io::Error),
    /// The file of grants cannot be written or read.
    #[error("the file of grants {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Whom a grant is for, so that no other can be taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Subject {
    Cgroup(Cgroup),
    /// A process, and when it began, by the clock of the kernel.
    Process {
        pid: i32,
        started: u64,
    },
}

impl Subject {
    fn of(to: &Grantee) -> Result<Self, GrantError> {
        match to {
            Grantee::Cgroup(folder) => Cgroup::of_folder(folder).map(Self::Cgroup),
            Grantee::Pid(pid) => {
                let started = started(*pid).ok().flatten().ok_or(GrantError::NoProcess(*pid))?;
                Ok(Self::Process { pid: *pid, started })
            }
        }
    }

    fn is_there(&self) -> io::Result<bool> {
        match self {
            Self::Cgroup(cgroup) => cgroup.is_there(),
            Self::Process { pid, started: since } => Ok(started(*pid)? == Some(*since)),
        }
    }
}

/// When a process began, in ticks since the machine did; `None` if there is none.
fn started(pid: i32) -> io::Result<Option<u64>> {
    if pid <= 0 {
        return Ok(None);
    }
    let text = seen(fs::read_to_string(format!("/proc/{pid}/stat")));
    let text = match text {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => None,
        text => text?,
    };
    // The name, which may have any character, ends with the last bracket.
    let rest = text.as_ref().and_then(|text| text.rsplit_once(')'));
    Ok(rest.and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok()))
}

/// A grant, and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    grant: Grant,
    subject: Subject,
}

/// All grants.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// By their names.
    all: BTreeMap<String, Held>,
    /// Names by path and hierarchy, and by process.
    by_cgroup: BTreeMap<(String, String), String>,
    by_pid: BTreeMap<i32, String>,
    /// Where they are kept while no daemon runs.
    file: Option<PathBuf>,
    /// Name of the grant that was looked at last.
    looked: String,
}

impl Grants {
    /// Grants that are kept in a file, if there is one.
    ///
    /// # Errors
    /// [`GrantError::File`].
    pub(crate) fn kept_in(file: Option<PathBuf>) -> Result<Self, GrantError> {
        let kept = file.as_deref().map_or_else(|| Ok(Vec::new()), kept::read)?;
        let mut grants = Self { file, ..Self::default() };
        for held in kept.into_iter().take(GRANTS_MAX) {
            // What cannot be looked at now is looked at again.
            if held.subject.is_there().unwrap_or(true) {
                grants.insert(held);
            }
        }
        Ok(grants)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Grant> {
        self.all.values().map(|held| &held.grant)
    }

    /// Returns whether there is a grant like this, for those who are there now.
    pub(crate) fn has(&self, grant: &Grant) -> bool {
        let is_it = |held: &Held| {
            held.grant == *grant && Subject::of(&grant.to).is_ok_and(|now| now == held.subject)
        };
        self.all.get(&grant.name).is_some_and(is_it)
    }

    /// Adds a grant, or replaces one of this name for the same processes.
    ///
    /// # Errors
    /// [`GrantError`]; nothing has changed then.
    pub(crate) fn add(&mut self, grant: Grant, tenants: &[Arc<Tenant>]) -> Result<(), GrantError> {
        check(&grant)?;
        let subject = Subject::of(&grant.to)?;
        let name = grant.name.clone();
        let is_tenant = name == DEFAULT || tenants.iter().any(|tenant| tenant.name == name);
        let is_other = self.all.get(&name).is_some_and(|held| held.subject != subject);
        if is_tenant || is_other {
            return Err(GrantError::Taken(name));
        }
        let granted = match &subject {
            Subject::Cgroup(cgroup) => {
                self.by_cgroup.get(&(cgroup.path.clone(), cgroup.hierarchy.clone()))
            }
            Subject::Process { pid, .. } => self.by_pid.get(pid),
        };
        if let Some(other) = granted.filter(|other| **other != name) {
            return Err(GrantError::Granted(other.clone()));
        }
        if self.all.len() >= GRANTS_MAX && !self.all.contains_key(&name) {
            return Err(GrantError::Full);
        }
        let before = self.all.get(&name).cloned();
        self.insert(Held { grant, subject });
        self.keep().inspect_err(|_| {
            self.remove(&name);
            before.into_iter().for_each(|held| self.insert(held));
        })
    }

    fn insert(&mut self, held: Held) {
        let name = held.grant.name.clone();
        match &held.subject {
            Subject::Cgroup(cgroup) => {
                let place = (cgroup.path.clone(), cgroup.hierarchy.clone());
                self.by_cgroup.insert(place, name.clone());
            }
            Subject::Process { pid, .. } => drop(self.by_pid.insert(*pid, name.clone())),
        }
        self.all.insert(name, held);
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(held) = self.all.remove(name) else { return false };
        match held.subject {
            Subject::Cgroup(cgroup) => {
                drop(self.by_cgroup.remove(&(cgroup.path, cgroup.hierarchy)));
            }
            Subject::Process { pid, .. } => drop(self.by_pid.remove(&pid)),
        }
        true
    }

    /// Ends a grant.
    ///
    /// # Errors
    /// [`GrantError::Unknown`], and [`GrantError::File`] if the file could not be written: a
    /// restart of the daemon would bring the grant back.
    pub(crate) fn revoke(&mut self, name: &str) -> Result<(), GrantError> {
        if !self.remove(name) {
            return Err(GrantError::Unknown(name.chars().take(64).collect()));
        }
        self.keep()
    }

    fn keep(&self) -> Result<(), GrantError> {
        let Some(file) = &self.file else { return Ok(()) };
        kept::write(file, self.all.values())
    }

    /// Forgets those of some grants whose processes cannot be there any more, and answers their
    /// names. Each call looks at the next `count`.
    pub(crate) fn forget_ended(&mut self, count: usize) -> Vec<String> {
        let behind = (Bound::Excluded(self.looked.clone()), Bound::Unbounded);
        let upto = (Bound::Unbounded, Bound::Included(self.looked.clone()));
        let next = self.all.range(behind).chain(self.all.range(upto)).take(count);
        let next: Vec<_> =
            next.map(|(name, held)| (name.clone(), held.subject.is_there())).collect();
        self.looked = next.last().map(|(name, _)| name.clone()).unwrap_or_default();
        let ended = next.into_iter().filter(|(_, is_there)| matches!(is_there, Ok(false)));
        let mut ended: Vec<_> = ended.map(|(name, _)| name).collect();
        ended.retain(|name| self.remove(name));
        ended
    }

    /// The grant that a process has, by what the kernel says of it now: that for the process, or
    /// else that for the innermost of its cgroups.
    ///
    /// # Errors
    /// If the process has ended, or what it is cannot be found out.
    pub(crate) fn of(
        &self,
        pid: i32,
        process: Option<&OwnedFd>,
        who: &Who,
    ) -> io::Result<Option<&Grant>> {
        let meant = self.candidates(pid, who);
        let Some(process) = process.filter(|_| !meant.is_empty()) else { return Ok(None) };
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let (cgroups, began) = (hierarchies(&text), started(pid)?);
        checked(process)?;
        for Held { grant, subject } in meant {
            let is_meant = match subject {
                Subject::Cgroup(cgroup) => cgroup.has(&cgroups) && cgroup.is_there()?,
                Subject::Process { started, .. } => began == Some(*started),
            };
            if is_meant {
                return Ok(Some(grant));
            }
        }
        Ok(None)
    }

    /// Grants that a process may have by its number and the names of its cgroups, the innermost
    /// first.
    fn candidates(&self, pid: i32, who: &Who) -> Vec<&Held> {
        let mut paths = Vec::new();
        for path in who.cgroups.iter().filter(|_| !self.by_cgroup.is_empty()) {
            let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
            paths.extend(ends.chain([path.len()]).filter_map(|end| path.get(..end)));
        }
        paths.sort_unstable_by_key(|path| std::cmp::Reverse(path.len()));
        paths.dedup();
        let with = |path: &str| {
            let begin = (path.to_owned(), String::new());
            let here = self.by_cgroup.range(begin..).take_while(|((of, _), _)| *of == path);
            here.map(|(_, name)| name).collect::<Vec<_>>()
        };
        let by_cgroup = paths.into_iter().flat_map(with);
        let names = self.by_pid.get(&pid).into_iter().chain(by_cgroup);
        names.filter_map(|name| self.all.get(name)).collect()
    }

    /// Returns whether a process may have a grant of this name, by its number and the names of its
    /// cgroups.
    pub(crate) fn may_be_of(&self, name: &str, pid: i32, who: &Who) -> bool {
        self.all.get(name).is_some_and(|held| match &held.subject {
            Subject::Cgroup(cgroup) => who.cgroups.iter().any(|path| is_within(path, &cgroup.path)),
            Subject::Process { pid: of, .. } => *of == pid,
        })
    }

    /// The tenant of a process with the grant of this name that would be of another tenant without:
    /// limits that the grant does not state are that one's.
    pub(crate) fn tenant(&self, name: &str, base: Arc<Tenant>) -> Arc<Tenant> {
        self.all.get(name).map_or(base.clone(), |held| tenant(&held.grant, &base))
    }
}

/// As [`Grants::tenant`].
pub(crate) fn tenant(grant: &Grant, base: &Tenant) -> Arc<Tenant> {
    let priority = |value: i32| Priority::new(value).ok();
    Arc::new(Tenant {
        name: grant.name.clone(),
        priority: priority(grant.priority),
        priority_max: priority(grant.priority_max),
        share: grant.share.or(base.share),
        share_max: grant.share.or(base.share_max),
        gang: grant.gang.clone(),
        is_granted: true,
        ..base.clone()
    })
}

fn check(grant: &Grant) -> Result<(), GrantError> {
    if !is_name_of_gang(&grant.name) {
        return Err(GrantError::Name);
    }
    if !grant.gang.as_deref().is_none_or(is_name_of_gang) {
        return Err(GrantError::Gang);
    }
    let is_fine = (-255..=255).contains(&grant.priority)
        && (grant.priority..=255).contains(&grant.priority_max)
        && grant.share.is_none_or(|share| share <= 100);
    if is_fine { Ok(()) } else { Err(GrantError::Range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pid(name: &str, pid: i32) -> Grant {
        let (to, priority_max) = (Grantee::Pid(pid), 0);
        Grant { name: name.to_owned(), to, priority: 0, priority_max, share: None, gang: None }
    }

    fn own_pid() -> i32 {
        rustix::process::getpid().as_raw_nonzero().get()
    }

    fn held(pid: i32, started: u64) -> Held {
        Held {
            grant: of_pid(&format!("job {pid}"), pid),
            subject: Subject::Process { pid, started },
        }
    }

    #[test]
    fn there_are_no_more_than_processes_may_be_connected() {
        let mut grants = Grants::default();
        (0..GRANTS_MAX as i32).for_each(|pid| grants.insert(held(i32::MAX - pid, 1)));
        let full = grants.add(of_pid("one more", own_pid()), &[]).expect_err("full");
        assert!(matches!(full, GrantError::Full), "{full}");
        // None of these is there: each call looks at the next ones.
        assert_eq!(grants.forget_ended(16).len(), 16);
        assert_eq!(grants.forget_ended(GRANTS_MAX).len(), GRANTS_MAX - 16);
        grants.add(of_pid("one more", own_pid()), &[]).expect("there is room");
        assert_eq!((grants.forget_ended(16).len(), grants.len()), (0, 1));
    }

    #[test]
    fn a_process_that_got_the_number_of_another_has_no_grant() {
        let pid = own_pid();
        let since = started(pid).expect("it can be read").expect("it is there");
        let process = rustix::process::pidfd_open(
            rustix::process::getpid(),
            rustix::process::PidfdFlags::empty(),
        );
        let process = process.expect("a descriptor");
        let has = |started| {
            let mut grants = Grants::default();
            grants.insert(held(pid, started));
            grants.of(pid, Some(&process), &Who::default()).expect("it is there").is_some()
        };
        assert!(has(since) && !has(since - 1));
        assert_eq!((started(0).expect("none"), started(i32::MAX).expect("none")), (None, None));
    }

    #[test]
    fn wrong_grants_are_refused() {
        let mut grants = Grants::default();
        let tenants = [Arc::new(Tenant { name: "team".to_owned(), ..Tenant::default() })];
        let fine = of_pid("job", own_pid());
        let mut refused =
            |grant: Grant| grants.add(grant, &tenants).expect_err("wrong").to_string();
        for name in ["", "a\nb", &"x".repeat(65)] {
            assert!(refused(of_pid(name, own_pid())).contains("a name of 1 to 64"));
        }
        for name in ["team", DEFAULT] {
            assert!(refused(of_pid(name, own_pid())).contains("name of a tenant"));
        }
        for wrong in [
            Grant { priority: -256, ..fine.clone() },
            Grant { priority: 10, priority_max: 9, ..fine.clone() },
            Grant { priority_max: 256, ..fine.clone() },
            Grant { share: Some(101), ..fine.clone() },
        ] {
            assert!(refused(wrong).contains("-255 to 255"));
        }
        assert!(refused(Grant { gang: Some("\n".to_owned()), ..fine.clone() }).contains("a gang"));
        for pid in [0, -1, i32::MAX] {
            assert!(refused(of_pid("job", pid)).contains("no process"));
        }
        grants.add(fine, &tenants).expect("fine");
        let refused = |grants: &mut Grants, grant| {
            grants.add(grant, &tenants).expect_err("wrong").to_string()
        };
        assert!(refused(&mut grants, of_pid("other", own_pid())).contains("the grant `job`"));
        assert!(refused(&mut grants, of_pid("job", 1)).contains("for other processes"));
        assert!(grants.revoke("other").is_err_and(|why| why.to_string().contains("no grant")));
        grants.revoke("job").expect("it is there");
        assert!(grants.is_empty() && grants.by_pid.is_empty());
    }
}
