//! The scheduler of the node holds what has no gates, or is held deeper than by gates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::level::Level;
use xsched_daemon::{Daemon, Settings};
use xsched_node::{Link, PageSource, Status, Unit, Wire, socket_path};

use crate::common::*;
use crate::hip::{adding, own_stream};
use crate::lv3::{LONG, Run, inside, preemptions, queue, with};

/// A daemon at the socket of this process, which has not connected yet.
fn daemon() -> Daemon {
    let policy = "hpf".parse().expect("a policy");
    let settings = Settings { socket: socket_path(), policy, is_open: false };
    Daemon::start(&settings).expect("a daemon")
}

fn status() -> Status {
    let wire = Wire::connect(&socket_path(), Duration::from_secs(10));
    wire.and_then(|wire| wire.status()).expect("a status")
}

/// Stands for another process on the only device that this one uses.
fn urgent() -> Arc<Unit> {
    let clients = status().clients;
    let device = clients.iter().map(|client| client.device.clone()).find(|name| !name.is_empty());
    let link = Link::open(socket_path(), "urgent", 100, None).expect("a link");
    let unit = link.unit(device.expect("this process is known"));
    let _ = unit.page().expect("a page");
    let working = Arc::downgrade(&unit);
    // One that retires nothing holds no other for long.
    thread::spawn(move || {
        while let Some(unit) = working.upgrade() {
            unit.note_retired(1, 0);
            thread::sleep(Duration::from_millis(5));
        }
    });
    unit
}

fn socket(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("xsched-{}-{name}", std::process::id()));
    path.display().to_string()
}

/// Commands of the host device of about a millisecond each, at this level.
fn host_is_held_at(level: Level) {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let daemon = daemon();
    let xq = host_queue(level.number().into());
    let urgent = urgent();
    let submit = |commands| {
        for _ in 0..commands {
            ok(XQueueSubmit(xq, timed(1_000)));
            ok(XQueueSubmit(xq, counting(&COUNTER)));
        }
    };
    let count = || COUNTER.load(Ordering::SeqCst);
    let stands_still = || {
        let before = count();
        pause();
        count() == before
    };
    submit(200);
    until("it runs", || count() > 0);
    urgent.note(true);
    until("it is held", stands_still);
    let held = count();
    assert!(held < 200, "it was held before its end");
    submit(10);
    // Longer than a lease.
    thread::sleep(Duration::from_millis(150));
    assert_eq!(count(), held);
    urgent.note(false);
    until("it goes on", || count() == 210);
    submit(200);
    urgent.note(true);
    until("it is held again", stands_still);
    assert!(count() < 410, "it was held before its end");
    drop(daemon);
    until("it goes on without a daemon", || count() == 410);
    ok(XQueueDestroy(xq));
}

macro_rules! host {
    ($name:ident, $level:expr) => {
        #[test]
        fn $name() {
            let socket = socket(stringify!($name));
            let set = [("XSCHED_SCHEDULER", "GLB"), ("XSCHED_SOCKET", socket.as_str())];
            let name = concat!("node::", stringify!($name));
            let _ = alone_with(name, &set, || host_is_held_at($level));
        }
    };
}

host!(the_host_device_is_held_at_level_1, Level::Block);
host!(the_host_device_is_held_at_level_2, Level::Deactivate);
host!(the_host_device_is_held_at_level_3, Level::Interrupt);

/// The scheduler of the node holds a process whose only XQueue must not run, until that is
/// destroyed.
fn is_let_go_of_when_destroyed() {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let _daemon = daemon();
    let xq = host_queue(1);
    // Another process is on the device, so that this one is held like any other.
    let _urgent = urgent();
    ok(XHintPriority(xq, PRIORITY_NO_EXECUTE));
    ok(XQueueSubmit(xq, counting(&COUNTER)));
    pause();
    assert_eq!(COUNTER.load(Ordering::SeqCst), 0);
    ok(XQueueDestroy(xq));
    assert_eq!(COUNTER.load(Ordering::SeqCst), 1);
}

#[test]
fn a_destroyed_queue_that_must_not_run_is_let_go_of() {
    let socket = socket("destroyed");
    let set = [("XSCHED_SCHEDULER", "GLB"), ("XSCHED_SOCKET", socket.as_str())];
    let name = "node::a_destroyed_queue_that_must_not_run_is_let_go_of";
    let _ = alone_with(name, &set, is_let_go_of_when_destroyed);
}

/// While the scheduler of the node has no use for the ends of a queue's work, a query answers soon
/// after a command has run that it has.
fn is_known_to_be_idle_soon() {
    const ROUNDS: u64 = 101;
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let _daemon = daemon();
    let (hwq, stream) = own_stream(2).expect("a stream");
    let xq = create(hwq, 2, 0).expect("an XQueue");
    let mut late: Vec<Duration> = Vec::new();
    for round in 1..=ROUNDS {
        ok(XQueueSubmit(xq, adding(stream, &COUNTER)));
        while COUNTER.load(Ordering::SeqCst) < round {
            std::hint::spin_loop();
        }
        let ended = Instant::now();
        while state(xq) != XQueueState::kQueueStateIdle {}
        late.push(ended.elapsed());
    }
    late.sort_unstable();
    let clients = status().clients;
    assert!(clients.iter().any(|client| client.state == "alone"), "{clients:?}");
    let median = late[late.len() / 2];
    assert!(median < Duration::from_micros(500), "half of the answers came after {median:?}");
    ok(XQueueDestroy(xq));
}

#[test]
fn a_query_of_a_process_that_is_alone_answers_at_once() {
    let socket = socket("query");
    let set = [("XSCHED_SCHEDULER", "GLB"), ("XSCHED_SOCKET", socket.as_str())];
    let name = "node::a_query_of_a_process_that_is_alone_answers_at_once";
    let _ = alone_with(name, &set, is_known_to_be_idle_soon);
}

/// A kernel that fills the device stops in its midst while another process has work, and goes on.
fn interrupts() {
    if !inside() {
        return;
    }
    let daemon = daemon();
    let (stream, xq) = queue();
    let urgent = urgent();
    let alone = Run::new(stream, LONG);
    ok(XQueueSubmit(xq, alone.command()));
    ok(XQueueWaitAll(xq));
    let before = preemptions();
    let run = Run::new(stream, LONG);
    ok(XQueueSubmit(xq, run.command()));
    until("it runs", || run.beat() != 0);
    urgent.note(true);
    let stands_still = || {
        let beat = run.beat();
        pause();
        run.beat() == beat
    };
    until("it stops", stands_still);
    assert_eq!(run.ended(), 0, "it was stopped before its end");
    let beat = run.beat();
    // Longer than a lease.
    thread::sleep(Duration::from_millis(150));
    assert_eq!((run.beat(), run.ended()), (beat, 0));
    assert!(preemptions() > before, "the driver has preempted nothing");
    let clients = status().clients;
    assert!(clients.iter().any(|client| client.state == "held"), "{clients:?}");
    urgent.note(false);
    ok(XQueueWaitAll(xq));
    assert_eq!((run.ended(), run.sum()), (1, alone.sum()));
    // A daemon that ends lets it go on as well.
    let run = Run::new(stream, LONG);
    ok(XQueueSubmit(xq, run.command()));
    until("it runs", || run.beat() != 0);
    urgent.note(true);
    until("it stops", || {
        let beat = run.beat();
        pause();
        run.beat() == beat
    });
    drop(daemon);
    ok(XQueueWaitAll(xq));
    assert_eq!((run.ended(), run.sum()), (1, alone.sum()));
    ok(XQueueDestroy(xq));
}

#[test]
fn a_running_command_is_interrupted_for_another_process_by_update_queue() {
    let name = "node::a_running_command_is_interrupted_for_another_process_by_update_queue";
    let socket = socket("update-queue");
    let set = [("XSCHED_SCHEDULER", "GLB"), ("XSCHED_SOCKET", socket.as_str())];
    let _ = with(name, "update-queue", &set, interrupts);
}

#[test]
fn a_running_command_is_interrupted_for_another_process_by_debug_trap() {
    let name = "node::a_running_command_is_interrupted_for_another_process_by_debug_trap";
    let socket = socket("debug-trap");
    let set = [("XSCHED_SCHEDULER", "GLB"), ("XSCHED_SOCKET", socket.as_str())];
    let _ = with(name, "debug-trap", &set, interrupts);
}
