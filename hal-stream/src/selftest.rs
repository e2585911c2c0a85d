//! The self-test of gates on a device, before they are used.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::api::StreamApi;
use crate::error::NoGate;
use crate::flags::FlagWord;
use crate::sync::Word;

/// The test watches this long for what must not happen.
const QUIET: Duration = Duration::from_millis(1);
/// The test waits this long for what nothing holds. Programs that use the device as well may delay
/// it, and so may a busy machine; a device that passed for one without gates stays at Lv1.
const PATIENCE: Duration = Duration::from_secs(5);
/// The test waits this long, in each of its tries, for a stream beside one that is held.
const PATIENCE_BESIDE: Duration = Duration::from_millis(500);
/// Times without progress after which a call is taken to be blocked. On a busy machine a thread
/// that is kept from running looks the same, so the gate is tried again with more and more patience
/// before it is given up: that costs a device on which launches do block less than half a second,
/// and one on which a held stream holds others 2 s.
const BLOCKED_MS: [u64; 4] = [5, 20, 80, 320];
/// Entries that are tried at most when the depth is measured.
const DEPTH_MAX: u32 = 4_096;
/// The poll delay of the rescuer.
const POLL_DELAY: Duration = Duration::from_micros(200);

/// A thread that opens the gate if the testing thread is blocked.
struct Rescue<'a> {
    word: &'a FlagWord,
    progress: AtomicU64,
    patience_ms: AtomicU64,
    over: AtomicBool,
    opened: AtomicU32,
}

impl Rescue<'_> {
    fn step(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins anew, with another time after which a call counts as blocked.
    fn restart(&self, patience_ms: u64) {
        self.patience_ms.store(patience_ms, Ordering::Relaxed);
        // What comes before the next step counts for that.
        self.step();
        self.opened.store(0, Ordering::Relaxed);
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.load(Ordering::Relaxed))
    }

    fn was_needed(&self) -> bool {
        self.opened.load(Ordering::Acquire) > 0
    }

    fn watch(&self) {
        let mut last = (self.progress.load(Ordering::Relaxed), Instant::now());
        while !self.over.load(Ordering::Relaxed) {
            thread::sleep(POLL_DELAY);
            let progress = self.progress.load(Ordering::Relaxed);
            if progress != last.0 {
                last = (progress, Instant::now());
            } else if last.1.elapsed() >= self.patience() {
                // Before the gate opens, so that the test sees why it did.
                self.opened.fetch_add(1, Ordering::Release);
                self.word.clear(!0);
                last.1 = Instant::now();
            }
        }
    }
}

/// Two streams and events for the test.
struct Bench<'a, A: StreamApi> {
    api: &'a A,
    word: FlagWord,
    streams: [A::Stream; 2],
    events: [A::Event; 2],
}

/// Tries the gate: that it holds a command, that it holds no other stream, and that it opens.
/// Answers how many entries a held hardware queue takes before a launch blocks, if that was asked.
pub(crate) fn run<A: StreamApi>(api: &A, word: FlagWord, depth: bool) -> Result<u32, NoGate> {
    if let Some(why) = api.no_waits() {
        return Err(NoGate::NoWaits(why));
    }
    let failed = |error: A::Error| NoGate::Failed(error.to_string());
    let _entered = api.enter().map_err(failed)?;
    let (first, second) = (api.create_stream(None), api.create_stream(None));
    let events = [api.create_event(), api.create_event()];
    let result = match (&first, &second, &events) {
        (Ok(a), Ok(b), [Ok(e), Ok(f)]) => {
            Bench { api, word, streams: [*a, *b], events: [*e, *f] }.guarded(depth)
        }
        _ => Err(NoGate::Failed("no streams or events for it".to_owned())),
    };
    word.clear(!0);
    for event in events.into_iter().flatten() {
        // SAFETY: made above.
        unsafe { api.destroy_event(event) };
    }
    for stream in [first, second].into_iter().flatten() {
        // SAFETY: made above. Nothing can be done about an error.
        let _ = unsafe { api.destroy_stream(stream) };
    }
    result
}

impl<A: StreamApi> Bench<'_, A> {
    fn guarded(&self, depth: bool) -> Result<u32, NoGate> {
        let rescue = Rescue {
            word: &self.word,
            progress: AtomicU64::new(0),
            patience_ms: AtomicU64::new(BLOCKED_MS[0]),
            over: AtomicBool::new(false),
            opened: AtomicU32::new(0),
        };
        thread::scope(|scope| {
            scope.spawn(|| rescue.watch());
            let result = self.tries(&rescue, depth);
            rescue.over.store(true, Ordering::Relaxed);
            result
        })
    }

    /// Tries again what the rescuer ended: the gate with more patience, and how many entries a
    /// queue takes, where a launch is meant to block in the end, once more with as much. So is a
    /// gate beside which another stream did not go on in time.
    fn tries(&self, rescue: &Rescue<'_>, depth: bool) -> Result<u32, NoGate> {
        let mut gate = Err(NoGate::Blocks);
        for patience_ms in BLOCKED_MS {
            rescue.restart(patience_ms);
            gate = self.gate(rescue);
            if !matches!(gate, Err(NoGate::Blocks | NoGate::OtherStreamsHeld)) {
                break;
            }
        }
        gate?;
        if !depth {
            return Ok(0);
        }
        rescue.restart(BLOCKED_MS[0]);
        let first = self.depth(rescue)?;
        if !rescue.was_needed() {
            return Ok(first);
        }
        rescue.restart(BLOCKED_MS[0]);
        Ok(first.max(self.depth(rescue)?))
    }

    fn gate(&self, rescue: &Rescue<'_>) -> Result<(), NoGate> {
        // What is loaded with the first launch must not be loaded behind a closed gate.
        self.launch(0, rescue)?;
        self.launch(1, rescue)?;
        if !(self.completes(0, rescue, PATIENCE)? && self.completes(1, rescue, PATIENCE)?) {
            return Err(NoGate::Failed("an empty command did not complete".to_owned()));
        }
        self.word.set(crate::sync::OWN);
        // SAFETY: the stream is alive, and the word lives as long as the device.
        let gated = unsafe { self.api.wait_zero(self.streams[0], self.word.device) };
        gated.map_err(|error| NoGate::Failed(error.to_string()))?;
        self.launch(0, rescue)?;
        let held = Instant::now();
        while held.elapsed() < QUIET {
            rescue.step();
            if self.has_completed(0)? && !rescue.was_needed() {
                return Err(NoGate::NotHeld);
            }
            thread::sleep(POLL_DELAY);
        }
        self.launch(1, rescue)?;
        let second = self.completes(1, rescue, PATIENCE_BESIDE)?;
        let held = !self.has_completed(0)?;
        self.word.clear(!0);
        if rescue.was_needed() {
            return Err(NoGate::Blocks);
        }
        if !second {
            return Err(NoGate::OtherStreamsHeld);
        }
        if !held {
            return Err(NoGate::NotHeld);
        }
        if !self.completes(0, rescue, PATIENCE)? { Err(NoGate::NotOpened) } else { Ok(()) }
    }

    /// Launches behind a closed gate until a launch blocks.
    fn depth(&self, rescue: &Rescue<'_>) -> Result<u32, NoGate> {
        let failed = |error: A::Error| NoGate::Failed(error.to_string());
        self.word.set(crate::sync::OWN);
        let mut entries = 0;
        while entries < DEPTH_MAX && !rescue.was_needed() {
            // SAFETY: the stream is alive, and the word lives as long as the device.
            unsafe { self.api.wait_zero(self.streams[0], self.word.device) }.map_err(failed)?;
            rescue.step();
            // SAFETY: the stream is alive.
            unsafe { self.api.launch_nothing(self.streams[0]) }.map_err(failed)?;
            rescue.step();
            entries += 2;
        }
        self.word.clear(!0);
        // SAFETY: both are alive.
        unsafe { self.api.record(self.events[0], self.streams[0]) }.map_err(failed)?;
        if !self.completes(0, rescue, PATIENCE)? {
            return Err(NoGate::NotOpened);
        }
        Ok(entries)
    }

    fn launch(&self, stream: usize, rescue: &Rescue<'_>) -> Result<(), NoGate> {
        let (stream, event) = (self.streams[stream], self.events[stream]);
        // SAFETY: both are alive.
        let launched = unsafe { self.api.launch_nothing(stream) };
        rescue.step();
        // SAFETY: both are alive.
        let recorded = launched.and_then(|()| unsafe { self.api.record(event, stream) });
        rescue.step();
        recorded.map_err(|error| NoGate::Failed(error.to_string()))
    }

    fn has_completed(&self, event: usize) -> Result<bool, NoGate> {
        // SAFETY: it is alive.
        let done = unsafe { self.api.query(self.events[event]) };
        done.map_err(|error| NoGate::Failed(error.to_string()))
    }

    /// Waits for an event.
    fn completes(
        &self,
        event: usize,
        rescue: &Rescue<'_>,
        patience: Duration,
    ) -> Result<bool, NoGate> {
        let start = Instant::now();
        while start.elapsed() < patience {
            rescue.step();
            if self.has_completed(event)? {
                return Ok(true);
            }
            // What takes longer than a command leaves the processor to others.
            if start.elapsed() < QUIET { thread::yield_now() } else { thread::sleep(POLL_DELAY) }
        }
        Ok(false)
    }
}
