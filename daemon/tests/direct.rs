//! Processes that hold those below them by themselves, until the daemon has decided.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use xsched_node::{Holder, Link, PageSource, SharedPage, Unit};

mod node;
use node::{Killed, daemon_process, processor_time, wait};

/// A process on the GPU, as the library connects it.
struct Process {
    _link: Arc<Link>,
    unit: Arc<Unit>,
    page: Arc<SharedPage>,
}

impl Process {
    fn new(socket: &std::path::Path, priority: i32) -> Self {
        let link = Link::join(socket.to_owned(), "process", priority, None).expect("a daemon");
        let unit = link.unit("gpu".to_owned());
        let page = unit.page().expect("a page");
        Self { _link: link, unit, page }
    }

    fn direct_holds(&self) -> u32 {
        self.page.header().direct_holds.load(Ordering::SeqCst)
    }
}

/// A daemon, an urgent process without work that may hold the other one, and that one with work.
fn two_processes(socket: &std::path::Path) -> (Killed, Process, Process) {
    let daemon = daemon_process(socket, 256);
    let (urgent, batch) = (Process::new(socket, 100), Process::new(socket, -100));
    batch.unit.note(true);
    wait("the urgent one holds nothing directly", || {
        urgent.unit.note(true);
        wait("the other one is not held", || batch.page.is_closed(0));
        urgent.unit.note(false);
        wait("a hold does not end", || !batch.page.is_closed(0));
        urgent.direct_holds() > 0
    });
    (daemon, urgent, batch)
}

fn signal(daemon: &Killed, signal: Signal) {
    kill_process(Pid::from_child(&daemon.0), signal).expect("a signal");
}

#[test]
fn work_that_begins_holds_those_below_before_the_daemon_wakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (daemon, urgent, batch) = two_processes(&folder.path().join("socket"));
    signal(&daemon, Signal::STOP);
    urgent.unit.note(true);
    let last = xsched_node::GATES_PER_PAGE - 1;
    assert!(batch.page.is_held_by(last, Holder::DIRECT));
    assert!(!batch.page.is_held_by(last, Holder::DAEMON), "the daemon sleeps");
    // It is not held again until that has decided.
    batch.page.end_direct_hold();
    urgent.unit.note(false);
    urgent.unit.note(true);
    assert!(!batch.page.is_closed(0), "a daemon that hangs holds it past the lease");
    signal(&daemon, Signal::CONT);
    wait("the daemon does not decide", || {
        batch.page.is_held_by(last, Holder::DAEMON) && !batch.page.is_held_by(0, Holder::DIRECT)
    });
    urgent.unit.note(false);
    wait("a hold does not end", || !batch.page.is_closed(0));
    // With the daemon's end, what it could not decide ends.
    signal(&daemon, Signal::STOP);
    urgent.unit.note(true);
    assert!(batch.page.is_held_by(0, Holder::DIRECT));
    signal(&daemon, Signal::KILL);
    wait("a direct hold outlives the daemon", || !batch.page.is_closed(0));
}

#[test]
fn the_daemon_polls_for_a_small_part_of_a_processor() {
    let folder = tempfile::tempdir().expect("a folder");
    let (daemon, urgent, _batch) = two_processes(&folder.path().join("socket"));
    let pid = daemon.0.id();
    let (begun, before) = (Instant::now(), processor_time(pid));
    let mut rounds = 0_u32;
    while begun.elapsed() < Duration::from_secs(2) {
        urgent.unit.note(true);
        thread::sleep(Duration::from_millis(1));
        urgent.unit.note(false);
        thread::sleep(Duration::from_millis(9));
        rounds += 1;
    }
    let used = (processor_time(pid) - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("{rounds} rounds: {:.1} % of a processor", used * 100.0);
    // It has polled all the time where requests came each 10 ms.
    assert!(used < 0.15, "{rounds} rounds took {:.1} % of a processor", used * 100.0);
}
