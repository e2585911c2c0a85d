//! Shared pages as a device sees them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_node::{GATES_PER_PAGE, PageGate, SharedPage};

use crate::api::{FlagMemory, StreamApi};
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::inner::Inner;

/// A shared page that a device can wait for. It keeps the device and the page alive.
///
/// ```
/// use xsched_hal_stream::{SharedPage, StreamApi, StreamConfig, StreamDevice};
///
/// fn held_by_another_process<A: StreamApi>(
///     device: &StreamDevice<A>,
/// ) -> Result<StreamConfig<A>, Box<dyn std::error::Error>> {
///     let page = SharedPage::create()?;
///     println!("the scheduler opens {}", page.path().display());
///     let gates = device.share(page)?;
///     let gate = gates.take(0).ok_or("the first gate was taken before")?;
///     Ok(StreamConfig::default().in_page(gate))
/// }
/// ```
pub struct SharedGates<A: StreamApi> {
    device: Arc<Inner<A>>,
    page: Arc<SharedPage>,
    memory: FlagMemory,
    /// A bit for each gate that [`SharedGates::take`] has handed out.
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

    /// A gate, for one queue. `None` if `gate` is not below [`GATES_PER_PAGE`], or was taken
    /// before.
    #[must_use]
    pub fn take(&self, gate: usize) -> Option<SharedGate<A>> {
        if gate >= GATES_PER_PAGE {
            return None;
        }
        let bit = 1_u64 << gate;
        let before = self.taken.fetch_or(bit, Ordering::AcqRel);
        let at = SharedPage::offset_of_gate(gate);
        // SAFETY: within the page.
        let host = unsafe { self.memory.host.byte_add(at) };
        let (device, bytes) = (self.memory.device + at as u64, size_of::<PageGate>());
        let memory = FlagMemory { host, device, bytes };
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

/// A gate of a shared page, for one queue of the device that the page was shared with.
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
