//! Gates, and who may open and close them.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::sync::{Mutex, Word, lock};

/// The bit of a flag word that belongs to the process that owns the stream. The others belong to
/// schedulers in other processes; the device waits until all are clear.
pub(crate) const OWN: u32 = 1;

/// A gate: what waits in a stream for its word passes while the word is zero.
///
/// Whoever holds the queue *wants* it closed. It is closed while that is wanted and nobody
/// *lifts* it: a host call that cannot end while a gate is closed, or the watch that has found a
/// launch blocked. All that is decided under its lock; only the device reads the word without.
#[derive(Debug)]
pub(crate) struct Gate<W> {
    word: W,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    wanted: bool,
    lifts: u32,
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

    /// Closes it, or opens it, as far as the holder is concerned. True if that was news.
    pub(crate) fn want(&self, closed: bool) -> bool {
        let mut state = lock(&self.state);
        let news = state.wanted != closed;
        state.wanted = closed;
        self.carry_out(&mut state);
        news
    }

    /// Opens it, whatever is wanted, until [`Gate::put_down`]. Bits of other processes are cleared
    /// once and not set again: they might have been given up since. True if it was closed.
    pub(crate) fn lift(&self) -> bool {
        let mut state = lock(&self.state);
        state.lifts += 1;
        let closed = state.closed_since.is_some();
        self.carry_out(&mut state);
        self.word.clear(!0);
        closed
    }

    /// The end of a lift.
    pub(crate) fn put_down(&self) {
        let mut state = lock(&self.state);
        state.lifts = state.lifts.saturating_sub(1);
        self.carry_out(&mut state);
    }

    /// If other processes hold it: what changes whenever they say that they are alive.
    pub(crate) fn others(&self) -> Option<u32> {
        self.word.others()
    }

    /// Ends the holds of other processes.
    pub(crate) fn forget_others(&self) {
        self.word.clear(!OWN);
    }

    /// Whether it is closed.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed_since.is_some()
    }

    /// For how long it has been closed, if it is.
    pub(crate) fn closed_for(&self) -> Option<Duration> {
        lock(&self.state).closed_since.map(|since| since.elapsed())
    }

    /// When it was last opened.
    pub(crate) fn opened_at(&self) -> Option<Instant> {
        lock(&self.state).opened_at
    }

    /// For how long it was closed in all, in nanoseconds.
    pub(crate) fn held_ns(&self) -> u64 {
        let state = lock(&self.state);
        state.held_ns + state.closed_since.map_or(0, span_ns)
    }

    fn carry_out(&self, state: &mut State) {
        let close = state.wanted && state.lifts == 0;
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
