//! Record whether any device was opened yet.

use std::sync::PoisonError;

use super::HipDevices;

impl HipDevices {
    /// Keeps devices from being opened while the answer lives. `None` if one is open.
    pub(crate) fn unopened(&self) -> Option<impl Sized + '_> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.all.is_empty().then_some(known)
    }
}
