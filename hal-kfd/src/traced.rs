//! Tracing another process for a moment, which the driver asks for when a debugger attaches.

use nix::errno::Errno as NixErrno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
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

    /// Stops tracing. The process is stopped for an instant, since only then it can be let go.
    pub(crate) fn release(mut self) {
        self.let_go();
    }

    /// There is nothing to be done about errors: a process that is gone is not traced, and the
    /// tracing ends with this thread at the latest.
    fn let_go(&mut self) {
        if std::mem::replace(&mut self.released, true) || ptrace::interrupt(self.pid).is_err() {
            return;
        }
        let signal = loop {
            match waitpid(self.pid, Some(WaitPidFlag::__WALL)) {
                // It was about to get a signal, which it still has to get.
                Ok(WaitStatus::Stopped(_, signal)) => break Some(signal),
                Ok(WaitStatus::PtraceEvent(..) | WaitStatus::PtraceSyscall(_)) => break None,
                Ok(WaitStatus::Continued(_) | WaitStatus::StillAlive) | Err(NixErrno::EINTR) => {}
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => return,
            }
        };
        _ = ptrace::detach(self.pid, signal);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.let_go();
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
