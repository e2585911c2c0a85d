//! Shared pages as a device sees them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::api::{FlagMemory, StreamApi};
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::inner::Inner;
use crate::page::{SHARED_WORDS, STRIDE, SharedPage};

/// A shared page that a device can wait for. It keeps the device and the page alive.
pub struct SharedGates<A: StreamApi> {
    device: Arc<Inner<A>>,
    page: Arc<SharedPage>,
    memory: FlagMemory,
    /// A bit for each word that [`SharedGates::take`] has handed out.
    taken: Arc<AtomicU64>,
}

impl<A: StreamApi> SharedGates<A> {
    /// A page that the device has registered as `memory`, and keeps.
    pub(crate) fn new(device: Arc<Inner<A>>, page: Arc<SharedPage>, memory: FlagMemory) -> Self {
        Self { device, page, memory, taken: Arc::default() }
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> &SharedPage {
        &self.page
    }

    /// The gate of a word, for one queue. `None` if `word` is not below [`SHARED_WORDS`], or was
    /// taken before.
    #[must_use]
    pub fn take(&self, word: usize) -> Option<SharedGate<A>> {
        if word >= SHARED_WORDS {
            return None;
        }
        let bit = 1_u64 << word;
        let before = self.taken.fetch_or(bit, Ordering::AcqRel);
        let at = word * STRIDE;
        // SAFETY: within the page.
        let host = unsafe { self.memory.host.byte_add(at) };
        let memory = FlagMemory { host, device: self.memory.device + at as u64, bytes: STRIDE };
        let gate = SharedGate { device: Arc::clone(&self.device), memory };
        (before & bit == 0).then_some(gate)
    }
}

impl<A: StreamApi> Clone for SharedGates<A> {
    fn clone(&self) -> Self {
        Self {
            device: Arc::clone(&self.device),
            page: Arc::clone(&self.page),
            memory: self.memory,
            taken: Arc::clone(&self.taken),
        }
    }
}

impl<A: StreamApi> fmt::Debug for SharedGates<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedGates").field("page", &self.page).finish_non_exhaustive()
    }
}

/// A word of a shared page, for one queue of the device that the page was shared with.
///
/// It keeps the device alive, and with it the page.
pub struct SharedGate<A: StreamApi> {
    device: Arc<Inner<A>>,
    memory: FlagMemory,
}

impl<A: StreamApi> SharedGate<A> {
    /// The word, for a queue of this device.
    pub(crate) fn word_on(&self, device: &Inner<A>) -> Result<FlagWord, StreamError<A::Error>> {
        if !std::ptr::eq(Arc::as_ptr(&self.device), device) {
            return Err(StreamError::WordOfOtherDevice);
        }
        Ok(FlagWord::first(self.memory))
    }
}

impl<A: StreamApi> fmt::Debug for SharedGate<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedGate").field("memory", &self.memory).finish_non_exhaustive()
    }
}
