//! The half that polls completions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration as Span, Instant};

use xsched_core::hal::{ErrorType, Forecast, Retire};
use xsched_core::id::CmdId;
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

use crate::api::StreamApi;
use crate::device_time::{Begin, Interval, Progress, Quality};
use crate::error::StreamError;
use crate::growing_ring::{RingReader, RingWriter};
use crate::queue::{Fence, Queue, Seen};

/// Polls the completions of a stream.
#[derive(Debug)]
pub struct StreamRetire<A: StreamApi> {
    pub(crate) queue: Arc<Queue<A>>,
    pub(crate) fences: RingReader<Fence<A::Event>>,
    pub(crate) back: RingWriter<A::Event>,
    pub(crate) plain_back: RingWriter<A::Event>,
    pub(crate) progress: Progress,
    /// Commands that have completed and were not charged yet.
    pub(crate) interval: Interval<A::Event>,
    /// One past the last command that was charged, and device time that was not told yet, in
    /// nanoseconds.
    pub(crate) upto: u64,
    pub(crate) busy_ns: u64,
    /// For how long the gate had been closed in total at the last measurement, in nanoseconds.
    pub(crate) held_ns: u64,
    pub(crate) turns: Turns,
}

/// Holds by the scheduler of the node.
#[derive(Debug)]
pub(crate) struct Turns {
    /// At the last measurement, the heartbeat of who holds it and whether it was held, as
    /// `FlagWord::unit_stamp` answers.
    stamp: Option<(u32, bool)>,
    /// True if the process ran in turns with others then.
    is_sliced: bool,
    /// When it was last seen to be held or let go.
    switched_at: Option<Instant>,
    /// When it was last seen to be held or let go, or to run beside others.
    disturbed_at: Option<Instant>,
}

impl Turns {
    /// State of a queue that is opened.
    pub(crate) const fn new(stamp: Option<(u32, bool)>) -> Self {
        Self { stamp, is_sliced: false, switched_at: None, disturbed_at: None }
    }
}

/// For this time after a switch of processes, what others had launched may run beside this one: a
/// time slice of the device, as requests that meet one take 1.5 to 2 ms more
/// (`benches/results/h100-2026-11-28-lab`).
const DEVICE_SLICE: Span = Span::from_millis(2);
/// A queue whose gate is closed has nothing to report for this time, in nanoseconds, unless the
/// hold ends, of which the runtime is told: the default time slice of policies.
const CLOSED_NS: u64 = 5_000_000;

impl<A: StreamApi> ErrorType for StreamRetire<A> {
    type Error = StreamError<A::Error>;
}

impl<A: StreamApi> Retire for StreamRetire<A> {
    /// Looks at the oldest fence first. One answer covers all that have completed. Device time of
    /// short commands may be told with later ones.
    fn poll_retired(&mut self) -> Result<Option<Retired>, Self::Error> {
        let mut upto = None;
        loop {
            let asked = Instant::now();
            match self.next_completed() {
                Ok(Some(fence)) => upto = self.account(&fence).or(upto),
                Ok(None) => {
                    self.progress.looked_at = Some(asked);
                    break;
                }
                // What completed before is told first.
                Err(_) if upto.is_some() => break,
                Err(source) => {
                    return Err(StreamError::Driver { during: "asking for completions", source });
                }
            }
        }
        let Some(count) = upto else { return Ok(None) };
        if self.fences.is_empty() {
            self.finish_interval();
        }
        // Release: a reader of the count finds the events that came back.
        self.queue.retired.store(count, Ordering::Release);
        if self.queue.word.is_some() {
            self.queue.gate_events.retire(count);
        }
        self.queue.device.gates.end(&self.queue.member, count);
        self.queue.vacate(Instant::now());
        let busy = Duration::from_ns(std::mem::take(&mut self.busy_ns));
        Ok(Some(Retired { upto: CmdId(count - 1), busy, outcome: Outcome::Ok }))
    }

    /// By what was measured of commands of the same kind.
    fn forecast(&mut self, cmd: CmdId) -> Option<Forecast> {
        let begin = self.progress.begin.max(self.opened_at());
        let (mut begin, mut work_ns, mut before) = (begin, 0_u64, None);
        self.fences.look_while(|fence| {
            if before == Some(fence.upto) {
                return true;
            }
            if before.is_none() {
                begin = begin.max(fence.batch.launched);
            }
            // What cannot be predicted is looked for all the time at first, and ever less often
            // then, as what is overdue.
            work_ns = work_ns.saturating_add(fence.batch.work.predicted_ns());
            before = Some(fence.upto);
            fence.upto <= cmd.0
        });
        before?;
        let gone_ns = u64::try_from(begin?.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut left = work_ns.saturating_sub(gone_ns);
        if let Some(closed) = self.queue.word.and_then(|_| self.queue.member.gate.closed_for()) {
            // What ran goes on to the next gate.
            let rest = self.queue.drain_time().checked_sub(closed);
            left = left.max(rest.map_or(CLOSED_NS, |rest| rest.as_nanos() as u64));
        }
        let overdue = Duration::from_ns(gone_ns.saturating_sub(work_ns.max(left)));
        Some(Forecast { left: Duration::from_ns(left), overdue })
    }
}

impl<A: StreamApi> StreamRetire<A> {
    /// When the gate was last opened.
    fn opened_at(&self) -> Option<Instant> {
        self.queue.word.and_then(|_| self.queue.member.gate.opened_at())
    }

    /// Takes the oldest fence out if it has completed.
    fn next_completed(&mut self) -> Result<Option<Fence<A::Event>>, A::Error> {
        let api = &self.queue.device.api;
        loop {
            let Some(fence) = self.fences.first() else { return Ok(None) };
            let done = match fence.seen {
                // SAFETY: events live until they are given back.
                Seen::Timed(event) | Seen::Plain(event) => unsafe { api.query(event)? },
                // SAFETY: the stream lives as long as the queue.
                Seen::End if unsafe { api.is_done(self.queue.stream)? } => true,
                Seen::End => {
                    // If something was launched behind it, the fence came again, with an event.
                    let next = self.fences.second();
                    if next.is_some_and(|next| next.upto == fence.upto) {
                        let _ = self.fences.pop();
                        continue;
                    }
                    false
                }
            };
            if done {
                self.queue.entries_done.store(fence.entries, Ordering::Relaxed);
                let _ = self.fences.pop();
            }
            return Ok(done.then_some(fence));
        }
    }

    /// A fence that comes again. What follows is measured from here.
    fn seen_before(&mut self, fence: &Fence<A::Event>) {
        match fence.seen {
            Seen::Timed(event) if self.interval.work.commands == 0 => {
                self.begin_interval(Some(event), self.progress.earliest);
            }
            Seen::Timed(event) => self.give_back(Some(event)),
            Seen::Plain(event) => self.give_plain_back(event),
            Seen::End => {}
        }
        if let Begin::At(start) = fence.batch.begin {
            self.give_back(Some(start));
        }
    }

    /// Counts the commands of a fence that has completed. One past the last of them, if the queue
    /// tells of them.
    fn account(&mut self, fence: &Fence<A::Event>) -> Option<u64> {
        if fence.upto > self.upto {
            self.upto = fence.upto;
            self.charge(fence);
        } else {
            // Seen by the end of the stream before.
            self.seen_before(fence);
        }
        // A fence that only ends a measurement is not told.
        let is_told = fence.is_asked || self.queue.is_in_unit();
        let retired = self.queue.retired.load(Ordering::Relaxed);
        (is_told && fence.upto > retired).then_some(fence.upto)
    }

    /// Charges the intervals that end with a fence.
    fn charge(&mut self, fence: &Fence<A::Event>) {
        let batch = &fence.batch;
        let earliest = self.progress.earliest.max(batch.launched);
        let expected_ns = batch.work.predicted_ns();
        self.progress.completed(batch.launched, self.opened_at(), expected_ns, Instant::now());
        let from = match batch.begin {
            Begin::Before => None,
            Begin::At(event) => Some(Some(event)),
            Begin::Nowhere => Some(None),
        };
        if let Some(from) = from {
            self.finish_interval();
            self.begin_interval(from, earliest);
        } else if batch.work.sample.is_some() && self.interval.to.is_some() {
            // A sample is measured by itself, however little work is in front of it.
            self.finish_interval();
        }
        self.interval.work.add(&batch.work);
        match fence.seen {
            Seen::Timed(event) => {
                let before = self.interval.to.replace(event);
                self.give_back(before);
            }
            Seen::Plain(event) => self.give_plain_back(event),
            Seen::End => {}
        }
        if self.interval.is_to_end() {
            self.finish_interval();
        }
    }

    fn begin_interval(&mut self, from: Option<A::Event>, earliest: Option<Instant>) {
        let before = std::mem::replace(&mut self.interval.from, from);
        self.give_back(before);
        self.interval.earliest = earliest;
    }

    /// Charges the commands that completed since the last measurement. What cannot be measured
    /// counts as predicted. The next interval begins where this one ends.
    fn finish_interval(&mut self) {
        if self.interval.work.commands == 0 {
            return;
        }
        let interval = std::mem::take(&mut self.interval);
        let held_ns = self.note_holds();
        let is_switched = self.turns.switched_at.is_some_and(|at| {
            // The commands of an interval that began after that were not held by it.
            interval.earliest.is_none_or(|earliest| earliest < at)
        });
        let elapsed = interval.from.zip(interval.to).and_then(|(from, to)| {
            // SAFETY: both have completed, and live until they are given back.
            unsafe { self.queue.device.api.elapsed_ns(from, to) }.ok()
        });
        self.give_back(interval.from);
        let after = elapsed.and_then(|ns| interval.earliest_after(ns));
        self.begin_interval(interval.to, self.progress.earliest.max(after));
        let used_ns = match elapsed {
            // How long another process held it meanwhile is not known.
            Some(elapsed_ns) if !is_switched => self.used_ns(&interval, elapsed_ns, held_ns),
            _ => interval.work.predicted_ns(),
        };
        self.busy_ns = self.busy_ns.saturating_add(used_ns);
    }

    /// Device time of an interval of this length, in which the process's own scheduler held it for
    /// `held_ns`, and from which estimates learn. All in nanoseconds.
    fn used_ns(&self, interval: &Interval<A::Event>, elapsed_ns: u64, held_ns: u64) -> u64 {
        let (queue, work) = (&self.queue, &interval.work);
        let quality = self.quality(interval.earliest);
        let is_clean = quality == Quality::Clean;
        let used_ns = if is_clean { work.without_launch(elapsed_ns) } else { elapsed_ns };
        if let Some(kind) = work.sample
            && queue.estimates.learn(kind, used_ns, quality)
        {
            queue.device.kind_collisions.fetch_add(1, Ordering::Relaxed);
        }
        match quality {
            Quality::Clean if !work.has_pauses => used_ns,
            Quality::Clean => work.expected_ns.unwrap_or(used_ns),
            Quality::Disturbed => work.expected_ns.unwrap_or(used_ns.saturating_sub(held_ns)),
        }
    }

    /// Disturbances of an interval that did not begin earlier.
    fn quality(&self, earliest: Option<Instant>) -> Quality {
        let queue = &self.queue;
        let is_shared = queue.device.occupancy.is_shared_since(earliest);
        let was_closed = queue.word.is_some() && !queue.member.gate.is_open_since(earliest);
        let is_after = |at: Instant| earliest.is_some_and(|earliest| earliest >= at + DEVICE_SLICE);
        let in_turns = self.turns.disturbed_at.is_some_and(|at| !is_after(at));
        if is_shared || was_closed || in_turns { Quality::Disturbed } else { Quality::Clean }
    }

    /// Takes note of what the scheduler of the node says of this process, and answers for how long
    /// the process's own scheduler has held the queue since the last time, in nanoseconds.
    fn note_holds(&mut self) -> u64 {
        let Some(word) = self.queue.word else { return 0 };
        let stamp = word.unit_stamp();
        let before = std::mem::replace(&mut self.turns.stamp, stamp);
        let was_held = stamp.is_some_and(|(_, held)| held) || stamp != before;
        let is_sliced = word.is_time_sliced();
        let was_sliced = std::mem::replace(&mut self.turns.is_sliced, is_sliced);
        if was_held || was_sliced || is_sliced {
            let now = Some(Instant::now());
            self.turns.disturbed_at = now;
            self.turns.switched_at = if was_held { now } else { self.turns.switched_at };
        }
        let held_ns = self.queue.member.gate.held_ns();
        held_ns - std::mem::replace(&mut self.held_ns, held_ns)
    }

    fn give_back(&mut self, event: Option<A::Event>) {
        let Some(event) = event else { return };
        // The launching half may have been dropped before.
        if self.back.is_abandoned() || self.back.push(event).is_err() {
            self.destroy(event);
        }
    }

    fn give_plain_back(&mut self, event: A::Event) {
        if self.plain_back.is_abandoned() || self.plain_back.push(event).is_err() {
            self.destroy(event);
        }
    }

    fn destroy(&self, event: A::Event) {
        // SAFETY: made by the queue, and nothing else refers to it any more.
        unsafe { self.queue.device.api.destroy_event(event) };
    }
}

impl<A: StreamApi> Drop for StreamRetire<A> {
    fn drop(&mut self) {
        let queue = Arc::clone(&self.queue);
        let entered = queue.device.api.enter();
        while let Some(fence) = self.fences.pop() {
            if let Seen::Timed(event) | Seen::Plain(event) = fence.seen {
                self.destroy(event);
            }
            if let Begin::At(event) = fence.batch.begin {
                self.destroy(event);
            }
        }
        let kept = [self.interval.from.take(), self.interval.to.take()];
        kept.into_iter().flatten().for_each(|event| self.destroy(event));
        drop(entered);
    }
}
