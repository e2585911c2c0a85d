//! A device with an urgent queue and one that it holds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime, WaitError, XQueue, XQueueConfig};
use xsched_core::hint::Priority;
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::policy::Policy;
use xsched_core::window::WindowConfig;
use xsched_hal_cuda::table::{CuStream, STREAM_NON_BLOCKING, Table};
use xsched_hal_cuda::{
    CudaApi, CudaCommand, Spacing, SpinRate, StreamCommand, StreamConfig, StreamDevice,
    StreamDeviceConfig,
};
use xsched_hal_stream::{FlagMemory, StreamApi};

use crate::case::{Case, micros, millis, until};

pub(crate) type Command = StreamCommand<CudaApi>;
pub(crate) type Queue = XQueue<Command>;

/// Device time of a command, in microseconds, unless said otherwise.
pub(crate) const COMMAND_US: u64 = 100;
/// Commands that queues here have in flight.
pub(crate) const IN_FLIGHT: u32 = 8;
/// `StreamDeviceConfig::blocked_after`, the stated bound of a call that is blocked.
pub(crate) const BLOCKED_AFTER: Duration = micros(200);
/// A call that blocks all calls into the driver, though no launch of ours, is noticed
/// after this time.
pub(crate) const PROBED_AFTER: Duration = micros(3_000);
/// The longest delay between two polls for completions.
pub(crate) const NAP: Duration = micros(500);

pub(crate) struct Scene {
    pub(crate) device: StreamDevice<CudaApi>,
    pub(crate) runtime: Runtime,
    pub(crate) on: Device<StreamDevice<CudaApi>>,
    rate: SpinRate,
}

impl Scene {
    /// A device with gates, on which the queue of the highest priority runs.
    pub(crate) fn open(case: &Case) -> Self {
        let scene = Self::with(case, Hpf::default());
        if let Some(why) = scene.device.no_gate() {
            panic!("there are no gates: {why}");
        }
        scene
    }

    /// A device, whatever it can do.
    pub(crate) fn with(case: &Case, policy: impl Policy + Send + 'static) -> Self {
        case.step("opening the device");
        let api = CudaApi::open(0).expect("the first device");
        let rate = api.spin_rate(1, 1).expect("the rate of spin kernels");
        let config = StreamDeviceConfig::default();
        assert_eq!(config.blocked_after, BLOCKED_AFTER, "bounds here are for this");
        let device = StreamDevice::new(api, config).expect("a device");
        let runtime = Runtime::new(policy).expect("a runtime");
        let on = runtime.device(device.clone()).expect("a device of the runtime");
        Self { device, runtime, on, rate }
    }

    pub(crate) fn table(&self) -> &'static Table {
        self.device.api().table()
    }

    /// The queue for which the other queues are held.
    pub(crate) fn winner(&self) -> Queue {
        let config = XQueueConfig::default()
            .with_priority(Priority::MAX)
            .with_level(Level::Block)
            .with_window(WindowConfig::fixed(IN_FLIGHT, 2));
        self.on.queue(config, StreamConfig::default()).expect("the winner's queue")
    }

    /// A queue with a gate in front of each command.
    pub(crate) fn victim(&self) -> Queue {
        self.victim_on(StreamConfig::default())
    }

    pub(crate) fn victim_on(&self, hardware: StreamConfig<CudaApi>) -> Queue {
        let config = XQueueConfig::default()
            .with_level(Level::Deactivate)
            .with_window(WindowConfig::fixed(IN_FLIGHT, 2));
        let hardware = hardware.spacing(Spacing::of_ns(0));
        self.on.queue(config, hardware).expect("the victim's queue")
    }

    /// A command that takes this long.
    pub(crate) fn spin(&self, us: u64) -> Command {
        let cycles = self.rate.cycles(us * 1_000);
        let kernel = self.device.api().kernels().spin_unseen(1, 1, cycles).expect("a kernel");
        let kind = u32::try_from(us % 64).expect("a kind");
        StreamCommand::native(CudaCommand::kernel(kernel)).of_kind(kind).expected_ns(us * 1_000)
    }

    /// A command that does nothing.
    pub(crate) fn empty(&self) -> Command {
        StreamCommand::native(CudaCommand::kernel(self.device.api().kernels().empty()))
    }

    /// A command that fails.
    pub(crate) fn trap(&self) -> Command {
        StreamCommand::native(CudaCommand::kernel(self.device.api().kernels().trap()))
    }

    /// A stream of the user's.
    pub(crate) fn stream(&self) -> CuStream {
        let _entered = self.device.api().enter().expect("the device");
        let mut stream = CuStream::NULL;
        // SAFETY: it writes a handle.
        let code = unsafe { (self.table().stream_create)(&raw mut stream, STREAM_NON_BLOCKING, 0) };
        assert_eq!(code, 0, "a stream could not be made");
        stream
    }

    /// Gives a queue commands of [`COMMAND_US`] each.
    pub(crate) fn feed(&self, queue: &Queue, count: u32) {
        let command = self.spin(COMMAND_US);
        for _ in 0..count {
            queue.submit(command.clone()).expect("the victim's commands");
        }
    }

    /// Commands that count in memory.
    pub(crate) fn counter(&self) -> Counter {
        let _entered = self.device.api().enter().expect("the device");
        let memory = self.device.api().flag_memory(4_096).expect("memory");
        Counter { memory }
    }

    /// A command that takes `us` and counts then.
    pub(crate) fn count(&self, us: u64, counter: &Counter) -> Command {
        let at = counter.memory.device;
        let cycles = self.rate.cycles(us * 1_000);
        // SAFETY: the memory is never freed.
        let kernel = unsafe { self.device.api().kernels().note(cycles, at, at + NOTES as u64) };
        StreamCommand::native(CudaCommand::kernel(kernel.expect("a kernel")))
    }
}

/// Where the words of a note begin in a counter's memory.
const NOTES: usize = 64;

/// Counts commands of one stream that have run.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    memory: FlagMemory,
}

impl Counter {
    pub(crate) fn get(&self) -> u64 {
        // SAFETY: within the page, aligned, and the page is never freed. The second word of a note
        // is the number of ends.
        let word = unsafe { self.memory.host.byte_add(NOTES + 8).cast::<AtomicU64>().as_ref() };
        word.load(Ordering::Acquire)
    }
}

/// Returns what is behind the queue's gate, in device time, if it is held there: nothing has come
/// through for a while though there is something.
pub(crate) fn held(queue: &Queue, patience: Duration) -> Result<Duration, String> {
    let start = Instant::now();
    loop {
        let before = queue.stats();
        // Looks for completions meanwhile.
        let waited = queue.wait_all_timeout(micros(1_200));
        let after = queue.stats();
        let is_held = |hold| matches!(hold, HoldState::Held(level) if level >= Level::Deactivate);
        let quiet = before.retired == after.retired && waited == Err(WaitError::Timeout);
        if quiet && is_held(before.hold) && is_held(after.hold) && after.launched > after.retired {
            return Ok(micros(COMMAND_US * (after.launched - after.retired)));
        }
        if start.elapsed() > patience {
            return Err(format!("the victim is not held behind a gate: {after:?}"));
        }
    }
}

/// A thread that keeps a queue busy, and how long the longest of its steps took: one submission,
/// and the wait for an earlier one.
pub(crate) struct LoadGenerator {
    stop: Arc<AtomicBool>,
    longest_ns: Arc<AtomicU64>,
    ended: Receiver<Result<u64, String>>,
}

impl LoadGenerator {
    pub(crate) fn start(queue: Queue, command: Command) -> Self {
        let (stop, longest_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (end, ended) = mpsc::channel();
        let (its_stop, its_longest) = (Arc::clone(&stop), Arc::clone(&longest_ns));
        thread::spawn(move || {
            let mut steps = 0_u64;
            let mut pending = VecDeque::new();
            let mut result = Ok(());
            while !its_stop.load(Ordering::Relaxed) && result.is_ok() {
                let begin = Instant::now();
                result = queue.submit(command.clone()).map_err(|e| e.to_string()).and_then(|t| {
                    pending.push_back(t);
                    if pending.len() < IN_FLIGHT as usize {
                        return Ok(());
                    }
                    let oldest = pending.pop_front().expect("there are some");
                    queue.wait_timeout(oldest, Duration::from_secs(5)).map_err(|e| e.to_string())
                });
                its_longest.fetch_max(ns(begin.elapsed()), Ordering::Relaxed);
                steps += 1;
            }
            let _ = end.send(result.map(|()| steps));
        });
        Self { stop, longest_ns, ended }
    }

    /// Forgets how long steps took so far.
    pub(crate) fn forget(&self) {
        self.longest_ns.store(0, Ordering::Relaxed);
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }

    /// Has it end, and waits for that. What was submitted last may still be under way.
    pub(crate) fn end(&self) -> Result<u64, String> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.ended.recv_timeout(Duration::from_secs(6));
        ended.map_err(|_| "the winner's thread hangs".to_owned())?
    }
}

pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A driver's call that is made again and again by a thread of its own.
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    pub(crate) usual: Duration,
    stop: Arc<AtomicBool>,
    longest_ns: Arc<AtomicU64>,
    made: Arc<AtomicU32>,
    /// When the call that is under way began.
    since: Arc<Mutex<Option<Instant>>>,
}

/// Between two calls.
const PAUSE: Duration = micros(200);

impl Probe {
    /// A probe of each kind.
    pub(crate) fn all(scene: &Scene) -> Vec<Self> {
        let table = scene.table();
        let api = scene.device.api();
        let (stream, entered) = (scene.stream(), api.enter().expect("the device"));
        let event = api.create_event().expect("an event");
        let kernel = CudaCommand::kernel(api.kernels().empty());
        drop(entered);
        // SAFETY, for all of these: streams and events live to the end of the process, and what is
        // written to belongs to the call.
        let device = &scene.device;
        vec![
            // SAFETY: see above.
            Self::start("query-event", device, move |_| unsafe { (table.event_query)(event) }),
            // SAFETY: see above.
            Self::start("query-stream", device, move |_| unsafe { (table.stream_query)(stream) }),
            // SAFETY: see above.
            Self::start("record", device, move |_| unsafe { (table.event_record)(event, stream) }),
            Self::start("launch", device, {
                let stream = scene.stream();
                // SAFETY: see above.
                move |api| unsafe { i32::from(api.launch_native(&kernel, stream).is_err()) }
            }),
            Self::start("event", device, |api| {
                // SAFETY: see above.
                api.create_event().map_or(1, |event| unsafe { (api.table().event_destroy)(event) })
            }),
            Self::start("stream", device, |api| {
                let stream = api.create_stream(None);
                // SAFETY: see above.
                stream.map_or(1, |stream| unsafe { i32::from(api.destroy_stream(stream).is_err()) })
            }),
            Self::start("memory", device, |api| {
                let mut at = 0;
                // SAFETY: see above. It is never freed, since that would wait for held streams.
                unsafe { (api.table().mem_alloc)(&raw mut at, 2 << 20) }
            }),
        ]
    }

    fn start(
        name: &'static str,
        device: &StreamDevice<CudaApi>,
        call: impl Fn(&CudaApi) -> i32 + Send + 'static,
    ) -> Self {
        let (stop, since) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (longest_ns, made) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU32::new(0)));
        let probe = Self { name, usual: Duration::ZERO, stop, longest_ns, made, since };
        let its = (Arc::clone(&probe.stop), Arc::clone(&probe.longest_ns));
        let (made, since) = (Arc::clone(&probe.made), Arc::clone(&probe.since));
        let device = device.clone();
        thread::spawn(move || {
            let _entered = device.api().enter().expect("the device");
            while !its.0.load(Ordering::Relaxed) {
                let begin = Instant::now();
                *since.lock().expect("no thread panics with it") = Some(begin);
                // Whether it succeeds does not matter here.
                let _ = call(device.api());
                its.1.fetch_max(ns(begin.elapsed()), Ordering::Relaxed);
                *since.lock().expect("no thread panics with it") = None;
                made.fetch_add(1, Ordering::Relaxed);
                thread::sleep(PAUSE);
            }
        });
        probe
    }

    /// How long the longest call took since this was asked before, once all have made some more or
    /// `patience` is over.
    pub(crate) fn longest(all: &[Self], patience: Duration) -> Vec<Duration> {
        let before: Vec<u32> = all.iter().map(|probe| probe.made.load(Ordering::Relaxed)).collect();
        until(patience, || {
            all.iter().zip(&before).all(|(probe, before)| {
                probe.made.load(Ordering::Relaxed).wrapping_sub(*before) >= 3
            })
        });
        let longest = |probe: &Self| {
            let ended = Duration::from_nanos(probe.longest_ns.swap(0, Ordering::Relaxed));
            let since = *probe.since.lock().expect("no thread panics with it");
            ended.max(since.map_or(Duration::ZERO, |since| since.elapsed()))
        };
        all.iter().map(longest).collect()
    }

    /// Probes that know how long they usually take.
    pub(crate) fn measured(scene: &Scene) -> Vec<Self> {
        let mut all = Self::all(scene);
        // The first calls of all may load and allocate.
        let _ = Self::longest(&all, millis(1_000));
        thread::sleep(millis(20));
        let usual = Self::longest(&all, millis(1_000));
        all.iter_mut().zip(usual).for_each(|(probe, usual)| probe.usual = usual);
        all
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
