//! Bursts: launches into a stream by whichever thread makes them, without a command of an XQueue
//! for each.
//!
//! Two libraries of a process take part. The one that schedules opens a burst behind a command that
//! it has launched, for a number of launches and an amount of predicted work, and closes it before
//! it puts anything else into the stream. The one in front of the driver launches within it: that
//! takes one atomic operation before the driver's call and one after, and a look at the word of the
//! stream's gate. Once the gate is closed, or the work is used up, a launch goes the long way,
//! through the XQueue.
//!
//! One launch at a time is under way. A state is never freed, as another thread may be about to
//! look at it. It is used again for another stream, with another number, by which it is told apart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence, keep, kept, pause};

/// Kinds of launches that are told apart: 4 KiB a stream.
pub const KINDS: usize = if cfg!(loom) { 2 } else { 512 };

/// The lowest 32 bits are the predicted work that is left, in nanoseconds.
const NS: u64 = u32::MAX as u64;
/// The lowest bit of the launches that are left, which have 16.
const LAUNCH: u64 = 1 << 32;
const LAUNCHES: u64 = u16::MAX as u64 * LAUNCH;
/// A launch is under way.
const BUSY: u64 = 1 << 48;
/// The burst is about to close.
const CLOSING: u64 = 1 << 49;
/// Nothing is in the stream: the next launch may be of any length.
const DRAINED: u64 = 1 << 50;
/// The lowest bit of the state's number, which has the rest.
const NUMBER: u64 = 1 << 51;

/// A burst as both libraries see it, which have to be of one version.
#[repr(C)]
#[derive(Debug)]
pub struct BurstState {
    word: AtomicU64,
    /// The word of the stream's gate.
    gate: AtomicPtr<GateWord>,
    /// The thread of the launch that is under way.
    thread: AtomicU32,
    /// The predicted work, in nanoseconds, that may be in the stream without a gate.
    spacing_ns: AtomicU32,
    /// Launches since the burst was opened, and below their predicted work in nanoseconds. Whose
    /// launch is under way adds to them.
    launches: AtomicU32,
    launched_ns: AtomicU64,
    /// Not 0 if one of them went into an empty stream.
    pauses: AtomicU32,
    /// Predicted device time by kind: nanoseconds in the lower half, 0 if nothing is known.
    estimates: [AtomicU64; KINDS],
}

/// Word that the device waits for to be zero.
pub type GateWord = AtomicU32;

/// A launch that is under way within a burst. Dropped without [`BurstLaunch::end`], as when the
/// thread unwinds, it counts as refused.
#[must_use = "nothing else is launched into the stream until it ends"]
#[derive(Debug)]
pub struct BurstLaunch<'a> {
    state: &'a BurstState,
    /// Amount by which the word is lowered if the driver takes the launch, and below the predicted
    /// time of the launch in nanoseconds.
    taken: u64,
    ns: u32,
    is_taken: bool,
}

/// Launches within a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstUse {
    /// Launches that the driver has taken.
    pub launches: u32,
    /// Device time that they are predicted to take, in nanoseconds.
    pub predicted_ns: u64,
    /// Nothing was in the stream in the end.
    pub is_drained: bool,
    /// Nothing was in the stream at some time.
    pub has_pauses: bool,
}

impl BurstState {
    fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            gate: AtomicPtr::new(std::ptr::null_mut()),
            thread: AtomicU32::new(0),
            spacing_ns: AtomicU32::new(0),
            launches: AtomicU32::new(0),
            launched_ns: AtomicU64::new(0),
            pauses: AtomicU32::new(0),
            estimates: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The estimate of a kind, with what tells kinds apart that share it.
    #[must_use]
    pub fn estimate(&self, kind: u32) -> &AtomicU64 {
        &self.estimates[kind as usize % KINDS]
    }

    /// Nanoseconds that a launch of this kind will take, if one was measured.
    #[must_use]
    pub fn expected_ns(&self, kind: u32) -> Option<u32> {
        let ns = self.estimate(kind).load(Ordering::Relaxed) as u32;
        (ns > 0).then_some(ns)
    }

    /// Begins a launch of this kind by this thread in the burst of the state with this number, if
    /// there is one that has room for it and the gate is open.
    ///
    /// With [`BurstState::is_under_way`], either the launch sees a gate that was closed before, or
    /// who closed it sees the launch.
    #[inline]
    pub fn begin(&self, number: u32, kind: u32, thread: u32) -> Option<BurstLaunch<'_>> {
        let before = self.word.load(Ordering::Relaxed);
        let has_room = before & (BUSY | CLOSING) == 0 && before & LAUNCHES != 0;
        if !has_room || before / NUMBER != u64::from(number) {
            return None;
        }
        let ns = self.expected_ns(kind)?;
        let left = if before & DRAINED == 0 {
            (before & NS).checked_sub(ns.into())?
        } else {
            self.spacing_ns.load(Ordering::Relaxed).saturating_sub(ns).into()
        };
        let busy = before | BUSY;
        let after = (before & !(NS | DRAINED) | left) - LAUNCH;
        let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
        self.word.compare_exchange(before, busy, order, failed).ok()?;
        let launch = BurstLaunch { state: self, taken: busy - after, ns, is_taken: false };
        self.thread.store(thread, Ordering::Relaxed);
        if before & DRAINED != 0 {
            self.pauses.store(1, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        // SAFETY: who opened the burst keeps the word until it is closed, and closing it waits for
        // this launch.
        let gate = unsafe { self.gate.load(Ordering::Relaxed).as_ref() };
        let is_open = gate.is_some_and(|gate| gate.load(Ordering::Relaxed) == 0);
        is_open.then_some(launch)
    }

    /// Has [`BurstState::note_drained`] known what was launched before.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Everything in the stream has run that was launched before this mark, and nothing waits in
    /// front of what comes next if nothing was launched since.
    pub fn note_drained(&self, number: u32, mark: u64) {
        if mark / NUMBER == u64::from(number)
            && mark & (BUSY | CLOSING) == 0
            && mark & LAUNCHES != 0
        {
            let (drained, order) = (mark | DRAINED, Ordering::Relaxed);
            let _ = self.word.compare_exchange(mark, drained, Ordering::AcqRel, order);
        }
    }

    /// Returns whether a launch is under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        fence(Ordering::SeqCst);
        self.word.load(Ordering::Acquire) & BUSY != 0
    }

    /// The launch that is under way: a number that those soon before and after have not, and the
    /// thread that makes it.
    #[must_use]
    pub fn under_way(&self) -> Option<(u64, u32)> {
        let word = self.word.load(Ordering::Relaxed);
        (word & BUSY != 0).then(|| (word, self.thread.load(Ordering::Relaxed)))
    }
}

impl BurstLaunch<'_> {
    /// The driver has taken the launch.
    pub fn end(mut self) {
        self.is_taken = true;
    }
}

impl Drop for BurstLaunch<'_> {
    fn drop(&mut self) {
        let Self { state, taken, ns, is_taken } = *self;
        if is_taken {
            let launches = state.launches.load(Ordering::Relaxed);
            state.launches.store(launches + 1, Ordering::Relaxed);
            let launched_ns = state.launched_ns.load(Ordering::Relaxed);
            state.launched_ns.store(launched_ns + u64::from(ns), Ordering::Relaxed);
        }
        // Refused, it takes nothing of what is left.
        state.word.fetch_sub(if is_taken { taken } else { BUSY }, Ordering::Release);
    }
}

/// The burst of a stream, for the library that schedules. A clone is the same. The state is used
/// again once the last one is dropped.
#[derive(Clone, Debug)]
pub struct Burst(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    state: &'static BurstState,
    number: u32,
    /// Not 0 once the one who launches within the burst was told of the state.
    is_used: AtomicU32,
}

impl Burst {
    /// A state that no other stream has, and its first burst is closed.
    #[must_use]
    pub fn take() -> Self {
        let state = kept().unwrap_or_else(|| Box::leak(Box::new(BurstState::new())));
        let number = (state.word.load(Ordering::Relaxed) / NUMBER) as u32;
        Self(Arc::new(Owned { state, number, is_used: AtomicU32::new(0) }))
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> &'static BurstState {
        self.0.state
    }

    /// Has the burst used from now on: the state, for [`BurstState::begin`] with its number.
    #[must_use]
    pub fn share(&self) -> (&'static BurstState, u32) {
        self.0.is_used.store(1, Ordering::Relaxed);
        (self.0.state, self.0.number)
    }

    /// Has it opened no more.
    pub fn unshare(&self) {
        self.0.is_used.store(0, Ordering::Relaxed);
    }

    /// Returns whether there is any use in opening the burst.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed) != 0
    }

    /// Names the word of the stream's gate.
    ///
    /// # Safety
    /// The word is there until the burst is closed for good.
    pub unsafe fn set_gate(&self, gate: *const GateWord) {
        self.0.state.gate.store(gate.cast_mut(), Ordering::Relaxed);
    }

    /// Opens the burst for `launches` launches, and predicted work of `left_ns` of `spacing_ns`,
    /// which may be in the stream without a gate. It must be closed.
    pub fn open(&self, launches: u16, left_ns: u32, spacing_ns: u32) {
        let Owned { state, number, .. } = &*self.0;
        state.spacing_ns.store(spacing_ns, Ordering::Relaxed);
        state.launches.store(0, Ordering::Relaxed);
        state.launched_ns.store(0, Ordering::Relaxed);
        state.pauses.store(0, Ordering::Relaxed);
        let left = u64::from(launches) * LAUNCH + u64::from(left_ns);
        state.word.store(u64::from(*number) * NUMBER + left, Ordering::Release);
    }

    /// Closes the burst and answers what was launched since it was opened, once the launch that is
    /// under way has ended; `None` if that takes longer than `at_most`. Nothing begins in it from
    /// now on.
    pub fn close(&self, at_most: Duration) -> Option<BurstUse> {
        let Owned { state, number, .. } = &*self.0;
        state.word.fetch_or(CLOSING, Ordering::Relaxed);
        let (mut waited, mut began) = (0, None);
        while state.word.load(Ordering::Acquire) & BUSY != 0 {
            if began.get_or_insert_with(Instant::now).elapsed() > at_most {
                return None;
            }
            pause(&mut waited);
        }
        let is_drained = state.word.load(Ordering::Relaxed) & DRAINED != 0;
        state.word.store(u64::from(*number) * NUMBER, Ordering::Relaxed);
        let launches = state.launches.load(Ordering::Relaxed);
        let predicted_ns = state.launched_ns.load(Ordering::Relaxed);
        let has_pauses = is_drained || state.pauses.load(Ordering::Relaxed) != 0;
        Some(BurstUse { launches, predicted_ns, is_drained, has_pauses })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        for estimate in &self.state.estimates {
            estimate.store(0, Ordering::Relaxed);
        }
        // The number has the highest bits, so it goes round by itself.
        let next = (u64::from(self.number) + 1).wrapping_mul(NUMBER);
        self.state.word.store(next, Ordering::Release);
        keep(self.state);
    }
}
