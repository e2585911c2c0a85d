//! The C API for AMD GPUs: `xsched/hip/hal.h` and `libhalhip.so`. It is thin: all is in
//! `libpreempt.so`, so that all platforms share one runtime.
#![expect(unsafe_code, reason = "it is called from C")]
#![expect(non_camel_case_types, reason = "HIP's names")]

use std::ffi::{c_int, c_void};

/// As in `xsched/types.h`.
type HwQueueHandle = u64;
/// As in HIP's headers.
type hipStream_t = *mut c_void;
/// As in `xsched/types.h`.
type XResult = c_int;

#[link(name = "preempt", kind = "dylib")]
// SAFETY: this is declared as `libpreempt.so` defines it.
unsafe extern "C" {
    fn xsched_private_hip_queue_create(hwq: *mut HwQueueHandle, stream: hipStream_t) -> XResult;
}

/// Makes a hardware queue of a stream, or answers the one that it has. A default stream is answered
/// with `kXSchedErrorNotSupported`.
///
/// # Safety
/// `hwq` is null or may be written to. The stream is alive, and outlives the hardware queue.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HipQueueCreate(hwq: *mut HwQueueHandle, stream: hipStream_t) -> XResult {
    // SAFETY: as the caller promises.
    unsafe { xsched_private_hip_queue_create(hwq, stream) }
}
