//! Programs in C that the scheduler of a node may hold, beside others that have no work.

mod common;

use std::path::Path;
use std::sync::Arc;

use xsched_daemon::{Daemon, Settings};
use xsched_node::{Link, PageSource, Unit};

use common::{check, emulated};

/// The emulated GPU's name among processes: its PCI id.
const DEVICE: &str = "0000:01:00";
const NEIGHBOURS: usize = 4;

/// A scheduler of the node, and processes of a higher priority on the emulated GPU.
struct Node {
    _daemon: Daemon,
    _neighbours: Vec<Arc<Unit>>,
}

impl Node {
    fn start(socket: &Path) -> Self {
        let policy = "hpf".parse().expect("a policy");
        let settings = Settings { socket: socket.to_owned(), policy, is_open: false };
        let daemon = Daemon::start(&settings).expect("a daemon");
        let neighbours = (0..NEIGHBOURS).map(|_| {
            let link = Link::open(socket.to_owned(), "neighbour", 50, None).expect("a link");
            let unit = link.unit(DEVICE.to_owned());
            let _ = unit.page().expect("a page");
            unit
        });
        Self { _neighbours: neighbours.collect(), _daemon: daemon }
    }
}

/// Runs the program in this mode, with these variables.
fn checked(mode: &str, variables: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let _node = Node::start(&socket);
    let mut command = emulated::scheduled("ready", mode);
    command.env("XSCHED_SCHEDULER", "GLB").env("XSCHED_SOCKET", &socket);
    check(command.envs(variables.iter().copied()), mode);
}

#[test]
fn a_step_of_a_training_asks_hardly_more_of_the_driver() {
    // Without gates, which are the nearer the shorter ago the process has begun.
    checked("training", &[("XSCHED_GATE_SPACING_US", "1000000")]);
}

#[test]
fn a_stream_says_how_far_it_is_behind_gates_alone() {
    checked("numbers", &[("XSCHED_GATE_SPACING_US", "1")]);
}
