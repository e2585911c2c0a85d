//! A stream with a gate, as the registry of gates knows it.

use std::sync::atomic::Ordering;

use xsched_hal_process::burst::Burst;

use crate::gate::Gate;
use crate::gate_closure::{Hold, Ring, Role, StreamView, Work};
use crate::launches::LaunchCounter;
use crate::reach::Reach;
use crate::sync::{AtomicU64, Word};

/// Ties between a stream's gate and other streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coupling {
    pub(crate) ring: Ring,
    pub(crate) role: Role,
    /// There are rings and queues of copy engines that streams share, into which some of its
    /// commands go.
    pub(crate) may_spread: bool,
}

impl Coupling {
    /// A gate that stops its own stream alone.
    pub(crate) const NONE: Self = Self { ring: Ring::Own, role: Role::Plain, may_spread: false };

    /// Returns whether more than the scheduler's request says if the gate is closed.
    pub(crate) fn is_any(self) -> bool {
        self != Self::NONE
    }
}

/// A registered queue, or a probe.
#[derive(Debug)]
pub(crate) struct GatedStream<W> {
    pub(crate) gate: Gate<W>,
    pub(crate) launches: LaunchCounter,
    /// The queue's stream, as messages name it. Empty for a probe.
    pub(crate) stream: String,
    pub(crate) coupling: Coupling,
    /// 1 if the scheduler holds the queue.
    hold_requested: AtomicU64,
    /// Commands launched, or about to be, and commands seen to have retired. These change with the
    /// registry locked if the stream is coupled or counted; the request always does.
    launched: AtomicU64,
    retired: AtomicU64,
    /// One past the last command, of those that go into other rings as well.
    spread: AtomicU64,
    /// One past the last command, of those that go into queues of copy engines.
    copied: AtomicU64,
    /// How [`Connections`](crate::connections::Connections) counts it.
    counted: AtomicU64,
}

impl<W: Word> GatedStream<W> {
    pub(crate) fn new(word: W, stream: String) -> Self {
        Self::coupled(Coupling::NONE, word, stream)
    }

    pub(crate) fn coupled(coupling: Coupling, word: W, stream: String) -> Self {
        Self {
            gate: Gate::new(word),
            launches: LaunchCounter::new(),
            stream,
            coupling,
            hold_requested: AtomicU64::new(0),
            launched: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            spread: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            counted: AtomicU64::new(0),
        }
    }

    /// Sets the burst of the stream.
    pub(crate) fn with_burst(self, burst: &Burst) -> Self {
        Self { launches: LaunchCounter::with_burst(burst), ..self }
    }

    /// Returns whether the scheduler holds the queue.
    pub(crate) fn is_hold_requested(&self) -> bool {
        self.hold_requested.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn request_hold(&self, held: bool) {
        self.hold_requested.store(u64::from(held), Ordering::Relaxed);
    }

    /// Returns whether something of the stream is on the device, or about to be.
    pub(crate) fn is_busy(&self) -> bool {
        self.launched.load(Ordering::Relaxed) > self.retired.load(Ordering::Relaxed)
    }

    /// Returns whether some of the stream's work on the device may be in any ring that streams
    /// share.
    pub(crate) fn is_spread(&self) -> bool {
        self.is_busy() && self.spread.load(Ordering::Relaxed) > self.retired.load(Ordering::Relaxed)
    }

    /// Returns whether some of the stream's work on the device is in the queue of a copy engine.
    pub(crate) fn has_copies(&self) -> bool {
        self.is_busy() && self.copied.load(Ordering::Relaxed) > self.retired.load(Ordering::Relaxed)
    }

    /// Returns whether some of the stream's work is in queues that other streams' commands wait in.
    pub(crate) fn has_work_in_shared_queues(&self) -> bool {
        self.is_spread() || self.has_copies()
    }

    /// The stream as far as gates are concerned.
    pub(crate) fn view(&self) -> StreamView {
        let ring = if self.is_spread() { Ring::Unknown } else { self.coupling.ring };
        let work = match (self.is_busy(), self.has_copies()) {
            (false, _) => Work::None,
            (true, false) => Work::InRing,
            (true, true) => Work::WithCopies,
        };
        let hold = match (self.gate.stays_open(), self.is_hold_requested()) {
            (true, _) => Hold::StaysOpen,
            (false, true) => Hold::Requested,
            (false, false) => Hold::None,
        };
        let foreign = self.gate.foreign_hold();
        StreamView { ring, role: self.coupling.role, work, hold, foreign }
    }

    /// Sets the queues that the last of `launched` commands goes into, if streams share them.
    /// Returns whether it is the first that goes into other rings.
    pub(crate) fn set_reach(&self, launched: u64, reach: Reach) -> bool {
        if !self.coupling.may_spread || reach == Reach::Ring {
            return false;
        }
        self.copied.store(launched, Ordering::Relaxed);
        reach == Reach::All && self.spread.swap(launched, Ordering::Relaxed) == 0
    }

    /// Sets the number of commands that the stream will have had.
    pub(crate) fn set_launched(&self, launched: u64) {
        self.launched.store(launched, Ordering::Relaxed);
    }

    /// Sets the number of the stream's commands that have run.
    pub(crate) fn set_retired(&self, retired: u64) {
        self.retired.store(retired, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Sets how the stream is counted from now on.
    pub(crate) fn count_as(&self, counted: u64) {
        self.counted.store(counted, Ordering::Relaxed);
    }

    /// Returns whether the gate is open though the scheduler holds the stream, and for how long is
    /// not known: it stays open, or it would stop others.
    pub(crate) fn is_left_open(&self) -> bool {
        let may_be_left = self.coupling.is_any() || self.is_hold_requested();
        self.gate.stays_open() || may_be_left && !self.gate.is_held()
    }
}
