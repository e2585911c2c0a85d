//! How a queue is opened.

use std::sync::{Arc, Mutex};

use xsched_core::level::Level;
use xsched_hal_process::burst::Burst;

use crate::api::{FlagMemory, StreamApi};
use crate::held_ring::HeldRing;
use crate::shared::SharedGate;
use crate::spacing::Spacing;
use crate::word::GateWord;

/// How a queue is opened.
///
/// Of [`StreamConfig::with_gate`], [`StreamConfig::with_flag`] and [`StreamConfig::in_page`] the
/// last one counts. A queue at Lv1 has no gate and leaves the word alone.
#[derive(Debug)]
pub struct StreamConfig<A: StreamApi> {
    /// The stream; `None` if one is to be made.
    pub(crate) stream: Option<A::Stream>,
    pub(crate) owner: Owner,
    pub(crate) gate: GateSource<A>,
    pub(crate) priority: Option<i32>,
    pub(crate) spacing: Spacing,
    pub(crate) level_max: Level,
    pub(crate) reason: Option<Reason>,
    pub(crate) held_ring: Option<HeldRing>,
    pub(crate) burst: Option<Burst>,
}

/// A place where a queue says what its gates are limited by, in words for the user.
pub type Reason = Arc<Mutex<Option<String>>>;

/// The owner of a queue's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The queue, which ends it.
    Queue,
    /// The caller.
    Caller,
    /// The thread that launches: the stream's handle stands for it on that thread alone.
    Thread,
}

/// Source of the word of a queue's gate.
#[derive(Debug)]
pub(crate) enum GateSource<A: StreamApi> {
    /// The device's flag memory.
    Device,
    /// A word that was taken before.
    Word(GateWord<A>),
    /// A shared page.
    Page(SharedGate<A>),
    /// Memory of the caller's.
    Caller(FlagMemory),
}

impl<A: StreamApi> Default for StreamConfig<A> {
    /// A stream of its own with default priority, the default spacing, Lv2.
    fn default() -> Self {
        Self {
            stream: None,
            owner: Owner::Queue,
            gate: GateSource::Device,
            priority: None,
            spacing: Spacing::default(),
            level_max: Level::Deactivate,
            reason: None,
            held_ring: None,
            burst: None,
        }
    }
}

impl<A: StreamApi> StreamConfig<A> {
    /// Sets the priority of the stream that is made for the queue, in the driver's own numbers,
    /// clamped to those it has. Where commands have many more blocks than fit, it helps the device
    /// prefer an urgent queue even within a command.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets how much predicted work may lie between two gates.
    #[must_use]
    pub fn spacing(mut self, spacing: Spacing) -> Self {
        self.spacing = spacing;
        self
    }

    /// Sets the highest level of the queue.
    #[must_use]
    pub const fn level_max(mut self, level: Level) -> Self {
        self.level_max = level;
        self
    }

    /// Where the queue says why the stream has no gates of its own, or when these are not closed
    /// though it is held. Emptied where neither is so, or no gates were asked for.
    #[must_use]
    pub fn reason_to(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// Names who is to know whether the queue's ring is held as a whole, if it may share one.
    #[must_use]
    pub fn held_ring_to(mut self, held: &HeldRing) -> Self {
        self.held_ring = Some(held.clone());
        self
    }

    /// Names the burst in which an interposer launches into the stream.
    #[must_use]
    pub fn burst(mut self, burst: &Burst) -> Self {
        self.burst = Some(burst.clone());
        self
    }

    /// Uses a stream of the caller's. The caller may go on launching into it: what is launched
    /// there directly is ordered with the commands and held behind closed gates, but not counted.
    ///
    /// # Safety
    /// The stream belongs to the device and outlives the queue.
    #[must_use]
    pub const unsafe fn on_stream(mut self, stream: A::Stream) -> Self {
        (self.stream, self.owner) = (Some(stream), Owner::Caller);
        self
    }

    /// Uses the default stream of a thread, by a handle that stands for another stream on each
    /// thread. Each command gets a fence, since other threads can put none. The queue is at Lv1:
    /// the legacy default stream waits for such a stream.
    ///
    /// # Safety
    /// Everything is launched on that one thread, and the handle is a constant of the driver.
    #[must_use]
    pub const unsafe fn on_stream_of_thread(mut self, stream: A::Stream) -> Self {
        (self.stream, self.owner) = (Some(stream), Owner::Thread);
        self
    }

    /// Uses a word that was taken before, so that graphs can be made whose own gates are closed and
    /// opened with the queue's. Opening the queue fails with [`StreamError::WordOfOtherDevice`] if
    /// the word is another device's, and with [`StreamError::WordTaken`] if another queue is open
    /// with it.
    ///
    /// [`StreamError::WordOfOtherDevice`]: crate::StreamError::WordOfOtherDevice
    /// [`StreamError::WordTaken`]: crate::StreamError::WordTaken
    #[must_use]
    pub fn with_gate(mut self, gate: &GateWord<A>) -> Self {
        self.gate = GateSource::Word(gate.clone());
        self
    }

    /// Uses a word of the caller's as the gate's flag, in shared memory for example. Its lowest
    /// bit belongs to this process. A scheduler in another process closes the gate by setting
    /// another bit and opens it by clearing that. With each change of the 32 bits behind the word
    /// it renews its lease; see
    /// [`StreamDeviceConfig::hold_lease`](crate::StreamDeviceConfig::hold_lease).
    ///
    /// # Safety
    /// The word is from [`StreamDevice::share_flags`] of the same device, is used for no other
    /// queue, and is alive until the device has run all that the queue was given.
    ///
    /// [`StreamDevice::share_flags`]: crate::StreamDevice::share_flags
    #[must_use]
    pub unsafe fn with_flag(mut self, flag: FlagMemory) -> Self {
        self.gate = GateSource::Caller(flag);
        self
    }

    /// Uses a word of a shared page as the gate's flag, so that a scheduler in another process can
    /// hold the queue. Opening the queue fails with [`StreamError::WordOfOtherDevice`] if the page
    /// was shared with another device.
    ///
    /// [`StreamError::WordOfOtherDevice`]: crate::StreamError::WordOfOtherDevice
    #[must_use]
    pub fn in_page(mut self, gate: SharedGate<A>) -> Self {
        self.gate = GateSource::Page(gate);
        self
    }
}
