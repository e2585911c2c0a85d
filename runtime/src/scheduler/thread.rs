//! The scheduler's thread, and the watchdog that needs nothing from it.

use std::sync::{Arc, Weak};

use xsched_core::lease::{Liveness, Watchdog};

use super::{Scheduler, SchedulerHandle};
use crate::clock::now;
use crate::error::Error;
use crate::panics::caught;
use crate::sync::mpsc::{Receiver, RecvTimeoutError};
use crate::workers::spawn;

/// Runs the scheduler until the runtime ends or the policy panics.
pub(crate) fn run(handle: &SchedulerHandle) {
    // Whatever ends this thread, no queue stays held.
    let guard = Gone(handle);
    if caught(|| rounds(handle)).is_err() {
        tracing::error!("the scheduler panicked; all queues run unscheduled from now on");
    }
    drop(guard);
    // The policy's destructor may take its time.
    drop(handle.end_rounds());
}

struct Gone<'a>(&'a SchedulerHandle);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.set_gone();
    }
}

fn rounds(handle: &SchedulerHandle) {
    while handle.serve() {}
}

/// Looks at the lease until the other end of `end` is dropped.
pub(crate) fn watch(handle: &Weak<SchedulerHandle>, end: &Receiver<()>) {
    let Some(lease) = handle.upgrade().map(|handle| handle.lease) else { return };
    let mut watchdog = Watchdog::new(lease.into());
    loop {
        if end.recv_timeout(lease / 2) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Some(handle) = handle.upgrade() else { return };
        look(&mut watchdog, &handle);
    }
}

/// Ends all holds if the scheduler has been busy with one round for its lease.
pub(crate) fn look(watchdog: &mut Watchdog, handle: &SchedulerHandle) {
    match watchdog.look(now(), handle.round_started()) {
        Liveness::Alive => {}
        Liveness::Silent => {
            tracing::error!("the scheduler has been silent past its lease; all queues run");
            handle.fail_open();
        }
        Liveness::StillSilent => handle.end_holds(),
    }
}

/// Starts both threads.
pub(crate) fn start(
    handle: &Arc<SchedulerHandle>,
    scheduler: Scheduler,
    end: Receiver<()>,
) -> Result<(), Error> {
    let (own, watched) = (Arc::clone(handle), Arc::downgrade(handle));
    handle.begin_rounds(scheduler);
    let started = spawn("scheduler", move || run(&own));
    if let Err(error) = started {
        // It knows the handle, and the handle it.
        drop(handle.end_rounds());
        return Err(error);
    }
    spawn("watchdog", move || watch(&watched, &end))
}
