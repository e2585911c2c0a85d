//! Processes that connect, ask or ring more than they should.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::net::SendFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use xsched_node::{Answer, MESSAGE_MAX, NodeError, Request, SharedPage, VERSION, Wire};

mod node;
use node::{Honest, Node, Over, PATIENCE, attach, hello, raw, refusal};

/// Held by a test that opens thousands of files: two at a time may need more than one process may
/// have.
static FILES: Mutex<()> = Mutex::new(());

fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[test]
fn ten_thousand_connections_one_after_the_other() {
    let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    for n in 0..10_000 {
        let wire = node.connect();
        match n % 5 {
            0 => drop(wire.send(&Request::Status, None)),
            1 => drop(wire.send(&hello(VERSION), None)),
            2 => drop(wire.send(&hello(VERSION + 1), None)),
            _ => {}
        }
    }
    // The daemon may be behind, and then lets no more in until it has forgotten some.
    node::wait("there is no room again", || node.connect().status().is_ok());
    node.until("they do not leave", |status| status.clients.len() == 1);
    honest.is_scheduled(&node.socket);
}

/// Keeps those that the daemon refuses open at this end. The daemon is in this process, and has
/// three file descriptors for each that it takes.
#[test]
fn ten_thousand_connections_at_the_same_time() {
    if raise_limit() < 17_000 {
        println!("skipped: this process may not open 17,000 files");
        return;
    }
    let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let name = "x".repeat(64);
    let hello = Request::Hello { version: VERSION, name, priority: 0, share: None, gang: None };
    let (mut wires, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..10_000 {
        let wire = Wire::connect(&node.socket, PATIENCE).expect("a connection");
        match wire.ask(&hello, None) {
            Ok(_) => wires.push(wire),
            Err(NodeError::Refused(why)) => {
                // On a busy machine the daemon may be behind with closing descriptors.
                let is_behind = why.contains("are not closed yet");
                assert!(is_behind || why.contains("too many"), "{why}");
                refused.push(wire);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((wires.len(), refused.len()), (2_047, 7_953));
    // Known processes go on, and each is told of.
    assert_eq!(wires[7].status().expect("a status").clients.len(), 2_048);
    wires.truncate(1_000);
    // The daemon forgets them when it is told, which need not be at once.
    node::wait("there is no room again", || node.connect().ask(&Request::Status, None).is_ok());
    honest.is_scheduled(&node.socket);
}

#[test]
fn who_asks_all_the_time_delays_no_other_for_long() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for n in 0..4 {
            let wire = node.greeted();
            let (is_over, asked) = (&is_over, &asked);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let request = match n {
                        0 => Request::Hints { priority: 3, share: Some(1) },
                        1 => Request::Set { pid: 1, priority: None, share: None, active: None },
                        _ => Request::Status,
                    };
                    let _ = wire.ask(&request, None);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..20 {
            honest.is_scheduled(&node.socket);
            node.status();
        }
    });
    assert!(asked.into_inner() > 20);
}

#[test]
fn who_rings_all_the_time_delays_no_other_for_long() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        let wire = node.connect();
        let doorbell = wire.ask(&hello(VERSION), None).expect("a welcome").1.expect("one");
        let page = SharedPage::create().expect("a page");
        wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
        let is_over = &is_over;
        scope.spawn(move || {
            let _wire = wire;
            while !is_over.load(Ordering::Relaxed) {
                page.header().loaded_queues.fetch_xor(1, Ordering::SeqCst);
                let _ = rustix::io::write(&doorbell, &1_u64.to_ne_bytes());
            }
        });
        for _ in 0..20 {
            honest.is_scheduled(&node.socket);
        }
    });
}

/// More than its buffer has room for: its connection ends, and the daemon does not wait for it.
#[test]
fn who_does_not_read_loses_its_connection() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let wire = node.greeted();
    let start = Instant::now();
    while wire.send(&Request::Status, None).is_ok() || start.elapsed().as_millis() < 100 {
        assert!(start.elapsed() < PATIENCE, "the connection goes on");
        thread::yield_now();
    }
    node.until("it does not leave", |status| status.clients.len() == 1);
    honest.is_scheduled(&node.socket);
}

#[test]
fn messages_of_any_length() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let text = serde_json::to_vec(&Request::Status).expect("JSON");
    for length in (0..text.len()).chain([MESSAGE_MAX, MESSAGE_MAX + 1, 2 * MESSAGE_MAX]) {
        let mut padded = text.clone();
        padded.resize(length, b' ');
        let socket = raw(&node.socket);
        rustix::net::send(&socket, &padded, SendFlags::empty()).expect("sent");
        let answer = Wire::new(socket).receive::<Answer>();
        match (length, answer) {
            (0, Err(NodeError::Closed)) => {}
            (MESSAGE_MAX, Ok((Answer::Status(_), _))) => {}
            (_, Ok((Answer::Refused { why }, _))) => assert!(!why.is_empty()),
            (length, other) => panic!("{length}: {other:?}"),
        }
    }
    let wire = node.greeted();
    let long = Request::Hello {
        version: VERSION,
        name: "ü".repeat(9_000),
        priority: 0,
        share: None,
        gang: None,
    };
    assert!(refusal(wire.ask(&long, None)).contains("already"));
    honest.is_scheduled(&node.socket);
}
