//! Whether calls into the driver return, and whether gates are open because one did not.

use std::sync::Arc;

use crate::api::StreamApi;
use crate::device::StreamDevice;

impl<A: StreamApi> StreamDevice<A> {
    /// A function that tells whether all gates are forced open now: because a call was blocked, or
    /// within [`StreamDevice::with_gates_open`]. A backend that stops queues in another way has to
    /// resume them at the same times. Answers false once the device is gone.
    #[must_use]
    pub fn gates_open(&self) -> Box<dyn Fn() -> bool + Send> {
        let gates = Arc::downgrade(&self.inner.gates);
        Box::new(move || gates.upgrade().is_some_and(|gates| gates.all_open()))
    }
}

/// Makes and destroys an event: a call that blocks whenever any call into the driver does, unlike
/// launches and records. False if the driver refuses, and then further probes are of no use.
pub(crate) fn call_returns<A: StreamApi>(api: &A) -> bool {
    let Ok(_entered) = api.enter() else { return false };
    let Ok(event) = api.create_event() else { return false };
    // SAFETY: just made, and nothing else refers to it.
    unsafe { api.destroy_event(event) };
    true
}
