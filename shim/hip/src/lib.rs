//! `libshimhip.so`: preloaded, it hands what a HIP program launches into streams of its own over to
//! XQueues, as `XSCHED_AUTO_XQUEUE` and its companions say. See `xsched-shim`.
//!
//! It stands in front of the calls that make and end streams and of the commonest launches; the
//! others, and default streams, go past it. Streams that are being captured are left alone
//! meanwhile. A stream's priority becomes that of its XQueue, with the sign turned, since HIP
//! counts downwards.
#![expect(unsafe_code, reason = "it takes the place of C functions")]

use std::ffi::{c_int, c_uint, c_void};

use xsched_shim::{Next, Streams, XResult};

/// `hipError_t`.
type Code = c_int;
/// `hipErrorSharedObjectSymbolNotFound`.
const SYMBOL_NOT_FOUND: Code = 302;
/// `hipStreamCaptureStatusNone`.
const NOT_CAPTURED: c_uint = 0;

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dim3 {
    /// Blocks or threads in each direction.
    pub x: c_uint,
    /// See `x`.
    pub y: c_uint,
    /// See `x`.
    pub z: c_uint,
}

static STREAMS: Streams = Streams::new();

#[link(name = "preempt", kind = "dylib")]
// SAFETY: these are declared as `libpreempt.so` defines them.
unsafe extern "C" {
    fn xsched_private_hip_queue_create(hwq: *mut u64, stream: *mut c_void) -> XResult;
    fn HwQueueDestroy(hwq: u64) -> XResult;
}

fn key(stream: *mut c_void) -> u64 {
    stream.addr() as u64
}

/// Gives a stream that was made just now an XQueue.
///
/// # Safety
/// `stream` may be read if `code` is success.
unsafe fn made(code: Code, stream: *const *mut c_void, priority: c_int) -> Code {
    if code == 0 {
        // SAFETY: as the caller promises.
        let stream = unsafe { stream.read() };
        let left = STREAMS.attach(key(stream), priority.saturating_neg(), |hwq| {
            // SAFETY: the handle may be written to. The stream is alive, and before it ends its
            // queue does, below.
            unsafe { xsched_private_hip_queue_create(hwq, stream) }
        });
        if let Some(hwq) = left {
            // SAFETY: any handle may be given.
            unsafe { HwQueueDestroy(hwq) };
        }
    }
    code
}

/// Whether commands of the stream become nodes of a graph.
fn is_captured(stream: *mut c_void) -> bool {
    static NEXT: Next = Next::new(c"hipStreamIsCapturing");
    type Ask = unsafe extern "C" fn(*mut c_void, *mut c_uint) -> Code;
    let Some(address) = NEXT.address() else { return false };
    // SAFETY: HIP's function of this name has this signature.
    let ask = unsafe { std::mem::transmute::<*mut c_void, Ask>(address) };
    let mut status = NOT_CAPTURED;
    // SAFETY: the stream is alive, as the program promises, and the status may be written to.
    unsafe { ask(stream, &raw mut status) == 0 && status != NOT_CAPTURED }
}

/// Launches into a stream, through its XQueue if it has one.
fn launch(stream: *mut c_void, launch: impl FnOnce() -> Code) -> Code {
    if STREAMS.queue(key(stream)).is_none() || is_captured(stream) {
        return launch();
    }
    STREAMS.launch(key(stream), launch)
}

/// Functions in front of HIP's. `next` is HIP's own in what they do.
macro_rules! in_front_of {
    ($($name:ident($($arg:ident: $kind:ty),+) => |$next:ident| $does:expr;)+) => {$(
        #[doc = concat!("In front of `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As of that.
        // SAFETY: it takes the place of that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),+) -> Code {
            static NEXT: Next = Next::new(
                match std::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            type Signature = unsafe extern "C" fn($($kind),+) -> Code;
            let Some(address) = NEXT.address() else { return SYMBOL_NOT_FOUND };
            // SAFETY: HIP's function of this name has this signature.
            let next = unsafe { std::mem::transmute::<*mut c_void, Signature>(address) };
            // SAFETY: the caller promises what HIP asks for.
            let $next = move || unsafe { next($($arg),+) };
            $does
        }
    )+};
}

in_front_of! {
    hipStreamCreate(stream: *mut *mut c_void) => |next| {
        // SAFETY: HIP has written to it where it succeeded.
        unsafe { made(next(), stream, 0) }
    };
    hipStreamCreateWithFlags(stream: *mut *mut c_void, flags: c_uint) => |next| {
        // SAFETY: as above.
        unsafe { made(next(), stream, 0) }
    };
    hipStreamCreateWithPriority(
        stream: *mut *mut c_void,
        flags: c_uint,
        priority: c_int
    ) => |next| {
        // SAFETY: as above.
        unsafe { made(next(), stream, priority) }
    };
    hipStreamDestroy(stream: *mut c_void) => |next| {
        if let Some(hwq) = STREAMS.detach(key(stream)) {
            // SAFETY: any handle may be given.
            unsafe { HwQueueDestroy(hwq) };
        }
        next()
    };
    hipModuleLaunchKernel(
        function: *mut c_void,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: *mut c_void,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    ) => |next| launch(stream, next);
    hipLaunchKernel(
        function: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared_bytes: usize,
        stream: *mut c_void
    ) => |next| launch(stream, next);
    hipLaunchCooperativeKernel(
        function: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared_bytes: c_uint,
        stream: *mut c_void
    ) => |next| launch(stream, next);
    hipMemcpyAsync(
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: c_uint,
        stream: *mut c_void
    ) => |next| launch(stream, next);
    hipMemsetAsync(
        to: *mut c_void,
        value: c_int,
        bytes: usize,
        stream: *mut c_void
    ) => |next| launch(stream, next);
    hipGraphLaunch(graph: *mut c_void, stream: *mut c_void) => |next| launch(stream, next);
}
