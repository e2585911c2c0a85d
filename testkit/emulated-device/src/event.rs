//! Events.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::capture::Capture;
use crate::device::Device;
use crate::spin::now_ns;

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
    /// Its device.
    pub device: &'static Device,
    /// It can be asked for its time.
    pub takes_time: bool,
    last: Mutex<Last>,
}

impl Event {
    /// An event that was not recorded.
    #[must_use]
    pub const fn new(device: &'static Device, takes_time: bool) -> Self {
        Self { device, takes_time, last: Mutex::new(Last::Nowhere) }
    }

    fn set(&self, last: Last) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    fn get(&self) -> Last {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its last recording, if it is one on the device.
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

    /// It is recorded in a capture, behind these nodes.
    pub fn capture(&self, capture: Arc<Capture>, nodes: Vec<usize>) {
        self.set(Last::Capture(capture, nodes));
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("last", &self.get()).finish_non_exhaustive()
    }
}
