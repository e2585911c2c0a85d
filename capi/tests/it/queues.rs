//! XQueues: waiting, suspending, settings. Rows W-C1, W-C2, W-C4 and W-C8 of the C++ XSched's
//! defects.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use crate::common::*;

/// The callback below has begun.
static RUNS: AtomicBool = AtomicBool::new(false);

// SAFETY: it only uses a static.
unsafe extern "C" fn runs(_: HwQueueHandle, _: *mut c_void) -> XResultValue {
    RUNS.store(true, Ordering::Release);
    pause();
    0
}

alone!(a_thread_that_learns_of_a_command_from_itself_can_wait_for_it, {
    let xq = host_queue(1);
    let command = callback(runs, std::ptr::null_mut());
    std::thread::scope(|scope| {
        // The callback runs within this call.
        scope.spawn(|| ok(XQueueSubmit(xq, command)));
        until("the callback", || RUNS.load(Ordering::Acquire));
        ok(XQueueWait(xq, command));
    });
});

alone!(a_submitted_command_can_be_waited_for, {
    // W-C4: `XQueueWait` always answered "not found".
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    for n in 1..=50 {
        let command = counting(&CALLS);
        ok(XQueueSubmit(xq, command));
        ok(XQueueWait(xq, command));
        assert_eq!(CALLS.load(Ordering::Acquire), n);
    }
    assert_eq!(submitted(xq), 50);
    ok(XQueueWaitAll(xq));
    assert_eq!(state(xq), XQueueState::kQueueStateIdle);
});

/// A figure of this process, such as the memory of its own in KiB.
fn figure(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("figures");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a figure");
    line.split_whitespace().next().and_then(|text| text.parse().ok()).expect("a number")
}

alone!(an_unused_xqueue_has_no_thread_and_little_memory, {
    const QUEUES: u64 = 256;
    // The first one has the device and its threads made.
    ok(XQueueSubmit(host_queue(1), timed(1)));
    let (threads, kib) = (figure("Threads:"), figure("RssAnon:"));
    let all: Vec<_> = (0..QUEUES).map(|_| host_queue(1)).collect();
    assert_eq!(figure("Threads:") - threads, 0);
    let kib_each = (figure("RssAnon:") - kib) / QUEUES;
    println!("{kib_each} KiB for each XQueue");
    assert!(kib_each <= 20, "{kib_each} KiB for each XQueue");
    all.into_iter().for_each(|xq| ok(XQueueDestroy(xq)));
});

alone!(to_launch_is_another_word_for_to_submit, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    let command = counting(&CALLS);
    ok(XQueueLaunch(xq, command));
    assert_eq!(XQueueLaunch(xq, command), kXSchedErrorNotFound);
    ok(XQueueWait(xq, command));
    assert_eq!((CALLS.load(Ordering::Acquire), submitted(xq)), (1, 1));
});

alone!(a_value_that_is_not_given_stays, {
    // W-C4: `(4, -1)` ended the process.
    let xq = host_queue(1);
    ok(XQueueSetLaunchConfig(xq, 4, -1));
    ok(XQueueSetLaunchConfig(xq, -1, 2));
    // The batch is 2 now, so a threshold of 1 makes do with 1.
    ok(XQueueSetLaunchConfig(xq, 1, 0));
    assert_eq!(XQueueSetLaunchConfig(xq, 0, 3), kXSchedErrorInvalidValue);
    for _ in 0..10 {
        ok(XQueueSubmit(xq, timed(10)));
    }
    ok(XQueueWaitAll(xq));
});

alone!(commands_can_be_dropped_at_every_level, {
    // W-C4: at level 1 they were launched all the same.
    static CALLS: AtomicU64 = AtomicU64::new(0);
    for level in 1..=3 {
        let xq = host_queue(level);
        ok(XQueueSuspend(xq, SYNC));
        let commands: Vec<_> = (0..3).map(|_| counting(&CALLS)).collect();
        commands.iter().for_each(|command| ok(XQueueSubmit(xq, *command)));
        pause();
        assert_eq!(state(xq), XQueueState::kQueueStateReady);
        ok(XQueueResume(xq, DROP));
        ok(XQueueWaitAll(xq));
        assert_eq!(CALLS.load(Ordering::Acquire), 0, "level {level}");
        for command in commands {
            assert_eq!(XQueueWait(xq, command), kXSchedErrorNotAllowed);
            assert!(last_error().contains("cancelled"), "{}", last_error());
        }
        ok(XQueueDestroy(xq));
    }
});

alone!(the_host_device_can_do_all_levels, {
    // W-C4: a level was set that was not there, and a success was answered. `hip` has the rest.
    let xq = host_queue(3);
    for level in [1, 2, 3, 1] {
        ok(XQueueSetPreemptLevel(xq, level));
        ok(XQueueSuspend(xq, SYNC));
        ok(XQueueSubmit(xq, timed(100)));
        ok(XQueueResume(xq, 0));
        ok(XQueueWaitAll(xq));
    }
});

alone!(a_suspend_that_waits_for_the_hardware_leaves_nothing_running, {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    static ENDED: AtomicU64 = AtomicU64::new(0);
    static OVER: AtomicBool = AtomicBool::new(false);
    // SAFETY: it only uses statics.
    unsafe extern "C" fn work(_: HwQueueHandle, _: *mut c_void) -> XResultValue {
        BEGUN.fetch_add(1, Ordering::AcqRel);
        std::thread::sleep(Duration::from_micros(500));
        ENDED.fetch_add(1, Ordering::AcqRel);
        0
    }
    for level in 1..=3 {
        let xq = host_queue(level);
        OVER.store(false, Ordering::Release);
        let submitter = std::thread::spawn(move || {
            while !OVER.load(Ordering::Acquire) {
                ok(XQueueSubmit(xq, function(work, std::ptr::null_mut())));
            }
        });
        for round in 0..40 {
            let before = ENDED.load(Ordering::Acquire);
            until("something runs", || ENDED.load(Ordering::Acquire) > before);
            std::thread::sleep(Duration::from_micros(37 * round % 600));
            ok(XQueueSuspend(xq, SYNC));
            let ended = ENDED.load(Ordering::Acquire);
            assert_eq!(BEGUN.load(Ordering::Acquire), ended, "level {level}: one runs");
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(BEGUN.load(Ordering::Acquire), ended, "level {level}: one has begun");
            ok(XQueueResume(xq, 0));
        }
        OVER.store(true, Ordering::Release);
        submitter.join().expect("it ends");
        ok(XQueueDestroy(xq));
    }
});

alone!(a_suspended_queue_stays_so_until_it_is_resumed, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    ok(XQueueSuspend(xq, 0));
    // There is no count: one resume is enough.
    ok(XQueueSuspend(xq, WAIT_ALL | SYNC));
    ok(XQueueSubmit(xq, counting(&CALLS)));
    pause();
    assert_eq!(CALLS.load(Ordering::Acquire), 0);
    ok(XQueueResume(xq, 0));
    ok(XQueueWaitAll(xq));
    // Nothing is suspended, so nothing is dropped.
    ok(XQueueSubmit(xq, counting(&CALLS)));
    ok(XQueueResume(xq, DROP));
    ok(XQueueWaitAll(xq));
    assert_eq!(CALLS.load(Ordering::Acquire), 2);
});

alone!(a_suspend_that_waits_and_a_resume_at_once_do_not_wedge, {
    // W-C1: the queue stayed paused for ever.
    for flags in [WAIT_ALL, WAIT_IDLE, WAIT_ALL | SYNC] {
        let xq = host_queue(1);
        for round in 0..100 {
            for _ in 0..4 {
                ok(XQueueSubmit(xq, timed(20)));
            }
            let suspender = std::thread::spawn(move || ok(XQueueSuspend(xq, flags)));
            for _ in 0..round % 7 {
                ok(XQueueResume(xq, 0));
                std::thread::yield_now();
            }
            suspender.join().expect("it ends");
            ok(XQueueResume(xq, 0));
            ok(XQueueSubmit(xq, timed(1)));
            ok(XQueueWaitAll(xq));
        }
        ok(XQueueDestroy(xq));
    }
});

alone!(a_suspended_queue_can_be_configured, {
    // W-C2: the one who would have resumed it waited for it.
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(3);
    ok(XQueueSubmit(xq, timed(100)));
    ok(XQueueSuspend(xq, SYNC));
    for _ in 0..20 {
        ok(XQueueSubmit(xq, counting(&CALLS)));
    }
    ok(XQueueSetLaunchConfig(xq, 4, 2));
    ok(XQueueSetPreemptLevel(xq, 1));
    ok(XHintPriority(xq, 3));
    pause();
    assert_eq!(CALLS.load(Ordering::Acquire), 0);
    ok(XQueueResume(xq, 0));
    ok(XQueueWaitAll(xq));
    assert_eq!(CALLS.load(Ordering::Acquire), 20);
});

alone!(nothing_is_launched_while_a_queue_is_suspended, {
    // W-C8: a thread that had waited for room in the window launched without looking again.
    static CALLS: AtomicU64 = AtomicU64::new(0);
    static OVER: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    ok(XQueueSetLaunchConfig(xq, 2, 1));
    let submitter = std::thread::spawn(move || {
        while OVER.load(Ordering::Acquire) == 0 {
            ok(XQueueSubmit(xq, timed(30)));
            ok(XQueueSubmit(xq, counting(&CALLS)));
        }
    });
    for _ in 0..100 {
        until("something runs", {
            let before = CALLS.load(Ordering::Acquire);
            move || CALLS.load(Ordering::Acquire) > before
        });
        ok(XQueueSuspend(xq, SYNC));
        let held = CALLS.load(Ordering::Acquire);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(CALLS.load(Ordering::Acquire), held);
        ok(XQueueResume(xq, 0));
    }
    OVER.store(1, Ordering::Release);
    submitter.join().expect("it ends");
    ok(XQueueDestroy(xq));
});

alone!(a_full_queue_waits_for_room, [("XSCHED_QUEUE_CAPACITY", "64")], {
    // §2.3 of the defects: 500,000 commands were taken while suspended.
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    ok(XQueueSuspend(xq, SYNC));
    for _ in 0..64 {
        ok(XQueueSubmit(xq, counting(&CALLS)));
    }
    // This thread has suspended it, so it would wait for itself.
    let one_more = counting(&CALLS);
    assert_eq!(XQueueSubmit(xq, one_more), kXSchedErrorNotAllowed);
    assert!(last_error().contains("resume it first"), "{}", last_error());
    // Another thread waits.
    let other = std::thread::spawn(move || ok(XQueueSubmit(xq, one_more)));
    pause();
    assert_eq!(submitted(xq), 64);
    ok(XQueueResume(xq, 0));
    other.join().expect("it got in");
    ok(XQueueWaitAll(xq));
    assert_eq!(CALLS.load(Ordering::Acquire), 65);
});

alone!(
    outcomes_are_kept_for_as_many_commands_as_there_is_room,
    [("XSCHED_QUEUE_CAPACITY", "64")],
    {
        let xq = host_queue(1);
        let first = answering(5);
        ok(XQueueSubmit(xq, first));
        for _ in 0..63 {
            ok(XQueueSubmit(xq, timed(1)));
        }
        assert_eq!(XQueueWait(xq, first), kXSchedErrorNotSupported);
        ok(XQueueSubmit(xq, timed(1)));
        assert_eq!(XQueueWait(xq, first), kXSchedErrorNotFound);
    }
);

alone!(a_blocking_submit_returns_when_the_command_was_launched, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = create(host_hwq(), 1, BLOCKING).expect("an XQueue");
    ok(XQueueSetLaunchConfig(xq, 1, 1));
    for n in 1..=20 {
        ok(XQueueSubmit(xq, timed(50)));
        ok(XQueueSubmit(xq, counting(&CALLS)));
        assert_eq!(CALLS.load(Ordering::Acquire), n);
    }
    ok(XQueueSuspend(xq, 0));
    assert_eq!(XQueueSubmit(xq, counting(&CALLS)), kXSchedErrorNotAllowed);
    let other = std::thread::spawn(move || ok(XQueueSubmit(xq, counting(&CALLS))));
    pause();
    // Dropped commands are never launched, and a blocking submission does not wait for them.
    ok(XQueueResume(xq, DROP));
    other.join().expect("it ends");
    assert_eq!(CALLS.load(Ordering::Acquire), 20);
});

alone!(an_interposer_launches_by_itself_when_it_is_its_turn, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    // With and without a queue that was made for it.
    for flags in [BLOCKING, 0] {
        CALLS.store(0, Ordering::Release);
        let xq = create(host_hwq(), 1, flags).expect("an XQueue");
        ok(XQueueSetLaunchConfig(xq, 2, 1));
        ok(launch_counted(xq, &CALLS));
        let threads = (0..8).map(|n| {
            std::thread::spawn(move || {
                for _ in 0..50 {
                    ok(launch_counted(xq, &CALLS));
                    if n % 2 == 0 {
                        ok(XQueueSubmit(xq, timed(20)));
                    }
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        for _ in 0..20 {
            ok(XQueueSuspend(xq, 0));
            std::thread::sleep(Duration::from_millis(1));
            ok(XQueueResume(xq, 0));
            std::thread::sleep(Duration::from_millis(1));
        }
        for thread in threads {
            thread.join().expect("it ends");
        }
        assert_eq!(CALLS.load(Ordering::Acquire), 401);
        // What is dropped is not begun, and the call returns.
        ok(XQueueSuspend(xq, 0));
        assert_eq!(begin_launch(xq), Err(kXSchedErrorNotAllowed));
        let other = std::thread::spawn(move || begin_launch(xq));
        pause();
        ok(XQueueResume(xq, DROP));
        assert_eq!(other.join().expect("it ends"), Ok(0));
        ok(XQueueDestroy(xq));
    }
    assert_eq!(begin_launch(77), Err(kXSchedErrorNotFound));
    assert_eq!(xsched_private_end_launch(1, 0), kXSchedErrorNotFound);
});

alone!(a_launch_is_in_flight_from_its_begin_to_its_end, {
    let xq = host_queue(1);
    let token = begin_launch(xq).expect("its turn");
    // Nothing waits within a launch, and nothing else is launched meanwhile.
    assert_eq!(begin_launch(xq), Err(kXSchedErrorNotAllowed));
    assert_eq!(XQueueWaitAll(xq), kXSchedErrorNotAllowed);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    ok(XQueueSubmit(xq, counting(&CALLS)));
    pause();
    assert_eq!(CALLS.load(Ordering::Acquire), 0);
    assert_eq!(xsched_private_end_launch(token + 1, 0), kXSchedErrorNotFound);
    ok(xsched_private_end_launch(token, 0));
    ok(XQueueWaitAll(xq));
    assert_eq!(CALLS.load(Ordering::Acquire), 1);
    // An error of the driver's is the command's.
    let token = begin_launch(xq).expect("its turn");
    ok(xsched_private_end_launch(token, 719));
    assert_eq!(XQueueWaitAll(xq), kXSchedErrorHardware);
    ok(XQueueWaitAll(xq));
    ok(XQueueDestroy(xq));
});

alone!(a_launch_that_is_never_ended_ends_with_its_thread, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    let thread = std::thread::spawn(move || {
        begin_launch(xq).expect("its turn");
        // What the thread had in hand waits for its end.
        ok(XQueueSubmit(xq, counting(&CALLS)));
    });
    thread.join().expect("it ends");
    assert_eq!(XQueueWaitAll(xq), kXSchedErrorHardware);
    assert_eq!(CALLS.load(Ordering::Acquire), 1);
    ok(launch_counted(xq, &CALLS));
    ok(XQueueWaitAll(xq));
    ok(XQueueDestroy(xq));
});

alone!(waits_end_within_each_other_and_with_their_threads, {
    let begin = || {
        let mut token = 0;
        // SAFETY: it may be written to.
        ok(unsafe { xsched_private_begin_wait(&raw mut token) });
        token
    };
    let (outer, inner) = (begin(), begin());
    assert_ne!(outer, inner);
    ok(xsched_private_end_wait(inner));
    assert_eq!(xsched_private_end_wait(inner), kXSchedErrorNotFound);
    begin();
    // With it what was begun within it.
    ok(xsched_private_end_wait(outer));
    assert_eq!(xsched_private_end_wait(inner), kXSchedErrorNotFound);
    std::thread::spawn(begin).join().expect("it ends");
});

alone!(destroying_a_queue_runs_what_was_submitted, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    ok(XHintSetScheduler(LOCAL, HPF));
    let xq = host_queue(3);
    ok(XHintPriority(xq, PRIORITY_NO_EXECUTE));
    ok(XQueueSuspend(xq, 0));
    for _ in 0..40 {
        ok(XQueueSubmit(xq, counting(&CALLS)));
    }
    ok(XQueueDestroy(xq));
    assert_eq!(CALLS.load(Ordering::Acquire), 40);
    assert_eq!(XQueueDestroy(xq), kXSchedErrorNotFound);
});

alone!(destroying_a_queue_ends_a_hold_by_any_hint, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    const NEVER: i32 = PRIORITY_NO_EXECUTE;
    let destroyed = |policy, hint: &dyn Fn(XQueueHandle) -> XResult| {
        ok(XHintSetScheduler(LOCAL, policy as i32));
        let xq = host_queue(1);
        ok(hint(xq));
        ok(XQueueSubmit(xq, counting(&CALLS)));
        pause();
        assert_eq!(CALLS.swap(0, Ordering::AcqRel), 0, "{policy:?}");
        ok(XQueueDestroy(xq));
        assert_eq!(CALLS.swap(0, Ordering::AcqRel), 1, "{policy:?}");
    };
    let (long, lax) = (10_000_000, XPolicyType::kPolicyLaxity);
    destroyed(lax, &|xq| XHintPriority(xq, NEVER));
    // Until its time has passed, from then on, and both.
    destroyed(lax, &|xq| XHintLaxity(xq, long, NEVER, 5));
    destroyed(lax, &|xq| XHintLaxity(xq, 1, NEVER, NEVER));
    destroyed(lax, &|xq| XHintLaxity(xq, long, -300, -300));
    destroyed(XPolicyType::kPolicyUtilizationPartition, &|xq| XHintPriority(xq, NEVER));
    // A hint that comes while it is being destroyed holds it no more.
    ok(XHintSetScheduler(LOCAL, lax as i32));
    let xq = host_queue(1);
    ok(XHintLaxity(xq, long, NEVER, NEVER));
    for _ in 0..400 {
        ok(XQueueSubmit(xq, counting(&CALLS)));
    }
    let other =
        std::thread::spawn(move || while XHintLaxity(xq, long, NEVER, NEVER) == kXSchedSuccess {});
    ok(XQueueDestroy(xq));
    assert_eq!(CALLS.load(Ordering::Acquire), 400);
    other.join().expect("it ends");
});

alone!(many_threads_may_use_a_queue_at_once, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(3);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            std::thread::spawn(move || {
                for round in 0..200 {
                    let command = counting(&CALLS);
                    ok(XQueueSubmit(xq, command));
                    match (round + n) % 5 {
                        0 => ok(XQueueWait(xq, command)),
                        1 => ok(XQueueSetLaunchConfig(xq, 1 + round % 9, -1)),
                        2 => ok(XHintPriority(xq, n as i32)),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    ok(XQueueWaitAll(xq));
    assert_eq!(CALLS.load(Ordering::Acquire), 800);
});

/// The thread on which the callback below ran.
static LAUNCHED_ON: Mutex<Option<ThreadId>> = Mutex::new(None);

// SAFETY: it only uses a static.
unsafe extern "C" fn notes_its_thread(_: HwQueueHandle, _: *mut c_void) -> XResultValue {
    *LAUNCHED_ON.lock().expect("no thread panics") = Some(std::thread::current().id());
    0
}

alone!(a_launcher_thread_launches_what_is_submitted, {
    for (flags, elsewhere) in [(0, false), (LAUNCHER, true)] {
        let hwq = host_hwq();
        let xq = create(hwq, 1, flags).expect("an XQueue");
        ok(XQueueSubmit(xq, callback(notes_its_thread, std::ptr::null_mut())));
        // A thread that waits for a command may launch it too.
        let launched_on = || *LAUNCHED_ON.lock().expect("no thread panics");
        until("the callback", || launched_on().is_some());
        assert_eq!(launched_on() != Some(std::thread::current().id()), elsewhere);
        *LAUNCHED_ON.lock().expect("no thread panics") = None;
        ok(XQueueDestroy(xq));
    }
});
