//! State that the halves of a queue share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use xsched_hal_process::burst::Burst;

use crate::api::StreamApi;
use crate::device_time::{Begin, Estimates, Occupant, Work};
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::gate_events::{GateEvents, Position};
use crate::gated_stream::GatedStream;
use crate::inner::Inner;
use crate::queue_config::{Owner, Reason};
use crate::spacing::Spacing;
use crate::word::Taken;

/// A hardware queue: a stream and its gate. The last half that is dropped closes it.
#[derive(Debug)]
pub(crate) struct Queue<A: StreamApi> {
    pub(crate) device: Arc<Inner<A>>,
    pub(crate) stream: A::Stream,
    pub(crate) owner: Owner,
    pub(crate) member: Arc<GatedStream<Option<FlagWord>>>,
    /// Word of the gate, if it has one.
    pub(crate) word: Option<FlagWord>,
    /// The word is the caller's.
    pub(crate) shared: bool,
    /// No other queue is opened with the word as long as this is.
    pub(crate) taken: Option<Taken>,
    pub(crate) spacing: Spacing,
    pub(crate) estimates: Estimates,
    pub(crate) burst: Burst,
    pub(crate) occupant: Occupant,
    /// Nanoseconds that the command launched last is predicted to take.
    pub(crate) last_ns: AtomicU64,
    /// Predicted work between its last gates, in nanoseconds.
    pub(crate) gates_apart_ns: AtomicU64,
    /// Commands launched, and commands seen to have retired.
    pub(crate) launched: AtomicU64,
    pub(crate) retired: AtomicU64,
    /// Entries that the stream's hardware queue got, and those that are not in it any more.
    pub(crate) entries: AtomicU64,
    pub(crate) entries_done: AtomicU64,
    /// A gate was placed and the launch behind it failed, so the stream may wait for the word
    /// although nothing is in flight.
    pub(crate) stray: AtomicBool,
    /// Where its gates are in the stream.
    pub(crate) gate_events: GateEvents<A::Event>,
    /// Where it says what its gates are limited by.
    pub(crate) reason: Option<Reason>,
}

/// Of queues that have had a command that goes into several rings.
const SPREAD: &str = "while a graph with parallel branches, or another launch into several hardware \
                      queues, is in it, its gates are closed while all streams in shared hardware \
                      queues are held";

/// Entries of a command with a gate, the events beside it, and a fence.
const ENTRIES: u32 = 5;

/// Nanoseconds after a gate was passed in which the event behind it may not be seen to have
/// completed.
const EVENT_LAG_NS: u64 = 10_000;

/// Identity of a hold: the heartbeat of the unit's holders, which changes with
/// each hold, and since when this process holds the queue.
pub(crate) type HoldStamp = (u32, Option<Instant>);

impl<A: StreamApi> Queue<A> {
    /// Identity of the present hold; `None` if nothing tells it from others.
    pub(crate) fn hold_stamp(&self) -> Option<HoldStamp> {
        let (beat, _) = self.word?.unit_stamp()?;
        Some((beat, self.member.gate.closed_since()))
    }

    /// Says that it has had a command that goes into several rings.
    pub(crate) fn tell_spread(&self) {
        if self.word.is_none() {
            return;
        }
        tracing::info!(stream = self.member.stream, "{SPREAD}");
        let Some(reason) = &self.reason else { return };
        let mut reason = reason.lock().unwrap_or_else(PoisonError::into_inner);
        *reason =
            Some(reason.take().map_or_else(|| SPREAD.to_owned(), |r| format!("{r}; {SPREAD}")));
    }

    /// Tells whether the queue ends its stream.
    pub(crate) fn is_owned(&self) -> bool {
        self.owner == Owner::Queue
    }

    /// Tells whether nothing is known to be in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.retired.load(Ordering::Acquire) >= self.launched.load(Ordering::Relaxed)
    }

    /// Something was launched, and counted in `launched`.
    pub(crate) fn occupy(&self, now: Instant) {
        if self.occupant.has_left() {
            self.device.occupancy.enter(&self.occupant, now);
        }
    }

    /// Something has retired, and was counted in `retired`.
    pub(crate) fn vacate(&self, now: Instant) {
        if self.is_idle() {
            self.device.occupancy.leave(&self.occupant, now, || self.is_idle());
        }
    }

    /// The gate was closed. What runs goes on to the next gate.
    pub(crate) fn hold(&self, now: Instant) {
        let until = now.checked_add(self.drain_time()).unwrap_or(now);
        self.device.occupancy.hold(&self.occupant, until);
    }

    /// Since when the gate is closed, if what was passed before is seen by now, and every launch
    /// from now on sees that it is closed.
    fn settled_since(&self) -> Option<Instant> {
        let since = self.member.gate.closed_since()?;
        let settled = Duration::from_nanos(self.device.api.settle_ns() + EVENT_LAG_NS);
        (since.elapsed() >= settled && self.member.launches.is_between()).then_some(since)
    }

    /// Tells whether nothing of the queue runs behind the closed gate; `None` if that is not known.
    pub(crate) fn is_quiet(&self) -> Result<Option<bool>, StreamError<A::Error>> {
        if self.word.is_none() {
            return Ok(None);
        }
        if self.member.is_left_open() {
            return Ok(Some(self.is_idle()));
        }
        let Some(since) = self.settled_since() else { return Ok(Some(false)) };
        let quiet = self.is_stopped().map_err(StreamError::during("asking where a stream is"))?;
        if self.member.gate.closed_since() != Some(since) {
            // It was forced open meanwhile.
            return Ok(Some(false));
        }
        // A graph with gates of its own may wait at one of those.
        let has_gates_inside = self.taken.as_ref().is_some_and(Taken::may_wait_inside);
        let may_wait_inside = has_gates_inside && since.elapsed() > self.drain_time();
        Ok(quiet.filter(|quiet| *quiet || !may_wait_inside))
    }

    fn is_stopped(&self) -> Result<Option<bool>, A::Error> {
        let api = &self.device.api;
        // SAFETY: events of gates live until the queue goes.
        let position = self.gate_events.position(|event| unsafe { api.query(event) })?;
        if matches!(position, Position::AtGate | Position::BeforeGate) {
            return Ok(Some(position == Position::AtGate));
        }
        // SAFETY: the stream lives as long as the queue.
        let ended = self.is_idle()
            || self.is_owned() && api.sees_ends() && unsafe { api.is_done(self.stream)? };
        Ok(if ended || position == Position::PastAll { Some(ended) } else { None })
    }

    /// Tells whether the scheduler of the node holds it, so that what it uses is told apart from
    /// what other processes do.
    pub(crate) fn is_in_unit(&self) -> bool {
        self.word.is_some_and(|word| word.unit_stamp().is_some())
    }

    /// Something was put into the stream. Only one thread at a time does.
    pub(crate) fn note_entry(&self) {
        self.note_entries(1);
    }

    /// Notes that `more` entries were put into the stream.
    pub(crate) fn note_entries(&self, more: u64) {
        let entries = self.entries.load(Ordering::Relaxed);
        self.entries.store(entries + more, Ordering::Relaxed);
    }

    /// For how many more commands there is room, if each has a gate and a fence. A process that is
    /// held for no other one may fill most of the hardware queue, as without a scheduler.
    pub(crate) fn room(&self) -> u32 {
        self.entries_left() / ENTRIES
    }

    /// For how many more entries there is room.
    pub(crate) fn entries_left(&self) -> u32 {
        let [put, done] = [&self.entries, &self.entries_done].map(|n| n.load(Ordering::Relaxed));
        let used = u32::try_from(put.saturating_sub(done)).unwrap_or(u32::MAX);
        self.entries_in_unit().saturating_sub(used)
    }

    /// The entries that it may use where it is in a unit.
    pub(crate) fn entries_in_unit(&self) -> u32 {
        let spared = self.word.is_some_and(|word| word.is_spared());
        self.device.entries_in_unit(spared && !self.member.gate.is_closed())
    }

    /// For how long commands probably run on after the gate was closed.
    pub(crate) fn drain_time(&self) -> Duration {
        let [last_ns, apart_ns] =
            [&self.last_ns, &self.gates_apart_ns].map(|ns| ns.load(Ordering::Relaxed));
        Duration::from_nanos(self.spacing.ns().max(last_ns).max(apart_ns))
    }
}

impl<A: StreamApi> Queue<A> {
    /// Destroys the events of its gates, which nothing asks for any more.
    fn end_gate_events(&mut self) {
        let api = &self.device.api;
        let entered = api.enter();
        // SAFETY: made by the queue, and nothing else refers to it.
        self.gate_events.drain().for_each(|event| unsafe { api.destroy_event(event) });
        drop(entered);
    }
}

impl<A: StreamApi> Drop for Queue<A> {
    fn drop(&mut self) {
        // The launched commands still run: after this, nothing could open the gate.
        self.device.gates.remove(&self.member);
        self.member.gate.leave();
        self.device.occupancy.leave(&self.occupant, Instant::now(), || true);
        self.end_gate_events();
        let word = self.word.filter(|_| !self.shared);
        let idle = self.is_idle() && !*self.stray.get_mut();
        self.device.retire(self.stream, self.is_owned(), word, idle);
        // Last, so that the next queue with this word finds its gate open.
        drop(self.taken.take());
    }
}

/// Commands since the last fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<E> {
    pub(crate) begin: Begin<E>,
    /// When the first command was launched, if the queue was probably idle then.
    pub(crate) launched: Option<Instant>,
    pub(crate) work: Work,
}

impl<E> Default for Batch<E> {
    fn default() -> Self {
        Self { begin: Begin::Before, launched: None, work: Work::default() }
    }
}

/// A fence on its way from the launching half to the half that polls completions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence<E> {
    /// One past the last command it covers.
    pub(crate) upto: u64,
    pub(crate) seen: Seen<E>,
    pub(crate) batch: Batch<E>,
    /// The queue was asked for a fence there.
    pub(crate) is_asked: bool,
    /// Entries that the hardware queue got by then, with its own.
    pub(crate) entries: u64,
}

/// How the completion of a fence is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<E> {
    /// The event completes, and takes the time.
    Timed(E),
    /// The event completes, and takes no time.
    Plain(E),
    /// The stream ends: nothing was launched behind it. When something is, an event is recorded
    /// first, and another fence says so.
    End,
}
