//! CUDA's driver, for the engine.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr;
use std::sync::LazyLock;

use xsched_shim_engine::vendor::{Library, Preempt, Questions, Table, Vendor};
use xsched_shim_engine::{Address, Code, Reach, Stream, engine, events, real};

use crate::table::{CLASSES, LEFT_OUT, NAMES, SLOTS, STUBS, TELLS};
use crate::{address, graphs, lifetimes, table, times};

/// Where drivers are, on distributions, in containers and in WSL.
const FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/cuda/compat",
];
/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: Code = 1;
/// `CUDA_ERROR_STUB_LIBRARY`.
const STUB_LIBRARY: Code = 34;
/// `CUDA_ERROR_NOT_FOUND`.
const NOT_FOUND: Code = 500;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURED: c_int = 0;

/// Returns whether the function at this place copies. No stream stops others, and neither do
/// copies of one that is held, but a copy may wait for its stream within the call.
fn reach(place: usize) -> Reach {
    static COPIES: LazyLock<Vec<bool>> = LazyLock::new(|| {
        NAMES.iter().map(|name| name.to_bytes().starts_with(b"cuMemcpy")).collect()
    });
    if COPIES.get(place) == Some(&true) { Reach::Copies } else { Reach::Stream }
}

/// CUDA's driver.
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
        prefixes: &["cu"],
    },
    library: Library {
        title: "CUDA's driver",
        vendor: "CUDA",
        advice: "install NVIDIA's driver",
        variable: "XSCHED_CUDA_DRIVER",
        sonames: &["libcuda.so.1"],
        // What their files say leads to stubs for linking.
        comes_with_programs: false,
        // `cuInit` does, and nothing else.
        is_initialised_by_any: false,
        folders: &FOLDERS,
        marker: c"xsched_shim_cuda",
        lacking: not_found,
        without,
    },
    questions: Questions {
        default_stream: current_context,
        priority,
        context,
        device: current_device,
        is_captured,
        is_blocking,
        exchange_mode,
        last_error: None,
    },
    preempt: Preempt {
        library: c"xsched_private_cuda_driver",
        queue: c"xsched_private_cuda_any_queue",
        forget: c"xsched_private_cuda_forget",
    },
};

/// By this function an interposer knows another one, and itself. It answers the version of what
/// these agree on.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_cuda() -> c_int {
    1
}

/// For `libpreempt.so`, which this tells where the driver is: the program makes this XQueue for a
/// stream, or if `xq` is 0 is about to. 1 if launches into the stream go through it then, or 0.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_cuda_adopt(stream: Address, xq: u64) -> c_int {
    c_int::from(engine::adopt(stream, xq))
}

/// For `libpreempt.so`: an XQueue that the program has made is not there any more.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_cuda_disown(xq: u64) {
    engine::disown(xq);
}

/// For the package for Python: the hardware queue of a stream of the current context, or, for null,
/// of its default stream, with an XQueue that the stream's launches go through. 0 if they go past.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_cuda_queue(stream: Address) -> u64 {
    engine::hardware_queue(stream)
}

/// The hooks: places in the list, and what is called instead of the driver.
fn hooks() -> Vec<(usize, Address)> {
    let times = times::hooks().filter(|_| events::are_times_counted());
    let lookups = address::hooks().into_iter().chain(lifetimes::hooks()).chain(graphs::hooks());
    let lookups = lookups.chain(times);
    let lookups = lookups.filter_map(|(name, hook)| Some((VENDOR.index(name)?, hook)));
    table::hooks().into_iter().flatten().chain(lookups).collect()
}

/// The context that is current on this thread.
fn current_context() -> Option<usize> {
    let mut context = ptr::null_mut();
    let code = real!(c"cuCtxGetCurrent", (&raw mut context): (*mut Address));
    (code == 0 && !context.is_null()).then(|| context.addr())
}

/// A stream's priority; 0 if the driver does not say.
fn priority(stream: Address) -> c_int {
    let mut priority = 0;
    let code = real!(c"cuStreamGetPriority", (stream, &raw mut priority): (Address, *mut c_int));
    if code == 0 { priority } else { 0 }
}

/// The context of a stream; 0 if the driver does not say.
fn context(stream: Address) -> usize {
    let mut context = ptr::null_mut();
    let handle = Stream::of(stream, Stream::Legacy);
    if !matches!(handle, Stream::Own(_)) {
        return current_context().unwrap_or(0);
    }
    let code = real!(c"cuStreamGetCtx", (stream, &raw mut context): (Address, *mut Address));
    if code == 0 { context.addr() } else { 0 }
}

/// The primary context of a device; null if it has none now.
pub(crate) fn primary_context(device: c_int) -> Address {
    let (mut flags, mut active) = (0, 0);
    let code = real!(
        c"cuDevicePrimaryCtxGetState",
        (device, &raw mut flags, &raw mut active): (c_int, *mut u32, *mut c_int)
    );
    let mut context = ptr::null_mut();
    if code != 0 || active == 0 {
        return context;
    }
    let code =
        real!(c"cuDevicePrimaryCtxRetain", (&raw mut context, device): (*mut Address, c_int));
    if code == 0 {
        let _: Code = real!(c"cuDevicePrimaryCtxRelease_v2", (device): (c_int));
    }
    context
}

/// The context of a green context; null if the driver does not say.
pub(crate) fn context_of_green(green: Address) -> Address {
    let mut context = ptr::null_mut();
    let code = real!(c"cuCtxFromGreenCtx", (&raw mut context, green): (*mut Address, Address));
    if code == 0 { context } else { ptr::null_mut() }
}

/// The device of the context that is current on this thread, which is that of its streams; −1 if
/// there is none.
fn current_device(_stream: Address) -> c_int {
    let mut device = -1;
    let code = real!(c"cuCtxGetDevice", (&raw mut device): (*mut c_int));
    if code == 0 { device } else { -1 }
}

fn is_captured(stream: Address) -> bool {
    let mut status = NOT_CAPTURED;
    let code = real!(c"cuStreamIsCapturing", (stream, &raw mut status): (Address, *mut c_int));
    code != 0 || status != NOT_CAPTURED
}

fn is_blocking(stream: Address) -> bool {
    let mut flags = 0;
    let code = real!(c"cuStreamGetFlags", (stream, &raw mut flags): (Address, *mut c_uint));
    code != 0 || flags & NON_BLOCKING == 0
}

fn exchange_mode(mut mode: c_int) -> c_int {
    // A driver that refuses leaves it as it was.
    let _: Code = real!(c"cuThreadExchangeStreamCaptureMode", (&raw mut mode): (*mut c_int));
    mode
}

/// Answers in the place of a function that the driver lacks.
extern "C" fn not_found() -> Code {
    NOT_FOUND
}

/// Returns the function that answers without a driver.
fn without(name: &CStr) -> Address {
    match name.to_bytes() {
        b"cuGetErrorName" | b"cuGetErrorString" => error_text as Address,
        _ => no_driver as Address,
    }
}

extern "C" fn no_driver() -> Code {
    STUB_LIBRARY
}

/// The name of the error that calls answer without a driver; a program may print it unseen.
///
/// # Safety
/// `text` may be written to, or is null.
unsafe extern "C" fn error_text(code: Code, text: *mut *const c_char) -> Code {
    let known = code == STUB_LIBRARY && !text.is_null();
    if !text.is_null() {
        let name = if known { c"CUDA_ERROR_STUB_LIBRARY".as_ptr() } else { ptr::null() };
        // SAFETY: as the caller promises.
        unsafe { text.write(name) };
    }
    if known { 0 } else { INVALID_VALUE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_without_a_driver_have_a_name() {
        let mut text = ptr::null();
        // SAFETY: the text may be written to.
        let code = unsafe { error_text(STUB_LIBRARY, &raw mut text) };
        // SAFETY: the text ends with zero.
        let name = unsafe { CStr::from_ptr(text) };
        assert_eq!((code, name), (0, c"CUDA_ERROR_STUB_LIBRARY"));
        // SAFETY: as above; null is allowed.
        let codes = unsafe { (error_text(7, &raw mut text), error_text(7, ptr::null_mut())) };
        assert_eq!((codes, text), ((INVALID_VALUE, INVALID_VALUE), ptr::null()));
    }
}
