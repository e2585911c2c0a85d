//! Handles, arguments and texts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::*;

alone!(handles_that_are_null_foreign_or_stale_are_answered, {
    let xq = host_queue(1);
    let foreign = [0, 1, u64::MAX, xq ^ 1 << 60, xq ^ 1 << 21];
    ok(XQueueDestroy(xq));
    for handle in foreign.into_iter().chain([xq]) {
        let mut to = 0;
        let mut state = XQueueState::kQueueStateUnknown;
        let mut count = 0;
        // SAFETY: the places may be written to.
        let written = unsafe {
            [
                XQueueQuery(handle, &raw mut state),
                XQueueProfileHwCommandCount(handle, &raw mut count),
                XQueueGet(&raw mut to, handle),
                XQueueCreate(&raw mut to, handle, 1, 0),
            ]
        };
        let calls = [
            XQueueDestroy(handle),
            XQueueSetPreemptLevel(handle, 1),
            XQueueSetLaunchConfig(handle, 4, 2),
            XQueueSubmit(handle, timed(1)),
            XQueueWait(handle, timed(1)),
            XQueueWaitAll(handle),
            XQueueSuspend(handle, 0),
            XQueueResume(handle, 0),
            HwQueueDestroy(handle),
            HwQueueLaunch(handle, timed(1)),
            HwQueueSynchronize(handle),
            HwCommandDestroy(handle),
            XHintPriority(handle, 1),
            XHintUtilization(handle, 1),
            XHintLaxity(handle, 1, 1, 1),
            XHintDeadline(handle, 1),
        ];
        for (at, result) in written.into_iter().chain(calls).enumerate() {
            assert_eq!(result, kXSchedErrorNotFound, "{handle:#x}, call {at}: {}", last_error());
        }
    }
});

alone!(places_that_are_null_are_answered, {
    let (xq, null) = (host_queue(1), std::ptr::null_mut());
    // SAFETY: null is what is tried.
    let results = unsafe {
        [
            XQueueCreate(null, 0, 1, 0),
            XQueueGet(null, 0),
            XQueueQuery(xq, std::ptr::null_mut()),
            XQueueProfileHwCommandCount(xq, std::ptr::null_mut()),
            HwCommandCreateCallback(null, None, std::ptr::null_mut()),
            xsched_private_host_queue_create(null),
            xsched_private_host_command_create_timed(null, 1),
            xsched_private_hip_queue_create(null, std::ptr::null_mut()),
            xsched_private_cuda_queue_create(null, std::ptr::null_mut()),
            xsched_private_stream_queue_get(null, std::ptr::null_mut()),
            xsched_private_auto_queue(null, 0),
        ]
    };
    assert!(results.iter().all(|r| *r == kXSchedErrorInvalidValue), "{results:?}");
    let mut command = 0;
    // SAFETY: it may be written to.
    let result = unsafe { HwCommandCreateCallback(&raw mut command, None, std::ptr::null_mut()) };
    assert_eq!(result, kXSchedErrorInvalidValue);
});

alone!(values_out_of_range_are_refused, {
    let (hwq, xq) = (host_hwq(), host_queue(3));
    for level in [i64::MIN, -1, 0, 4, i64::MAX] {
        assert_eq!(create(hwq, level, 0), Err(kXSchedErrorInvalidValue));
    }
    let refused = [
        XQueueSetPreemptLevel(xq, 0),
        XQueueSetPreemptLevel(xq, 4),
        XQueueSetLaunchConfig(xq, 65_537, -1),
        XQueueSetLaunchConfig(xq, 4, 5),
        XHintSetScheduler(0, 1),
        XHintSetScheduler(99, 1),
    ];
    for (at, result) in refused.into_iter().enumerate() {
        assert_eq!(result, kXSchedErrorInvalidValue, "call {at}: {}", last_error());
    }
    ok(XHintLaxity(xq, NO_LAXITY, 0, 0));
    ok(XHintDeadline(xq, NO_DEADLINE));
});

alone!(each_thread_has_its_own_last_error, {
    assert_eq!(last_error(), "");
    assert_eq!(XQueueWaitAll(7), kXSchedErrorNotFound);
    assert!(last_error().contains("no such XQueue"));
    std::thread::spawn(|| assert_eq!(last_error(), "")).join().expect("it is empty there");
});

alone!(an_attached_queue_answers_its_xqueue, {
    let hwq = host_hwq();
    let mut there = 0;
    // SAFETY: it may be written to.
    assert_eq!(unsafe { XQueueGet(&raw mut there, hwq) }, kXSchedErrorNotFound);
    let xq = create(hwq, 1, 0).expect("an XQueue");
    assert_eq!(create(hwq, 3, BLOCKING), Ok(xq));
    // SAFETY: it may be written to.
    ok(unsafe { XQueueGet(&raw mut there, hwq) });
    assert_eq!(there, xq);
    assert_eq!(HwQueueDestroy(hwq), kXSchedErrorNotAllowed);
    ok(XQueueDestroy(xq));
    let second = create(hwq, 1, 0).expect("another one");
    assert_ne!(xq, second);
    ok(XQueueDestroy(second));
    ok(HwQueueDestroy(hwq));
});

alone!(a_command_is_the_queues_once_it_is_submitted, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let (xq, other) = (host_queue(1), host_queue(1));
    let command = counting(&CALLS);
    assert_eq!(XQueueWait(xq, command), kXSchedErrorNotAllowed);
    ok(XQueueSubmit(xq, command));
    assert_eq!(XQueueSubmit(xq, command), kXSchedErrorNotFound);
    assert_eq!(HwCommandDestroy(command), kXSchedErrorNotFound);
    assert_eq!(XQueueWait(other, command), kXSchedErrorInvalidValue);
    ok(XQueueWait(xq, command));
    ok(XQueueWait(xq, command));
    assert_eq!(CALLS.load(Ordering::Acquire), 1);
    let unused = counting(&CALLS);
    ok(HwCommandDestroy(unused));
    assert_eq!(HwCommandDestroy(unused), kXSchedErrorNotFound);
});

alone!(commands_launched_past_the_queue_run_at_once, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let hwq = host_hwq();
    let xq = create(hwq, 1, 0).expect("an XQueue");
    ok(XQueueSuspend(xq, 0));
    ok(HwQueueLaunch(hwq, counting(&CALLS)));
    assert_eq!(CALLS.load(Ordering::Acquire), 1);
    for _ in 0..300 {
        ok(HwQueueLaunch(hwq, timed(10)));
    }
    ok(HwQueueSynchronize(hwq));
    assert_eq!(HwQueueLaunch(hwq, answering(3)), kXSchedErrorNotFound);
    assert!(last_error().contains("callback answered 3"));
    ok(XQueueResume(xq, 0));
});
