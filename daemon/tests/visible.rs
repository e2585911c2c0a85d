//! Information that the daemon gives: metrics, what runs past it, and long statuses.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use xsched_daemon::config::Source;
use xsched_daemon::watch::{Drivers, Lister, Process, Seen};
use xsched_daemon::{Daemon, Settings, metrics};
use xsched_node::{
    Grant, Grantee, Link, PageSource, Request, SharedPage, Status, Unit, VERSION, Wire,
};

const PATIENCE: Duration = Duration::from_secs(20);

struct Node {
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Node {
    fn new(text: &str, drivers: Option<fn() -> Drivers>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = text.replace("FOLDER", &folder.path().display().to_string());
        let (socket, file) = (folder.path().join("socket"), folder.path().join("xschedd.toml"));
        fs::write(&file, text).expect("a file");
        let source = Source { file: Some(file), ..Source::default() };
        let config = source.read().expect("a configuration");
        let policy = config.policy.name.parse().expect("a policy");
        let settings = Settings { socket, policy, is_open: false };
        let daemon = Daemon::start_watching(&settings, config, source, drivers).expect("a daemon");
        Self { daemon, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn wire(&self) -> Wire {
        Wire::connect(&self.path("socket"), PATIENCE).expect("a connection")
    }

    fn status(&self) -> Status {
        self.wire().status().expect("a status")
    }

    fn until(&self, what: &str, done: impl Fn(&Status) -> bool) {
        let start = Instant::now();
        while !done(&self.status()) {
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}", self.status());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn process(&self, name: &str, priority: i32) -> Fake {
        let link = Link::open(self.path("socket"), name, priority, None).expect("a link");
        let unit = link.unit(GPU.to_owned());
        let page = unit.page().expect("a page");
        Fake { link, unit, _page: page }
    }

    fn scrape(&self) -> Scraped {
        let socket = UnixStream::connect(self.path("metrics")).expect("a connection");
        let (head, body) = ask(socket, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
        Scraped(body)
    }
}

/// A process that says that it has work, and has none.
struct Fake {
    link: Arc<Link>,
    unit: Arc<Unit>,
    _page: Arc<SharedPage>,
}

const GPU: &str = "0000:1b:00";

/// Asks, and answers what comes in front of an empty line and behind it.
fn ask(mut socket: impl Read + Write, request: &str) -> (String, String) {
    socket.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("headers");
    (head.to_owned(), body.to_owned())
}

/// Metrics as text. The labels of these tests need no escapes, which those of the example do.
struct Scraped(String);

impl Scraped {
    /// All series of a name with these labels.
    fn all(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let value = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let of = series.strip_prefix(name)?.strip_prefix('{')?;
            let has = |(key, value): &(&str, &str)| of.contains(&format!("{key}=\"{value}\""));
            labels.iter().all(has).then(|| value.parse().expect("a number"))
        };
        self.0.lines().filter_map(value).collect()
    }

    fn one(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let all = self.all(name, labels);
        assert_eq!(all.len(), 1, "{name} {labels:?}: {all:?} of {}", self.0);
        all[0]
    }

    /// Of the tenant of all processes on the GPU.
    fn tenant(&self, what: &str) -> f64 {
        self.one(&format!("xsched_tenant_{what}"), &[("tenant", "default"), ("gpu", GPU)])
    }
}

/// A driver that lists a GPU and no process on it.
struct Empty;

impl Lister for Empty {
    fn look(&mut self) -> Seen {
        Seen { gpus: [(GPU.to_owned(), "H200".to_owned())].into(), ..Seen::default() }
    }
}

/// A folder with the number of the first pid namespace.
fn root() -> &'static Path {
    static ROOT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let root = ROOT.get_or_init(|| {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("proc/self/ns")).expect("a folder");
        symlink("pid:[4026531836]", root.path().join("proc/self/ns/pid")).expect("a link");
        fs::create_dir_all(root.path().join("proc/9")).expect("a folder");
        fs::write(root.path().join("proc/9/comm"), "past\n").expect("a file");
        root
    });
    root.path()
}

fn drivers(lister: impl Lister + 'static) -> Drivers {
    let interval = Duration::from_millis(5);
    Drivers { listers: vec![Box::new(lister)], root: root().to_owned(), interval }
}

const METRICS: &str = "[metrics]\nlisten = \"unix:FOLDER/metrics\"\n";

#[test]
fn counters_are_those_of_what_happened() {
    let node = Node::new(METRICS, Some(|| drivers(Empty)));
    node.until("the GPU is not known", |status| !status.gpus.is_empty());
    let before = node.scrape();
    for what in [
        "device_seconds_total",
        "holds_total",
        "waited_seconds_total",
        "retired_commands_total",
        "past_launches_total",
        "lost_leases_total",
        "in_flight_queues",
        "wait_seconds_count",
        "hold_to_quiet_seconds_count",
        "hold_to_running_seconds_sum",
    ] {
        assert_eq!(before.tenant(what), 0.0, "{what}");
    }
    let bucket = before.all("xsched_tenant_wait_seconds_bucket", &[("le", "+Inf")]);
    assert_eq!(bucket, [0.0]);
    let (batch, urgent) = (node.process("batch", 0), node.process("urgent", 5));
    batch.link.set_past(|| Some(4));
    let is = |name: &str, state: &str| {
        let (name, state) = (name.to_owned(), state.to_owned());
        move |status: &Status| status.clients.iter().any(|c| c.name == name && c.state == state)
    };
    batch.unit.note(true);
    node.until("the batch does not run", is("batch", "running"));
    for round in 1..=3 {
        urgent.unit.note(true);
        node.until("the batch is not held", is("batch", "held"));
        // What was on the device already.
        batch.unit.note_retired(2, 1_000);
        node.until("nothing retires", |s| s.clients.iter().any(|c| c.retired == 2 * round));
        urgent.unit.note(false);
        node.until("the batch is held on", is("batch", "running"));
    }
    batch.unit.note_retired(1, 1_000);
    batch.unit.note(false);
    node.until("the batch runs on", is("batch", "idle"));
    let status = node.status();
    // Metrics are taken anew after a tenth of a second.
    std::thread::sleep(Duration::from_millis(120));
    let after = node.scrape();
    assert_eq!(after.tenant("holds_total"), 3.0);
    assert_eq!(after.tenant("retired_commands_total"), 7.0);
    assert_eq!(after.tenant("past_launches_total"), 4.0);
    assert_eq!(after.tenant("processes"), 2.0);
    assert_eq!(after.tenant("in_flight_queues"), 0.0);
    for times in ["hold_to_running", "hold_to_quiet"] {
        assert_eq!(after.tenant(&format!("{times}_seconds_count")), 3.0, "{times}");
        assert!(after.tenant(&format!("{times}_seconds_sum")) > 0.0, "{times}");
    }
    // Those of the urgent process, and the first of the other.
    assert_eq!(after.tenant("wait_seconds_count"), 4.0);
    let of = |status: &Status, name: &str| {
        status.clients.iter().find(|client| client.name == name).cloned().expect("it")
    };
    let (known, labels) = (of(&status, "batch"), [("program", "batch"), ("gpu", GPU)]);
    let process = |what: &str| after.one(&format!("xsched_process_{what}"), &labels);
    assert_eq!(process("holds_total"), known.holds as f64);
    assert_eq!(process("waits_total"), known.waits as f64);
    assert!((process("device_seconds_total") - known.device_ms as f64 / 1e3).abs() < 1e-9);
    assert!(after.tenant("device_seconds_total") * 1e3 >= known.device_ms as f64);
    drop((batch, urgent));
    node.until("they stay", |status| status.clients.is_empty());
    std::thread::sleep(Duration::from_millis(120));
    let last = node.scrape();
    // What was counted stays; what is there now has gone.
    assert_eq!((last.tenant("holds_total"), last.tenant("processes")), (3.0, 0.0));
    assert_eq!(last.all("xsched_process_holds_total", &[]), [0.0; 0]);
}

#[test]
fn what_a_process_did_stays_with_the_tenant_that_it_had() {
    let node = Node::new(METRICS, None);
    let process = node.process("one", 0);
    process.unit.note_retired(5, 1_000);
    let text = "[[tenant]]\nname = \"other\"\n";
    let metrics = format!("[metrics]\nlisten = \"unix:{}\"\n", node.path("metrics").display());
    fs::write(node.path("xschedd.toml"), format!("{metrics}{text}")).expect("a file");
    node.daemon.reload().expect("it is read");
    node.until("the tenant stays", |status| status.clients[0].tenant == "other");
    process.unit.note_retired(2, 1_000);
    let scraped = node.scrape();
    let of = |name| scraped.one("xsched_tenant_retired_commands_total", &[("tenant", name)]);
    assert_eq!((of("default"), of("other")), (5.0, 2.0));
}

#[test]
fn metrics_have_the_name_of_a_grant() {
    let node = Node::new(METRICS, None);
    let process = node.process("one", 0);
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let (name, to, priority) = ("job 24".to_owned(), Grantee::Pid(pid), 7);
    let grant = Grant { name, to, priority, priority_max: 7, share: None, gang: None };
    node.wire().ask(&Request::Grant(grant), None).expect("granted");
    node.until("the grant counts", |status| status.clients[0].tenant == "job 24");
    process.unit.note_retired(2, 1_000);
    let scraped = node.scrape();
    let retired = "xsched_tenant_retired_commands_total";
    assert_eq!(scraped.one(retired, &[("tenant", "job 24")]), 2.0);
    assert_eq!(scraped.all("xsched_process_holds_total", &[("tenant", "job 24")]).len(), 1);
}

#[test]
fn metrics_are_off_until_the_file_says_where() {
    let node = Node::new("", None);
    let write = |text: &str| fs::write(node.path("xschedd.toml"), text).expect("a file");
    assert!(!node.path("metrics").exists());
    // Another process may take the port before the daemon does.
    let port = (0..10).find_map(|_| {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        write(&format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n"));
        node.daemon.reload().ok().map(|()| port)
    });
    let connect = || TcpStream::connect(("127.0.0.1", port.expect("a port")));
    let ask = |request: &str| ask(connect().expect("a connection"), request).0;
    assert!(ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").contains(" 200 "));
    assert!(ask("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n").contains(" 421 "));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").contains(" 405 "));
    // Connections that say nothing hinder no other.
    let silent: Vec<_> = (0..40).map(|_| connect().expect("a connection")).collect();
    assert!(ask("GET /metrics HTTP/1.1\r\n\r\n").contains(" 200 "));
    drop(silent);
    // It cannot listen there: nothing of the file counts.
    write("[metrics]\nlisten = \"unix:/nowhere/metrics\"\n[[tenant]]\nname = \"other\"\n");
    let why = node.daemon.reload().expect_err("no such folder");
    assert!(why.contains("scrapes"), "{why}");
    assert!(ask("GET /metrics HTTP/1.1\r\n\r\n").contains(" 200 "));
    write("# none");
    node.daemon.reload().expect("it is read");
    assert!(connect().is_err());
}

/// A driver that lists this process and another one, which use a GPU all the time.
struct Busy;

impl Lister for Busy {
    fn look(&mut self) -> Seen {
        let process =
            |pid, permille| Process { pid, device: GPU.to_owned(), permille: Some(permille) };
        Seen {
            gpus: [(GPU.to_owned(), "H200".to_owned())].into(),
            processes: vec![process(std::process::id(), 900), process(9, 100)],
            unknown: vec!["half of it".to_owned()],
        }
    }
}

#[test]
fn a_process_that_uses_more_than_it_reports_gets_a_lower_class() {
    let text = format!("{METRICS}[[tenant]]\nname = \"rest\"\nunreported = \"lower\"\n");
    let node = Node::new(&text, Some(|| drivers(Busy)));
    let process = node.process("more", 50);
    node.until("it is not listed", |status| status.clients[0].driver_permille.is_some());
    // While it is alone, nothing of it is measured.
    assert_eq!(node.status().clients[0].state, "alone");
    let second = node.process("second", 50);
    node.until("it is not lowered", |status| status.clients[0].is_lowered);
    let status = node.status();
    let client = &status.clients[0];
    assert_eq!((client.is_understated, client.driver_permille), (true, Some(900)));
    assert_eq!(client.priority, -100);
    // That counts also against changes by hand.
    let pid = i32::try_from(std::process::id()).expect("a number");
    let set = Request::Set { pid, priority: Some(60), share: None, active: None };
    node.wire().ask(&set, None).expect("it is done");
    assert_eq!(node.status().clients[0].priority, -100);
    let [outsider] = &status.outsiders[..] else { panic!("{status:?}") };
    assert_eq!((outsider.pid, &*outsider.name, &*outsider.tenant), (9, "past", "rest"));
    assert_eq!(status.outsiders_unknown, ["half of it"]);
    assert_eq!(status.gpus[0].name, "H200");
    let scraped = node.scrape();
    let of = |name: &str| scraped.one(name, &[("gpu", GPU)]);
    assert_eq!(of("xsched_gpu_unscheduled_processes"), 1.0);
    assert_eq!(of("xsched_unscheduled_process_driver_share_ratio"), 0.1);
    let of = |name: &str| scraped.one(name, &[("program", "more")]);
    assert_eq!((of("xsched_process_understated"), of("xsched_process_lowered")), (1.0, 1.0));
    assert_eq!(of("xsched_process_alone"), 0.0);
    // The second has the same number.
    assert_eq!(scraped.one("xsched_understated_processes", &[]), 2.0);
    assert_eq!(scraped.one("xsched_unscheduled_unknown", &[]), 1.0);
    // The file says otherwise from now on, and then that no driver is asked.
    let write = |text: &str| fs::write(node.path("xschedd.toml"), text).expect("a file");
    write("[[tenant]]\nname = \"rest\"\n");
    node.daemon.reload().expect("it is read");
    let client = node.status().clients[0].clone();
    assert_eq!((client.is_lowered, client.priority), (false, 60));
    write("[watch]\ndrivers = false\n[[tenant]]\nname = \"rest\"\n");
    node.daemon.reload().expect("it is read");
    let status = node.status();
    assert_eq!((status.outsiders.len(), status.clients[0].driver_permille), (0, None));
    drop((process, second));
}

#[test]
fn the_status_of_a_thousand_processes_is_whole() {
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.maximum.map_or(16_384, |maximum| maximum.min(16_384));
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(enough), ..limit })
        .expect("more file descriptors");
    let node = Node::new("", None);
    let wires: Vec<_> = (0..1_000)
        .map(|number| {
            let wire = node.wire();
            let name = format!("p{number}");
            let hello =
                Request::Hello { version: VERSION, name, priority: 0, share: None, gang: None };
            wire.ask(&hello, None).expect("a welcome");
            wire
        })
        .collect();
    let pid = i32::try_from(std::process::id()).expect("a number");
    let set = Request::Set { pid, priority: Some(7), share: Some(30), active: None };
    node.wire().ask(&set, None).expect("it is done");
    let status = node.status();
    let names: BTreeSet<_> = status.clients.iter().map(|client| client.name.clone()).collect();
    assert_eq!((status.clients.len(), names.len()), (1_000, 1_000));
    assert_eq!(status.changed.len(), 2_000);
    assert_eq!((status.next, status.policy.as_str()), (None, "hpf"));
    // It takes several messages.
    let first = node.wire().ask(&Request::Status, None).expect("an answer").0;
    let xsched_node::Answer::Status(first) = first else { panic!("{first:?}") };
    assert!(first.next.is_some() && first.clients.len() < 200, "{}", first.clients.len());
    drop(wires);
}

/// The text without the version.
fn example() -> String {
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    metrics::example().replace(&version, "version=\"VERSION\"")
}

/// The file is what the tests of the Python package read by Prometheus' own parser.
#[test]
fn the_example_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metrics.txt");
    if std::env::var_os("XSCHED_WRITE_EXAMPLE").is_some() {
        fs::write(&path, example()).expect("a file");
    }
    let text = fs::read_to_string(&path).expect("the file");
    assert!(text == example(), "run this test with XSCHED_WRITE_EXAMPLE=1, and look at the change");
}

/// The names in a query of series, which all begin alike.
fn series(query: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    query.split(|c| !is_part(c)).filter(|word| word.starts_with("xsched_")).collect()
}

#[test]
fn queries_of_the_dashboard_name_series_that_exist() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana.json");
    let text = fs::read_to_string(path).expect("the file");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let strings = |list: &serde_json::Value, pointer: &str| -> Vec<String> {
        let all = list.as_array().expect("a list").iter();
        all.filter_map(|one| one.pointer(pointer)?.as_str().map(str::to_owned)).collect()
    };
    let mut queries = strings(&dashboard["templating"]["list"], "/query/query");
    assert_eq!(queries.len(), 3);
    let panels = dashboard["panels"].as_array().expect("panels");
    for panel in panels {
        let of_panel = strings(&panel["targets"], "/expr");
        assert!(!of_panel.is_empty(), "{panel}");
        queries.extend(of_panel);
    }
    let example = example();
    let exists = |name: &str| {
        example.lines().any(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        })
    };
    assert!(exists("xsched_tenant_wait_seconds_bucket") && !exists("xsched_tenant_wait"));
    for query in &queries {
        let names = series(query);
        assert!(!names.is_empty(), "{query}");
        for name in names {
            assert!(exists(name), "{name} in {query}");
        }
    }
}
