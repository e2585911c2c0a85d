//! Calls that the C++ XSched takes though it cannot do them, and what `XSCHED_STRICT` makes of
//! those.

use std::sync::atomic::AtomicU64;

use crate::common::*;
use crate::scheduler::{count, the_second_has_more};

const UP: i32 = XPolicyType::kPolicyUtilizationPartition as i32;
const GLOBAL: i32 = XSchedulerType::kSchedulerGlobal as i32;
const LAX: i32 = XPolicyType::kPolicyLaxity as i32;

/// No function has this flag.
const NO_FLAG: i64 = 1 << 40;
const CREATE_SAYS: &str = "XQueueCreate has no flags 0x10000000000; they are ignored";

/// Calls whose values are out of range, with what the log says about each kind.
fn out_of_range(xq: XQueueHandle) -> Vec<(XResult, &'static str)> {
    let unlimited = TIMESLICE_UNLIMITED as Timeslice;
    let deadline = "deadline in µs must be 1 to 86400000000, is 0; 1 counts";
    vec![
        (XHintPriority(xq, 1_000), "priority must be -256 to 255, is 1000; 255 counts"),
        (XHintPriority(xq, -257), ""),
        (XHintUtilization(xq, 101), "share in percent must be 0 to 100, is 101; what was set"),
        (XHintUtilization(xq, -1), ""),
        (XHintTimeslice(unlimited), "must be 100 to 10000000, is -1; 10000000 counts"),
        (XHintTimeslice(20_000_000), ""),
        (XHintTimeslice(99), ""),
        (XHintTimeslice(0), ""),
        (XHintTimeslice(i64::MIN), ""),
        (XHintLaxity(xq, 0, 1, 2), "laxity in µs must be 1 to 86400000000, is 0; 1 counts"),
        (XHintLaxity(xq, i64::MAX, 1, 2), ""),
        (XHintLaxity(xq, -2, 1, 2), ""),
        (
            XHintLaxity(xq, 5, 999, 2),
            "priority of a laxity must be -256 to 255, is 999; 255 counts",
        ),
        (XHintLaxity(xq, 5, 1, -1_000), ""),
        (XHintDeadline(xq, 0), deadline),
        (XHintDeadline(xq, -2), ""),
        (XHintDeadline(xq, i64::MAX), ""),
        (XHintKDeadline(0), "k must be 1 to 65536, is 0; what was set before stays"),
        (XHintKDeadline(usize::MAX), ""),
        (XHintSetScheduler(LOCAL, 0), "there is no such policy; see XPolicyType; no policy"),
        (XHintSetScheduler(LOCAL, 12), ""),
        (
            create(host_hwq(), 1, NO_FLAG).map_or_else(|error| error, |xq| XQueueDestroy(xq)),
            CREATE_SAYS,
        ),
        (XQueueSuspend(xq, NO_FLAG), "XQueueSuspend has no flags 0x10000000000; they are ignored"),
        (XQueueResume(xq, NO_FLAG | DROP), "XQueueResume has no flags 0x10000000000; they are"),
    ]
}

#[test]
fn values_out_of_range_are_taken_and_each_kind_is_said_once() {
    fn body() {
        let xq = host_queue(1);
        for _ in 0..2 {
            for (at, (result, _)) in out_of_range(xq).into_iter().enumerate() {
                assert_eq!(result, kXSchedSuccess, "call {at}: {}", last_error());
            }
        }
        ok(XQueueSubmit(xq, timed(10)));
        ok(XQueueWaitAll(xq));
        // For the parent, which makes no queue.
        for (_, says) in out_of_range(xq).into_iter().filter(|(_, says)| !says.is_empty()) {
            eprintln!("expected: {says}");
        }
    }
    let name = "lenient::values_out_of_range_are_taken_and_each_kind_is_said_once";
    let Some(text) = alone_with(name, &[], body) else { return };
    let mut kinds = 0;
    for says in text.lines().filter_map(|line| line.strip_prefix("expected: ")) {
        let warned = text.lines().filter(|line| line.contains("WARN") && line.contains(says));
        assert_eq!(warned.count(), 1, "{says}: {text}");
        kinds += 1;
    }
    assert_eq!((kinds, text.matches("XSCHED_STRICT=ON").count()), (11, 11), "{text}");
}

alone!(values_out_of_range_are_refused_if_asked_for, [("XSCHED_STRICT", "ON")], {
    let xq = host_queue(1);
    for (at, (result, _)) in out_of_range(xq).into_iter().enumerate() {
        assert_eq!(result, kXSchedErrorInvalidValue, "call {at}: {}", last_error());
    }
    ok(XHintLaxity(xq, NO_LAXITY, 0, 0));
    ok(XHintDeadline(xq, NO_DEADLINE));
});

alone!(a_priority_below_the_lowest_is_the_lowest_that_runs, {
    // The C++ library puts it at the end of its range, and -256 is not what it is.
    static LOW: AtomicU64 = AtomicU64::new(0);
    ok(XHintSetScheduler(LOCAL, HPF));
    let (low, high) = (host_queue(1), host_queue(1));
    ok(XHintPriority(low, -100_000));
    ok(XQueueSubmit(low, counting(&LOW)));
    ok(XQueueWaitAll(low));
    // It is lower than one that is above the end of the range.
    ok(XHintPriority(high, 100_000));
    ok(XQueueSubmit(high, timed(300_000)));
    ok(XQueueSubmit(low, counting(&LOW)));
    pause();
    let held = (count(&LOW), state(high));
    ok(XQueueWaitAll(low));
    assert_eq!((held, count(&LOW)), ((1, XQueueState::kQueueStateReady), 2));
});

alone!(a_share_that_is_none_changes_nothing, {
    // The C++ library keeps the one before; as 100 it would be most of the device.
    static CALLS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    ok(XHintSetScheduler(LOCAL, UP));
    ok(XHintTimeslice(2_000));
    let (small, large) = (host_queue(1), host_queue(1));
    ok(XHintUtilization(small, 10));
    ok(XHintUtilization(large, 90));
    ok(XHintUtilization(small, 1_000));
    let _busy = [
        crate::scheduler::Busy::start(small, &CALLS[0]),
        crate::scheduler::Busy::start(large, &CALLS[1]),
    ];
    the_second_has_more(&CALLS);
});

alone!(a_priority_of_a_laxity_below_all_others_does_not_run, {
    // The C++ library compares it as it is: nothing of the kind ever runs.
    static NEVER: AtomicU64 = AtomicU64::new(0);
    ok(XHintSetScheduler(LOCAL, LAX));
    let xq = host_queue(1);
    ok(XHintLaxity(xq, 10_000_000, -1_000, 0));
    ok(XQueueSubmit(xq, counting(&NEVER)));
    pause();
    assert_eq!(count(&NEVER), 0);
    ok(XHintLaxity(xq, -7, 0, 0));
    ok(XQueueWaitAll(xq));
    assert_eq!(count(&NEVER), 1);
});

alone!(a_scheduler_without_a_policy_leaves_the_program_in_charge, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    ok(XHintPriority(xq, PRIORITY_NO_EXECUTE));
    ok(XHintSetScheduler(LOCAL, 0));
    // No policy holds it.
    ok(XQueueSubmit(xq, counting(&CALLS)));
    ok(XQueueWaitAll(xq));
    // Where a local scheduler is in charge, the C++ library refuses it, and the policy stays.
    ok(XHintSetScheduler(LOCAL, HPF));
    for none in [0, 12, 99] {
        assert_eq!(XHintSetScheduler(LOCAL, none), kXSchedErrorInvalidValue);
    }
    ok(XQueueSubmit(xq, counting(&CALLS)));
    pause();
    assert_eq!(count(&CALLS), 1);
    ok(XHintSetScheduler(APP, 0));
    ok(XHintSetScheduler(LOCAL, 0));
    ok(XQueueWaitAll(xq));
    assert_eq!(count(&CALLS), 2);
});

alone!(a_policy_in_the_environment_counts_as_one, [("XSCHED_POLICY", "HPF")], {
    assert_eq!(XHintSetScheduler(LOCAL, 0), kXSchedErrorInvalidValue);
});

alone!(flags_that_there_are_not_take_nothing_from_the_others, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = create(host_hwq(), 1, BLOCKING | NO_FLAG).expect("an XQueue");
    ok(XQueueSubmit(xq, timed(20_000)));
    ok(XQueueSubmit(xq, counting(&CALLS)));
    // A blocking submission returns when the command was launched.
    assert_eq!(count(&CALLS), 1);
    ok(XQueueSuspend(xq, WAIT_ALL | NO_FLAG));
    assert_eq!(state(xq), XQueueState::kQueueStateIdle);
    let other = std::thread::spawn(move || ok(XQueueSubmit(xq, counting(&CALLS))));
    until("it is submitted", || submitted(xq) == 3);
    ok(XQueueResume(xq, DROP | NO_FLAG));
    other.join().expect("it ends");
    assert_eq!(count(&CALLS), 1);
});

#[test]
fn a_global_scheduler_with_a_policy_is_a_local_one() {
    fn body() {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let xq = host_queue(1);
        ok(XHintPriority(xq, PRIORITY_NO_EXECUTE));
        // The C++ library looks at the policy first, and at the scheduler only if there is none.
        for policy in [LAX, HPF] {
            ok(XHintSetScheduler(GLOBAL, policy));
        }
        ok(XQueueSubmit(xq, counting(&CALLS)));
        pause();
        assert_eq!(count(&CALLS), 0);
        for none in [0, 12, 99] {
            assert_eq!(XHintSetScheduler(GLOBAL, none), kXSchedErrorNotSupported);
            assert!(last_error().contains("daemon"), "{}", last_error());
            // A local scheduler is in charge.
            assert_eq!(XHintSetScheduler(LOCAL, none), kXSchedErrorInvalidValue);
        }
        pause();
        assert_eq!(count(&CALLS), 0);
        ok(XHintSetScheduler(APP, 0));
        ok(XQueueWaitAll(xq));
        assert_eq!(count(&CALLS), 1);
    }
    let name = "lenient::a_global_scheduler_with_a_policy_is_a_local_one";
    let Some(text) = alone_with(name, &[], body) else { return };
    let says = "use kSchedulerLocal; the policy decides in this process alone (said once";
    assert_eq!(text.matches(says).count(), 1, "{text}");
}

alone!(a_global_scheduler_is_refused_if_asked_for, [("XSCHED_STRICT", "ON")], {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    ok(XHintPriority(xq, PRIORITY_NO_EXECUTE));
    assert_eq!(XHintSetScheduler(GLOBAL, HPF), kXSchedErrorNotSupported);
    assert!(last_error().contains("use kSchedulerLocal"), "{}", last_error());
    // No policy decides.
    ok(XQueueSubmit(xq, counting(&CALLS)));
    ok(XQueueWaitAll(xq));
    assert_eq!(count(&CALLS), 1);
});

#[test]
fn what_makes_no_sense_as_a_switch_is_reported() {
    fn body() {
        ok(XHintPriority(host_queue(1), 1_000));
    }
    let name = "lenient::what_makes_no_sense_as_a_switch_is_reported";
    let Some(text) = alone_with(name, &[("XSCHED_STRICT", "1")], body) else { return };
    assert!(text.contains("XSCHED_STRICT is `1` and is ignored; it can be ON, OFF"), "{text}");
}
