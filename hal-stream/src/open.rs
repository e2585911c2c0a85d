//! Opening queues on a device.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError};

use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Halves, LevelAdapter};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Level};

use crate::api::StreamApi;
use crate::device::StreamDevice;
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::inner::Inner;
use crate::marks::Marks;
use crate::member::{Member, Ring, Ties};
use crate::occupancy::Occupant;
use crate::occupancy::Since;
use crate::predict::{Placement, Predictor};
use crate::preempt::StreamPreempt;
use crate::queue::Queue;
use crate::queue_config::{GateSource, StreamConfig};
use crate::retire::{Held, Pace, Span, StreamRetire};
use crate::submit::{Batch, Events, StreamSubmit};
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
    /// It is the caller's.
    shared: bool,
    taken: Option<Taken>,
}

/// The stream of a new queue.
#[derive(Clone, Copy, Debug)]
struct Place<S> {
    stream: S,
    /// It is ours to end.
    owned: bool,
    /// It may be held by a gate.
    may_hold: bool,
    ties: Ties,
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
        let Place { stream, owned, may_hold, .. } = place;
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
    fn stream(&self, config: &StreamConfig<A>) -> Result<Place<A::Stream>, A::Error> {
        let (stream, owned) = match config.stream {
            Some(stream) => (stream, false),
            None => (self.api.create_stream(config.priority)?, true),
        };
        let not_held = |ties| Place { stream, owned, may_hold: false, ties };
        if config.of_thread {
            self.tell_limit(stream, config, Err(OF_THREAD));
            let ring = self.ring(stream);
            return Ok(not_held(Ties { ring, may_spread: ring != Ring::Own, ..Ties::NONE }));
        }
        // SAFETY: just made, or as promised to `StreamConfig::on_stream`.
        let kind = unsafe { self.api.stream_kind(stream) };
        let kind = kind.inspect_err(|_| self.end(owned.then_some(stream), None))?;
        let is_apart = kind.own_ring != Some(false);
        let ring = if is_apart { Ring::Own } else { self.ring(stream) };
        // What is launched into the legacy default stream has to be seen.
        let is_blocking = kind.blocking && !owned && self.config.sees_all_launches;
        let (is_legacy, may_spread) = (kind.legacy_default, kind.own_ring.is_some());
        let ties = Ties { ring, is_legacy, is_blocking, may_spread };
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
        Ok(Place { may_hold: limit.is_ok(), ..not_held(ties) })
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
    Place { stream, owned, may_hold, ties }: Place<A::Stream>,
    chosen: Option<Chosen>,
    StreamConfig { of_thread, spacing, reason, held_ring, .. }: StreamConfig<A>,
) -> Opened<A> {
    let (word, shared, taken) = match chosen {
        Some(Chosen { word, shared, taken }) => (Some(word), shared, taken),
        None => (None, false, None),
    };
    let member = Arc::new(Member::tied(ties, word, format!("{stream:?}")));
    inner.gates.add(&member);
    if let Some(held) = held_ring.filter(|_| may_hold && word.is_some()) {
        held.watch(&member);
    }
    let queue = Arc::new(Queue {
        device: Arc::clone(inner),
        stream,
        owned,
        of_thread,
        member,
        word,
        shared,
        taken,
        spacing,
        predictor: Predictor::new(),
        occupant: Occupant::default(),
        last_ns: AtomicU64::new(0),
        launched: AtomicU64::new(0),
        retired: AtomicU64::new(0),
        entries: AtomicU64::new(0),
        entries_done: AtomicU64::new(0),
        stray: AtomicBool::new(false),
        marks: Marks::new(),
        reason,
    });
    // A fence is an entry, and one may come again when it was not seen.
    let entries_max = inner.entries_max();
    let room = entries_max as usize * 2;
    let (fences, to_see) = rtrb::RingBuffer::new(room);
    let (back, again) = rtrb::RingBuffer::new(room * 2);
    let (plain_back, plain_again) = rtrb::RingBuffer::new(room);
    let events = Events::new(Arc::clone(&queue), again, plain_again);
    let submit = StreamSubmit {
        queue: Arc::clone(&queue),
        fences,
        events,
        placement: Placement::default(),
        behind: None,
        batch: Batch::default(),
        end: None,
        unmeasured: 0,
        together: 0,
        continues: false,
        busy_until: None,
        is_dry: false,
    };
    let held = Held::default();
    let retire = StreamRetire {
        queue: Arc::clone(&queue),
        fences: to_see,
        back,
        plain_back,
        from: None,
        span: Span::default(),
        held,
        pace: Pace::default(),
        since: Since::default(),
        ran_beside: false,
        turned_at: None,
        unit_stamp: word.and_then(|word| word.unit_stamp()),
    };
    let level = if word.is_some() && may_hold { Level::Deactivate } else { Level::Block };
    let in_unit = word.is_some_and(|word| word.unit_stamp().is_some());
    let caps = Caps::up_to(level, entries_max).with_unit(in_unit);
    Halves { submit, retire, preempt: LevelAdapter(StreamPreempt { queue }), caps }
}
