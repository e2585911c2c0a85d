//! Events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use crate::device::Device;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds of the device's clock. Never 0.
fn now_ns() -> u64 {
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

/// One recording of an event.
#[derive(Debug, Default)]
pub(crate) struct Record(AtomicU64);

impl Record {
    pub(crate) fn complete(&self) {
        self.0.store(now_ns(), Ordering::Release);
    }

    /// When it completed, if it has.
    pub(crate) fn time_ns(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|time| *time > 0)
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: &'static Device,
    pub(crate) takes_time: bool,
    last: Mutex<Option<Arc<Record>>>,
}

impl Event {
    pub(crate) const fn new(device: &'static Device, takes_time: bool) -> Self {
        Self { device, takes_time, last: Mutex::new(None) }
    }

    /// Its last recording.
    pub(crate) fn last(&self) -> Option<Arc<Record>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn start(&self) -> Arc<Record> {
        let record = Arc::<Record>::default();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&record));
        record
    }
}
