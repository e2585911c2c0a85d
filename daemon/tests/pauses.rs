//! A process that works in steps with short pauses in between.

use std::thread;
use std::time::{Duration, Instant};

use xsched_node::{Link, PageSource};

mod node;
use node::{Node, wait};

/// The daemon would look at all processes once a second.
const SOON: Duration = Duration::from_millis(500);

#[test]
fn others_are_let_run_once_a_pause_is_longer_than_those_before() {
    let node = Node::new();
    let link = |name, priority| Link::open(node.socket.clone(), name, priority, None);
    let batch = link("batch", -100).expect("a link").unit("gpu".to_owned());
    let page = batch.page().expect("a page");
    let is_held = || page.is_closed(0);
    batch.note(true);
    let urgent = link("urgent", 100).expect("a link").unit("gpu".to_owned());
    let _own = urgent.page().expect("a page");
    for round in 0..5 {
        for _ in 0..4 {
            urgent.note(true);
            wait("the urgent process is not preferred", is_held);
            thread::sleep(Duration::from_millis(4));
            urgent.note(false);
            thread::sleep(Duration::from_micros(200));
        }
        let begin = Instant::now();
        wait("a hold does not end", || !is_held());
        assert!(begin.elapsed() < SOON, "round {round}: {:?} later", begin.elapsed());
    }
}
