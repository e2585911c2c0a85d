//! The C API for the processor as a device: `xsched/host/hal.h` and `libhalhost.so`. It is thin:
//! all is in `libpreempt.so`, so that all platforms share one runtime.
#![expect(unsafe_code, reason = "it is called from C")]

use std::ffi::{c_int, c_void};

/// As in `xsched/types.h`.
type HwQueueHandle = u64;
/// As in `xsched/types.h`.
type HwCommandHandle = u64;
/// As in `xsched/types.h`.
type XResult = c_int;
/// As in `xsched/types.h`.
type LaunchCallback =
    Option<unsafe extern "C" fn(hwq: HwQueueHandle, data: *mut c_void) -> XResult>;

#[link(name = "preempt", kind = "dylib")]
// SAFETY: these are declared as `libpreempt.so` defines them.
unsafe extern "C" {
    fn xsched_private_host_queue_create(hwq: *mut HwQueueHandle) -> XResult;
    fn xsched_private_host_command_create_timed(hw_cmd: *mut HwCommandHandle, us: i64) -> XResult;
    fn xsched_private_host_command_create_function(
        hw_cmd: *mut HwCommandHandle,
        function: LaunchCallback,
        data: *mut c_void,
    ) -> XResult;
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

/// Creates a command that runs `function` with the hardware queue and `data` on the thread of the
/// hardware queue, once, when the device has come to it. The command is done when the function
/// returns, and fails if that does not answer `kXSchedSuccess`. A hold takes effect when it has
/// returned. It must neither wait for queues nor throw. The C++ XSched does not have this function.
///
/// # Safety
/// `hw_cmd` is null or may be written to; `function` may be called with `data`.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HostCommandCreateFunction(
    hw_cmd: *mut HwCommandHandle,
    function: LaunchCallback,
    data: *mut c_void,
) -> XResult {
    // SAFETY: as the caller promises.
    unsafe { xsched_private_host_command_create_function(hw_cmd, function, data) }
}
