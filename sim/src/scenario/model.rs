//! Model of a scenario, as plain checked data. The TOML form is documented in
//! `docs/src/reference/scenarios.md`; everything here is already in nanoseconds and already
//! validated.

use std::sync::Arc;

use xsched_core::cost::{CostModel, Reach};
use xsched_core::hint::{Hints, Laxity, Priority};
use xsched_core::message::Claim;
use xsched_core::time::Duration;

use super::system::Comparators;

/// The version of the scenario schema that this program reads (`version = 1` in the file).
pub const SCHEMA_VERSION: u32 = 1;

/// A whole experiment: devices, processes, tasks and how long to run them.
///
/// [`Scenario::load`], [`Scenario::parse`] and [`Scenario::plain`] make one; all fields can be
/// changed before a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Short name, used in reports. 1 to 64 characters of `[A-Za-z0-9._-]`.
    pub name: String,
    /// Text about what the scenario shows, in a sentence or two. May be empty.
    pub description: String,
    /// Seed of the first run.
    pub seed: u64,
    /// How many consecutive seeds `sim run` runs; 1 unless bands are wanted.
    pub seeds: u32,
    /// Simulated time after which the run stops; `None` runs until every task with a number of
    /// requests has finished.
    pub duration_ns: Option<u64>,
    /// Requests that arrived before this time are run but not counted.
    pub warmup_ns: u64,
    /// The policy to use when the command line names none.
    pub policy: String,
    /// How many queues the policy K-EDF lets run at once; `None` leaves it to the policy.
    /// Other policies ignore it.
    pub k: Option<u32>,
    /// The timeslice of policies that have one, 100 µs to 10 s; `None` leaves it to the policy.
    pub timeslice_ns: Option<u64>,
    /// The age at which a waiting queue has a turn under a strict policy, 1 ms to a day; `None`
    /// for never.
    pub ageing_ns: Option<u64>,
    /// Permille of the device time that tasks below the highest priority keep under a policy by
    /// priority, 0 to 500.
    pub floor_permille: u16,
    /// The system to run instead of a policy, if any, and the parameters of all such systems.
    pub comparators: Comparators,
    /// The preemption level, 1 to 3, to use when neither the command line nor the task says.
    pub level: u8,
    /// Time from a queue's report to the scheduler seeing it, and again from its order to the
    /// queue obeying it.
    pub scheduler_latency_ns: u64,
    /// The daemon that schedules the processes, if the policy is its policy.
    pub daemon: Option<DaemonSpec>,
    /// Devices, in the order of the file. At least one.
    pub devices: Vec<DeviceSpec>,
    /// Processes, in the order of the file; tasks that name none each get one of their own.
    pub processes: Vec<ProcessSpec>,
    /// Tasks, in the order of the file, before `count` is applied. At least one.
    pub tasks: Vec<TaskSpec>,
    /// Measured values that the simulation is compared with.
    pub references: Vec<Reference>,
    /// Parameters that were fitted to measurements, each as `key: how and why`.
    pub fitted: Vec<String>,
}

/// How commands of different streams share a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Concurrency {
    /// One command at a time; after each, the next stream in turn.
    RoundRobin,
    /// The heads of all streams run together, each at rate `1 / (1 + contention * (n - 1))`.
    /// 0 is no interference, 1 is an equal share of a fully used device, above 1 they disturb
    /// each other. Range 0 to 10.
    ProcessorSharing {
        /// The contention factor.
        contention: f64,
    },
    /// One command at a time; the stream that has the device keeps it until it has drained.
    Exclusive,
    /// As round robin, but with several units that each run one command. Not for scenario files;
    /// the devices of records are like that.
    Units {
        /// How many, at least 1.
        units: u32,
    },
}

/// A device: how it runs commands and what each preemption level costs on it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Name, unique among devices.
    pub name: String,
    /// How streams share it.
    pub concurrency: Concurrency,
    /// From the host's launch call returning to the command being ready on the device.
    pub launch_latency_ns: u64,
    /// Host time of one launch call.
    pub host_launch_ns: u64,
    /// Host time from seeing a completion to the waiting thread running again.
    pub host_sync_ns: u64,
    /// From a fence completing on the device to the host seeing it.
    pub detect_ns: u64,
    /// Device time between a command with a fence and the next of its stream, if that is ready and
    /// the device runs nothing else meanwhile.
    pub fence_ns: u64,
    /// Entries (commands, gates and fences) a stream takes before a launch blocks. At least 4.
    pub launch_queue: u32,
    /// The highest level this device can do, 1 to 3.
    pub max_level: u8,
    /// Level 2: device time of one gate.
    pub gate_ns: u64,
    /// Level 2: from the host's store to the gate being closed or open for the device.
    pub gate_close_ns: u64,
    /// Level 2: a gate goes in front of a command once this much predicted work has passed since
    /// the last; 0 puts one in front of every command.
    pub gate_spacing_ns: u64,
    /// Level 3: fixed part of saving a running context.
    pub save_fixed_ns: u64,
    /// Level 3: part of saving that is proportional to the task's `context` (its share of the
    /// whole context).
    pub save_context_ns: u64,
    /// Level 3: fixed part of restoring.
    pub restore_fixed_ns: u64,
    /// Level 3: part of restoring that is proportional to the task's `context`.
    pub restore_context_ns: u64,
    /// Level 3: how long what runs may go on before it is saved.
    pub grace_ns: u64,
    /// Levels 2 and 3: from the end of a hold until the next command of the stream may begin, if it
    /// had not begun before.
    pub resume_ns: u64,
    /// Level 3: whom saving and restoring stop.
    pub reach: Reach,
    /// Level 3: what is ordered at the same time is one operation.
    pub batches: bool,
    /// Host time that a thread needs, beyond everything else, for the first command of a request,
    /// because it has slept: one of these, each as likely. Empty for none.
    pub wake_ns: Arc<[u64]>,
    /// Host time as `wake_ns`, under a policy that holds queues: the scheduler has slept as well.
    /// Empty for `wake_ns`.
    pub queue_wake_ns: Arc<[u64]>,
}

impl DeviceSpec {
    /// Returns the cost of holding and resuming on this device, as the scheduler is told.
    #[must_use]
    pub fn cost(&self) -> CostModel {
        let ns = Duration::from_ns;
        CostModel {
            detect: ns(self.detect_ns),
            gate_close: ns(self.gate_close_ns),
            gate: ns(self.gate_ns),
            gate_spacing: ns(self.gate_spacing_ns),
            save_fixed: ns(self.save_fixed_ns),
            save_context: ns(self.save_context_ns),
            restore_fixed: ns(self.restore_fixed_ns),
            restore_context: ns(self.restore_context_ns),
            grace: ns(self.grace_ns),
            reach: self.reach,
            batches: self.batches,
        }
    }
}

/// The daemon of a node: it schedules processes, each of which it holds and lets go on each device
/// as a whole, at level 2.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonSpec {
    /// From the moment at which a process wakes it, while it sleeps, to its looking.
    pub wake: Dist,
    /// From its looking to its storing into gates.
    pub decide_ns: u64,
    /// For how long after it was woken it goes on looking before it sleeps.
    pub spin_ns: u64,
    /// From the end of the last command of a process to the moment at which the process says that
    /// it has no work. One that launches again before is busy all the time.
    pub idle_ns: u64,
}

impl Default for DaemonSpec {
    /// Returns the daemon of a scenario file that says no more than `[daemon]`.
    fn default() -> Self {
        Self { wake: Dist::Constant(15_000), decide_ns: 2_000, spin_ns: 200_000, idle_ns: 0 }
    }
}

/// In which order the threads of a process get a host lock that they all need for launching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOrder {
    /// First come, first served; released after every launch.
    Fair,
    /// The owner keeps it from launch to launch until it has to wait for something else, or until
    /// another thread has waited for `switch_ns`; then a random waiter gets it.
    Unfair {
        /// How long a waiter waits before it may take the lock from a launching owner.
        switch_ns: u64,
    },
}

/// A process: its threads may share one host lock (an interpreter lock, for instance).
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessSpec {
    /// Name, unique among processes.
    pub name: String,
    /// The lock that launching takes, if there is one.
    pub lock: Option<LockOrder>,
    /// Host time to hand the lock from one thread to another.
    pub lock_handoff_ns: u64,
    /// A thread that returns from waiting for the device needs the lock before it goes on.
    pub lock_on_return: bool,
    /// For what part of its host time a thread needs the lock, in percent: 1 to 100. It is free
    /// for the rest.
    pub lock_percent: u8,
}

/// A distribution of times.
#[derive(Clone, Debug, PartialEq)]
pub enum Dist {
    /// Always the same.
    Constant(u64),
    /// Exponential with this mean.
    Exponential {
        /// Mean in nanoseconds, above 0.
        mean_ns: f64,
    },
    /// Log-normal: `exp(N(mu, sigma))`.
    LogNormal {
        /// Mean in nanoseconds (not the median), above 0.
        mean_ns: f64,
        /// Standard deviation of the logarithm, 0 to 5.
        sigma: f64,
    },
    /// One of the values, drawn with the given weights.
    Empirical {
        /// The values in nanoseconds; at least one.
        values_ns: Arc<[u64]>,
        /// A weight for each value, or empty for equal weights.
        weights: Arc<[f64]>,
    },
    /// The values one after the other, over and over; for commands, from the start in each request.
    Sequence {
        /// The values in nanoseconds; at least one.
        values_ns: Arc<[u64]>,
    },
    /// Uniform between two bounds, inclusive.
    Uniform {
        /// Lower bound.
        min_ns: u64,
        /// Upper bound, at least the lower.
        max_ns: u64,
    },
}

/// One arrival of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// Arrival time since the task's start.
    pub at_ns: u64,
    /// Number of commands, or 0 to use the task's.
    pub commands: u32,
    /// Length of each command, or 0 to draw it from the task's distribution.
    pub command_ns: u64,
}

/// When requests of a task arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    /// The next request comes `think` after the previous one has completed.
    Closed {
        /// Pause between a completion and the next request.
        think: Dist,
        /// Half-width of a uniform jitter added to each pause.
        jitter_ns: u64,
    },
    /// One every period.
    Periodic {
        /// The period, above 0.
        period_ns: u64,
        /// Half-width of a uniform jitter around each arrival; less than the period.
        jitter_ns: u64,
    },
    /// Independent arrivals with exponential or other gaps (`Poisson`, log-normal).
    Renewal {
        /// Distribution of the gap between arrivals.
        gap: Dist,
    },
    /// Arrivals from a file.
    Trace {
        /// Rows in order of time.
        rows: Arc<[TraceRow]>,
    },
    /// The requests of a record, each a time after the one before it has completed. Not for
    /// scenario files.
    Recorded {
        /// The requests.
        requests: Arc<[RecordedRequest]>,
        /// The commands of all requests.
        commands: Arc<[RecordedCommand]>,
        /// After the last request those from this one on come again, as often as the task may
        /// make requests.
        repeat_from: Option<usize>,
    },
}

/// The request that comes after `before` requests.
pub(crate) fn recorded_request(
    requests: &[RecordedRequest],
    repeat_from: Option<usize>,
    before: usize,
) -> Option<&RecordedRequest> {
    let index = match repeat_from {
        Some(from) if before >= requests.len() => {
            from + (before - requests.len()) % requests.len().checked_sub(from)?.max(1)
        }
        _ => before,
    };
    requests.get(index)
}

/// A request of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedRequest {
    /// From the completion before it to its first submit. With several requests outstanding, the
    /// completion of as many before; that of the first ones is from the start of the task.
    pub think_ns: u64,
    /// Index of its first command.
    pub first: usize,
    /// Number of its commands.
    pub commands: u32,
}

/// A command of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedCommand {
    /// Device time.
    pub work_ns: u64,
    /// Host time from submitting it to submitting the next one of its request.
    pub gap_ns: u64,
}

/// How a thread waits for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncScope {
    /// For the last command of the request.
    Stream,
    /// Until the device has drained everything that its process has submitted, later work included.
    Device,
}

/// How the in-flight window is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSpec {
    /// The given threshold and batch.
    Fixed,
    /// The smallest threshold that keeps the device fed, at most the given one.
    Adaptive,
}

/// A task: one host thread with one XQueue that runs requests of many commands.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    /// Name, unique among tasks. With `count` above 1 the copies are called `name-1`, `name-2`, …
    pub name: String,
    /// How many copies.
    pub count: u32,
    /// Index into [`Scenario::devices`].
    pub device: usize,
    /// Index into [`Scenario::processes`], or `None` for a process of its own.
    pub process: Option<usize>,
    /// When the thread starts.
    pub start_ns: u64,
    /// When requests come.
    pub arrival: Arrival,
    /// Stop after this many requests; `None` goes on to the end of the run.
    pub requests: Option<u64>,
    /// Commands per request, at least 1.
    pub commands: u32,
    /// Length of a command on the idle device.
    pub command: Dist,
    /// Waves of blocks of each command, at least 1, on a device that runs one command at a time:
    /// between two of them an urgent stream may take the device over.
    pub waves: u32,
    /// Stream has the most urgent priority that the device knows: it goes before other
    /// streams that wait, but not twice in a row while they wait.
    pub urgent_stream: bool,
    /// How much of its device it claims, as the scheduler is told. With a daemon, the process of
    /// one that claims a part runs beside others, and that of one that claims little waits for
    /// nothing, and its pauses say the rest.
    pub claim: Claim,
    /// Requests that may be submitted and not yet complete; 1 waits for each.
    pub outstanding: u32,
    /// How the thread waits.
    pub sync: SyncScope,
    /// Host time of one launch, instead of the device's.
    pub host_launch_ns: Option<u64>,
    /// Host time that the thread itself needs before each command is submitted (a framework's
    /// dispatch), with the lock of its process if there is one.
    pub dispatch_ns: u64,
    /// In-flight threshold, 1 to 65,536.
    pub threshold: u32,
    /// Commands per fence, 1 to the threshold.
    pub batch: u32,
    /// Fixed or adaptive window.
    pub window: WindowSpec,
    /// Commands that the XQueue takes before `submit` blocks. At least 1.
    pub capacity: u32,
    /// Level for this task, or `None` for the scenario's.
    pub level: Option<u8>,
    /// Share of the device's context that a save has to move, 0 to 1.
    pub context: f64,
    /// Device time that the scheduler is told of, over what was used, 0 to 10.
    pub counted: f64,
    /// Priority, -255 to 255, or -256 for "do not execute".
    pub priority: i16,
    /// Deadline after becoming ready.
    pub deadline_ns: Option<u64>,
    /// Laxity after becoming ready.
    pub laxity_ns: Option<u64>,
    /// Priority once the laxity is over, -256 to 255.
    pub critical_priority: i16,
    /// True if the queue belongs to the active window.
    pub active_window: bool,
    /// Priority of the submitting thread, -20 to 200, see `Hints::cpu_priority`.
    pub cpu_priority: i16,
    /// Utilisation share in percent, 0 to 100.
    pub share: Option<u8>,
    /// Weight for fair policies, 1 to 1,000,000.
    pub weight: u32,
    /// Name of a task whose latest submitted command each request of this one waits for first.
    pub after: Option<usize>,
}

impl TaskSpec {
    /// Returns the hints that users give about its queue.
    pub(crate) fn hints(&self) -> Hints {
        let priority = Priority::new(i32::from(self.priority)).unwrap_or_default();
        let critical = Priority::new(i32::from(self.critical_priority)).unwrap_or_default();
        let mut hints = Hints::with_priority(priority);
        hints.deadline = self.deadline_ns.map(Duration::from_ns);
        hints.utilization = self.share;
        hints.weight = self.weight;
        hints.laxity = self.laxity_ns.map(|lax| Laxity {
            lax: Duration::from_ns(lax),
            lax_priority: priority,
            critical_priority: critical,
        });
        hints.active_window = self.active_window;
        hints.cpu_priority = self.cpu_priority;
        hints
    }
}

/// A measured value that a simulated one is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Figure that is compared.
    pub metric: Metric,
    /// The measured value: milliseconds for latencies, requests per second for rates.
    pub value: f64,
    /// How far the simulated median may be away, in percent of itself.
    pub within_percent: f64,
    /// True if the measured value must also lie between the 5th and 95th percentile over seeds.
    pub in_band: bool,
    /// Where the value comes from.
    pub source: String,
}

/// A figure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A latency figure of one task (`task` is its name) or of all tasks pooled (`None`), in ms.
    Latency {
        /// Expanded task name, or `None` for all tasks together.
        task: Option<String>,
        /// Statistic of the latencies.
        stat: Stat,
    },
    /// Requests per second, of one task or of all.
    Throughput {
        /// Expanded task name, or `None` for all tasks together.
        task: Option<String>,
    },
}

/// A figure of a latency distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stat {
    /// Arithmetic mean.
    Mean,
    /// 50th percentile.
    P50,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Standard deviation.
    Std,
}
