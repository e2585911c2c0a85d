//! The trial before the first use: an idle queue of our own is suspended and resumed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use xsched_hal_hip::{HipApi, HipError, HipNative, HipStream, StreamDevice};
use xsched_hal_stream::{FlagMemory, SpinApi, StreamApi};

use super::rings::KnownRings;
use crate::attribution::check_listed;
use crate::mechanism::{Kind, Mechanism};
use crate::queue::KfdQueue;
use crate::topology::Sysfs;

/// A call to suspend or to resume an idle queue that takes longer is no good.
const CALL_MAX: Duration = Duration::from_secs(1);
/// Longest time of a command in a queue that runs.
const COMMAND_MAX: Duration = Duration::from_secs(2);
/// The trial as a whole; the driver itself gives up a preemption after 9 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// A suspended queue is watched for this long.
const QUIET: Duration = Duration::from_millis(2);
/// Between two looks at an event.
const LOOK: Duration = Duration::from_micros(100);

/// Trials of this process: by process, since a child of a fork tries anew, GPU and mechanism.
type Tried = Vec<((u32, u32, Kind), Result<(), String>)>;
static TRIED: Mutex<Tried> = Mutex::new(Vec::new());

/// Tries the mechanism on a GPU, once in a process.
pub(super) fn tried_once(
    streams: &StreamDevice<HipApi>,
    rings: &Arc<KnownRings>,
    mechanism: &Arc<dyn Mechanism>,
    gpu: u32,
) -> Result<(), String> {
    let key = (std::process::id(), gpu, mechanism.kind());
    // Locked meanwhile, so that another thread waits for the answer.
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, answer)) = tried.iter().find(|(known, _)| *known == key) {
        return answer.clone();
    }
    let answer = try_in_time(streams, rings, mechanism, PATIENCE);
    match &answer {
        Ok(took) => tracing::info!(mechanism = %key.2, "an idle queue was tried in {took:?}"),
        Err(why) => tracing::warn!(mechanism = %key.2, "an idle queue was tried: {why}"),
    }
    let answer = answer.map(drop);
    tried.push((key, answer.clone()));
    answer
}

/// Tries it on a thread, which is left alone if it does not come back.
fn try_in_time(
    streams: &StreamDevice<HipApi>,
    rings: &Arc<KnownRings>,
    mechanism: &Arc<dyn Mechanism>,
    patience: Duration,
) -> Result<Duration, String> {
    let (sender, receiver) = mpsc::channel();
    let (streams, rings, trial) = (streams.clone(), Arc::clone(rings), Arc::clone(mechanism));
    let start = Instant::now();
    let run = move || {
        let came = attempt(&streams, &rings, &*trial);
        // If it is late, nothing waits for it.
        let _ = sender.send(came);
    };
    let named = thread::Builder::new().name("xsched-canary".to_owned());
    named.spawn(run).map_err(|error| format!("no thread for it: {error}"))?;
    match receiver.recv_timeout(patience) {
        Ok(came) => came.map(|()| start.elapsed()),
        Err(_) => {
            let_go(mechanism);
            Err(format!("it did not come to an end within {patience:?}"))
        }
    }
}

/// Resumes what the trial may have suspended, on a thread of its own: the driver may hang.
fn let_go(mechanism: &Arc<dyn Mechanism>) {
    let mechanism = Arc::clone(mechanism);
    let resume = move || {
        for error in mechanism.resume_all().into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a queue could not be resumed");
        }
    };
    if let Err(error) = thread::Builder::new().spawn(resume) {
        tracing::warn!(%error, "no thread to resume a queue");
    }
}

fn attempt(
    streams: &StreamDevice<HipApi>,
    rings: &KnownRings,
    mechanism: &dyn Mechanism,
) -> Result<(), String> {
    let api = streams.api();
    let _entered = api.enter().map_err(said)?;
    let stream = api.create_stream(None).map_err(said)?;
    let trial = Trial { api, stream, word: api.stamp_memory(size_of::<u64>()).map_err(said)? };
    let facts = rings.of(stream).map_err(|why| why.to_string())?;
    check_listed(&Sysfs::default(), std::process::id(), &facts).map_err(|why| why.to_string())?;
    let queue = Arc::new(KfdQueue::new(facts).map_err(|error| error.to_string())?);
    trial.run(&queue, mechanism)?;
    mechanism.forget(&queue);
    // SAFETY: made above, and nothing uses it any more. After a trial that failed it is kept.
    unsafe { api.destroy_stream(stream) }.map_err(said)
}

fn said(error: HipError) -> String {
    error.to_string()
}

/// A stream and a word that its commands write.
struct Trial<'a> {
    api: &'a HipApi,
    stream: HipStream,
    word: FlagMemory,
}

impl Trial<'_> {
    fn run(&self, queue: &Arc<KfdQueue>, mechanism: &dyn Mechanism) -> Result<(), String> {
        self.fill(1)?.await_done(COMMAND_MAX)?;
        self.check(1, "before anything was suspended")?;
        let queues = std::slice::from_ref(queue);
        in_time("suspending it", || mechanism.suspend(queues))?;
        // It is resumed whatever happens.
        let held = self.held(queue, mechanism);
        in_time("resuming it", || mechanism.resume(queues))?;
        held?.await_done(COMMAND_MAX)?;
        self.check(2, "after it was resumed")
    }

    /// Launches into the suspended queue, which must not run.
    fn held(&self, queue: &KfdQueue, mechanism: &dyn Mechanism) -> Result<Event<'_>, String> {
        match mechanism.is_still_suspended(queue) {
            Ok(true) => {}
            Ok(false) => return Err("the driver says that it is not suspended".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        let event = self.fill(2)?;
        thread::sleep(QUIET);
        if event.is_done()? || self.value() != value_of(1) {
            return Err("what was launched into it ran while it was suspended, so it is not the \
                        stream's queue, or the driver does not stop it"
                .to_owned());
        }
        Ok(event)
    }

    /// Fills the word with bytes of this value.
    fn fill(&self, byte: u8) -> Result<Event<'_>, String> {
        let to = self.word.host.as_ptr().cast();
        // SAFETY: the word is never given back.
        let command = unsafe { HipNative::fill(to, byte, size_of::<u32>()) };
        // SAFETY: the stream is alive, and the device is current.
        unsafe { self.api.launch_native(&command, self.stream) }.map_err(said)?;
        let event = self.api.create_plain_event().map_err(said)?;
        let event = Event { api: self.api, event };
        // SAFETY: both are alive.
        unsafe { self.api.record(event.event, self.stream) }.map_err(said)?;
        Ok(event)
    }

    fn value(&self) -> u32 {
        // SAFETY: the word is never given back, and is touched by atomic operations and the device.
        unsafe { self.word.host.cast::<AtomicU32>().as_ref() }.load(Ordering::SeqCst)
    }

    fn check(&self, byte: u8, when: &str) -> Result<(), String> {
        let value = self.value();
        if value == value_of(byte) {
            return Ok(());
        }
        Err(format!("a command left {value:#x} {when}, and not {:#x}", value_of(byte)))
    }
}

const fn value_of(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

/// Makes calls of the mechanism, and looks at the clock.
fn in_time(what: &str, call: impl FnOnce() -> crate::mechanism::Answers) -> Result<(), String> {
    let start = Instant::now();
    let answers = call();
    let took = start.elapsed();
    for answer in answers {
        answer.map_err(|error| format!("{what}: {error}"))?;
    }
    if took > CALL_MAX {
        return Err(format!("{what} took {took:?}, and {CALL_MAX:?} is too long"));
    }
    Ok(())
}

/// An event that is destroyed with this.
struct Event<'a> {
    api: &'a HipApi,
    event: <HipApi as StreamApi>::Event,
}

impl Event<'_> {
    fn is_done(&self) -> Result<bool, String> {
        // SAFETY: it is alive.
        unsafe { self.api.query(self.event) }.map_err(said)
    }

    fn await_done(&self, at_most: Duration) -> Result<(), String> {
        let start = Instant::now();
        while !self.is_done()? {
            if start.elapsed() > at_most {
                return Err(format!("what was launched into it did not run within {at_most:?}"));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the trial, and nothing else refers to it.
        unsafe { self.api.destroy_event(self.event) };
    }
}
