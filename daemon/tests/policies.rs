//! Policies whose hints processes do not tell the daemon do what its warnings say.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xsched_daemon::config::{Config, missing_hint};
use xsched_node::{Link, PageSource, Request, SharedPage, Unit};
use xsched_policies::Any;

mod node;
use node::{Node, wait};

/// Time in which turns would have been taken.
const LOOK: Duration = Duration::from_millis(200);

/// A process that always has work, and retires nothing.
struct Busy {
    _link: Arc<Link>,
    unit: Arc<Unit>,
    page: Arc<SharedPage>,
}

impl Busy {
    fn new(socket: &Path, priority: i32) -> Self {
        let link = Link::open(socket.to_owned(), "busy", priority, None).expect("a link");
        let unit = link.unit("gpu".to_owned());
        let page = unit.page().expect("a page");
        unit.note(true);
        Self { _link: link, unit, page }
    }

    fn is_held(&self) -> bool {
        self.page.is_closed(0)
    }
}

/// A daemon with this policy that lets a process hold others however long it retires nothing, and
/// the policy's warning.
fn daemon(policy: &str) -> (Node, String) {
    let text = "[policy]\nname = \"hpf\"\nstall_ms = 0\n";
    let node = Node::configured(Config::parse(text, Path::new("test.toml")).expect("it is right"));
    let request = Request::Policy { name: policy.to_owned() };
    node.connect().ask(&request, None).expect("an administrator's");
    let policy = policy.parse::<Any>().expect("a policy");
    (node, missing_hint(&policy).expect("a warning"))
}

/// Fails if this changes.
fn stays(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while start.elapsed() < LOOK {
        assert!(is_so());
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn without_deadlines_one_of_two_equals_runs_until_it_has_no_more_work() {
    for policy in ["edf", "strict_edf", "strict_kedf"] {
        let (node, warning) = daemon(policy);
        assert!(warning.contains("run until they have no more work"), "{warning}");
        let first = Busy::new(&node.socket, 7);
        let second = Busy::new(&node.socket, 7);
        wait("the second is not held", || second.is_held());
        stays(|| second.is_held() && !first.is_held());
        first.unit.note(false);
        wait("the second does not run", || !second.is_held());
    }
}

#[test]
fn without_the_priorities_of_their_threads_no_process_is_held() {
    let (node, warning) = daemon("chpf");
    assert!(warning.contains("no process is held"), "{warning}");
    let [urgent, batch] = [200, -200].map(|priority| Busy::new(&node.socket, priority));
    node.until("they do not connect", |status| status.clients.len() == 2);
    stays(|| !urgent.is_held() && !batch.is_held());
}

#[test]
fn without_laxities_priorities_alone_count() {
    let (node, warning) = daemon("lax");
    assert!(warning.contains("priorities alone count"), "{warning}");
    let batch = Busy::new(&node.socket, -200);
    let [one, other] = [200; 2].map(|priority| Busy::new(&node.socket, priority));
    wait("the batch process is not held", || batch.is_held());
    stays(|| batch.is_held() && !one.is_held() && !other.is_held());
}
