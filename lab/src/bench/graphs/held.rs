//! A graph that is held at random moments.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use xsched::Device;
use xsched_core::hal::{Backend, Halves, Retire, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Level, Step};
use xsched_core::rng::SplitMix64;
use xsched_hal_cuda::{ClockProbe, CudaApi, GateWord, Stamps, StreamConfig, StreamDevice};

use super::{Made, Plan, Queue};
use crate::device::clocks::DeviceClock;
use crate::device::gpu::Cuda;
use crate::device::{BenchDevice, LabError, QueueParams, until};
use crate::stats::Quantiles;

/// Where the moments of the holds follow from.
const SEED: u64 = 1;
/// Spacings of the gates in nanoseconds; a graph without comes first.
const SPACINGS_NS: [Option<u64>; 4] = [None, Some(0), Some(200_000), Some(500_000)];
/// Graphs that the queue is given ahead.
const BACKLOG: u64 = 4;
/// Launches of each graph alone, to see what its gates cost.
const ALONE: usize = 41;
/// Stamps that have not changed for this number of kernels do not change any more.
const SETTLED: u32 = 5;
/// A wait that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time that a hold may take beside the kernels, in nanoseconds: the host's store, the device's
/// look at it, and the gates themselves.
const SLACK_NS: u64 = 20_000;
/// Launches of the graph that are tried behind a closed gate.
const LAUNCHES: u64 = 64;

/// Figures of held graphs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Held {
    /// A kernel's length as its own stamps have it.
    pub(crate) kernel: Quantiles,
    /// By how much a time between a moment of the host and one of the device may be off, at most.
    pub(crate) clock_uncertain: Quantiles,
    /// Steps of the device's clock, in nanoseconds.
    pub(crate) clock_step_ns: u64,
    /// Each graph.
    pub(crate) rows: Vec<Row>,
    /// Launches of the graph with most gates that were taken behind a closed gate before one
    /// blocked; if none did, the number that was tried. Nothing if that part was not reached.
    pub(crate) launches_taken: Option<u64>,
    /// See above.
    pub(crate) launches_tried: u64,
}

/// A graph and its holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Spacing of the gates in nanoseconds. Without, there are gates in front of graphs only.
    pub(crate) spacing_ns: Option<u64>,
    /// Gates in the graph.
    pub(crate) gates: usize,
    /// From the hold to the end of the last kernel.
    pub(crate) quiet: Quantiles,
    /// Upper limit of the 99th percentile of that, in nanoseconds.
    pub(crate) bound_ns: u64,
    /// Most kernels that started after a hold.
    pub(crate) started_most: usize,
    /// Holds that came when no kernel ran, and count as 0.
    pub(crate) idle: u32,
    /// Holds during which a kernel started after all was quiet.
    pub(crate) ran_on: u32,
    /// Time from the first kernel's start to the last one's end, of the graph alone.
    pub(crate) alone: Quantiles,
    /// The median of that over that of the graph without gates.
    pub(crate) over_none: f64,
}

/// A graph with a queue's word, and where its kernels write down their times.
struct Subject {
    spacing_ns: Option<u64>,
    word: GateWord<CudaApi>,
    stamps: Stamps,
    made: Made,
}

impl Subject {
    fn new(bench: &Cuda, plan: &Plan, spacing_ns: Option<u64>) -> Result<Self, LabError> {
        let word = bench.streams().gate_word().map_err(LabError::new)?;
        let count = plan.kernels.max(1) as usize;
        let stamps = Stamps::new(Arc::clone(bench.api()), count).map_err(LabError::new)?;
        let (grid, cycles) = bench.full(plan.kernel_ns);
        let kernels = (0..count).map(|n| stamps.kernel(n, grid, cycles));
        let kernels: Vec<_> = kernels.collect::<Result<_, _>>().map_err(LabError::new)?;
        let lengths_ns = vec![plan.kernel_ns; count];
        let gates = spacing_ns.map(|spacing_ns| (&word, spacing_ns));
        let made = super::make(bench.streams(), &kernels, &lengths_ns, false, gates)?;
        Ok(Self { spacing_ns, word, stamps, made })
    }

    /// The graph's time from the first start to the last end, as it was written down last.
    fn span_ns(&self) -> u64 {
        self.stamps.end_ns(self.stamps.count() - 1).saturating_sub(self.stamps.start_ns(0))
    }

    fn bound_ns(&self, plan: &Plan) -> u64 {
        match self.spacing_ns {
            // A fifth more than a kernel, since only part of one is left when the hold comes.
            Some(0) => plan.kernel_ns * 6 / 5 + SLACK_NS,
            Some(spacing_ns) => spacing_ns + plan.kernel_ns * 3 / 2 + SLACK_NS,
            None => plan.kernel_ns * u64::from(plan.kernels) * 6 / 5 + SLACK_NS,
        }
    }
}

/// Runs this part, and puts what comes out into `held`. `progress` gets the share that is done.
pub(super) fn measure(
    bench: &Cuda,
    device: &Device<StreamDevice<CudaApi>>,
    plan: &Plan,
    held: &mut Option<Held>,
    progress: &dyn Fn(f64),
) -> Result<(), LabError> {
    let subjects = SPACINGS_NS.map(|spacing_ns| Subject::new(bench, plan, spacing_ns));
    let subjects: Vec<Subject> = subjects.into_iter().collect::<Result<_, _>>()?;
    let (alone, kernel) = alone(bench, &subjects)?;
    let mut probe = ClockProbe::new(Arc::clone(bench.api())).map_err(LabError::new)?;
    let origin = Instant::now();
    let held = held.insert(Held {
        kernel,
        clock_uncertain: Quantiles::default(),
        clock_step_ns: u64::MAX,
        rows: Vec::new(),
        launches_taken: None,
        launches_tried: LAUNCHES,
    });
    let mut uncertain = Vec::new();
    for (n, subject) in subjects.iter().enumerate() {
        let making = QueueParams::at(Level::Deactivate);
        let queue = super::queue(bench, device, making, 0, Some(&subject.word))?;
        let mut holds = Holds { plan, subject, queue, origin, seen: Seen::default() };
        let mut random = SplitMix64::new(SEED);
        for hold in 0..plan.holds {
            let clock = holds.sample(&mut probe, &mut random)?;
            uncertain.push(clock.uncertain_ns);
            held.clock_step_ns = held.clock_step_ns.min(clock.step_ns);
            let part = f64::from(hold + 1) / f64::from(plan.holds);
            progress((n as f64 + part) / subjects.len() as f64);
        }
        holds.queue.wait_all_timeout(PATIENCE).map_err(LabError::new)?;
        let none = alone[0].p50_us.max(f64::MIN_POSITIVE);
        held.rows.push(holds.row(alone[n], alone[n].p50_us / none));
        held.clock_uncertain = Quantiles::of(&uncertain);
    }
    held.launches_taken = Some(launches_taken(bench, &subjects[1])?);
    Ok(())
}

/// Each graph alone on a plain stream, by turns; and the lengths of the first one's kernels.
fn alone(bench: &Cuda, subjects: &[Subject]) -> Result<(Vec<Quantiles>, Quantiles), LabError> {
    let mut stream = bench.stream(false)?;
    let mut times = vec![Vec::new(); subjects.len()];
    for round in 0..ALONE {
        for (subject, times) in subjects.iter().zip(&mut times) {
            stream.launch(&subject.made.command).map_err(LabError::new)?;
            stream.wait().map_err(LabError::new)?;
            // The first launch puts the graph onto the device.
            if round > 0 {
                times.push(subject.span_ns());
            }
        }
    }
    let stamps = &subjects[0].stamps;
    let length = |n| stamps.end_ns(n).saturating_sub(stamps.start_ns(n));
    let lengths: Vec<u64> = (0..stamps.count()).map(length).collect();
    let times = times.iter().map(|times| Quantiles::of(times));
    Ok((times.collect(), Quantiles::of(&lengths)))
}

/// Observations of a graph.
#[derive(Debug, Default)]
struct Seen {
    quiet_ns: Vec<u64>,
    started_most: usize,
    idle: u32,
    ran_on: u32,
}

/// A queue that always has graphs to run.
struct Holds<'a> {
    plan: &'a Plan,
    subject: &'a Subject,
    queue: Queue,
    origin: Instant,
    seen: Seen,
}

impl Holds<'_> {
    /// Gives the queue graphs for a while, and waits until a kernel runs.
    fn refill(&self, last_ns: u64) -> Result<(), LabError> {
        let stats = self.queue.stats();
        for _ in stats.submitted.saturating_sub(stats.retired)..BACKLOG {
            let ticket = self.queue.submit(self.subject.made.command.clone());
            ticket.map_err(|_| LabError::new("the device was lost"))?;
        }
        let stamps = &self.subject.stamps;
        until(PATIENCE, "the graph did not run", || (stamps.last_ns() > last_ns).then_some(()))
    }

    /// One hold and its end.
    fn sample(
        &mut self,
        probe: &mut ClockProbe,
        random: &mut SplitMix64,
    ) -> Result<DeviceClock, LabError> {
        let stamps = &self.subject.stamps;
        self.refill(stamps.last_ns())?;
        let graph_ns = self.plan.kernel_ns * u64::from(self.plan.kernels);
        thread::sleep(Duration::from_nanos(graph_ns / 8 + random.below(graph_ns)));
        let held_at = Instant::now();
        self.queue.suspend(Level::Deactivate);
        let last_ns = self.settle()?;
        // The device is idle now, so there is room to read its clock.
        let clock = DeviceClock::estimate(probe, self.origin)?;
        let held_ns = held_at.saturating_duration_since(self.origin).as_nanos() as i64;
        let quiet_ns = clock.host_ns(last_ns) - held_ns;
        let started = (0..stamps.count()).filter(|&n| {
            let start_ns = clock.host_ns(stamps.start_ns(n));
            start_ns > held_ns + i64::try_from(clock.uncertain_ns).unwrap_or(0)
        });
        let seen = &mut self.seen;
        seen.started_most = seen.started_most.max(started.count());
        seen.idle += u32::from(quiet_ns < 0);
        seen.ran_on += u32::from(stamps.last_ns() != last_ns);
        seen.quiet_ns.push(u64::try_from(quiet_ns).unwrap_or(0));
        self.queue.resume();
        Ok(clock)
    }

    /// Waits until no kernel runs any more. When the last one ended, by the device's clock.
    fn settle(&self) -> Result<u64, LabError> {
        let settled = Duration::from_nanos(self.plan.kernel_ns) * SETTLED;
        let mut last = (self.subject.stamps.last_ns(), Instant::now());
        until(PATIENCE, "the graph did not stop", || {
            let now_ns = self.subject.stamps.last_ns();
            if now_ns != last.0 || self.subject.stamps.is_running() {
                last = (now_ns, Instant::now());
            }
            (last.1.elapsed() >= settled).then_some(now_ns)
        })
    }

    fn row(self, alone: Quantiles, over_none: f64) -> Row {
        let Seen { quiet_ns, started_most, idle, ran_on } = self.seen;
        Row {
            spacing_ns: self.subject.spacing_ns,
            gates: self.subject.made.gates,
            quiet: Quantiles::of(&quiet_ns),
            bound_ns: self.subject.bound_ns(self.plan),
            started_most,
            idle,
            ran_on,
            alone,
            over_none,
        }
    }
}

/// Launches graphs behind a closed gate until one blocks, which the device notices and opens the
/// gate, or enough were taken.
fn launches_taken(bench: &Cuda, subject: &Subject) -> Result<u64, LabError> {
    let mut streams = bench.streams().clone();
    // With a word of its own, which closes the gates in front of the graphs only: the queue that
    // had the graph's may not be closed yet.
    let opened = streams.open(QueueId::new(0, 0), StreamConfig::default());
    let opened = opened.map_err(LabError::new)?;
    let Halves { mut submit, mut retire, mut preempt, .. } = opened;
    let (before, mut taken) = (streams.forced_open(), 0);
    preempt.step(Step::Deactivate).map_err(LabError::new)?;
    while taken < LAUNCHES && streams.forced_open() == before {
        let last = taken + 1 == LAUNCHES;
        submit.launch(CmdId(taken), &subject.made.command, last).map_err(LabError::new)?;
        taken += 1;
    }
    let blocked = streams.forced_open() != before;
    preempt.step(Step::Reactivate).map_err(LabError::new)?;
    if blocked {
        submit.fence(CmdId(taken - 1)).map_err(LabError::new)?;
    }
    until(PATIENCE, "the graphs behind a gate did not end", || {
        let retired = retire.poll_retired().ok().flatten();
        retired.is_some_and(|retired| retired.upto.count() >= taken).then_some(())
    })?;
    // The one that blocked was not taken.
    Ok(if blocked { taken - 1 } else { taken })
}
