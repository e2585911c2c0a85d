//! Streams.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::capture::{Capture, RELAXED};
use crate::code::{
    Answer, CAPTURED_EVENT, ILLEGAL_STATE, INVALID_VALUE, STREAM_CAPTURE_INVALIDATED,
    STREAM_CAPTURE_ISOLATION, STREAM_CAPTURE_MERGE, STREAM_CAPTURE_UNJOINED,
    STREAM_CAPTURE_UNMATCHED, STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_WRONG_THREAD,
};
use crate::device::Device;
use crate::event::Event;
use crate::graph::Graph;
use crate::ring::{Item, Ring, await_condition};
use crate::work::{Kind, Work};

/// Makes a stream that does not wait for the default stream.
pub const NON_BLOCKING: u32 = 1;

/// A capture that a stream takes part in.
#[derive(Clone, Debug)]
struct Part {
    capture: Arc<Capture>,
    /// Nodes that the stream's next command comes after.
    ends: Vec<usize>,
    /// The capture began in this stream.
    is_origin: bool,
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// Device.
    pub device: &'static Device,
    /// The flags that it was made with.
    pub flags: u32,
    /// Priority, which has no effect.
    pub priority: i32,
    /// True for the legacy default stream.
    pub is_default: bool,
    /// No other stream is in its ring, ever.
    pub has_own_ring: bool,
    /// True if it takes a connection whenever it gets work.
    pub(crate) takes_connections: bool,
    /// Answer about its capture, instead of the truth, if not 0.
    pub pretended: AtomicU32,
    part: Mutex<Option<Part>>,
    ring: Mutex<Arc<Ring>>,
    /// One launches at a time, so that numbers are in the order of the ring.
    launching: Mutex<()>,
    launched: AtomicU64,
    done: AtomicU64,
    /// Commands that the program knows to be done, because it asked for an event behind them.
    seen: AtomicU64,
    pub(crate) is_closed: AtomicBool,
}

impl Stream {
    pub(crate) fn new(device: &'static Device, ring: Arc<Ring>, flags: u32, priority: i32) -> Self {
        Self {
            device,
            flags,
            priority,
            is_default: false,
            has_own_ring: false,
            takes_connections: false,
            pretended: AtomicU32::new(0),
            part: Mutex::default(),
            ring: Mutex::new(ring),
            launching: Mutex::new(()),
            launched: AtomicU64::new(0),
            done: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The legacy default stream of a device.
    pub(crate) fn default_of(device: &'static Device, ring: Arc<Ring>) -> Self {
        Self { is_default: true, ..Self::new(device, ring, 0, 0) }
    }

    /// True if it and the default stream wait for each other.
    #[must_use]
    pub const fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    pub(crate) fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.ring.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many commands were launched.
    pub fn launched(&self) -> u64 {
        self.launched.load(Ordering::Acquire)
    }

    /// How many commands are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// How many commands the program knows to be done, because it asked for an event behind them.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    pub(crate) fn note_seen(&self, number: u64) {
        self.seen.fetch_max(number, Ordering::AcqRel);
    }

    pub(crate) fn finish(&self, number: u64) {
        self.done.store(number, Ordering::Release);
    }

    fn part(&self) -> MutexGuard<'_, Option<Part>> {
        let mut part = self.part.lock().unwrap_or_else(PoisonError::into_inner);
        if part.as_ref().is_some_and(|part| part.capture.is_over()) {
            *part = None;
        }
        part
    }

    /// Launches something, or captures it. Blocks while the ring is full.
    ///
    /// # Errors
    /// That of the device, if it was lost, or of the capture.
    pub fn launch(self: &Arc<Self>, kind: Kind, work: Work) -> Answer {
        self.launch_all(kind, vec![work])
    }

    /// As [`Stream::launch`], with one node of a captured graph for all.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    pub fn launch_all(self: &Arc<Self>, kind: Kind, works: Vec<Work>) -> Answer {
        self.device.check()?;
        if let Some(part) = &mut *self.part() {
            if part.capture.is_spoiled() {
                return Err(STREAM_CAPTURE_INVALIDATED);
            }
            let node = part.capture.with_graph(|graph| graph.add(kind, works, &part.ends));
            part.ends = vec![node];
            return Ok(());
        }
        works.into_iter().try_for_each(|work| self.launch_after(work, Vec::new()).map(drop))
    }

    /// Launches a command that waits for other commands. Returns its number.
    ///
    /// # Errors
    /// That of the device, if it was lost.
    pub fn launch_after(
        self: &Arc<Self>,
        work: Work,
        mut after: Vec<(Arc<Self>, u64)>,
    ) -> Answer<u64> {
        self.device.check()?;
        let _launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        after.extend(self.device.before(self));
        let number = self.launched() + 1;
        let item = Item { stream: Arc::clone(self), number, after, work };
        if self.takes_connections && self.done() == self.launched() {
            // What it had has run, so that its commands stay in order.
            let connection = self.device.connection()?;
            *self.ring.lock().unwrap_or_else(PoisonError::into_inner) = connection;
        }
        self.ring().push(item, self.device.depth());
        // Only now: other streams wait for all up to this, maybe in the same ring.
        self.launched.store(number, Ordering::Release);
        Ok(number)
    }

    /// Launches a kernel in the device's ring for those whose blocks wait for each other: after all
    /// of this stream, which goes on after it.
    ///
    /// # Errors
    /// If the device was lost, or the stream is captured.
    pub fn launch_together(self: &Arc<Self>, work: Work) -> Answer {
        self.check_not_captured()?;
        let together = self.device.cooperative_stream()?;
        let before = vec![(Arc::clone(self), self.launched())];
        let number = together.launch_after(work, before)?;
        self.launch_after(Work::Nothing, vec![(together, number)]).map(drop)
    }

    /// Records an event.
    ///
    /// # Errors
    /// That of the device, if it was lost.
    pub fn record(self: &Arc<Self>, event: &Event) -> Answer {
        self.device.check()?;
        if let Some(part) = &*self.part() {
            event.capture(Arc::clone(&part.capture), part.ends.clone());
            return Ok(());
        }
        let number = self.launch_after(Work::Record(event.start()), Vec::new())?;
        event.note_place(self, number);
        Ok(())
    }

    /// Has what is launched from now on wait for an event. One that was recorded in a capture takes
    /// this stream into it.
    ///
    /// # Errors
    /// If the device was lost, or a capture and what is not captured would wait for each other.
    pub fn await_event(self: &Arc<Self>, event: &Event) -> Answer {
        self.device.check()?;
        let mut part = self.part();
        match (event.captured(), &mut *part) {
            (Some((capture, _)), _) if capture.is_over() => Err(CAPTURED_EVENT),
            (Some((capture, nodes)), None) => {
                *part = Some(Part { capture, ends: nodes, is_origin: false });
                Ok(())
            }
            (Some((capture, nodes)), Some(part)) if Arc::ptr_eq(&capture, &part.capture) => {
                part.ends.extend(nodes);
                part.ends.sort_unstable();
                part.ends.dedup();
                Ok(())
            }
            (Some((capture, _)), Some(part)) => {
                capture.spoil();
                part.capture.spoil();
                Err(STREAM_CAPTURE_MERGE)
            }
            (None, Some(part)) if event.last().is_some() => {
                part.capture.spoil();
                Err(STREAM_CAPTURE_ISOLATION)
            }
            (None, Some(_)) => Ok(()),
            (None, None) => {
                drop(part);
                let Some(record) = event.last() else { return Ok(()) };
                self.launch(Kind::AwaitEvent, Work::await_record(record))
            }
        }
    }

    /// Captures what is launched from now on.
    ///
    /// # Errors
    /// If there is no such mode, or it is the default stream, or is captured.
    pub fn begin_capture(&self, mode: u32) -> Answer {
        if mode > RELAXED {
            return Err(INVALID_VALUE);
        }
        if self.is_default {
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        let mut part = self.part();
        if part.is_some() {
            return Err(ILLEGAL_STATE);
        }
        let capture = Arc::new(Capture::new(mode));
        *part = Some(Part { capture, ends: Vec::new(), is_origin: true });
        Ok(())
    }

    /// Ends the capture in all its streams. What was captured.
    ///
    /// # Errors
    /// If there is none, it did not begin here, or it was spoiled; the capture has ended then,
    /// except on the wrong thread or in the wrong stream.
    pub fn end_capture(&self) -> Answer<Graph> {
        let mut mine = self.part();
        let part = mine.as_ref().ok_or(ILLEGAL_STATE)?;
        if !part.is_origin {
            return Err(STREAM_CAPTURE_UNMATCHED);
        }
        if part.capture.mode != RELAXED && part.capture.thread != thread::current().id() {
            return Err(STREAM_CAPTURE_WRONG_THREAD);
        }
        let Some(Part { capture, ends, .. }) = mine.take() else { return Err(ILLEGAL_STATE) };
        let graph = capture.end();
        match capture.is_spoiled() {
            true => Err(STREAM_CAPTURE_INVALIDATED),
            false if graph.all_lead_to(&ends) => Ok(graph),
            false => Err(STREAM_CAPTURE_UNJOINED),
        }
    }

    /// The capture that it takes part in, and what its next command comes after.
    pub fn capture(&self) -> Option<(Arc<Capture>, Vec<usize>)> {
        self.part().as_ref().map(|part| (Arc::clone(&part.capture), part.ends.clone()))
    }

    /// 0 if it is not captured, 1 if it is, 2 if the capture was spoiled.
    pub fn capture_status(&self) -> u32 {
        let truth = self.capture().map_or(0, |(capture, _)| 1 + u32::from(capture.is_spoiled()));
        match self.pretended.load(Ordering::Acquire) {
            0 => truth,
            pretended => pretended,
        }
    }

    /// Fails, and spoils the capture, if one is under way: nothing of it runs that could end.
    ///
    /// # Errors
    /// If it is captured.
    pub fn check_not_captured(&self) -> Answer {
        let Some((capture, _)) = self.capture() else { return Ok(()) };
        capture.spoil();
        Err(STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Waits until all that was launched by now is done, or the device is lost.
    pub fn synchronize(&self) {
        let number = self.launched();
        await_condition(|| self.done() >= number);
    }
}
