//! `xsched run` with `xschedd`: processes on the emulated driver that are held as a whole.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use xsched_node::{ClientStatus, Link, PageSource, Request, Wire};

mod node;
mod programs;

use node::*;
use programs::*;

#[test]
fn a_process_is_held_and_let_go_by_hand() {
    let node = Node::new();
    let background = node.background("count", &["--class", "batch"]);
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    let output = node.tell(&["ctl", "hold", &pid]);
    assert!(output.status.success(), "{output:?}");
    assert!(background.stands_still());
    let status = node.status();
    assert_eq!(status.clients.len(), 1);
    let client = &status.clients[0];
    assert_eq!((client.pid, &*client.state, client.priority), (background.pid(), "held", -100));
    assert!(client.held_by_hand);
    assert!(client.waits > 0 && client.held_ms >= 150, "{client:?}");
    let gpu = (status.gpus.len(), status.gpus[0].clients, status.gpus[0].device.as_str());
    assert_eq!(gpu, (1, 1, &*client.device));
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    assert_eq!(background.end(), "");
}

#[test]
fn a_more_urgent_process_has_the_gpu() {
    let node = Node::new();
    let batch = node.background("batch", &["--class", "batch"]);
    assert!(batch.goes_on());
    let other = node.background("other", &["--priority", "5"]);
    assert!(other.goes_on());
    let held =
        || node.status().clients.iter().any(|client| client.holds > 0 && client.priority < 0);
    assert!((0..100).any(|_| held()), "{:?}", node.status());
    // The other one pauses, so both go on.
    assert!(batch.goes_on() && other.goes_on());
    node.until("what retires and goes past", |node| {
        node.status().clients.iter().all(|client| client.retired > 0 && client.past > Some(0))
    });
    // Each uses its legacy default stream alone.
    node.until("levels", |node| node.status().clients.iter().all(|c| c.levels == [1, 0, 0]));
    assert_eq!((batch.end(), other.end()), (String::new(), String::new()));
}

#[test]
fn a_granted_process_has_its_class_by_the_name_of_the_grant_and_keeps_it() {
    let node = Node::new();
    let job = node.background("job", &["--class", "interactive"]);
    let other = node.background("other", &[]);
    assert!(job.goes_on() && other.goes_on());
    let pid = job.pid().to_string();
    let grant = ["ctl", "grant", "--pid", &pid, "--class", "batch", "--name", "job 24"];
    let granted = node.tell(&[&grant[..], &["--share", "30"]].concat());
    assert!(granted.status.success(), "{granted:?}");
    let is_job = |client: &ClientStatus| client.pid == job.pid();
    let status = node.status();
    let client = status.clients.iter().find(|client| is_job(client)).expect("the job");
    assert_eq!((&*client.tenant, client.priority, client.share), ("job 24", -100, Some(30)));
    // The other one is more urgent now, whatever the job asked for.
    let held = || node.status().clients.iter().any(|client| is_job(client) && client.holds > 0);
    assert!((0..100).any(|_| held()), "{:?}", node.status());
    let text = String::from_utf8_lossy(&node.tell(&["ps"]).stdout).into_owned();
    assert!(text.contains("granted by root") && text.matches("job 24").count() == 2, "{text}");
    let frame = node.xsched(&["top", "--once"]).env("COLUMNS", "200").output().expect("it runs");
    assert!(String::from_utf8_lossy(&frame.stdout).contains("job 24"), "{frame:?}");
    let raised = node.tell(&["ctl", "set", &pid, "--priority", "5"]);
    let why = String::from_utf8_lossy(&raised.stderr).into_owned();
    assert!(why.contains("root may revoke that grant"), "{why}");
    let wrong = node.tell(&["ctl", "grant", "--cgroup", "/etc", "--class", "batch"]);
    let why = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(why.contains("is no folder of a cgroup"), "{why}");
    assert!(node.tell(&["ctl", "revoke", "job 24"]).status.success());
    let status = node.status();
    let client = status.clients.iter().find(|client| is_job(client)).expect("the job");
    assert_eq!((&*client.tenant, client.priority), ("default", 100));
    assert!(job.goes_on() && other.goes_on());
    assert_eq!((job.end(), other.end()), (String::new(), String::new()));
}

#[test]
fn a_node_with_a_mere_warning_is_set_up() {
    let node = Node::new();
    let file = node.folder.path().join("slurm.conf");
    fs::write(&file, "ProctrackType=proctrack/linuxproc\n").expect("a file");
    let plugin = node.folder.path().join("spank_xsched.so");
    fs::write(&plugin, "").expect("a file");
    let line = format!("optional {} default=batch\n", plugin.display());
    fs::write(file.with_file_name("plugstack.conf"), line).expect("a file");
    let mut command = node.xsched(&["doctor", "--for", "slurm", "--json"]);
    let output = command.env("SLURM_CONF", &file).output().expect("it runs");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let counts = |key: &str| document[key].as_array().map(Vec::len);
    assert_eq!((counts("problems"), counts("warnings")), (Some(0), Some(1)), "{document}");
}

#[test]
fn a_daemon_that_leaves_lets_everything_run_and_one_that_comes_back_is_told() {
    let mut node = Node::new();
    let background = node.background("count", &[]);
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    node.daemon = None;
    assert!(background.goes_on());
    node.start();
    let start = Instant::now();
    while !node.tell(&["ctl", "hold", &pid]).status.success() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not connect again");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(background.stands_still());
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    let said = background.end();
    assert_eq!(said.matches("the scheduler of the node has left").count(), 1, "{said}");
}

#[test]
fn the_environment_is_that_of_a_program_with_and_without_a_daemon() {
    let mut node = Node::new();
    let options = ["--class", "interactive", "--share", "20"];
    let environment = |node: &Node| {
        let output = node.tell(&[&["env", "--for", "slurm"], &options[..]].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let with = environment(&node);
    let program = node.tell(&[&["run"], &options[..], &["--", "env"]].concat());
    let program = String::from_utf8(program.stdout).expect("text");
    for line in with.lines() {
        let line = line.strip_prefix("export ").expect("an export");
        assert!(program.lines().any(|has| has == line), "{line} is not in {program}");
    }
    // This process may have some as well.
    let is_given = |name: &str| name != "XSCHED_CUDA_DRIVER" && std::env::var_os(name).is_none();
    let names = program.lines().filter_map(|line| Some(line.split_once('=')?.0));
    let ours = names.filter(|name| name.starts_with("XSCHED_") && is_given(name));
    assert_eq!(ours.count(), with.matches("XSCHED_").count());
    node.daemon = None;
    assert_eq!(environment(&node), with);
}

#[test]
fn without_a_daemon_a_program_runs_by_itself() {
    let mut node = Node::new();
    node.daemon = None;
    let mut command = node.xsched(&["run", "--"]);
    let output = command.arg(node.folder.path().join("program")).output().expect("it runs");
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true), "{output:?}");
    let output = node.tell(&["ps"]);
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("is xschedd running?"), "{why}");
}

#[test]
fn a_program_that_is_there_before_the_daemon_is_connected_later() {
    let mut node = Node::new();
    node.daemon = None;
    let counter = node.folder.path().join("count");
    fs::write(&counter, "0\n").expect("a file");
    let mut command = node.xsched(&["run", "--"]);
    command.arg(node.folder.path().join("program")).arg(&counter).env("XSCHED_SCHEDULER", "GLB");
    let child = Some(command.stderr(Stdio::piped()).spawn().expect("it runs"));
    let background = Background { child, counter };
    assert!(background.goes_on());
    node.start();
    node.until("it does not connect", |node| !node.status().clients.is_empty());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    let said = background.end();
    assert_eq!(said.matches("this process connects later").count(), 1, "{said}");
}

/// The C library.
fn preempt() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_xsched")).parent().expect("a folder");
    let folders = xsched_launch::folders_beside(programs).into_iter();
    let preempt = folders.map(|folder| folder.join(xsched_launch::LIBRARY)).find(|it| it.exists());
    preempt.expect("the C library is built")
}

/// Holds a program by hand and for another one, and lets it go each time.
fn check_holds(node: &Node, background: &Background, other: impl FnOnce() -> Background) {
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    let state = || {
        let clients = node.status().clients;
        let client = clients.into_iter().find(|client| client.pid == background.pid());
        client.expect("it is connected")
    };
    assert_eq!(state().state, "held");
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    let holds = state().holds;
    let other = other();
    node.until("it is not held for the other one", |_| state().holds > holds);
    // The other one pauses, so both go on.
    assert!(background.goes_on() && other.goes_on());
    other.end();
}

/// While no other process has work, launches up to the next gate have no commands of their own.
#[test]
fn a_program_beside_an_idle_process_is_held_and_all_it_launches_is_scheduled() {
    let node = Node::new();
    let link = Link::open(node.socket(), "idle", 50, None).expect("a link");
    let idle = link.unit("0000:01:00".to_owned());
    let _page = idle.page().expect("a page");
    let counts = node.folder.path().join("counts");
    let set = [("XSCHED_SHIM_COUNTS", counts.to_str().expect("text"))];
    let background = node.background_with("beside", &["--class", "batch"], &set);
    let pid = background.pid().to_string();
    for _ in 0..5 {
        assert!(background.goes_on());
        assert!(node.tell(&["ctl", "hold", &pid]).status.success());
        assert!(background.stands_still());
        assert!(node.tell(&["ctl", "release", &pid]).status.success());
    }
    // What it fills is right, or it ends with a number.
    assert!(background.goes_on());
    background.end();
    let counts: serde_json::Value =
        serde_json::from_slice(&fs::read(counts).expect("counts")).expect("JSON");
    let of = |key: &str| counts[key]["cuMemsetD32Async"].as_u64().expect("a number");
    assert!(of("scheduled") * 11 >= of("launches") * 10, "one of eleven is captured: {counts}");
}

/// Counts that a program of [`EVENTS`] tells: waits for events, numbers, and edges.
fn counted(background: Background) -> [i64; 3] {
    let said = background.end();
    let line = said.lines().find(|line| line.starts_with("waits=")).expect("what was counted");
    let numbers = line.split([' ', '=']).filter_map(|word| word.parse().ok());
    numbers.collect::<Vec<i64>>().try_into().expect("three numbers")
}

#[test]
fn streams_that_wait_for_each_other_can_be_held_without_the_device() {
    let node = Node::new();
    let source = node.folder.path().join("program.c");
    fs::write(&source, EVENTS).expect("a file");
    node.compile(&source);
    let near = [("XSCHED_GATE_SPACING_US", "1")];
    let alone = node.background_with("alone", &[], &near);
    assert!(alone.goes_on());
    let [waits, writes, edges] = counted(alone);
    assert!(waits > 0 && (writes, edges) == (0, 0), "{writes} writes for {waits} waits, {edges}");
    let start = |name| node.background_with(name, &["--class", "batch"], &near);
    let [one, other] = ["one", "other"].map(start);
    assert!(one.goes_on() && other.goes_on());
    let pid = one.pid().to_string();
    for _ in 0..20 {
        assert!(node.tell(&["ctl", "hold", &pid]).status.success());
        thread::sleep(Duration::from_millis(5));
        assert!(node.tell(&["ctl", "release", &pid]).status.success());
    }
    let goes_on = (0..10).all(|_| one.goes_on());
    assert!(goes_on, "a wait for a number that is never written");
    let [waits, writes, edges] = counted(one);
    // What was launched before the other one came has none, and that one may have come late.
    assert!(writes * 10 > waits, "{writes} writes for {waits} waits");
    // The last one waits for the branch anyway, and the branch now for those before that.
    assert_eq!(edges, 1, "the branch is in line");
    other.end();
}

#[test]
fn a_process_that_nothing_comes_before_is_not_made_ready_to_be_held() {
    let node = Node::new();
    let batch = node.background("batch", &["--class", "batch"]);
    assert!(batch.goes_on());
    let source = node.folder.path().join("program.c");
    fs::write(&source, EVENTS).expect("a file");
    node.compile(&source);
    let near = [("XSCHED_GATE_SPACING_US", "1")];
    let first = node.background_with("first", &["--priority", "5"], &near);
    assert!(first.goes_on());
    let [waits, writes, _] = counted(first);
    assert!(writes * 10 < waits, "{writes} writes for {waits} waits");
    let second = node.background_with("second", &["--priority", "5"], &near);
    assert!(second.goes_on());
    // Of the same program, so that it counts as well.
    let before = node.background_with("before", &["--priority", "9"], &near);
    assert!(before.goes_on() && (0..10).all(|_| second.goes_on()));
    let [waits, writes, _] = counted(second);
    assert!(writes * 10 > waits, "{writes} writes for {waits} waits");
    before.end();
    assert!(batch.goes_on());
    batch.end();
}

#[test]
fn a_process_says_how_often_it_waits() {
    let node = Node::new();
    let other = node.background("other", &["--class", "batch"]);
    assert!(other.goes_on());
    let source = node.folder.path().join("program.c");
    fs::write(&source, WAITING).expect("a file");
    node.compile(&source);
    let ways = ["stream", "context", "copy", "stream-query", "call", "event", "event-query"];
    for how in ways.into_iter().chain(["never"]) {
        let program = node.background_with(how, &[], &[("WAITS", how)]);
        assert!(program.goes_on());
        let told = || {
            let clients = node.status().clients;
            let client = clients.into_iter().find(|client| client.pid == program.pid());
            client.and_then(|client| client.host_waited_us).unwrap_or(0)
        };
        let (launches, waits) = (program.count(), told());
        node.until("it goes on", |_| program.count() > launches + 20);
        let more = told() - waits;
        assert!(if how == "never" { more == 0 } else { more >= 10 }, "{how}: {more}");
        program.end();
    }
    other.end();
}

#[test]
fn a_program_that_launches_kernel_by_kernel_is_bound_by_its_host() {
    let node = Node::new();
    // Both are on one GPU, whose driver is as slow as in a virtual machine.
    let gpu = node.folder.path().join("gpu").display().to_string();
    let variables = [("XSCHED_EMULATED_GPU", gpu.as_str()), ("XSCHED_EMULATED_CALL_US", "10")];
    let batch = node.background_with("batch", &["--class", "batch"], &variables);
    assert!(batch.goes_on());
    let source = node.folder.path().join("program.c");
    fs::write(&source, EAGER).expect("a file");
    node.compile(&source);
    let start = Instant::now();
    let eager = node.background_with("eager", &["--class", "interactive"], &variables);
    assert!(eager.goes_on());
    let said = || {
        let clients = node.status().clients;
        clients.into_iter().find(|one| one.pid == eager.pid()).expect("it is connected")
    };
    let is_found = |bound: bool| {
        let (start, launches) = (Instant::now(), eager.count());
        while start.elapsed() < Duration::from_secs(20) {
            if said().host_bound == bound {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // On a machine that has other things to do it is idle for long in between.
        let pace = (eager.count() - launches) / 20;
        assert!(pace < 2_500, "{pace} launches a second, and bound by its host: {}", !bound);
        false
    };
    // It is found out anew each second.
    let _ = (0..3).all(|_| is_found(true) && is_found(false));
    assert!(eager.goes_on() && batch.goes_on());
    let (holds, ran) = (said().holds, start.elapsed().as_secs());
    assert!(holds <= ran, "{holds} holds in {ran} s: it gives way for the floor alone");
    eager.end();
    batch.end();
}

#[test]
fn a_program_runs_ahead_in_its_default_stream_while_the_daemon_holds_it() {
    let node = Node::new();
    let source = node.folder.path().join("program.c");
    fs::write(&source, AHEAD).expect("a file");
    node.compile(&source);
    for (name, apart) in [("ahead", None), ("apart", Some(("APART", "1")))] {
        let variables: Vec<_> = apart.into_iter().collect();
        let program = node.background_with(name, &[], &variables);
        assert!(program.goes_on());
        let pid = program.pid();
        // A program that asks would be over too late on a busy machine.
        let wire = Wire::connect(&node.socket(), Duration::from_secs(20)).expect("a connection");
        wire.ask(&Request::Hold { pid }, None).expect("it is held");
        let held = program.count();
        if apart.is_none() {
            node.until("it waits for the daemon", |_| program.count() > held + 100);
        }
        node.until("it goes on for ever", |_| program.stands_still());
        let ahead = program.count() - held;
        assert_eq!(ahead > 100, apart.is_none(), "{ahead} launches ahead, {name}");
        wire.ask(&Request::Release { pid }, None).expect("it is let go");
        assert!(program.goes_on());
        program.end();
    }
}

#[test]
fn a_process_whose_streams_have_no_gates_is_held_at_level_1() {
    // All streams share a hardware queue, so a gate of one would hold all.
    let node = Node::new();
    let one = [("CUDA_DEVICE_MAX_CONNECTIONS", "1")];
    let batch = node.background_with("batch", &["--class", "batch"], &one);
    check_holds(&node, &batch, || node.background_with("other", &["--class", "normal"], &one));
    let said = batch.end();
    assert!(said.contains("queues are at Lv1"), "it has gates: {said}");
}

#[test]
fn streams_that_are_told_apart_are_held_one_by_one() {
    let node = Node::new();
    let source = node.folder.path().join("program.c");
    fs::write(&source, STREAMS).expect("a file");
    node.compile(&source);
    for whole in [None, Some(("WHOLE", "1"))] {
        fs::write(node.folder.path().join("two-urgent"), "0\n").expect("a file");
        let near = [("XSCHED_GATE_SPACING_US", "1")];
        let variables: Vec<_> = near.into_iter().chain(whole).collect();
        let low = node.background_with("two", &["--streams"], &variables);
        let urgent = Background { child: None, counter: node.folder.path().join("two-urgent") };
        assert!(low.goes_on() && urgent.goes_on());
        let pid = low.pid();
        let of = |priority: i32| {
            let of = |one: &ClientStatus| one.pid == pid && one.priority == priority;
            let clients = node.status().clients.into_iter();
            clients.filter(of).find(|one| !one.device.is_empty())
        };
        assert!(of(0).is_some_and(|one| one.levels == [0, 1, 0]), "{:?}", node.status());
        assert!(of(5).is_some(), "{:?}", node.status());
        // A process between the two, which has work nearly always.
        let between = node.background("between", &["--priority", "3"]);
        node.until("it is not held", |_| of(0).is_some_and(|one| one.state == "held"));
        assert!(between.goes_on() && urgent.goes_on());
        assert_eq!(of(5).expect("it is connected").holds, 0);
        drop(between);
        assert!(low.goes_on() && urgent.goes_on());
        // What is done by the number of the process is done to both.
        assert!(node.tell(&["ctl", "hold", &pid.to_string()]).status.success());
        assert!(low.stands_still() && urgent.stands_still());
        assert!(node.tell(&["ctl", "release", &pid.to_string()]).status.success());
        assert!(low.goes_on() && urgent.goes_on());
        low.end();
    }
}

#[test]
fn streams_that_wait_for_each_other_have_the_priority_of_the_more_urgent_one() {
    let node = Node::new();
    let source = node.folder.path().join("program.c");
    fs::write(&source, EVENTS).expect("a file");
    node.compile(&source);
    let variables = [("XSCHED_GATE_SPACING_US", "1"), ("APART", "1")];
    let two = node.background_with("two", &["--streams"], &variables);
    assert!(two.goes_on());
    let priorities = || {
        // The process itself has the default stream.
        let clients = node.status().clients.into_iter().filter(|one| one.name.contains(" stream "));
        clients.filter(|one| one.pid == two.pid()).map(|one| one.priority).collect::<Vec<_>>()
    };
    assert_eq!(priorities(), [5, 5]);
    let other = node.background_with("other", &["--priority", "7"], &variables);
    assert!(other.goes_on() && two.goes_on() && other.goes_on());
    other.end();
    assert!(two.goes_on());
    two.end();
}

#[test]
fn a_program_on_the_host_device_is_held_at_each_level() {
    let node = Node::new();
    let source = node.folder.path().join("host.c");
    fs::write(&source, ON_HOST).expect("a file");
    let program = source.with_extension("");
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.arg(&source).arg("-ldl").arg("-o").arg(&program);
    assert!(compile.status().expect("a C compiler").success());
    for level in ["1", "2", "3"] {
        let start = |name: &str, class| {
            let counter = node.folder.path().join(format!("{name}-{level}"));
            fs::write(&counter, "0\n").expect("a file");
            let mut command = node.xsched(&["run", "--class", class, "--"]);
            command.arg(&program).arg(&counter).arg(level).env("PREEMPT", preempt());
            let child = Some(command.stderr(Stdio::piped()).spawn().expect("it runs"));
            Background { child, counter }
        };
        let batch = start("batch", "batch");
        check_holds(&node, &batch, || start("other", "normal"));
        assert_eq!(batch.end(), "");
    }
}

/// Starts [`ASKING`] without a daemon, and answers it with what it was told before and after there
/// was one.
fn asking(node: &mut Node, name: &str) -> (Background, [String; 2]) {
    node.daemon = None;
    let source = node.folder.path().join("asking.c");
    fs::write(&source, PROGRAM.replace("int main(", "static int work(") + ASKING).expect("a file");
    let (program, counter) = (source.with_extension(""), node.folder.path().join(name));
    node.compile(&source);
    fs::write(&counter, "0\n").expect("a file");
    let mut command = node.xsched(&["run", "--"]);
    command.arg(program).arg(&counter).env("PREEMPT", preempt());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || said.next().expect("a line").expect("text");
    let before = line();
    node.start();
    writeln!(child.stdin.take().expect("a pipe")).expect("it reads");
    let answers = [before, line()];
    (Background { child: Some(child), counter }, answers)
}

#[test]
fn a_program_joins_when_it_asks_for_the_daemon_before_it_uses_a_gpu() {
    let mut node = Node::new();
    // It is not supported without a daemon.
    let (background, answers) = asking(&mut node, "count");
    assert_eq!(answers, ["5", "0"]);
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    drop(background);
    // It is not allowed with XQueues.
    let (background, answers) = asking(&mut node, "early");
    assert_eq!(answers, ["5", "4"]);
    assert!(background.goes_on() && node.status().clients.is_empty());
    background.end();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let node = Node::new();
    for (arguments, part) in [
        (&["ctl", "hold", "1"][..], "no process 1 is connected"),
        (&["ctl", "policy", "none"], "unknown policy"),
        (&["ctl", "set", "1", "--priority", "5"], "no process 1 is connected"),
    ] {
        let output = node.tell(arguments);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(why.contains(part), "{why}");
    }
    assert!(node.tell(&["ctl", "policy", "wfq"]).status.success());
    assert_eq!(node.status().policy, "wfq");
}

/// How often it kills; with `XSCHED_KILLS` more often, which takes about a second for two.
fn kills() -> u64 {
    std::env::var("XSCHED_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

#[test]
fn kills_at_any_moment_hold_no_process_and_lose_no_work() {
    let mut node = Node::new();
    node.daemon = None;
    let mut daemon = node.start_apart();
    let batch = node.background("batch", &["--class", "batch"]);
    let mut urgent = Some(node.background("urgent", &["--class", "interactive"]));
    // A different moment each time, the same ones in each run.
    let moment = |kill: u64| Duration::from_micros(kill.wrapping_mul(0x9e37_79b9) % 60_000);
    for kill in 0..kills() {
        let connected = |node: &Node| node.status().clients.len() == 2;
        node.until("both connect", connected);
        thread::sleep(moment(kill));
        if kill % 3 < 2 {
            daemon.signal(rustix::process::Signal::KILL);
        }
        if kill % 3 > 0 {
            drop(urgent.take());
        }
        assert!(batch.goes_on(), "after {kill} kills");
        if kill % 3 < 2 {
            drop(daemon);
            daemon = node.start_apart();
        }
        if kill % 3 > 0 {
            let name = format!("urgent-{kill}");
            urgent = Some(node.background(&name, &["--class", "interactive"]));
        }
        assert!(urgent.as_ref().is_some_and(Background::goes_on), "after {kill} kills");
    }
    batch.end();
    urgent.expect("one at a time").end();
    drop(daemon);
}

#[test]
fn a_daemon_that_is_stopped_loses_its_holds_and_takes_them_again() {
    let mut node = Node::new();
    node.daemon = None;
    let daemon = node.start_apart();
    let background = node.background("count", &[]);
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    daemon.signal(rustix::process::Signal::STOP);
    assert!(background.goes_on(), "it is held past the lease");
    daemon.signal(rustix::process::Signal::CONT);
    let still = (0..20).any(|_| background.stands_still());
    assert!(still, "a daemon that goes on does not hold it");
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    // Nor is it held by another process, which may hold it directly until the daemon has decided.
    let urgent = node.background("urgent", &["--class", "interactive"]);
    assert!(urgent.goes_on());
    daemon.signal(rustix::process::Signal::STOP);
    assert!(background.goes_on() && urgent.goes_on() && background.goes_on());
    daemon.signal(rustix::process::Signal::CONT);
    background.end();
    urgent.end();
}
