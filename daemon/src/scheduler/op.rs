//! Requests of the thread of the connections to the scheduler's.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use xsched_core::hint::{Hints, PolicyHint, Priority};
use xsched_core::time::Duration as Span;
use xsched_node::entity::Trial;
use xsched_node::{Entry, Place, SharedPage, Status};
use xsched_policies::Any;

use super::client::Client;
use super::figures::Figures;
use super::record::Tape;
use super::rights::Change;
use crate::liveness::Summary;
use crate::tenant::{Asker, Tenant};

/// Request of the thread of the connections.
#[derive(Debug)]
pub(crate) enum Op {
    /// A process is there.
    Join(u64, Client),
    /// A process has handed a page over. Why it is not taken is answered.
    Page { client: u64, gpu: Gpu, page: SharedPage, answer: Sender<Result<(), String>> },
    /// The page at this place of those that a connection may hold directly on a GPU, with their
    /// generation, if there are as many.
    PageBelow { client: u64, device: String, at: usize, answer: Sender<Option<(u32, OwnedFd)>> },
    /// A process has left.
    Leave(u64),
    /// Another policy, and hints for it.
    Policy(Box<Any>, Vec<PolicyHint>),
    /// A change of the processes with this number that the asker may change.
    Set { pid: i32, asker: Asker, change: Change, answer: Sender<Result<usize, String>> },
    /// The tenants of connections.
    Configure(Vec<(u64, Arc<Tenant>)>),
    /// A tenant of this name is no more: what was counted of its processes is forgotten.
    Forget(String),
    /// New hints for a connection. Those that it has by then are answered.
    Hints { client: u64, hints: Hints, answer: Sender<Hints> },
    /// Status from a place on, as far as the asker may see it.
    Status { asker: Asker, from: Option<Place>, answer: Sender<Part> },
    /// Figures of metrics.
    Figures { answer: Sender<Box<Figures>> },
    /// Metrics are wanted from now on, or no longer.
    Measure(bool),
    /// Other settings.
    Tune(Tuning),
    /// Processes there are, and on which GPUs.
    Known { answer: Sender<Vec<Known>> },
    /// The processes that use clearly more of a GPU than they report, by their numbers.
    Understated(Vec<i32>),
    /// State of the daemon in short.
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
    /// True if the process is alone on its GPU, and what it uses is not measured.
    pub(crate) is_alone: bool,
    pub(crate) tenant: Arc<Tenant>,
}

/// The hints of a process.
pub(crate) fn hints(priority: Priority, share: Option<u8>) -> Hints {
    let mut hints = Hints::with_priority(priority);
    hints.utilization = share.map(|share| share.min(100));
    hints
}

/// A GPU, as a process describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    /// The GPU runs what several processes launch at the same time.
    pub(crate) is_concurrent: bool,
}

/// Holder of those below a process that gets work, until the daemon has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstHold {
    /// The process holds those of its user and tenant by itself, within microseconds.
    #[default]
    Process,
    /// The process waits until the daemon holds them, which may have to wake.
    Daemon,
}

/// Settings of the scheduler's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// Time for which the thread polls for events after one, at most.
    pub(crate) spin: Span,
    /// Part of a processor for that, in percent.
    pub(crate) spin_percent: u8,
    /// How lower priorities are tried beside processes that are bound by their hosts; `None` if
    /// they never run there.
    pub(crate) fill_pauses: Option<Trial>,
    /// Time for which a gang claims GPUs while it waits for others.
    pub(crate) gang_claim: Span,
    /// Holder of those below a process that gets work.
    pub(crate) first_hold: FirstHold,
}

/// Part of a status: its head, and entries from which to fill it.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) head: Status,
    /// Numbers in `head` of GPUs on which the asker sees processes.
    pub(crate) seen: Vec<usize>,
    pub(crate) entries: Vec<Entry>,
    /// Where it goes on.
    pub(crate) next: Option<Place>,
}
