//! Devices: their rings, units and streams.

use std::env;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::capture::Capture;
use crate::code::{Answer, STREAM_CAPTURE_UNSUPPORTED, SUCCESS, ensure};
use crate::ring::{Leave, Ring};
use crate::stream::Stream;

/// Priorities that have rings of their own: the least and the most urgent.
const PRIORITIES: (i32, i32) = (1, -1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Settings of the environment.
#[derive(Debug)]
struct Settings {
    depth: usize,
    units: usize,
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let number = |name: &str, otherwise| {
        let text = env::var(name).ok();
        text.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(otherwise)
    };
    Settings {
        depth: number("XSCHED_EMULATED_DEPTH", 1_024).max(1),
        units: number("XSCHED_EMULATED_UNITS", 1).max(1),
    }
});

/// Checks that no capture of a device forbids this thread what is not safe while one is under way.
///
/// # Errors
/// If one does. It is spoiled.
pub fn check_safe(device: &Device) -> Answer {
    let mut captures = device.captures(false);
    captures.retain(|capture| capture.forbids_this_thread());
    captures.iter().for_each(|capture| capture.spoil());
    ensure(captures.is_empty(), STREAM_CAPTURE_UNSUPPORTED)
}

/// Makes that whose leave a ring of a device needs, if it needs one.
pub type MakeLeave = fn(u32, &'static Units) -> Answer<Option<Box<dyn Leave>>>;

/// Where a stream's commands go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A ring of its own.
    Own,
    /// One of those that all streams share that are alike urgent.
    Shared,
    /// Whenever it gets work, one of the device's that no other stream has work in, or else the one
    /// with the least.
    Connection,
}

/// A device, or what is one to its streams. One that is made is never given back.
#[derive(Debug)]
pub struct Device {
    /// Number.
    pub ordinal: u32,
    rings: usize,
    make_leave: MakeLeave,
    /// The error with which it was lost, or 0.
    error: AtomicU32,
    /// The rings that streams share, for each priority.
    shared: Mutex<[Vec<Shared>; 3]>,
    /// The rings that streams take as they get work.
    connections: Mutex<Vec<Arc<Ring>>>,
    /// All streams but the default one.
    streams: Mutex<Vec<Arc<Stream>>>,
    default: Mutex<Option<Arc<Stream>>>,
    /// Where cooperative kernels of all streams are carried out.
    cooperative: Mutex<Option<Arc<Stream>>>,
    turns: Turns,
    units: Units,
}

/// The units, for rings that can be stopped in the middle of a kernel: a stopped kernel leaves its
/// unit to other commands, in no order.
#[derive(Debug, Default)]
pub struct Units(AtomicU32);

impl Units {
    /// Takes one; in between tries, does something else.
    pub fn take(&self, mut wait: impl FnMut()) {
        let more = |taken: u32| ((taken as usize) < SETTINGS.units).then_some(taken + 1);
        while self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
            wait();
        }
    }

    /// Gives it back.
    pub fn put_back(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A ring that streams share, and how many do.
type Shared = (Arc<Ring>, usize);

/// Order in which threads may use the units: that in which they asked.
#[derive(Debug, Default)]
struct Turns {
    state: Mutex<(u64, u64)>,
    changed: Condvar,
}

impl Device {
    /// A device with this number, and this many rings for streams that are alike urgent and share.
    #[must_use]
    pub fn new(ordinal: u32, rings: usize, make_leave: MakeLeave) -> Self {
        Self {
            ordinal,
            rings,
            make_leave,
            error: AtomicU32::new(SUCCESS),
            shared: Mutex::default(),
            connections: Mutex::default(),
            streams: Mutex::default(),
            default: Mutex::default(),
            cooperative: Mutex::default(),
            turns: Turns::default(),
            units: Units::default(),
        }
    }

    pub(crate) fn make_leave(&'static self) -> Answer<Option<Box<dyn Leave>>> {
        (self.make_leave)(self.ordinal, &self.units)
    }

    pub(crate) fn depth(&self) -> usize {
        SETTINGS.depth
    }

    /// With which error it was lost, if it was.
    pub fn error(&self) -> Option<u32> {
        Some(self.error.load(Ordering::Acquire)).filter(|code| *code != SUCCESS)
    }

    /// Fails if it was lost.
    ///
    /// # Errors
    /// The one with which it was.
    pub fn check(&self) -> Answer {
        self.error().map_or(Ok(()), Err)
    }

    /// Loses it, unless the code is that of success. The first one counts.
    pub fn lose(&self, code: u32) {
        let order = Ordering::AcqRel;
        let _ = self.error.compare_exchange(SUCCESS, code, order, Ordering::Relaxed);
    }

    /// Runs something when a unit is free, in the order of the calls.
    pub fn with_unit<R>(&self, body: impl FnOnce() -> R) -> R {
        let units = SETTINGS.units as u64;
        let mut state = lock(&self.turns.state);
        let turn = state.0;
        state.0 += 1;
        while turn >= state.1 + units {
            state = self.turns.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let result = body();
        lock(&self.turns.state).1 += 1;
        self.turns.changed.notify_all();
        result
    }

    /// The legacy default stream.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn default_stream(&'static self) -> Answer<Arc<Stream>> {
        let mut default = lock(&self.default);
        if let Some(stream) = &*default {
            return Ok(Arc::clone(stream));
        }
        let stream = Arc::new(Stream::default_of(self, self.shared_ring(0)?));
        *default = Some(Arc::clone(&stream));
        Ok(stream)
    }

    /// The hidden stream of cooperative kernels.
    pub(crate) fn cooperative_stream(&'static self) -> Answer<Arc<Stream>> {
        let mut cooperative = lock(&self.cooperative);
        if let Some(stream) = &*cooperative {
            return Ok(Arc::clone(stream));
        }
        let stream = Stream::new(self, Ring::start(self)?, crate::stream::NON_BLOCKING, 0);
        let stream = Arc::new(stream);
        *cooperative = Some(Arc::clone(&stream));
        Ok(stream)
    }

    /// A stream.
    ///
    /// # Errors
    /// If the device was lost, or there is no thread.
    pub fn open_stream(
        &'static self,
        flags: u32,
        priority: i32,
        place: Place,
    ) -> Answer<Arc<Stream>> {
        self.check()?;
        self.prune();
        let ring = match place {
            Place::Shared => self.shared_ring(priority.clamp(PRIORITIES.1, PRIORITIES.0))?,
            Place::Own => Ring::start(self)?,
            Place::Connection => self.connection()?,
        };
        let mut stream = Stream::new(self, ring, flags, priority);
        stream.has_own_ring = place == Place::Own;
        stream.takes_connections = place == Place::Connection;
        let stream = Arc::new(stream);
        lock(&self.streams).push(Arc::clone(&stream));
        Ok(stream)
    }

    /// The stream gets no commands any more. What was launched is carried out.
    pub fn close_stream(&self, stream: &Arc<Stream>) {
        stream.is_closed.store(true, Ordering::Release);
        let mut shared = lock(&self.shared);
        for (ring, users) in shared.iter_mut().flatten() {
            *users -= usize::from(Arc::ptr_eq(ring, &stream.ring()));
        }
        drop(shared);
        self.prune();
    }

    /// Forgets closed streams with nothing to do.
    fn prune(&self) {
        let is_over = |stream: &mut Arc<Stream>| {
            stream.is_closed.load(Ordering::Acquire) && stream.done() == stream.launched()
        };
        let mut streams = lock(&self.streams);
        // Dropped when nothing is locked.
        let over: Vec<_> = streams.extract_if(.., is_over).collect();
        drop(streams);
        drop(over);
    }

    /// Ends it, with all its streams: it is lost with this code, and what runs is waited for.
    pub fn close(&self, code: u32) {
        self.lose(code);
        self.synchronize();
        let streams = std::mem::take(&mut *lock(&self.streams));
        let (default, cooperative) = (lock(&self.default).take(), lock(&self.cooperative).take());
        drop((streams, default, cooperative));
        *lock(&self.shared) = Default::default();
        lock(&self.connections).clear();
    }

    /// The captures that its streams take part in, or only its blocking ones.
    pub fn captures(&self, only_blocking: bool) -> Vec<Arc<Capture>> {
        let streams = lock(&self.streams).clone();
        let asked = streams.iter().filter(|stream| !only_blocking || stream.is_blocking());
        asked.filter_map(|stream| Some(stream.capture()?.0)).collect()
    }

    /// A fresh ring for this priority, or the one with the fewest streams if there are enough.
    fn shared_ring(&'static self, priority: i32) -> Answer<Arc<Ring>> {
        let mut shared = lock(&self.shared);
        let class = usize::try_from(priority - PRIORITIES.1).unwrap_or(1).min(2);
        let rings = &mut shared[class];
        if rings.len() < self.rings {
            let ring = Ring::start(self)?;
            rings.push((Arc::clone(&ring), 1));
            return Ok(ring);
        }
        let least = rings.iter_mut().min_by_key(|(_, users)| *users);
        let (ring, users) = least.ok_or(crate::code::OUT_OF_MEMORY)?;
        *users += 1;
        Ok(Arc::clone(ring))
    }

    /// The ring for a stream that gets work.
    pub(crate) fn connection(&'static self) -> Answer<Arc<Ring>> {
        let mut rings = lock(&self.connections);
        let least = rings.iter().min_by_key(|ring| ring.load()).cloned();
        match least {
            Some(ring) if ring.load() == 0 || rings.len() >= self.rings => Ok(ring),
            _ => {
                let ring = Ring::start(self)?;
                rings.push(Arc::clone(&ring));
                Ok(ring)
            }
        }
    }

    /// Returns what a stream's next command has to wait for in other streams.
    pub(crate) fn before(&self, stream: &Stream) -> Vec<(Arc<Stream>, u64)> {
        let pending = |other: &Arc<Stream>| {
            let launched = other.launched();
            (other.done() < launched).then(|| (Arc::clone(other), launched))
        };
        if stream.is_default {
            let streams = lock(&self.streams);
            let blocking = streams.iter().filter(|other| other.is_blocking());
            return blocking.filter_map(pending).collect();
        }
        if !stream.is_blocking() {
            return Vec::new();
        }
        lock(&self.default).as_ref().and_then(pending).into_iter().collect()
    }

    /// Waits until all that was launched by now is done.
    pub fn synchronize(&self) {
        let streams = lock(&self.streams).clone();
        let default = lock(&self.default).clone();
        for stream in streams.iter().chain(&default) {
            stream.synchronize();
        }
    }
}
