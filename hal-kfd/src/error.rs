//! The errors of this crate, by cause, each with advice.

use rustix::io::Errno;
use xsched_core::fault::Fault;
use xsched_core::hal::HalError;

use crate::uapi::{QUEUES_MAX, runtime_state};

/// Why the driver could not be used, or refused a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KfdError {
    /// No driver.
    #[error(
        "there is no {path}; load the amdgpu module, and in a container pass --device=/dev/kfd"
    )]
    NoDriver {
        /// The path that was tried.
        path: String,
    },
    /// The driver cannot be opened.
    #[error("{path} cannot be opened ({why}); {}", opening_advice(*.errno))]
    NotOpened {
        /// Path.
        path: String,
        /// The system's errno; 0 if there was none.
        errno: i32,
        /// The error in words.
        why: String,
    },
    /// The driver has another major version.
    #[error("the driver has KFD {major}.{minor} and XSched knows KFD 1.x; update XSched")]
    UnsupportedMajor {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
    },
    /// The driver is older than the call.
    #[error(
        "{call} needs KFD 1.{needs} and the driver has 1.{has}; install a newer amdgpu driver, or \
         use the mechanism `update-queue`, which works on every version"
    )]
    TooOld {
        /// The call.
        call: &'static str,
        /// The first minor version that has it.
        needs: u32,
        /// The driver's minor version.
        has: u32,
    },
    /// The driver does not know the queue, or it has another ring.
    #[error(
        "{call}: the driver knows no queue {queue} of this process with that ring; the queue may \
         have been destroyed and its id used again, so open the queue again"
    )]
    UnknownQueue {
        /// The call.
        call: &'static str,
        /// The queue's id.
        queue: u32,
    },
    /// The GPU is being reset.
    #[error(
        "{call}: the GPU is being reset; its queues are lost, so end this process and look at the \
         kernel log"
    )]
    ResetInProgress {
        /// The call.
        call: &'static str,
    },
    /// The GPU did not preempt its queues in time.
    #[error(
        "{call}: the GPU did not preempt its queues within amdgpu's queue_preemption_timeout_ms \
         (default 9 s) and will be reset with all its queues; look at the kernel log, and hold \
         such commands at Lv2"
    )]
    PreemptionTimedOut {
        /// The call.
        call: &'static str,
    },
    /// A queue of this process was reset, after which the GPU runs no other queue of the process.
    #[error(
        "{call}: queue {queue} cannot be reached, because it or another queue of this process was \
         reset on its GPU; end the process, and look at the kernel log for the queue that hung"
    )]
    QueueReset {
        /// The call.
        call: &'static str,
        /// The queue's id.
        queue: u32,
    },
    /// The driver refused the call for lack of a permission.
    #[error("{call}: not permitted ({errno}); {advice}")]
    NotPermitted {
        /// The call.
        call: &'static str,
        /// The driver's errno.
        errno: Errno,
        /// Advice to the user.
        advice: &'static str,
    },
    /// The driver or the device cannot do it.
    #[error("{call}: the driver cannot do this ({errno}); {advice}")]
    NotSupported {
        /// The call.
        call: &'static str,
        /// The driver's errno.
        errno: Errno,
        /// Advice to the user.
        advice: &'static str,
    },
    /// The runtime of the process has not called `RUNTIME_ENABLE`.
    #[error(
        "the process has not enabled its runtime, and a debugger that attaches before that would \
         make the runtime's start wait for ever; initialise HIP first (hipInit or hsa_init)"
    )]
    RuntimeNotEnabled,
    /// A debugger is attached, and the runtime's state lets it suspend nothing.
    #[error(
        "the runtime of the process is `{}` (kfd_runtime_info.runtime_state is {state}) and not \
         enabled, so the driver would refuse to suspend queues; {}",
        state_name(*.state),
        state_advice(*.state)
    )]
    RuntimeState {
        /// One of [`crate::uapi::runtime_state`].
        state: u32,
    },
    /// The driver has no debugger's session to give at the moment.
    #[error(
        "{call}: busy; while PC sampling (rocprofv3, rocprofiler-sdk) or a cooperative launch uses \
         the GPU, AMD's driver lets nothing debug it: end that, or use `update-queue`"
    )]
    DebuggerBusy {
        /// The call.
        call: &'static str,
    },
    /// The call is for the first context of a process alone.
    #[error(
        "{call}: the driver does this for the first context of a process alone, and this is a \
         further one (CREATE_PROCESS); use the GPU through the first, or `update-queue`"
    )]
    NotFirstContext {
        /// The call.
        call: &'static str,
    },
    /// Nothing is suspended any more on the GPU.
    #[error("Lv3 has ended on this GPU: {why}")]
    Stopped {
        /// Cause of the end.
        why: String,
    },
    /// The first suspension, of an idle queue made for it, did not go well.
    #[error("an idle queue was suspended first, to try it, and that did not go well: {why}")]
    CanaryFailed {
        /// Cause of the failure.
        why: String,
    },
    /// There were queues before the runtime was enabled.
    #[error(
        "the process made queues before it enabled its runtime, so the driver refuses to enable it; \
         initialise HIP before anything else opens queues, or use `update-queue`"
    )]
    QueuesBeforeRuntime,
    /// A debugger is attached already.
    #[error(
        "process {pid} already has a debugger, and it can have one; end rocgdb or the other \
         debugger, or use `update-queue`"
    )]
    DebuggerAttached {
        /// The process.
        pid: u32,
    },
    /// The process has ended or has no queues.
    #[error(
        "no process {pid} has the driver open; check that it runs and uses the GPU, and that the \
         id is the one in this container"
    )]
    NoSuchProcess {
        /// The process.
        pid: u32,
    },
    /// The debugger's session has ended.
    #[error("the debugger's session has ended, so nothing is suspended; open the device again")]
    SessionEnded,
    /// The calls of a patched driver were not permitted.
    #[error(
        "`preempt-queue` needs a patched driver and your permission: set {variable} to a text that \
         the patched module has in /sys/module/amdgpu/version or srcversion"
    )]
    OptInMissing {
        /// The environment variable that permits them.
        variable: &'static str,
    },
    /// The module is not the patched one.
    #[error(
        "the amdgpu module's version is `{version}` and lacks `{signature}`, so its calls 0x87 and \
         0x88 are not the patched ones; load the patched module or use `update-queue`"
    )]
    NotPatched {
        /// The text that the patched module's version should contain.
        signature: String,
        /// The module's version.
        version: String,
    },
    /// A call's number means another call to this driver.
    #[error("call {number:#x} means something else to this driver: {why}; use `update-queue`")]
    CallMismatch {
        /// The number.
        number: u8,
        /// Evidence.
        why: &'static str,
    },
    /// The file was opened by another process.
    #[error(
        "{call}: the driver was opened by another process; open it again after a fork, and give \
         descriptors that are open"
    )]
    OtherProcess {
        /// The call.
        call: &'static str,
    },
    /// An argument is out of range. No call was made.
    #[error("{what} is {value}; choose at most {most}")]
    OutOfRange {
        /// The argument.
        what: &'static str,
        /// Value.
        value: u64,
        /// The highest that is allowed.
        most: u64,
    },
    /// No mechanism can be used, or not the requested one.
    #[error("Lv3 is not available here: {why}")]
    NoMechanism {
        /// Why not.
        why: String,
    },
    /// The driver's answer is none that the call can have.
    #[error("{call}: the driver answered {answer}, which the call cannot answer; {advice}")]
    UnexpectedAnswer {
        /// The call.
        call: &'static str,
        /// The answer.
        answer: u64,
        /// Advice to the user.
        advice: &'static str,
    },
    /// An errno that has no meaning known to this crate.
    #[error("{call} failed: {errno}; look at the kernel log")]
    Driver {
        /// The call.
        call: &'static str,
        /// The driver's errno.
        errno: Errno,
    },
}

fn state_name(state: u32) -> &'static str {
    match state {
        runtime_state::DISABLED => "disabled",
        runtime_state::ENABLED => "enabled",
        runtime_state::ENABLED_BUSY => "enabled busy",
        runtime_state::ENABLED_ERROR => "enabled error",
        _ => "unknown",
    }
}

fn state_advice(state: u32) -> &'static str {
    match state {
        runtime_state::ENABLED_BUSY => {
            "another process uses what debugging needs of the GPU; end the debuggers and profilers \
             there, or use `update-queue`"
        }
        runtime_state::ENABLED_ERROR => {
            "the driver could not prepare the GPU for debugging; look at the kernel log, or use \
             `update-queue`"
        }
        _ => "initialise HIP first (hipInit or hsa_init)",
    }
}

fn opening_advice(errno: i32) -> &'static str {
    match Errno::from_raw_os_error(errno) {
        Errno::ACCESS | Errno::PERM => "add this user to the groups render and video",
        Errno::INVAL => "the driver found no GPU; look at the kernel log for amdgpu",
        Errno::NODEV | Errno::NXIO => "the driver found no GPU; look at the kernel log for amdgpu",
        _ => "look at the kernel log for amdgpu",
    }
}

impl KfdError {
    /// The error of an errno that a call about one queue answered. By `EFAULT` the driver says that
    /// it does not know the id or that the ring is another, by `EACCES` that the queue was reset.
    #[must_use]
    pub fn of_queue(call: &'static str, queue: u32, errno: Errno) -> Self {
        match errno {
            Errno::FAULT | Errno::SRCH | Errno::NOENT => Self::UnknownQueue { call, queue },
            Errno::ACCESS => Self::QueueReset { call, queue },
            _ => Self::of_call(call, errno),
        }
    }

    /// The error of an errno that any call answered.
    #[must_use]
    pub fn of_call(call: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::IO => Self::ResetInProgress { call },
            Errno::TIME | Errno::TIMEDOUT => Self::PreemptionTimedOut { call },
            Errno::BADF => Self::OtherProcess { call },
            Errno::PERM | Errno::ACCESS => {
                let advice = "check the groups render and video and the container's devices";
                Self::NotPermitted { call, errno, advice }
            }
            Errno::NOTTY | Errno::INVAL | Errno::NODEV | Errno::OPNOTSUPP => {
                let advice = "use another mechanism, or hold at Lv2";
                Self::NotSupported { call, errno, advice }
            }
            _ => Self::Driver { call, errno },
        }
    }

    /// The error of a failure to open the driver.
    #[must_use]
    pub fn of_open(path: &str, error: &std::io::Error) -> Self {
        let path = path.to_owned();
        if error.kind() == std::io::ErrorKind::NotFound {
            return Self::NoDriver { path };
        }
        let errno = error.raw_os_error().unwrap_or(0);
        Self::NotOpened { path, errno, why: error.to_string() }
    }

    /// Refuses an id that no queue can have.
    ///
    /// # Errors
    /// [`KfdError::OutOfRange`] if it is not below [`QUEUES_MAX`].
    pub fn check_id(queue: u32) -> Result<(), Self> {
        let most = u64::from(QUEUES_MAX - 1);
        let value = u64::from(queue);
        if value > most {
            return Err(Self::OutOfRange { what: "the queue's id", value, most });
        }
        Ok(())
    }
}

impl HalError for KfdError {
    fn kind(&self) -> Fault {
        match self {
            Self::ResetInProgress { .. }
            | Self::PreemptionTimedOut { .. }
            | Self::QueueReset { .. }
            | Self::UnknownQueue { .. }
            | Self::NoSuchProcess { .. } => Fault::DeviceLost,
            Self::NotPermitted { .. }
            | Self::NotOpened { .. }
            | Self::DebuggerAttached { .. }
            | Self::OtherProcess { .. } => Fault::NotPermitted,
            Self::UnexpectedAnswer { .. } | Self::Driver { .. } => Fault::Protocol,
            _ => Fault::NotSupported,
        }
    }
}
