//! The launch of a queue that is under way, by which the watch notices a blocked one, and a look at
//! a closed gate one that may not have seen that it was closed.

use std::fmt;
use std::sync::atomic::Ordering;

use xsched_hal_process::burst::Burst;

use crate::sync::{AtomicU64, fence};
use crate::thread_state;

/// Call of a launch, or of the probe, into the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// The command itself.
    Launch = 1,
    /// A wait for the gate's word.
    Gate = 2,
    /// An event, which is made and recorded.
    Event = 3,
    /// A query whether the stream has ended.
    Query = 4,
    /// An event of the probe, which is made and destroyed.
    Probe = 5,
    /// A copy, which may wait for its stream.
    Copy = 6,
}

impl Call {
    const ALL: [Self; 6] =
        [Self::Launch, Self::Gate, Self::Event, Self::Query, Self::Probe, Self::Copy];

    fn in_word(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|call| *call as u64 == word & CALL)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Launch => "launching a command",
            Self::Gate => "placing a gate",
            Self::Event => "making or recording an event",
            Self::Query => "asking for the end of the stream",
            Self::Probe => "making an event as a probe",
            Self::Copy => "launching a copy",
        })
    }
}

/// The bits of the call that is made now, 0 for none.
const CALL: u64 = 0xff;
/// The lowest of the 32 bits of the thread that makes it.
const THREAD: u32 = 8;
/// The lowest bit of the launch's number.
const NUMBER: u64 = 1 << 40;

/// Numbers the launches of a queue, and says of the one that is under way which thread makes which
/// call. One thread at a time launches. All of that is in one word, so that the watch never reads
/// the call of another launch.
#[derive(Debug)]
pub(crate) struct LaunchCounter {
    word: AtomicU64,
    /// Launches that are not begun here.
    burst: Option<Burst>,
}

impl LaunchCounter {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), burst: None }
    }

    /// Counter of a queue with a burst.
    pub(crate) fn with_burst(burst: &Burst) -> Self {
        Self { burst: Some(burst.clone()), ..Self::new() }
    }

    /// Begins a launch with this call, which ends when the guard is dropped. With the fence in
    /// [`LaunchCounter::is_between`], either the launch sees a gate that was closed before the
    /// look, or the look sees the launch.
    pub(crate) fn begin(&self, call: Call) -> LaunchGuard<'_> {
        self.begin_on(thread_state::current(), call)
    }

    /// Begins a launch by a thread, which ends when the guard is dropped.
    pub(crate) fn begin_on(&self, thread: u32, call: Call) -> LaunchGuard<'_> {
        let number = self.word.load(Ordering::Relaxed) & !(NUMBER - 1);
        self.word.store(number | u64::from(thread) << THREAD | call as u64, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        LaunchGuard { counter: self }
    }

    /// The launch that was [left open](LaunchGuard::leave_open), until the guard is dropped.
    pub(crate) fn left_open(&self) -> LaunchGuard<'_> {
        LaunchGuard { counter: self }
    }

    /// The launch that is under way goes on with this call.
    pub(crate) fn goes_on(&self, call: Call) {
        let word = self.word.load(Ordering::Relaxed);
        if word & CALL != 0 {
            self.word.store(word & !CALL | call as u64, Ordering::Relaxed);
        }
    }

    /// Returns whether no launch is under way. Then those that have ended are seen with all that
    /// they did, and those that begin later see what the caller saw before.
    pub(crate) fn is_between(&self) -> bool {
        fence(Ordering::SeqCst);
        self.word.load(Ordering::Acquire) & CALL == 0
            && !self.burst.as_ref().is_some_and(|burst| burst.state().is_under_way())
    }

    /// The launch that is under way.
    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        let word = self.word.load(Ordering::Relaxed);
        let Some(call) = Call::in_word(word) else {
            let (number, thread) = self.burst.as_ref()?.state().under_way()?;
            return Some(UnderWay { number, thread, call: Call::Launch });
        };
        Some(UnderWay { number: word / NUMBER, thread: (word >> THREAD) as u32, call })
    }
}

/// A launch that is under way, as the watch sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    /// Another launch soon before or after it has another number.
    pub(crate) number: u64,
    /// The thread that launches, as [`thread_state::current`] says.
    pub(crate) thread: u32,
    /// Call that the launch is in now.
    pub(crate) call: Call,
}

/// A launch that is under way.
#[derive(Debug)]
pub(crate) struct LaunchGuard<'a> {
    counter: &'a LaunchCounter,
}

impl LaunchGuard<'_> {
    /// The launch goes on after this: see [`LaunchCounter::left_open`].
    pub(crate) fn leave_open(self) {
        std::mem::forget(self);
    }
}

impl Drop for LaunchGuard<'_> {
    fn drop(&mut self) {
        let number = self.counter.word.load(Ordering::Relaxed) & !(NUMBER - 1);
        // Release: see `is_between`.
        self.counter.word.store(number.wrapping_add(NUMBER), Ordering::Release);
    }
}
