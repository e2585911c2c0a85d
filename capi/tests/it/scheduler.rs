//! Schedulers and the environment. Rows W-C3 and W-C7 of the C++ XSched's defects.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::*;

/// Keeps a queue busy until it is dropped.
pub(crate) struct Busy {
    over: &'static AtomicBool,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Busy {
    pub(crate) fn start(xq: XQueueHandle, counter: &'static AtomicU64) -> Self {
        let over: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Acquire) {
                ok(XQueueSubmit(xq, timed(100)));
                let counted = counting(counter);
                ok(XQueueSubmit(xq, counted));
                // So that little is left to do when it is to end.
                if submitted(xq) % 20 == 0 {
                    ok(XQueueWait(xq, counted));
                }
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends");
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Acquire)
}

/// Waits until a counter has gone up by `by`.
pub(crate) fn gets_on(what: &str, counter: &AtomicU64, by: u64) {
    let before = count(counter);
    until(what, || count(counter) >= before + by);
}

/// The second of two queues that are busy has at least one and a half times what the first has.
pub(crate) fn the_second_has_more(calls: &[AtomicU64; 2]) {
    // A busy machine takes the processor away from a thread for as long as a share lasts.
    let is_so = (0..5).any(|_| {
        let before = calls.each_ref().map(count);
        gets_on("the first queue", &calls[0], 100);
        2 * (count(&calls[1]) - before[1]) > 3 * (count(&calls[0]) - before[0])
    });
    assert!(is_so, "{calls:?}");
}

alone!(another_scheduler_lets_go_what_the_one_before_held, {
    // W-C7: queues stayed suspended until something else happened, and hints were lost.
    static LOW: AtomicU64 = AtomicU64::new(0);
    static HIGH: AtomicU64 = AtomicU64::new(0);
    let (low, high) = (host_queue(1), host_queue(1));
    // Before there is a policy that wants to know.
    ok(XHintPriority(high, 10));
    ok(XHintPriority(low, -10));
    ok(XHintSetScheduler(LOCAL, HPF));
    let busy = Busy::start(high, &HIGH);
    gets_on("the urgent queue runs", &HIGH, 1);
    // The urgent queue is ready nearly all of the time.
    for _ in 0..20 {
        ok(XQueueSubmit(low, counting(&LOW)));
    }
    // It is held as soon as the other is ready; whatever is done by then, its window is its most.
    ok(XQueueSubmit(high, timed(200_000)));
    let held = count(&LOW);
    pause();
    assert!(count(&LOW) <= held + 20);
    ok(XHintSetScheduler(APP, 0));
    ok(XQueueWaitAll(low));
    assert_eq!(count(&LOW), 20);
    drop(busy);
});

alone!(a_held_queue_is_let_go_by_the_change_of_policy_alone, {
    // W-C7, with nothing else that happens meanwhile.
    static LOW: AtomicU64 = AtomicU64::new(0);
    ok(XHintSetScheduler(LOCAL, HPF));
    let (low, high) = (host_queue(1), host_queue(1));
    ok(XHintPriority(high, 10));
    ok(XQueueSubmit(high, timed(2_000_000)));
    ok(XQueueSubmit(low, counting(&LOW)));
    pause();
    let before = count(&LOW);
    ok(XHintSetScheduler(APP, 0));
    // Its callback is called when it is launched.
    until("the low queue is let go", || count(&LOW) == 1);
    assert_eq!((before, state(high)), (0, XQueueState::kQueueStateReady));
    ok(XQueueWaitAll(high));
});

alone!(
    flags_for_suspending_do_not_block_the_scheduler,
    [
        ("XSCHED_POLICY", "HPF"),
        ("XSCHED_SCHEDULER_SUSPEND_SYNC_HWQ", "ON"),
        ("XSCHED_SCHEDULER_SUSPEND_WAIT_ALL", "ON"),
        ("XSCHED_SCHEDULER_SUSPEND_WAIT_IDLE", "ON"),
    ],
    {
        // W-C3: the thread that decides waited for a queue that it held.
        static CALLS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
        let queues: Vec<_> = (0..3).map(|_| host_queue(1)).collect();
        for (n, xq) in queues.iter().enumerate() {
            ok(XHintPriority(*xq, n as i32));
        }
        for _ in 0..50 {
            for (xq, counter) in queues.iter().zip(&CALLS) {
                ok(XQueueSubmit(*xq, timed(100)));
                ok(XQueueSubmit(*xq, counting(counter)));
            }
        }
        queues.iter().for_each(|xq| ok(XQueueWaitAll(*xq)));
        assert!(CALLS.iter().all(|counter| count(counter) == 50));
    }
);

#[test]
fn a_value_that_makes_no_sense_is_reported_once() {
    fn body() {
        let xq = host_queue(1);
        ok(XQueueSubmit(xq, timed(1)));
        ok(XQueueWaitAll(xq));
        ok(XQueueDestroy(xq));
    }
    let set = [("XSCHED_POLICY", "GBL"), ("XSCHED_SCHEDULER", "GLOB"), ("XLOG_LEVEL", "LOUD")];
    let name = "scheduler::a_value_that_makes_no_sense_is_reported_once";
    let Some(text) = alone_with(name, &set, body) else { return };
    for (name, value) in set {
        let says = |line: &&str| line.contains(name) && line.contains(value);
        assert_eq!(text.lines().filter(says).count(), 1, "{name}: {text}");
    }
    assert!(text.contains("fcfs, hpf, hhpf"), "{text}");
}

#[test]
fn a_value_that_is_no_text_is_reported() {
    fn body() {
        // SAFETY: no other thread reads or writes the environment by now.
        unsafe { std::env::set_var("XSCHED_POLICY", OsStr::from_bytes(b"\xffHPF")) };
        let xq = host_queue(1);
        ok(XQueueDestroy(xq));
    }
    let name = "scheduler::a_value_that_is_no_text_is_reported";
    let Some(text) = alone_with(name, &[], body) else { return };
    assert!(text.contains("XSCHED_POLICY is `\u{fffd}HPF` and is ignored; it can be"), "{text}");
}

#[test]
fn the_log_says_as_much_as_it_is_told_to() {
    fn body() {
        assert_eq!(XQueueWaitAll(1), kXSchedErrorNotFound);
    }
    let name = "scheduler::the_log_says_as_much_as_it_is_told_to";
    let Some(debug) = alone_with(name, &[("XLOG_LEVEL", "DEBG")], body) else { return };
    assert!(debug.contains("no such XQueue"), "{debug}");
    let info = alone_with(name, &[("XLOG_LEVEL", "INFO")], body).expect("its parent");
    assert!(!info.contains("no such XQueue"), "{info}");
}

#[test]
fn an_interposer_says_once_that_it_is_active() {
    fn body() {
        xsched_private_interposed();
        xsched_private_interposed();
    }
    let name = "scheduler::an_interposer_says_once_that_it_is_active";
    let set = [("XLOG_LEVEL", "INFO"), ("XSCHED_AUTO_XQUEUE", "ON")];
    let Some(text) = alone_with(name, &set, body) else { return };
    let words = "an interposer is active: streams get XQueues of level 1";
    assert_eq!(text.matches(words).count(), 1, "{text}");
    let quiet = alone_with(name, &set[1..], body).expect("its parent");
    assert!(!quiet.contains("interposer"), "{quiet}");
}

alone!(
    an_automatic_queue_is_as_the_environment_says,
    [
        ("XSCHED_POLICY", "HPF"),
        ("XSCHED_AUTO_XQUEUE", "ON"),
        ("XSCHED_AUTO_XQUEUE_LEVEL", "2"),
        ("XSCHED_AUTO_XQUEUE_THRESHOLD", "4"),
        ("XSCHED_AUTO_XQUEUE_PRIORITY", "-256"),
        ("XSCHED_AUTO_XQUEUE_UTILIZATION", "30"),
        ("XSCHED_AUTO_XQUEUE_TIMESLICE", "2000"),
        ("XSCHED_AUTO_XQUEUE_DEADLINE", "1000"),
        ("XSCHED_AUTO_XQUEUE_LAXITY", "1000"),
        ("XSCHED_AUTO_XQUEUE_KDEADLINE", "2"),
    ],
    {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let mut xq = 0;
        // SAFETY: it may be written to.
        ok(unsafe { xsched_private_auto_queue(&raw mut xq, host_hwq()) });
        assert_ne!(xq, 0);
        assert_eq!(XQueueSetLaunchConfig(xq, -1, 5), kXSchedErrorInvalidValue);
        // Its priority is the one with which nothing runs, and a launch waits for its turn.
        let launched = std::thread::spawn(move || launch_counted(xq, &CALLS));
        pause();
        assert_eq!(count(&CALLS), 0);
        assert!(!launched.is_finished());
        ok(XHintPriority(xq, 0));
        ok(launched.join().expect("no panic"));
        assert_eq!(count(&CALLS), 1);
        ok(XQueueWaitAll(xq));
    }
);

alone!(no_automatic_queue_is_made_unless_the_environment_says_so, {
    let mut xq = 7;
    // SAFETY: it may be written to.
    ok(unsafe { xsched_private_auto_queue(&raw mut xq, host_hwq()) });
    assert_eq!(xq, 0);
    xsched_private_interposed();
});

/// Returns whether scheduling is required.
fn is_contended() -> bool {
    // SAFETY: it is the address of a word's for ever, which other threads change atomically.
    let word = unsafe { AtomicPtr::from_ptr(xsched_private_contention().cast_mut()) };
    // SAFETY: it is such a word.
    unsafe { word.load(Ordering::Acquire).as_ref() }
        .is_some_and(|word| word.load(Ordering::Acquire) != 0)
}

fn automatic(hwq: HwQueueHandle) -> XQueueHandle {
    let mut xq = 0;
    // SAFETY: it may be written to.
    ok(unsafe { xsched_private_auto_queue(&raw mut xq, hwq) });
    xq
}

/// Makes an XQueue for a stream, as an interposer does.
fn stream_of_priority(priority: i32) -> XQueueHandle {
    let xq = automatic(host_hwq());
    ok(xsched_private_stream_priority(xq, priority));
    xq
}

alone!(a_stream_of_another_priority_tells_streams_apart, [("XSCHED_AUTO_XQUEUE", "ON")], {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    stream_of_priority(3);
    stream_of_priority(3);
    assert!(!is_contended());
    let last = stream_of_priority(-256);
    assert!(is_contended());
    // It has its priority, with which nothing runs.
    ok(XHintSetScheduler(LOCAL, HPF));
    let launched = std::thread::spawn(move || launch_counted(last, &CALLS));
    pause();
    assert_eq!(count(&CALLS), 0);
    ok(XHintPriority(last, 3));
    ok(launched.join().expect("no panic"));
    assert_eq!(count(&CALLS), 1);
});

alone!(a_priority_that_the_program_has_set_stays, [("XSCHED_AUTO_XQUEUE", "ON")], {
    let priority_of = |xq| {
        let mut priority = 0;
        // SAFETY: it may be written to.
        ok(unsafe { xsched_private_priority(xq, &raw mut priority) });
        priority
    };
    let xq = host_queue(1);
    assert_eq!(priority_of(xq), 0);
    ok(XHintPriority(xq, 9));
    ok(xsched_private_stream_priority(xq, 3));
    assert_eq!(priority_of(xq), 9);
    assert_eq!(priority_of(stream_of_priority(3)), 3);
    // SAFETY: null may be given.
    assert_ne!(unsafe { xsched_private_priority(xq, std::ptr::null_mut()) }, kXSchedSuccess);
    // SAFETY: it is a text that is never freed.
    let version = unsafe { CStr::from_ptr(xsched_private_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
});

alone!(
    hints_for_all_streams_do_not_tell_them_apart,
    [
        ("XSCHED_AUTO_XQUEUE", "ON"),
        ("XSCHED_AUTO_XQUEUE_PRIORITY", "7"),
        ("XSCHED_AUTO_XQUEUE_UTILIZATION", "30"),
        ("XSCHED_POLICY", "UP"),
    ],
    {
        automatic(host_hwq());
        automatic(host_hwq());
        assert!(!is_contended());
    }
);

alone!(
    the_environment_tells_streams_apart,
    [("XSCHED_AUTO_XQUEUE", "ON"), ("XSCHED_AUTO_XQUEUE_UNIT", "streams")],
    {
        assert_eq!(xsched_private_interposed(), 1);
        assert!(is_contended());
    }
);

alone!(a_scheduler_of_the_program_tells_streams_apart, {
    ok(XHintSetScheduler(LOCAL, HPF));
    assert!(is_contended());
});

alone!(an_xqueue_of_the_program_tells_streams_apart, {
    host_queue(1);
    assert!(is_contended());
});

alone!(what_was_launched_past_an_xqueue_is_waited_for, [("XSCHED_AUTO_XQUEUE", "ON")], {
    // SAFETY: it only uses statics.
    unsafe extern "C" fn takes_long(_: HwQueueHandle, done: *mut c_void) -> XResultValue {
        std::thread::sleep(Duration::from_millis(30));
        // SAFETY: it is the address of such a counter.
        unsafe { &*done.cast::<AtomicU64>() }.fetch_add(1, Ordering::AcqRel);
        0
    }
    static DONE: AtomicU64 = AtomicU64::new(0);
    let done = || function(takes_long, (&raw const DONE).cast_mut().cast());
    let (hwq, other) = (host_hwq(), host_hwq());
    let xqs = [automatic(hwq), automatic(other)];
    ok(HwQueueLaunch(hwq, done()));
    ok(HwQueueLaunch(other, done()));
    let mut xq = 0;
    // SAFETY: it may be written to.
    ok(unsafe { XQueueGet(&raw mut xq, hwq) });
    assert!(is_contended());
    assert_eq!(xq, xqs[0]);
    // Each of them, though the first has told them apart.
    ok(XQueueSuspend(xqs[0], SYNC));
    assert_ne!(count(&DONE), 0);
    ok(XQueueSuspend(xqs[1], SYNC));
    assert_eq!(count(&DONE), 2);
    ok(XQueueResume(xqs[0], 0));
    ok(XQueueResume(xqs[1], 0));
});
