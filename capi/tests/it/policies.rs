//! Policies through the C API. Row W-C5 of the C++ XSched's defects.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::common::*;
use crate::scheduler::{Busy, count, gets_on, the_second_has_more};

const UP: i32 = XPolicyType::kPolicyUtilizationPartition as i32;
const PUP: i32 = XPolicyType::kPolicyProcessUtilizationPartition as i32;
const SPUP: i32 = XPolicyType::kPolicyStrictProcessUtilizationPartition as i32;
const KEDF: i32 = XPolicyType::kPolicyKEarliestDeadlineFirst as i32;
const CFS: i32 = XPolicyType::kPolicyCompletelyFairScheduler as i32;
const MLFQ: i32 = XPolicyType::kPolicyMultiLevelFeedbackQueue as i32;

alone!(a_queue_with_no_execute_does_not_run, {
    // It ran at the lowest priority.
    static NEVER: AtomicU64 = AtomicU64::new(0);
    static OTHER: AtomicU64 = AtomicU64::new(0);
    ok(XHintSetScheduler(LOCAL, HPF));
    let (never, other) = (host_queue(1), host_queue(1));
    ok(XHintPriority(never, PRIORITY_NO_EXECUTE));
    ok(XQueueSubmit(never, counting(&NEVER)));
    ok(XQueueSubmit(other, counting(&OTHER)));
    ok(XQueueWaitAll(other));
    pause();
    assert_eq!((count(&NEVER), count(&OTHER)), (0, 1));
    ok(XHintPriority(never, PRIORITY_MIN));
    ok(XQueueWaitAll(never));
    assert_eq!(count(&NEVER), 1);
});

alone!(every_policy_lets_every_queue_finish, {
    // SPUP ended the process; under UP and KEDF queues without a hint never ran.
    static CALLS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    let queues: Vec<_> = (0..3).map(|_| host_queue(2)).collect();
    for policy in (1..12).chain(1_000..1_007) {
        ok(XHintSetScheduler(LOCAL, policy));
        // The third has no hints.
        for (n, xq) in (0..2).zip(&queues) {
            ok(XHintPriority(*xq, n * 5));
            ok(XHintUtilization(*xq, 30 + 10 * n));
            ok(XHintDeadline(*xq, 2_000 + i64::from(n)));
            ok(XHintLaxity(*xq, 3_000, 0, 9));
        }
        ok(XHintTimeslice(1_000));
        ok(XHintKDeadline(1));
        let before: Vec<_> = CALLS.iter().map(count).collect();
        for _ in 0..20 {
            for (xq, counter) in queues.iter().zip(&CALLS) {
                ok(XQueueSubmit(*xq, timed(50)));
                ok(XQueueSubmit(*xq, counting(counter)));
            }
        }
        queues.iter().for_each(|xq| ok(XQueueWaitAll(*xq)));
        for (counter, before) in CALLS.iter().zip(before) {
            assert_eq!(count(counter), before + 20, "policy {policy}");
        }
    }
});

/// Two queues that are always busy both get on, also when one comes much later.
fn both_get_on(policy: i32) {
    static CALLS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    ok(XHintSetScheduler(LOCAL, policy));
    let (old, new) = (host_queue(1), host_queue(1));
    let first = Busy::start(old, &CALLS[0]);
    gets_on("the first queue", &CALLS[0], 500);
    let second = Busy::start(new, &CALLS[1]);
    for _ in 0..3 {
        gets_on("the queue that came later", &CALLS[1], 50);
        gets_on("the queue that was there", &CALLS[0], 50);
    }
    drop((first, second));
}

alone!(under_cfs_a_queue_that_comes_later_starves_no_other, { both_get_on(CFS) });
alone!(under_mlfq_both_queues_get_on, { both_get_on(MLFQ) });
alone!(under_up_queues_without_a_hint_get_on, { both_get_on(UP) });
alone!(under_pup_both_queues_get_on, { both_get_on(PUP) });
alone!(under_spup_both_queues_get_on, { both_get_on(SPUP) });

alone!(under_up_a_queue_without_a_hint_runs_beside_one_with_a_hint, {
    static HINTED: AtomicU64 = AtomicU64::new(0);
    static OTHER: AtomicU64 = AtomicU64::new(0);
    ok(XHintSetScheduler(LOCAL, UP));
    let (hinted, other) = (host_queue(1), host_queue(1));
    ok(XHintUtilization(hinted, 60));
    // Idle at first, as in 40 of 40 slots that the other did not get.
    ok(XQueueSubmit(other, counting(&OTHER)));
    ok(XQueueWaitAll(other));
    let busy = Busy::start(hinted, &HINTED);
    gets_on("the queue with a hint", &HINTED, 20);
    ok(XQueueSubmit(other, counting(&OTHER)));
    ok(XQueueWaitAll(other));
    assert_eq!(count(&OTHER), 2);
    drop(busy);
});

alone!(a_ratio_of_the_bandwidth_is_a_share, {
    static CALLS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    ok(XHintSetScheduler(LOCAL, kPolicyBandwidthPartition as i32));
    ok(XHintTimeslice(2_000));
    let (small, large) = (host_queue(1), host_queue(1));
    ok(XHintSetBandwidthRatio(small, 0.1));
    ok(XHintSetBandwidthRatio(large, 0.9));
    for none in [-0.01, 1.01, 90.0, f64::NAN, f64::INFINITY] {
        assert_eq!(XHintSetBandwidthRatio(small, none), kXSchedErrorInvalidValue);
    }
    let busy = [Busy::start(small, &CALLS[0]), Busy::start(large, &CALLS[1])];
    the_second_has_more(&CALLS);
    drop(busy);
});

alone!(below_a_queue_that_never_pauses_others_keep_the_floor, {
    ok(XHintFloor(0.2));
    ok(XHintSetScheduler(LOCAL, HPF));
    for none in [-0.01, 0.51, 5.0, f64::NAN, f64::INFINITY] {
        assert_eq!(XHintFloor(none), kXSchedErrorInvalidValue);
    }
    let (urgent, below) = (host_queue(1), host_queue(1));
    ok(XHintPriority(urgent, 5));
    // Three seconds of work, and what is missing comes in one slice a second.
    (0..3_000).for_each(|_| ok(XQueueSubmit(urgent, timed(1_000))));
    std::thread::sleep(Duration::from_millis(500));
    ok(XQueueSubmit(below, timed(10)));
    ok(XQueueWaitAll(below));
    assert_ne!(state(urgent), XQueueState::kQueueStateIdle, "it ran behind all of the urgent one");
    ok(XQueueDestroy(urgent));
});

alone!(under_kedf_an_idle_queue_takes_no_place, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    ok(XHintSetScheduler(LOCAL, KEDF));
    ok(XHintKDeadline(1));
    let (idle, other) = (host_queue(1), host_queue(1));
    ok(XHintDeadline(idle, 1));
    ok(XQueueSubmit(idle, timed(1)));
    ok(XQueueWaitAll(idle));
    ok(XQueueSubmit(other, counting(&CALLS)));
    ok(XQueueWaitAll(other));
    assert_eq!(count(&CALLS), 1);
});
