//! Graphs with gates inside, on CUDA: how soon a hold stops one that runs, what the gates cost, and
//! what two of them do to each other.

mod held;
mod pair;
mod shape;

use serde::Serialize;
use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime, XQueue, XQueueConfig};
use xsched_core::hint::Priority;
use xsched_core::window::WindowConfig;
use xsched_hal_cuda::{
    CudaApi, CudaGraph, CudaKernel, GateWord, NodeTimes, StreamCommand, StreamDevice,
};

use crate::device::gpu::Cuda;
use crate::device::{BenchDevice, Described, LabError, QueueParams};

pub(crate) use held::Held;
pub(crate) use pair::{Cell, GraphMode, Pair, spacing_label};
pub(crate) use shape::BERT_BASE_FP32;

/// Graphs that a queue keeps in flight.
const IN_FLIGHT: u32 = 2;

type Queue = XQueue<StreamCommand<CudaApi>>;

/// Upper limit of the 99th percentile of an urgent graph, over that of it alone.
pub(crate) const GOAL: f64 = 1.10;

/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// Holds of each graph; 0 leaves this part out.
    pub(crate) holds: u32,
    /// Kernels of the graph that is held, and the device time of each in nanoseconds.
    pub(crate) kernels: u32,
    /// See above.
    pub(crate) kernel_ns: u64,
    /// Requests of the urgent graph in each combination; 0 leaves this part out.
    pub(crate) requests: u32,
    /// Between two requests, in nanoseconds.
    pub(crate) period_ns: u64,
}

/// Figures of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// A graph that is held at random moments.
    pub(crate) held: Option<Held>,
    /// Two graphs in the shape of a model at once, for each model.
    pub(crate) pairs: Vec<Pair>,
    /// Errors that kept a part from coming to its end; what came out before is in the outcome.
    pub(crate) errors: Vec<String>,
}

/// Runs both parts. `progress` gets the share that is done. A part that the device keeps from
/// coming to its end is an error in the outcome.
pub(crate) fn run(bench: &Cuda, plan: &Plan, progress: &dyn Fn(f64)) -> Result<Results, LabError> {
    let runtime = Runtime::new(Hpf::default()).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    // As long as the parts take with the default numbers.
    let held_s = f64::from(plan.holds) * 0.03;
    let pairs_s =
        f64::from(plan.requests) * pair::COMBINATIONS as f64 * plan.period_ns as f64 / 1e9;
    let total_s = (held_s + pairs_s).max(f64::MIN_POSITIVE);
    let (mut held, mut pairs, mut errors) = (None, Vec::new(), Vec::new());
    let mut note = |part: &str, ended: Result<(), LabError>| {
        errors.extend(ended.err().map(|error| format!("{part}: {error}")));
    };
    if plan.holds > 0 {
        let show = |part: f64| progress(part * held_s / total_s);
        note("holds", held::measure(bench, &device, plan, &mut held, &show));
    }
    if plan.requests > 0 {
        let show = |part: f64| progress((held_s + part * pairs_s) / total_s);
        note("two graphs", pair::measure(bench, &device, plan, &mut pairs, &show));
    }
    Ok(Results { device: bench.describe(), plan: plan.clone(), held, pairs, errors })
}

/// A graph of kernels in a row, with its gates.
#[derive(Debug)]
struct Made {
    command: StreamCommand<CudaApi>,
    gates: usize,
}

/// Where gates go in a graph: which word they wait for, and the spacing in nanoseconds.
type Gates<'a> = Option<(&'a GateWord<CudaApi>, u64)>;

/// Makes a graph of kernels of these lengths, with the most or the least urgent priority.
fn make(
    streams: &StreamDevice<CudaApi>,
    kernels: &[CudaKernel],
    lengths_ns: &[u64],
    urgent: bool,
    gates: Gates<'_>,
) -> Result<Made, LabError> {
    let (least, greatest) = streams.about().priorities;
    let priority = if urgent { greatest } else { least };
    let graph = CudaGraph::captured_row(streams, kernels, Some(priority));
    let mut graph = graph.map_err(LabError::new)?;
    if let Some((word, spacing_ns)) = gates {
        let inserted = graph.insert_gates(word, NodeTimes::Each(lengths_ns), spacing_ns);
        inserted.map_err(LabError::new)?;
    }
    let exec = graph.instantiate().map_err(LabError::new)?;
    let command = StreamCommand::native(exec.command()).expected_ns(lengths_ns.iter().sum());
    Ok(Made { command, gates: graph.gates() })
}

/// A queue for graphs, with this word for its gate.
fn queue(
    bench: &Cuda,
    device: &Device<StreamDevice<CudaApi>>,
    making: QueueParams,
    priority: i32,
    word: Option<&GateWord<CudaApi>>,
) -> Result<Queue, LabError> {
    let config = XQueueConfig::default()
        .with_priority(Priority::new(priority).map_err(LabError::new)?)
        .with_window(WindowConfig::fixed(IN_FLIGHT, 1))
        .with_level(making.level());

    let mut stream = bench.config(making);
    if let Some(word) = word {
        stream = stream.with_gate(word);
    }
    device.queue(config, stream).map_err(LabError::new)
}
