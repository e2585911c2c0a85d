//! The half that launches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use xsched_core::hal::{ErrorType, HalError, LaunchMode, Submit};
use xsched_core::id::CmdId;
use xsched_core::scheduler::STALL;

use crate::api::StreamApi;
use crate::command::StreamCommand;
use crate::device_time::{Begin, Work, is_little};
use crate::error::StreamError;
use crate::events::Events;
use crate::flags::FlagWord;
use crate::gate_events::EventPair;
use crate::growing_ring::RingWriter;
use crate::launches::Call;
use crate::queue::{Batch, Fence, HoldStamp, Queue, Seen};
use crate::queue_config::Owner;
use crate::reach::Reach;
use crate::spacing::Placement;
use crate::word::Taken;

/// Launches into a stream.
#[derive(Debug)]
pub struct StreamSubmit<A: StreamApi> {
    pub(crate) queue: Arc<Queue<A>>,
    pub(crate) fences: RingWriter<Fence<A::Event>>,
    pub(crate) events: Events<A>,
    pub(crate) placement: Placement,
    /// The hold that the gate placed last stands in, if that was closed then.
    pub(crate) behind: Option<HoldStamp>,
    /// Commands since the last fence.
    pub(crate) batch: Batch<A::Event>,
    /// The last fence, if it is seen by the end of the stream.
    pub(crate) end: Option<Fence<A::Event>>,
    /// Predicted work since the last timed event, in nanoseconds; `None` if nothing can be measured
    /// from there.
    pub(crate) since_event_ns: Option<u64>,
    /// Commands since the last sample.
    pub(crate) since_lone_sample: u32,
    /// When what was launched should have ended, as predicted.
    pub(crate) busy_until: Option<Instant>,
    /// At the last sample all that was launched before had ended: the host is the slower one.
    pub(crate) stream_drained: bool,
    /// The launch that is under way.
    pub(crate) begun: Option<Begun>,
    pub(crate) mode: LaunchMode,
    /// A burst has ended, and nothing was in the stream.
    pub(crate) is_drained: bool,
    /// Holds of the unit that have ended, and when that changed or it was held last.
    pub(crate) holds_ended: u32,
    pub(crate) held_at: Instant,
    /// Predicted work between gates, in nanoseconds.
    pub(crate) spacing_ns: u64,
    /// Entries that the stream had got by the last fence.
    pub(crate) entries_fenced: u64,
    /// When the burst was opened that may be under way.
    pub(crate) in_burst_since: Option<Instant>,
    /// The stream is not touched before the next launch.
    pub(crate) is_sealed: bool,
}

/// A launch from its begin to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    prepared: Prepared,
    /// A fence was asked for behind it.
    is_fenced: bool,
}

/// Predicted work, in nanoseconds, that is seen to end before the next gate in a queue that the
/// node's scheduler holds: the scheduler is to know when what it held has ended. A fence takes a
/// device no longer than a gate, 2.3 µs of an H200, so this is less than 0.5 %.
const SEEN_NS: u64 = 500_000;

/// How much rarer samples are while no scheduler has a use for them. A sample has two events, of
/// about a microsecond each: for one launch in 31 these are 65 ns a launch, more than the whole
/// cost that a launch may have then, and for one in 496 they are 4.
const UNATTENDED_SAMPLE: u32 = 16;

/// How long a burst lasts at most: half of the time after which a queue counts as one that does not
/// go on. Its command ends with it, and until then the queue has work.
const BURST_MAX: Duration = Duration::from_nanos(STALL.as_ns() / 2);
/// How long a thread that only puts a fence waits for a launch within a burst to return, which
/// takes the driver some microseconds unless it waits for the device.
const FENCE_PATIENCE: Duration = Duration::from_millis(1);

/// A fence that is missed is put again later.
fn log_missed<E: std::error::Error + 'static>(fenced: Result<(), StreamError<E>>) {
    if let Err(error) = fenced {
        tracing::debug!(%error, "a fence was not put");
    }
}

/// A command that is about to be launched.
#[derive(Clone, Copy, Debug)]
struct Prepared {
    /// When that was.
    at: Instant,
    /// The command.
    work: Work,
    /// When the event in front of it was recorded in an idle stream.
    recorded: Option<Instant>,
    /// The command is alone and counts as predicted, so the end of the stream is fence enough.
    fence_by_stream_end: bool,
    /// A gate is in front of it.
    is_gated: bool,
}

/// State of the stream in front of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// Something may be in flight.
    Busy,
    /// All should have ended, as predicted, and it does not matter.
    PresumedIdle,
    /// Nothing is in flight.
    Idle,
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
        let entered = queue.device.api.enter();
        let entered = entered.map_err(StreamError::during("choosing the device"))?;
        self.begin(cmd, payload, fence)?;
        // SAFETY: the stream lives as long as the queue, and the device is current.
        let launched = unsafe { payload.launch_into(&queue.device.api, queue.stream) };
        let ended = self.end(cmd, launched.is_ok());
        drop(entered);
        launched.map_err(StreamError::during("launching a command")).and(ended)
    }

    fn begin_launch(
        &mut self,
        cmd: CmdId,
        payload: &StreamCommand<A>,
        fence: bool,
    ) -> Result<(), Self::Error> {
        let queue = Arc::clone(&self.queue);
        let entered = queue.device.api.enter();
        let entered = entered.map_err(StreamError::during("choosing the device"))?;
        let begun = self.begin(cmd, payload, fence);
        drop(entered);
        begun
    }

    /// With no fence to put it asks nothing of the driver.
    fn end_launch(&mut self, cmd: CmdId, _fence: bool, launched: bool) -> Result<(), Self::Error> {
        let queue = Arc::clone(&self.queue);
        let has_fence = |begun: Begun| begun.is_fenced || begun.prepared.work.sample.is_some();
        let fences = launched && self.begun.is_some_and(has_fence);
        // What cannot be entered takes no fence, which is then put again later.
        let entered = fences.then(|| queue.device.api.enter());
        let ended = self.end(cmd, launched);
        drop(entered);
        if launched && !fences {
            self.open_burst();
        }
        ended
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Self::Error> {
        let queue = Arc::clone(&self.queue);
        if self.is_sealed {
            // Its fence is on its way.
            return Ok(());
        }
        self.close_burst(FENCE_PATIENCE)?;
        if queue.owner == Owner::Thread {
            // All commands have fences, but for one that was missed: only its thread can put that.
            let covered = self.batch.work.commands == 0;
            return if covered { Ok(()) } else { Err(StreamError::OtherThread) };
        }
        let entered = queue.device.api.enter();
        let entered = entered.map_err(StreamError::during("choosing the device"))?;
        let inside = queue.member.launches.begin(Call::Event);
        let fenced = match self.end {
            // Nothing was launched since, so it is the same fence once more.
            Some(end) => self.record_late(end).map(|()| self.end = None),
            None => self.put_fence(upto, true),
        };
        drop(inside);
        drop(entered);
        fenced
    }

    /// Of a stream of the queue's own the end may be asked for as well, which is not sealed.
    fn seal(&mut self, upto: CmdId) -> Result<bool, Self::Error> {
        if self.queue.is_owned() {
            return Ok(false);
        }
        self.close_burst(Duration::MAX)?;
        if !self.is_sealed && self.batch.work.commands > 0 {
            self.fence(upto)?;
        }
        self.is_sealed = true;
        Ok(true)
    }

    fn room(&self) -> Option<u32> {
        self.queue.is_in_unit().then(|| self.queue.room())
    }

    fn set_launch_mode(&mut self, mode: LaunchMode) {
        self.mode = mode;
    }

    fn is_in_burst(&self) -> bool {
        self.in_burst_since.is_some_and(|since| since.elapsed() < BURST_MAX)
    }

    fn end_burst(&mut self) {
        // A launch that is under way has seen the gate open: it came before the hold.
        let _ = self.close_burst(Duration::ZERO);
    }

    fn is_unattended(&self) -> bool {
        // Only its thread can put a fence that is asked for later.
        let is_any_threads = self.queue.owner != Owner::Thread;
        is_any_threads && self.queue.word.is_some_and(|word| word.is_unattended())
    }

    fn is_held(&self) -> bool {
        self.queue.word.is_some_and(|word| word.is_set())
    }
}

impl<A: StreamApi> StreamSubmit<A> {
    /// Does what comes before a launch, which the watch sees as under way until [`Self::end`].
    fn begin(
        &mut self,
        cmd: CmdId,
        payload: &StreamCommand<A>,
        fence: bool,
    ) -> Result<(), StreamError<A::Error>> {
        self.is_sealed = false;
        self.close_burst(Duration::MAX)?;
        let queue = Arc::clone(&self.queue);
        // Another thread could put none later.
        let is_fenced = fence || queue.owner == Owner::Thread;
        let inside = queue.member.launches.begin(Call::Launch);
        let (gates, reach) = (&queue.device.gates, payload.reach(&queue.device.api));
        if gates.begin(&queue.member, cmd.count(), reach) {
            queue.tell_spread();
        }
        let prepared = self.prepare(payload, is_fenced, cmd);
        let prepared = prepared.inspect_err(|_| gates.fail(&queue.member, cmd.count()))?;
        self.begun = Some(Begun { prepared, is_fenced });
        let call = if reach == Reach::Copies { Call::Copy } else { Call::Launch };
        queue.member.launches.goes_on(call);
        inside.leave_open();
        Ok(())
    }

    /// Does what comes after a launch.
    fn end(&mut self, cmd: CmdId, launched: bool) -> Result<(), StreamError<A::Error>> {
        let Some(Begun { prepared, is_fenced }) = self.begun.take() else { return Ok(()) };
        let queue = Arc::clone(&self.queue);
        let inside = queue.member.launches.left_open();
        if !launched {
            queue.stray.fetch_or(prepared.is_gated, Ordering::Relaxed);
            queue.device.gates.fail(&queue.member, cmd.count());
            return Ok(());
        }
        self.count(&prepared, cmd);
        if is_fenced || prepared.work.sample.is_some() {
            let put = if prepared.fence_by_stream_end {
                self.put_fence_by_end(cmd)
            } else {
                self.put_fence(cmd, is_fenced)
            };
            match put {
                // On a lost device no completion will be seen.
                Err(error) if error.kind().is_sticky() => return Err(error),
                fenced => log_missed(fenced),
            }
        }
        drop(inside);
        Ok(())
    }

    /// Puts into the stream what comes before a command: the fence of what came before, an event
    /// from which the command's time counts, and a gate.
    fn prepare(
        &mut self,
        payload: &StreamCommand<A>,
        fence: bool,
        cmd: CmdId,
    ) -> Result<Prepared, StreamError<A::Error>> {
        let queue = Arc::clone(&self.queue);
        let at = Instant::now();
        let expected_ns = payload.expected_ns.or(queue.estimates.expected_ns(payload.kind));
        let hold = queue.word.filter(FlagWord::is_set).map(|_| queue.hold_stamp());
        self.spacing_ns = self.note_holds(at, hold.is_some());
        let is_crowded = hold.is_none() && self.mode == LaunchMode::Crowded;
        let is_due =
            hold.is_some() || !is_crowded && self.placement.is_due(expected_ns, self.spacing_ns);
        // Nothing is measured while it is held.
        let is_measured = hold.is_none() && !is_crowded;
        let sample = if is_measured { self.sample(payload.kind, expected_ns) } else { None };
        let sees_ends = queue.device.api.sees_ends();
        let use_prediction = is_crowded || sees_ends && expected_ns.is_some() && sample.is_none();
        let may_presume = use_prediction && !(queue.word.is_some() && is_due);
        let work = Work { commands: 1, expected_ns, sample, ..Work::default() };
        let stream = self.stream(at, &work, may_presume);
        self.end_batch(cmd, &work, is_due);
        let recorded = if self.batch.work.commands == 0 {
            self.begin_batch(at, &work, stream, use_prediction)
        } else {
            None
        };
        // One closed gate is enough for a hold, as long as something is in flight in front of it.
        let idle = stream == Stream::Idle;
        let is_behind = !idle && hold.flatten().is_some_and(|hold| self.behind == Some(hold));
        let closed = hold.is_some() && !is_behind;
        let mut is_gated = false;
        if let Some(word) = queue.word.filter(|_| !is_crowded)
            && self.placement.gate(idle, closed, expected_ns, self.spacing_ns)
        {
            self.place_gate(word.device, cmd.count())?;
            self.behind = hold.flatten();
            is_gated = true;
        }
        let fence_by_stream_end = fence && idle && sees_ends && use_prediction && queue.is_owned();
        Ok(Prepared { at, work, recorded, fence_by_stream_end, is_gated })
    }

    /// The kind of the next command, if that is a sample: one in a number of commands is, and each
    /// without an estimate. Commands of different kinds that are measured together say nothing of
    /// either, and a kind may come to take longer. While no scheduler has a use for how long they
    /// take, estimates only place gates.
    fn sample(&mut self, kind: u32, expected_ns: Option<u64>) -> Option<u32> {
        self.since_lone_sample += 1;
        let is_unattended = self.mode == LaunchMode::Unattended;
        let every = if is_unattended { UNATTENDED_SAMPLE } else { 1 };
        let every = self.queue.device.config.sample_every.saturating_mul(every);
        let is_due = self.since_lone_sample >= every;
        let is_sample = is_due || expected_ns.is_none();
        if is_sample {
            self.since_lone_sample = 0;
        }
        is_sample.then_some(kind)
    }

    /// State of the stream, before anything goes into it for this work.
    ///
    /// Asking a busy stream takes the driver microseconds, so it is asked for samples and where it
    /// should have ended, and not about little work where the answer does not matter.
    fn stream(&mut self, at: Instant, work: &Work, may_presume: bool) -> Stream {
        let seen = std::mem::take(&mut self.is_drained) || self.queue.is_idle();
        let sees_ends = self.queue.device.api.sees_ends();
        let likely = sees_ends && self.should_have_ended(at);
        let stream = if seen {
            Stream::Idle
        } else if likely && may_presume && is_little(work.expected_ns) {
            Stream::PresumedIdle
        } else if (likely || sees_ends && work.sample.is_some()) && self.has_ended() {
            Stream::Idle
        } else {
            Stream::Busy
        };
        // An event is work too, so it comes after the question.
        if let Some(end) = self.end.take()
            && !seen
        {
            log_missed(self.record_late(end));
        }
        if stream == Stream::Idle {
            self.busy_until = self.busy_until.min(Some(at));
        }
        if work.sample.is_some() {
            self.stream_drained = stream == Stream::Idle;
        }
        stream
    }

    /// Puts a fence behind what came before, if that is to be told apart from a command or seen
    /// before its gate.
    fn end_batch(&mut self, cmd: CmdId, next: &Work, is_due: bool) {
        let is_apart = next.sample.is_some() || next.expected_ns.is_none();
        let is_seen_now = is_due && self.is_to_be_seen() || self.fills_stream();
        if self.batch.work.commands > 0 && (is_apart || is_seen_now) {
            // A sample found that the host was slower.
            self.batch.work.has_pauses |= next.sample.is_some() && self.stream_drained;
            // If only one thread can put fences, nothing asks again for one that was missed.
            let is_asked = self.queue.owner == Owner::Thread;
            log_missed(self.put_fence(CmdId(cmd.0.saturating_sub(1)), is_asked));
        }
    }

    /// Returns whether what was launched since the last fence is enough to get one of its own.
    fn is_to_be_seen(&self) -> bool {
        self.queue.is_in_unit() && self.batch.work.expected_ns.is_none_or(|ns| ns >= SEEN_NS)
    }

    /// Begins to count what the next fence covers. When an event in front of it was recorded, if
    /// the device waits for its launch.
    fn begin_batch(
        &mut self,
        at: Instant,
        first: &Work,
        stream: Stream,
        use_prediction: bool,
    ) -> Option<Instant> {
        // There is an event if the launch after it failed. Time has passed since.
        if let Begin::At(event) = std::mem::replace(&mut self.batch.begin, Begin::Before) {
            self.events.keep(Some(event));
            self.since_event_ns = None;
        }
        let is_busy = stream == Stream::Busy;
        self.batch.launched = (!is_busy).then_some(at);
        let is_apart = first.sample.is_some() || first.expected_ns.is_none();
        if is_busy && (self.since_event_ns == Some(0) || !is_apart) {
            return None;
        }
        // Without the event the commands count as predicted.
        let event = if use_prediction { None } else { self.events.record().ok() };
        self.batch.begin = event.map_or(Begin::Nowhere, Begin::At);
        self.since_event_ns = event.map(|_| 0);
        event.filter(|_| !is_busy).map(|_| self.queue.device.api.now())
    }

    /// Counts a command that was launched.
    fn count(&mut self, prepared: &Prepared, cmd: CmdId) {
        let queue = &self.queue;
        let Prepared { at, mut work, recorded, .. } = *prepared;
        queue.note_entry();
        if let Some(recorded) = recorded {
            let waited = queue.device.api.now().saturating_duration_since(recorded);
            work.launching_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        }
        let follows = self.batch.work.commands > 0 || matches!(self.batch.begin, Begin::Before);
        let had_nothing = self.busy_until.is_some_and(|end| end < at);
        work.has_pauses = follows && self.stream_drained && had_nothing;
        self.batch.work.add(&work);
        let begin = self.busy_until.max(Some(at)).unwrap_or(at);
        self.busy_until = begin.checked_add(Duration::from_nanos(work.predicted_ns()));
        let stops_inside = queue.taken.as_ref().is_some_and(Taken::take_inside);
        if stops_inside {
            queue.device.gates_put.add();
        }
        let last_ns = if stops_inside { 0 } else { work.predicted_ns() };
        queue.last_ns.store(last_ns, Ordering::Relaxed);
        queue.launched.store(cmd.count(), Ordering::Relaxed);
        queue.occupy(at);
    }

    /// Puts a gate in front of a command, `upto` being one past it, and events around the gate.
    /// Without them it is not known whether the stream waits there.
    fn place_gate(&self, word: u64, upto: u64) -> Result<(), StreamError<A::Error>> {
        let queue = &self.queue;
        let launches = &queue.member.launches;
        launches.goes_on(Call::Event);
        let before = self.events.record_beside_gate();
        launches.goes_on(Call::Gate);
        // SAFETY: the word is given back only after the stream got past all that is in it.
        let placed = unsafe { queue.device.api.wait_zero(queue.stream, word) };
        if let Err(source) = placed {
            before.into_iter().for_each(|event| queue.gate_events.keep_event(event));
            return Err(StreamError::Driver { during: "placing a gate", source });
        }
        queue.device.gates_put.add();
        queue.note_entry();
        launches.goes_on(Call::Event);
        let after = before.and_then(|_| self.events.record_beside_gate());
        if let (Some(before), None) = (before, after) {
            queue.gate_events.keep_event(before);
        }
        queue
            .gate_events
            .add(upto, before.zip(after).map(|(before, after)| EventPair { before, after }));
        Ok(())
    }

    /// Tells whether everything in the stream should have run by now, as predicted, though no poll
    /// has seen it yet.
    fn should_have_ended(&self, now: Instant) -> bool {
        self.batch.work.commands == 0 && self.busy_until.is_none_or(|end| now >= end)
    }

    /// Tells whether everything in the stream has run, though no poll has seen it yet.
    fn has_ended(&self) -> bool {
        self.queue.member.launches.goes_on(Call::Query);
        // SAFETY: the stream lives as long as the queue.
        unsafe { self.queue.device.api.is_done(self.queue.stream) }.unwrap_or(false)
    }

    /// Records the event of a fence that was to be seen by the end of the stream. Without one it
    /// is missed, and put again.
    fn record_late(&mut self, mut fence: Fence<A::Event>) -> Result<(), StreamError<A::Error>> {
        fence.seen = Seen::Timed(self.events.record()?);
        fence.entries = self.queue.entries.load(Ordering::Relaxed);
        self.push(fence);
        self.since_event_ns = Some(0);
        Ok(())
    }

    fn push(&mut self, fence: Fence<A::Event>) {
        // It has room: only this half fills it, and it is looked at before.
        let _ = self.fences.push(fence);
    }

    /// Tells whether the fence of the batch is to take the time.
    fn is_to_be_timed(&self) -> bool {
        let Batch { begin, work, .. } = &self.batch;
        let since_ns = self.since_event_ns.zip(work.expected_ns);
        let since_ns = since_ns.map(|(since, ns)| since.saturating_add(ns));
        let is_worth = work.sample.is_some() || !is_little(since_ns);
        let is_measured = match begin {
            Begin::Before => is_worth,
            Begin::At(_) => true,
            Begin::Nowhere => false,
        };
        is_measured || !self.queue.device.api.sees_ends()
    }

    /// Puts a fence, which only ends a measurement unless it `is_asked` for.
    fn put_fence(&mut self, last: CmdId, is_asked: bool) -> Result<(), StreamError<A::Error>> {
        self.check_room()?;
        let seen = if self.is_to_be_timed() {
            Seen::Timed(self.events.record()?)
        } else {
            Seen::Plain(self.events.record_plain()?)
        };
        let fence = self.take_fence(last, seen, is_asked);
        self.since_event_ns = match seen {
            Seen::Timed(_) => Some(0),
            _ => self.since_event_ns.map(|ns| ns.saturating_add(fence.batch.work.predicted_ns())),
        };
        self.push(fence);
        Ok(())
    }

    /// Has the fence seen by the end of the stream, until something is launched behind it.
    fn put_fence_by_end(&mut self, last: CmdId) -> Result<(), StreamError<A::Error>> {
        self.check_room()?;
        let fence = self.take_fence(last, Seen::End, true);
        self.end = Some(fence);
        self.push(fence);
        Ok(())
    }

    fn check_room(&self) -> Result<(), StreamError<A::Error>> {
        // One more for an event that is recorded late.
        if !self.fences.has_room_for_two() {
            return Err(StreamError::FencesFull { fences: self.fences.entries_max() });
        }
        Ok(())
    }

    /// The fence of the batch, which ends with it.
    fn take_fence(&mut self, last: CmdId, seen: Seen<A::Event>, is_asked: bool) -> Fence<A::Event> {
        let (batch, upto) = (std::mem::take(&mut self.batch), last.count());
        let entries = self.queue.entries.load(Ordering::Relaxed);
        self.entries_fenced = entries;
        Fence { upto, seen, batch, is_asked, entries }
    }
}

impl<A: StreamApi> Drop for StreamSubmit<A> {
    fn drop(&mut self) {
        let _ = self.close_burst(Duration::MAX);
        if self.begun.is_some() {
            drop(self.queue.member.launches.left_open());
        }
        // Of commands that no fence covers yet. It is destroyed with the spare one.
        if let Begin::At(event) = self.batch.begin {
            self.events.keep(Some(event));
        }
    }
}
