//! Opening queues on a device.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError};

use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Halves, LevelAdapter};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Level};
use xsched_hal_process::burst::Burst;

use crate::api::StreamApi;
use crate::device::StreamDevice;
use crate::device_time::{Estimates, Interval, Occupant, Progress};
use crate::error::StreamError;
use crate::events::Events;
use crate::flags::FlagWord;
use crate::gate_closure::{Ring, Role};
use crate::gate_events::GateEvents;
use crate::gated_stream::{Coupling, GatedStream};
use crate::growing_ring::growing_ring;
use crate::inner::Inner;
use crate::preempt::StreamPreempt;
use crate::queue::Queue;
use crate::queue_config::{GateSource, Owner, StreamConfig};
use crate::retire::{StreamRetire, Turns};
use crate::submit::StreamSubmit;
use crate::word::Taken;

/// Of streams that share a ring.
const IN_RING: &str = "its gates are closed while all streams in its hardware queue are held";
/// Of the default streams of threads.
const OF_THREAD: &str =
    "it is the default stream of a thread, which the legacy default stream waits for";

impl<A: StreamApi> ErrorType for StreamDevice<A> {
    type Error = StreamError<A::Error>;
}

/// The word of a queue's gate.
#[derive(Debug)]
struct Chosen {
    word: FlagWord,
    /// The caller owns it.
    shared: bool,
    taken: Option<Taken>,
}

/// The stream of a new queue.
#[derive(Clone, Copy, Debug)]
struct OpenedStream<S> {
    stream: S,
    /// The queue ends it.
    owned: bool,
    /// A gate may hold it.
    may_hold: bool,
    coupling: Coupling,
}

type Opened<A> = Halves<StreamSubmit<A>, StreamRetire<A>, LevelAdapter<StreamPreempt<A>>>;

impl<A: StreamApi> Backend for StreamDevice<A> {
    type Config = StreamConfig<A>;
    type Submit = StreamSubmit<A>;
    type Retire = StreamRetire<A>;
    type Preempt = LevelAdapter<StreamPreempt<A>>;

    fn open(&mut self, _: QueueId, config: StreamConfig<A>) -> Result<Opened<A>, Self::Error> {
        let inner = &self.inner;
        let _entered = inner.api.enter().map_err(StreamError::during("choosing the device"))?;
        inner.sweep();
        let place = inner.stream(&config).map_err(StreamError::during("opening a stream"))?;
        let OpenedStream { stream, owned, may_hold, .. } = place;
        // What another process holds as one unit may wait for itself.
        let gated = (may_hold || inner.source.is_some())
            && config.level_max.min(inner.config.level_max) >= Level::Deactivate
            && inner.tested().no_gate.is_none();
        let chosen = if gated { inner.word(&config) } else { Ok(None) };
        let word = chosen.inspect_err(|_| inner.end(owned.then_some(stream), None))?;
        Ok(halves(inner, place, word, config))
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: self.inner.api.name(), units: 0 }
    }
}

impl<A: StreamApi> Inner<A> {
    /// The word of a new queue that has a gate.
    fn word(&self, config: &StreamConfig<A>) -> Result<Option<Chosen>, StreamError<A::Error>> {
        let chosen = match &config.gate {
            GateSource::Device => {
                let word = self.take_word()?;
                Chosen { word, shared: false, taken: None }
            }
            GateSource::Word(gate) => {
                let (word, taken) = gate.use_for_queue(self)?;
                Chosen { word, shared: false, taken: Some(taken) }
            }
            GateSource::Page(gate) => {
                Chosen { word: gate.word_on(self)?, shared: true, taken: None }
            }
            GateSource::Caller(flag) => {
                Chosen { word: FlagWord::first(*flag), shared: true, taken: None }
            }
        };
        Ok(Some(chosen))
    }

    /// The ring of a user's stream that may share it.
    fn ring(&self, stream: A::Stream) -> Ring {
        if !self.config.sees_all_launches || self.tested().no_gate.is_some() {
            // Such a stream has no gate, and neither has any other.
            return Ring::Own;
        }
        // SAFETY: as promised to `StreamConfig`, and it was seen not to be captured.
        unsafe { self.api.ring_of(stream) }.map_or(Ring::Unknown, Ring::Shared)
    }

    /// The stream of a new queue.
    fn stream(&self, config: &StreamConfig<A>) -> Result<OpenedStream<A::Stream>, A::Error> {
        let (stream, owned) = match config.stream {
            Some(stream) => (stream, false),
            None => (self.api.create_stream(config.priority)?, true),
        };
        let not_held = |coupling| OpenedStream { stream, owned, may_hold: false, coupling };
        if config.owner == Owner::Thread {
            self.tell_limit(stream, config, Err(OF_THREAD));
            let ring = self.ring(stream);
            return Ok(not_held(Coupling {
                ring,
                may_spread: ring != Ring::Own,
                ..Coupling::NONE
            }));
        }
        // SAFETY: just made, or as promised to `StreamConfig::on_stream`.
        let kind = unsafe { self.api.stream_kind(stream) };
        let kind = kind.inspect_err(|_| self.end(owned.then_some(stream), None))?;
        let is_apart = kind.own_ring != Some(false);
        let ring = if is_apart { Ring::Own } else { self.ring(stream) };
        // What is launched into the legacy default stream has to be seen.
        let is_blocking = kind.blocking && !owned && self.config.sees_all_launches;
        let role = match (kind.legacy_default, is_blocking) {
            (true, _) => Role::Legacy,
            (false, true) => Role::Blocking,
            (false, false) => Role::Plain,
        };
        let coupling = Coupling { ring, role, may_spread: kind.own_ring.is_some() };
        let limit = if kind.legacy_default {
            Err("it is the legacy default stream, which all blocking streams wait for")
        } else if kind.blocking && !owned && !is_blocking && kind.own_ring != Some(true) {
            Err("the legacy default stream waits for it; create it as non-blocking")
        } else if ring == Ring::Unknown {
            Err("which hardware queue it is in is not known, so holding it might hold other \
                 streams")
        } else if !is_apart && ring == Ring::Own {
            Err("it may share a hardware queue with other streams; let the queue make its stream, \
                 without a priority, or run the program with `xsched run`")
        } else {
            Ok(ring)
        };
        self.tell_limit(stream, config, limit);
        Ok(OpenedStream { may_hold: limit.is_ok(), ..not_held(coupling) })
    }

    /// Says in the log, and where the caller asks for it, why a stream is at Lv1, or that what else
    /// is in its ring limits its gates.
    fn tell_limit(
        &self,
        stream: A::Stream,
        config: &StreamConfig<A>,
        limit: Result<Ring, &'static str>,
    ) {
        let has_gates = config.level_max.min(self.config.level_max) >= Level::Deactivate
            && self.tested().no_gate.is_none();
        let why = match limit {
            _ if !has_gates => None,
            Ok(Ring::Shared(number)) => {
                tracing::info!(?stream, number, "the stream's queue is at Lv2: {IN_RING}");
                Some(IN_RING)
            }
            Ok(_) => None,
            Err(why) if self.is_new_reason(why) => {
                tracing::info!(?stream, "the stream's queue is at Lv1: {why}");
                Some(why)
            }
            Err(why) => {
                tracing::debug!(?stream, "the stream's queue is at Lv1: {why}");
                Some(why)
            }
        };
        if let Some(reason) = &config.reason {
            *reason.lock().unwrap_or_else(PoisonError::into_inner) = why.map(str::to_owned);
        }
    }
}

fn halves<A: StreamApi>(
    inner: &Arc<Inner<A>>,
    OpenedStream { stream, may_hold, coupling, .. }: OpenedStream<A::Stream>,
    chosen: Option<Chosen>,
    StreamConfig { owner, spacing, reason, held_ring, burst, .. }: StreamConfig<A>,
) -> Opened<A> {
    let (word, shared, taken) = match chosen {
        Some(Chosen { word, shared, taken }) => (Some(word), shared, taken),
        None => (None, false, None),
    };
    let burst = burst.unwrap_or_else(Burst::take);
    if let Some(word) = &word {
        word.of_burst(&burst);
    }
    let member = GatedStream::coupled(coupling, word, format!("{stream:?}")).with_burst(&burst);
    let member = Arc::new(member);
    inner.gates.add(&member);
    if let Some(held) = held_ring.filter(|_| may_hold && word.is_some()) {
        held.watch(&member);
    }
    let queue = Arc::new(Queue {
        device: Arc::clone(inner),
        stream,
        owner,
        member,
        word,
        shared,
        taken,
        spacing,
        estimates: Estimates::new(&burst),
        burst,
        occupant: Occupant::default(),
        last_ns: AtomicU64::new(0),
        gates_apart_ns: AtomicU64::new(0),
        launched: AtomicU64::new(0),
        retired: AtomicU64::new(0),
        entries: AtomicU64::new(0),
        entries_done: AtomicU64::new(0),
        stray: AtomicBool::new(false),
        gate_events: GateEvents::new(),
        reason,
    });
    // A fence is an entry, and one may come again when it was not seen.
    let entries_max = inner.entries_max();
    let room = entries_max as usize * 2;
    let (fences, to_see) = growing_ring(room);
    let (back, again) = growing_ring(room * 2);
    let (plain_back, plain_again) = growing_ring(room);
    let events = Events::new(Arc::clone(&queue), again, plain_again);
    let submit = StreamSubmit::new(Arc::clone(&queue), fences, events);
    let turns = Turns::new(word.and_then(|word| word.unit_stamp()));
    let retire = StreamRetire {
        queue: Arc::clone(&queue),
        fences: to_see,
        back,
        plain_back,
        progress: Progress::default(),
        interval: Interval::default(),
        upto: 0,
        busy_ns: 0,
        held_ns: 0,
        turns,
    };
    let level = if word.is_some() && may_hold { Level::Deactivate } else { Level::Block };
    let in_unit = word.is_some_and(|word| word.unit_stamp().is_some());
    let caps = Caps::up_to(level, entries_max).with_unit(in_unit);
    Halves { submit, retire, preempt: LevelAdapter(StreamPreempt { queue }), caps }
}
