//! A library to preload (`LD_PRELOAD`). It sees the calls that a program and its libraries make
//! to AMD's kernel driver, at the C library's `ioctl`.
//!
//! * It knows each queue's ring, size and priority, and which thread made it, so that a stream's
//!   queue can be found.
//! * It knows how many packets were written into each ring so far, so that the ring of any stream
//!   can be found: by launching something.
//! * It sees when a queue's owner updates it. While XSched has the queue suspended, an update
//!   reaches the driver with a percentage of 0 instead, and the owner's percentage is kept until
//!   XSched resumes the queue. The owner's call returns success. Letting the update through and
//!   suspending the queue again would cost two preemptions of the whole GPU, and the queue would
//!   run meanwhile.
//! * Before a queue is destroyed, or the runtime disabled, it has XSched resume suspended queues:
//!   with a debugger attached the driver would wait for ever.
//!
//! It changes and refuses nothing else. Calls that do not go through the C library's `ioctl`, as
//! XSched's own, are not seen; ROCm's go through it.
#![allow(unsafe_code)]

mod interpose;
mod table;

use std::ffi::c_int;

use xsched_hal_kfd::preloaded::{EndFn, WatchedQueue};

pub use interpose::ioctl;
use table::lock;

/// See [`xsched_hal_kfd::preloaded::QueuesCreatedFn`].
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_kfd_watch_mark_v1() -> u64 {
    lock().created()
}

/// See [`xsched_hal_kfd::preloaded::CreatedFn`].
///
/// # Safety
/// `room` queues may be written to `queues`.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_kfd_watch_created_v1(
    since: u64,
    queues: *mut WatchedQueue,
    room: usize,
) -> usize {
    let found = lock().created_since(since, table::this_thread());
    for (at, queue) in found.iter().take(room).enumerate() {
        // SAFETY: the caller promises room for this many.
        unsafe { queues.add(at).write(*queue) };
    }
    found.len()
}

/// See [`xsched_hal_kfd::preloaded::RecordFn`].
///
/// # Safety
/// A queue may be written to `queue`.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_kfd_watch_record_v1(id: u32, queue: *mut WatchedQueue) -> c_int {
    let Some(found) = lock().get(id) else { return 0 };
    // SAFETY: the caller promises that it may be written to.
    unsafe { queue.write(found) };
    1
}

/// See [`xsched_hal_kfd::preloaded::HoldFn`].
///
/// # Safety
/// A queue may be written to `queue`.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_kfd_watch_hold_v1(
    id: u32,
    held: c_int,
    queue: *mut WatchedQueue,
) -> c_int {
    let Some(found) = interpose::hold(id, held != 0) else { return 0 };
    // SAFETY: the caller promises that it may be written to.
    unsafe { queue.write(found) };
    1
}

/// See [`xsched_hal_kfd::preloaded::WrittenFn`].
///
/// # Safety
/// `room` rows may be written to `queues`.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_kfd_watch_written_v1(queues: *mut [u64; 3], room: usize) -> usize {
    let table = lock();
    let mut count = 0;
    for row in table.written() {
        if count < room {
            // SAFETY: the caller promises room for this many.
            unsafe { queues.add(count).write(row) };
        }
        count += 1;
    }
    count
}

/// See [`xsched_hal_kfd::preloaded::OnEndFn`].
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_kfd_watch_on_end_v1(call: Option<EndFn>) {
    lock().on_end = call;
}

/// See [`xsched_hal_kfd::preloaded::SecondaryProcessFn`].
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_kfd_watch_spaces_v1() -> c_int {
    c_int::from(lock().has_secondary_process)
}
