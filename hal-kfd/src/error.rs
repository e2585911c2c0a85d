//! What can go wrong, by cause, and what to do about it.

use rustix::io::Errno;
use xsched_core::fault::Fault;
use xsched_core::hal::HalError;

use crate::uapi::QUEUES_MAX;

/// Why the driver could not be used, or refused a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KfdError {
    /// There is no driver.
    #[error(
        "there is no {path}; load the amdgpu module, and in a container pass --device=/dev/kfd"
    )]
    NoDriver {
        /// Where it was looked for.
        path: String,
    },
    /// The driver cannot be opened.
    #[error("{path} cannot be opened ({why}); {}", opening_advice(*.errno))]
    NotOpened {
        /// Where it is.
        path: String,
        /// What the system answered; 0 if it was no errno.
        errno: i32,
        /// The same in words.
        why: String,
    },
    /// The driver speaks another major version.
    #[error("the driver speaks KFD {major}.{minor} and this knows KFD 1.x; update XSched")]
    OtherMajor {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The driver is older than the call.
    #[error(
        "{call} needs KFD 1.{needs} and the driver has 1.{has}; install a newer amdgpu driver, or \
         use the mechanism `update-queue`, which all have"
    )]
    TooOld {
        /// The call.
        call: &'static str,
        /// The first minor version that has it.
        needs: u32,
        /// The driver's.
        has: u32,
    },
    /// The driver does not know the queue, or it has another ring.
    #[error(
        "{call}: the driver knows no queue {queue} of this process with that ring; it may have \
         been destroyed and its id used again, so open the queue anew"
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
    /// The GPU did not let go of its queues in time.
    #[error(
        "{call}: the GPU did not give up its queues within amdgpu's queue_preemption_timeout_ms \
         (9 s unless set) and will be reset with all its queues; look at the kernel log, and hold \
         such commands at Lv2"
    )]
    PreemptionTimedOut {
        /// The call.
        call: &'static str,
    },
    /// A queue of this process was reset, after which the GPU takes none of its others either.
    #[error(
        "{call}: queue {queue} cannot be reached, since it or another queue of this process was \
         reset on its GPU; end the process, and look at the kernel log for the one that hung"
    )]
    QueueReset {
        /// The call.
        call: &'static str,
        /// The queue's id.
        queue: u32,
    },
    /// The driver refused for lack of a permission.
    #[error("{call}: not permitted ({errno}); {advice}")]
    NotPermitted {
        /// The call.
        call: &'static str,
        /// What the driver answered.
        errno: Errno,
        /// What to do.
        advice: &'static str,
    },
    /// The driver or the device cannot do it.
    #[error("{call}: the driver cannot do this ({errno}); {advice}")]
    NotSupported {
        /// The call.
        call: &'static str,
        /// What the driver answered.
        errno: Errno,
        /// What to do.
        advice: &'static str,
    },
    /// The runtime of the process has not called `RUNTIME_ENABLE`.
    #[error(
        "the process has not enabled its runtime, and a debugger before that would make the \
         runtime's start wait for ever; initialise HIP first (hipInit or hsa_init)"
    )]
    RuntimeNotEnabled,
    /// There were queues before the runtime was enabled.
    #[error(
        "the process made queues before its runtime was enabled, so the driver enables it no more; \
         initialise HIP before anything else opens queues, or use `update-queue`"
    )]
    QueuesBeforeRuntime,
    /// A debugger is attached already.
    #[error(
        "process {pid} has a debugger already, and there can be one; end rocgdb and the like, or \
         use `update-queue`"
    )]
    DebuggerAttached {
        /// The process.
        pid: u32,
    },
    /// The process is gone or has no queues.
    #[error(
        "there is no process {pid} with the driver open; check that it runs and uses the GPU, and \
         that the id is the one in this container"
    )]
    NoSuchProcess {
        /// The process.
        pid: u32,
    },
    /// The debugger's session has ended.
    #[error("the debugger's session has ended, so nothing is suspended; open the device again")]
    Released,
    /// The calls of a patched driver were not asked for.
    #[error(
        "`preempt-queue` needs a patched driver and has to be asked for: set {variable} to a text \
         that the patched module has in /sys/module/amdgpu/version or srcversion"
    )]
    NotAskedFor {
        /// The variable.
        variable: &'static str,
    },
    /// The module is not the patched one.
    #[error(
        "the amdgpu module's version is `{version}` and lacks `{marker}`, so its calls 0x87 and \
         0x88 are not the patched ones; load the patched module or use `update-queue`"
    )]
    NotPatched {
        /// What was asked for.
        marker: String,
        /// What the module says.
        version: String,
    },
    /// A number means something else to this driver.
    #[error("call {number:#x} means something else to this driver: {why}; use `update-queue`")]
    OtherMeaning {
        /// The number.
        number: u8,
        /// How that was noticed.
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
    /// An argument that the driver would refuse, found before it was asked.
    #[error("{what} is {value}; choose at most {most}")]
    OutOfRange {
        /// What it is.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The highest that is allowed.
        most: u64,
    },
    /// No mechanism can be used, or not the one that was asked for.
    #[error("Lv3 cannot be had here: {why}")]
    NoChoice {
        /// Why not.
        why: String,
    },
    /// The driver answered something that makes no sense.
    #[error("{call}: the driver answered {answer}, which makes no sense; {advice}")]
    Nonsense {
        /// The call.
        call: &'static str,
        /// What it answered.
        answer: u64,
        /// What to do.
        advice: &'static str,
    },
    /// Something that none of the causes above explains.
    #[error("{call} failed: {errno}; look at the kernel log")]
    Driver {
        /// The call.
        call: &'static str,
        /// What the driver answered.
        errno: Errno,
    },
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
    /// What a call about one queue means by an errno. `EFAULT` is how the driver says that it does
    /// not know the id, or that the ring is another; `EACCES` that the queue was reset.
    #[must_use]
    pub fn of_queue(call: &'static str, queue: u32, errno: Errno) -> Self {
        match errno {
            Errno::FAULT | Errno::SRCH | Errno::NOENT => Self::UnknownQueue { call, queue },
            Errno::ACCESS => Self::QueueReset { call, queue },
            _ => Self::of_call(call, errno),
        }
    }

    /// What any call means by an errno.
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

    /// What opening the driver means by an error.
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
    /// If it is not below [`QUEUES_MAX`].
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
            Self::Nonsense { .. } | Self::Driver { .. } => Fault::Protocol,
            _ => Fault::NotSupported,
        }
    }
}
