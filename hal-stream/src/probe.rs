//! Whether calls into the driver come back.

use crate::api::StreamApi;

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
