//! Daemons that do not answer, or say what a terminal would take for orders.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use xsched_daemon::is_shown;
use xsched_node::{
    Answer, Changed, ClientStatus, GpuStatus, NodeError, Outsider, Request, Status, Wire,
};

/// Erases the screen, rings, begins an order of one byte, and turns the direction of what follows.
const ORDERS: &str = "\u{1b}[2J\u{7}\u{9b}\u{202e}shown";

/// A socket as a daemon has it.
fn listener(path: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.expect("a socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("bound");
    listen(&socket, 16).expect("it listens");
    socket
}

fn told(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(arguments).env("XSCHED_SOCKET", socket).output().expect("it runs")
}

#[test]
fn of_a_daemon_that_does_not_answer_it_is_said_what_may_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let _listener = listener(&socket);
    for arguments in [&["ps"][..], &["ctl", "reload"], &["ctl", "policy", "up"]] {
        let output = told(&socket, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(why.contains("does not answer; it may be stopped"), "{arguments:?}: {why}");
        assert!(!why.contains("os error"), "{arguments:?}: {why}");
    }
}

#[test]
fn a_late_answer_is_taken_for_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let listener = listener(&socket);
    let process = Wire::connect(&socket, Duration::from_millis(1)).expect("a connection");
    let silent = process.ask(&Request::Status, None).expect_err("no answer");
    assert!(matches!(silent, NodeError::Silent), "{silent}");
    let daemon = Wire::new(accept_with(&listener, SocketFlags::CLOEXEC).expect("a connection"));
    let _ = daemon.send(&Answer::Refused { why: "late".to_owned() }, None);
    let error = process.ask(&Request::Reload, None).expect_err("no answer");
    assert!(matches!(error, NodeError::Closed), "{error}");
}

fn status() -> Status {
    let orders = || ORDERS.to_owned();
    let client = ClientStatus {
        pid: 7,
        name: orders(),
        device: orders(),
        state: orders(),
        tenant: orders(),
        gang: Some(orders()),
        is_understated: true,
        ..ClientStatus::default()
    };
    let gpu = GpuStatus { device: orders(), name: orders(), ..GpuStatus::default() };
    let outsider =
        Outsider { name: orders(), device: orders(), tenant: orders(), ..Outsider::default() };
    let changed = Changed { what: orders(), file: orders(), live: orders(), ..Changed::default() };
    Status {
        policy: orders(),
        gpus: vec![gpu],
        clients: vec![client],
        outsiders: vec![outsider],
        outsiders_unknown: vec![orders()],
        changed: vec![changed],
        ..Status::default()
    }
}

/// Answers each connection's requests in this way, as long as the program runs.
fn answer_all(listener: OwnedFd) {
    thread::spawn(move || {
        while let Ok(socket) = accept_with(listener.as_fd(), SocketFlags::CLOEXEC) {
            let wire = Wire::new(socket);
            while let Ok((request, _)) = wire.receive::<Request>() {
                let answer = match request {
                    Request::Status | Request::StatusFrom(_) => Answer::Status(status()),
                    _ => Answer::Refused { why: ORDERS.to_owned() },
                };
                if wire.send(&answer, None).is_err() {
                    break;
                }
            }
        }
    });
}

#[test]
fn a_daemon_that_ends_before_it_answers_is_asked_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let listener = listener(&socket);
    let restarted = thread::spawn(move || {
        for is_answered in [false, true] {
            let socket = accept_with(listener.as_fd(), SocketFlags::CLOEXEC).expect("a connection");
            let wire = Wire::new(socket);
            if is_answered {
                wire.receive::<Request>().expect("a request");
                wire.send(&Answer::Done, None).expect("sent");
            }
        }
    });
    let grant = ["ctl", "grant", "--pid", "1", "--class", "batch", "--name", "job 24"];
    assert!(told(&socket, &grant).status.success());
    restarted.join().expect("asked twice");
}

#[test]
fn what_a_daemon_says_gives_a_terminal_no_orders() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    answer_all(listener(&socket));
    let commands = [
        &["ps"][..],
        &["top", "--once"],
        &["doctor"],
        &["ctl", "reload"],
        &["ctl", "policy", "up"],
        &["ctl", "hold", "7"],
        &["record", "--out", "none.xsr", "--seconds", "1"],
    ];
    for arguments in commands {
        let output = told(&socket, arguments);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("shown"), "{arguments:?}: {text:?}");
        let order = text.chars().find(|c| *c != '\n' && !is_shown(*c));
        assert_eq!(order, None, "{arguments:?}: {text:?}");
    }
}
