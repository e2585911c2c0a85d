//! Checks that calls into the driver return.

use crate::api::StreamApi;

/// Makes and destroys an event: a call that blocks whenever any call into the driver does, unlike
/// launches and records. False if the driver refuses, and then further probes are of no use.
pub(crate) fn call_returns<A: StreamApi>(api: &A) -> bool {
    let Ok(_entered) = api.enter() else { return false };
    let Ok(event) = api.create_event() else { return false };
    // SAFETY: just made, and nothing else refers to it.
    unsafe { api.destroy_event(event) };
    true
}
