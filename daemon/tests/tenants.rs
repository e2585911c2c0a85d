//! Limits of tenants over the socket, and configurations that change while the daemon runs.

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use xsched_daemon::config::Source;
use xsched_daemon::{Daemon, Settings};
use xsched_node::{
    Answer, Changed, ClientStatus, Link, NodeError, PageSource, Request, SharedPage, Status,
    VERSION, Wire,
};

const PATIENCE: Duration = Duration::from_secs(5);

struct Node {
    daemon: Daemon,
    socket: PathBuf,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Node {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, file) = (folder.path().join("socket"), folder.path().join("xschedd.toml"));
        fs::write(&file, text).expect("a file");
        let source = Source { file: Some(file.clone()), ..Source::default() };
        let config = source.read().expect("a configuration");
        let policy = config.policy.name.parse().expect("a policy");
        let settings = Settings { socket: socket.clone(), policy, is_open: false };
        let daemon = Daemon::start_with_config(&settings, config, source).expect("a daemon");
        Self { daemon, socket, file, _folder: folder }
    }

    fn ask(&self, request: &Request) -> Result<Answer, String> {
        let wire = Wire::connect(&self.socket, PATIENCE).expect("a connection");
        wire.ask(request, None).map(|(answer, _)| answer).map_err(why)
    }

    fn greet(&self, priority: i32, share: Option<u8>) -> Result<(Wire, Answer), String> {
        let wire = Wire::connect(&self.socket, PATIENCE).expect("a connection");
        let name = format!("p{priority}");
        let hello = Request::Hello { version: VERSION, name, priority, share, gang: None };
        let answer = wire.ask(&hello, None).map_err(why)?.0;
        Ok((wire, answer))
    }

    fn status(&self) -> Status {
        match self.ask(&Request::Status).expect("an answer") {
            Answer::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// Has the file have another text, and be read again.
    fn reload(&self, text: &str) -> Result<(), String> {
        fs::write(&self.file, text).expect("a file");
        self.daemon.reload()
    }

    fn shares(&self) -> Vec<Option<u8>> {
        self.status().clients.iter().map(|client| client.share).collect()
    }
}

fn why(error: NodeError) -> String {
    match error {
        NodeError::Refused(why) => why,
        other => panic!("{other}"),
    }
}

fn pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn set(priority: Option<i32>, share: Option<u8>) -> Request {
    Request::Set { pid: pid(), priority, share, active: None }
}

fn attach(wire: &Wire, device: &str) -> Result<(), String> {
    let page = SharedPage::create().expect("a page");
    let request = Request::Attach { device: device.to_owned(), side_by_side: false };
    wire.ask(&request, Some(page.as_fd())).map(drop).map_err(why)
}

/// The rest has these keys.
fn rest(keys: &str) -> String {
    format!("[[tenant]]\nname = \"rest\"\n{keys}\n")
}

fn lowered(priority: i32, share: Option<u8>) -> Answer {
    Answer::Lowered { tenant: "rest".to_owned(), priority, share }
}

#[test]
fn a_process_gets_no_more_than_its_tenant_may_have_and_is_told() {
    let node = Node::new(&rest("priority_max = 10\nshare_max = 40"));
    let (high, answer) = node.greet(50, Some(90)).expect("a welcome");
    assert_eq!(answer, lowered(10, Some(40)));
    let (_low, answer) = node.greet(-5, None).expect("a welcome");
    assert_eq!(answer, Answer::Welcome { version: VERSION });
    let of = |status: &Status| -> Vec<_> {
        status.clients.iter().map(|c| (c.priority, c.share, c.tenant.clone())).collect()
    };
    let (mut rows, tenant) = (of(&node.status()), "rest".to_owned());
    rows.sort_unstable();
    assert_eq!(rows, [(-5, None, tenant.clone()), (10, Some(40), tenant)]);
    let hints = |priority, share| {
        high.ask(&Request::Hints { priority, share }, None).map(|(answer, _)| answer).map_err(why)
    };
    assert_eq!(hints(5, Some(30)), Ok(Answer::Done));
    assert_eq!(hints(11, Some(30)), Ok(lowered(10, Some(30))));
}

#[test]
fn a_link_takes_less_than_it_asked_for() {
    let node = Node::new(&rest("priority_max = 10"));
    let link = Link::open(node.socket.clone(), "link", 50, None).expect("a link");
    let unit = link.unit("gpu".to_owned());
    unit.page().expect("a page");
    link.set_hints(60, None);
    let clients = node.status().clients;
    assert_eq!(clients.len(), 1);
    assert_eq!((clients[0].priority, &*clients[0].device), (10, "gpu"));
}

#[test]
fn what_a_process_does_not_ask_for_is_its_tenants() {
    let node = Node::new(&rest("class = \"batch\"\nshare = 20"));
    let (_wire, answer) = node.greet(0, None).expect("a welcome");
    assert_eq!(answer, Answer::Welcome { version: VERSION });
    let client = &node.status().clients[0];
    assert_eq!((client.priority, client.share), (-100, Some(20)));
    assert_eq!(node.status().changed, []);
}

#[test]
fn what_is_set_by_hand_is_refused_above_the_limit_and_stays_otherwise() {
    let node = Node::new(&rest("priority_max = 10\nshare_max = 40"));
    let (wire, _) = node.greet(5, None).expect("a welcome");
    for (request, part) in [
        (set(Some(11), None), "priority of 11 is above 10, the highest of tenant `rest`"),
        (set(Some(1), Some(41)), "share of 41 is above 40"),
    ] {
        let why = node.ask(&request).expect_err("refused");
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(node.status().changed, []);
    assert_eq!(node.ask(&set(Some(7), Some(30))), Ok(Answer::Done));
    // A process may ask for something else, and then that is what it would be otherwise.
    wire.ask(&Request::Hints { priority: 3, share: Some(30) }, None).expect("taken");
    let status = node.status();
    assert_eq!((status.clients[0].priority, status.clients[0].share), (7, Some(30)));
    assert_eq!(status.changed.len(), 1, "{:?}", status.changed);
    let changed = Changed { at_unix_ms: 0, ..status.changed[0].clone() };
    let uid = rustix::process::geteuid().as_raw();
    let (what, file, live) = ("priority".to_owned(), "3".to_owned(), "7".to_owned());
    assert_eq!(changed, Changed { what, pid: Some(pid()), file, live, uid, at_unix_ms: 0 });
    assert_eq!(node.ask(&Request::Reset { pid: pid() }), Ok(Answer::Done));
    let status = node.status();
    assert_eq!((status.clients[0].priority, status.changed), (3, vec![]));
    assert_eq!(node.ask(&Request::Hold { pid: pid() }), Ok(Answer::Done));
    assert_eq!(node.status().changed[0].what, "hold");
    assert_eq!(node.ask(&Request::Release { pid: pid() }), Ok(Answer::Done));
    assert_eq!(node.status().changed, []);
}

#[test]
fn processes_of_a_tenant_have_its_share_of_each_gpu_together() {
    let node = Node::new(&rest("share_max = 40"));
    let (one, _) = node.greet(1, Some(30)).expect("a welcome");
    let (two, _) = node.greet(2, Some(30)).expect("a welcome");
    attach(&one, "a").expect("a page");
    attach(&two, "b").expect("a page");
    assert_eq!(node.shares(), [Some(30), Some(30)]);
    attach(&two, "a").expect("a page");
    // On `a` both, and on `b` one.
    let on = |status: &Status, device: &str| -> Vec<_> {
        let is_on = |client: &&ClientStatus| client.device == device;
        status.clients.iter().filter(is_on).map(|client| client.share).collect()
    };
    // The scheduler divides a tenant's share after it has answered.
    let until = |expected: &[Option<u8>], shares: &dyn Fn() -> Vec<Option<u8>>| {
        let start = std::time::Instant::now();
        while shares() != expected {
            assert!(start.elapsed() < PATIENCE, "{:?}, not {expected:?}", shares());
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    until(&[Some(20), Some(20)], &|| on(&node.status(), "a"));
    assert_eq!(on(&node.status(), "b"), [Some(30)]);
    two.ask(&Request::Hints { priority: 2, share: Some(10) }, None).expect("taken");
    until(&[Some(10), Some(30)], &|| {
        let mut shares = on(&node.status(), "a");
        shares.sort_unstable();
        shares
    });
    two.ask(&Request::Hints { priority: 2, share: Some(40) }, None).expect("taken");
    drop(one);
    until(&[Some(40), Some(40)], &|| node.shares());
}

#[test]
fn there_are_no_more_processes_and_pages_than_the_tenant_may_have() {
    let node = Node::new(&rest("clients_max = 2\nqueues_max = 64"));
    let (first, _) = node.greet(1, None).expect("a welcome");
    let (_second, _) = node.greet(2, None).expect("a welcome");
    let why = node.greet(3, None).expect_err("refused");
    assert!(why.contains("tenant `rest` has 2 processes already"), "{why}");
    // Those that ask only are not counted.
    assert_eq!(node.status().clients.len(), 2);
    assert_eq!([attach(&first, "gpu"), attach(&first, "gpu")], [Ok(()), Ok(())]);
    assert!(attach(&first, "gpu").is_err_and(|why| why.contains("at most 2 pages")));
    attach(&first, "another").expect("a page");
}

#[test]
fn a_file_is_reloaded_whole_or_not_at_all() {
    let node = Node::new(&rest("priority_max = 10"));
    let (_wire, _) = node.greet(50, None).expect("a welcome");
    assert_eq!(node.ask(&Request::Policy { name: "wfq".to_owned() }), Ok(Answer::Done));
    let of = |status: &Status| (status.clients[0].priority, status.policy.clone());
    let wrong = format!("[policy]\nname = \"up\"\nk = 3\n{}", rest("priority_max = 5"));
    let why = node.reload(&wrong).expect_err("refused");
    assert!(why.contains("xschedd.toml:3: policy `up` has no k"), "{why}");
    let why = node.ask(&Request::Reload).expect_err("refused");
    assert!(why.contains("xschedd.toml:3:") && why.contains("counts on"), "{why}");
    let moved = format!("[socket]\npath = \"/elsewhere\"\n{}", rest("priority_max = 5"));
    assert!(node.reload(&moved).is_err_and(|why| why.contains("restart")));
    let status = node.status();
    assert_eq!(of(&status), (10, "wfq".to_owned()));
    assert_eq!((&*status.changed[0].file, &*status.changed[0].live), ("hpf", "wfq"));
    // A whole one: what was changed by hand of what it says does not count any more.
    let text = format!("[policy]\nname = \"up\"\n{}", rest("priority_max = 20"));
    assert_eq!(node.reload(&text), Ok(()));
    let status = node.status();
    assert_eq!((of(&status), status.changed), ((20, "up".to_owned()), vec![]));
}

#[test]
fn limits_hold_after_a_reload_also_for_what_was_set_by_hand() {
    let node = Node::new("");
    let (wire, _) = node.greet(50, Some(80)).expect("a welcome");
    attach(&wire, "gpu").expect("a page");
    assert_eq!(node.ask(&set(Some(60), None)), Ok(Answer::Done));
    fs::write(&node.file, rest("priority_max = 10\nshare_max = 30")).expect("a file");
    assert_eq!(node.ask(&Request::Reload), Ok(Answer::Done));
    let client = &node.status().clients[0];
    assert_eq!((client.priority, client.share, &*client.tenant), (10, Some(30), "rest"));
    assert!(node.reload("# none").is_err_and(|why| why.contains("no tenants")));
    assert_eq!(node.status().clients[0].priority, 10);
    assert_eq!(node.reload(&rest("")), Ok(()));
    let client = &node.status().clients[0];
    assert_eq!((client.priority, client.share, &*client.tenant), (60, Some(80), "rest"));
}

/// Configures this process's cgroup as its tenant: by that, it is no administrator.
fn confined(keys: &str) -> String {
    let text = fs::read_to_string("/proc/self/cgroup").expect("the cgroup");
    let path = text.lines().next().and_then(|line| line.splitn(3, ':').nth(2)).expect("a path");
    let path = path.replace('[', "[[]").replace('*', "[*]").replace('?', "[?]");
    format!("[[tenant]]\nname = \"confined\"\ncgroup = '{path}'\n{keys}\n")
}

#[test]
fn one_who_is_no_administrator_changes_its_own_processes_alone() {
    let node = Node::new(&confined(""));
    let (_wire, _) = node.greet(1, None).expect("a welcome");
    assert_eq!(node.ask(&set(Some(2), None)), Ok(Answer::Done));
    assert_eq!(node.status().clients[0].tenant, "confined");
    for (request, what) in [
        (Request::Policy { name: "wfq".to_owned() }, "change the policy"),
        (Request::Reload, "have the configuration"),
        (Request::Drain { undo: false }, "drain"),
        (Request::Record { bytes_max: 1 << 20 }, "record"),
    ] {
        let why = node.ask(&request).expect_err("refused");
        assert!(why.contains("only an administrator may") && why.contains(what), "{why}");
    }
}

#[test]
fn a_daemon_that_is_drained_takes_no_new_processes_and_schedules_on() {
    let node = Node::new("");
    let (wire, _) = node.greet(1, None).expect("a welcome");
    assert_eq!(node.ask(&Request::Drain { undo: false }), Ok(Answer::Done));
    let why = node.greet(2, None).expect_err("refused");
    assert!(why.contains("no new processes until `xsched ctl drain --undo`"), "{why}");
    attach(&wire, "gpu").expect("a page");
    assert_eq!(node.ask(&set(Some(5), None)), Ok(Answer::Done));
    let status = node.status();
    assert_eq!((status.clients.len(), &*status.changed[0].what), (1, "drain"));
    assert_eq!(node.ask(&Request::Drain { undo: true }), Ok(Answer::Done));
    node.greet(2, None).expect("a welcome");
}

#[test]
fn the_socket_has_the_mode_that_the_file_says() {
    use std::os::unix::fs::PermissionsExt;
    let node = Node::new("[socket]\nmode = \"0640\"");
    let mode = || fs::metadata(&node.socket).expect("the socket").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o640);
    assert_eq!(node.reload("[socket]\nmode = \"0666\""), Ok(()));
    assert_eq!(mode(), 0o666);
    assert_eq!(node.reload("# none"), Ok(()));
    assert_eq!(mode(), 0o600);
}
