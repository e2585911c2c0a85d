//! The device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use xsched_core::level::Level;
use xsched_node::{PageSource, SharedPage};

use crate::api::{About, FlagMemory, StreamApi};
use crate::config::StreamDeviceConfig;
use crate::device_time::Occupancy;
use crate::error::{NoGate, StreamError};
use crate::flags::FlagWord;
use crate::inner::{Inner, Tested};
use crate::probe::call_returns;
use crate::registry::GateRegistry;
use crate::selftest;
use crate::shared::SharedGates;
use crate::stops::Stops;
use crate::word::GateWord;

/// Entries assumed for a hardware queue whose depth was not measured: an H200's, measured.
const DEPTH: u32 = 1_020;
/// A quarter of the depth is used. Events beside gates are not counted, and are fewer than that
/// leaves room for.
const SHARE: u32 = 4;

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

/// The registry of a device's gates, with its watch.
fn start<A: StreamApi>(
    api: &A,
    config: &StreamDeviceConfig,
) -> Result<Arc<GateRegistry<Option<FlagWord>>>, StreamError<A::Error>> {
    // One is left for streams without a queue.
    let most = api.connections().map_or(usize::MAX, |connections| connections.saturating_sub(1));
    let gates = GateRegistry::limited(config.blocked_after, config.hold_lease, most);
    gates.start().map_err(StreamError::Thread)
}

impl<A: StreamApi> StreamDevice<A> {
    /// Opens a device. Whether gates hold its streams is tested when the first one is wanted, or
    /// [`StreamDevice::level`] or [`StreamDevice::no_gate`] asks, which takes some milliseconds of
    /// the device. If they do not, its queues are at Lv1 and `no_gate` says why.
    ///
    /// # Errors
    /// [`StreamError::Thread`] if the system refuses a thread.
    pub fn new(api: A, config: StreamDeviceConfig) -> Result<Self, StreamError<A::Error>> {
        let gates = start(&api, &config)?;
        Ok(Self { inner: Arc::new(Inner::new(api, gates, Arc::default(), config, None)) })
    }

    /// Opens a device whose gates a scheduler in another process holds as one unit: each has a word
    /// in a page of this source. So streams that could not be held alone have gates as well, such
    /// as the legacy default stream, though they stay at Lv1 for this process. Calls that block
    /// while the unit is held open no gate.
    ///
    /// # Errors
    /// As [`StreamDevice::new`].
    pub fn in_unit(
        api: A,
        config: StreamDeviceConfig,
        source: Arc<dyn PageSource>,
    ) -> Result<Self, StreamError<A::Error>> {
        let gates = start(&api, &config)?;
        let inner = Inner::new(api, gates, Arc::default(), config, Some(source));
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Tells whether another process holds its gates as one unit.
    #[must_use]
    pub fn is_in_unit(&self) -> bool {
        self.inner.source.is_some()
    }

    /// Opens the GPU by another driver context, with this device's configuration. Streams, events
    /// and words of gates are made in that context, and gates are tested in it. The gates of both
    /// are forced open at the same times, and time counts as shared if queues of both had work.
    ///
    /// ```
    /// # use xsched_hal_stream::{StreamApi, StreamDevice};
    /// fn both<A: StreamApi>(first: &StreamDevice<A>, second: A) -> StreamDevice<A> {
    ///     first.in_context(second)
    /// }
    /// ```
    #[must_use]
    pub fn in_context(&self, api: A) -> Self {
        self.gpu().in_context(api)
    }

    /// The GPU, which may be opened by other contexts after this one has ended.
    #[must_use]
    pub fn gpu(&self) -> StreamGpu {
        let Inner { gates, occupancy, config, source, .. } = &*self.inner;
        let (gates, occupancy) = (Arc::clone(gates), Arc::clone(occupancy));
        StreamGpu { gates, occupancy, config: *config, source: source.clone() }
    }

    /// Says that one of its streams is about to wait for another one on the device, which it does
    /// not know of otherwise: that takes one of the device's
    /// [connections](StreamApi::connections).
    pub fn note_wait(&self) {
        self.inner.gates.note_wait();
    }

    /// Name and limits of the device, as the driver says.
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
        if self.no_gate().is_none() { Level::Deactivate } else { Level::Block }
    }

    /// Why the level is not [`Level::Deactivate`].
    #[must_use]
    pub fn no_gate(&self) -> Option<&NoGate> {
        self.inner.tested().no_gate.as_ref()
    }

    /// Commands, gates and fences that a queue keeps in flight. Before gates were tested this is a
    /// guess, which queues without gates go by.
    #[must_use]
    pub fn entries_max(&self) -> u32 {
        self.inner.entries_max()
    }

    /// How often gates were opened because a launch was blocked, or because another process that
    /// held one was silent for longer than its lease.
    #[must_use]
    pub fn forced_open(&self) -> u64 {
        self.inner.gates.forced()
    }

    /// How many launches took longer than the time after which gates are opened, and waited for a
    /// processor only. One that goes on to wait is counted by [`StreamDevice::forced_open`]
    /// too.
    #[must_use]
    pub fn spared_launches(&self) -> u64 {
        self.inner.gates.spared()
    }

    /// How often a command was measured whose kind has to share an estimate with another kind: a
    /// queue tells 512 kinds apart. If this goes on to grow, predictions are those of other kinds.
    #[must_use]
    pub fn kind_collisions(&self) -> u64 {
        self.inner.kind_collisions.load(Ordering::Relaxed)
    }

    /// Opens all gates, calls `f`, and closes the gates of the queues that are held by then. For
    /// calls that wait for the whole device, and would not return while a queue is held: freeing
    /// memory, loading code, raising the limit of the stack.
    ///
    /// ```
    /// # use xsched_hal_stream::{StreamApi, StreamDevice};
    /// fn free_memory<A: StreamApi>(device: &StreamDevice<A>, free: impl FnOnce()) {
    ///     device.with_gates_open(free);
    /// }
    /// ```
    pub fn with_gates_open<T>(&self, f: impl FnOnce() -> T) -> T {
        let open = self.inner.gates.open_all();
        let answer = f();
        drop(open);
        answer
    }

    /// The device's gates, for [`Gates::open_all`]. They do not keep the device.
    #[must_use]
    pub fn gates(&self) -> Gates {
        Gates(Arc::clone(&self.inner.gates))
    }

    /// A function that tells whether all gates are forced open now: because a call was blocked, or
    /// within [`StreamDevice::with_gates_open`]. A backend that stops queues in another way has to
    /// resume them at the same times. Answers false once the device is gone, and while another
    /// process holds all gates of this one: a hold of the whole process is no reason to resume any.
    #[must_use]
    pub fn gates_open(&self) -> Box<dyn Fn() -> bool + Send> {
        let gates = Arc::downgrade(&self.inner.gates);
        let is_open = |gates: Arc<GateRegistry<_>>| gates.all_open() && !gates.is_unit_held();
        Box::new(move || gates.upgrade().is_some_and(is_open))
    }

    /// Makes a shared page usable for gates of this device.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn share(&self, page: SharedPage) -> Result<SharedGates<A>, StreamError<A::Error>> {
        let page = Arc::new(page);
        let (host, bytes) = page.memory();
        // SAFETY: `Inner` owns the page. When it is dropped it unmaps the page only after the
        // driver has taken it back, and otherwise leaves it mapped until the process ends.
        let memory = unsafe { self.share_flags(host, bytes) }?;
        xsched_node::watch_page(&page);
        let mut shared = self.inner.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.push((memory, Arc::clone(&page)));
        drop(shared);
        Ok(SharedGates::new(Arc::clone(&self.inner), page, memory))
    }

    /// Takes a word for the gates of a queue that is opened later, with
    /// [`crate::StreamConfig::with_gate`], and of the graphs that are launched there.
    ///
    /// # Errors
    /// [`StreamError::NoGate`] if the device has no gates; or if the driver gives no memory.
    pub fn gate_word(&self) -> Result<GateWord<A>, StreamError<A::Error>> {
        GateWord::take(&self.inner)
    }

    /// Takes a word as [`StreamDevice::gate_word`] does, in a new page of this source: a scheduler
    /// in another process holds the queue and its graphs by that page, apart from the other queues
    /// of this device. Calls that wait for the whole device open the gate, unless all queues that
    /// have such words are held.
    ///
    /// # Errors
    /// As [`StreamDevice::gate_word`], and if the source has no page.
    pub fn gate_word_of(
        &self,
        source: &dyn PageSource,
    ) -> Result<GateWord<A>, StreamError<A::Error>> {
        GateWord::take_alone(&self.inner, source)
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

/// The gates of a device, in whatever contexts.
#[derive(Clone, Debug)]
pub struct Gates(Arc<GateRegistry<Option<FlagWord>>>);

impl Gates {
    /// Forces all of them open until the answer is dropped, for a call that waits for the whole
    /// device. See [`StreamDevice::with_gates_open`].
    ///
    /// ```
    /// # use xsched_hal_stream::{StreamApi, StreamDevice};
    /// fn exit<A: StreamApi>(devices: &[StreamDevice<A>], exit: impl FnOnce()) {
    ///     let open: Vec<_> = devices.iter().map(|device| device.gates().open_all()).collect();
    ///     exit();
    ///     drop(open);
    /// }
    /// ```
    #[must_use]
    pub fn open_all(&self) -> AllOpen {
        self.0.open_all().leave_open();
        AllOpen(Arc::clone(&self.0))
    }
}

/// A GPU that was opened, without a driver context.
#[derive(Clone, Debug)]
pub struct StreamGpu {
    gates: Arc<GateRegistry<Option<FlagWord>>>,
    occupancy: Arc<Occupancy>,
    config: StreamDeviceConfig,
    source: Option<Arc<dyn PageSource>>,
}

impl StreamGpu {
    /// Opens the GPU by a driver context: see [`StreamDevice::in_context`].
    #[must_use]
    pub fn in_context<A: StreamApi>(&self, api: A) -> StreamDevice<A> {
        let Self { gates, occupancy, config, source } = self.clone();
        StreamDevice { inner: Arc::new(Inner::new(api, gates, occupancy, config, source)) }
    }
}

/// All gates of a device are forced open until this is dropped; it does not keep the device.
#[derive(Debug)]
pub struct AllOpen(Arc<GateRegistry<Option<FlagWord>>>);

impl Drop for AllOpen {
    fn drop(&mut self) {
        drop(self.0.left_open());
    }
}

impl<A: StreamApi> Inner<A> {
    fn new(
        api: A,
        gates: Arc<GateRegistry<Option<FlagWord>>>,
        occupancy: Arc<Occupancy>,
        config: StreamDeviceConfig,
        source: Option<Arc<dyn PageSource>>,
    ) -> Self {
        Self {
            source,
            tested: OnceLock::new(),
            api: Arc::new(api),
            gates,
            occupancy,
            config,
            flags: Mutex::default(),
            leaving: Mutex::default(),
            timelines: Mutex::default(),
            gates_put: Stops::default(),
            shared: Mutex::default(),
            reasons: Mutex::default(),
            lost: AtomicU64::new(0),
            kind_collisions: AtomicU64::new(0),
            probe_ended: Arc::default(),
        }
    }

    /// Result of the test of gates, which the first call makes.
    pub(crate) fn tested(&self) -> &Tested {
        self.tested.get_or_init(|| {
            let tested = self.try_gate();
            let depth = tested.as_ref().ok().filter(|entries| **entries > 0).copied();
            if let Err(why) = &tested
                && *why != NoGate::Configured
            {
                tracing::warn!(device = self.api.about().device, "queues are at Lv1: {why}");
            }
            let no_gate = tested.err().or_else(|| self.start_probe());
            Tested { no_gate, entries_max: self.entries_of(depth) }
        })
    }

    /// See [`StreamDevice::entries_max`].
    pub(crate) fn entries_max(&self) -> u32 {
        self.tested.get().map_or_else(|| self.entries_of(None), |tested| tested.entries_max)
    }

    /// The entries of a hardware queue that a stream of a unit may use, events beside gates
    /// included. `spared`: it is held for no other process.
    pub(crate) fn entries_in_unit(&self, spared: bool) -> u32 {
        // Of the depth, three quarters or the half. Where others count no such events, they use as
        // much.
        let parts = if spared && self.config.entries_max.is_none() { 3 } else { 2 };
        self.entries_max().saturating_mul(parts * SHARE) / 4
    }

    /// The entries of a hardware queue that are used, of as many as were measured.
    fn entries_of(&self, depth: Option<u32>) -> u32 {
        let depth = depth.or_else(|| self.api.depth()).unwrap_or(DEPTH);
        self.config.entries_max.unwrap_or(depth / SHARE).max(4)
    }

    fn try_gate(&self) -> Result<u32, NoGate> {
        if self.config.level_max < Level::Deactivate {
            return Err(NoGate::Configured);
        }
        if let Some(why) = self.api.no_waits() {
            return Err(NoGate::NoWaits(why));
        }
        let failed = |error: StreamError<A::Error>| NoGate::Failed(error.to_string());
        let entered = self.api.enter().map_err(|error| NoGate::Failed(error.to_string()))?;
        let word = self.flags().take(&*self.api).map_err(failed)?;
        let tested = selftest::run(&*self.api, word, self.config.entries_max.is_none());
        drop(entered);
        // After a test that failed something may still wait for the word.
        if tested.is_ok() {
            self.flags().give_back(word);
        }
        tested
    }

    /// Starts to watch whether calls return while gates are closed. Says why there can be no gates
    /// without that.
    fn start_probe(&self) -> Option<NoGate> {
        if self.config.probe_every.is_zero() {
            return None;
        }
        let api = Arc::downgrade(&self.api);
        let [ended, is_over] = [(); 2].map(|()| Arc::clone(&self.probe_ended));
        let probe = move || {
            // The end of the device waits for a call that is under way.
            let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            !*ended && api.upgrade().is_some_and(|api| call_returns(&*api))
        };
        let is_wanted = move || !*is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let started = self.gates.probe(self.config.probe_every, is_wanted, probe);
        started.err().map(|error| NoGate::Failed(format!("no thread for its probe: {error}")))
    }
}

impl<A: StreamApi> GateWord<A> {
    /// Tells whether the word was taken from this device.
    #[must_use]
    pub fn is_of(&self, device: &StreamDevice<A>) -> bool {
        Arc::ptr_eq(&self.device, &device.inner)
    }
}
