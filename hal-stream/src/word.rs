//! A gate's word that is known before its queue is opened.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xsched_node::PageSource;

use crate::api::StreamApi;
use crate::error::StreamError;
use crate::flags::{FlagWord, word_alone};
use crate::inner::Inner;

/// The word of a gate, for graphs with gates of their own: what waits in them for the word to be
/// zero is held and let go with the queue that is opened with it, by
/// [`crate::StreamConfig::with_gate`]. Without a queue it is zero.
///
/// A clone is the same word. It goes back to the device when the last clone and the queue are gone
/// and the commands of the queue have run. Other work on the device that waits for the word must
/// keep a clone until it has run.
pub struct GateWord<A: StreamApi> {
    pub(crate) device: Arc<Inner<A>>,
    word: FlagWord,
    uses: Arc<Uses>,
}

/// Uses of a word.
#[derive(Debug, Default)]
struct Uses {
    /// A queue is open with it.
    taken: AtomicBool,
    /// Something else than the queue may wait for it.
    asked: AtomicBool,
    /// Set if what is being launched waits for the word, a spacing apart.
    inside: AtomicBool,
}

impl<A: StreamApi> GateWord<A> {
    /// A word of the device's flag memory, or of its unit.
    pub(crate) fn take(device: &Arc<Inner<A>>) -> Result<Self, StreamError<A::Error>> {
        Self::take_by(device, Inner::take_word)
    }

    /// The word of a new page, which another process holds apart from other gates.
    pub(crate) fn take_alone(
        device: &Arc<Inner<A>>,
        source: &dyn PageSource,
    ) -> Result<Self, StreamError<A::Error>> {
        Self::take_by(device, |device| Ok(word_alone(&device.unit_page(source)?)))
    }

    fn take_by(
        device: &Arc<Inner<A>>,
        take: impl FnOnce(&Inner<A>) -> Result<FlagWord, StreamError<A::Error>>,
    ) -> Result<Self, StreamError<A::Error>> {
        if let Some(why) = &device.tested().no_gate {
            return Err(StreamError::NoGate(why.clone()));
        }
        let entered = device.api.enter();
        let entered = entered.map_err(StreamError::during("choosing the device"))?;
        let word = take(device)?;
        drop(entered);
        Ok(Self { device: Arc::clone(device), word, uses: Arc::default() })
    }

    /// Where the device sees the word: 32 bits, zero while the gate is open. Once this was asked, a
    /// held queue may be waiting within a command.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.uses.asked.store(true, Ordering::Relaxed);
        self.word.device
    }

    /// To be called within a launch into the queue that is open with the word: what is launched has
    /// gates of its own, a spacing of the queue apart, so it runs on for no longer than that after
    /// the queue was held.
    pub fn has_gates_inside(&self) {
        self.uses.inside.store(true, Ordering::Relaxed);
    }

    /// Opens the gates of the queue that is open with the word for good: from now on a hold of the
    /// queue lets run what was launched, as at [`Level::Block`](xsched_core::level::Level::Block).
    /// For a queue that others wait for on the device, past the scheduler.
    pub fn stay_open(&self) {
        let here = self.word.device;
        self.device.gates.stay_open(|word| word.is_some_and(|word| word.device == here));
    }

    /// Drops this clone, whose word goes back no sooner than the event completes. `None` if there
    /// is no such event: then it never goes back, and neither does the memory that it is part of.
    ///
    /// # Safety
    /// The event was made by the device's [`StreamApi::create_event`], was recorded behind the last
    /// thing that waits for the word on behalf of this clone, and nothing else uses it any more.
    pub unsafe fn give_back_after(self, event: Option<A::Event>) {
        // For the event, while that of this clone ends with it.
        self.device.flags().share(self.word);
        self.device.give_back_after(event, self.word);
    }

    /// The word for a queue that is being opened, which gives it back like one of its own.
    pub(crate) fn use_for_queue(
        &self,
        device: &Inner<A>,
    ) -> Result<(FlagWord, Taken), StreamError<A::Error>> {
        if !std::ptr::eq(Arc::as_ptr(&self.device), device) {
            return Err(StreamError::WordOfOtherDevice);
        }
        if self.uses.taken.swap(true, Ordering::Acquire) {
            return Err(StreamError::WordTaken);
        }
        self.device.flags().share(self.word);
        Ok((self.word, Taken(Arc::clone(&self.uses))))
    }
}

impl<A: StreamApi> Clone for GateWord<A> {
    fn clone(&self) -> Self {
        self.device.flags().share(self.word);
        Self { device: Arc::clone(&self.device), word: self.word, uses: Arc::clone(&self.uses) }
    }
}

impl<A: StreamApi> Drop for GateWord<A> {
    fn drop(&mut self) {
        self.device.flags().give_back(self.word);
    }
}

impl<A: StreamApi> fmt::Debug for GateWord<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateWord").field("word", &self.word).finish_non_exhaustive()
    }
}

/// A word has a queue until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Uses>);

impl Taken {
    /// Returns whether something within the queue's commands may wait for the word.
    pub(crate) fn may_wait_inside(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Returns whether what was just launched has gates of its own.
    pub(crate) fn take_inside(&self) -> bool {
        self.0.inside.load(Ordering::Relaxed) && self.0.inside.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}
