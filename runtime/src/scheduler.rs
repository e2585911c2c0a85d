//! The scheduler's thread, and the watchdog that needs nothing from it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use xsched_core::time::Instant;

use crate::clock::now;
use crate::hub::{Brain, Hub, Mail};
use crate::sync::mpsc::{Receiver, RecvTimeoutError};
use crate::sync::mutant;

/// Runs the scheduler until the runtime ends or the policy panics.
pub(crate) fn run(hub: &Hub, brain: Brain) {
    // Whatever ends this thread, nobody stays held.
    let _guard = Gone(hub);
    if catch_unwind(AssertUnwindSafe(|| rounds(hub, brain))).is_err() {
        tracing::error!("the scheduling policy panicked; all queues run unscheduled from now on");
    }
}

struct Gone<'a>(&'a Hub);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.set_gone();
    }
}

fn rounds(hub: &Hub, mut brain: Brain) {
    let mut mail = Mail::default();
    while round(hub, &mut brain, &mut mail) {}
}

/// Waits for mail and answers it. False if it was the last.
pub(crate) fn round(hub: &Hub, brain: &mut Brain, mail: &mut Mail) -> bool {
    hub.wait(brain.poll_timeout(), mail);
    let time = now();
    for request in mail.requests.drain(..) {
        request(time, brain);
    }
    for id in mail.reports.drain(..) {
        let Some(report) = hub.member(id).and_then(|member| member.take_report()) else {
            continue;
        };
        if let Err(error) = brain.handle_report(time, id, &report) {
            tracing::warn!(queue = id.index(), %error, "a report was not taken");
        }
    }
    brain.handle_timeout(time);
    while let Some((id, order)) = brain.poll_order(now()) {
        hub.deliver(id, order);
    }
    !mail.stop
}

/// Looks at the lease until the other end of `end` is dropped.
pub(crate) fn watch(hub: &Weak<Hub>, end: &Receiver<()>) {
    let mut watchdog = Watchdog::default();
    loop {
        let Some(lease) = hub.upgrade().map(|hub| hub.lease) else { return };
        if end.recv_timeout(lease / 2) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Some(hub) = hub.upgrade() else { return };
        watchdog.look(&hub);
    }
}

/// What the watchdog knows from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    /// The round that was too long, for which all queues run.
    blamed: Option<Instant>,
}

impl Watchdog {
    /// Ends all holds if the scheduler has been busy with one round for its lease.
    pub(crate) fn look(&mut self, hub: &Hub) {
        let Some(started) = hub.round_started() else { return };
        if u128::from(now().since(started).as_ns()) < hub.lease.as_nanos() {
            return;
        }
        // Told and counted once for each round that takes too long.
        if self.blamed != Some(started) {
            self.blamed = Some(started);
            tracing::error!("the scheduler has been silent past its lease; all queues run");
            hub.fail_open();
        } else if !mutant("blamed once") {
            // It may have woken up, ordered another hold, and fallen silent again.
            hub.end_holds();
        }
    }
}

/// Starts both threads.
pub(crate) fn start(
    hub: &Arc<Hub>,
    brain: Brain,
    end: Receiver<()>,
) -> Result<(), crate::error::Error> {
    let (scheduler_hub, watched) = (Arc::clone(hub), Arc::downgrade(hub));
    crate::device::spawn("scheduler", move || run(&scheduler_hub, brain))?;
    crate::device::spawn("watchdog", move || watch(&watched, &end))
}
