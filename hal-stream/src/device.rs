//! The device, and opening queues on it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Halves, LevelAdapter};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Level};

use crate::api::{About, FlagMemory, StreamApi};
use crate::board::{Board, Lifted, Member};
use crate::config::StreamDeviceConfig;
use crate::error::StreamError;
use crate::flags::{FlagWord, Flags};
use crate::occupancy::{Occupancy, Occupant};
use crate::predict::{Placement, Predictor, Spacing};
use crate::preempt::StreamPreempt;
use crate::probe::comes_back;
use crate::queue::Queue;
use crate::retire::{Held, Pace, Span, StreamRetire};
use crate::selftest::{self, NoGate};
use crate::shared::{SharedGate, SharedGates, SharedPage};
use crate::submit::{Batch, Events, StreamSubmit};
use crate::word::{GateWord, Taken};

/// Entries assumed for a hardware queue whose depth was not measured: an H200's, measured.
const DEPTH: u32 = 1_020;
/// Of the depth, one part in so many is used.
const SHARE: u32 = 4;

/// How a queue is opened.
#[derive(Debug)]
pub struct StreamConfig<A: StreamApi> {
    stream: Option<A::Stream>,
    flag: Option<FlagMemory>,
    gate: Option<GateWord<A>>,
    priority: Option<i32>,
    spacing: Spacing,
    level_max: Level,
}

impl<A: StreamApi> Default for StreamConfig<A> {
    /// A stream of its own with default priority, the default spacing, Lv2.
    fn default() -> Self {
        Self {
            stream: None,
            flag: None,
            gate: None,
            priority: None,
            spacing: Spacing::default(),
            level_max: Level::Deactivate,
        }
    }
}

impl<A: StreamApi> StreamConfig<A> {
    /// Sets the priority of the stream that is made for the queue, in the driver's own numbers,
    /// clamped to those it has. Where commands have many more blocks than fit, it helps the device
    /// prefer an urgent queue even within a command.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets how much predicted work may lie between two gates.
    #[must_use]
    pub fn spacing(mut self, spacing: Spacing) -> Self {
        self.spacing = spacing;
        self
    }

    /// Sets the highest level of the queue.
    #[must_use]
    pub const fn level_max(mut self, level: Level) -> Self {
        self.level_max = level;
        self
    }

    /// Uses a stream of the caller's, who may go on launching into it: what is launched there
    /// directly is ordered with the commands and held behind closed gates, but not counted.
    ///
    /// # Safety
    /// The stream belongs to the device and outlives the queue.
    #[must_use]
    pub const unsafe fn on_stream(mut self, stream: A::Stream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Uses a word that was taken before, so that graphs can be made whose own gates are closed and
    /// opened with the queue's. Goes before [`StreamConfig::with_flag`]. Opening the queue fails
    /// if the word is another device's, or another queue is open with it. A queue at Lv1 has no
    /// gate and leaves the word alone.
    #[must_use]
    pub fn with_gate(mut self, gate: &GateWord<A>) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Uses a word of the caller's as the gate's flag, in shared memory for example. Its lowest
    /// bit belongs to this process; a scheduler in another process closes the gate by setting
    /// another bit and opens it by clearing that. With each change of the 32 bits behind the word
    /// it says that it is alive; see [`StreamDeviceConfig::others_lease`].
    ///
    /// # Safety
    /// From [`StreamDevice::share_flags`] of the same device, used for no other queue, and alive
    /// until the device has run all that the queue was given.
    #[must_use]
    pub const unsafe fn with_flag(mut self, flag: FlagMemory) -> Self {
        self.flag = Some(flag);
        self
    }

    /// Uses a word of a shared page as the gate's flag, so that a scheduler in another process can
    /// hold the queue.
    #[must_use]
    pub fn in_page(mut self, gate: SharedGate) -> Self {
        self.flag = Some(gate.word());
        self
    }
}

/// A device of some vendor, with streams as hardware queues. A clone is the same device.
#[derive(Debug)]
pub struct StreamDevice<A: StreamApi> {
    pub(crate) inner: Arc<Inner<A>>,
}

impl<A: StreamApi> Clone for StreamDevice<A> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

#[derive(Debug)]
pub(crate) struct Inner<A: StreamApi> {
    pub(crate) api: Arc<A>,
    pub(crate) board: Arc<Board<Option<FlagWord>>>,
    pub(crate) occupancy: Occupancy,
    config: StreamDeviceConfig,
    entries_max: u32,
    pub(crate) no_gate: Option<NoGate>,
    flags: Mutex<Flags>,
    leaving: Mutex<Vec<Leaving<A>>>,
    /// Pages that other processes have as well.
    shared: Mutex<Vec<(FlagMemory, Arc<SharedPage>)>>,
    /// Streams that could not be ended, or words that may still be waited for.
    lost: AtomicU64,
}

/// A closed queue that the device may still be busy with.
#[derive(Debug)]
struct Leaving<A: StreamApi> {
    event: A::Event,
    stream: Option<A::Stream>,
    word: Option<FlagWord>,
}

impl<A: StreamApi> StreamDevice<A> {
    /// A device. Tries whether its streams can be held by gates, which takes some milliseconds of
    /// the device; if not, its queues are at Lv1 and [`StreamDevice::no_gate`] says why.
    ///
    /// # Errors
    /// If the driver refuses what every device needs.
    pub fn new(api: A, config: StreamDeviceConfig) -> Result<Self, StreamError<A::Error>> {
        let board =
            Board::start(config.blocked_after, config.others_lease).map_err(StreamError::Thread)?;
        let mut flags = Flags::default();
        let tested = if config.level_max < Level::Deactivate {
            Err(NoGate::Configured)
        } else {
            try_gate(&api, &mut flags, config.entries_max.is_none())
        };
        let depth = match tested {
            Ok(entries) if entries > 0 => entries,
            _ => api.depth().unwrap_or(DEPTH),
        };
        if let Err(why) = &tested
            && *why != NoGate::Configured
        {
            tracing::warn!(device = api.about().device, "queues are at Lv1: {why}");
        }
        let inner = Inner {
            entries_max: config.entries_max.unwrap_or(depth / SHARE).max(4),
            no_gate: tested.err(),
            api: Arc::new(api),
            board,
            occupancy: Occupancy::default(),
            config,
            flags: Mutex::new(flags),
            leaving: Mutex::default(),
            shared: Mutex::default(),
            lost: AtomicU64::new(0),
        };
        if inner.no_gate.is_none() && !config.probe_every.is_zero() {
            let api = Arc::downgrade(&inner.api);
            let probe = move || api.upgrade().is_some_and(|api| comes_back(&*api));
            inner.board.probe(config.probe_every, probe).map_err(StreamError::Thread)?;
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the driver says about the device.
    #[must_use]
    pub fn about(&self) -> &About {
        self.inner.api.about()
    }

    /// The driver.
    #[must_use]
    pub fn api(&self) -> &A {
        &self.inner.api
    }

    /// The highest level of its queues.
    #[must_use]
    pub fn level(&self) -> Level {
        if self.inner.no_gate.is_none() { Level::Deactivate } else { Level::Block }
    }

    /// Why the level is not [`Level::Deactivate`].
    #[must_use]
    pub fn no_gate(&self) -> Option<&NoGate> {
        self.inner.no_gate.as_ref()
    }

    /// Commands, gates and fences that a queue keeps in flight.
    #[must_use]
    pub fn entries_max(&self) -> u32 {
        self.inner.entries_max
    }

    /// How often gates were opened because a launch was blocked, or because another process that
    /// held one was silent for longer than its lease.
    #[must_use]
    pub fn forced_open(&self) -> u64 {
        self.inner.board.forced()
    }

    /// Opens all gates, calls `f`, and closes again what is to be closed by then. For calls that
    /// wait for the whole device, and would not come back while a queue is held: freeing memory,
    /// loading code, raising the limit of the stack.
    pub fn unheld<T>(&self, f: impl FnOnce() -> T) -> T {
        let lifted: Lifted<'_, _> = self.inner.board.lift();
        let answer = f();
        drop(lifted);
        answer
    }

    /// Makes a shared page usable for gates.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn share(&self, page: SharedPage) -> Result<SharedGates, StreamError<A::Error>> {
        let page = Arc::new(page);
        let (host, bytes) = page.memory();
        // SAFETY: the device keeps the page, and what it cannot take back from the driver it leaves
        // mapped.
        let memory = unsafe { self.share_flags(host, bytes) }?;
        let mut shared = self.inner.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.push((memory, Arc::clone(&page)));
        drop(shared);
        Ok(SharedGates::new(page, memory))
    }

    /// Takes a word for the gates of a queue that is opened later, with
    /// [`StreamConfig::with_gate`], and of the graphs that are launched there.
    ///
    /// # Errors
    /// [`StreamError::NoGate`] if the device has no gates; or if the driver gives no memory.
    pub fn gate_word(&self) -> Result<GateWord<A>, StreamError<A::Error>> {
        GateWord::take(&self.inner)
    }

    /// Makes a page of the caller's, shared with another process for example, usable for flags.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The memory lives as long as the process, and is touched by atomic operations only.
    pub unsafe fn share_flags(
        &self,
        host: std::ptr::NonNull<std::sync::atomic::AtomicU32>,
        bytes: usize,
    ) -> Result<FlagMemory, StreamError<A::Error>> {
        let api = &self.inner.api;
        let _entered = api.enter().map_err(StreamError::during("choosing the device"))?;
        // SAFETY: as promised by the caller.
        let registered = unsafe { api.register_flags(host, bytes) };
        registered.map_err(StreamError::during("registering flags"))
    }
}

fn try_gate<A: StreamApi>(api: &A, flags: &mut Flags, depth: bool) -> Result<u32, NoGate> {
    if let Some(why) = api.no_waits() {
        return Err(NoGate::NoWaits(why));
    }
    let failed = |error: StreamError<A::Error>| NoGate::Failed(error.to_string());
    let entered = api.enter().map_err(|error| NoGate::Failed(error.to_string()))?;
    let word = flags.take(api).map_err(failed)?;
    let tested = selftest::run(api, word, depth);
    drop(entered);
    // After a test that failed something may still wait for the word.
    if tested.is_ok() {
        flags.give_back(word);
    }
    tested
}

impl<A: StreamApi> Inner<A> {
    pub(crate) fn flags(&self) -> MutexGuard<'_, Flags> {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a word back when the device has got past an event, and ends that. Without an event it
    /// never is.
    pub(crate) fn give_back_after(&self, event: Option<A::Event>, word: FlagWord) {
        let (Some(event), Ok(entered)) = (event, self.api.enter()) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let leaving = Leaving { event, stream: None, word: Some(word) };
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).push(leaving);
        self.sweep();
        drop(entered);
    }

    /// Sees to what a closed queue leaves behind, without waiting for the device.
    pub(crate) fn retire(
        &self,
        stream: A::Stream,
        owned: bool,
        word: Option<FlagWord>,
        idle: bool,
    ) {
        let Ok(entered) = self.api.enter() else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let stream_to_end = owned.then_some(stream);
        if idle {
            self.end(stream_to_end, word);
        } else {
            let event = self.api.create_event().and_then(|event| {
                // SAFETY: the event is new; the stream outlives the queue.
                let recorded = unsafe { self.api.record(event, stream) };
                // SAFETY: nobody else knows the event.
                recorded.inspect_err(|_| unsafe { self.api.destroy_event(event) }).map(|()| event)
            });
            match event {
                Ok(event) => {
                    let leaving = Leaving { event, stream: stream_to_end, word };
                    self.leaving.lock().unwrap_or_else(PoisonError::into_inner).push(leaving);
                }
                Err(_) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.sweep();
        drop(entered);
    }

    /// Ends queues that the device has got past. The device is current.
    fn sweep(&self) {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|queue| {
            // SAFETY: made in `retire`, and destroyed only here.
            match unsafe { self.api.query(queue.event) } {
                Ok(false) => true,
                Ok(true) => {
                    self.end(queue.stream, queue.word);
                    // SAFETY: see above; it is forgotten now.
                    unsafe { self.api.destroy_event(queue.event) };
                    false
                }
                Err(_) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    false
                }
            }
        });
    }

    fn end(&self, stream: Option<A::Stream>, word: Option<FlagWord>) {
        if let Some(stream) = stream {
            // SAFETY: made by us, and its queue is closed.
            let ended = unsafe { self.api.destroy_stream(stream) };
            if ended.is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(word) = word {
            self.flags().give_back(word);
        }
    }

    /// The word of a new queue that has a gate.
    fn word(&self, config: &StreamConfig<A>) -> Result<Option<Chosen>, StreamError<A::Error>> {
        let chosen = match (&config.gate, config.flag) {
            (Some(gate), _) => {
                let (word, taken) = gate.use_for_queue(self)?;
                Chosen { word, shared: false, taken: Some(taken) }
            }
            (None, Some(flag)) => Chosen { word: FlagWord::first(flag), shared: true, taken: None },
            (None, None) => {
                let word = self.flags().take(&*self.api)?;
                Chosen { word, shared: false, taken: None }
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
        // SAFETY: just made, or as promised to `StreamConfig::on_stream`.
        let kind = unsafe { self.api.stream_kind(stream) };
        let kind = kind.inspect_err(|_| self.end(owned.then_some(stream), None))?;
        let why = if kind.legacy_default {
            "it is the legacy default stream, which all blocking streams wait for"
        } else if kind.blocking && !owned {
            "the legacy default stream waits for it; create it as non-blocking"
        } else if kind.own_ring == Some(false) {
            "it may share a hardware queue with other streams; let the queue make its stream, \
             without a priority"
        } else {
            return Ok((stream, owned, true));
        };
        if config.level_max >= Level::Deactivate && self.no_gate.is_none() {
            tracing::warn!(?stream, "the stream's queue is at Lv1: {why}");
        }
        Ok((stream, owned, false))
    }
}

impl<A: StreamApi> Drop for Inner<A> {
    fn drop(&mut self) {
        let Ok(entered) = self.api.enter() else { return };
        self.sweep();
        let left = self.leaving.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        let shared = std::mem::take(self.shared.get_mut().unwrap_or_else(PoisonError::into_inner));
        if left == 0 && self.lost.load(Ordering::Relaxed) == 0 {
            self.flags.get_mut().unwrap_or_else(PoisonError::into_inner).close(&*self.api);
            for (memory, _page) in shared {
                // SAFETY: registered by `share`, and the device got past all that waits for it.
                unsafe { self.api.unregister_flags(memory) };
            }
        } else {
            // The device may still look at them.
            std::mem::forget(shared);
        }
        drop(entered);
    }
}

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
        let gated = may_hold
            && inner.no_gate.is_none()
            && config.level_max.min(inner.config.level_max) >= Level::Deactivate;
        let chosen = if gated { inner.word(&config) } else { Ok(None) };
        let word = chosen.inspect_err(|_| inner.end(owned.then_some(stream), None))?;
        Ok(halves(inner, stream, owned, word, config.spacing))
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: self.inner.api.name(), units: 0 }
    }
}

fn halves<A: StreamApi>(
    inner: &Arc<Inner<A>>,
    stream: A::Stream,
    owned: bool,
    chosen: Option<Chosen>,
    spacing: Spacing,
) -> Opened<A> {
    let (word, shared, taken) = match chosen {
        Some(Chosen { word, shared, taken }) => (Some(word), shared, taken),
        None => (None, false, None),
    };
    let member = Arc::new(Member::new(word));
    inner.board.add(&member);
    let queue = Arc::new(Queue {
        device: Arc::clone(inner),
        stream,
        owned,
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
    });
    // A fence is an entry, and one may come again when it was not seen.
    let room = inner.entries_max as usize * 2;
    let (fences, to_see) = rtrb::RingBuffer::new(room);
    let (back, again) = rtrb::RingBuffer::new(room * 2);
    let events = Events::new(Arc::clone(&queue), again);
    let submit = StreamSubmit {
        queue: Arc::clone(&queue),
        fences,
        events,
        placement: Placement::default(),
        batch: Batch::default(),
        end: None,
        alone: 0,
        busy_until: None,
    };
    let held = Held::default();
    let retire = StreamRetire {
        queue: Arc::clone(&queue),
        fences: to_see,
        back,
        from: None,
        span: Span::default(),
        held,
        pace: Pace::default(),
        since: None,
    };
    let level = if word.is_some() { Level::Deactivate } else { Level::Block };
    let caps = Caps::up_to(level, inner.entries_max);
    Halves { submit, retire, preempt: LevelAdapter(StreamPreempt { queue }), caps }
}
