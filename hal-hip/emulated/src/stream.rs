//! Streams.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::code::Answer;
use crate::device::Device;
use crate::ring::{Item, Ring, Work, await_condition};

/// Makes a stream that does not wait for the default stream.
pub(crate) const NON_BLOCKING: u32 = 1;

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: &'static Device,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    /// It is the legacy default stream.
    pub(crate) is_default: bool,
    /// What `hipStreamIsCapturing` answers.
    pub(crate) capture: AtomicU32,
    ring: Arc<Ring>,
    /// One launches at a time, so that numbers are in the order of the ring.
    launching: Mutex<()>,
    launched: AtomicU64,
    done: AtomicU64,
}

impl Stream {
    pub(crate) fn new(device: &'static Device, ring: Arc<Ring>, flags: u32, priority: i32) -> Self {
        Self {
            device,
            flags,
            priority,
            is_default: false,
            capture: AtomicU32::new(0),
            ring,
            launching: Mutex::new(()),
            launched: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }

    /// The legacy default stream of a device.
    pub(crate) fn default_of(device: &'static Device, ring: Arc<Ring>) -> Self {
        Self { is_default: true, ..Self::new(device, ring, 0, 0) }
    }

    /// Whether it and the default stream wait for each other.
    pub(crate) const fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    pub(crate) const fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    pub(crate) fn launched(&self) -> u64 {
        self.launched.load(Ordering::Acquire)
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    pub(crate) fn finish(&self, number: u64) {
        self.done.store(number, Ordering::Release);
    }

    /// Launches something. Blocks while the ring is full.
    pub(crate) fn launch(self: &Arc<Self>, work: Work) -> Answer {
        self.device.check()?;
        let _launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        let after = self.device.before(self);
        let number = self.launched() + 1;
        let item = Item { stream: Arc::clone(self), number, after, work };
        self.ring.push(item, self.device.depth());
        // Only now: others wait for all up to this, maybe in the same ring.
        self.launched.store(number, Ordering::Release);
        Ok(())
    }

    /// Waits until all that was launched by now is done.
    pub(crate) fn synchronize(&self) {
        let number = self.launched();
        await_condition(|| self.done() >= number);
    }
}
