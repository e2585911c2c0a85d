//! Objects that are not destroyed any more once the program resets its device.

use std::sync::{PoisonError, RwLock};

use crate::error::HipError;

/// State of a device that may be about to be reset, which ends all that was made on it.
#[derive(Debug, Default)]
pub(crate) struct Reset(RwLock<bool>);

impl Reset {
    /// The device is about to be reset. Waits for calls that other threads are just making.
    pub(crate) fn begin(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Tells whether [`Reset::begin`] was called.
    pub(crate) fn has_begun(&mut self) -> bool {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes calls about what was made on the device, which is not reset meanwhile; `None` if it
    /// was, or is about to be. They must not come here once more.
    pub(crate) fn before<R>(&self, calls: impl FnOnce() -> R) -> Option<R> {
        let has_begun = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (!*has_begun).then(calls)
    }

    /// As [`Self::before`], for calls that fail after it.
    pub(crate) fn tried<R>(
        &self,
        calls: impl FnOnce() -> Result<R, HipError>,
    ) -> Result<R, HipError> {
        self.before(calls).unwrap_or(Err(HipError::Reset))
    }
}
