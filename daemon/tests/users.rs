//! Users who share a daemon. Only root starts processes of other users.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use xsched_daemon::config::Config;
use xsched_node::{Answer, NodeError, Request, SharedPage, VERSION, Wire};

mod node;
use node::started;
use node::{
    Honest, Killed, Node, Over, PATIENCE, attach, child, child_about, hello, other, refusal, role,
    wait,
};

/// Users who may use the daemon, as members of this group, and one who may not.
const ONE: u32 = 60_001;
const TWO: u32 = 60_002;
const GROUP: u32 = 60_010;
const THIRD: u32 = 60_003;

const CONFIG: &str = r#"
[socket]
mode = "0660"
[limits]
clients_of_user = 20
[[tenant]]
name = "all"
priority_max = 50
"#;

/// Not a test by itself: what the children of the others do.
#[test]
fn as_a_child() {
    let Some((role, socket)) = role() else { return };
    match &*role {
        "works" => works(&socket),
        "asks of the other" => asks_of_the_other(&socket),
        "takes all it can get" => takes_all_it_can_get(&socket),
        "is scheduled" => {
            let honest = Honest::on("another", &socket);
            (0..10).for_each(|_| honest.is_scheduled(&socket));
        }
        "has no rights" => {
            let error = Wire::connect(&socket, PATIENCE).expect_err("it is let in");
            assert!(matches!(error, NodeError::Denied), "{error:?}");
            assert!(error.to_string().contains("this user may not connect"), "{error}");
        }
        "is told" => {
            let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
            let why = refusal(wire.ask(&hello(VERSION), None));
            assert!(why.contains("serves the processes of another user alone"), "{why}");
        }
        other => panic!("{other}"),
    }
}

fn until_told() {
    println!("\nready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A process with work that asks for the highest priority.
fn works(socket: &Path) {
    let wire = Wire::connect(socket, PATIENCE).expect("a connection");
    let (name, share) = ("works".to_owned(), Some(100));
    let hello = Request::Hello { version: VERSION, name, priority: 255, share, gang: None };
    let answer = wire.ask(&hello, None).expect("a welcome").0;
    assert!(matches!(answer, Answer::Lowered { priority: 50, .. }), "{answer:?}");
    let page = SharedPage::create().expect("a page");
    page.header().loaded_queues.store(1, Ordering::SeqCst);
    wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
    // A name that others need not read.
    let own = SharedPage::create().expect("a page");
    wire.ask(&attach(&own_gpu()), Some(own.as_fd())).expect("attached");
    until_told();
    let is_open = |word| !page.is_closed(word);
    wait("it is held", || (0..xsched_node::GATES_PER_PAGE).all(is_open));
}

/// A GPU that processes of this user alone are on.
fn own_gpu() -> String {
    format!("of-{}", rustix::process::geteuid().as_raw())
}

/// Wants to see and to change the process of another user, and the daemon.
fn asks_of_the_other(socket: &Path) {
    let wire = Wire::connect(socket, PATIENCE).expect("a connection");
    wire.ask(&hello(VERSION), None).expect("a welcome");
    let (pid, uid) = (other(), rustix::process::geteuid().as_raw());
    let seen = wire.status().expect("a status");
    assert_eq!(seen.clients.len(), 3, "its other process on two GPUs, and itself: {seen:?}");
    let gpus: Vec<_> = seen.gpus.iter().map(|gpu| &*gpu.device).collect();
    assert_eq!((gpus.len(), gpus.contains(&&*own_gpu())), (2, true), "{gpus:?}");
    assert!(seen.clients.iter().all(|client| client.uid == uid && client.pid != pid), "{seen:?}");
    let set = Request::Set { pid, priority: Some(-255), share: Some(0), active: Some(false) };
    let to_process = [set, Request::Hold { pid }, Request::Release { pid }, Request::Reset { pid }];
    for request in to_process {
        assert!(refusal(wire.ask(&request, None)).contains("another user"), "{request:?}");
    }
    let policy = Request::Policy { name: "up".to_owned() };
    let record = Request::Record { bytes_max: 1 << 20 };
    for request in [policy, record, Request::Reload, Request::Drain { undo: false }] {
        assert!(refusal(wire.ask(&request, None)).contains("administrator"), "{request:?}");
    }
    let pid = std::process::id().cast_signed();
    wire.ask(&Request::Hold { pid }, None).expect("its own");
    let changed = wire.status().expect("a status").changed;
    assert_eq!(
        changed.iter().map(|change| (&*change.what, change.pid)).collect::<Vec<_>>(),
        [("hold", Some(pid))]
    );
}

/// As many connections as there are for this user, each of which asks all the time.
fn takes_all_it_can_get(socket: &Path) {
    let mut wires = Vec::new();
    let why = loop {
        let wire = Wire::connect(socket, PATIENCE).expect("a connection");
        match wire.ask(&Request::Status, None) {
            Ok(_) => wires.push(wire),
            Err(NodeError::Refused(why)) => break why,
            Err(error) => panic!("{error}"),
        }
        assert!(wires.len() < 20);
    };
    assert!(why.contains("too many processes"), "{why}");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for wires in wires.chunks(10) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    wires.iter().for_each(|wire| drop(wire.send(&Request::Status, None)));
                    wires.iter().for_each(|wire| drop(wire.receive::<Answer>()));
                }
            });
        }
        until_told();
    });
}

/// Why this test does not run, if it does not.
fn is_skipped() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root starts processes of other users");
    }
    !is_root
}

fn of_user(mut command: Command, uid: u32, gid: u32) -> Command {
    command.uid(uid).gid(gid).stderr(Stdio::piped());
    command
}

fn ends_well(mut child: Killed) {
    drop(child.0.stdin.take());
    let (mut said, mut error) = (String::new(), String::new());
    let _ = child.0.stdout.take().map(|mut output| output.read_to_string(&mut said));
    let _ = child.0.stderr.take().map(|mut output| output.read_to_string(&mut error));
    assert!(child.0.wait().expect("it ends").success(), "{said}{error}");
}

fn runs(command: Command) {
    let mut command = command;
    ends_well(Killed(command.spawn().expect("a process")));
}

#[test]
fn users_neither_see_nor_slow_nor_stop_each_other() {
    if is_skipped() {
        return;
    }
    let mut config = Config::parse(CONFIG, Path::new("xschedd.toml")).expect("a configuration");
    config.socket.gid = Some(GROUP);
    let node = Node::configured(config);
    let socket = &node.socket;
    let of_group = |command, uid| of_user(command, uid, GROUP);
    let [one, two] = [ONE, TWO].map(|uid| started(of_group(child("works", socket), uid)));
    // Both asked for the highest priority, and both have the highest that there is for them: they
    // take turns.
    let both_run = || {
        node.until("one has more than the other", |status| {
            let is_fine = |uid| {
                let works = status.clients.iter().find(|c| c.uid == uid && c.name == "works");
                works.is_some_and(|c| c.priority == 50 && (450..=550).contains(&c.got_permille))
            };
            is_fine(ONE) && is_fine(TWO) && status.changed.is_empty()
        });
    };
    both_run();
    runs(of_group(child_about("asks of the other", socket, two.0.id()), ONE));
    runs(of_group(child_about("asks of the other", socket, one.0.id()), TWO));
    both_run();
    let greedy = started(of_group(child("takes all it can get", socket), ONE));
    runs(of_group(child("is scheduled", socket), TWO));
    ends_well(greedy);
    both_run();
    // The gates of neither stay closed.
    ends_well(one);
    ends_well(two);
    runs(of_user(child("has no rights", socket), THIRD, THIRD));
}

/// The folder keeps others out, and with another mode the daemon does.
#[test]
fn a_daemon_for_one_user_tells_others_so() {
    if is_skipped() {
        return;
    }
    let node = Node::of("hpf", false);
    let honest = Honest::new(&node.socket);
    runs(of_user(child("has no rights", &node.socket), THIRD, THIRD));
    for path in node.socket.ancestors().take(3) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("a mode");
    }
    runs(of_user(child("is told", &node.socket), THIRD, THIRD));
    honest.is_scheduled(&node.socket);
}
