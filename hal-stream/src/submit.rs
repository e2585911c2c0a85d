//! The half that launches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer};
use xsched_core::hal::{ErrorType, HalError, Submit};
use xsched_core::id::CmdId;

use crate::api::StreamApi;
use crate::command::StreamCommand;
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::launches::Call;
use crate::marks::Around;
use crate::predict::Placement;
use crate::queue::{Fence, HoldStamp, Queue, Seen};
use crate::reach::Reach;
use crate::retire::SPLIT_NS;
use crate::word::Taken;

/// Launches into a stream.
#[derive(Debug)]
pub struct StreamSubmit<A: StreamApi> {
    pub(crate) queue: Arc<Queue<A>>,
    pub(crate) fences: Producer<Fence<A::Event>>,
    pub(crate) events: Events<A>,
    pub(crate) placement: Placement,
    /// The hold that the gate placed last stands in, if that was closed then.
    pub(crate) behind: Option<HoldStamp>,
    pub(crate) batch: Batch<A::Event>,
    /// The last fence, if it is seen by the end of the stream.
    pub(crate) end: Option<Fence<A::Event>>,
    /// Fences since the last that was to be measured.
    pub(crate) unmeasured: u32,
    /// Commands since the last one that was measured by itself.
    pub(crate) together: u32,
    /// What comes after the last fence can be measured from it.
    pub(crate) continues: bool,
    /// When what was launched should have ended, as predicted.
    pub(crate) busy_until: Option<Instant>,
    /// When it was asked last, all that was launched before had ended: the host is the slower one.
    pub(crate) is_dry: bool,
}

/// Of fences behind a lone command, or behind little work, one in so many is measured. What the
/// others cover counts as predicted.
const MEASURED: u32 = 16;
/// In a queue that the node's scheduler holds, so much predicted work, in nanoseconds, is seen to
/// end before the next gate: the scheduler is to know when what it held has ended.
const SEEN_NS: u64 = 500_000;
/// One of so many commands is measured by itself. Not a number in which commands often repeat.
const TOGETHER: u32 = 31;

/// Whether it is known to be less work than is worth a measurement.
fn is_little(expected_ns: Option<u64>) -> bool {
    expected_ns.is_some_and(|ns| ns < SPLIT_NS)
}

/// A fence that is missed is put again later.
fn log_missed<E: std::error::Error + 'static>(fenced: Result<(), StreamError<E>>) {
    if let Err(error) = fenced {
        tracing::debug!(%error, "a fence was not put");
    }
}

/// What a command needs besides its launch.
#[derive(Clone, Copy, Debug)]
struct Prepared {
    /// When that was.
    at: Instant,
    /// What it will take, in nanoseconds, if that is known.
    expected_ns: Option<u64>,
    /// The caller said so, or it was measured while no other queue had work on the device.
    is_certain: bool,
    /// It is alone and has been measured before, so the end of the stream is fence enough.
    light: bool,
    /// It is alone, or probably so, and counts as predicted.
    counted: bool,
    /// There is a gate in front of it.
    gated: bool,
    /// It is measured by itself.
    by_itself: bool,
    /// For how long the stream had nothing to run before, as predicted, in nanoseconds, if the host
    /// is the slower one.
    pause_ns: Option<u64>,
}

/// Commands since the last fence.
#[derive(Debug)]
pub(crate) struct Batch<E> {
    start: Option<E>,
    launched: Option<Instant>,
    commands: u32,
    expected_ns: Option<u64>,
    is_certain: bool,
    kind: Option<u32>,
    /// Of the time that is measured, what was pauses, in nanoseconds.
    pause_ns: u64,
    /// When `start` was recorded, until the first command has been launched, if the stream had
    /// nothing to run; and how long that took, in nanoseconds, for which the device waited.
    recorded: Option<Instant>,
    launching_ns: u64,
    /// There is nothing to measure it from: it counts as predicted.
    is_counted: bool,
}

impl<E> Default for Batch<E> {
    fn default() -> Self {
        Self {
            start: None,
            launched: None,
            commands: 0,
            expected_ns: Some(0),
            is_certain: true,
            kind: None,
            pause_ns: 0,
            recorded: None,
            launching_ns: 0,
            is_counted: false,
        }
    }
}

impl<E> Batch<E> {
    /// `teaches`: what is measured says how long the kind takes.
    fn add(&mut self, kind: u32, prepared: &Prepared, teaches: bool) {
        let first = self.commands == 0;
        // Pauses are measured with the commands, but for one before the first if that has a start.
        let pause_ns = prepared.pause_ns.filter(|_| !first || self.start.is_none());
        let same = teaches && pause_ns.is_none() && (first || self.kind == Some(kind));
        self.kind = same.then_some(kind);
        self.pause_ns = self.pause_ns.saturating_add(pause_ns.unwrap_or(0));
        self.commands = self.commands.saturating_add(1);
        let sum = self.expected_ns.zip(prepared.expected_ns);
        self.is_certain &= prepared.is_certain;
        self.expected_ns = sum.map(|(before, ns)| before.saturating_add(ns));
    }
}

/// Events that are used again and again.
#[derive(Debug)]
pub(crate) struct Events<A: StreamApi> {
    queue: Arc<Queue<A>>,
    back: Consumer<A::Event>,
    /// Those that take no time.
    plain_back: Consumer<A::Event>,
    /// One that was recorded for a command that was not launched then.
    spare: Option<A::Event>,
}

impl<A: StreamApi> Events<A> {
    pub(crate) const fn new(
        queue: Arc<Queue<A>>,
        back: Consumer<A::Event>,
        plain_back: Consumer<A::Event>,
    ) -> Self {
        Self { queue, back, plain_back, spare: None }
    }

    /// Records an event that takes the time in the stream.
    fn record(&mut self) -> Result<A::Event, StreamError<A::Error>> {
        self.queue.member.launches.goes_on(Call::Event);
        let event = match self.spare.take().or_else(|| self.back.pop().ok()) {
            Some(event) => Ok(event),
            None => self.queue.device.api.create_event(),
        };
        self.recorded(event)
    }

    /// Records an event that takes no time.
    fn record_plain(&mut self) -> Result<A::Event, StreamError<A::Error>> {
        self.queue.member.launches.goes_on(Call::Event);
        let event = match self.plain_back.pop() {
            Ok(event) => Ok(event),
            Err(_) => self.queue.device.api.create_plain_event(),
        };
        self.recorded(event)
    }

    /// Records an event beside a gate, if the driver has one.
    fn record_mark(&self) -> Option<A::Event> {
        let event = match self.queue.marks.take_event() {
            Some(event) => Ok(event),
            None => self.queue.device.api.create_plain_event(),
        };
        let recorded = self.recorded(event);
        recorded.inspect_err(|error| tracing::debug!(%error, "a gate has no events")).ok()
    }

    fn recorded(
        &self,
        event: Result<A::Event, A::Error>,
    ) -> Result<A::Event, StreamError<A::Error>> {
        let api = &self.queue.device.api;
        let event = event.map_err(StreamError::during("making an event"))?;
        // SAFETY: both live as long as the queue.
        let recorded = unsafe { api.record(event, self.queue.stream) };
        if let Err(source) = recorded {
            // SAFETY: made by us, and nothing else refers to it.
            unsafe { api.destroy_event(event) };
            return Err(StreamError::Driver { during: "recording an event", source });
        }
        self.queue.note_entry();
        Ok(event)
    }
}

impl<A: StreamApi> Drop for Events<A> {
    fn drop(&mut self) {
        let api = &self.queue.device.api;
        let entered = api.enter();
        while let Some(event) =
            self.spare.take().or_else(|| self.back.pop().or_else(|_| self.plain_back.pop()).ok())
        {
            // SAFETY: made by us, and nothing else refers to it any more.
            unsafe { api.destroy_event(event) };
        }
        drop(entered);
    }
}

impl<A: StreamApi> ErrorType for StreamSubmit<A> {
    type Error = StreamError<A::Error>;
}

impl<A: StreamApi> Submit for StreamSubmit<A> {
    type Payload = StreamCommand<A>;

    /// Puts a gate in front if it is time for one. A fence that cannot be put is left out: it is
    /// missed and put again later, while the command has been launched; unless the device is lost.
    fn launch(
        &mut self,
        cmd: CmdId,
        payload: &StreamCommand<A>,
        fence: bool,
    ) -> Result<(), Self::Error> {
        let queue = Arc::clone(&self.queue);
        let api = &queue.device.api;
        // Another thread could put none later.
        let fence = fence || queue.of_thread;
        let entered = api.enter().map_err(StreamError::during("choosing the device"))?;
        let inside = queue.member.launches.begin(Call::Launch);
        let (gates, reach) = (&queue.device.gates, payload.reach(api));
        if gates.begin(&queue.member, cmd.count(), reach) {
            queue.tell_spread();
        }
        let prepared = self.prepare(payload, fence, cmd);
        let prepared = prepared.inspect_err(|_| gates.fail(&queue.member, cmd.count()))?;
        let fence = fence || prepared.by_itself;
        let call = if reach == Reach::Copies { Call::Copy } else { Call::Launch };
        queue.member.launches.goes_on(call);
        // SAFETY: the stream lives as long as the queue, and the device is current.
        let launched = unsafe { payload.launch_into(api, queue.stream) };
        if let Err(source) = launched {
            queue.stray.fetch_or(prepared.gated, Ordering::Relaxed);
            gates.fail(&queue.member, cmd.count());
            return Err(StreamError::Driver { during: "launching a command", source });
        }
        // Pauses that are not seen would count as well, as the host is slower the more of them.
        let teaches = prepared.by_itself || !queue.is_in_unit();
        self.batch.add(payload.kind, &prepared, teaches);
        queue.note_entry();
        if let Some(recorded) = self.batch.recorded.take() {
            let waited = api.now().saturating_duration_since(recorded);
            self.batch.launching_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        }
        let begin = self.busy_until.max(Some(prepared.at)).unwrap_or(prepared.at);
        let work = Duration::from_nanos(prepared.expected_ns.unwrap_or(0));
        self.busy_until = begin.checked_add(work);
        let stops_inside = queue.taken.as_ref().is_some_and(Taken::take_inside);
        let last_ns = prepared.expected_ns.filter(|_| !stops_inside).unwrap_or(0);
        queue.last_ns.store(last_ns, Ordering::Relaxed);
        queue.launched.store(cmd.count(), Ordering::Relaxed);
        queue.occupy(prepared.at);
        if fence {
            let fenced = self.put_fence(cmd, prepared.light, prepared.counted);
            match fenced {
                // On a lost device no completion will be seen.
                Err(error) if error.kind().is_sticky() => return Err(error),
                fenced => log_missed(fenced),
            }
        }
        drop(inside);
        drop(entered);
        Ok(())
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Self::Error> {
        let queue = Arc::clone(&self.queue);
        if queue.of_thread {
            // All commands have fences, but for one that was missed: only its thread can put that.
            return if self.batch.commands == 0 { Ok(()) } else { Err(StreamError::OtherThread) };
        }
        let entered = queue.device.api.enter();
        let entered = entered.map_err(StreamError::during("choosing the device"))?;
        let inside = queue.member.launches.begin(Call::Event);
        let fenced = match self.end {
            // Nothing was launched since, so it is the same fence once more.
            Some(end) => self.record_late(end).map(|()| self.end = None),
            None => self.put_fence(upto, false, false),
        };
        drop(inside);
        drop(entered);
        fenced
    }

    fn room(&self) -> Option<u32> {
        self.queue.is_in_unit().then(|| self.queue.room())
    }
}

impl<A: StreamApi> StreamSubmit<A> {
    /// What goes into the stream before a command: a gate, or where nothing is in flight an event
    /// from which the command's time counts.
    fn prepare(
        &mut self,
        payload: &StreamCommand<A>,
        fence: bool,
        cmd: CmdId,
    ) -> Result<Prepared, StreamError<A::Error>> {
        let queue = Arc::clone(&self.queue);
        let at = Instant::now();
        let measured_ns = queue.predictor.expected_ns(payload.kind);
        let expected_ns = payload.expected_ns.or(measured_ns);
        let is_certain = payload.expected_ns.is_some() || queue.predictor.is_certain(payload.kind);
        let hold = queue.word.filter(FlagWord::is_set).map(|_| queue.hold_stamp());
        let spacing_ns = queue.spacing.ns();
        let is_due = hold.is_some() || self.placement.is_due(expected_ns, spacing_ns);
        let seen = queue.is_idle();
        let likely = !seen && self.should_have_ended(at);
        let sees_ends = queue.device.api.sees_ends();
        // Nothing is measured while it is held.
        let by_itself = hold.is_none() && self.is_by_itself(expected_ns);
        let seldom = by_itself || self.unmeasured + 1 >= MEASURED;
        let counted = sees_ends && measured_ns.is_some() && !seldom;
        // Asking a busy stream takes the driver microseconds, so it is not asked about little work
        // where the answer does not matter.
        let presumed =
            likely && counted && !(queue.word.is_some() && is_due) && is_little(expected_ns);
        let idle = seen || likely && !presumed && self.has_ended();
        if by_itself {
            self.is_dry = idle || sees_ends && self.has_ended();
        }
        // An event is work too, so it comes after the question.
        if let Some(end) = self.end.take()
            && !seen
        {
            log_missed(self.record_late(end));
        }
        let pause_ns = self.pause_ns(at);
        let is_empty = idle || by_itself && self.is_dry;
        if is_empty {
            self.busy_until = self.busy_until.min(Some(at));
        }
        let alone = idle || presumed;
        let ends_batch = self.batch.commands > 0 && (by_itself || is_due && self.is_to_be_seen());
        if ends_batch || expected_ns.is_none() && self.batch.is_counted {
            // What comes now is measured, so what came before ends here.
            let before = CmdId(cmd.0.saturating_sub(1));
            log_missed(self.put_fence(before, false, false));
        }
        if self.batch.commands == 0 {
            let follows = !alone && self.continues && !is_empty;
            let in_unit = queue.is_in_unit();
            self.begin_batch(alone.then_some(at), counted, follows, is_empty && in_unit);
        }
        // One closed gate is enough for a hold, as long as something is in flight in front of it.
        let is_behind = !idle && hold.flatten().is_some_and(|hold| self.behind == Some(hold));
        let closed = hold.is_some() && !is_behind;
        let mut gated = false;
        if let Some(word) = queue.word
            && self.placement.gate(idle, closed, expected_ns, spacing_ns)
        {
            self.place_gate(word.device, cmd.count())?;
            self.behind = hold.flatten();
            gated = true;
        }
        let light = fence && idle && counted && queue.owned;
        let counted = alone && counted;
        Ok(Prepared { at, expected_ns, is_certain, light, counted, gated, by_itself, pause_ns })
    }

    /// For how long the stream has had nothing to run, as predicted, in nanoseconds, if the host is
    /// the slower one.
    fn pause_ns(&self, now: Instant) -> Option<u64> {
        let end = self.busy_until.filter(|_| self.is_dry)?;
        u64::try_from(now.saturating_duration_since(end).as_nanos()).ok()
    }

    /// Whether a command is measured by itself, to tell how long its kind takes, where the node's
    /// scheduler holds the queue. Commands of different kinds that are measured together say
    /// nothing of either, and a kind may come to take longer.
    fn is_by_itself(&mut self, expected_ns: Option<u64>) -> bool {
        self.together = if self.queue.is_in_unit() { (self.together + 1) % TOGETHER } else { 1 };
        self.queue.is_in_unit() && (expected_ns.is_none() || self.together == 0)
    }

    /// Whether what was launched since the last fence is so much that it gets one of its own.
    fn is_to_be_seen(&self) -> bool {
        self.queue.is_in_unit() && self.batch.expected_ns.is_none_or(|ns| ns >= SEEN_NS)
    }

    /// Puts a gate in front of a command, `upto` being one past it, and events around the gate.
    /// Without them it is not known whether the stream waits there.
    fn place_gate(&self, word: u64, upto: u64) -> Result<(), StreamError<A::Error>> {
        let queue = &self.queue;
        let launches = &queue.member.launches;
        launches.goes_on(Call::Event);
        let before = self.events.record_mark();
        launches.goes_on(Call::Gate);
        // SAFETY: the word is given back only after the stream got past all that is in it.
        let placed = unsafe { queue.device.api.wait_zero(queue.stream, word) };
        if let Err(source) = placed {
            before.into_iter().for_each(|event| queue.marks.keep_event(event));
            return Err(StreamError::Driver { during: "placing a gate", source });
        }
        queue.note_entry();
        launches.goes_on(Call::Event);
        let after = before.and_then(|_| self.events.record_mark());
        if let (Some(before), None) = (before, after) {
            queue.marks.keep_event(before);
        }
        queue.marks.add(upto, before.zip(after).map(|(before, after)| Around { before, after }));
        Ok(())
    }

    /// Begins to count what the next fence covers. `alone`: when, if nothing is in flight.
    /// `counted`: it counts as predicted. `follows`: else it is measured from the last fence.
    /// `is_dry`: everything in the stream has run, as the driver said.
    fn begin_batch(&mut self, alone: Option<Instant>, counted: bool, follows: bool, is_dry: bool) {
        self.batch.launched = alone;
        // There is one if the launch after it failed. Time has passed since.
        self.events.spare = self.batch.start.take().or(self.events.spare);
        self.batch.is_counted = counted && !follows;
        if !counted && !follows {
            // Without it the commands count as predicted.
            self.batch.start = self.events.record().ok();
            self.batch.recorded = is_dry.then(|| self.queue.device.api.now());
        }
    }

    /// Whether everything in the stream should have run by now, as predicted, though no poll has
    /// seen it yet.
    fn should_have_ended(&self, now: Instant) -> bool {
        let covered = self.batch.commands == 0;
        covered && self.busy_until.is_none_or(|end| now >= end) && self.queue.device.api.sees_ends()
    }

    /// Whether everything in the stream has run, though no poll has seen it yet.
    fn has_ended(&self) -> bool {
        self.queue.member.launches.goes_on(Call::Query);
        // SAFETY: the stream lives as long as the queue.
        unsafe { self.queue.device.api.is_done(self.queue.stream) }.unwrap_or(false)
    }

    /// Records the event of a fence that was to be seen by the end of the stream. Without one it
    /// is missed, and put again.
    fn record_late(&mut self, mut fence: Fence<A::Event>) -> Result<(), StreamError<A::Error>> {
        fence.seen = Seen::Event(self.events.record()?);
        fence.entries = self.queue.entries.load(Ordering::Relaxed);
        self.push(fence);
        self.continues = true;
        Ok(())
    }

    fn push(&mut self, fence: Fence<A::Event>) {
        // It has room: only this half fills it, and it is looked at before.
        let _ = self.fences.push(fence);
    }

    fn put_fence(
        &mut self,
        last: CmdId,
        light: bool,
        counted: bool,
    ) -> Result<(), StreamError<A::Error>> {
        // One more for an event that is recorded late.
        if self.fences.slots() < 2 {
            return Err(StreamError::FencesFull { fences: self.fences.buffer().capacity() });
        }
        let Batch { start, launched, commands, expected_ns, is_certain, kind, .. } = self.batch;
        let Batch { pause_ns, launching_ns, .. } = self.batch;
        let plain = start.is_none()
            && self.queue.device.api.sees_ends()
            && (counted && expected_ns.is_some() || is_little(expected_ns));
        let seen = if light {
            Seen::End
        } else if plain {
            Seen::Plain(self.events.record_plain()?)
        } else {
            Seen::Event(self.events.record()?)
        };
        self.batch = Batch::default();
        self.continues = matches!(seen, Seen::Event(_));
        self.unmeasured = if self.continues { 0 } else { self.unmeasured + 1 };
        let upto = last.count();
        let fence = Fence {
            upto,
            seen,
            start,
            launched,
            commands,
            expected_ns,
            is_certain,
            kind,
            pause_ns,
            launching_ns,
            entries: self.queue.entries.load(Ordering::Relaxed),
        };
        self.end = light.then_some(fence);
        self.push(fence);
        Ok(())
    }
}

impl<A: StreamApi> Drop for StreamSubmit<A> {
    fn drop(&mut self) {
        // Of commands that no fence covers yet. It is destroyed with the spare one.
        self.events.spare = self.batch.start.take().or(self.events.spare);
    }
}
