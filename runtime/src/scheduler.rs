//! The scheduler's thread, and the watchdog that needs nothing from it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};

use crate::clock::now;
use crate::hub::{Brain, Hub, Mail};

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
    while !mail.stop {
        hub.wait(brain.poll_timeout(), &mut mail);
        let time = now();
        for request in mail.requests.drain(..) {
            request(time, &mut brain);
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
    }
}

/// Looks at the lease until the other end of `end` is dropped.
pub(crate) fn watch(hub: &Weak<Hub>, end: &Receiver<()>) {
    let mut blamed = None;
    loop {
        let Some(lease) = hub.upgrade().map(|hub| hub.lease) else { return };
        if end.recv_timeout(lease / 2) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Some(hub) = hub.upgrade() else { return };
        let Some(started) = hub.round_started() else { continue };
        let late = u128::from(now().since(started).as_ns()) >= hub.lease.as_nanos();
        // Once for each round that takes too long.
        if late && blamed != Some(started) {
            blamed = Some(started);
            tracing::error!("the scheduler has been silent past its lease; all queues run");
            hub.fail_open();
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
