//! Letting go before something ends that would wait for a suspended queue.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use crate::mechanism::Mechanism;
use crate::preloaded::{ENDS_QUEUE, ENDS_RUNTIME, Preloaded};

/// Mechanisms that may have something suspended.
static KNOWN: Mutex<Vec<Weak<dyn Mechanism>>> = Mutex::new(Vec::new());
static REGISTERED: Once = Once::new();

fn known() -> MutexGuard<'static, Vec<Weak<dyn Mechanism>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a mechanism let everything go when the program ends or its runtime is disabled, and a queue
/// before that is destroyed. Without the preloaded library only the first is seen: the C library
/// calls us when the program exits, before the runtime if that was initialised earlier. A program
/// that is killed needs nothing, since the driver takes its queues away.
pub fn at_exit(mechanism: &Arc<dyn Mechanism>) {
    REGISTERED.call_once(|| {
        // SAFETY: the function may be called at any time, on any thread. There is nothing to be
        // done if the C library has no room for it.
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
    // Not locked for the calls that follow.
    known().iter().filter_map(Weak::upgrade).collect()
}

extern "C" fn end_all() {
    let_go(ENDS_RUNTIME, 0, &all());
}

extern "C" fn before_end(what: u32, id: u32) {
    let_go(what, id, &all());
}

/// Whatever the answers, the driver decides about the call that follows.
pub(super) fn let_go(what: u32, id: u32, mechanisms: &[Arc<dyn Mechanism>]) {
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
