//! Resuming queues before a call that would wait for them while they are suspended.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use crate::mechanism::Mechanism;
use crate::preloaded::{ENDS_QUEUE, ENDS_RUNTIME, Preloaded};

/// Mechanisms that may have suspended queues.
static KNOWN: Mutex<Vec<Weak<dyn Mechanism>>> = Mutex::new(Vec::new());
static REGISTERED: Once = Once::new();

fn known() -> MutexGuard<'static, Vec<Weak<dyn Mechanism>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a mechanism resume all queues when the program exits or disables its runtime, and a single
/// queue before that queue is destroyed.
///
/// Without the preloaded library only the exit is seen: the C library calls the handler when the
/// program exits, before the runtime's own if the runtime was initialised earlier. A program that
/// is killed needs no handler, because the driver destroys its queues.
pub fn at_exit(mechanism: &Arc<dyn Mechanism>) {
    REGISTERED.call_once(|| {
        // SAFETY: the function may be called at any time, on any thread. If the C library has no
        // room for it, queues stay suspended at the exit, and the driver destroys them.
        unsafe { libc::atexit(end_all) };
        if let Some(preloaded) = Preloaded::find() {
            preloaded.on_end(Some(before_end));
        }
    });
    let mut known = known();
    known.retain(|mechanism| mechanism.strong_count() > 0);
    known.push(Arc::downgrade(mechanism));
}

fn all() -> Vec<Arc<dyn Mechanism>> {
    // The list is not locked for the calls that follow.
    known().iter().filter_map(Weak::upgrade).collect()
}

extern "C" fn end_all() {
    resume_before(ENDS_RUNTIME, 0, &all());
}

extern "C" fn before_end(what: u32, id: u32) {
    resume_before(what, id, &all());
}

/// Resumes what `what` ([`ENDS_RUNTIME`] or [`ENDS_QUEUE`]) is about. Errors are ignored: the
/// driver decides about the call that follows.
pub(super) fn resume_before(what: u32, id: u32, mechanisms: &[Arc<dyn Mechanism>]) {
    for mechanism in mechanisms {
        if what == ENDS_RUNTIME {
            _ = mechanism.end();
        } else if what == ENDS_QUEUE {
            let mut queues = mechanism.held();
            queues.retain(|queue| queue.id() == id);
            _ = mechanism.resume(&queues);
        }
    }
}
