//! HIP's runtime, for the engine.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::{LazyLock, OnceLock};
use std::{ffi::CString, os::unix::ffi::OsStrExt, ptr};

use xsched_shim_engine::errors::LastError;
use xsched_shim_engine::vendor::{Library, Preempt, Questions, Table, Vendor};
use xsched_shim_engine::{Address, Code, Reach, driver, engine, events, real};

use crate::table::{CLASSES, LEFT_OUT, NAMES, SLOTS, STUBS, TELLS};
use crate::{address, graphs, lifetimes, masks, rings, table, times};

/// Newest first. The last is what PyTorch's packages and those for development call it.
const SONAMES: [&str; 4] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// Where runtimes are that the loader's cache does not know.
const FOLDERS: [&str; 6] = [
    "/opt/rocm/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];
/// `hipErrorNoDevice`.
const NO_DEVICE: Code = 100;
/// `hipErrorNotSupported`.
const NOT_SUPPORTED: Code = 801;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// `hipStreamCaptureStatusNone`.
const NOT_CAPTURED: c_uint = 0;
/// The default stream of device 0 is known by this number, which is no stream's address, and that
/// of device 1 by the next.
const DEFAULT_STREAMS: usize = 16;

/// HIP's runtime.
pub(crate) static VENDOR: Vendor = Vendor {
    table: Table {
        names: &NAMES,
        classes: &CLASSES,
        tells: &TELLS,
        slots: &SLOTS,
        stubs: &STUBS,
        hooks,
        reach,
        left_out: LEFT_OUT,
        prefixes: &["hip", "__hip"],
    },
    library: Library {
        title: "HIP's runtime",
        vendor: "HIP",
        advice: "install ROCm",
        variable: "XSCHED_HIP_RUNTIME",
        sonames: &SONAMES,
        comes_with_programs: true,
        is_initialised_by_any: true,
        folders: &FOLDERS,
        marker: c"xsched_shim_hip",
        lacking: not_supported,
        without,
    },
    questions: Questions {
        default_stream,
        // Streams are of devices.
        context: |_| 0,
        priority,
        device,
        is_captured,
        is_blocking,
        exchange_mode,
        last_error: Some(LastError { peek, take }),
    },
    preempt: Preempt {
        library: c"xsched_private_hip_library",
        queue: c"xsched_private_hip_any_queue",
        forget: c"xsched_private_hip_forget",
    },
};

/// By this function an interposer knows another one, and itself, and `libpreempt.so` knows the
/// runtime's file. It answers the file's path, or null without a runtime.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_hip() -> *const c_char {
    static PATH: OnceLock<Option<CString>> = OnceLock::new();
    let path = || CString::new(driver::get(&VENDOR)?.path().as_os_str().as_bytes()).ok();
    PATH.get_or_init(path).as_ref().map_or(ptr::null(), |path| path.as_ptr())
}

/// For `libpreempt.so`: the program makes this XQueue for a stream, or if `xq` is 0 is about to. 1
/// if launches into the stream go through it then, or 0.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_hip_adopt(stream: Address, xq: u64) -> c_int {
    c_int::from(engine::adopt(stream, xq))
}

/// For `libpreempt.so`: an XQueue that the program has made is not there any more.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_hip_disown(xq: u64) {
    engine::disown(xq);
}

/// For the package for Python: the hardware queue of a stream, or, for null, of the default stream
/// of the thread's device, with an XQueue that the stream's launches go through. 0 if they go past.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_hip_queue(stream: Address) -> u64 {
    engine::hardware_queue(stream)
}

/// The hooks: places in the list, and what is called instead of the runtime.
fn hooks() -> Vec<(usize, Address)> {
    let lookups = address::hooks().chain(lifetimes::hooks()).chain(rings::hooks());
    let lookups = lookups.chain(masks::hooks()).chain(graphs::hooks());
    let lookups = lookups.chain(times::hooks().filter(|_| events::are_times_counted()));
    let lookups = lookups.filter_map(|(name, hook)| Some((VENDOR.index(name)?, hook)));
    table::hooks().into_iter().flatten().chain(lookups).collect()
}

/// Prefixes of the names of functions that copy.
const COPIES: [&str; 3] = ["hipMemcpy", "hipDrvMemcpy", "hipMemPrefetch"];

/// Returns the hardware queues that the launch by the function at this place goes into: all
/// streams share that of cooperative kernels and those of copy engines.
fn reach(place: usize) -> Reach {
    static ALL: LazyLock<Vec<Reach>> = LazyLock::new(|| {
        let of = |name: &&CStr| match name.to_string_lossy() {
            name if name.contains("LaunchCooperativeKernel") => Reach::All,
            name if COPIES.iter().any(|copies| name.starts_with(copies)) => Reach::Copies,
            _ => Reach::Stream,
        };
        NAMES.iter().map(of).collect()
    });
    ALL.get(place).copied().unwrap_or(Reach::Stream)
}

/// Returns what stands for the default stream of the thread's device.
fn default_stream() -> Option<usize> {
    Some(DEFAULT_STREAMS + usize::try_from(device(ptr::null_mut())).ok()?)
}

/// A stream's priority; 0 if the runtime does not say.
fn priority(stream: Address) -> c_int {
    let mut priority = 0;
    let code = real!(c"hipStreamGetPriority", (stream, &raw mut priority): (Address, *mut c_int));
    if code == 0 { priority } else { 0 }
}

/// The device of a stream, or of this thread; −1 if there is none. A runtime that cannot say whose
/// a stream is takes it for this thread's.
pub(crate) fn device(stream: Address) -> c_int {
    let mut device = -1;
    let own = if stream.is_null() {
        NOT_SUPPORTED
    } else {
        real!(c"hipStreamGetDevice", (stream, &raw mut device): (Address, *mut c_int))
    };
    let code = if own == 0 { own } else { real!(c"hipGetDevice", (&raw mut device): (*mut c_int)) };
    if code == 0 { device } else { -1 }
}

fn is_captured(stream: Address) -> bool {
    let mut status = NOT_CAPTURED;
    let code = real!(c"hipStreamIsCapturing", (stream, &raw mut status): (Address, *mut c_uint));
    code != 0 || status != NOT_CAPTURED
}

fn is_blocking(stream: Address) -> bool {
    let mut flags = 0;
    let code = real!(c"hipStreamGetFlags", (stream, &raw mut flags): (Address, *mut c_uint));
    code != 0 || flags & NON_BLOCKING == 0
}

/// Exchanges what captures do to calls of this thread.
pub(crate) fn exchange_mode(mut mode: c_int) -> c_int {
    // A runtime that refuses leaves it as it was, and one before HIP 5.0 has none.
    let _: Code = real!(c"hipThreadExchangeStreamCaptureMode", (&raw mut mode): (*mut c_int));
    mode
}

fn peek() -> Code {
    real!(c"hipPeekAtLastError", (): ())
}

fn take() -> Code {
    real!(c"hipGetLastError", (): ())
}

/// Answers in the place of a function that the runtime lacks.
extern "C" fn not_supported() -> Code {
    NOT_SUPPORTED
}

/// Returns the function that answers without a runtime. Some functions answer a text or a handle.
fn without(name: &CStr) -> Address {
    match name.to_bytes() {
        b"hipGetErrorName" | b"hipGetErrorString" => error_text as Address,
        b"hipApiName" | b"hipKernelNameRef" | b"hipKernelNameRefByPtr" | b"hipGetCmdName" => {
            no_text as Address
        }
        b"__hipRegisterFatBinary" => no_modules as Address,
        _ => no_device as Address,
    }
}

extern "C" fn no_device() -> Code {
    NO_DEVICE
}

/// The name of the error that calls answer without a runtime.
extern "C" fn error_text(code: Code) -> *const c_char {
    let text = match code {
        0 => c"hipSuccess",
        NO_DEVICE => c"hipErrorNoDevice",
        _ => c"hipErrorUnknown",
    };
    text.as_ptr()
}

extern "C" fn no_text() -> *const c_char {
    c"".as_ptr()
}

/// Returns the handle that a program's constructor gets for its code, and gives back to functions
/// that do nothing.
extern "C" fn no_modules() -> Address {
    static NONE: [usize; 1] = [0];
    ptr::from_ref(&NONE).cast_mut().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cooperative_kernels_and_copies_are_known_by_their_functions() {
        let of = |name| VENDOR.index(name).map(reach);
        assert_eq!(of(c"hipLaunchCooperativeKernel_spt"), Some(Reach::All));
        assert_eq!(of(c"hipModuleLaunchCooperativeKernel"), Some(Reach::All));
        assert_eq!(of(c"hipMemcpyHtoDAsync"), Some(Reach::Copies));
        assert_eq!(of(c"hipDrvMemcpy3D"), Some(Reach::Copies));
        assert_eq!(of(c"hipMemsetAsync"), Some(Reach::Stream));
        assert_eq!(of(c"hipLaunchKernel"), Some(Reach::Stream));
    }

    #[test]
    fn errors_without_a_runtime_have_a_name() {
        // SAFETY: the text ends with zero.
        let name = unsafe { CStr::from_ptr(error_text(NO_DEVICE)) };
        assert_eq!(name, c"hipErrorNoDevice");
        assert!(!no_modules().is_null());
    }
}
