//! Gates, which a scheduler closes and calls of the driver force open.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::sync::{Mutex, OWN, Word, lock};

/// A gate: what waits in a stream for its word passes while the word is zero.
///
/// The gate is closed while its queue is *held*, unless it is *forced open*: by a host call that
/// cannot end while a gate is closed, or by the watch that has found a launch blocked. Its lock
/// guards all of that. Only the device reads the word without the lock. The word belongs to the
/// queue, and is not touched any more once that has gone, though the watch may still have the gate.
#[derive(Debug)]
pub(crate) struct Gate<W> {
    word: W,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: bool,
    forced_open: u32,
    /// A call has opened the holds of other processes, which come back with its end.
    in_call: bool,
    /// It is never closed again.
    stays_open: bool,
    /// The queue has gone, and its word with it.
    gone: bool,
    closed_since: Option<Instant>,
    held_ns: u64,
    opened_at: Option<Instant>,
}

impl<W: Word> Gate<W> {
    /// An open gate.
    pub(crate) fn new(word: W) -> Self {
        word.clear(OWN);
        Self { word, state: Mutex::new(State::default()) }
    }

    /// Says whether the queue is held. True if that is a change.
    pub(crate) fn set_held(&self, held: bool) -> bool {
        let mut state = lock(&self.state);
        let changed = state.held != held;
        state.held = held;
        self.apply(&mut state);
        changed
    }

    /// Opens the gate until [`Gate::end_force_open`], even if the queue is held. Bits of other
    /// processes are cleared once and not set again: those holds may have ended meanwhile. Those of
    /// a unit stay, and those of a queue that is held apart as well, or with `opens_alone` are
    /// cleared and come back. True if the gate was closed.
    pub(crate) fn force_open(&self, opens_alone: bool) -> bool {
        let mut state = lock(&self.state);
        state.forced_open += 1;
        let opens = opens_alone && self.word.is_alone() && !state.gone;
        let closed =
            state.closed_since.is_some() || opens && self.word.foreign_heartbeat().is_some();
        self.apply(&mut state);
        self.clear_foreign(&state);
        if opens && !std::mem::replace(&mut state.in_call, true) {
            self.word.begin_call();
        }
        closed
    }

    /// As [`Gate::force_open`] that opens what is held apart, for a call that has begun before the
    /// hold.
    pub(crate) fn open_for_call(&self) {
        let mut state = lock(&self.state);
        let is_called = state.forced_open > 0 && !state.gone && self.word.is_alone();
        if is_called && !std::mem::replace(&mut state.in_call, true) {
            self.word.begin_call();
        }
    }

    /// Whether the queue is held, as far as its gate was told.
    pub(crate) fn is_held(&self) -> bool {
        lock(&self.state).held
    }

    /// Ends one [`Gate::force_open`].
    pub(crate) fn end_force_open(&self) {
        let mut state = lock(&self.state);
        state.forced_open = state.forced_open.saturating_sub(1);
        self.apply(&mut state);
        if state.forced_open == 0 && std::mem::take(&mut state.in_call) && !state.gone {
            self.word.end_call();
        }
    }

    /// Opens the gate, and leaves it open from now on. This process does not close it again; what
    /// another one closed is opened once.
    pub(crate) fn stay_open(&self) {
        let mut state = lock(&self.state);
        state.stays_open = true;
        self.apply(&mut state);
        self.clear_foreign(&state);
    }

    /// Clears the bits of other processes, if the word is in no page of a source's.
    fn clear_foreign(&self, state: &State) {
        if !state.gone && !self.word.is_of_unit() && !self.word.is_alone() {
            self.word.clear(!0);
        }
    }

    /// Whether a hold of this queue keeps it closed that is no other's business, of this process or
    /// another one.
    pub(crate) fn is_held_alone(&self) -> bool {
        let in_page = self.word.is_of_unit() || self.word.is_alone();
        self.is_closed() || !in_page && self.foreign_heartbeat().is_some()
    }

    /// Whether it is never closed again.
    pub(crate) fn stays_open(&self) -> bool {
        lock(&self.state).stays_open
    }

    /// Where the device looks.
    pub(crate) const fn word(&self) -> &W {
        &self.word
    }

    /// The heartbeat of the other processes that hold the queue, if any does.
    pub(crate) fn foreign_heartbeat(&self) -> Option<u32> {
        let state = lock(&self.state);
        if state.gone { None } else { self.word.foreign_heartbeat() }
    }

    /// Ends the holds of other processes.
    pub(crate) fn end_foreign_holds(&self) {
        let state = lock(&self.state);
        if !state.gone {
            self.word.end_foreign();
        }
    }

    /// The queue goes, and opens its gate for the last time. The word may be given back after this.
    pub(crate) fn leave(&self) {
        let mut state = lock(&self.state);
        state.held = false;
        self.apply(&mut state);
        state.gone = true;
    }

    /// Whether this process has closed the gate.
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

    /// Whether this process has not closed the gate since then.
    pub(crate) fn is_open_since(&self, then: Option<Instant>) -> bool {
        let state = lock(&self.state);
        state.closed_since.is_none() && state.opened_at <= then
    }

    /// For how long the gate was closed in total, in nanoseconds.
    pub(crate) fn held_ns(&self) -> u64 {
        let state = lock(&self.state);
        state.held_ns + state.closed_since.map_or(0, span_ns)
    }

    fn apply(&self, state: &mut State) {
        if state.gone {
            return;
        }
        let close = state.held && state.forced_open == 0 && !state.stays_open;
        match (close, state.closed_since) {
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
}

fn span_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
