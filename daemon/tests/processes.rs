//! Processes of their own: one that is stopped, one that gets the number of another, and a daemon
//! that may open few files.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use xsched_node::{Link, NodeError, PageSource, Request, SharedPage, VERSION, Wire};

mod node;
use node::{
    Honest, Killed, Node, PATIENCE, attach, child, daemon_process, hello, refusal, role, started,
    wait,
};

/// Not a test by itself: what the children of the others do.
#[test]
fn as_a_child() {
    let Some((role, socket)) = role() else { return };
    match &*role {
        "works" => drop(works(&socket)),
        "leaves an heir" => leaves_an_heir(&socket),
        other => panic!("{other}"),
    }
}

/// A process with work and a high priority, until its input ends.
fn works(socket: &Path) -> Wire {
    let wire = Wire::connect(socket, PATIENCE).expect("a connection");
    let priority = 250;
    let hello = Request::Hello {
        version: VERSION,
        name: "child".to_owned(),
        priority,
        share: None,
        gang: None,
    };
    wire.ask(&hello, None).expect("a welcome");
    let page = SharedPage::create().expect("a page");
    page.header().loaded_queues.store(1, Ordering::SeqCst);
    wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
    println!("\nready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    wire
}

/// Works as `works` does, and another process has its connection after it.
fn leaves_an_heir(socket: &Path) {
    let wire = works(socket);
    let connection: OwnedFd = wire.as_fd().try_clone_to_owned().expect("a descriptor");
    let heir = Command::new("sleep").arg("60").stdin(connection).stdout(Stdio::null()).spawn();
    println!("heir {}", heir.expect("a process").id());
}

fn signal(child: &Killed, signal: Signal) {
    let pid = Pid::from_child(&child.0);
    kill_process(pid, signal).expect("a signal");
}

/// One that is stopped while it is held holds no other, and the daemon does not wait for it. One
/// that is stopped with work keeps others waiting as one that runs does, until it is held or ends.
#[test]
fn a_process_that_is_stopped_costs_others_no_more_than_one_that_runs() {
    let node = Node::new();
    let stopped = started(child("works", &node.socket));
    let pid = stopped.0.id().cast_signed();
    let wire = node.connect();
    wire.ask(&Request::Hold { pid }, None).expect("held");
    signal(&stopped, Signal::STOP);
    let honest = Honest::new(&node.socket);
    honest.is_scheduled(&node.socket);
    wire.ask(&Request::Release { pid }, None).expect("released");
    let state = |wanted: &str| {
        let client = node.status().clients.into_iter().find(|client| client.name == "honest");
        client.is_some_and(|client| client.state == wanted)
    };
    wait("the policy does not hold", || state("held"));
    signal(&stopped, Signal::CONT);
    signal(&stopped, Signal::STOP);
    wire.ask(&Request::Hold { pid }, None).expect("held");
    wait("the hold does not end", || state("running"));
    wire.ask(&Request::Release { pid }, None).expect("released");
    wait("the policy does not hold", || state("held"));
    drop(stopped);
    wait("the hold does not end", || state("alone"));
    honest.is_scheduled(&node.socket);
}

/// The urgent one is stopped by a debugger, a terminal or an engine of containers.
#[test]
fn a_process_that_is_stopped_with_work_starves_no_other() {
    let node = Node::new();
    let low = Link::open(node.socket.clone(), "low", -200, None).expect("a link");
    let unit = low.unit("gpu".to_owned());
    let page = unit.page().expect("a page");
    unit.note(true);
    let urgent = started(child("works", &node.socket));
    wait("the policy does not hold", || page.is_closed(0));
    signal(&urgent, Signal::STOP);
    // It ends a command in each millisecond in which it may run.
    let begin = Instant::now();
    let mut ran = 0;
    while ran < 500 {
        assert!(begin.elapsed() < 2 * PATIENCE, "it ran for {ran} ms");
        thread::sleep(Duration::from_millis(1));
        if !page.is_closed(0) {
            unit.note_retired(1, 1_000_000);
            ran += 1;
        }
    }
}

/// Ends a process that is no child of this one.
struct Heir(Pid);

impl Drop for Heir {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// Has a process end, though another has its connection. Answers its number and the other.
fn leave_an_heir(socket: &Path, meanwhile: impl FnOnce(u32)) -> (u32, Heir) {
    let mut first = Killed(child("leaves an heir", socket).spawn().expect("a process"));
    let pid = first.0.id();
    let mut lines = BufReader::new(first.0.stdout.take().expect("its output")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "ready")), "it does not start");
    meanwhile(pid);
    drop(first.0.stdin.take());
    let heir = lines.find_map(|line| line.ok()?.strip_prefix("heir ")?.parse().ok());
    let heir = Heir(Pid::from_raw(heir.expect("an heir")).expect("a number"));
    first.0.wait().expect("it ends");
    (pid, heir)
}

/// Starts a process that works and has this number. `None` if others keep taking it.
fn started_as(pid: u32, socket: &Path) -> Option<Killed> {
    for _ in 0..100 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let process = Killed(child("works", socket).spawn().expect("a process"));
        if process.0.id() == pid {
            return Some(process);
        }
    }
    None
}

/// Checks that what was said of a process number counts for the process that had it then.
#[test]
fn a_process_has_nothing_of_the_one_that_had_its_number() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let (pid, _heir) = leave_an_heir(&node.socket, |pid| {
        let pid = pid.cast_signed();
        let set = Request::Set { pid, priority: Some(-7), share: Some(3), active: None };
        for request in [set, Request::Hold { pid }] {
            node.connect().ask(&request, None).expect("done");
        }
    });
    let number = pid.cast_signed();
    node.until("its connection outlives it", |status| {
        status.clients.iter().all(|client| client.pid != number)
    });
    let released = node.connect().ask(&Request::Release { pid: number }, None);
    assert!(refusal(released).contains("no process"));
    honest.is_scheduled(&node.socket);
    let Some(second) = started_as(pid, &node.socket) else {
        println!("skipped: no process gets the number {pid} again; root is needed for that");
        return;
    };
    node.until("it is not known", |status| {
        status.clients.iter().any(|client| client.pid == number && client.device == "gpu")
    });
    let status = node.status();
    let found: Vec<_> = status.clients.iter().filter(|client| client.pid == number).collect();
    let [found] = &found[..] else { panic!("{status:?}") };
    assert_eq!((found.held_by_hand, found.priority, found.share), (false, 250, None));
    assert_eq!(status.changed, []);
    drop(second);
    node.until("it does not leave", |status| status.clients.len() == 1);
}

/// Ticks of a hundredth of a second that a process has used.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its state");
    let rest = stat.rsplit_once(')').expect("its name").1;
    let fields: Vec<_> = rest.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_daemon_without_file_descriptors_refuses_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let daemon = daemon_process(&socket, 64);
    let honest = Honest::new(&socket);
    honest.is_scheduled(&socket);
    let first = Wire::connect(&socket, PATIENCE).expect("a connection");
    first.ask(&hello(VERSION), None).expect("a welcome");
    let mut wires = Vec::new();
    let why = loop {
        let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
        match wire.ask(&Request::Status, None) {
            Ok(_) => wires.push(wire),
            Err(NodeError::Refused(why)) => break why,
            Err(error) => panic!("{error}"),
        }
        assert!(wires.len() < 64);
    };
    assert!(why.contains("the system refuses"), "{why}");
    // Those that are connected go on.
    for wire in &wires {
        wire.ask(&Request::Status, None).expect("an answer");
    }
    // Pages take what is left, which is less than a connection takes.
    let page = SharedPage::create().expect("a page");
    let mut attached = (0..10).map(|_| first.ask(&attach("gpu"), Some(page.as_fd())));
    let refused = attached.find_map(Result::err);
    let Some(NodeError::Refused(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("file descriptors"), "{why}");
    let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
    let why = refusal(wire.ask(&hello(VERSION), None));
    assert!(why.contains("no file descriptors left"), "{why}");
    // One that waits to be accepted does not keep the daemon busy.
    let waiting: Vec<_> = (0..20).map(|_| Wire::connect(&socket, PATIENCE)).collect();
    let (before, start) = (ticks(daemon.0.id()), Instant::now());
    thread::sleep(Duration::from_millis(500));
    let used = ticks(daemon.0.id()) - before;
    assert!(used <= 25, "{used} of 50 ticks in {:?}", start.elapsed());
    drop((first, wires, waiting));
    wait("it takes no process any more", || {
        let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
        wire.ask(&hello(VERSION), None).is_ok()
    });
    honest.is_scheduled(&socket);
}
