//! Process at the other end of a connection, from what the kernel says alone.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::tenant::Who;

/// The most groups and cgroups of a process that count.
const LIST_MAX: usize = 256;

/// The process at the other end of a connection; `None` if the daemon cannot see it. Becomes
/// readable when the process ends.
///
/// # Errors
/// If the process has ended, or the daemon may open no more files: neither must make it a process
/// of another tenant, over whose connection a further process may speak.
pub(crate) fn process_of(socket: BorrowedFd<'_>, pid: i32) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(None) };
    // Linux 6.5 and newer; before that, another process may have got the number by now.
    if let Ok(process) = getsockopt(&socket, sockopt::PeerPidfd) {
        return Ok(Some(process));
    }
    opened(pid)
}

fn opened(pid: Pid) -> io::Result<Option<OwnedFd>> {
    seen(pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from))
}

/// Reads who a process is. What is read of a process number counts only if that still belongs to
/// the process afterwards.
///
/// # Errors
/// As [`process_of`].
pub(crate) fn who(pid: i32, uid: u32, gid: u32, process: Option<&OwnedFd>) -> io::Result<Who> {
    let mut who = Who { uid, gids: vec![gid], cgroups: Vec::new() };
    let Some(process) = process else { return Ok(who) };
    let read = |file: &str| seen(fs::read_to_string(format!("/proc/{pid}/{file}")));
    let (cgroup, status) = (read("cgroup")?, read("status")?);
    checked(process)?;
    who.gids.extend(groups(&status.unwrap_or_default()));
    who.cgroups = cgroups(&cgroup.unwrap_or_default());
    Ok(who)
}

/// Returns an error if a process has ended, so that what was read of its number may be another's.
///
/// # Errors
/// If it has.
pub(crate) fn checked(process: &OwnedFd) -> io::Result<()> {
    if is_alive(process.as_fd()) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

/// Turns what the daemon may not see into `None`. That the process has gone, or that there is no
/// room for it, is an error.
pub(crate) fn seen<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    let is_refused = |error: &io::Error| {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::SRCH))
    };
    match found {
        Err(error) if is_refused(&error) => Err(error),
        found => Ok(found.ok()),
    }
}

fn is_alive(process: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready == 0)
}

/// The paths in `/proc/PID/cgroup`, each once. A line is `NUMBER:CONTROLLERS:PATH`.
pub(crate) fn cgroups(text: &str) -> Vec<String> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut paths: Vec<_> = paths.take(LIST_MAX).map(str::to_owned).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The supplementary groups in `/proc/PID/status`.
pub(crate) fn groups(text: &str) -> Vec<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix("Groups:"));
    let numbers = line.unwrap_or_default().split_whitespace();
    numbers.filter_map(|number| number.parse().ok()).take(LIST_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_kernel_are_read() {
        let text = "12:memory:/a/b\n1:name=systemd:/a/b\n0::/c:d\nnonsense\n";
        assert_eq!(cgroups(text), ["/a/b", "/c:d"]);
        assert_eq!(groups("Name:\tx\nGroups:\t4 24 1000 \nSeccomp:\t0\n"), [4, 24, 1000]);
        assert_eq!((cgroups(""), groups("Groups:\tx")), (vec![], vec![]));
    }

    #[test]
    fn a_process_that_has_ended_is_refused() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let pid = i32::try_from(child.id()).expect("a number");
        let process = pidfd_open(Pid::from_raw(pid).expect("a number"), PidfdFlags::empty());
        let process = process.expect("it is there");
        let found = |process| who(pid, 7, 8, process);
        assert!(!found(Some(&process)).expect("it is there").cgroups.is_empty());
        child.kill().expect("it is there");
        // Not waited for, so that its number stays.
        while is_alive(process.as_fd()) {
            std::thread::yield_now();
        }
        let is_gone = |error: io::Error| error.raw_os_error() == Some(Errno::SRCH.raw_os_error());
        assert!(found(Some(&process)).is_err_and(is_gone));
        child.wait().expect("it has ended");
        assert!(found(Some(&process)).is_err_and(is_gone));
        // As where the kernel gives no descriptor of the peer.
        assert!(opened(Pid::from_raw(pid).expect("a number")).is_err_and(is_gone));
        assert_eq!(found(None).expect("it cannot be seen").cgroups, [""; 0]);
    }
}
