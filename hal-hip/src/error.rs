//! Errors, and advice for each.

use std::fmt;

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;

use crate::raw;
use crate::raw::Code;

/// Libraries that were tried, and why each could not be loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried(pub Vec<(String, String)>);

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, why)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            // The loader's own words often start with the name.
            let why = why.strip_prefix(name.as_str()).unwrap_or(why).trim_start_matches(": ");
            write!(f, "{separator}{name} ({why})")?;
        }
        Ok(())
    }
}

/// An error of a HIP device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HipError {
    /// No runtime could be loaded.
    #[error(
        "no HIP runtime was found; install ROCm (Debian: libamdhip64-5), or name the library in \
         XSCHED_HIP_LIB. Tried: {tried}"
    )]
    NotFound {
        /// Names that were tried, and the answers of the loader.
        tried: Tried,
    },
    /// The runtime that the environment names could not be loaded.
    #[error("XSCHED_HIP_LIB names `{name}`, which cannot be loaded; correct or unset it: {why}")]
    NamedNotFound {
        /// Value of the variable.
        name: String,
        /// Answer of the loader.
        why: String,
    },
    /// The device is reset, which ends what was made on it.
    #[error("the device is reset, which ends what was made on it")]
    Reset,
    /// The library lacks a function.
    #[error(
        "`{library}` has no function `{symbol}`; it is older than HIP 5.2 or not a HIP runtime, so \
         install a newer ROCm or name another library in XSCHED_HIP_LIB"
    )]
    SymbolMissing {
        /// The function.
        symbol: &'static str,
        /// The library, by the name under which it was found.
        library: String,
    },
    /// The runtime is there, and finds no GPU.
    #[error(
        "`{library}` finds no AMD GPU (error {code}); check that /dev/kfd and /dev/dri exist, that \
         this user may open them (groups render and video), and ROCR_VISIBLE_DEVICES and \
         HIP_VISIBLE_DEVICES"
    )]
    NoDevice {
        /// The library.
        library: String,
        /// Answer of the call. 0 if it counted no devices.
        code: Code,
    },
    /// There are fewer GPUs.
    #[error("there is no device {device}; choose one of 0..{count}")]
    NoSuchDevice {
        /// The number that was asked for.
        device: u32,
        /// How many there are.
        count: u32,
    },
    /// A call of the driver failed.
    #[error("{call} answered {} ({code}); {}", name_of(*code), advice(*code))]
    Driver {
        /// The function that was called.
        call: &'static str,
        /// Answer of the call.
        code: Code,
    },
    /// A stream whose meaning depends on the thread.
    #[error(
        "the per-thread default stream is another stream on each thread; create a stream with \
         hipStreamCreateWithFlags and use that"
    )]
    PerThreadStream,
    /// A stream that is being recorded.
    #[error("a capture is under way on the stream; end it with hipStreamEndCapture first")]
    Capturing,
    /// A stream of another device.
    #[error("the stream is device {stream}'s, not device {device}'s; open that device instead")]
    OtherDevice {
        /// The stream's device.
        stream: u32,
        /// Number of the device.
        device: u32,
    },
    /// Words for the command processor come one at a time.
    #[error(
        "{bytes} bytes of flags were asked for, and with GPU_STREAMOPS_CP_WAIT=1 there are 8 per \
         allocation; allocate a word at a time, or unset the variable"
    )]
    SignalBytes {
        /// The number that was asked for.
        bytes: usize,
    },
    /// The command processor waits only for words that the runtime allocated.
    #[error(
        "with GPU_STREAMOPS_CP_WAIT=1 a stream cannot wait for memory of the program's own; unset \
         the variable"
    )]
    SignalOnly,
    /// The runtime has no waits for words in memory.
    #[error("this runtime has no `{symbol}`; hold at Lv1, or install a newer ROCm")]
    NoWaits {
        /// The function that is missing.
        symbol: &'static str,
    },
    /// The runtime lacks a function that only some use.
    #[error("this runtime has no `{symbol}`, so it has no {what}; install a newer ROCm")]
    Lacks {
        /// The function that is missing.
        symbol: &'static str,
        /// Purpose that it is needed for.
        what: &'static str,
    },
    /// A stream that waits would stop other streams.
    #[error(
        "streams share hardware rings, so one that is held in the device stops other streams; open the \
         device with `Rings::Own`, or hold at Lv1"
    )]
    SharedRings,
    /// More arguments than fit.
    #[error("a kernel takes {count} arguments of {bytes} bytes inline; pack them into a buffer")]
    Arguments {
        /// How many arguments fit.
        count: usize,
        /// How many bytes fit.
        bytes: usize,
    },
    /// The file with the benches' kernels cannot be read.
    #[error(
        "the benches' kernels cannot be read from `{path}` ({why}); build hal-hip/kernels/spin.hip \
         as it says and name the result in XSCHED_HIP_KERNELS, or unset that for those for gfx942"
    )]
    KernelsUnread {
        /// The file.
        path: String,
        /// Answer of the system.
        why: String,
    },
    /// The runtime cannot use the benches' kernels.
    #[error(
        "the runtime cannot use the benches' kernels from {from} ({why}); build \
         hal-hip/kernels/spin.hip for this GPU as it says and name the result in XSCHED_HIP_KERNELS"
    )]
    KernelsRefused {
        /// Where they are from.
        from: String,
        /// Answer of the runtime.
        why: Box<Self>,
    },
    /// The benches' kernels were not loaded.
    #[error("the benches' kernels are not loaded; call `load_spin_kernels` first")]
    NoSpinKernels,
    /// The device's clock was not read in time.
    #[error("the device's clock was not read within {ms} ms; end what else keeps the device busy")]
    ClockSilent {
        /// How long was waited.
        ms: u64,
    },
    /// A kernel's name with a zero byte.
    #[error("a kernel's name has no zero bytes in it")]
    KernelName,
}

impl HipError {
    /// Makes a result of the answer of a call. For closures that call HIP themselves.
    ///
    /// # Errors
    /// If it is not 0.
    pub const fn check(call: &'static str, code: Code) -> Result<(), Self> {
        if code == raw::SUCCESS { Ok(()) } else { Err(Self::Driver { call, code }) }
    }

    /// Tells whether a runtime that finds no GPU answers this.
    pub(crate) const fn says_no_device(&self) -> bool {
        let Self::Driver { code, .. } = self else { return false };
        matches!(*code, raw::NO_DEVICE | raw::INVALID_DEVICE)
    }
}

impl HalError for HipError {
    fn kind(&self) -> Fault {
        match self {
            Self::Driver { code, .. } => fault_of(*code),
            Self::Arguments { .. } | Self::KernelName => Fault::Launch,
            Self::NoDevice { .. } | Self::Reset => Fault::DeviceLost,
            Self::Capturing | Self::OtherDevice { .. } => Fault::NotPermitted,
            Self::NotFound { .. }
            | Self::NamedNotFound { .. }
            | Self::SymbolMissing { .. }
            | Self::NoSuchDevice { .. }
            | Self::PerThreadStream
            | Self::SignalBytes { .. }
            | Self::SignalOnly
            | Self::SharedRings
            | Self::KernelsUnread { .. }
            | Self::KernelsRefused { .. }
            | Self::NoSpinKernels
            | Self::ClockSilent { .. }
            | Self::NoWaits { .. }
            | Self::Lacks { .. } => Fault::NotSupported,
        }
    }
}

/// Meaning of an answer for a command or a queue.
const fn fault_of(code: Code) -> Fault {
    match code {
        // A kernel of the process went wrong, and nothing on the device works from then on.
        raw::ILLEGAL_ADDRESS
        | raw::LAUNCH_FAILURE
        | raw::ASSERT
        | raw::ECC_NOT_CORRECTABLE
        | raw::CONTEXT_IS_DESTROYED
        | raw::DEINITIALIZED
        | raw::NO_DEVICE
        | raw::INVALID_DEVICE => Fault::DeviceLost,
        raw::INVALID_VALUE
        | raw::OUT_OF_MEMORY
        | raw::NOT_INITIALIZED
        | raw::INVALID_CONFIGURATION
        | raw::INVALID_DEVICE_POINTER
        | raw::INVALID_MEMCPY_DIRECTION
        | raw::INVALID_DEVICE_FUNCTION
        | raw::INVALID_IMAGE
        | raw::INVALID_CONTEXT
        | raw::NO_BINARY_FOR_GPU
        | raw::INVALID_HANDLE
        | raw::NOT_FOUND
        | raw::LAUNCH_OUT_OF_RESOURCES => Fault::Launch,
        raw::LAUNCH_TIMED_OUT => Fault::Timeout,
        raw::NOT_SUPPORTED => Fault::NotSupported,
        raw::OPERATING_SYSTEM
        | raw::ILLEGAL_STATE
        | raw::HOST_MEMORY_ALREADY_REGISTERED
        | raw::HOST_MEMORY_NOT_REGISTERED
        | raw::STREAM_CAPTURE_UNSUPPORTED..=raw::STREAM_CAPTURE_WRONG_THREAD => Fault::NotPermitted,
        raw::NOT_READY => Fault::Protocol,
        _ => Fault::Execution,
    }
}

/// HIP's name of an answer.
const fn name_of(code: Code) -> &'static str {
    match code {
        raw::SUCCESS => "hipSuccess",
        raw::INVALID_VALUE => "hipErrorInvalidValue",
        raw::OUT_OF_MEMORY => "hipErrorOutOfMemory",
        raw::NOT_INITIALIZED => "hipErrorNotInitialized",
        raw::DEINITIALIZED => "hipErrorDeinitialized",
        raw::INVALID_CONFIGURATION => "hipErrorInvalidConfiguration",
        raw::INVALID_DEVICE_POINTER => "hipErrorInvalidDevicePointer",
        raw::INVALID_MEMCPY_DIRECTION => "hipErrorInvalidMemcpyDirection",
        raw::PRIOR_LAUNCH_FAILURE => "hipErrorPriorLaunchFailure",
        raw::INVALID_DEVICE_FUNCTION => "hipErrorInvalidDeviceFunction",
        raw::NO_DEVICE => "hipErrorNoDevice",
        raw::INVALID_DEVICE => "hipErrorInvalidDevice",
        raw::INVALID_IMAGE => "hipErrorInvalidImage",
        raw::INVALID_CONTEXT => "hipErrorInvalidContext",
        raw::NO_BINARY_FOR_GPU => "hipErrorNoBinaryForGpu",
        raw::ECC_NOT_CORRECTABLE => "hipErrorECCNotCorrectable",
        raw::OPERATING_SYSTEM => "hipErrorOperatingSystem",
        raw::INVALID_HANDLE => "hipErrorInvalidHandle",
        raw::ILLEGAL_STATE => "hipErrorIllegalState",
        raw::NOT_FOUND => "hipErrorNotFound",
        raw::NOT_READY => "hipErrorNotReady",
        raw::ILLEGAL_ADDRESS => "hipErrorIllegalAddress",
        raw::LAUNCH_OUT_OF_RESOURCES => "hipErrorLaunchOutOfResources",
        raw::LAUNCH_TIMED_OUT => "hipErrorLaunchTimeOut",
        raw::CONTEXT_IS_DESTROYED => "hipErrorContextIsDestroyed",
        raw::ASSERT => "hipErrorAssert",
        raw::HOST_MEMORY_ALREADY_REGISTERED => "hipErrorHostMemoryAlreadyRegistered",
        raw::HOST_MEMORY_NOT_REGISTERED => "hipErrorHostMemoryNotRegistered",
        raw::LAUNCH_FAILURE => "hipErrorLaunchFailure",
        raw::NOT_SUPPORTED => "hipErrorNotSupported",
        raw::STREAM_CAPTURE_UNSUPPORTED..=raw::STREAM_CAPTURE_WRONG_THREAD => {
            "hipErrorStreamCapture"
        }
        raw::UNKNOWN => "hipErrorUnknown",
        _ => "an error that is not known here",
    }
}

/// Advice about an answer.
const fn advice(code: Code) -> &'static str {
    match code {
        raw::ILLEGAL_ADDRESS | raw::LAUNCH_FAILURE | raw::ASSERT => {
            "a kernel of this process failed, so start the process anew; AMD_LOG_LEVEL=3 says which"
        }
        raw::ECC_NOT_CORRECTABLE => "the device's memory is damaged, so reset it; see rocm-smi",
        raw::CONTEXT_IS_DESTROYED | raw::DEINITIALIZED => "the device was closed; open it again",
        raw::NO_DEVICE | raw::INVALID_DEVICE => "check that the GPU is there and may be used",
        raw::OUT_OF_MEMORY => "free memory or close streams",
        raw::LAUNCH_OUT_OF_RESOURCES | raw::INVALID_CONFIGURATION => {
            "launch smaller blocks, or with less shared memory"
        }
        raw::INVALID_IMAGE | raw::NO_BINARY_FOR_GPU => "build the kernels for this GPU",
        raw::INVALID_DEVICE_FUNCTION | raw::NOT_FOUND => "check the kernel's name and its module",
        raw::INVALID_HANDLE | raw::INVALID_CONTEXT => {
            "check that the stream, event or function is alive and this device's"
        }
        raw::NOT_SUPPORTED => "this device or runtime cannot do it; ask for a lower level",
        raw::LAUNCH_TIMED_OUT => "a kernel took too long; make it shorter",
        raw::STREAM_CAPTURE_UNSUPPORTED..=raw::STREAM_CAPTURE_WRONG_THREAD => {
            "end the capture that is under way first"
        }
        raw::INVALID_VALUE | raw::INVALID_DEVICE_POINTER | raw::INVALID_MEMCPY_DIRECTION => {
            "check the parameters, addresses above all"
        }
        _ => "AMD_LOG_LEVEL=3 in the environment has the runtime say more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(code: Code) -> HipError {
        HipError::Driver { call: "hipSomething", code }
    }

    #[test]
    fn answers_become_faults() {
        for (code, fault) in [
            (700, Fault::DeviceLost),
            (719, Fault::DeviceLost),
            (709, Fault::DeviceLost),
            (1, Fault::Launch),
            (9, Fault::Launch),
            (98, Fault::Launch),
            (400, Fault::Launch),
            (701, Fault::Launch),
            (702, Fault::Timeout),
            (801, Fault::NotSupported),
            (900, Fault::NotPermitted),
            (908, Fault::NotPermitted),
            (600, Fault::Protocol),
            (999, Fault::Execution),
        ] {
            assert_eq!(driver(code).kind(), fault, "{code}");
        }
    }

    #[test]
    fn errors_name_the_call_the_answer_and_what_to_do() {
        let text = driver(700).to_string();
        let start = "hipSomething answered hipErrorIllegalAddress (700); a kernel of this process";
        assert!(text.starts_with(start), "{text}");
        let text = driver(12_345).to_string();
        assert!(text.contains("(12345); AMD_LOG_LEVEL=3"), "{text}");
    }

    #[test]
    fn what_was_tried_is_listed() {
        let tried = Tried(vec![
            ("a.so".into(), "a.so: not there".into()),
            ("b.so".into(), "bad header".into()),
        ]);
        let text = HipError::NotFound { tried }.to_string();
        assert!(text.ends_with("Tried: a.so (not there); b.so (bad header)"), "{text}");
    }
}
