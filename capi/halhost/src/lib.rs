//! The C API for the processor as a device: `xsched/host/hal.h` and `libhalhost.so`. It is thin:
//! all is in `libpreempt.so`, so that all platforms share one runtime.
#![expect(unsafe_code, reason = "it is called from C")]

use std::ffi::c_int;

/// As in `xsched/types.h`.
type HwQueueHandle = u64;
/// As in `xsched/types.h`.
type HwCommandHandle = u64;
/// As in `xsched/types.h`.
type XResult = c_int;

#[link(name = "preempt", kind = "dylib")]
// SAFETY: these are declared as `libpreempt.so` defines them.
unsafe extern "C" {
    fn xsched_private_host_queue_create(hwq: *mut HwQueueHandle) -> XResult;
    fn xsched_private_host_command_create_timed(hw_cmd: *mut HwCommandHandle, us: i64) -> XResult;
}

/// Makes a hardware queue on the processor, which can be held at all levels. All queues of the
/// process share one compute unit. The C++ XSched does not have this function.
///
/// # Safety
/// `hwq` is null or may be written to.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HostQueueCreate(hwq: *mut HwQueueHandle) -> XResult {
    // SAFETY: as the caller promises.
    unsafe { xsched_private_host_queue_create(hwq) }
}

/// Creates a command that computes for `us` microseconds, 0 to 60,000,000. The first call measures
/// the processor, which takes some milliseconds. The C++ XSched does not have this function.
///
/// # Safety
/// `hw_cmd` is null or may be written to.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HostCommandCreateTimed(hw_cmd: *mut HwCommandHandle, us: i64) -> XResult {
    // SAFETY: as the caller promises.
    unsafe { xsched_private_host_command_create_timed(hw_cmd, us) }
}
