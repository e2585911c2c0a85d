//! Two graphs in the shape of a model: one is launched at intervals, the other all the time.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched::Device;
use xsched_core::level::Level;
use xsched_hal_cuda::{CudaApi, CudaKernel, StreamCommand, StreamDevice};

use super::shape::{BERT_BASE_FP32, BERT_LARGE_FP16, Shape};
use super::{IN_FLIGHT, Plan};
use crate::device::gpu::Cuda;
use crate::device::task::{Background, Runner};
use crate::device::{BenchDevice, LabError, QueueParams};
use crate::stats::{Processor, Quantiles};

/// Time in which the background fills the device, before the first urgent graph.
const SETTLE: Duration = Duration::from_millis(60);
/// How long the background is run alone.
const ALONE: Duration = Duration::from_secs(1);
/// Requests before the first that is measured.
const WARM_UP: u32 = 10;
/// Priorities of the two graphs.
const PRIORITIES: (i32, i32) = (10, 0);

/// How the two are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub(crate) enum GraphMode {
    /// No background: the urgent graph alone, on a plain stream.
    Alone,
    /// Two plain streams.
    Plain,
    /// Two plain streams, and the urgent graph has the most urgent priority.
    Priority,
    /// XSched at Lv1.
    Lv1,
    /// XSched at Lv2, with gates in the other graph.
    Gates {
        /// Spacing of the gates, in nanoseconds.
        spacing_ns: u64,
    },
}

impl GraphMode {
    /// The name that a table or a chart shows.
    pub(crate) fn label(self) -> String {
        match self {
            Self::Alone => "alone, plain".to_owned(),
            Self::Plain => "plain".to_owned(),
            Self::Priority => "priority".to_owned(),
            Self::Lv1 => "Lv1".to_owned(),
            Self::Gates { spacing_ns } => format!("gates, {}", spacing_label(Some(spacing_ns))),
        }
    }
}

/// The distance of gates in a graph in words: none without gates, 0 ns for a gate per kernel.
pub(crate) fn spacing_label(ns: Option<u64>) -> String {
    match ns {
        None => "none".to_owned(),
        Some(0) => "a gate per kernel".to_owned(),
        Some(ns) => format!("every {} µs", ns / 1_000),
    }
}

/// Ways for each model. For the second those that say how short kernels differ.
const WAYS: [(Shape, &[GraphMode]); 2] = [
    (
        BERT_BASE_FP32,
        &[
            GraphMode::Alone,
            GraphMode::Plain,
            GraphMode::Priority,
            GraphMode::Lv1,
            GraphMode::Gates { spacing_ns: 0 },
            GraphMode::Gates { spacing_ns: 50_000 },
            GraphMode::Gates { spacing_ns: 100_000 },
            GraphMode::Gates { spacing_ns: 200_000 },
            GraphMode::Gates { spacing_ns: 300_000 },
        ],
    ),
    (
        BERT_LARGE_FP16,
        &[
            GraphMode::Alone,
            GraphMode::Lv1,
            GraphMode::Gates { spacing_ns: 0 },
            GraphMode::Gates { spacing_ns: 25_000 },
            GraphMode::Gates { spacing_ns: 50_000 },
            GraphMode::Gates { spacing_ns: 300_000 },
        ],
    ),
];

/// How many there are in all.
pub(super) const COMBINATIONS: usize = WAYS[0].1.len() + WAYS[1].1.len();

/// A way, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// How the two were kept apart.
    pub(crate) way: GraphMode,
    /// Gates in the graph that is launched all the time.
    pub(crate) gates: usize,
    /// Times of the urgent graph.
    pub(crate) urgent: Quantiles,
    /// The 99th percentile over that of the graph alone.
    pub(crate) p99_over_alone: Option<f64>,
    /// Launches of the other graph in a second, over those of it alone without gates.
    pub(crate) throughput: Option<f64>,
    /// Processors in use.
    pub(crate) processors: f64,
}

/// A model, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pair {
    /// The model.
    pub(crate) shape: Shape,
    /// Launches in a second of the graph that is launched all the time, alone on a plain stream.
    pub(crate) alone_per_s: f64,
    /// Each way.
    pub(crate) cells: Vec<Cell>,
}

/// Runs this part, and puts what comes out into `pairs`. `progress` gets the share that is done.
pub(super) fn measure(
    bench: &Cuda,
    device: &Device<StreamDevice<CudaApi>>,
    plan: &Plan,
    pairs: &mut Vec<Pair>,
    progress: &dyn Fn(f64),
) -> Result<(), LabError> {
    let mut done = 0;
    for (shape, ways) in WAYS {
        let lengths_ns = shape.lengths();
        let kernels = kernels(bench, &lengths_ns)?;
        let model = Model { bench, device, plan, kernels, lengths_ns };
        let alone_per_s = model.background_alone()?;
        pairs.push(Pair { shape, alone_per_s, cells: Vec::new() });
        let Some(Pair { cells, .. }) = pairs.last_mut() else { continue };
        for &way in ways {
            let mut cell = model.cell(way, alone_per_s)?;
            let alone = cells.first().map_or(cell.urgent, |cell| cell.urgent);
            cell.p99_over_alone = cell.urgent.p99_over(&alone);
            cells.push(cell);
            done += 1;
            progress(f64::from(done) / COMBINATIONS as f64);
        }
    }
    Ok(())
}

/// Kernels that fill the device, each for the length given for it.
fn kernels(bench: &Cuda, lengths_ns: &[u64]) -> Result<Vec<CudaKernel>, LabError> {
    let kernel = |&ns: &u64| {
        let ((blocks, threads), cycles) = bench.full(ns);
        bench.api().kernels().spin_unseen(blocks, threads, cycles).map_err(LabError::new)
    };
    lengths_ns.iter().map(kernel).collect()
}

/// The kernels of a model.
struct Model<'a> {
    bench: &'a Cuda,
    device: &'a Device<StreamDevice<CudaApi>>,
    plan: &'a Plan,
    kernels: Vec<CudaKernel>,
    lengths_ns: Vec<u64>,
}

/// A graph, and how it gets to the device.
struct Task {
    runner: Runner<Cuda>,
    command: StreamCommand<CudaApi>,
    gates: usize,
}

impl Model<'_> {
    fn plain(&self, urgent: bool) -> Result<Task, LabError> {
        let made =
            super::make(self.bench.streams(), &self.kernels, &self.lengths_ns, urgent, None)?;
        let runner = Runner::Plain(self.bench.stream(urgent)?);
        Ok(Task { runner, command: made.command, gates: 0 })
    }

    /// Through a queue, at Lv2 if there is a spacing.
    fn scheduled(&self, priority: i32, spacing_ns: Option<u64>) -> Result<Task, LabError> {
        let streams = self.bench.streams();
        let level = if spacing_ns.is_some() { Level::Deactivate } else { Level::Block };
        let making = QueueParams { spacing_ns: spacing_ns.unwrap_or(0), ..QueueParams::at(level) };
        let word = spacing_ns.map(|_| streams.gate_word()).transpose().map_err(LabError::new)?;
        let gates = word.as_ref().zip(spacing_ns);
        let made = super::make(streams, &self.kernels, &self.lengths_ns, false, gates)?;
        let queue = super::queue(self.bench, self.device, making, priority, word.as_ref())?;
        Ok(Task { runner: Runner::Queue(queue), command: made.command, gates: made.gates })
    }

    /// The urgent graph and the other.
    fn tasks(&self, way: GraphMode) -> Result<(Task, Option<Task>), LabError> {
        let (high, low) = PRIORITIES;
        Ok(match way {
            GraphMode::Alone => (self.plain(false)?, None),
            GraphMode::Plain => (self.plain(false)?, Some(self.plain(false)?)),
            GraphMode::Priority => (self.plain(true)?, Some(self.plain(false)?)),
            GraphMode::Lv1 => (self.scheduled(high, None)?, Some(self.scheduled(low, None)?)),
            GraphMode::Gates { spacing_ns } => {
                // The urgent one is never held, so it needs no gates.
                (self.scheduled(high, None)?, Some(self.scheduled(low, Some(spacing_ns))?))
            }
        })
    }

    /// Launches in a second of the graph that is launched all the time.
    fn background_alone(&self) -> Result<f64, LabError> {
        let mut task = self.plain(false)?;
        let background = Background::default();
        beside(&mut task, &background, || {
            let (start, before) = (Instant::now(), background.commands());
            thread::sleep(ALONE);
            Ok((background.commands() - before) as f64 / start.elapsed().as_secs_f64())
        })
    }

    fn cell(&self, way: GraphMode, alone_per_s: f64) -> Result<Cell, LabError> {
        let (mut urgent, other) = self.tasks(way)?;
        let background = Background::default();
        let gates = other.as_ref().map_or(0, |task| task.gates);
        let has_other = other.is_some();
        let mut measure = || {
            let (start, before) = (Instant::now(), background.commands());
            let processor = Processor::now();
            let times = self.requests(&mut urgent)?;
            let per_s = (background.commands() - before) as f64 / start.elapsed().as_secs_f64();
            Ok(Cell {
                way,
                gates,
                urgent: Quantiles::of(&times),
                p99_over_alone: None,
                throughput: has_other.then(|| per_s / alone_per_s.max(f64::MIN_POSITIVE)),
                processors: Processor::now().share_since(&processor),
            })
        };
        match other {
            Some(mut other) => beside(&mut other, &background, measure),
            None => measure(),
        }
    }

    /// Launches the urgent graph at intervals. How long each took, in nanoseconds.
    fn requests(&self, task: &mut Task) -> Result<Vec<u64>, LabError> {
        let period = Duration::from_nanos(self.plan.period_ns);
        let mut times = Vec::with_capacity(self.plan.requests as usize);
        let mut next = Instant::now();
        for n in 0..WARM_UP + self.plan.requests {
            next = (next + period).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let took = task.runner.run(&task.command, 1)?;
            if n >= WARM_UP {
                times.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        Ok(times)
    }
}

/// Does something while a graph is launched all the time.
fn beside<T>(
    task: &mut Task,
    background: &Background,
    measure: impl FnOnce() -> Result<T, LabError>,
) -> Result<T, LabError> {
    let Task { runner, command, .. } = task;
    thread::scope(|scope| {
        let busy = scope.spawn(|| background.run(runner, command, IN_FLIGHT));
        thread::sleep(SETTLE);
        let measured = measure();
        background.stop();
        busy.join().map_err(|_| LabError::new("the background panicked"))??;
        measured
    })
}
