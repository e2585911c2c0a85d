//! Tracing another process for a moment, which the driver requires when a debugger attaches.

use nix::errno::Errno as NixErrno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rustix::io::Errno;

use crate::error::KfdError;

/// A process that is traced by this thread.
#[derive(Debug)]
pub(crate) struct Traced {
    pid: Pid,
    released: bool,
}

impl Traced {
    /// Starts tracing, without stopping the process.
    pub(crate) fn seize(pid: u32) -> Result<Self, KfdError> {
        let number = i32::try_from(pid).map_err(|_| KfdError::NoSuchProcess { pid })?;
        let target = Pid::from_raw(number);
        match ptrace::seize(target, Options::empty()) {
            Ok(()) => Ok(Self { pid: target, released: false }),
            Err(NixErrno::ESRCH) => Err(KfdError::NoSuchProcess { pid }),
            Err(errno) => Err(KfdError::NotPermitted {
                call: "ptrace(PTRACE_SEIZE)",
                errno: Errno::from_raw_os_error(errno as i32),
                advice: "run as the same user with kernel.yama.ptrace_scope=0 or with \
                         CAP_SYS_PTRACE, and end other debuggers",
            }),
        }
    }

    /// Stops tracing. The process is stopped for an instant, because only then it can be detached.
    pub(crate) fn release(mut self) {
        self.detach();
    }

    /// Detaches. Errors are ignored: a process that ended is not traced, and the tracing ends with
    /// this thread at the latest.
    fn detach(&mut self) {
        if std::mem::replace(&mut self.released, true) {
            return;
        }
        if ptrace::interrupt(self.pid).is_err() {
            return self.reap();
        }
        // `WNOWAIT` leaves the state for another thread that waits for the process.
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT;
        let signal = loop {
            match waitid(Id::Pid(self.pid), look | WaitPidFlag::__WALL) {
                // The process was about to receive this signal, which the detach delivers.
                Ok(WaitStatus::PtraceEvent(_, signal, 0) | WaitStatus::Stopped(_, signal)) => {
                    break Some(signal);
                }
                Ok(WaitStatus::PtraceEvent(..) | WaitStatus::PtraceSyscall(_)) => break None,
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {
                    return self.reap();
                }
                Ok(WaitStatus::Continued(_) | WaitStatus::StillAlive) | Err(NixErrno::EINTR) => {}
                Err(_) => return,
            }
        };
        _ = ptrace::detach(self.pid, signal);
    }

    /// Takes note that the process has ended, which its parent learns only after its tracer. If
    /// this process is the parent, the exit status is left for the code that started the child.
    fn reap(&self) {
        if parent(self.pid) != Some(std::process::id()) {
            _ = waitpid(self.pid, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL));
        }
    }
}

/// The parent of a process, dead or alive.
fn parent(pid: Pid) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok()
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.detach();
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("there is a sleep")
    }

    fn tracer_of(pid: u32) -> Option<String> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("TracerPid:")).map(|v| v.trim().to_owned())
    }

    #[test]
    fn a_process_is_traced_for_a_moment_and_goes_on() {
        let mut child = sleeper();
        let pid = child.id();
        match Traced::seize(pid) {
            Ok(traced) => {
                assert_ne!(tracer_of(pid).as_deref(), Some("0"));
                traced.release();
                assert_eq!(tracer_of(pid).as_deref(), Some("0"));
            }
            // Where tracing is forbidden altogether, the error says so.
            Err(error) => assert!(matches!(error, KfdError::NotPermitted { .. }), "{error}"),
        }
        assert!(child.try_wait().expect("it is ours").is_none(), "it goes on");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    #[test]
    fn the_exit_status_of_a_child_is_left_for_its_parent() {
        let mut child = sleeper();
        let traced = Traced::seize(child.id());
        child.kill().expect("it is ours");
        // Where tracing is forbidden, this is an error and drops nothing.
        drop(traced);
        let status = child.wait().expect("the status is still there");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let pid = u32::MAX;
        assert_eq!(Traced::seize(pid).err(), Some(KfdError::NoSuchProcess { pid }));
        let mut child = sleeper();
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let gone = Traced::seize(child.id()).err();
        assert_eq!(gone, Some(KfdError::NoSuchProcess { pid: child.id() }));
    }
}
