//! What the watch sees of a queue.

use std::sync::atomic::Ordering;

use crate::gate::Gate;
use crate::launches::LaunchCounter;
use crate::reach::Reach;
use crate::sync::{AtomicU64, Word};

/// The hardware ring of a queue's commands: what a closed gate of it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// No other stream is in it.
    Own,
    /// Other streams may be in it, all of which have queues.
    Shared(u64),
    /// It may be any that others share.
    Unknown,
}

impl Ring {
    /// Whether what waits in the one may stop what is in the other.
    pub(crate) const fn stops(self, other: Self) -> bool {
        match (self, other) {
            (Self::Own, _) | (_, Self::Own) => false,
            (Self::Shared(one), Self::Shared(other)) => one == other,
            (Self::Unknown, _) | (_, Self::Unknown) => true,
        }
    }
}

/// What else than its queue a gate may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ties {
    pub(crate) ring: Ring,
    /// It is the legacy default stream, which waits for blocking ones.
    pub(crate) is_legacy: bool,
    /// The legacy default stream waits for it, and a queue has what is launched there.
    pub(crate) is_blocking: bool,
    /// There are rings and queues of copy engines that streams share, into which some of its
    /// commands go.
    pub(crate) may_spread: bool,
}

impl Ties {
    /// Nothing.
    pub(crate) const NONE: Self =
        Self { ring: Ring::Own, is_legacy: false, is_blocking: false, may_spread: false };

    /// Whether more than the scheduler's wish for the queue says which gates are closed.
    pub(crate) fn are_any(self) -> bool {
        self != Self::NONE
    }
}

/// A registered queue, or a probe.
#[derive(Debug)]
pub(crate) struct Member<W> {
    pub(crate) gate: Gate<W>,
    pub(crate) launches: LaunchCounter,
    /// The queue's stream, as messages name it. Empty for a probe.
    pub(crate) stream: String,
    pub(crate) ties: Ties,
    /// 1 if the scheduler holds the queue.
    wish: AtomicU64,
    /// Commands launched, or about to be, and commands seen to have retired. These change with the
    /// registry locked if it has ties or is counted; the wish always does where it is looked at.
    launched: AtomicU64,
    retired: AtomicU64,
    /// One past the last command, of those that go into other rings as well.
    spread: AtomicU64,
    /// The same of those that go into queues of copy engines.
    copied: AtomicU64,
    /// How [`Connections`](crate::connections::Connections) counts it.
    counted: AtomicU64,
}

/// What a queue has on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    is_busy: bool,
    is_spread: bool,
    has_copies: bool,
}

impl<W: Word> Member<W> {
    pub(crate) fn new(word: W, stream: String) -> Self {
        Self::tied(Ties::NONE, word, stream)
    }

    pub(crate) fn tied(ties: Ties, word: W, stream: String) -> Self {
        Self {
            gate: Gate::new(word),
            launches: LaunchCounter::new(),
            stream,
            ties,
            wish: AtomicU64::new(0),
            launched: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            spread: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            counted: AtomicU64::new(0),
        }
    }

    /// Whether the scheduler holds the queue, as far as it has ties or the device has
    /// [`Connections`](crate::connections::Connections).
    pub(crate) fn is_wished(&self) -> bool {
        self.wish.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn wish(&self, held: bool) {
        self.wish.store(u64::from(held), Ordering::Relaxed);
    }

    /// Whether something of it is on the device, or about to be.
    pub(crate) fn is_busy(&self) -> bool {
        self.launched.load(Ordering::Relaxed) > self.retired.load(Ordering::Relaxed)
    }

    /// Whether some of what it has on the device may be in any ring that streams share.
    pub(crate) fn is_spread(&self) -> bool {
        self.is_busy() && self.spread.load(Ordering::Relaxed) > self.retired.load(Ordering::Relaxed)
    }

    /// Whether some of what it has on the device is in the queue of a copy engine.
    pub(crate) fn has_copies(&self) -> bool {
        self.is_busy() && self.copied.load(Ordering::Relaxed) > self.retired.load(Ordering::Relaxed)
    }

    /// Whether some of it is in queues that other streams' commands wait in.
    pub(crate) fn is_beyond(&self) -> bool {
        self.is_spread() || self.has_copies()
    }

    pub(crate) fn load(&self) -> Load {
        let (is_busy, is_spread) = (self.is_busy(), self.is_spread());
        Load { is_busy, is_spread, has_copies: self.has_copies() }
    }

    /// Whether what waits at its gate stops something that another queue has on the device.
    pub(crate) fn stops(&self, other: &Self) -> bool {
        self.ring().stops(other.ring()) || self.has_copies() && other.has_copies()
    }

    /// The ring of what it has on the device.
    pub(crate) fn ring(&self) -> Ring {
        if self.is_spread() { Ring::Unknown } else { self.ties.ring }
    }

    /// The last of so many commands goes into these queues, if streams share them. Whether it is
    /// the first that goes into other rings.
    pub(crate) fn set_reach(&self, launched: u64, reach: Reach) -> bool {
        if !self.ties.may_spread || reach == Reach::Ring {
            return false;
        }
        self.copied.store(launched, Ordering::Relaxed);
        reach == Reach::All && self.spread.swap(launched, Ordering::Relaxed) == 0
    }

    /// It will have had so many commands.
    pub(crate) fn set_launched(&self, launched: u64) {
        self.launched.store(launched, Ordering::Relaxed);
    }

    /// So many of its commands have run.
    pub(crate) fn set_retired(&self, retired: u64) {
        self.retired.store(retired, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// It counts so from now on.
    pub(crate) fn count_as(&self, counted: u64) {
        self.counted.store(counted, Ordering::Relaxed);
    }

    /// Whether its gate is open though the scheduler holds it, and for how long is not known: it
    /// stays open, or it would stop others.
    pub(crate) fn is_left_open(&self) -> bool {
        let may_be_left = self.ties.are_any() || self.is_wished();
        self.gate.stays_open() || may_be_left && !self.gate.is_held()
    }
}
