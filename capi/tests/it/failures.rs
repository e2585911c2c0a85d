//! Failures end no process and come back from the waits: §2.2 of the C++ XSched's defects.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::common::*;
use crate::scheduler::count;

alone!(what_a_callback_answers_comes_back_from_the_waits, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    for (number, result) in [
        (1, kXSchedErrorHardware),
        (2, kXSchedErrorInvalidValue),
        (3, kXSchedErrorNotFound),
        (4, kXSchedErrorNotAllowed),
        (5, kXSchedErrorNotSupported),
        (6, kXSchedErrorBadResponse),
        (999, kXSchedErrorUnknown),
        (-77, kXSchedErrorUnknown),
    ] {
        let failing = answering(number);
        let after = counting(&CALLS);
        ok(XQueueSubmit(xq, failing));
        ok(XQueueSubmit(xq, after));
        assert_eq!(XQueueWait(xq, failing), result);
        assert!(last_error().contains(&format!("callback answered {number}")), "{}", last_error());
        ok(XQueueWait(xq, after));
        assert_eq!(XQueueWaitAll(xq), result, "{number}");
        ok(XQueueWaitAll(xq));
    }
    assert_eq!(count(&CALLS), 8);
});

alone!(the_first_of_several_failures_is_answered_once, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    ok(XQueueSuspend(xq, SYNC));
    let commands: Vec<_> = (0..40)
        .map(|n| if n % 10 == 3 { answering(4 + n / 10) } else { counting(&CALLS) })
        .collect();
    commands.iter().for_each(|command| ok(XQueueSubmit(xq, *command)));
    ok(XQueueResume(xq, 0));
    assert_eq!(XQueueWaitAll(xq), kXSchedErrorNotAllowed);
    ok(XQueueWaitAll(xq));
    let results: Vec<_> = commands.iter().map(|command| XQueueWait(xq, *command)).collect();
    for (n, result) in results.into_iter().enumerate() {
        let expected = match n {
            3 => kXSchedErrorNotAllowed,
            13 => kXSchedErrorNotSupported,
            23 => kXSchedErrorBadResponse,
            33 => kXSchedErrorUnknown,
            _ => kXSchedSuccess,
        };
        assert_eq!(result, expected, "command {n}");
    }
    assert_eq!(count(&CALLS), 36);
});

/// Answers of calls from within a callback.
static INSIDE: [AtomicI32; 8] = [const { AtomicI32::new(-1) }; 8];
static XQ: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: it only uses the C API.
unsafe extern "C" fn calls_everything(hwq: HwQueueHandle, _: *mut c_void) -> XResultValue {
    let xq = XQ.load(Ordering::Acquire);
    let results = [
        XQueueWaitAll(xq),
        XQueueDestroy(xq),
        XQueueSuspend(xq, WAIT_ALL),
        XQueueSuspend(xq, WAIT_IDLE | SYNC),
        HwQueueSynchronize(hwq),
        XQueueSubmit(xq, counting(&CALLS)),
        XHintPriority(xq, 3),
        XQueueSetLaunchConfig(xq, 2, 1),
    ];
    for (place, result) in INSIDE.iter().zip(results) {
        place.store(result as i32, Ordering::Release);
    }
    0
}

alone!(a_callback_cannot_wait_for_its_own_queue, {
    let xq = host_queue(1);
    XQ.store(xq, Ordering::Release);
    ok(XQueueSubmit(xq, callback(calls_everything, std::ptr::null_mut())));
    ok(XQueueWaitAll(xq));
    let results = INSIDE.each_ref().map(|place| place.load(Ordering::Acquire));
    assert_eq!(results, [4, 4, 4, 4, 4, 0, 0, 0]);
    until("the command that a callback submitted", || count(&CALLS) == 1);
});

alone!(a_full_queue_does_not_make_a_callback_wait, [("XSCHED_QUEUE_CAPACITY", "64")], {
    // SAFETY: it only uses the C API.
    unsafe extern "C" fn submits(_: HwQueueHandle, _: *mut c_void) -> XResultValue {
        let xq = XQ.load(Ordering::Acquire);
        let mut results = (0..70).map(|_| XQueueSubmit(xq, counting(&CALLS)));
        results.find(|result| *result != kXSchedSuccess).map_or(0, |result| result as i32)
    }
    let xq = host_queue(1);
    XQ.store(xq, Ordering::Release);
    let command = callback(submits, std::ptr::null_mut());
    ok(XQueueSubmit(xq, command));
    assert_eq!(XQueueWait(xq, command), kXSchedErrorNotAllowed);
    assert_eq!(XQueueWaitAll(xq), kXSchedErrorNotAllowed);
    until("what a callback submitted", || count(&CALLS) == 63);
});

alone!(
    a_platform_that_is_not_there_is_an_error,
    [("XSCHED_HIP_LIB", "/nowhere/hip.so"), ("XSCHED_CUDA_LIB", "/nowhere/cuda.so")],
    {
        let stream = std::ptr::without_provenance_mut(0x1000);
        let mut hwq = 0;
        // SAFETY: there is no library that would look at the stream.
        let result = unsafe { xsched_private_hip_queue_create(&raw mut hwq, stream) };
        assert_eq!(result, kXSchedErrorHardware);
        assert!(last_error().contains("/nowhere/hip.so"), "{}", last_error());
        // SAFETY: as above.
        let result = unsafe { xsched_private_cuda_queue_create(&raw mut hwq, stream) };
        assert_eq!(result, kXSchedErrorHardware);
        assert!(last_error().contains("/nowhere/cuda.so"), "{}", last_error());
        // SAFETY: nothing looks at the stream.
        let result = unsafe { xsched_private_stream_queue_get(&raw mut hwq, stream) };
        assert_eq!(result, kXSchedErrorNotFound);
        for default in 0..3 {
            let stream = std::ptr::without_provenance_mut(default);
            // SAFETY: as above.
            let result = unsafe { xsched_private_hip_queue_create(&raw mut hwq, stream) };
            assert_eq!(result, kXSchedErrorNotSupported);
            // SAFETY: as above.
            let result = unsafe { xsched_private_cuda_queue_create(&raw mut hwq, stream) };
            assert_eq!(result, kXSchedErrorNotSupported);
        }
    }
);
