//! Gates, which a scheduler closes and calls of the driver open.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::gate_closure::{ForeignHold, OwnBit};
use crate::sync::{Mutex, OWN, Word, lock};

/// A gate: what waits in a stream for its word passes while the word is zero.
///
/// [`gates_to_close`](crate::gate_closure::gates_to_close) decides what the word is. The lock
/// guards what it was made last; only the device reads the word without the lock. The word belongs
/// to the queue, and is not touched any more once that has gone, though the watch may still have
/// the gate.
#[derive(Debug)]
pub(crate) struct Gate<W> {
    word: W,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    own: OwnBit,
    foreign: ForeignBits,
    life: Life,
    closed_since: Option<Instant>,
    held_ns: u64,
    opened_at: Option<Instant>,
}

/// The bits of other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ForeignBits {
    /// As those processes say.
    #[default]
    Theirs,
    /// Cleared, until they may come back.
    Opened,
    /// Of a holder that was silent for longer than the lease.
    Overdue,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Closes,
    /// The gate is open, and this process closes it no more.
    StaysOpen,
    /// The queue has gone, and its word with it.
    Gone,
}

impl<W: Word> Gate<W> {
    /// An open gate.
    pub(crate) fn new(word: W) -> Self {
        word.clear(OWN);
        Self { word, state: Mutex::new(State::default()) }
    }

    /// Sets this process's bit. Whether the queue is held then, if that is new.
    pub(crate) fn set_own(&self, own: OwnBit) -> Option<bool> {
        let mut state = lock(&self.state);
        if state.life == Life::Gone {
            return None;
        }
        let before = state.own != OwnBit::Open;
        self.write_own(&mut state, own);
        let is_held = own != OwnBit::Open;
        (before != is_held).then_some(is_held)
    }

    fn write_own(&self, state: &mut State, own: OwnBit) {
        state.own = own;
        match (own == OwnBit::Closed, state.closed_since) {
            (true, None) => {
                self.word.set(OWN);
                state.closed_since = Some(Instant::now());
            }
            (false, Some(since)) => {
                self.word.clear(OWN);
                state.held_ns += span_ns(since);
                state.closed_since = None;
                state.opened_at = Some(Instant::now());
            }
            _ => {}
        }
    }

    /// Clears the bits of other processes, or lets them be. Those of a queue that is held apart
    /// come back once they are let be; others do not, since those holds may have ended meanwhile.
    /// Whether some may have come back.
    pub(crate) fn open_foreign(&self, opens: bool) -> bool {
        let mut state = lock(&self.state);
        if state.life == Life::Gone {
            return false;
        }
        let were_opened = state.foreign == ForeignBits::Opened;
        match (opens, state.foreign) {
            (true, ForeignBits::Overdue) => {
                self.word.end_foreign();
                state.foreign = ForeignBits::Theirs;
            }
            (true, ForeignBits::Theirs) if self.word.is_alone() => {
                self.word.begin_call();
                state.foreign = ForeignBits::Opened;
            }
            (true, ForeignBits::Theirs) => self.word.end_foreign(),
            (false, ForeignBits::Opened) => {
                self.word.end_call();
                state.foreign = ForeignBits::Theirs;
            }
            (false, _) => state.foreign = ForeignBits::Theirs,
            (true, ForeignBits::Opened) => {}
        }
        were_opened && !opens
    }

    /// The hold of other processes.
    pub(crate) fn foreign_hold(&self) -> ForeignHold {
        let (state, word) = (lock(&self.state), &self.word);
        if state.life == Life::Gone {
            return ForeignHold::None;
        }
        let is_held = word.foreign_heartbeat().is_some();
        match state.foreign {
            ForeignBits::Overdue if is_held => ForeignHold::Overdue,
            _ if word.is_alone() && word.is_hold_requested() => ForeignHold::HeldApart,
            _ if word.is_alone() => ForeignHold::ReleasedApart,
            _ if word.is_of_unit() && is_held => ForeignHold::Held,
            _ if word.is_of_unit() => ForeignHold::Released,
            _ if is_held => ForeignHold::HeldInPage,
            _ => ForeignHold::None,
        }
    }

    /// The heartbeat of the other processes that have the gate closed, if any does.
    pub(crate) fn foreign_heartbeat(&self) -> Option<u32> {
        let state = lock(&self.state);
        if state.life == Life::Gone { None } else { self.word.foreign_heartbeat() }
    }

    /// Says that the other processes were silent for too long.
    pub(crate) fn set_overdue(&self) {
        let mut state = lock(&self.state);
        if state.foreign == ForeignBits::Theirs {
            state.foreign = ForeignBits::Overdue;
        }
    }

    /// Returns whether the queue is held and the gate is closed, or is but for calls.
    pub(crate) fn is_held(&self) -> bool {
        lock(&self.state).own != OwnBit::Open
    }

    /// Has this process close the gate no more.
    pub(crate) fn stay_open(&self) {
        let mut state = lock(&self.state);
        if state.life != Life::Gone {
            state.life = Life::StaysOpen;
        }
    }

    /// Returns whether this process closes the gate no more.
    pub(crate) fn stays_open(&self) -> bool {
        lock(&self.state).life == Life::StaysOpen
    }

    /// The queue goes, and opens its gate for the last time. The word may be given back after this.
    pub(crate) fn leave(&self) {
        let mut state = lock(&self.state);
        self.write_own(&mut state, OwnBit::Open);
        state.life = Life::Gone;
    }

    /// Where the device looks.
    pub(crate) const fn word(&self) -> &W {
        &self.word
    }

    /// Returns whether this process has closed the gate.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed_since.is_some()
    }

    /// When this process closed the gate, if it is closed now.
    pub(crate) fn closed_since(&self) -> Option<Instant> {
        lock(&self.state).closed_since
    }

    /// For how long the gate has been closed, if it is closed now.
    pub(crate) fn closed_for(&self) -> Option<Duration> {
        self.closed_since().map(|since| since.elapsed())
    }

    /// When the gate was last opened.
    pub(crate) fn opened_at(&self) -> Option<Instant> {
        lock(&self.state).opened_at
    }

    /// Returns whether this process has not closed the gate since then.
    pub(crate) fn is_open_since(&self, then: Option<Instant>) -> bool {
        let state = lock(&self.state);
        state.closed_since.is_none() && state.opened_at <= then
    }

    /// For how long the gate was closed in total, in nanoseconds.
    pub(crate) fn held_ns(&self) -> u64 {
        let state = lock(&self.state);
        state.held_ns + state.closed_since.map_or(0, span_ns)
    }
}

fn span_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
