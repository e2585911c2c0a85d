//! Active window first. Defects: all devices count as one, and a process stays the active one after
//! its end, for the queue that gets its number next.

use xsched_core::id::{ProcessId, QueueId};
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;

use super::{Algorithm, HOLD, RUN};

#[derive(Debug, Default)]
pub(crate) struct Awf {
    /// The process of the active window; there is one display.
    active: Option<ProcessId>,
}

impl Algorithm for Awf {
    const NAME: &'static str = "awf";

    fn observe(&mut self, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        if let (Event::Attached | Event::Hinted, Some(info)) = (event, queues.get(queue))
            && info.hints.active_window
        {
            self.active = Some(info.process);
        }
    }

    fn decide(&mut self, _: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        let works = queues.iter().any(|queue| queue.ready && Some(queue.process) == self.active);
        for queue in queues.iter() {
            let runs = !works || Some(queue.process) == self.active;
            out.set(queue.id, if runs { RUN } else { HOLD });
        }
    }
}
