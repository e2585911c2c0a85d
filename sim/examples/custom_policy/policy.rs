//! A policy of one's own: on each device the ready queues take turns, each for a slice of device
//! time. The queue that has used the fewest slices goes first.

use xsched::hint::Priority;
use xsched::id::QueueId;
use xsched::policy::{
    Changed, Decisions, Event, Needs, Policy, QueueInfo, QueueTable, Urgency, Verdict, policy_state,
};
use xsched::time::{Duration, Instant};

/// Slice of device time.
pub(crate) struct TakeTurns(pub(crate) Duration);

policy_state! {
    /// State of the policy per queue, in the table.
    struct Usage { used: Duration }
}

fn used(queue: QueueId, queues: &QueueTable<'_>) -> Duration {
    queues.state::<Usage>(queue).map_or(Duration::ZERO, |state| state.get().used)
}

fn wants(queue: &&QueueInfo) -> bool {
    queue.ready && queue.hints.priority != Priority::NO_EXECUTE
}

#[rustfmt::skip] // One line for each method's head.
impl Policy for TakeTurns {
    fn name(&self) -> &'static str { "take-turns" }

    // How often queues report the device time that they have used.
    fn needs(&self) -> Needs { Needs { progress_every: Some(self.0.per(4)), ..Needs::default() } }

    // What happened.
    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        let Some((info, own)) = queues.get(queue).zip(queues.state::<Usage>(queue)) else { return };
        match event {
            Event::Progress { busy } => own.update(|own| own.used += busy),
            // A queue that becomes ready starts where the others are.
            Event::Ready => {
                let others = queues.on_device(info.device).filter(wants).filter(|q| q.id != queue);
                let least = others.map(|q| used(q.id, queues)).min().unwrap_or_default();
                own.update(|own| own.used = own.used.max(least));
            }
            _ => {}
        }
    }

    // Which queues run, from the table alone.
    fn decide(&mut self, _: Instant, _: Changed<'_>, queues: &QueueTable<'_>,
        out: &mut Decisions<'_>) {
        for device in queues.devices() {
            let slices = |q: &&QueueInfo| used(q.id, queues).as_ns() / self.0.as_ns().max(1);
            let turn = queues.on_device(device).filter(wants).min_by_key(slices).map(|q| q.id);
            for queue in queues.on_device(device) {
                // While no queue is ready, each may start as soon as it becomes ready.
                let may = queue.hints.priority != Priority::NO_EXECUTE;
                let runs = may && turn.is_none_or(|turn| turn == queue.id);
                out.set(queue.id, if runs { Verdict::Run } else { Verdict::Hold(Urgency::NOW) });
            }
        }
    }
}
