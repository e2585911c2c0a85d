//! Meanings of the driver's answers to a debugger.

use rustix::io::Errno;

use crate::driver::Driver;
use crate::error::KfdError;
use crate::uapi::{DBG_TRAP, MODE_ENABLE, RUNTIME_ENABLE};
use crate::version::Versioned;

/// Fails unless the runtime of this process has called `RUNTIME_ENABLE`.
pub(super) fn check_runtime<D: Driver>(driver: &Versioned<D>) -> Result<(), KfdError> {
    // A second call is refused and changes nothing.
    match driver.runtime_enable(MODE_ENABLE)? {
        Err(Errno::BUSY) => Ok(()),
        Err(Errno::EXIST) => Err(KfdError::QueuesBeforeRuntime),
        Err(errno) => Err(KfdError::of_call(RUNTIME_ENABLE.name, errno)),
        Ok(_) => {
            // This was the first call. There is no debugger yet, so undoing it does not wait.
            let undone = driver.runtime_enable(0)?;
            undone.map_err(|errno| KfdError::of_call(RUNTIME_ENABLE.name, errno))?;
            Err(KfdError::RuntimeNotEnabled)
        }
    }
}

/// The error of an errno when a debugger attaches.
pub(super) fn refused_enable(pid: u32, errno: Errno) -> KfdError {
    let call = DBG_TRAP.name;
    match errno {
        Errno::ALREADY => KfdError::DebuggerAttached { pid },
        Errno::PERM => KfdError::NotPermitted {
            call,
            errno,
            advice: "run as the same user with kernel.yama.ptrace_scope=0 or with CAP_SYS_PTRACE",
        },
        Errno::INVAL => KfdError::NotSupported {
            call,
            errno,
            advice: "debugging needs a hardware scheduler: amdgpu.sched_policy must not be 2",
        },
        _ => refused(pid, errno),
    }
}

/// The error of an errno during a session.
pub(super) fn refused(pid: u32, errno: Errno) -> KfdError {
    match errno {
        Errno::SRCH => KfdError::NoSuchProcess { pid },
        Errno::PERM => KfdError::RuntimeNotEnabled,
        Errno::BUSY => KfdError::DebuggerBusy { call: DBG_TRAP.name },
        Errno::OPNOTSUPP => KfdError::NotFirstContext { call: DBG_TRAP.name },
        _ => KfdError::of_call(DBG_TRAP.name, errno),
    }
}
