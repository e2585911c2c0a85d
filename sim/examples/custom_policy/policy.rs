//! A policy of one's own: on each device the ready queues take turns, each for a slice of device
//! time. Who has used the fewest slices goes first.

use xsched_core::hint::Priority;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy, Urgency, Verdict};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

/// Its slice of device time.
pub(crate) struct TakeTurns(pub(crate) Duration);

fn wants(queue: &&QueueInfo) -> bool {
    queue.ready && queue.hints.priority != Priority::NO_EXECUTE
}

#[rustfmt::skip] // One line for each method's head.
impl Policy for TakeTurns {
    fn name(&self) -> &'static str { "take-turns" }

    // How often queues shall report the device time that they have used.
    fn progress_every(&self) -> Option<Duration> { Some(self.0.per(4)) }

    // What happened. The table keeps a few words per queue for us: the first is the time used.
    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        let (Some(info), Some(own)) = (queues.get(queue), queues.data(queue)) else { return };
        let used = |other: &QueueInfo| queues.data(other.id).map(|words| words.get()[0]);
        let more = match event {
            Event::Progress { busy } => busy.as_ns(),
            // A queue that comes, or comes back, starts level with the queues that are there.
            Event::Ready => {
                let others = queues.on_device(info.device).filter(wants).filter(|q| q.id != queue);
                others.filter_map(used).min().unwrap_or(0).saturating_sub(own.get()[0])
            }
            _ => return,
        };
        own.update(|words| [words[0] + more, words[1], words[2], words[3], words[4]]);
    }

    // Who runs, from the table alone.
    fn decide(&mut self, _: Instant, _: Changed<'_>, queues: &QueueTable<'_>,
        out: &mut Decisions<'_>) {
        for device in queues.devices() {
            let slice_ns = self.0.as_ns().max(1);
            let slices = |q: &&QueueInfo| queues.data(q.id).map(|w| w.get()[0] / slice_ns);
            let turn = queues.on_device(device).filter(wants).min_by_key(slices).map(|q| q.id);
            for queue in queues.on_device(device) {
                // It is no queue's turn: the first to become ready may start.
                let may = queue.hints.priority != Priority::NO_EXECUTE;
                let runs = may && turn.is_none_or(|turn| turn == queue.id);
                out.set(queue.id, if runs { Verdict::Run } else { Verdict::Hold(Urgency::NOW) });
            }
        }
    }
}
