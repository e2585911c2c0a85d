//! Work of operators of `xschedd`: configurations, drift, records.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use xsched_daemon::config::Source;
use xsched_daemon::{Daemon, Settings};
use xsched_node::{Link, PageSource, SharedPage, Status, Unit};
use xsched_sim::replay::{PredictOptions, Record, Workload, predict};
use xsched_sim::scenario::{DaemonSpec, Dist};

struct Node {
    folder: tempfile::TempDir,
    _daemon: Daemon,
}

impl Node {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("xschedd.toml");
        fs::write(&file, text).expect("a file");
        let source = Source { file: Some(file), ..Source::default() };
        let config = source.read().expect("a configuration");
        let policy = config.policy.name.parse().expect("a policy");
        let socket = folder.path().join("socket");
        let settings = Settings { socket, policy, is_open: false };
        let daemon = Daemon::start_with_config(&settings, config, source).expect("a daemon");
        Self { folder, _daemon: daemon }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
        command.args(arguments).env("XSCHED_SOCKET", self.path("socket"));
        command
    }

    fn tell(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    /// Returns what the program prints, if all is well.
    fn told(&self, arguments: &[&str]) -> String {
        let output = self.tell(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns the error that the program prints.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.tell(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    fn status(&self) -> Status {
        serde_json::from_str(&self.told(&["ps", "--json"])).expect("JSON")
    }

    fn client(&self, name: &str, priority: i32) -> Fake {
        let link = Link::open(self.path("socket"), name, priority, None).expect("a link");
        let unit = link.unit("gpu".to_owned());
        let page = unit.page().expect("a page");
        Fake { unit, _page: page, _link: link }
    }
}

/// A process that says that it has work, and has none.
struct Fake {
    unit: Arc<Unit>,
    _page: Arc<SharedPage>,
    _link: Arc<Link>,
}

impl Fake {
    /// Has work for `ms` milliseconds, and says that it used half of that.
    fn work(&self, ms: u64) {
        self.unit.note(true);
        thread::sleep(Duration::from_millis(ms));
        self.unit.note_retired(1, ms * 500_000);
        self.unit.note(false);
    }
}

#[test]
fn a_file_is_checked_without_a_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.toml");
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
        command.args(["ctl", "check"]).arg(&file).env("XSCHED_SOCKET", "/nowhere");
        command.output().expect("it runs")
    };
    let output = check();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read"), "{output:?}");
    fs::write(&file, "[policy]\nname = \"wfq\"\nk = 2\n").expect("a file");
    let output = check();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(why.contains("x.toml:3: policy `wfq` has no k; take the key out"), "{why}");
    fs::write(&file, "[policy]\nname = \"wfq\"\n[[tenant]]\nname = \"a\"\nuid = 1\n")
        .expect("a file");
    let output = check();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text.ends_with("fine: policy wfq, tenants a, default\n"), "{text}");
}

#[test]
fn what_differs_from_the_file_is_listed_until_it_is_reloaded() {
    let node = Node::new("[[tenant]]\nname = \"all\"\npriority_max = 10\n");
    let _fake = node.client("fake", 3);
    let pid = std::process::id().to_string();
    assert_eq!(node.status().changed, []);
    assert!(!node.told(&["ps"]).contains("changed by hand"));
    node.told(&["ctl", "policy", "wfq"]);
    node.told(&["ctl", "set", &pid, "--class", "batch"]);
    assert_eq!(node.status().clients[0].priority, -100);
    let why = node.refused(&["ctl", "set", &pid, "--class", "batch", "--priority", "5"]);
    assert!(why.contains("cannot be used with"), "{why}");
    node.told(&["ctl", "set", &pid, "--priority", "5"]);
    let why = node.refused(&["ctl", "set", &pid, "--priority", "11"]);
    assert!(why.contains("above 10, the highest of tenant `all`"), "{why}");
    node.told(&["ctl", "drain"]);
    let changed = node.status().changed;
    let of: Vec<_> = changed.iter().map(|c| (&*c.what, &*c.file, &*c.live)).collect();
    let drain = ("drain", "false", "true");
    assert_eq!(of, [("policy", "hpf", "wfq"), drain, ("priority", "3", "5")]);
    let text = node.told(&["ps"]);
    assert!(text.contains("changed by hand") && text.contains("all"), "{text}");
    node.told(&["ctl", "reload"]);
    node.told(&["ctl", "reset", &pid]);
    node.told(&["ctl", "drain", "--undo"]);
    let status = node.status();
    assert_eq!((&*status.policy, status.changed), ("hpf", vec![]));
    fs::write(node.path("xschedd.toml"), "policy = 1\n").expect("a file");
    let why = node.refused(&["ctl", "reload"]);
    assert!(why.contains("xschedd.toml:1: ") && why.contains("counts on"), "{why}");
    assert_eq!(node.status().policy, "hpf");
}

#[test]
fn what_processes_do_is_recorded_and_replayed_under_other_policies() {
    let node = Node::new("");
    let (urgent, batch) = (node.client("urgent", 5), node.client("batch", -5));
    let out = node.path("run.xsr");
    let out = out.to_str().expect("a plain path");
    let mut command = node.command(&["record", "--out", out, "--seconds", "1"]);
    let recorder = thread::spawn(move || command.output().expect("it runs"));
    while !recorder.is_finished() {
        batch.unit.note(true);
        urgent.work(4);
        batch.work(8);
        batch.unit.note(false);
        thread::sleep(Duration::from_millis(2));
    }
    let output = recorder.join().expect("no panic");
    assert!(output.status.success(), "{output:?}");
    let bytes = fs::read(out).expect("the record");
    let workload = Workload::extract(&Record::parse(&bytes).expect("a record")).expect("requests");
    assert_eq!((workload.tasks.len(), &*workload.policy), (2, "hpf"));
    let priorities = workload.tasks.iter().map(|task| task.hints.priority.get());
    assert_eq!(priorities.collect::<Vec<_>>(), [5, -5]);
    assert_eq!(names(&workload), ["urgent", "batch"]);
    for task in &workload.tasks {
        assert!(task.requests.len() > 2, "{task:?}");
        assert!(task.commands.iter().any(|command| command.work_ns > 100_000), "{task:?}");
    }
    // The batch process waits for the urgent one, and without scheduling it does not.
    let p50 = |options: &[&str]| -> Vec<f64> {
        let text = node.told(&[&["replay", out, "--json", "-"], options].concat());
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let tasks = json["tasks"].as_array().expect("tasks");
        tasks.iter().map(|task| task["predicted_ms"]["p50"].as_f64().expect("a figure")).collect()
    };
    let (hpf, up) = (p50(&["--policy", "hpf"]), p50(&["--policy", "up"]));
    assert!(hpf[0] < hpf[1] && up.iter().all(|ms| *ms > 0.0), "{hpf:?} {up:?}");
    let by_daemon = p50(&["--daemon"]);
    assert!(by_daemon[0] < by_daemon[1], "{by_daemon:?}");
    // A daemon that is late lets the batch process run beside the urgent one.
    let urgent_ms = |wake_us: u64| {
        let wake = Dist::Constant(wake_us * 1_000);
        let daemon = Some(DaemonSpec { wake, spin_ns: 0, ..DaemonSpec::default() });
        let options = PredictOptions { daemon, ..PredictOptions::default() };
        let prediction = predict(&workload, &options, &mut |_| {}).expect("a prediction");
        prediction.tasks[0].predicted_ms.mean.expect("requests")
    };
    let (quick, late) = (urgent_ms(10), urgent_ms(10_000));
    assert!(late > quick + 0.2, "{quick} {late}");
}

#[test]
fn a_record_that_begins_before_the_first_process_is_replayed_exactly() {
    let node = Node::new("");
    let out = node.path("run.xsr");
    let out = out.to_str().expect("a plain path");
    let mut command = node.command(&["record", "--out", out, "--seconds", "1"]);
    let recorder = thread::spawn(move || command.output().expect("it runs"));
    while fs::metadata(out).map_or(0, |file| file.len()) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let (urgent, batch) = (node.client("urgent", 5), node.client("batch", -5));
    while !recorder.is_finished() {
        batch.unit.note(true);
        urgent.work(2);
        batch.unit.note(false);
    }
    let output = recorder.join().expect("no panic");
    assert!(output.status.success(), "{output:?}");
    let text = node.told(&["replay", out, "--orders"]);
    assert!(text.starts_with("identical: "), "{text}");
    assert!(!text.starts_with("identical: 0 "), "{text}");
    let bytes = fs::read(out).expect("the record");
    let workload = Workload::extract(&Record::parse(&bytes).expect("a record")).expect("requests");
    assert_eq!(names(&workload), ["urgent", "batch"]);
}

#[test]
fn a_record_has_the_names_of_grants() {
    let node = Node::new("");
    let (urgent, batch) = (node.client("urgent", 5), node.client("batch", -5));
    let (own, out) = (std::process::id().to_string(), node.path("run.xsr"));
    let grant = ["ctl", "grant", "--pid", &own, "--class", "normal", "--name", "job 24"];
    node.told(&grant);
    let out = out.to_str().expect("a plain path");
    let mut command = node.command(&["record", "--out", out, "--seconds", "1"]);
    let recorder = thread::spawn(move || command.output().expect("it runs"));
    while !recorder.is_finished() {
        batch.unit.note(true);
        urgent.work(2);
        batch.unit.note(false);
    }
    recorder.join().expect("no panic");
    let bytes = fs::read(out).expect("the record");
    let workload = Workload::extract(&Record::parse(&bytes).expect("a record")).expect("requests");
    assert_eq!(names(&workload), ["job_24__urgent", "job_24__batch"]);
}

fn names(workload: &Workload) -> Vec<&str> {
    workload.tasks.iter().map(|task| task.name.as_str()).collect()
}

#[test]
fn a_record_ends_with_its_connection_its_reader_or_its_size() {
    use std::os::fd::OwnedFd;
    use xsched_node::{Answer, NodeError, Request, Wire};
    let node = Node::new("");
    let fake = node.client("fake", 0);
    let connect = || Wire::connect(&node.path("socket"), Duration::from_secs(5)).expect("it");
    let begin = |wire: &Wire, bytes_max: u64| -> Result<OwnedFd, NodeError> {
        let (answer, reader) = wire.ask(&Request::Record { bytes_max }, None)?;
        assert_eq!(answer, Answer::Recording);
        Ok(reader.expect("a socket"))
    };
    let all = |reader: OwnedFd| {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut fs::File::from(reader), &mut bytes).expect("bytes");
        bytes
    };
    // One at a time; the end of the connection ends it.
    let wire = connect();
    let reader = begin(&wire, 1 << 20).expect("a record");
    let other = begin(&connect(), 1 << 20);
    assert!(matches!(other, Err(NodeError::Refused(why)) if why.contains("already")));
    fake.work(1);
    drop(wire);
    assert!(Record::parse(&all(reader)).is_ok());
    // One that has its size has an end, while the daemon works on.
    let wire = connect();
    let reader = begin(&wire, 600).expect("a record");
    let reading = thread::spawn(move || all(reader));
    while !reading.is_finished() {
        fake.work(1);
    }
    let bytes = reading.join().expect("no panic");
    assert!(bytes.len() <= 600 && Record::parse(&bytes).is_ok(), "{}", bytes.len());
    // A reader that has gone, and one that does not read, harm no other.
    drop(begin(&wire, 1 << 20).expect("a record"));
    assert!(wire.ask(&Request::EndRecord, None).is_ok());
    let _reader = begin(&wire, 1 << 20).expect("a record");
    for _ in 0..200 {
        fake.unit.note(true);
        fake.unit.note(false);
    }
    assert_eq!(node.status().clients.len(), 1);
}

#[test]
fn a_policy_that_does_not_get_what_it_goes_by_is_warned_of() {
    let node = Node::new("policy = \"edf\"");
    for (policy, part) in [
        ("strict_edf", "deadline, so of equals"),
        ("lax", "laxity, so priorities alone"),
        ("chpf", "no process is held"),
        ("wfq", ""),
    ] {
        let output = node.tell(&["ctl", "policy", policy]);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.success() && said.contains(part), "{policy}: {said}");
        assert_eq!(said.is_empty(), part.is_empty(), "{policy}: {said}");
    }
    let file = node.path("xschedd.toml");
    let output = node.tell(&["ctl", "check", file.to_str().expect("a plain path")]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("policy `edf`: "), "{output:?}");
}

#[test]
fn a_share_that_divides_nothing_is_warned_of() {
    let text =
        |policy: &str| format!("policy = \"{policy}\"\n[[tenant]]\nname = \"a\"\nshare = 30\n");
    for (policy, is_said) in [("hpf", true), ("up", false), ("wfq", false), ("strict_up", false)] {
        let node = Node::new(&text(policy));
        let _fake = node.client("fake", 3);
        let file = node.path("xschedd.toml");
        let own = std::process::id().to_string();
        let check = ["ctl", "check", file.to_str().expect("a plain path")];
        for arguments in [&check[..], &["ctl", "set", &own, "--share", "20"]] {
            let output = node.tell(arguments);
            let said = String::from_utf8(output.stderr).expect("text");
            assert!(output.status.success(), "{arguments:?}: {said}");
            assert_eq!(said.contains("takes no notice of shares"), is_said, "{policy}: {said}");
        }
    }
}

#[test]
fn what_cannot_be_written_or_begun_is_an_error_and_loses_nothing() {
    let node = Node::new("");
    let _fake = node.client("fake", 3);
    for arguments in [&["ps"][..], &["ps", "--json"], &["top", "--once"]] {
        let full = fs::File::options().write(true).open("/dev/full").expect("a device");
        let status = node.command(arguments).stdout(full).status().expect("it runs");
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
    let out = node.path("old.xsr");
    fs::write(&out, "an earlier record").expect("a file");
    let path = out.to_str().expect("a plain path");
    let mut record = node.command(&["record", "--out", path, "--seconds", "1"]);
    let status = record.env("XSCHED_SOCKET", "/nowhere").status().expect("it runs");
    assert_eq!(status.code(), Some(2));
    assert_eq!(fs::read_to_string(&out).expect("a file"), "an earlier record");
    let why = node.refused(&["ctl", "set", "1"]);
    let options = ["--class", "--priority", "--share", "--active"];
    assert!(options.iter().all(|one| why.contains(one)), "{why}");
}

#[test]
fn what_processes_are_called_is_the_same_as_json_and_as_text() {
    let node = Node::new("");
    let _fake = node.client("fake", 3);
    let json: serde_json::Value =
        serde_json::from_str(&node.told(&["ps", "--json"])).expect("JSON");
    assert!(node.told(&["ps"]).starts_with("processes, "));
    assert_eq!(json["processes"].as_array().map(Vec::len), Some(1), "{json:#}");
    assert_eq!(json["gpus"][0]["processes"], 1, "{json:#}");
}

#[test]
fn without_a_daemon_both_places_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("xsched/socket");
    for arguments in [&["ps"][..], &["top", "--once"], &["ctl", "reload"], &["doctor"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
        command.args(arguments).env_remove("XSCHED_SOCKET").env("XDG_RUNTIME_DIR", folder.path());
        let output = command.output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let both = format!("{} or /run/xsched/socket", own.display());
        assert!(said.contains(&both), "{arguments:?}: {said}");
    }
}
