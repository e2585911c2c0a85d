//! Streams.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::code::{Answer, ILLEGAL_STATE, STREAM_CAPTURE_INVALIDATED, STREAM_CAPTURE_UNSUPPORTED};
use crate::device::Device;
use crate::ring::{Item, Ring, Work, await_condition};

/// `hipStreamCaptureStatusNone`, `Active` and `Invalidated`.
const CAPTURE: [u32; 3] = [0, 1, 2];
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
    /// What was captured so far, while a capture is under way.
    captured: Mutex<Option<Vec<Work>>>,
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
            captured: Mutex::default(),
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

    /// Launches something, or captures it. Blocks while the ring is full.
    pub(crate) fn launch(self: &Arc<Self>, work: Work) -> Answer {
        self.device.check()?;
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = &mut *captured {
            if !matches!(work, Work::Kernel { .. } | Work::Fill { .. } | Work::Copy { .. }) {
                self.capture.store(CAPTURE[2], Ordering::Release);
                return Err(STREAM_CAPTURE_UNSUPPORTED);
            }
            row.push(work);
            return Ok(());
        }
        drop(captured);
        self.launch_after(work, Vec::new()).map(drop)
    }

    /// Captures what is launched from now on.
    pub(crate) fn begin_capture(&self) -> Answer {
        if self.is_default {
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        if captured.is_some() {
            return Err(ILLEGAL_STATE);
        }
        *captured = Some(Vec::new());
        self.capture.store(CAPTURE[1], Ordering::Release);
        Ok(())
    }

    /// What was captured.
    pub(crate) fn end_capture(&self) -> Answer<Vec<Work>> {
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let row = captured.take().ok_or(ILLEGAL_STATE)?;
        let status = self.capture.swap(CAPTURE[0], Ordering::AcqRel);
        if status == CAPTURE[1] { Ok(row) } else { Err(STREAM_CAPTURE_INVALIDATED) }
    }

    /// Fails, and spoils the capture, if one is under way: nothing of it runs that could end.
    pub(crate) fn check_waitable(&self) -> Answer {
        if self.captured.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Ok(());
        }
        self.capture.store(CAPTURE[2], Ordering::Release);
        Err(STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Launches a kernel in the device's ring for those whose blocks wait for each other: after all
    /// of this stream, which goes on after it.
    pub(crate) fn launch_together(self: &Arc<Self>, work: Work) -> Answer {
        if self.captured.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            self.capture.store(CAPTURE[2], Ordering::Release);
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        let together = self.device.cooperative_stream()?;
        let before = vec![(Arc::clone(self), self.launched())];
        let number = together.launch_after(work, before)?;
        self.launch_after(Work::Nothing, vec![(together, number)]).map(drop)
    }

    /// Launches a command that waits for other commands. Returns its number.
    fn launch_after(self: &Arc<Self>, work: Work, mut after: Vec<(Arc<Self>, u64)>) -> Answer<u64> {
        self.device.check()?;
        let _launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        after.extend(self.device.before(self));
        let number = self.launched() + 1;
        let item = Item { stream: Arc::clone(self), number, after, work };
        self.ring.push(item, self.device.depth());
        // Only now: other streams wait for all up to this, maybe in the same ring.
        self.launched.store(number, Ordering::Release);
        Ok(number)
    }

    /// Waits until all that was launched by now is done.
    pub(crate) fn synchronize(&self) {
        let number = self.launched();
        await_condition(|| self.done() >= number);
    }
}
