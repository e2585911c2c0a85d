//! What the thread of the connections asks of the scheduler's.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::event::{EventfdFlags, eventfd};
use xsched_core::hint::{Hints, Priority};
use xsched_hal_stream::SharedPage;
use xsched_node::Status;
use xsched_policies::Any;

use super::unit::Client;

/// What the thread of the connections asks for.
#[derive(Debug)]
pub(crate) enum Op {
    /// A process is there.
    Join(u64, Client),
    /// It has handed a page over. Why it is not taken is answered.
    Page { client: u64, device: String, page: SharedPage, answer: Sender<Result<(), String>> },
    /// It has left.
    Leave(u64),
    /// Another policy.
    Policy(Box<Any>),
    /// New hints for the processes with this number, of this user unless there is none.
    Set { pid: i32, uid: Option<u32>, change: Change, answer: Sender<usize> },
    /// New hints for a connection.
    Hints { client: u64, hints: Hints },
    /// What a user may see; everything if there is none.
    Status { uid: Option<u32>, answer: Sender<Status> },
    /// The thread ends.
    End,
}

/// What is changed of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) priority: Option<Priority>,
    pub(crate) share: Option<u8>,
    pub(crate) active: Option<bool>,
    pub(crate) hold: Option<bool>,
}

impl Change {
    pub(crate) fn of_hold(hold: bool) -> Self {
        Self { hold: Some(hold), ..Self::default() }
    }

    /// Makes the change, but for the hold's effect on gates.
    pub(crate) fn apply(self, client: &mut Client) {
        let hints = &mut client.hints;
        hints.priority = self.priority.unwrap_or(hints.priority);
        hints.utilization = self.share.or(hints.utilization);
        hints.active_window = self.active.unwrap_or(hints.active_window);
        client.by_hand = self.hold.unwrap_or(client.by_hand);
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
