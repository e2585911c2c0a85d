//! Launches of a user's own into a held stream, until they block.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use xsched::RuntimeConfig;
use xsched::policies::hpf::Hpf;
use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant as At;
use xsched_hal_cuda::StreamConfig;
use xsched_hal_cuda::table::CuStream;
use xsched_hal_stream::StreamApi;

use crate::Entry;
use crate::case::{Case, micros, millis, until};
use crate::scene::{
    BLOCKED_AFTER, COMMAND_US, LoadGenerator, NAP, PROBED_AFTER, Probe, Queue, Scene, held,
};

const HANGS: Duration = Duration::from_secs(4);
/// For this long the stream stays full.
const FULL: Duration = millis(100);
/// A launch that takes longer is blocked.
const BLOCKED: Duration = micros(250);
/// Launches after which a stream is not full yet, whatever is in it.
const NOT_FULL: u64 = 512;

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        Entry::new("filled/winner-busy", |case| filled(case, true)),
        Entry::new("filled/held-by-hand", |case| filled(case, false)),
        Entry::new("filled/scheduler-silent", silent),
    ]
}

/// A thread of the user's that launches into a stream without end.
struct Filler {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    ended: Receiver<Result<(), String>>,
}

impl Filler {
    fn start(scene: &Scene, stream: CuStream) -> Self {
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (end, ended) = mpsc::channel();
        let its = (Arc::clone(&stop), Arc::clone(&made), scene.device.clone(), scene.empty());
        thread::spawn(move || {
            let (stop, made, device, nothing) = its;
            let _entered = device.api().enter().expect("the device");
            let mut result = Ok(());
            while !stop.load(Ordering::Relaxed) && result.is_ok() {
                // SAFETY: the stream is never destroyed.
                result = unsafe { nothing.launch_into(device.api(), stream) };
                made.fetch_add(1, Ordering::Release);
            }
            let _ = end.send(result.map_err(|error| error.to_string()));
        });
        Self { stop, made, ended }
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    /// Waits until a launch blocks. True if one did.
    fn blocks(&self) -> bool {
        let (mut last, mut since) = (self.made(), Instant::now());
        until(millis(2_000), || {
            let made = self.made();
            if made != last {
                (last, since) = (made, Instant::now());
            }
            made > NOT_FULL && since.elapsed() >= BLOCKED
        })
    }

    /// Waits for the launch that is blocked, and makes no more.
    fn end(&self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.ended.recv_timeout(HANGS).map_err(|_| "the user's thread hangs".to_owned())?
    }
}

/// A held queue on a stream of the user's.
fn on_stream(case: &Case, scene: &Scene) -> (Queue, CuStream) {
    let stream = scene.stream();
    // SAFETY: it is never destroyed.
    let victim = scene.victim_on(unsafe { StreamConfig::default().on_stream(stream) });
    case.check(victim.level() == Level::Deactivate, "the queue has no gates");
    scene.feed(&victim, 20);
    victim.wait_all_timeout(HANGS).expect("they end");
    (victim, stream)
}

/// A user fills a held stream. That launch blocks; no other call does for longer than it takes to
/// notice that, and all of it runs in the end.
fn filled(case: &Case, by_winner: bool) {
    let scene = Scene::open(case);
    let (winner, (victim, stream)) = (scene.winner(), on_stream(case, &scene));
    let probes = Probe::measured(&scene);
    case.step("holding the victim");
    scene.feed(&victim, 40);
    let busy = by_winner.then(|| LoadGenerator::start(winner.clone(), scene.spin(COMMAND_US)));
    if !by_winner {
        victim.suspend(Level::Deactivate);
    }
    if let Err(error) = held(&victim, millis(1_000)) {
        return case.fail(error);
    }
    case.step("filling the stream");
    let forced = scene.device.forced_open();
    let _ = Probe::longest(&probes, millis(10));
    busy.iter().for_each(LoadGenerator::forget);
    let filler = Filler::start(&scene, stream);
    case.check(filler.blocks(), "the user's launches never block");
    case.note(format_args!("a launch blocks after {}", filler.made()));
    thread::sleep(FULL);
    let longest = Probe::longest(&probes, millis(50));
    for (probe, longest) in probes.iter().zip(longest) {
        case.within(probe.name, longest, probe.usual + PROBED_AFTER);
    }
    if let Some(busy) = &busy {
        let bound = micros(2 * COMMAND_US) + BLOCKED_AFTER;
        case.within("the winner's longest step", busy.longest(), bound);
    }
    let forced = scene.device.forced_open() - forced;
    case.note(format_args!("gates forced open {forced} times, {} launches", filler.made()));
    case.step("ending the hold");
    let made = filler.made();
    if let Some(Err(error)) = busy.map(|busy| busy.end()) {
        case.fail(error);
    }
    let begin = Instant::now();
    victim.resume();
    let goes_on = until(HANGS, || filler.made() != made);
    case.check(goes_on, "the user's launch is blocked for ever");
    case.within("from the end of the hold to the user's next launch", begin.elapsed(), NAP);
    if let Err(error) = filler.end() {
        case.fail(error);
    }
    drop(probes);
    ends(case, &scene, &victim, stream);
}

/// Everything in the queue and its stream runs to its end.
fn ends(case: &Case, scene: &Scene, victim: &Queue, stream: CuStream) {
    case.step("waiting for everything to end");
    let ended = victim.wait_all_timeout(HANGS);
    case.check(ended == Ok(()), format_args!("the victim's: {ended:?}"));
    let api = scene.device.api();
    // SAFETY: it is never destroyed.
    let idle = until(HANGS, || matches!(unsafe { api.is_done(stream) }, Ok(true)));
    case.check(idle, "the user's launches have not all run");
    let stats = victim.stats();
    case.check(stats.failed == 0 && !stats.lost, format_args!("something failed: {stats:?}"));
}

/// A policy that is silent for a while when it is told to.
struct Silent {
    inner: Hpf,
    asked: Arc<AtomicBool>,
    since: Arc<Mutex<Option<Instant>>>,
}

impl Policy for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        self.inner.configure(hint)
    }

    fn observe(&mut self, now: At, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.inner.observe(now, queue, event, queues);
    }

    fn decide(
        &mut self,
        now: At,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        if self.asked.swap(false, Ordering::Relaxed) {
            *self.since.lock().expect("no thread panics with it") = Some(Instant::now());
            thread::sleep(Duration::from_secs(2));
        }
        self.inner.decide(now, changed, queues, out);
    }
}

/// The scheduler falls silent while it holds a stream that the user has filled: the watchdog ends
/// the hold. It looks every half a lease, so that takes one and a half at most.
fn silent(case: &Case) {
    let (asked, since) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
    let policy =
        Silent { inner: Hpf::default(), asked: Arc::clone(&asked), since: Arc::clone(&since) };
    let scene = Scene::with(case, policy);
    let (winner, (victim, stream)) = (scene.winner(), on_stream(case, &scene));
    scene.feed(&victim, 100);
    let busy = LoadGenerator::start(winner.clone(), scene.spin(COMMAND_US));
    if let Err(error) = held(&victim, millis(1_000)) {
        return case.fail(error);
    }
    case.step("filling the stream");
    let filler = Filler::start(&scene, stream);
    case.check(filler.blocks(), "the user's launches never block");
    case.step("waiting for the watchdog");
    asked.store(true, Ordering::Relaxed);
    // Its end is what the policy would decide about.
    if let Err(error) = busy.end() {
        case.fail(error);
    }
    let fell = || *since.lock().expect("no thread panics with it");
    case.check(until(HANGS, || fell().is_some()), "the policy was not asked");
    let Some(fell) = fell() else { return };
    let opened = until(HANGS, || scene.runtime.times_failed_open() >= 1);
    case.check(opened, "no hold was ended for the silence");
    let lease = RuntimeConfig::default().lease;
    case.within("from the silence to the end of the hold", fell.elapsed(), lease * 3 / 2);
    let made = filler.made();
    case.check(until(HANGS, || filler.made() > made), "the user's launch is blocked for ever");
    if let Err(error) = filler.end() {
        case.fail(error);
    }
    ends(case, &scene, &victim, stream);
}
