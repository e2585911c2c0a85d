//! The scheduler's thread, and the watchdog that needs nothing from it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use xsched_core::lease::{Liveness, Watchdog};

use crate::clock::now;
use crate::hub::{Brain, Hub};
use crate::sync::mpsc::{Receiver, RecvTimeoutError};
use crate::sync::mutant;

/// Runs the scheduler until the runtime ends or the policy panics.
pub(crate) fn run(hub: &Hub) {
    // Whatever ends this thread, nobody stays held.
    let guard = Gone(hub);
    if catch_unwind(AssertUnwindSafe(|| rounds(hub))).is_err() {
        tracing::error!("the scheduler panicked; all queues run unscheduled from now on");
    }
    drop(guard);
    // The policy's destructor may take its time.
    drop(hub.unseat());
}

struct Gone<'a>(&'a Hub);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.set_gone();
    }
}

fn rounds(hub: &Hub) {
    let mut slept = None;
    while hub.serve(&mut slept) {}
}

/// Looks at the lease until the other end of `end` is dropped.
pub(crate) fn watch(hub: &Weak<Hub>, end: &Receiver<()>) {
    let Some(lease) = hub.upgrade().map(|hub| hub.lease) else { return };
    let mut watchdog = Watchdog::new(lease.into());
    loop {
        if end.recv_timeout(lease / 2) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Some(hub) = hub.upgrade() else { return };
        look(&mut watchdog, &hub);
    }
}

/// Ends all holds if the scheduler has been busy with one round for its lease.
pub(crate) fn look(watchdog: &mut Watchdog, hub: &Hub) {
    match watchdog.look(now(), hub.round_started()) {
        Liveness::Alive => {}
        Liveness::Silent => {
            tracing::error!("the scheduler has been silent past its lease; all queues run");
            hub.fail_open();
        }
        Liveness::StillSilent if mutant("blamed once") => {}
        Liveness::StillSilent => hub.end_holds(),
    }
}

/// Starts both threads.
pub(crate) fn start(
    hub: &Arc<Hub>,
    brain: Brain,
    end: Receiver<()>,
) -> Result<(), crate::error::Error> {
    let (scheduler_hub, watched) = (Arc::clone(hub), Arc::downgrade(hub));
    hub.seat(brain);
    let started = crate::device::spawn("scheduler", move || run(&scheduler_hub));
    if let Err(error) = started {
        // It knows the hub, and the hub it.
        drop(hub.unseat());
        return Err(error);
    }
    crate::device::spawn("watchdog", move || watch(&watched, &end))
}
