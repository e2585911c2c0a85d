//! The calls of a driver that a stream backend needs.

use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use xsched_core::hal::HalError;

use crate::reach::Reach;

/// Description of a device by its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The vendor's name of the device.
    pub device: String,
    /// PCI id of the device: domain, bus and device, as in `0000:3b:00`.
    pub pci: String,
    /// The driver's own words for its version.
    pub driver: String,
    /// The library that is in use, by the name under which it was found.
    pub library: String,
    /// Multiprocessors or compute units.
    pub units: u32,
    /// Priorities of streams, the least urgent first. Equal if there is only one.
    pub priorities: (i32, i32),
    /// True if the device runs what several processes launch at the same time, as an AMD GPU does,
    /// or an NVIDIA GPU with MPS. Otherwise it changes between them by time slices.
    pub side_by_side: bool,
}

/// Kind of a user's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKind {
    /// True for the legacy default stream, which waits for all blocking streams and they for it.
    pub legacy_default: bool,
    /// True if the stream waits for the legacy default stream, and that for it.
    pub blocking: bool,
    /// No other stream can end up in the same hardware queue. `None` if that does not matter on
    /// this device.
    pub own_ring: Option<bool>,
}

/// Memory that the host writes and the device reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagMemory {
    /// Where the host sees it. Zeroed, and aligned to 64 bytes, or to its length if that is less.
    pub host: NonNull<AtomicU32>,
    /// Where the device sees it.
    pub device: u64,
    /// Length in bytes.
    pub bytes: usize,
}

// SAFETY: it names memory that outlives it, and that is touched by atomic operations only.
unsafe impl Send for FlagMemory {}
// SAFETY: see above.
unsafe impl Sync for FlagMemory {}

/// Streams of a vendor: a thin layer over the driver, without state of its own but the device it
/// is for.
///
/// No call may block until the device gets somewhere. Calls are made on many threads; between
/// [`StreamApi::enter`] and the drop of its answer, or without it where that is said.
pub trait StreamApi: Debug + Send + Sync + 'static {
    /// A stream's handle.
    type Stream: Copy + Debug + Eq + Send + Sync + 'static;
    /// An event's handle.
    type Event: Copy + Debug + Send + Sync + 'static;
    /// Command of the vendor's own kind, for launches without a closure.
    type Native: Clone + Debug + Send + Sync + 'static;
    /// Makes the device current on a thread until it is dropped.
    type Entered<'a>
    where
        Self: 'a;
    /// An error of the driver.
    type Error: HalError;

    /// A short name, such as `cuda`.
    fn name(&self) -> &'static str;

    /// Returns the description of the device.
    fn about(&self) -> &About;

    /// Why streams cannot wait for a word in memory, if they cannot, in words for the user.
    fn no_waits(&self) -> Option<String>;

    /// How long after the host's store a command may still start, in nanoseconds, because the
    /// device had looked just before.
    fn settle_ns(&self) -> u64 {
        0
    }

    /// The host's time, by which it is told for how long the device waited for the host. A device
    /// with a clock that is set by hand answers by that.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Entries that a hardware queue takes before a launch blocks, if that is known without trying.
    fn depth(&self) -> Option<u32> {
        None
    }

    /// Makes the device current on this thread.
    ///
    /// # Errors
    /// If the driver refuses.
    fn enter(&self) -> Result<Self::Entered<'_>, Self::Error>;

    /// Makes a stream. It does not wait for the legacy default stream, and has a hardware queue of
    /// its own where that matters; if both cannot be had, the latter matters more.
    /// [`StreamApi::stream_kind`] knows. `priority` is clamped to [`About::priorities`]; `None` is
    /// the driver's default.
    ///
    /// # Errors
    /// If the driver refuses.
    fn create_stream(&self, priority: Option<i32>) -> Result<Self::Stream, Self::Error>;

    /// Ends a stream. What was launched still runs.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// Made by [`StreamApi::create_stream`], not ended yet, and nothing uses it afterwards.
    unsafe fn destroy_stream(&self, stream: Self::Stream) -> Result<(), Self::Error>;

    /// Waits until everything in a stream has run. The one call that blocks.
    ///
    /// # Errors
    /// If a command has failed, or the driver refuses.
    ///
    /// # Safety
    /// It is alive.
    unsafe fn synchronize(&self, stream: Self::Stream) -> Result<(), Self::Error>;

    /// Returns the kind of a user's stream.
    ///
    /// # Errors
    /// If it is none, or of a kind whose meaning depends on the thread or on a capture under way.
    ///
    /// # Safety
    /// It is a live stream of this device, or a constant of the driver.
    unsafe fn stream_kind(&self, stream: Self::Stream) -> Result<StreamKind, Self::Error>;

    /// The hardware ring that a user's stream is in, by a number that no other ring of the process
    /// has or had. `None` if it is not known. May launch something that does nothing.
    ///
    /// # Safety
    /// It is a live stream of this device that is not captured, or a constant of the driver.
    unsafe fn ring_of(&self, stream: Self::Stream) -> Option<u64> {
        let _ = stream;
        None
    }

    /// How many connections to the device streams take one of when they get work, and share where
    /// there are fewer than streams with work. `None` where that is not how they find their
    /// hardware queues.
    fn connections(&self) -> Option<usize> {
        None
    }

    /// Makes an event that takes the time when it completes.
    ///
    /// # Errors
    /// If the driver refuses.
    fn create_event(&self) -> Result<Self::Event, Self::Error>;

    /// Makes an event that takes no time. Some drivers see it complete much sooner. It is used with
    /// [`StreamApi::query`] only.
    ///
    /// # Errors
    /// If the driver refuses.
    fn create_plain_event(&self) -> Result<Self::Event, Self::Error> {
        self.create_event()
    }

    /// Ends an event.
    ///
    /// # Safety
    /// Made by [`StreamApi::create_event`] or [`StreamApi::create_plain_event`], not ended yet, and
    /// nothing uses it afterwards.
    unsafe fn destroy_event(&self, event: Self::Event);

    /// Records an event: it completes when everything before it in the stream has.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// Both are alive.
    unsafe fn record(&self, event: Self::Event, stream: Self::Stream) -> Result<(), Self::Error>;

    /// Returns whether an event has completed. Needs no [`StreamApi::enter`].
    ///
    /// # Errors
    /// If a command has failed, or the driver refuses.
    ///
    /// # Safety
    /// It is alive.
    unsafe fn query(&self, event: Self::Event) -> Result<bool, Self::Error>;

    /// Returns whether [`StreamApi::is_done`] is cheaper than an event. Without it, time for which
    /// the stream was idle counts as device time if the next command comes before the next poll.
    fn sees_ends(&self) -> bool {
        false
    }

    /// Returns whether everything in a stream has run. Needs no [`StreamApi::enter`]. Called only
    /// if [`StreamApi::sees_ends`].
    ///
    /// # Errors
    /// If a command has failed, or the driver refuses.
    ///
    /// # Safety
    /// It is alive.
    unsafe fn is_done(&self, stream: Self::Stream) -> Result<bool, Self::Error> {
        let _ = stream;
        Ok(false)
    }

    /// Device time between two events that have completed, in nanoseconds. Needs no
    /// [`StreamApi::enter`].
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// Both are alive.
    unsafe fn elapsed_ns(&self, from: Self::Event, to: Self::Event) -> Result<u64, Self::Error>;

    /// Has the device hold what follows in the stream until the word is zero.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The stream is alive, and the word is part of a [`FlagMemory`] that is given back only after
    /// the stream got past this.
    unsafe fn wait_zero(&self, stream: Self::Stream, word: u64) -> Result<(), Self::Error>;

    /// Returns whether streams can write numbers into words and wait for them.
    fn has_numbers(&self) -> bool {
        false
    }

    /// Has the device write a number into a word once everything before it in the stream has run.
    /// Called only if [`StreamApi::has_numbers`].
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// As [`StreamApi::wait_zero`].
    unsafe fn write_number(
        &self,
        stream: Self::Stream,
        word: u64,
        number: u32,
    ) -> Result<(), Self::Error> {
        let _ = (stream, word, number);
        Ok(())
    }

    /// Has the device hold what follows in the stream until a word has this number or one of the
    /// 2³¹ behind it. Called only if [`StreamApi::has_numbers`].
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// As [`StreamApi::wait_zero`].
    unsafe fn await_number(
        &self,
        stream: Self::Stream,
        word: u64,
        number: u32,
    ) -> Result<(), Self::Error> {
        let _ = (stream, word, number);
        Ok(())
    }

    /// Allocates flag memory of `bytes` bytes.
    ///
    /// # Errors
    /// If the driver refuses, or has such memory in pieces of 8 bytes only.
    fn flag_memory(&self, bytes: usize) -> Result<FlagMemory, Self::Error>;

    /// Makes memory of the caller's visible to the device, shared memory for example.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The memory lives until [`StreamApi::unregister_flags`], and is touched by atomic operations
    /// only.
    unsafe fn register_flags(
        &self,
        host: NonNull<AtomicU32>,
        bytes: usize,
    ) -> Result<FlagMemory, Self::Error>;

    /// Gives flag memory back that was allocated. May wait for the device.
    ///
    /// # Safety
    /// From [`StreamApi::flag_memory`], and nothing uses it afterwards.
    unsafe fn free_flags(&self, memory: FlagMemory);

    /// Takes the caller's memory back from the device. May wait for the device.
    ///
    /// # Safety
    /// From [`StreamApi::register_flags`], and nothing on the device uses it afterwards.
    unsafe fn unregister_flags(&self, memory: FlagMemory);

    /// Launches a command that does nothing, as a kernel or what comes closest.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The stream is alive.
    unsafe fn launch_nothing(&self, stream: Self::Stream) -> Result<(), Self::Error>;

    /// Launches a command of the vendor's.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The stream is alive. What the command needs is alive until it has run, as its
    /// maker promised.
    unsafe fn launch_native(
        &self,
        command: &Self::Native,
        stream: Self::Stream,
    ) -> Result<(), Self::Error>;

    /// Returns the hardware queues that a command of the vendor's goes into, where streams share
    /// some.
    fn reach_of(&self, _: &Self::Native) -> Reach {
        Reach::Ring
    }
}
