//! Events.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::capture::Capture;
use crate::device::Device;
use crate::spin::now_ns;
use crate::stream::Stream;

/// One recording of an event.
#[derive(Debug, Default)]
pub struct Record(AtomicU64);

impl Record {
    /// All before it is done.
    pub fn complete(&self) {
        self.0.store(now_ns(), Ordering::Release);
    }

    /// When it completed, if it has.
    #[must_use]
    pub fn time_ns(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|time| *time > 0)
    }
}

/// Where an event was recorded last.
#[derive(Clone, Debug, Default)]
enum Last {
    #[default]
    Nowhere,
    Device(Arc<Record>),
    /// In a capture, behind these nodes.
    Capture(Arc<Capture>, Vec<usize>),
}

/// An event.
pub struct Event {
    /// Device.
    pub device: &'static Device,
    /// True if it can be asked for its time.
    pub takes_time: bool,
    last: Mutex<Last>,
    /// The stream of its last recording, and how many commands that had by then.
    place: Mutex<(Weak<Stream>, u64)>,
}

impl Event {
    /// An event that was not recorded.
    #[must_use]
    pub const fn new(device: &'static Device, takes_time: bool) -> Self {
        let place = Mutex::new((Weak::new(), 0));
        Self { device, takes_time, last: Mutex::new(Last::Nowhere), place }
    }

    /// Notes that it was recorded as this command of the stream.
    pub(crate) fn note_place(&self, stream: &Arc<Stream>, number: u64) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) =
            (Arc::downgrade(stream), number);
    }

    /// The program was told that it has completed, because it asked.
    pub fn note_seen(&self) {
        let (stream, number) = &*self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = stream.upgrade() {
            stream.note_seen(*number);
        }
    }

    fn set(&self, last: Last) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    fn get(&self) -> Last {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Last recording, if it is one on the device.
    pub fn last(&self) -> Option<Arc<Record>> {
        if let Last::Device(record) = self.get() { Some(record) } else { None }
    }

    /// The capture in which it was recorded last, and behind which nodes.
    pub fn captured(&self) -> Option<(Arc<Capture>, Vec<usize>)> {
        if let Last::Capture(capture, nodes) = self.get() { Some((capture, nodes)) } else { None }
    }

    /// A fresh recording, which is its last from now on.
    pub fn start(&self) -> Arc<Record> {
        let record = Arc::<Record>::default();
        self.set(Last::Device(Arc::clone(&record)));
        record
    }

    /// Records it in a capture, behind these nodes.
    pub fn capture(&self, capture: Arc<Capture>, nodes: Vec<usize>) {
        self.set(Last::Capture(capture, nodes));
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("last", &self.get()).finish_non_exhaustive()
    }
}
