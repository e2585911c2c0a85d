//! Clients that do what no client should: each harms itself alone.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, UCred, sendmsg};
use rustix::process::{Gid, Pid, Uid};
use xsched_daemon::{Daemon, DaemonError};
use xsched_node::{Answer, Link, Request, SharedPage, VERSION, Wire};

mod node;
use node::{Node, attach, hello, raw, refusal, settings, write};

#[test]
fn bytes_that_are_no_message_end_the_connection_alone() {
    let node = Node::new();
    let deep = "[".repeat(60_000);
    for bytes in [&b"\0"[..], b"{}", b"{\"request\":\"hello\"}", b"\xff\xfe", deep.as_bytes()] {
        let socket = raw(&node.socket);
        rustix::net::send(&socket, bytes, SendFlags::empty()).expect("sent");
        let mut answer = [0; 1_024];
        let got = rustix::io::read(&socket, &mut answer).expect("an answer");
        let text = String::from_utf8_lossy(&answer[..got]).into_owned();
        assert!(text.contains("refused") && text.contains("makes no sense"), "{text}");
        assert_eq!(rustix::io::read(&socket, &mut answer), Ok(0), "the connection goes on");
    }
    assert_eq!(node.status().clients, []);
}

#[test]
fn requests_that_may_not_be_are_refused_with_a_reason() {
    let node = Node::new();
    let wire = node.connect();
    assert!(refusal(wire.ask(&hello(VERSION + 1), None)).contains("version"));
    assert!(refusal(wire.ask(&attach("gpu"), None)).contains("hello"));
    let wire = node.greeted();
    assert!(refusal(wire.ask(&hello(VERSION), None)).contains("already"));
    assert!(refusal(wire.ask(&attach("gpu"), None)).contains("missing"));
    let file: File = tempfile::tempfile().expect("a file");
    assert!(refusal(wire.ask(&attach("gpu"), Some(file.as_fd()))).contains("truncate"));
    let page = SharedPage::create().expect("a page");
    for name in [String::new(), "x".repeat(129)] {
        assert!(refusal(wire.ask(&attach(&name), Some(page.as_fd()))).contains("1 to 128"));
    }
    let other = SharedPage::create().expect("a page");
    other.header().version.fetch_add(1, Ordering::SeqCst);
    assert!(refusal(wire.ask(&attach("gpu"), Some(other.as_fd()))).contains("version"));
    let priority = Request::Set { pid: 1, priority: Some(256), share: None, active: None };
    assert!(refusal(wire.ask(&priority, None)).contains("priority"));
    let share = Request::Set { pid: 1, priority: None, share: Some(101), active: None };
    assert!(refusal(wire.ask(&share, None)).contains("percent"));
    assert!(wire.ask(&attach("gpu"), Some(page.as_fd())).is_ok());
}

#[test]
fn pages_are_bounded_and_names_have_no_control_characters() {
    let node = Node::new();
    let wire = node.greeted();
    let attached = (0..100).take_while(|_| {
        let page = SharedPage::create().expect("a page");
        wire.ask(&attach("gpu"), Some(page.as_fd())).is_ok()
    });
    assert_eq!(attached.count(), 64);
    let status = node.status();
    assert_eq!(status.clients.len(), 1);
    assert_eq!(status.clients[0].name, "hostile[2J");
}

#[test]
fn clients_that_never_read_or_leave_at_once_harm_no_other() {
    let node = Node::new();
    let silent: Vec<_> = (0..200).map(|_| node.connect()).collect();
    for wire in &silent {
        // The answers fill its buffer at some time, and then the connection ends.
        for _ in 0..50 {
            if wire.send(&Request::Status, None).is_err() {
                break;
            }
        }
    }
    for _ in 0..500 {
        drop(node.connect());
    }
    assert_eq!(node.status().clients, []);
    drop(silent);
}

#[test]
fn a_page_that_says_anything_misleads_about_its_own_process_alone() {
    let node = Node::new();
    let liar = node.greeted();
    let page = SharedPage::create().expect("a page");
    // All of the header but the version, with which the page would be refused.
    write(&page, 4, &[u8::MAX; 124]);
    // By this it would keep its gates open, which are its own.
    page.header().open_calls.store(0, Ordering::SeqCst);
    liar.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
    let honest = Link::open(node.socket.clone(), "honest", 5, None).expect("a link");
    let unit = honest.unit("gpu".to_owned());
    let own = xsched_node::PageSource::page(&*unit).expect("a page");
    unit.note(true);
    node.until("the urgent process does not run", |status| {
        let state = |name: &str| {
            status.clients.iter().find(|client| client.name == name).map(|c| c.state.clone())
        };
        state("honest").as_deref() == Some("running")
            && state("hostile[2J").as_deref() == Some("held")
    });
    assert!(!own.is_closed(0));
    assert!(page.is_closed(0));
    unit.note(false);
    node.until("the hold does not end", |_| !page.is_closed(0));
}

#[test]
fn a_process_changes_its_own_hints() {
    let node = Node::new();
    let link = Link::open(node.socket.clone(), "one", 5, None).expect("a link");
    let other = node.greeted();
    link.set_hints(-7, Some(30));
    let status = node.status();
    let of = |name: &str| {
        let found = status.clients.iter().find(|client| client.name == name);
        found.map(|client| (client.priority, client.share))
    };
    assert_eq!(of("one"), Some((-7, Some(30))));
    assert_eq!(of("hostile[2J"), Some((0, None)));
    let wrong = Request::Hints { priority: 300, share: None };
    assert!(refusal(other.ask(&wrong, None)).contains("priority"));
}

#[test]
fn a_process_that_leaves_holds_no_other() {
    let node = Node::new();
    let batch = Link::open(node.socket.clone(), "batch", -5, None).expect("a link");
    let held = batch.unit("gpu".to_owned());
    let page = xsched_node::PageSource::page(&*held).expect("a page");
    held.note(true);
    let urgent = node.greeted();
    let other = SharedPage::create().expect("a page");
    other.header().loaded_queues.store(1, Ordering::SeqCst);
    urgent.ask(&attach("gpu"), Some(other.as_fd())).expect("attached");
    let is_closed = || page.is_closed(0);
    node.until("it is not held", |_| is_closed());
    drop(urgent);
    node.until("the hold does not end", |_| !is_closed());
}

#[test]
fn a_daemon_that_ends_opens_all_gates_and_a_second_one_is_refused() {
    let mut node = Node::new();
    let second = Daemon::start(&settings(&node.socket));
    assert!(matches!(second, Err(DaemonError::Running(_))), "{second:?}");
    let wire = node.greeted();
    let page = SharedPage::create().expect("a page");
    wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    wire.ask(&Request::Hold { pid }, None).expect("held");
    // It has no work, so its gates are closed soon.
    node.until("it is not held", |_| page.is_closed(0));
    drop(node.daemon.take());
    assert!(!page.is_closed(0));
    assert!(!node.socket.exists());
}

/// Checks that what a process says of who it is counts for nothing.
#[test]
fn ids_that_a_process_makes_up_do_not_count() {
    let node = Node::new();
    let text = serde_json::to_string(&hello(VERSION)).expect("JSON");
    for made_up in [r#""pid":1"#, r#""uid":0"#, r#""client":0"#, r#""tenant":"a""#] {
        let socket = raw(&node.socket);
        let text = text.replace("\"version\"", &format!("{made_up},\"version\""));
        rustix::net::send(&socket, text.as_bytes(), SendFlags::empty()).expect("sent");
        match Wire::new(socket).receive::<Answer>().expect("an answer").0 {
            Answer::Refused { why } => assert!(why.contains("unknown field"), "{why}"),
            other => panic!("{made_up}: {other:?}"),
        }
    }
    let socket = raw(&node.socket);
    // The kernel takes another's ids from root alone.
    let (uid, pid) = (rustix::process::geteuid(), rustix::process::getpid());
    let other = UCred { pid: Pid::INIT, uid: Uid::from_raw(60_001), gid: Gid::from_raw(60_001) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmCredentials(other)));
    let sent = sendmsg(&socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::empty());
    assert_eq!(sent.is_ok(), uid.is_root(), "{sent:?}");
    if sent.is_err() {
        rustix::net::send(&socket, text.as_bytes(), SendFlags::empty()).expect("sent");
    }
    let wire = Wire::new(socket);
    let welcome = wire.receive::<Answer>().expect("a welcome").0;
    assert_eq!(welcome, Answer::Welcome { version: VERSION });
    let status = node.status();
    let [client] = &status.clients[..] else { panic!("{status:?}") };
    assert_eq!((client.pid, client.uid), (pid.as_raw_nonzero().get(), uid.as_raw()));
    assert_eq!(client.tenant, "default");
    for pid in [0, -1, 1, i32::MIN, i32::MAX] {
        assert!(refusal(wire.ask(&Request::Hold { pid }, None)).contains("no process"));
    }
}
