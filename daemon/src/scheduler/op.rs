//! What the thread of the connections asks of the scheduler's.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::event::{EventfdFlags, eventfd};
use xsched_core::hint::{Hints, PolicyHint, Priority};
use xsched_core::time::Duration as Span;
use xsched_hal_stream::SharedPage;
use xsched_node::Place;
use xsched_policies::Any;

use super::figures::Figures;
use super::record::Tape;
use super::status::Part;
use super::tenancy::By;
use super::unit::Client;
use crate::liveness::Summary;
use crate::tenant::{Asker, Tenant};

/// What the thread of the connections asks for.
#[derive(Debug)]
pub(crate) enum Op {
    /// A process is there.
    Join(u64, Client),
    /// It has handed a page over. Why it is not taken is answered.
    Page {
        client: u64,
        device: String,
        side_by_side: bool,
        page: SharedPage,
        answer: Sender<Result<(), String>>,
    },
    /// It has left.
    Leave(u64),
    /// Another policy, and hints for it.
    Policy(Box<Any>, Vec<PolicyHint>),
    /// A change of the processes with this number that the asker may change.
    Set { pid: i32, asker: Asker, change: Change, answer: Sender<Result<usize, String>> },
    /// The tenants of connections.
    Configure(Vec<(u64, Arc<Tenant>)>),
    /// New hints for a connection.
    Hints { client: u64, hints: Hints, answer: Sender<()> },
    /// What the asker may see, from a place on.
    Status { asker: Asker, from: Option<Place>, answer: Sender<Part> },
    /// What metrics say.
    Figures { answer: Sender<Box<Figures>> },
    /// Metrics are wanted from now on, or no longer.
    Measure(bool),
    /// For how long the thread looks for events again at once after one, at most.
    Spin(Span),
    /// Whether the next priority runs beside processes that are bound by their hosts.
    FillPauses(bool),
    /// Which processes there are, on which GPUs.
    Known { answer: Sender<Vec<Known>> },
    /// The processes that use clearly more of a GPU than they report, by their numbers.
    Understated(Vec<i32>),
    /// What the daemon says of itself in short.
    Check { answer: Sender<Summary> },
    /// Begins a record for a connection; answers whether there was none.
    Record { client: u64, tape: Tape, answer: Sender<bool> },
    /// Ends the record of a connection, if it has one.
    EndRecord(u64),
    /// The thread ends.
    End,
}

/// A process on a GPU, as far as it matters for what runs past the daemon.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) pid: i32,
    /// Empty if it has no GPU yet.
    pub(crate) device: String,
    /// The share that it got over the last second, as it reports: 0 to 1000.
    pub(crate) got_permille: u32,
    /// It is alone on its GPU, and what it uses is not measured.
    pub(crate) is_alone: bool,
    pub(crate) tenant: Arc<Tenant>,
}

/// What is changed of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) priority: Option<Priority>,
    pub(crate) share: Option<u8>,
    pub(crate) active: Option<bool>,
    pub(crate) hold: Option<bool>,
    /// What was changed before, but for holds, does not count any more.
    pub(crate) is_reset: bool,
    /// Whose change it is.
    pub(crate) by: By,
}

impl Change {
    pub(crate) fn of_hold(hold: bool, by: By) -> Self {
        Self { hold: Some(hold), by, ..Self::default() }
    }
}

/// The hints of a process.
pub(crate) fn hints(priority: Priority, share: Option<u8>) -> Hints {
    let mut hints = Hints::with_priority(priority);
    hints.utilization = share.map(|share| share.min(100));
    hints
}

/// Wakes the thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker(pub(super) Arc<OwnedFd>);

impl Waker {
    pub(crate) fn wake(&self) {
        // It is full only if the thread is about to wake.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// An eventfd that never blocks.
pub(crate) fn new_eventfd() -> rustix::io::Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}
