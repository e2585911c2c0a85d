//! Gangs: processes that are held and released together, over real connections.

mod node;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use node::{Node, refusal, settings, wait};
use xsched_daemon::Daemon;
use xsched_node::{Link, PageSource, Request, SharedPage, Status, Unit, VERSION};

/// A process on a GPU.
struct Process {
    _link: Arc<Link>,
    unit: Arc<Unit>,
    page: Arc<SharedPage>,
}

impl Process {
    fn new(socket: &Path, gang: Option<&str>, device: &str, priority: i32) -> Self {
        let gang = gang.map(str::to_owned);
        let link = Link::open_in(gang, socket.to_owned(), "process", priority, None);
        let link = link.expect("a link");
        let unit = link.unit(device.to_owned());
        let page = unit.page().expect("a page");
        unit.note(true);
        let working = Arc::downgrade(&unit);
        // One that ends nothing holds no other for long.
        thread::spawn(move || {
            while let Some(unit) = working.upgrade() {
                unit.note_retired(1, 0);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { _link: link, unit, page }
    }

    fn is_open(&self) -> bool {
        !self.page.is_closed(0)
    }
}

/// A gang on two GPUs, and one that is less urgent on the second.
fn job(socket: &Path) -> [Process; 3] {
    let [one, two] = ["a", "b"].map(|gpu| Process::new(socket, Some("job 7"), gpu, 0));
    let batch = Process::new(socket, None, "b", -100);
    let is_held = || one.is_open() && two.is_open() && !batch.is_open();
    wait("the gang does not run", is_held);
    [one, two, batch]
}

fn gangs(status: &Status) -> usize {
    status.clients.iter().filter(|client| client.gang.as_deref() == Some("job 7")).count()
}

#[test]
fn a_gang_is_held_and_released_together_and_its_gpu_goes_to_others_meanwhile() {
    let node = Node::new();
    let [one, two, batch] = job(&node.socket);
    node.until("the gang is not shown", |status| gangs(status) == 2);
    let urgent = Process::new(&node.socket, None, "a", 100);
    wait("a member runs on", || !one.is_open() && !two.is_open() && urgent.is_open());
    wait("the other GPU is idle", || batch.is_open());
    // It stays so.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(150) {
        assert!(!one.is_open() && !two.is_open() && batch.is_open());
        thread::sleep(Duration::from_millis(1));
    }
    urgent.unit.note(false);
    wait("the gang does not go on", || one.is_open() && two.is_open() && !batch.is_open());
    // A member without work is not waited for.
    one.unit.note(false);
    urgent.unit.note(true);
    wait("a GPU is not given away", || !one.is_open() && two.is_open());
    one.unit.note(true);
    wait("a member runs alone", || !two.is_open());
}

#[test]
fn a_member_that_leaves_is_no_member_any_more() {
    let node = Node::new();
    let [one, two, batch] = job(&node.socket);
    let _urgent = Process::new(&node.socket, None, "a", 100);
    wait("a member runs on", || !one.is_open() && !two.is_open() && batch.is_open());
    drop(one);
    wait("it waits for one that has left", || two.is_open() && !batch.is_open());
    node.until("it is still shown", |status| gangs(status) == 1);
}

#[test]
fn a_gang_is_a_gang_again_under_the_next_daemon() {
    let mut node = Node::new();
    let [one, two, batch] = job(&node.socket);
    let urgent = Process::new(&node.socket, None, "a", 100);
    wait("a member runs on", || !one.is_open() && !two.is_open() && batch.is_open());
    drop(node.daemon.take());
    wait("a hold outlives the daemon", || one.is_open() && two.is_open());
    node.daemon = Some(Daemon::start(&settings(&node.socket)).expect("a daemon"));
    node.until("they do not come back", |status| status.clients.len() == 4);
    wait("a member runs on", || !one.is_open() && !two.is_open() && batch.is_open());
    urgent.unit.note(false);
    wait("the gang does not go on", || one.is_open() && two.is_open() && !batch.is_open());
}

#[test]
fn names_that_are_no_text_are_refused() {
    let node = Node::new();
    for gang in [String::new(), "a\u{1b}[2J".to_owned(), "x".repeat(65)] {
        let name = "hostile".to_owned();
        let gang = Some(gang);
        let hello = Request::Hello { version: VERSION, name, priority: 0, share: None, gang };
        let why = refusal(node.connect().ask(&hello, None));
        assert!(why.contains("1 to 64 characters"), "{why}");
    }
}
