//! Whether calls into the driver come back, and whether gates were opened because one did not.

use std::sync::Arc;

use crate::api::StreamApi;
use crate::device::StreamDevice;

impl<A: StreamApi> StreamDevice<A> {
    /// A question that is answered with whether all gates are open for the moment, because a call
    /// was blocked or within [`StreamDevice::with_gates_open`]. For whoever stops queues in a way of their
    /// own, and has to let go at the same times. False once the device is gone.
    #[must_use]
    pub fn lifted(&self) -> Box<dyn Fn() -> bool + Send> {
        let board = Arc::downgrade(&self.inner.board);
        Box::new(move || board.upgrade().is_some_and(|board| board.is_lifted()))
    }
}

/// A call that comes back unless the driver is stuck. It makes an event: that waits for whatever
/// keeps other calls from coming back, which launches and records do not always. False if the
/// driver refuses, so that it need not be asked again.
pub(crate) fn comes_back<A: StreamApi>(api: &A) -> bool {
    let Ok(_entered) = api.enter() else { return false };
    let Ok(event) = api.create_event() else { return false };
    // SAFETY: just made, and nobody else knows it.
    unsafe { api.destroy_event(event) };
    true
}
