//! Streams in hardware rings of their own, kept for those that are asked for later.
//!
//! HIP 7.2.3 may wait for ever when such a stream is destroyed, see `endings.rs`. So a stream
//! that is given back gets an event first. It is used again only when that event was seen to have
//! completed. [`KEPT_MAX`] streams are kept, so that few are destroyed at all.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::driver::{HipEvent, HipStream};
use crate::endings::{EndingCalls, Endings};
use crate::error::HipError;

/// Idle streams that are kept. Each has a ring, and a save area of 46.6 MiB on an MI308X.
pub(crate) const KEPT_MAX: usize = 8;
/// Streams whose end takes longer when a device is closed stay to the end of the process.
const PATIENCE: Duration = Duration::from_millis(500);

/// Sees which streams in rings of their own are made and handed out. Calls come on the thread that
/// asks for the stream, and one at a time.
pub trait RingObserver: Debug + Send + Sync {
    /// A stream is about to be made.
    fn making(&self);

    /// A stream was made, or the runtime refused.
    fn made(&self, stream: Option<HipStream>);

    /// A stream is handed out: it was just made, or is used again.
    fn handed(&self, stream: HipStream);

    /// A stream was given back, to be used again or destroyed.
    fn given_back(&self, stream: HipStream);

    /// A stream is about to be destroyed.
    fn ending(&self, stream: HipStream);
}

/// Calls of the runtime that the streams need. The device is current during each call.
pub(crate) trait RingCalls: EndingCalls {
    /// Makes a stream in a ring of its own.
    fn make(&self) -> Result<HipStream, HipError>;

    /// Records a fresh event behind all that was launched.
    fn mark(&self, stream: HipStream) -> Result<HipEvent, HipError>;

    /// Tells whether the event has completed.
    fn is_done(&self, event: HipEvent) -> Result<bool, HipError>;

    /// Ends an event.
    fn end_event(&self, event: HipEvent);

    /// Destroys a stream, which nothing refers to any more.
    fn destroy(&self, stream: HipStream) -> Result<(), HipError>;
}

/// The streams of a device that have rings of their own.
#[derive(Debug, Default)]
pub(crate) struct OwnRings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// In use; the value says whether the observer has seen it made.
    used: HashMap<HipStream, bool>,
    /// Given back, and maybe not idle yet.
    leaving: Vec<Leaving>,
    /// Idle, and seen to be so by its event. All were seen made, if there is an observer.
    free: Vec<HipStream>,
    /// To be destroyed.
    endings: Endings,
    observer: Option<Arc<dyn RingObserver>>,
}

#[derive(Clone, Copy, Debug)]
struct Leaving {
    stream: HipStream,
    event: HipEvent,
    observed: bool,
}

impl OwnRings {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a stream has a ring of its own, as far as it was made here.
    pub(crate) fn has(&self, stream: HipStream) -> bool {
        self.state().used.contains_key(&stream)
    }

    /// A stream: one that is idle, or a new one.
    pub(crate) fn take(&self, calls: &impl RingCalls) -> Result<HipStream, HipError> {
        let mut state = self.state();
        state.sweep(calls);
        let stream = match state.free.pop() {
            Some(stream) => stream,
            None => state.make(calls)?,
        };
        let observed = state.observer.is_some();
        state.used.insert(stream, observed);
        if let Some(observer) = &state.observer {
            observer.handed(stream);
        }
        Ok(stream)
    }

    /// Takes a stream back. What was launched still runs. False if it is none of these.
    ///
    /// If the runtime records no event, as on a lost device, the stream stays to the end of the
    /// process.
    pub(crate) fn give_back(&self, stream: HipStream, calls: &impl RingCalls) -> bool {
        let mut state = self.state();
        let Some(observed) = state.used.remove(&stream) else { return false };
        if let Some(observer) = &state.observer {
            observer.given_back(stream);
        }
        if let Ok(event) = calls.mark(stream) {
            state.leaving.push(Leaving { stream, event, observed });
        }
        state.sweep(calls);
        true
    }

    /// From now on this sees streams made and handed out. Idle streams that it has not seen made
    /// are destroyed. Replaces the one before.
    pub(crate) fn observe(&self, observer: Arc<dyn RingObserver>, calls: &impl RingCalls) {
        let mut state = self.state();
        state.end_free(calls);
        state.leaving.iter_mut().for_each(|leaving| leaving.observed = false);
        state.used.values_mut().for_each(|observed| *observed = false);
        state.observer = Some(observer);
    }

    /// Destroys what is idle. What is not stays to the end of the process.
    pub(crate) fn close(&self, calls: &impl RingCalls) {
        let start = Instant::now();
        let mut state = self.state();
        state.sweep(calls);
        state.end_free(calls);
        while !state.endings.are_none() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(100));
            state.destroy_ended(calls);
        }
    }
}

impl State {
    fn make(&self, calls: &impl RingCalls) -> Result<HipStream, HipError> {
        let Some(observer) = &self.observer else { return calls.make() };
        observer.making();
        let made = calls.make();
        observer.made(made.as_ref().ok().copied());
        made
    }

    /// Keeps or destroys the streams that are seen to be idle.
    fn sweep(&mut self, calls: &impl RingCalls) {
        for leaving in std::mem::take(&mut self.leaving) {
            match calls.is_done(leaving.event) {
                Ok(false) => self.leaving.push(leaving),
                Ok(true) => {
                    calls.end_event(leaving.event);
                    let is_known = leaving.observed || self.observer.is_none();
                    if is_known && self.free.len() < KEPT_MAX {
                        self.free.push(leaving.stream);
                    } else {
                        self.endings.push(leaving.stream, calls);
                    }
                }
                // The device is lost, or a capture has the event: what is not known to be idle is
                // never destroyed.
                Err(_) => {}
            }
        }
        self.destroy_ended(calls);
    }

    /// Destroys the streams that are idle, soon.
    fn end_free(&mut self, calls: &impl RingCalls) {
        for stream in std::mem::take(&mut self.free) {
            self.endings.push(stream, calls);
        }
        self.destroy_ended(calls);
    }

    fn destroy_ended(&mut self, calls: &impl RingCalls) {
        for stream in self.endings.ended(calls) {
            self.destroy(stream, calls);
        }
    }

    fn destroy(&self, stream: HipStream, calls: &impl RingCalls) {
        if let Some(observer) = &self.observer {
            observer.ending(stream);
        }
        // There is nothing to be done about an error.
        let _ = calls.destroy(stream);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::endings::Call;

    /// A runtime whose events complete when they are told to.
    #[derive(Debug, Default)]
    struct Calls {
        next: Cell<usize>,
        marked: RefCell<Vec<HipStream>>,
        done: Cell<bool>,
        refuses: Cell<bool>,
        /// A runtime that makes no calls.
        is_mute: Cell<bool>,
        waited: RefCell<Vec<HipStream>>,
        /// Calls that were asked for, while they do not come at once.
        asked: Option<RefCell<Vec<Call>>>,
        destroyed: RefCell<Vec<HipStream>>,
    }

    const LOST: HipError = HipError::Driver { call: "hipEventRecord", code: 719 };

    impl EndingCalls for Calls {
        fn wait_for(&self, stream: HipStream) -> Result<(), HipError> {
            self.waited.borrow_mut().push(stream);
            if self.refuses.get() { Err(LOST) } else { Ok(()) }
        }

        fn call_back(&self) -> Result<Call, HipError> {
            let call = Call::default();
            match &self.asked {
                _ if self.refuses.get() || self.is_mute.get() => return Err(LOST),
                Some(asked) => asked.borrow_mut().push(call.clone()),
                None => call.come(),
            }
            Ok(call)
        }
    }

    impl RingCalls for Calls {
        fn make(&self) -> Result<HipStream, HipError> {
            self.next.set(self.next.get() + 1);
            Ok(HipStream(self.next.get() * 16))
        }

        fn mark(&self, stream: HipStream) -> Result<HipEvent, HipError> {
            if self.refuses.get() {
                return Err(LOST);
            }
            self.marked.borrow_mut().push(stream);
            Ok(HipEvent(stream.0 + 1))
        }

        fn is_done(&self, _: HipEvent) -> Result<bool, HipError> {
            if self.refuses.get() { Err(LOST) } else { Ok(self.done.get()) }
        }

        fn end_event(&self, _: HipEvent) {}

        fn destroy(&self, stream: HipStream) -> Result<(), HipError> {
            assert!(self.marked.borrow().contains(&stream) && self.done.get());
            assert!(self.waited.borrow().contains(&stream), "it was not waited for");
            self.destroyed.borrow_mut().push(stream);
            Ok(())
        }
    }

    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<(&'static str, usize)>>);

    impl Seen {
        fn note(&self, what: &'static str, stream: usize) {
            self.0.lock().expect("no test panics with it").push((what, stream));
        }
    }

    impl RingObserver for Seen {
        fn making(&self) {
            self.note("making", 0);
        }

        fn made(&self, stream: Option<HipStream>) {
            self.note("made", stream.map_or(0, |stream| stream.0));
        }

        fn handed(&self, stream: HipStream) {
            self.note("handed", stream.0);
        }

        fn given_back(&self, stream: HipStream) {
            self.note("given back", stream.0);
        }

        fn ending(&self, stream: HipStream) {
            self.note("ending", stream.0);
        }
    }

    #[test]
    fn a_stream_is_used_again_once_its_event_is_done() {
        let (rings, calls) = (OwnRings::default(), Calls::default());
        let first = rings.take(&calls).expect("a stream");
        assert!(rings.has(first));
        assert!(rings.give_back(first, &calls));
        assert!(!rings.has(first));
        let second = rings.take(&calls).expect("a stream");
        assert_ne!(first, second, "it may have something to do");
        calls.done.set(true);
        assert_eq!(rings.take(&calls), Ok(first));
        assert!(calls.destroyed.borrow().is_empty());
        assert!(!rings.give_back(HipStream(7), &calls));
    }

    #[test]
    fn more_than_are_kept_are_destroyed_after_their_event() {
        let (rings, calls) = (OwnRings::default(), Calls::default());
        let streams: Vec<_> = (0..20).map(|_| rings.take(&calls).expect("a stream")).collect();
        for stream in streams {
            assert!(rings.give_back(stream, &calls));
        }
        assert!(calls.destroyed.borrow().is_empty());
        calls.done.set(true);
        rings.close(&calls);
        assert_eq!(calls.destroyed.borrow().len(), 20);
    }

    #[test]
    fn a_stream_is_destroyed_after_two_calls_that_come_one_after_the_other() {
        let calls = Calls { asked: Some(RefCell::default()), ..Calls::default() };
        calls.done.set(true);
        let rings = OwnRings::default();
        let asked = |count: usize| {
            let asked = calls.asked.as_ref().expect("it keeps them").borrow();
            assert_eq!(asked.len(), count);
            asked[count - 1].clone()
        };
        let streams: Vec<_> = (0..=KEPT_MAX).map(|_| rings.take(&calls).expect("one")).collect();
        streams.iter().for_each(|stream| assert!(rings.give_back(*stream, &calls)));
        let first = asked(1);
        let sweep = || rings.state().sweep(&calls);
        sweep();
        asked(1);
        first.come();
        sweep();
        let second = asked(2);
        sweep();
        assert!(calls.destroyed.borrow().is_empty(), "the thread may be before the stream's");
        second.come();
        sweep();
        assert_eq!(*calls.destroyed.borrow(), [streams[KEPT_MAX]]);
        // The others come at the end, and one call does not.
        rings.close(&calls);
        asked(3).come();
        rings.close(&calls);
        asked(4);
        assert_eq!(calls.destroyed.borrow().len(), 1);
    }

    #[test]
    fn without_calls_nothing_is_destroyed() {
        for refuses in [true, false] {
            let (rings, calls) = (OwnRings::default(), Calls::default());
            let stream = rings.take(&calls).expect("a stream");
            calls.done.set(true);
            assert!(rings.give_back(stream, &calls));
            calls.refuses.set(refuses);
            calls.is_mute.set(true);
            rings.close(&calls);
            assert!(calls.destroyed.borrow().is_empty() && rings.state().endings.are_none());
        }
    }

    #[test]
    fn a_stream_that_comes_during_a_turn_waits_for_the_next() {
        let calls = Calls { asked: Some(RefCell::default()), ..Calls::default() };
        let mut endings = Endings::default();
        let come = |at: usize| calls.asked.as_ref().expect("it keeps them").borrow()[at].come();
        let [one, other] = [HipStream(16), HipStream(32)];
        endings.push(one, &calls);
        assert_eq!(endings.ended(&calls), []);
        endings.push(other, &calls);
        come(0);
        assert_eq!(endings.ended(&calls), []);
        come(1);
        assert_eq!(endings.ended(&calls), [one], "the thread may refer to the other one");
        come(2);
        assert_eq!(endings.ended(&calls), []);
        come(3);
        assert_eq!(endings.ended(&calls), [other]);
        assert!(endings.are_none());
    }

    #[test]
    fn what_is_not_known_to_be_idle_is_never_destroyed() {
        let (rings, calls) = (OwnRings::default(), Calls::default());
        let (one, two) = (rings.take(&calls).expect("one"), rings.take(&calls).expect("another"));
        assert!(rings.give_back(one, &calls));
        calls.refuses.set(true);
        assert!(rings.give_back(two, &calls));
        rings.close(&calls);
        assert!(calls.destroyed.borrow().is_empty());
    }

    #[test]
    fn an_observer_sees_each_stream_that_is_kept_for_it() {
        let (rings, calls) = (OwnRings::default(), Calls::default());
        calls.done.set(true);
        let before = rings.take(&calls).expect("a stream");
        assert!(rings.give_back(before, &calls));
        let early = rings.take(&calls).expect("a stream");
        let seen = Arc::new(Seen::default());
        rings.observe(Arc::clone(&seen) as Arc<dyn RingObserver>, &calls);
        // It was made before, so nothing is known about it.
        assert!(rings.give_back(early, &calls));
        let made = rings.take(&calls).expect("a stream");
        assert!(rings.give_back(made, &calls));
        assert_eq!(rings.take(&calls), Ok(made));
        let expected = [
            ("given back", early.0),
            ("ending", early.0),
            ("making", 0),
            ("made", made.0),
            ("handed", made.0),
            ("given back", made.0),
            ("handed", made.0),
        ];
        assert_eq!(*seen.0.lock().expect("no test panics with it"), expected);
    }
}
