//! What the halves of a queue share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::api::StreamApi;
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::inner::Inner;
use crate::marks::{Marks, Place};
use crate::member::Member;
use crate::occupancy::Occupant;
use crate::predict::{Predictor, Spacing};
use crate::queue_config::Reason;
use crate::word::Taken;

/// A hardware queue: a stream and its gate. The last half that is dropped closes it.
#[derive(Debug)]
pub(crate) struct Queue<A: StreamApi> {
    pub(crate) device: Arc<Inner<A>>,
    pub(crate) stream: A::Stream,
    /// The stream is ours to end.
    pub(crate) owned: bool,
    /// The stream's handle stands for it on the launching thread alone.
    pub(crate) of_thread: bool,
    pub(crate) member: Arc<Member<Option<FlagWord>>>,
    /// There is a gate, with this word.
    pub(crate) word: Option<FlagWord>,
    /// The word is the caller's.
    pub(crate) shared: bool,
    /// No other queue is opened with the word as long as this is.
    pub(crate) taken: Option<Taken>,
    pub(crate) spacing: Spacing,
    pub(crate) predictor: Predictor,
    pub(crate) occupant: Occupant,
    /// What the command launched last is predicted to take, in nanoseconds.
    pub(crate) last_ns: AtomicU64,
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
    pub(crate) marks: Marks<A::Event>,
    /// Where it says what its gates are limited by.
    pub(crate) reason: Option<Reason>,
}

/// Of queues that have had a command that goes into several rings.
const SPREAD: &str = "while a graph with parallel branches, or another launch into several hardware \
                      queues, is in it, its gates are closed while all streams in shared hardware \
                      queues are held";

/// Entries of a command with a gate, the events beside it, and a fence.
const ENTRIES: u32 = 5;

/// For so long after a gate was passed, in nanoseconds, the event behind it may not be seen to have
/// completed.
const MARK_LAG_NS: u64 = 10_000;

/// What tells a hold from the one before: the heartbeat of the unit's holders, which changes with
/// each hold, and since when this process holds the queue.
pub(crate) type HoldStamp = (u32, Option<Instant>);

impl<A: StreamApi> Queue<A> {
    /// What the present hold is known by; `None` if nothing tells it from others.
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

    /// Whether nothing is known to be in flight.
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
        let settled = Duration::from_nanos(self.device.api.settle_ns() + MARK_LAG_NS);
        (since.elapsed() >= settled && self.member.launches.is_between()).then_some(since)
    }

    /// Whether nothing of the queue runs behind the closed gate; `None` if that is not known.
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
        // SAFETY: events of marks live until the queue goes.
        let place = self.marks.place(|event| unsafe { api.query(event) })?;
        if matches!(place, Place::AtGate | Place::BeforeGate) {
            return Ok(Some(place == Place::AtGate));
        }
        // SAFETY: the stream lives as long as the queue.
        let ended =
            self.is_idle() || self.owned && api.sees_ends() && unsafe { api.is_done(self.stream)? };
        Ok(if ended || place == Place::PastAll { Some(ended) } else { None })
    }

    /// Whether the scheduler of the node holds it, so that what it uses is told apart from what
    /// other processes do.
    pub(crate) fn is_in_unit(&self) -> bool {
        self.word.is_some_and(|word| word.unit_stamp().is_some())
    }

    /// Something was put into the stream. Only one thread at a time does.
    pub(crate) fn note_entry(&self) {
        let entries = self.entries.load(Ordering::Relaxed);
        self.entries.store(entries + 1, Ordering::Relaxed);
    }

    /// For how many more commands there is room, if each has a gate and a fence. A process that is
    /// held for no other one may fill most of the hardware queue, as without a scheduler.
    pub(crate) fn room(&self) -> u32 {
        let spared = self.word.is_some_and(|word| word.is_spared());
        let max = self.device.entries_in_unit(spared && !self.member.gate.is_closed());
        let [put, done] = [&self.entries, &self.entries_done].map(|n| n.load(Ordering::Relaxed));
        let used = u32::try_from(put.saturating_sub(done)).unwrap_or(u32::MAX);
        max.saturating_sub(used) / ENTRIES
    }

    /// For how long commands probably run on after the gate was closed.
    pub(crate) fn drain_time(&self) -> Duration {
        let last_ns = self.last_ns.load(Ordering::Relaxed);
        Duration::from_nanos(self.spacing.ns().max(last_ns))
    }
}

impl<A: StreamApi> Queue<A> {
    /// Destroys the events of its gates, which nothing asks for any more.
    fn end_marks(&mut self) {
        let api = &self.device.api;
        let entered = api.enter();
        // SAFETY: made by the queue, and nothing else refers to it.
        self.marks.drain().for_each(|event| unsafe { api.destroy_event(event) });
        drop(entered);
    }
}

impl<A: StreamApi> Drop for Queue<A> {
    fn drop(&mut self) {
        // The launched commands still run: after this, nothing could open the gate.
        self.device.gates.remove(&self.member);
        self.member.gate.leave();
        self.device.occupancy.leave(&self.occupant, Instant::now(), || true);
        self.end_marks();
        let word = self.word.filter(|_| !self.shared);
        let idle = self.is_idle() && !*self.stray.get_mut();
        self.device.retire(self.stream, self.owned, word, idle);
        // Last, so that the next queue with this word finds its gate open.
        drop(self.taken.take());
    }
}

/// A fence on its way from the launching half to the half that polls completions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence<E> {
    /// One past the last command it covers.
    pub(crate) upto: u64,
    pub(crate) seen: Seen<E>,
    /// Recorded before the first command it covers, if these are measured from there.
    pub(crate) start: Option<E>,
    /// When the first command it covers was launched, if the queue was probably idle then.
    pub(crate) launched: Option<Instant>,
    /// Commands since the fence before.
    pub(crate) commands: u32,
    /// What they were predicted to take, in nanoseconds, if all of them were.
    pub(crate) expected_ns: Option<u64>,
    /// The caller said so, or it was measured while no other queue had work on the device.
    pub(crate) is_certain: bool,
    /// Their kind, if they have the same.
    pub(crate) kind: Option<u32>,
    /// Of the time that is measured, what was pauses, in nanoseconds.
    pub(crate) pause_ns: u64,
    /// The same between `start` and the first command, as the host took to launch that.
    pub(crate) launching_ns: u64,
    /// Entries that the hardware queue got by then, with its own.
    pub(crate) entries: u64,
}

/// How the completion of a fence is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<E> {
    /// The event completes, and takes the time.
    Event(E),
    /// The event completes, and takes no time: what it covers counts as predicted.
    Plain(E),
    /// The stream ends: nothing was launched behind it. When something is, an event is recorded
    /// first, and another fence says so.
    End,
}
