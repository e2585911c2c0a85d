//! The device.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use xsched_core::level::Level;

use crate::api::{About, FlagMemory, StreamApi};
use crate::config::StreamDeviceConfig;
use crate::error::{NoGate, StreamError};
use crate::flags::Flags;
use crate::inner::Inner;
use crate::occupancy::Occupancy;
use crate::page::SharedPage;
use crate::probe::call_returns;
use crate::registry::GateRegistry;
use crate::selftest;
use crate::shared::SharedGates;
use crate::word::GateWord;

/// Entries assumed for a hardware queue whose depth was not measured: an H200's, measured.
const DEPTH: u32 = 1_020;
/// Of the depth, one part in so many is used. Events beside gates are not counted, and are fewer
/// than that leaves room for.
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

impl<A: StreamApi> StreamDevice<A> {
    /// Opens a device, and tests whether gates hold its streams, which takes some milliseconds of
    /// the device. If they do not, its queues are at Lv1 and [`StreamDevice::no_gate`] says why.
    ///
    /// # Errors
    /// [`StreamError::Thread`] if the system refuses a thread.
    pub fn new(api: A, config: StreamDeviceConfig) -> Result<Self, StreamError<A::Error>> {
        let gates = GateRegistry::start(config.blocked_after, config.hold_lease)
            .map_err(StreamError::Thread)?;
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
            gates,
            occupancy: Occupancy::default(),
            config,
            flags: Mutex::new(flags),
            leaving: Mutex::default(),
            shared: Mutex::default(),
            reasons: Mutex::default(),
            lost: AtomicU64::new(0),
        };
        if inner.no_gate.is_none() && !config.probe_every.is_zero() {
            let api = Arc::downgrade(&inner.api);
            let probe = move || api.upgrade().is_some_and(|api| call_returns(&*api));
            inner.gates.probe(config.probe_every, probe).map_err(StreamError::Thread)?;
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
        self.inner.gates.forced()
    }

    /// How many launches took so long that gates would have been opened, but were found to wait for
    /// a processor only. One that goes on to wait is counted by [`StreamDevice::forced_open`] too.
    #[must_use]
    pub fn spared_launches(&self) -> u64 {
        self.inner.gates.spared()
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

    /// A function that tells whether all gates are forced open now: because a call was blocked, or
    /// within [`StreamDevice::with_gates_open`]. A backend that stops queues in another way has to
    /// resume them at the same times. Answers false once the device is gone.
    #[must_use]
    pub fn gates_open(&self) -> Box<dyn Fn() -> bool + Send> {
        let gates = Arc::downgrade(&self.inner.gates);
        Box::new(move || gates.upgrade().is_some_and(|gates| gates.all_open()))
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

impl<A: StreamApi> GateWord<A> {
    /// Whether the word was taken from this device.
    #[must_use]
    pub fn is_of(&self, device: &StreamDevice<A>) -> bool {
        Arc::ptr_eq(&self.device, &device.inner)
    }
}
