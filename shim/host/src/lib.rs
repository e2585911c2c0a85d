//! `libshimhost.so`: preloaded, it hands what a program launches on the host device over to
//! XQueues, as `XSCHED_AUTO_XQUEUE` and its companions say. See `xsched-shim`.
#![expect(unsafe_code, reason = "it takes the place of C functions")]

use xsched_shim::{NOT_FOUND, Next, SUCCESS, Streams, XResult};

static HARDWARE_QUEUES: Streams = Streams::new();

#[link(name = "preempt", kind = "dylib")]
// SAFETY: these are declared as `libpreempt.so` defines them.
unsafe extern "C" {
    fn XQueueWaitAll(xq: u64) -> XResult;
}

/// A function of one handle.
type OfHandle = unsafe extern "C" fn(u64) -> XResult;

/// Calls the function that this one stands in front of.
fn call(next: &Next, handle: u64) -> XResult {
    let Some(address) = next.address() else { return NOT_FOUND };
    // SAFETY: the library's function of this name has this signature.
    let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, OfHandle>(address) };
    // SAFETY: any handle may be given.
    unsafe { next(handle) }
}

/// In front of `HostQueueCreate`.
///
/// # Safety
/// As of that.
// SAFETY: it takes the place of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HostQueueCreate(hwq: *mut u64) -> XResult {
    static NEXT: Next = Next::new(c"HostQueueCreate");
    let Some(address) = NEXT.address() else { return NOT_FOUND };
    type Create = unsafe extern "C" fn(*mut u64) -> XResult;
    // SAFETY: the library's function of this name has this signature.
    let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Create>(address) };
    // SAFETY: as the caller promises.
    let code = unsafe { next(hwq) };
    if code == SUCCESS {
        // SAFETY: it was written to just now.
        let made = unsafe { hwq.read() };
        HARDWARE_QUEUES.attach(made, 0, |hwq| {
            // SAFETY: `attach` gives a handle that may be written to.
            unsafe { hwq.write(made) };
            SUCCESS
        });
    }
    code
}

/// In front of `HwQueueLaunch`: through the XQueue.
///
/// # Safety
/// As of that.
// SAFETY: it takes the place of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HwQueueLaunch(hwq: u64, hw_cmd: u64) -> XResult {
    static NEXT: Next = Next::new(c"HwQueueLaunch");
    let Some(address) = NEXT.address() else { return NOT_FOUND };
    type Launch = unsafe extern "C" fn(u64, u64) -> XResult;
    // SAFETY: the library's function of this name has this signature.
    let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Launch>(address) };
    // SAFETY: any handles may be given.
    HARDWARE_QUEUES.launch(hwq, || unsafe { next(hwq, hw_cmd) })
}

/// In front of `HwQueueSynchronize`: waits for everything that was launched.
///
/// # Safety
/// As of that.
// SAFETY: it takes the place of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HwQueueSynchronize(hwq: u64) -> XResult {
    static NEXT: Next = Next::new(c"HwQueueSynchronize");
    match HARDWARE_QUEUES.queue(hwq) {
        // SAFETY: any handle may be given.
        Some(xq) => unsafe { XQueueWaitAll(xq) },
        None => call(&NEXT, hwq),
    }
}

/// In front of `HwQueueDestroy`: of the XQueue as well, which the program knows nothing of.
///
/// # Safety
/// As of that.
// SAFETY: it takes the place of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HwQueueDestroy(hwq: u64) -> XResult {
    static NEXT: Next = Next::new(c"HwQueueDestroy");
    HARDWARE_QUEUES.detach(hwq);
    call(&NEXT, hwq)
}
