//! Who is at the other end of a connection, from what the kernel says alone.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::tenant::Who;

/// The most groups and cgroups of a process that count.
const LIST_MAX: usize = 256;

/// The process at the other end of a connection; `None` if the daemon cannot see it. Becomes
/// readable when the process ends.
pub(crate) fn process_of(socket: BorrowedFd<'_>, pid: i32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid)?;
    // Linux 6.5 and newer; before that, another process may have got the number by now.
    getsockopt(&socket, sockopt::PeerPidfd)
        .ok()
        .or_else(|| pidfd_open(pid, PidfdFlags::empty()).ok())
}

/// Who a process is. What is read of a process number counts only if that still belongs to the
/// process afterwards.
pub(crate) fn who(pid: i32, uid: u32, gid: u32, process: Option<&OwnedFd>) -> Who {
    let mut who = Who { uid, gids: vec![gid], cgroups: Vec::new() };
    let Some(process) = process else { return who };
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let (cgroups, status) = (cgroups(&read("cgroup")), groups(&read("status")));
    if is_alive(process.as_fd()) {
        who.gids.extend(status);
        who.cgroups = cgroups;
    }
    who
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
    fn what_is_read_of_a_process_that_has_ended_does_not_count() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let pid = i32::try_from(child.id()).expect("a number");
        let process = pidfd_open(Pid::from_raw(pid).expect("a number"), PidfdFlags::empty());
        let process = process.expect("it is there");
        assert!(!who(pid, 7, 8, Some(&process)).cgroups.is_empty());
        child.kill().expect("it is there");
        // Not waited for, so that its number stays.
        while is_alive(process.as_fd()) {
            std::thread::yield_now();
        }
        let expected = Who { uid: 7, gids: vec![8], cgroups: vec![] };
        assert_eq!(who(pid, 7, 8, Some(&process)), expected);
        child.wait().expect("it has ended");
        assert_eq!(who(pid, 7, 8, None), expected);
    }
}
