//! The half that polls completions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rtrb::{Consumer, Producer};
use xsched_core::hal::{ErrorType, Forecast, Retire};
use xsched_core::id::CmdId;
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

use crate::api::StreamApi;
use crate::error::StreamError;
use crate::occupancy::{Beside, Since};
use crate::queue::{Fence, Queue, Seen};
use crate::share::Measured;

/// Polls the completions of a stream.
#[derive(Debug)]
pub struct StreamRetire<A: StreamApi> {
    pub(crate) queue: Arc<Queue<A>>,
    pub(crate) fences: Consumer<Fence<A::Event>>,
    pub(crate) back: Producer<A::Event>,
    pub(crate) plain_back: Producer<A::Event>,
    /// Where the next measurement begins.
    pub(crate) from: Option<A::Event>,
    pub(crate) span: Span<A::Event>,
    pub(crate) held: Held,
    pub(crate) pace: Pace,
    /// When the next measurement begins.
    pub(crate) since: Since,
    /// What the word of a unit said at the last measurement, as `FlagWord::unit_stamp` answers.
    pub(crate) unit_stamp: Option<(u32, bool)>,
    /// Whether others ran at the same time, at the last measurement.
    pub(crate) ran_beside: bool,
    /// When a measurement last found that another process had held or let go the unit, or ran at
    /// the same time.
    pub(crate) turned_at: Option<Instant>,
}

/// Where in its work the device probably is. Completions may be seen long after they happened.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When what has not completed yet probably began.
    begin: Option<Instant>,
    /// When it was last seen not to have completed.
    looked_at: Option<Instant>,
    /// Before then it did not begin.
    earliest: Option<Instant>,
}

impl Pace {
    /// Something has completed by `now` that was predicted to take so long, and was launched at
    /// `launched` if the queue was idle. The gate was last opened at `opened`, probably before it
    /// began: it may have completed before a hold, and be seen after that.
    fn completed(
        &mut self,
        launched: Option<Instant>,
        opened: Option<Instant>,
        expected_ns: u64,
        now: Instant,
    ) {
        let begin = self.begin.max(launched).max(opened).unwrap_or(now);
        let end = begin.checked_add(std::time::Duration::from_nanos(expected_ns));
        self.earliest = self.earliest.max(launched).max(self.looked_at);
        let least = self.looked_at.take().unwrap_or(begin).min(now);
        self.begin = Some(end.unwrap_or(now).clamp(least, now));
    }

    /// When what has not completed yet began.
    const fn since(&self) -> Since {
        Since { probably: self.begin, earliest: self.earliest }
    }
}

/// Predicted work that is worth a measurement, in nanoseconds: reading the time between two events
/// takes the host microseconds.
const SPAN_NS: u64 = 20_000;
/// The same where more has completed, so that what another queue had a part in stays apart.
pub(crate) const SPLIT_NS: u64 = 50_000;
/// For so long after a process was held or let go by the scheduler of the node, what others had
/// launched before they were held may run beside it.
const TURNS: std::time::Duration = std::time::Duration::from_micros(2_500);
/// A queue whose gate is closed has nothing to report for so long, in nanoseconds, unless the hold
/// ends, of which the runtime is told.
const CLOSED_NS: u64 = 5_000_000;

/// Commands that completed since the last measurement.
#[derive(Debug)]
pub(crate) struct Span<E> {
    to: Option<E>,
    commands: u32,
    expected_ns: Option<u64>,
    is_certain: bool,
    kind: Option<u32>,
    /// For how long the stream had nothing to run in it, as predicted, in nanoseconds.
    pause_ns: u64,
    /// The same before its first command.
    launching_ns: u64,
    /// One past the last command that was accounted for.
    upto: u64,
}

impl<E> Default for Span<E> {
    fn default() -> Self {
        Self {
            to: None,
            commands: 0,
            expected_ns: Some(0),
            is_certain: true,
            kind: None,
            pause_ns: 0,
            launching_ns: 0,
            upto: 0,
        }
    }
}

impl<E> Span<E> {
    /// Adds what a fence covers. Gives back the event of the fence before.
    fn add(&mut self, fence: &Fence<E>, event: E) -> Option<E> {
        let first = self.commands == 0;
        self.kind = if first { fence.kind } else { self.kind.filter(|_| self.kind == fence.kind) };
        self.commands = self.commands.saturating_add(fence.commands);
        let both = self.expected_ns.zip(fence.expected_ns);
        self.expected_ns = both.map(|(sum, ns)| sum.saturating_add(ns));
        self.is_certain &= fence.is_certain;
        self.pause_ns = self.pause_ns.saturating_add(fence.pause_ns);
        self.launching_ns = self.launching_ns.saturating_add(fence.launching_ns);
        self.upto = fence.upto;
        self.to.replace(event)
    }

    /// Of a time that was measured, in nanoseconds, what was no pause of the host. Predicted work
    /// is none. The device begins a little later than the host is ready, so of a time that was
    /// hardly more than the host took, a quarter counts.
    fn without_pauses(&self, measured_ns: u64) -> u64 {
        let measured_ns = measured_ns.saturating_sub(self.launching_ns).max(measured_ns / 4);
        let least_ns = self.expected_ns.unwrap_or(measured_ns).min(measured_ns);
        measured_ns.saturating_sub(self.pause_ns).max(least_ns)
    }

    fn reset(&mut self) {
        *self = Self { upto: self.upto, ..Self::default() };
    }
}

/// Time for which the gate was closed, taken out of what was measured.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// As the gate counts it.
    seen_ns: u64,
    /// Of that, what no measurement has contained yet.
    open_ns: u64,
    /// Measurements since the gate was last seen to have been closed.
    age: u32,
}

/// Measurements after a hold that may still contain it: completions are seen late and together.
const HELD_AGE_MAX: u32 = 64;

impl Held {
    /// Device time of commands between two events that are `elapsed_ns` apart. A gate that was
    /// closed stopped them at some time in between, but nothing says when and for how much of it;
    /// so they took what was predicted, if that fits.
    fn used_ns(&mut self, elapsed_ns: u64, held_ns: u64, expected_ns: Option<u64>) -> u64 {
        let news_ns = held_ns.saturating_sub(self.seen_ns);
        self.open_ns += news_ns;
        self.seen_ns += news_ns;
        self.age = if news_ns > 0 { 0 } else { self.age.saturating_add(1) };
        let surplus = elapsed_ns.saturating_sub(expected_ns.unwrap_or(0));
        let held = surplus.min(self.open_ns);
        self.open_ns -= held;
        // What is left was no time of waiting: the command that ran at the hold went on for it.
        if held > self.open_ns || self.age >= HELD_AGE_MAX {
            self.open_ns = 0;
        }
        elapsed_ns - held
    }

    /// The queue was idle: a hold before that stopped nothing that comes.
    const fn forget(&mut self) {
        self.open_ns = 0;
    }

    /// What comes began after the last hold, up to which the gate counts so much.
    fn over(&mut self, held_ns: u64) {
        self.seen_ns = self.seen_ns.max(held_ns);
        self.open_ns = 0;
    }
}

/// What other than the queues of this process may have lengthened a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    None,
    /// The queue was held.
    Hold,
    /// Other processes take turns with this one.
    Turns,
}

impl<A: StreamApi> ErrorType for StreamRetire<A> {
    type Error = StreamError<A::Error>;
}

impl<A: StreamApi> Retire for StreamRetire<A> {
    /// Looks at the oldest fence first. One answer covers all that have completed. Device time of
    /// short commands may be told with later ones.
    fn poll_retired(&mut self) -> Result<Option<Retired>, Self::Error> {
        let (mut upto, mut busy_ns) = (None, 0_u64);
        loop {
            let asked = Instant::now();
            let next = self.next_completed();
            match next {
                // Seen by the end of the stream before.
                Ok(Some(fence)) if fence.upto <= self.span.upto => self.seen_before(&fence),
                Ok(Some(fence)) => {
                    let expected_ns = fence.expected_ns.unwrap_or(0);
                    let now = Instant::now();
                    self.pace.completed(fence.launched, self.opened_at(), expected_ns, now);
                    busy_ns = busy_ns.saturating_add(self.account(&fence));
                    if self.span.expected_ns.is_none_or(|ns| ns >= SPLIT_NS) {
                        busy_ns = busy_ns.saturating_add(self.measure());
                    }
                    upto = Some(fence.upto);
                }
                Ok(None) => {
                    self.pace.looked_at = Some(asked);
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
        if self.fences.is_empty() || self.span.expected_ns.is_none_or(|ns| ns >= SPAN_NS) {
            busy_ns = busy_ns.saturating_add(self.measure());
        }
        // Release: a reader of the count finds the events that came back.
        self.queue.retired.store(count, Ordering::Release);
        if self.queue.word.is_some() {
            self.queue.marks.retire(count);
        }
        self.queue.device.gates.end(&self.queue.member, count);
        self.queue.vacate(Instant::now());
        let busy = Duration::from_ns(busy_ns);
        Ok(Some(Retired { upto: CmdId(count - 1), busy, outcome: Outcome::Ok }))
    }

    /// By what was measured of commands of the same kind.
    fn forecast(&mut self, cmd: CmdId) -> Option<Forecast> {
        let begin = self.pace.begin.max(self.opened_at());
        let chunk = self.fences.read_chunk(self.fences.slots()).ok()?;
        let (first, second) = chunk.as_slices();
        let (mut begin, mut work_ns, mut before) = (begin, 0_u64, None);
        for fence in first.iter().chain(second) {
            if before == Some(fence.upto) {
                continue;
            }
            if before.is_none() {
                begin = begin.max(fence.launched);
            }
            // What cannot be predicted is looked for all the time at first, and ever less often
            // then, as what is overdue.
            work_ns = work_ns.saturating_add(fence.expected_ns.unwrap_or(0));
            before = Some(fence.upto);
            if fence.upto > cmd.0 {
                break;
            }
        }
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
            let Ok(fence) = self.fences.peek().copied() else { return Ok(None) };
            let done = match fence.seen {
                // SAFETY: events live until they are given back.
                Seen::Event(event) | Seen::Plain(event) => unsafe { api.query(event)? },
                // SAFETY: the stream lives as long as the queue.
                Seen::End if unsafe { api.is_done(self.queue.stream)? } => true,
                Seen::End => {
                    // If something was launched behind it, the fence came again, with an event.
                    let again = self.fences.read_chunk(2).is_ok_and(|two| {
                        let (first, second) = two.as_slices();
                        first.iter().chain(second).all(|next| next.upto == fence.upto)
                    });
                    if again {
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

    /// A fence that comes again. If what follows it would not be measured, it is from here.
    fn seen_before(&mut self, fence: &Fence<A::Event>) {
        match fence.seen {
            Seen::Event(event) => {
                let known = self.from.is_some() || self.span.to.is_some();
                let event = if known { Some(event) } else { self.from.replace(event) };
                self.give_back(event);
            }
            Seen::Plain(event) => self.give_plain_back(event),
            Seen::End => {}
        }
        self.give_back(fence.start);
    }

    /// Counts the commands of a fence that has completed. Device time, in nanoseconds, of what
    /// came before, if that ends here.
    fn account(&mut self, fence: &Fence<A::Event>) -> u64 {
        let Seen::Event(event) = fence.seen else {
            let busy_ns = self.measure();
            let from = self.from.take();
            self.give_back(from);
            if let Seen::Plain(event) = fence.seen {
                self.give_plain_back(event);
            }
            self.span.upto = fence.upto;
            let since = std::mem::replace(&mut self.since, self.pace.since());
            let counted = self.counted(fence.launched.or(since.probably), fence.expected_ns);
            return busy_ns.saturating_add(counted);
        };
        let mut busy_ns = 0;
        if fence.launched.is_some() || fence.start.is_some() {
            // The stream was idle before, or what came before was not measured: so nothing is
            // measured from there.
            busy_ns = self.measure();
            let from = std::mem::replace(&mut self.from, fence.start);
            self.give_back(from);
            self.held.forget();
            self.since = Since::launch(fence.launched);
        }
        let to = self.span.add(fence, event);
        self.give_back(to);
        if fence.launched.is_some() && fence.start.is_none() {
            // It counts as predicted, and what follows is measured from its end.
            busy_ns = busy_ns.saturating_add(self.measure());
        }
        busy_ns
    }

    /// Device time of the commands that completed since the last measurement, in nanoseconds. What
    /// cannot be measured counts as predicted.
    fn measure(&mut self) -> u64 {
        let Some(to) = self.span.to.take() else { return 0 };
        let queue = &self.queue;
        let held_ns = if queue.word.is_some() { queue.member.gate.held_ns() } else { 0 };
        let stamp = queue.word.and_then(|word| word.unit_stamp());
        let before = std::mem::replace(&mut self.unit_stamp, stamp);
        // How long another process held it meanwhile is not known.
        let was_held = stamp.is_some_and(|(_, held)| held) || stamp != before;
        let runs_beside = queue.word.is_some_and(|word| word.runs_beside());
        if std::mem::replace(&mut self.ran_beside, runs_beside) || runs_beside || was_held {
            self.turned_at = Some(Instant::now());
        }
        // What others had launched before they were held may have run beside it.
        let takes_turns = self.turned_at.is_some_and(|at| at.elapsed() < TURNS);
        let elapsed = self.from.filter(|_| !was_held).map(|from| {
            // SAFETY: both have completed, and live until they are given back.
            unsafe { queue.device.api.elapsed_ns(from, to) }
        });
        let since = std::mem::replace(&mut self.since, self.pace.since());
        if queue.word.is_some() && queue.member.gate.is_open_since(since.earliest) {
            self.held.over(held_ns);
        }
        let was_open = self.held.open_ns;
        if let Some(Ok(elapsed_ns)) = elapsed {
            self.since = self.since.after(since, elapsed_ns);
        }
        let used = match elapsed {
            Some(Ok(elapsed)) => {
                let expected_ns = self.span.expected_ns;
                let used_ns = self.held.used_ns(elapsed, held_ns, expected_ns);
                let disturbance = if takes_turns {
                    Disturbance::Turns
                } else if was_open == 0 && self.held.open_ns == 0 {
                    Disturbance::None
                } else {
                    Disturbance::Hold
                };
                if takes_turns {
                    // The device was another's when the host recorded the start.
                    self.span.launching_ns = 0;
                }
                let [used_ns, elapsed] = [used_ns, elapsed].map(|ns| self.span.without_pauses(ns));
                let used_ns = self.used_ns(since, used_ns, elapsed, disturbance);
                // Not the less of the two: commands that are predicted together take as long as
                // that on average, and some of them less.
                expected_ns.filter(|_| takes_turns).unwrap_or(used_ns)
            }
            _ => self.counted(since.probably, self.span.expected_ns),
        };
        self.span.reset();
        let from = self.from.replace(to);
        self.give_back(from);
        used
    }

    /// Commands that were not measured, and ran after `since`, count as predicted. Nanoseconds.
    fn counted(&self, since: Option<Instant>, expected_ns: Option<u64>) -> u64 {
        let ns = expected_ns.unwrap_or(0);
        self.queue.device.occupancy.counted(since, self.until(), ns);
        ns
    }

    /// When what has completed ended, probably.
    fn until(&self) -> Instant {
        self.pace.begin.unwrap_or_else(Instant::now)
    }

    /// What the commands used of the time that was measured, `open_ns` of which the gate was open,
    /// and learns from it. All in nanoseconds.
    fn used_ns(
        &self,
        since: Since,
        open_ns: u64,
        elapsed_ns: u64,
        disturbance: Disturbance,
    ) -> u64 {
        let (queue, span) = (&self.queue, &self.span);
        let measured = Measured {
            elapsed_ns: open_ns,
            shared_ns: 0,
            expected_ns: span.expected_ns,
            is_certain: span.is_certain,
        };
        let (used, beside) = queue.device.occupancy.used_ns(since, self.until(), measured);
        let commands = u64::from(span.commands);
        if let Some(kind) = span.kind
            && let Some(most) = elapsed_ns.checked_div(commands)
            && let Some(mean) = used.checked_div(commands)
        {
            let known = queue.predictor.expected_ns(kind);
            let was_first = beside == Beside::Later && self.ran_at_once(since, most, known);
            let undisturbed = disturbance == Disturbance::None;
            if disturbance == Disturbance::Turns {
                // Unless it is known how long they take where nothing runs beside them. They took
                // no longer than that, whatever was measured first.
                if !queue.predictor.is_certain(kind) {
                    queue.predictor.taken_in_turn(kind, most);
                } else if known.is_some_and(|known| most < known) {
                    queue.predictor.estimated(kind, most);
                }
            } else if undisturbed && beside == Beside::Nothing || was_first {
                queue.predictor.measured(kind, most);
            } else if undisturbed && mean < most && !queue.predictor.is_certain(kind) {
                queue.predictor.estimated(kind, mean);
            } else if known.is_none_or(|known| most < known) {
                // However they were disturbed, they took no longer than that.
                queue.predictor.estimated(kind, most);
            }
        }
        used
    }

    /// Whether a command probably ran as soon as its measurement began, though the queue may have
    /// been held since: it did not wait at its gate for as long as it was predicted to take.
    fn ran_at_once(&self, since: Since, took_ns: u64, known: Option<u64>) -> bool {
        self.span.commands == 1
            && self.opened_at() <= since.earliest
            && known.is_some_and(|known| took_ns < known.saturating_mul(2))
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
        while let Ok(fence) = self.fences.pop() {
            if let Seen::Event(event) | Seen::Plain(event) = fence.seen {
                self.destroy(event);
            }
            fence.start.into_iter().for_each(|event| self.destroy(event));
        }
        let kept = [self.from.take(), self.span.to.take()];
        kept.into_iter().flatten().for_each(|event| self.destroy(event));
        drop(entered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_that_is_seen_late_is_taken_to_have_been_in_time() {
        let ns = std::time::Duration::from_nanos;
        let start = Instant::now();
        let mut pace = Pace::default();
        pace.completed(Some(start), None, 100, start + ns(900));
        assert_eq!(pace.begin, Some(start + ns(100)));
        // Seen running at 600, and over at 650.
        pace.looked_at = Some(start + ns(600));
        pace.completed(None, None, 100, start + ns(650));
        assert_eq!(pace.begin, Some(start + ns(600)));
        // Faster than predicted.
        pace.completed(None, None, 500, start + ns(700));
        assert_eq!(pace.begin, Some(start + ns(700)));
        // After a pause.
        pace.completed(Some(start + ns(2_000)), None, 100, start + ns(2_500));
        assert_eq!(pace.begin, Some(start + ns(2_100)));
        assert_eq!(pace.since().earliest, Some(start + ns(2_000)), "of the last, too");
    }

    #[test]
    fn what_is_seen_after_a_hold_may_have_completed_before() {
        let ns = std::time::Duration::from_nanos;
        let start = Instant::now();
        let mut pace = Pace::default();
        pace.completed(Some(start), None, 100, start + ns(100));
        // Held from 250 to 900. What completed at 200 is seen at 950, and what ran at the hold
        // began at 200.
        pace.completed(None, Some(start + ns(900)), 100, start + ns(950));
        assert_eq!(pace.since().earliest, Some(start));
        // What is seen not to have completed after the hold has.
        pace.looked_at = Some(start + ns(960));
        pace.completed(None, Some(start + ns(900)), 100, start + ns(1_000));
        assert_eq!(pace.since().earliest, Some(start + ns(960)));
    }

    #[test]
    fn a_hold_that_is_over_before_a_measurement_begins_is_not_looked_for() {
        let mut held = Held::default();
        assert_eq!(held.used_ns(100, 1_000, Some(100)), 100);
        held.over(1_000);
        assert_eq!(held.used_ns(150, 1_000, Some(100)), 150);
        assert_eq!(held.open_ns, 0);
    }

    #[test]
    fn time_behind_a_closed_gate_is_not_device_time() {
        let mut held = Held::default();
        assert_eq!(held.used_ns(100, 0, Some(100)), 100);
        // A hold of 1,000, of which 950 lie in this measurement, and 50 while the command before
        // was still running.
        assert_eq!(held.used_ns(1_050, 1_000, Some(100)), 100);
        assert_eq!(held.used_ns(100, 1_000, Some(100)), 100);
    }

    #[test]
    fn a_hold_that_is_seen_too_early_is_taken_out_later() {
        let mut held = Held::default();
        assert_eq!(held.used_ns(100, 1_000, Some(100)), 100);
        assert_eq!(held.used_ns(1_100, 1_000, Some(100)), 100);
        assert_eq!(held.used_ns(100, 1_000, Some(100)), 100);
    }

    #[test]
    fn no_more_is_taken_out_than_was_held() {
        let mut held = Held::default();
        assert_eq!(held.used_ns(5_000, 300, Some(100)), 4_700);
        assert_eq!(held.used_ns(5_000, 300, None), 5_000);
    }
}
