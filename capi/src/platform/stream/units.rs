//! Streams that the scheduler of the node holds apart from the rest of the process.
//!
//! Each has a connection of its own with the scheduler, which has it as another process with the
//! same number. `XSCHED_AUTO_XQUEUE_UNIT=streams` asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use xsched::Runtime;
use xsched_core::hint::{Hints, Priority};
use xsched_node::{Link, Unit};
use xsched_policies::fcfs::Fcfs;

/// More streams than this are held together with the process.
const UNITS_MAX: usize = 32;

/// The connection of a process whose streams are units of their own.
#[derive(Clone, Debug)]
pub(super) struct Units {
    link: Arc<Link>,
    runtime: Runtime,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    made: AtomicUsize,
    /// The scheduler of the process has left the streams to that of the node.
    is_left: AtomicBool,
    /// A stream has waited for one that is held together with the process.
    is_rest_awaited: AtomicBool,
}

impl Units {
    /// Streams of a process with this connection.
    pub(super) fn new(link: &Arc<Link>, runtime: &Runtime) -> Self {
        Self { link: Arc::clone(link), runtime: runtime.clone(), counts: Arc::default() }
    }

    /// A stream waits for one that is held together with the process. True if that is the first
    /// time.
    pub(super) fn note_rest_awaited(&self) -> bool {
        !self.counts.is_rest_awaited.swap(true, Ordering::Relaxed)
    }

    /// Returns whether one has waited for such a stream.
    pub(super) fn is_rest_awaited(&self) -> bool {
        self.counts.is_rest_awaited.load(Ordering::Relaxed)
    }

    /// A unit for one more stream of a GPU, unless there are too many or the system refuses it.
    pub(super) fn connect(&self, gpu: &str) -> Option<StreamUnit> {
        let place = Place::take(&self.counts)?;
        let number = self.counts.made.fetch_add(1, Ordering::Relaxed) + 1;
        let connected = self.link.beside(&format!("stream {number}"));
        let told = |error: &_| tracing::warn!(%error, "a stream is held together with the process");
        let link = connected.inspect_err(told).ok()?;
        // Streams of a process run at the same time, whatever its GPU does with processes.
        let unit = link.unit_side_by_side(gpu.to_owned());
        let (runtime, is_awaited) = (self.runtime.clone(), AtomicBool::new(false));
        Some(StreamUnit { link, unit, runtime, is_awaited, place })
    }
}

/// One of the places that there are.
#[derive(Debug)]
struct Place(Arc<Counts>);

impl Place {
    fn take(counts: &Arc<Counts>) -> Option<Self> {
        let place = Self(Arc::clone(counts));
        (counts.open.fetch_add(1, Ordering::Relaxed) < UNITS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that is a unit of its own.
#[derive(Debug)]
pub(super) struct StreamUnit {
    link: Arc<Link>,
    unit: Arc<Unit>,
    runtime: Runtime,
    /// Another stream has waited for it.
    is_awaited: AtomicBool,
    place: Place,
}

impl StreamUnit {
    pub(super) const fn unit(&self) -> &Arc<Unit> {
        &self.unit
    }

    /// Begins its use: from now on only the scheduler of the node has streams wait for others, if
    /// there is one.
    pub(super) fn begin(&self) {
        self.link.set_levels(|| Some([0, 1, 0]));
        if self.link.is_connected()
            && !self.place.0.is_left.swap(true, Ordering::Relaxed)
            && let Err(error) = self.runtime.set_policy(Fcfs)
        {
            tracing::warn!(%error, "streams are held by the scheduler of the process as well");
        }
    }

    /// Another stream waits for it. True if that is the first time.
    pub(super) fn note_awaited(&self) -> bool {
        !self.is_awaited.swap(true, Ordering::Relaxed)
    }

    /// Tells the scheduler of the node what the stream's XQueue was told. One that others wait for
    /// has the highest priority of the process: it may be one of those that waits.
    pub(super) fn tell(&self, hints: &Hints, highest: Priority) {
        let is_awaited = self.is_awaited.load(Ordering::Relaxed);
        let priority = if is_awaited { highest } else { hints.priority };
        self.link.set_hints(priority.get().into(), hints.utilization);
    }
}
