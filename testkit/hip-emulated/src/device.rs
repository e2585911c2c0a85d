//! Devices: their rings, units and streams.

use std::env;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, OnceLock, PoisonError};

use crate::code::{Answer, SUCCESS};
use crate::ring::Ring;
use crate::stream::Stream;

/// Compute units that a device says it has.
pub(crate) const COMPUTE_UNITS: i32 = 80;
/// Priorities: the least and the most urgent.
pub(crate) const PRIORITIES: (i32, i32) = (1, -1);

/// What the environment says.
#[derive(Debug)]
struct Settings {
    depth: usize,
    rings: usize,
    units: usize,
    signal_only: bool,
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let number = |name: &str, otherwise| {
        let text = env::var(name).ok();
        text.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(otherwise)
    };
    Settings {
        depth: number("XSCHED_EMULATED_DEPTH", 1_024).max(1),
        rings: number("GPU_MAX_HW_QUEUES", 4).max(1),
        units: number("XSCHED_EMULATED_UNITS", 1).max(1),
        signal_only: number("GPU_STREAMOPS_CP_WAIT", 0) > 0,
    }
});

/// Whether streams wait for signal memory only.
pub(crate) fn waits_for_signals_only() -> bool {
    SETTINGS.signal_only
}

#[derive(Debug)]
pub(crate) struct Device {
    /// Its number.
    pub(crate) ordinal: u32,
    /// The error with which it was lost, or 0.
    error: AtomicU32,
    /// The rings that streams share, for each priority.
    shared: Mutex<[Vec<Shared>; 3]>,
    /// All streams but the default one.
    streams: Mutex<Vec<Arc<Stream>>>,
    default: OnceLock<Arc<Stream>>,
    /// Where cooperative kernels of all streams are carried out.
    cooperative: OnceLock<Arc<Stream>>,
    turns: Turns,
    pub(crate) units: Units,
}

/// The units, for rings that can be stopped in the middle of a kernel: a stopped kernel leaves its
/// unit to other commands, in no order.
#[derive(Debug, Default)]
pub(crate) struct Units(AtomicU32);

impl Units {
    /// Takes one; in between tries, does something else.
    pub(crate) fn take(&self, mut wait: impl FnMut()) {
        let more = |taken: u32| ((taken as usize) < SETTINGS.units).then_some(taken + 1);
        while self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
            wait();
        }
    }

    pub(crate) fn put_back(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A ring that streams share, and how many do.
type Shared = (Arc<Ring>, usize);

/// Who may use the units: who asked first.
#[derive(Debug, Default)]
struct Turns {
    state: Mutex<(u64, u64)>,
    changed: Condvar,
}

impl Device {
    pub(crate) fn new(ordinal: u32) -> Self {
        Self {
            ordinal,
            error: AtomicU32::new(SUCCESS),
            shared: Mutex::default(),
            streams: Mutex::default(),
            default: OnceLock::new(),
            cooperative: OnceLock::new(),
            turns: Turns::default(),
            units: Units::default(),
        }
    }

    pub(crate) fn depth(&self) -> usize {
        SETTINGS.depth
    }

    /// With which error it was lost, if it was.
    pub(crate) fn error(&self) -> Option<u32> {
        Some(self.error.load(Ordering::Acquire)).filter(|code| *code != SUCCESS)
    }

    /// Fails if it was lost.
    pub(crate) fn check(&self) -> Answer {
        self.error().map_or(Ok(()), Err)
    }

    /// Loses it, unless the code is that of success. The first one counts.
    pub(crate) fn lose(&self, code: u32) {
        let order = Ordering::AcqRel;
        let _ = self.error.compare_exchange(SUCCESS, code, order, Ordering::Relaxed);
    }

    /// Runs something when a unit is free, in the order of the calls.
    pub(crate) fn with_unit<R>(&self, body: impl FnOnce() -> R) -> R {
        let units = SETTINGS.units as u64;
        let mut state = self.turns.state.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = state.0;
        state.0 += 1;
        while turn >= state.1 + units {
            state = self.turns.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let result = body();
        self.turns.state.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
        self.turns.changed.notify_all();
        result
    }

    /// The legacy default stream.
    pub(crate) fn default_stream(&'static self) -> Answer<Arc<Stream>> {
        if let Some(stream) = self.default.get() {
            return Ok(Arc::clone(stream));
        }
        let ring = self.shared_ring(0)?;
        Ok(Arc::clone(self.default.get_or_init(|| Arc::new(Stream::default_of(self, ring)))))
    }

    /// The hidden stream of cooperative kernels.
    pub(crate) fn cooperative_stream(&'static self) -> Answer<Arc<Stream>> {
        if let Some(stream) = self.cooperative.get() {
            return Ok(Arc::clone(stream));
        }
        let stream = Stream::new(self, Ring::start(self)?, crate::stream::NON_BLOCKING, 0);
        Ok(Arc::clone(self.cooperative.get_or_init(|| Arc::new(stream))))
    }

    /// A stream in a ring of its own, if it has no priority.
    pub(crate) fn open_stream(
        &'static self,
        flags: u32,
        priority: Option<i32>,
    ) -> Answer<Arc<Stream>> {
        self.check()?;
        let number = priority.unwrap_or_default().clamp(PRIORITIES.1, PRIORITIES.0);
        let ring = match priority {
            Some(_) => self.shared_ring(number)?,
            None => Ring::start(self)?,
        };
        let stream = Arc::new(Stream::new(self, ring, flags, number));
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&stream));
        Ok(stream)
    }

    pub(crate) fn close_stream(&self, stream: &Arc<Stream>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|other| !Arc::ptr_eq(other, stream));
        drop(streams);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for (ring, users) in shared.iter_mut().flatten() {
            *users -= usize::from(Arc::ptr_eq(ring, stream.ring()));
        }
    }

    /// A fresh ring for this priority, or the one with the fewest streams if there are enough.
    fn shared_ring(&'static self, priority: i32) -> Answer<Arc<Ring>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let class = usize::try_from(priority - PRIORITIES.1).unwrap_or(1).min(2);
        let rings = &mut shared[class];
        if rings.len() < SETTINGS.rings {
            let ring = Ring::start(self)?;
            rings.push((Arc::clone(&ring), 1));
            return Ok(ring);
        }
        let least = rings.iter_mut().min_by_key(|(_, users)| *users);
        let (ring, users) = least.ok_or(crate::code::OUT_OF_MEMORY)?;
        *users += 1;
        Ok(Arc::clone(ring))
    }

    /// What a stream's next command has to wait for in other streams.
    pub(crate) fn before(&self, stream: &Stream) -> Vec<(Arc<Stream>, u64)> {
        let pending = |other: &Arc<Stream>| {
            let launched = other.launched();
            (other.done() < launched).then(|| (Arc::clone(other), launched))
        };
        if stream.is_default {
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            let blocking = streams.iter().filter(|other| other.is_blocking());
            return blocking.filter_map(pending).collect();
        }
        let default = self.default.get().filter(|_| stream.is_blocking());
        default.and_then(pending).into_iter().collect()
    }

    /// Waits until all that was launched by now is done.
    pub(crate) fn synchronize(&self) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for stream in streams.iter().chain(self.default.get()) {
            stream.synchronize();
        }
    }
}
