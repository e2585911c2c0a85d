//! The service: three tasks of different priority that send requests to one device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched::node::{self, Link};
use xsched::policies::Any;
use xsched::{Device, Runtime, XQueue, XQueueConfig};
use xsched_core::hint::{OutOfRange, Priority};
use xsched_core::level::Level;
use xsched_core::rng::SplitMix64;
use xsched_core::window::WindowConfig;
use xsched_sim::outcome::TaskOutcome;

use super::device::REQUEST;
use super::spool::Spool;
use crate::device::{BenchDevice, Described, QueueParams};
use crate::error::CommandError;

/// In-flight threshold and batch of every queue, as in the scenarios of `sim/scenarios`.
pub(crate) const WINDOW: (u32, u32) = (8, 4);
/// Requests that arrive earlier than this are not counted.
pub(crate) const WARMUP: Duration = Duration::from_millis(100);
/// A request that takes longer than this is a device that hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Half-width of the change of each pause, as a share of it: 1 / 8.
const JITTER_PART: u64 = 8;

/// A client that sends a request, waits for it, pauses, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// Name of the task.
    pub(crate) name: &'static str,
    /// Higher goes first.
    pub(crate) priority: i16,
    /// The pause, in nanoseconds; 0 for one that always has work.
    pub(crate) think_ns: u64,
    /// Requests that it has to make at least.
    pub(crate) requests: u64,
}

impl Task {
    /// Half-width of the uniform change of each pause, in nanoseconds.
    pub(crate) const fn jitter_ns(&self) -> u64 {
        self.think_ns / JITTER_PART
    }
}

/// The three tasks, highest priority first. The two that do not lead make at least a fifth of the
/// requests of the first.
pub(crate) fn tasks(requests: u64) -> [Task; 3] {
    let others = requests.div_ceil(5);
    let task = |name, priority, think_ns, requests| Task { name, priority, think_ns, requests };
    [
        task("high", 3, 6_000_000, requests),
        task("mid", 2, 6_000_000, others),
        task("low", 1, 0, others),
    ]
}

/// How the tasks are run.
#[derive(Clone, Debug)]
pub(crate) struct Phase<'a> {
    /// The deepest hold.
    pub(crate) level: Level,
    /// No request is begun after this time, even if requests are missing.
    pub(crate) limit: Duration,
    /// Where the changes of the pauses follow from.
    pub(crate) seed: u64,
    /// Where what happens is written down.
    pub(crate) record: Option<&'a Spool>,
}

/// A device with the runtime that schedules it in one or more phases.
pub(crate) struct Opened<'a, B: BenchDevice> {
    bench: &'a B,
    runtime: Runtime,
    device: Device<B::Backend>,
    /// How long a request may take; no limit where other processes may hold the device.
    request_max: Option<Duration>,
}

impl<'a, B: BenchDevice> Opened<'a, B> {
    /// Opens the device, which the scheduler of the node holds for other processes if there is a
    /// connection with it.
    pub(crate) fn new(
        bench: &'a B,
        policy: &Any,
        link: Option<&Arc<Link>>,
    ) -> Result<Self, CommandError> {
        let runtime = Runtime::new(policy.clone()).map_err(CommandError::device)?;
        let backend = bench.device().map_err(CommandError::device)?;
        let device = match link {
            Some(link) => node::add(&runtime, link, backend, &name_on_node(&bench.describe())),
            None => runtime.device(backend),
        };
        let device = device.map_err(CommandError::device)?;
        let request_max = link.is_none().then_some(PATIENCE);
        Ok(Self { bench, runtime, device, request_max })
    }

    /// Puts another policy in charge.
    pub(crate) fn set_policy(&self, policy: &Any) -> Result<(), CommandError> {
        self.runtime.set_policy(policy.clone()).map_err(CommandError::device)
    }

    /// Opens a queue for each of `configs`, with a gate for each command where it has gates.
    fn queues(
        &self,
        configs: Vec<XQueueConfig>,
        level: Level,
    ) -> Result<Vec<XQueue<B::Command>>, CommandError> {
        let params = QueueParams::at(level);
        let open = |config| {
            let opened = self.device.queue(config, self.bench.config(params));
            opened.map_err(CommandError::device)
        };
        configs.into_iter().map(open).collect()
    }
}

/// Name by which the scheduler of the node knows a device, as the C library gives it.
pub(crate) fn name_on_node(device: &Described) -> String {
    if device.pci.is_empty() { device.hal.to_owned() } else { device.pci.clone() }
}

/// Runs the tasks beside each other until each has made its requests; those that have go on until
/// the last has. `progress` gets the share that is done, 0 to 1, from any thread.
pub(crate) fn run<B: BenchDevice>(
    opened: &Opened<'_, B>,
    tasks: &[Task],
    phase: &Phase<'_>,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<TaskOutcome>, CommandError> {
    let runtime = &opened.runtime;
    let recording = phase.record.map(|spool| Ok::<_, CommandError>((spool, spool.begin(runtime)?)));
    let recording = recording.transpose()?;
    let configs: Result<Vec<_>, OutOfRange> =
        tasks.iter().map(|task| queue_config(task, phase.level)).collect();
    let queues = opened.queues(configs.map_err(CommandError::device)?, phase.level)?;
    let kernel = opened.bench.command(REQUEST.kernel_ns, 1).map_err(CommandError::device)?;
    let pace = Pace::new(tasks, phase.limit, progress);
    let results: Vec<_> = thread::scope(|scope| {
        let clients = tasks.iter().zip(queues).enumerate().map(|(place, (task, queue))| {
            let request_max = opened.request_max;
            let client = Client { place, task, queue, request_max, pace: &pace };
            let random = SplitMix64::new(phase.seed.wrapping_add(place as u64));
            let kernel = &kernel;
            scope.spawn(move || client.run(kernel, random))
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let measured = pace.measured();
    if let Some((spool, recording)) = recording {
        spool.end(recording)?;
    }
    let outcome = |(task, result): (&Task, thread::Result<Result<Vec<u64>, CommandError>>)| {
        let latencies_ns = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(TaskOutcome {
            name: task.name.to_owned(),
            priority: task.priority,
            latencies_ns,
            measured_ns: nanos(measured),
            ..TaskOutcome::default()
        })
    };
    tasks.iter().zip(results).map(outcome).collect()
}

fn queue_config(task: &Task, level: Level) -> Result<XQueueConfig, OutOfRange> {
    let priority = Priority::new(i32::from(task.priority))?;
    let window = WindowConfig::fixed(WINDOW.0, WINDOW.1);
    Ok(XQueueConfig::default().with_priority(priority).with_level(level).with_window(window))
}

/// Nanoseconds of a time that is short enough to be counted in them.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// State that the clients share: who has done how much, and when to stop.
struct Pace<'a> {
    goals: Vec<u64>,
    done: Vec<AtomicU64>,
    start: Instant,
    limit: Duration,
    stop: AtomicBool,
    /// When it was said to stop, in nanoseconds since the start.
    stopped_ns: AtomicU64,
    progress: &'a (dyn Fn(f64) + Sync),
}

impl<'a> Pace<'a> {
    fn new(tasks: &[Task], limit: Duration, progress: &'a (dyn Fn(f64) + Sync)) -> Self {
        Self {
            goals: tasks.iter().map(|task| task.requests).collect(),
            done: tasks.iter().map(|_| AtomicU64::new(0)).collect(),
            start: Instant::now(),
            limit,
            stop: AtomicBool::new(false),
            stopped_ns: AtomicU64::new(0),
            progress,
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Acquire)
    }

    /// Ends the phase, unless another client has ended it.
    fn end(&self) {
        let now_ns = nanos(self.start.elapsed());
        let first =
            self.stopped_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            self.stop.store(true, Ordering::Release);
        }
    }

    /// A request that arrived at `arrival` has completed. Whether it counts.
    fn count(&self, place: usize, arrival: Instant) -> bool {
        if !self.goes_on() {
            return false;
        }
        let counts = arrival.saturating_duration_since(self.start) >= WARMUP;
        if counts {
            self.done[place].fetch_add(1, Ordering::Relaxed);
        }
        let part = self.part();
        (self.progress)(part);
        if part >= 1.0 || self.start.elapsed() >= self.limit {
            self.end();
        }
        counts
    }

    /// The share that the task that has most before it has done, 0 to 1.
    fn part(&self) -> f64 {
        let done = self.done.iter().map(|done| done.load(Ordering::Relaxed));
        let parts = done.zip(&self.goals).map(|(done, &goal)| done as f64 / goal.max(1) as f64);
        parts.fold(1.0, f64::min)
    }

    /// How long requests were counted.
    fn measured(&self) -> Duration {
        Duration::from_nanos(self.stopped_ns.load(Ordering::Relaxed)).saturating_sub(WARMUP)
    }
}

/// One task's thread. It sleeps while it waits.
struct Client<'a, K> {
    place: usize,
    task: &'a Task,
    queue: XQueue<K>,
    /// See [`Opened::request_max`].
    request_max: Option<Duration>,
    pace: &'a Pace<'a>,
}

impl<K: Clone> Client<'_, K> {
    /// The latencies of the counted requests, in nanoseconds.
    fn run(self, kernel: &K, mut random: SplitMix64) -> Result<Vec<u64>, CommandError> {
        let mut latencies_ns = Vec::new();
        while self.pace.goes_on() {
            let arrival = Instant::now();
            let done = self.request(kernel);
            let latency_ns = nanos(arrival.elapsed());
            if let Err(error) = done {
                self.pace.end();
                return Err(error);
            }
            if self.pace.count(self.place, arrival) {
                latencies_ns.push(latency_ns);
            }
            self.pause(&mut random);
        }
        Ok(latencies_ns)
    }

    fn request(&self, kernel: &K) -> Result<(), CommandError> {
        let mut last = None;
        for _ in 0..REQUEST.kernels {
            let ticket = self.queue.submit(kernel.clone());
            last = Some(ticket.map_err(|_| CommandError::device("the device was lost"))?);
        }
        // Kernels of a queue complete in order.
        let Some(last) = last else { return Ok(()) };
        let waited = match self.request_max {
            Some(limit) => self.queue.wait_timeout(last, limit),
            None => self.queue.wait(last),
        };
        waited.map_err(CommandError::device)
    }

    fn pause(&self, random: &mut SplitMix64) {
        let (think_ns, jitter_ns) = (self.task.think_ns, self.task.jitter_ns());
        let change_ns = random.below(2 * jitter_ns + 1);
        let pause_ns = (think_ns + change_ns).saturating_sub(jitter_ns);
        if pause_ns > 0 {
            thread::sleep(Duration::from_nanos(pause_ns));
        }
    }
}
