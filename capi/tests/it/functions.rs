//! Commands that run a function on the thread of the host device's queue.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::*;
use crate::scheduler::count;

/// The thread that a function ran on, and what a wait within it answered.
static THREAD: AtomicI32 = AtomicI32::new(0);
static WAITED: AtomicI32 = AtomicI32::new(-1);
static DONE: AtomicU64 = AtomicU64::new(0);

fn this_thread() -> i32 {
    // SAFETY: always allowed.
    unsafe { libc::gettid() }
}

// SAFETY: it only uses the C API and statics.
unsafe extern "C" fn notes_its_thread(_: HwQueueHandle, xq: *mut c_void) -> XResultValue {
    THREAD.store(this_thread(), Ordering::Release);
    WAITED.store(XQueueWaitAll(xq.addr() as u64) as i32, Ordering::Release);
    0
}

// SAFETY: it only uses statics.
unsafe extern "C" fn takes_a_while(_: HwQueueHandle, _: *mut c_void) -> XResultValue {
    std::thread::sleep(Duration::from_millis(1));
    DONE.fetch_add(1, Ordering::AcqRel);
    0
}

// SAFETY: it only looks at its arguments.
unsafe extern "C" fn answers(_: HwQueueHandle, data: *mut c_void) -> XResultValue {
    data.addr() as XResultValue
}

alone!(a_function_runs_on_the_devices_thread_and_cannot_wait, {
    let (hwq, data) = (host_hwq(), std::ptr::without_provenance_mut);
    let xq = create(hwq, 1, 0).expect("an XQueue");
    let command = function(notes_its_thread, data(xq as usize));
    ok(XQueueSubmit(xq, command));
    ok(XQueueWait(xq, command));
    assert_ne!(THREAD.load(Ordering::Acquire), this_thread());
    assert_eq!(WAITED.load(Ordering::Acquire), kXSchedErrorNotAllowed as i32);
    // Past the queue as well.
    THREAD.store(0, Ordering::Release);
    ok(HwQueueLaunch(hwq, function(notes_its_thread, data(xq as usize))));
    ok(HwQueueSynchronize(hwq));
    assert!(![0, this_thread()].contains(&THREAD.load(Ordering::Acquire)));
    let mut none = 0;
    // SAFETY: the handle may be written to.
    let refused =
        unsafe { xsched_private_host_command_create_function(&raw mut none, None, data(0)) };
    assert_eq!(refused, kXSchedErrorInvalidValue);
});

alone!(what_a_function_answers_comes_back_from_the_waits, {
    let xq = host_queue(1);
    // A failure while it runs comes after that of a later command when that is launched.
    let slow = function(takes_a_while, std::ptr::null_mut());
    let (failing, launched) =
        (function(answers, std::ptr::without_provenance_mut(5)), answering(3));
    for command in [slow, failing, launched] {
        ok(XQueueSubmit(xq, command));
    }
    ok(XQueueWait(xq, slow));
    assert_eq!(XQueueWait(xq, failing), kXSchedErrorNotSupported);
    assert_eq!(XQueueWait(xq, launched), kXSchedErrorNotFound);
});

alone!(an_urgent_function_does_not_come_after_all_others, [("XSCHED_POLICY", "HPF")], {
    let (urgent, background) = (host_queue(1), host_queue(1));
    ok(XHintPriority(urgent, 10));
    for _ in 0..50 {
        ok(XQueueSubmit(background, function(takes_a_while, std::ptr::null_mut())));
    }
    let command = function(answers, std::ptr::null_mut());
    ok(XQueueSubmit(urgent, command));
    ok(XQueueWait(urgent, command));
    // At level 1 what is launched runs: 16 at most.
    assert!(count(&DONE) < 40, "{} came first", count(&DONE));
    ok(XQueueWaitAll(background));
    assert_eq!(count(&DONE), 50);
});
