//! The C API for NVIDIA GPUs: `xsched/cuda/hal.h` and `libhalcuda.so`. It is thin: all is in
//! `libpreempt.so`, so that all platforms share one runtime.
#![expect(unsafe_code, reason = "it is called from C")]

use std::ffi::{c_int, c_void};

/// As in `xsched/types.h`.
type HwQueueHandle = u64;
/// As in CUDA's headers.
type CUstream = *mut c_void;
/// As in `xsched/types.h`.
type XResult = c_int;

#[link(name = "preempt", kind = "dylib")]
// SAFETY: these are declared as `libpreempt.so` defines them.
unsafe extern "C" {
    fn xsched_private_cuda_queue_create(hwq: *mut HwQueueHandle, stream: CUstream) -> XResult;
    fn xsched_private_stream_queue_get(hwq: *mut HwQueueHandle, stream: CUstream) -> XResult;
}

/// Makes a hardware queue of a stream, or answers the one that it has. A context of the stream's
/// device is current. A default stream is answered with `kXSchedErrorNotSupported`.
///
/// # Safety
/// `hwq` is null or may be written to. The stream is alive, is of its device's primary context, and
/// outlives the hardware queue.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CudaQueueCreate(hwq: *mut HwQueueHandle, stream: CUstream) -> XResult {
    // SAFETY: as the caller promises.
    unsafe { xsched_private_cuda_queue_create(hwq, stream) }
}

/// Answers the hardware queue of a stream; `kXSchedErrorNotFound` if it has none.
///
/// # Safety
/// `hwq` is null or may be written to.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CudaQueueGet(hwq: *mut HwQueueHandle, stream: CUstream) -> XResult {
    // SAFETY: as the caller promises.
    unsafe { xsched_private_stream_queue_get(hwq, stream) }
}
