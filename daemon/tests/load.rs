//! Processor time of the daemon beside a user with thousands of processes.

use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use xsched_node::{Link, PageSource, Request, SharedPage, VERSION};

mod node;
use node::{Node, attach, daemon_process, join, processor_time, refusal, wait};

/// Connections of the user; with less, a slow daemon is not told from a fast one.
const CROWD: usize = 1_500;

/// Lets this process and its children open `files` files. False if that is not allowed.
fn may_open(files: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.is_none_or(|most| most >= files)
}

/// Memory of a process's own and of its page tables, in KiB.
fn own_memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a figure");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
    };
    of("RssAnon:") + of("VmPTE:")
}

#[test]
fn a_crowd_to_which_nothing_happens_takes_no_processor() {
    if !may_open(8_192) {
        println!("skipped: this process may not open 8,192 files");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let daemon = daemon_process(&socket, 8_192);
    let urgent = Link::open(socket.clone(), "urgent", 100, None).expect("a link");
    let batch = Link::open(socket.clone(), "batch", -100, None).expect("a link");
    let [urgent, batch] = [urgent, batch].map(|link| link.unit("gpu".to_owned()));
    let (_page, held) = (urgent.page().expect("a page"), batch.page().expect("a page"));
    batch.note(true);
    let _crowd: Vec<_> = (0..CROWD).map(|_| join(&socket, "hostile", None)).collect();
    std::thread::sleep(Duration::from_millis(500));
    let before = processor_time(daemon.0.id());
    std::thread::sleep(Duration::from_secs(2));
    let idle = processor_time(daemon.0.id()) - before;
    println!("{idle:?} of 2 s with nothing happening");
    let before = processor_time(daemon.0.id());
    for _ in 0..200 {
        urgent.note(true);
        wait("no hold", || held.is_closed(0));
        urgent.note(false);
        wait("no release", || !held.is_closed(0));
    }
    let busy = processor_time(daemon.0.id()) - before;
    println!("{busy:?} for 400 decisions");
    assert!(idle <= Duration::from_millis(200), "{idle:?} of 2 s with nothing happening");
    assert!(busy <= Duration::from_millis(400), "{busy:?} for 400 decisions");
}

#[test]
fn gangs_of_a_user_are_bounded() {
    let node = Node::new();
    let gang = |n: usize| join(&node.socket, ["a", "b"][n % 2], Some(format!("gang {}", n / 2)));
    let gangs: Vec<_> = (0..128).map(gang).collect();
    let hello = || Request::Hello {
        version: VERSION,
        name: "one more".to_owned(),
        priority: 0,
        share: None,
        gang: Some("one more".to_owned()),
    };
    let wire = node.connect();
    let why = refusal(wire.ask(&hello(), None));
    assert!(why.contains("at most 64 gangs"), "{why}");
    drop(gangs);
    wait("there is no room again", || node.connect().ask(&hello(), None).is_ok());
}

/// A quarter of what a daemon takes: 1,000 processes with 10 pages each.
#[test]
fn the_memory_of_a_full_daemon_is_what_the_threat_model_says() {
    const QUARTER_KIB_MAX: u64 = 16 * 1_024;
    if !may_open(16_384) {
        println!("skipped: this process may not open 16,384 files");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let daemon = daemon_process(&socket, 16_384);
    let before = own_memory_kib(daemon.0.id());
    let mut crowd = Vec::new();
    for _ in 0..1_000 {
        let (wire, doorbell, page) = join(&socket, "gpu", None);
        for _ in 1..10 {
            let more = SharedPage::create().expect("a page");
            wire.ask(&attach("gpu"), Some(more.as_fd())).expect("attached");
        }
        crowd.push((wire, doorbell, page));
    }
    let after = own_memory_kib(daemon.0.id());
    println!("{before} KiB without processes, {after} KiB with 1,000 and 10,000 pages");
    assert!(after - before <= QUARTER_KIB_MAX, "{before} KiB became {after} KiB");
}
