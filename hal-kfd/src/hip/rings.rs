//! Queues of the driver that the streams of a device have.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_hal_hip::{HipApi, HipStream, RingObserver, StreamDevice};
use xsched_hal_stream::StreamApi;

use crate::attribution::{Attribution, Before, Unattributed};
use crate::queue::QueueFacts;

/// Streams that a thread remembers at most of those that it was handed since it asked.
const HANDED_MAX: usize = 16;

type Found = Result<QueueFacts, Unattributed>;

thread_local! {
    /// The driver's queues before the stream that this thread makes.
    static BEFORE: RefCell<Option<Result<Before, Unattributed>>> = const { RefCell::new(None) };
    /// Streams that this thread was handed since it asked, and has not given back.
    static HANDED: RefCell<Vec<HipStream>> = const { RefCell::new(Vec::new()) };
}

/// Streams in rings of their own, with their queues, or why a queue is not known.
#[derive(Debug)]
pub struct KnownRings {
    by: Box<dyn Attribution>,
    known: Mutex<HashMap<HipStream, Found>>,
}

impl KnownRings {
    pub(super) fn new(by: Box<dyn Attribution>) -> Self {
        Self { by, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<HipStream, Found>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue of a stream.
    ///
    /// # Errors
    /// [`Unattributed::Unseen`] if the device did not make it, or before it was observed; or why
    /// the queue is unknown.
    pub fn of(&self, stream: HipStream) -> Result<QueueFacts, Unattributed> {
        self.known().get(&stream).cloned().unwrap_or(Err(Unattributed::Unseen))
    }
}

impl RingObserver for KnownRings {
    fn making(&self) {
        BEFORE.set(Some(self.by.before()));
    }

    fn made(&self, stream: Option<HipStream>) {
        let before = BEFORE.take();
        let (Some(stream), Some(before)) = (stream, before) else { return };
        let found = before.and_then(|before| self.by.single_since(&before));
        self.known().insert(stream, found);
    }

    fn handed(&self, stream: HipStream) {
        HANDED.with_borrow_mut(|handed| {
            if handed.len() < HANDED_MAX {
                handed.push(stream);
            }
        });
    }

    fn given_back(&self, stream: HipStream) {
        HANDED.with_borrow_mut(|handed| handed.retain(|other| *other != stream));
    }

    fn ending(&self, stream: HipStream) {
        self.known().remove(&stream);
    }
}

/// Attribution by the streams in rings of their own that the device hands out, which may be new or
/// used again. If it hands out none, by the queues that are made. A ring that streams share is the
/// one that launches go into.
#[derive(Debug)]
pub(super) struct ByRings(pub(super) Arc<KnownRings>, pub(super) Option<StreamDevice<HipApi>>);

impl Attribution for ByRings {
    fn before(&self) -> Result<Before, Unattributed> {
        HANDED.with_borrow_mut(Vec::clear);
        self.0.by.before()
    }

    fn made_since(&self, before: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        let handed = HANDED.with_borrow(Clone::clone);
        if handed.is_empty() {
            return self.0.by.made_since(before);
        }
        handed.into_iter().map(|stream| self.0.of(stream)).collect()
    }

    fn of_stream(&self, stream: usize) -> Found {
        self.0.of(HipStream::from_raw(std::ptr::with_exposed_provenance_mut(stream)))
    }

    fn of_shared(&self, stream: usize) -> Found {
        let api = self.1.as_ref().ok_or(Unattributed::Unseen)?.api();
        let entered = api.enter().map_err(|_| Unattributed::Unseen)?;
        let stream = HipStream::from_raw(std::ptr::with_exposed_provenance_mut(stream));
        // SAFETY: the caller promises that it is alive and not captured.
        let ring = unsafe { api.hardware_ring(stream) };
        drop(entered);
        self.0.by.with_id(ring.ok_or(Unattributed::Unseen)?.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::DebugTrap;
    use crate::scripted::{Fake, FakeQueue, ring};

    fn stream(address: usize) -> HipStream {
        HipStream::from_raw(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Rings that are known by the debugger's list.
    fn rings() -> (Fake, Arc<KnownRings>) {
        let fake = Fake::with_queues(0);
        fake.state().runtime = crate::uapi::runtime_state::ENABLED;
        let trap = Arc::new(DebugTrap::own(fake.versioned()).expect("the runtime is enabled"));
        let by = Box::new(crate::attribution::BySnapshot(trap));
        (fake, Arc::new(KnownRings::new(by)))
    }

    fn make(fake: &Fake, rings: &KnownRings, address: usize, queues: u32) {
        rings.making();
        for _ in 0..queues {
            let mut state = fake.state();
            let id = state.queues.len() as u32;
            let queue = FakeQueue { ring_base: ring(id), percentage: 100, ..Default::default() };
            state.queues.insert(id, FakeQueue { is_new: true, ..queue });
        }
        rings.made(Some(stream(address)));
    }

    #[test]
    fn a_stream_that_is_used_again_keeps_its_queue() {
        let (fake, rings) = rings();
        let by = ByRings(Arc::clone(&rings), None);
        make(&fake, &rings, 0x100, 1);
        make(&fake, &rings, 0x200, 1);
        for (address, id) in [(0x100, 0), (0x200, 1), (0x100, 0)] {
            let before = by.before().expect("nothing is asked");
            rings.handed(stream(address));
            assert_eq!(by.single_since(&before).map(|queue| queue.id), Ok(id));
            assert_eq!(by.of_stream(address).map(|queue| queue.id), Ok(id));
        }
        // A trial of the device's uses a stream before the queue gets its own.
        let before = by.before().expect("nothing is asked");
        rings.handed(stream(0x100));
        rings.given_back(stream(0x100));
        rings.handed(stream(0x200));
        assert_eq!(by.single_since(&before).map(|queue| queue.id), Ok(1));
        rings.ending(stream(0x100));
        assert_eq!(by.of_stream(0x100), Err(Unattributed::Unseen));
    }

    #[test]
    fn a_stream_whose_queue_is_not_certain_is_not_taken_for_another() {
        let (fake, rings) = rings();
        let by = ByRings(Arc::clone(&rings), None);
        let before = by.before().expect("nothing is asked");
        assert_eq!(by.single_since(&before), Err(Unattributed::Shared), "none was handed out");
        make(&fake, &rings, 0x100, 2);
        assert!(matches!(by.of_stream(0x100), Err(Unattributed::Several { .. })));
        make(&fake, &rings, 0x200, 0);
        assert_eq!(by.of_stream(0x200), Err(Unattributed::Shared));
        // The runtime made none.
        rings.making();
        rings.made(None);
        assert_eq!(by.of_stream(0x300), Err(Unattributed::Unseen));
    }
}
