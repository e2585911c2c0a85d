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
    fn xsched_private_hip_stream_queue_create(
        hwq: *mut HwQueueHandle,
        stream: *mut hipStream_t,
        level: i64,
    ) -> XResult;
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

/// Makes a stream in a hardware ring of its own on this thread's device, and a hardware queue of
/// it. Only XQueues of such streams can have level 2 and, on AMD GPUs, level 3: other streams may
/// share a ring. The stream ends with the hardware queue.
///
/// `level` is the highest that its XQueues are to have, 1 to 3. For 3 this finds out which of the
/// driver's queues the stream has; where it cannot, `XQueueCreate` gives a lower level and says
/// why. Without `libxsched_kfd_watch.so` in `LD_PRELOAD` this process then has its debugger, and
/// kernels' faults go there. The stream waits for the legacy default stream, and that for it. The
/// C++ XSched does not have this function.
///
/// # Safety
/// `hwq` and `stream` are null or may be written to. Nothing uses the stream after
/// `HwQueueDestroy`.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HipStreamQueueCreate(
    hwq: *mut HwQueueHandle,
    stream: *mut hipStream_t,
    level: i64,
) -> XResult {
    // SAFETY: as the caller promises.
    unsafe { xsched_private_hip_stream_queue_create(hwq, stream, level) }
}
