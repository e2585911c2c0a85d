//! Opening queues on a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Halves, LevelAdapter};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Level};

use crate::api::StreamApi;
use crate::device::StreamDevice;
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::inner::Inner;
use crate::marks::Marks;
use crate::member::Member;
use crate::occupancy::Occupant;
use crate::occupancy::Since;
use crate::predict::{Placement, Predictor, Spacing};
use crate::preempt::StreamPreempt;
use crate::queue::Queue;
use crate::queue_config::{GateSource, StreamConfig};
use crate::retire::{Held, Pace, Span, StreamRetire};
use crate::submit::{Batch, Events, StreamSubmit};
use crate::word::Taken;

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
        let opened = inner.stream(&config).map_err(StreamError::during("opening a stream"))?;
        let (stream, owned, may_hold) = opened;
        // What another process holds as one unit may wait for itself.
        let gated = (may_hold || inner.source.is_some())
            && config.level_max.min(inner.config.level_max) >= Level::Deactivate
            && inner.tested().no_gate.is_none();
        let chosen = if gated { inner.word(&config) } else { Ok(None) };
        let word = chosen.inspect_err(|_| inner.end(owned.then_some(stream), None))?;
        Ok(halves(inner, stream, (owned, config.of_thread, may_hold), word, config.spacing))
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

    /// The stream of a new queue, whether it is ours, and whether it may be held by a gate.
    fn stream(&self, config: &StreamConfig<A>) -> Result<(A::Stream, bool, bool), A::Error> {
        let (stream, owned) = match config.stream {
            Some(stream) => (stream, false),
            None => (self.api.create_stream(config.priority)?, true),
        };
        if config.of_thread {
            return Ok((stream, false, false));
        }
        // SAFETY: just made, or as promised to `StreamConfig::on_stream`.
        let kind = unsafe { self.api.stream_kind(stream) };
        let kind = kind.inspect_err(|_| self.end(owned.then_some(stream), None))?;
        let why = if kind.legacy_default {
            "it is the legacy default stream, which all blocking streams wait for"
        } else if kind.blocking && !owned && kind.own_ring != Some(true) {
            "the legacy default stream waits for it; create it as non-blocking"
        } else if kind.own_ring == Some(false) {
            "it may share a hardware queue with other streams; let the queue make its stream, \
             without a priority"
        } else {
            return Ok((stream, owned, true));
        };
        if config.level_max >= Level::Deactivate && self.tested().no_gate.is_none() {
            if self.is_new_reason(why) {
                tracing::info!(?stream, "the stream's queue is at Lv1: {why}");
            } else {
                tracing::debug!(?stream, "the stream's queue is at Lv1: {why}");
            }
        }
        Ok((stream, owned, false))
    }
}

fn halves<A: StreamApi>(
    inner: &Arc<Inner<A>>,
    stream: A::Stream,
    (owned, of_thread, may_hold): (bool, bool, bool),
    chosen: Option<Chosen>,
    spacing: Spacing,
) -> Opened<A> {
    let (word, shared, taken) = match chosen {
        Some(Chosen { word, shared, taken }) => (Some(word), shared, taken),
        None => (None, false, None),
    };
    let member = Arc::new(Member::new(word, format!("{stream:?}")));
    inner.gates.add(&member);
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
        stray: AtomicBool::new(false),
        marks: Marks::new(),
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
        turned_at: None,
        unit_stamp: word.and_then(|word| word.unit_stamp()),
    };
    let level = if word.is_some() && may_hold { Level::Deactivate } else { Level::Block };
    let caps = Caps::up_to(level, entries_max);
    Halves { submit, retire, preempt: LevelAdapter(StreamPreempt { queue }), caps }
}
