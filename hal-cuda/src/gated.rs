//! Gates for graphs that a program makes executable and launches itself.

use std::time::Duration;

use xsched_hal_stream::{GateWord, GraphNode, StreamApi, StreamDevice, in_line, longest_path};

use crate::api::CudaApi;
use crate::driver::{need, written};
use crate::error::CudaError;
use crate::exec::CudaGraphExec;
use crate::graph::{CudaGraph, NodeTimes};
use crate::table::{
    CuEvent, CuGraph, CuGraphExec, CuResult, CuStream, INSTANTIATE_AUTO_FREE,
    INSTANTIATE_NODE_PRIORITY, INSTANTIATE_UPLOAD, NODE_CHILD, NODE_EMPTY, NODE_HOST, NODE_MEM_OP,
    NODE_RECORD_EVENT, NODE_WAIT_EVENT, SUCCESS, Table, load,
};

/// Launches that are measured before the gates are placed. The shortest counts: the first one may
/// contain what the driver does once, and others what another stream had of the device.
const MEASURED: u32 = 2;
/// For so long a launch in another queue waits at most, with all gates open, until the copy has
/// run.
const RUNNING_MAX: Duration = Duration::from_secs(1);
/// `CUDA_ERROR_UNKNOWN`.
const UNKNOWN: CuResult = 999;

/// Where graphs get gates: a queue.
#[derive(Clone, Debug)]
pub struct GateAt {
    /// The device of the queue's stream.
    pub device: StreamDevice<CudaApi>,
    /// The word that the queue was opened with.
    pub word: GateWord<CudaApi>,
    /// Predicted work between two gates, in nanoseconds.
    pub spacing_ns: u64,
}

/// A copy with gates of a graph that a program made executable, launched in the place of that in
/// one queue. Anywhere else the program's is launched, and the two never run at once: the driver
/// would have launches of one executable run one after the other, and so do these.
///
/// In the first queue with gates that the graph is launched in, launches are measured. Then the
/// copy gets gates, if it takes longer than their spacing. A graph whose executable is changed, or
/// which is launched elsewhere once it has gates, is left as it is from then on.
#[derive(Debug)]
pub struct GatedCopy {
    exec: CuGraphExec,
    flags: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It has no gates yet.
    Measured(Measurements),
    /// It is launched in the queue of this number.
    Gated { copy: CudaGraphExec, queue: u64 },
    /// It is not launched any more. The next launch of the program's comes after it.
    Last { copy: CudaGraphExec, queue: u64 },
    /// There is none.
    Left,
}

impl GatedCopy {
    /// Copies a graph.
    ///
    /// # Errors
    /// If it was made executable with flags that a copy cannot have, or the driver refuses, as it
    /// does for graphs that allocate memory or have conditional nodes.
    ///
    /// # Safety
    /// `exec` was just made of the graph with these flags, and the graph is alive and not used
    /// meanwhile. What its nodes use is alive whenever `exec` is launched and runs, until
    /// [`GatedCopy::leave`].
    pub unsafe fn new(exec: CuGraphExec, graph: CuGraph, flags: u64) -> Result<Self, CudaError> {
        // To free memory at a launch means something for graphs that allocate, which get no copy.
        let known = INSTANTIATE_AUTO_FREE | INSTANTIATE_UPLOAD | INSTANTIATE_NODE_PRIORITY;
        if flags & !known != 0 {
            return Err(left("it may be launched by the device, or has flags that are not known"));
        }
        let table = load()?;
        let clone = need(table.graph_clone, "cuGraphClone")?;
        need(table.graph_destroy, "cuGraphDestroy")?;
        need(table.event_wait, "cuStreamWaitEvent")?;
        // SAFETY: the graph is alive; it writes a handle.
        let clone = |copy| unsafe { clone(copy, graph) };
        let graph = written(table, "cuGraphClone", CuGraph::NULL, clone)?;
        let flags = flags & INSTANTIATE_NODE_PRIORITY;
        let state = State::Measured(Measurements::of(RawGraph { table, graph }));
        Ok(Self { exec, flags, state })
    }

    /// Places gates if it is time for that. To be called before a launch waits for the turn of the
    /// queue with this number.
    ///
    /// If the launch is to come behind a copy in another queue, no hold keeps that from ending:
    /// this opens all gates of the device and waits, for a second at most. `at` answers the gates
    /// of the queue, or `None` if it has none or there is no queue.
    ///
    /// # Errors
    /// Why the graph is left as it is from now on.
    pub fn prepare(
        &mut self,
        queue: u64,
        at: impl FnOnce() -> Option<GateAt>,
    ) -> Result<(), CudaError> {
        match &mut self.state {
            State::Measured(measured) => {
                let Some(total_ns) = measured.total_ns(queue) else { return Ok(()) };
                let (Some(at), State::Measured(measured)) =
                    (at(), std::mem::replace(&mut self.state, State::Left))
                else {
                    return Ok(());
                };
                let copy = measured.gated(&at, total_ns, self.flags)?;
                self.state = State::Gated { copy, queue };
                Ok(())
            }
            // The launch would have its queue run, and the other one be held for it.
            State::Gated { copy, queue: of } | State::Last { copy, queue: of } if *of != queue => {
                copy.let_run(RUNNING_MAX);
                self.leave();
                Err(left("it is launched in several streams"))
            }
            _ => Ok(()),
        }
    }

    /// Launches the copy, or the program's executable graph. What the driver answers.
    ///
    /// # Safety
    /// The executable graph and the stream are alive, and the stream is that of the queue, if there
    /// is one. The context is current.
    pub unsafe fn launch(
        &mut self,
        queue: u64,
        at: impl FnOnce() -> Option<GateAt>,
        stream: CuStream,
    ) -> CuResult {
        match &mut self.state {
            State::Gated { copy, queue: of } if *of == queue => {
                // SAFETY: as promised by the caller; the copy is of the same context.
                if unsafe { copy.launch(stream) }.is_ok() {
                    return SUCCESS;
                }
                self.leave();
            }
            State::Gated { .. } => self.leave(),
            State::Measured(measured) => {
                let begun = measured.begin(queue, at, stream);
                // SAFETY: as promised by the caller.
                let code = unsafe { launch(self.exec, stream) };
                if begun {
                    measured.end(stream);
                }
                return code;
            }
            _ => {}
        }
        if let State::Last { copy, .. } = &self.state {
            // SAFETY: as promised by the caller.
            if unsafe { copy.comes_before(stream) }.is_err() {
                copy.let_run(RUNNING_MAX);
            }
            self.state = State::Left;
        }
        // SAFETY: as promised by the caller.
        unsafe { launch(self.exec, stream) }
    }

    /// The program's executable graph was changed, and is left as it is from now on.
    pub fn leave(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Left) {
            State::Gated { copy, queue } | State::Last { copy, queue } => {
                State::Last { copy, queue }
            }
            State::Measured(_) | State::Left => State::Left,
        };
    }

    /// Another queue is about to wait for what was launched in this one: sees to it that a hold
    /// does not keep the copy from ending, and leaves the graph as it is, if its copy has gates of
    /// the queue.
    pub fn leave_queue(&mut self, queue: u64) {
        if let State::Gated { copy, queue: of } | State::Last { copy, queue: of } = &self.state
            && *of == queue
        {
            copy.let_run(RUNNING_MAX);
            self.leave();
        }
    }

    /// Whether there is no copy any more: the program's is launched as if there had been none.
    #[must_use]
    pub const fn is_left(&self) -> bool {
        matches!(self.state, State::Left)
    }
}

const fn left(why: &'static str) -> CudaError {
    CudaError::LeftAsItIs { why }
}

/// Launches an executable graph as it is. What the driver answers.
///
/// # Safety
/// Both are alive, and the stream's context is current.
pub unsafe fn launch(exec: CuGraphExec, stream: CuStream) -> CuResult {
    let launch = load().ok().and_then(|table| table.graph_launch);
    // SAFETY: as promised by the caller.
    launch.map_or(UNKNOWN, |launch| unsafe { launch(exec, stream) })
}

/// A graph that is destroyed with this.
#[derive(Debug)]
struct RawGraph {
    table: &'static Table,
    graph: CuGraph,
}

impl RawGraph {
    fn into_graph(self) -> CuGraph {
        std::mem::ManuallyDrop::new(self).graph
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        if let Some(destroy) = self.table.graph_destroy {
            // SAFETY: nothing else refers to it. Nothing can be done about an error.
            let _ = unsafe { destroy(self.graph) };
        }
    }
}

/// A copy without gates, and how long launches of the program's graph took in a queue.
#[derive(Debug)]
struct Measurements {
    graph: RawGraph,
    queue: u64,
    count: u32,
    least_ns: u64,
    /// The events around the launch that is being measured, if any, and whether both are recorded.
    around: Option<Around>,
}

#[derive(Debug)]
struct Around {
    device: StreamDevice<CudaApi>,
    start: CuEvent,
    end: CuEvent,
    is_recorded: bool,
}

impl Drop for Around {
    fn drop(&mut self) {
        let api = self.device.api();
        if let Ok(_entered) = api.enter() {
            // SAFETY: made by this, and nothing else refers to them.
            unsafe { api.destroy_event(self.start) };
            // SAFETY: see above.
            unsafe { api.destroy_event(self.end) };
        }
    }
}

impl Around {
    /// Begins with an event in the stream.
    fn begin(device: &StreamDevice<CudaApi>, stream: CuStream) -> Result<Self, CudaError> {
        let api = device.api();
        let start = api.create_event()?;
        let end = api.create_event().inspect_err(|_| {
            // SAFETY: just made.
            unsafe { api.destroy_event(start) };
        })?;
        let this = Self { device: device.clone(), start, end, is_recorded: false };
        // SAFETY: both are alive.
        unsafe { api.record(start, stream)? };
        Ok(this)
    }

    /// The nanoseconds between the events, if both have completed.
    fn elapsed_ns(&self) -> Option<u64> {
        let api = self.device.api();
        let _entered = api.enter().ok()?;
        // SAFETY: they are alive, and were recorded, if the flag says so.
        unsafe {
            let is_over = self.is_recorded && api.query(self.end).ok()?;
            if is_over { api.elapsed_ns(self.start, self.end).ok() } else { None }
        }
    }
}

impl Measurements {
    const fn of(graph: RawGraph) -> Self {
        Self { graph, queue: 0, count: 0, least_ns: u64::MAX, around: None }
    }

    /// What a launch takes in this queue, in nanoseconds, once that is known. All launches before
    /// have then run, wherever they were made.
    fn total_ns(&mut self, queue: u64) -> Option<u64> {
        if self.queue != queue {
            return None;
        }
        if let Some(ns) = self.around.as_ref().and_then(Around::elapsed_ns) {
            self.around = None;
            self.count += 1;
            self.least_ns = self.least_ns.min(ns);
        }
        (self.count >= MEASURED).then_some(self.least_ns)
    }

    /// Begins to measure a launch, unless one is being measured, or the queue has no gates.
    fn begin(&mut self, queue: u64, at: impl FnOnce() -> Option<GateAt>, stream: CuStream) -> bool {
        let goes_on = self.queue == queue;
        if goes_on && (self.around.is_some() || self.count >= MEASURED) {
            return false;
        }
        let Some(at) = at() else { return false };
        if !goes_on {
            (self.queue, self.count, self.least_ns) = (queue, 0, u64::MAX);
        }
        self.around = Around::begin(&at.device, stream).ok();
        self.around.is_some()
    }

    fn end(&mut self, stream: CuStream) {
        if let Some(around) = &mut self.around {
            let api = around.device.api();
            // SAFETY: both are alive.
            around.is_recorded = unsafe { api.record(around.end, stream) }.is_ok();
        }
    }

    /// The copy with gates, made executable.
    fn gated(self, at: &GateAt, total_ns: u64, flags: u64) -> Result<CudaGraphExec, CudaError> {
        if total_ns < at.spacing_ns {
            return Err(left("it takes less than the spacing of gates"));
        }
        // SAFETY: it is a copy that nothing else uses; for what its nodes use, as promised by the
        // caller of `GatedCopy::new`.
        let mut graph = unsafe { CudaGraph::from_raw(&at.device, self.graph.into_graph()) }?;
        let takes_time = (0..graph.nodes()).map(|node| takes_time(&graph, node));
        let takes_time = takes_time.collect::<Result<Vec<bool>, _>>()?;
        let node = |(node, takes_time): (usize, &bool)| GraphNode {
            expected_ns: Some(u64::from(*takes_time)),
            after: graph.dependencies(node).to_vec(),
        };
        let nodes: Vec<_> = takes_time.iter().enumerate().map(node).collect();
        // Branches that wait for each other keep the device for the process that is held.
        if at.device.is_in_unit()
            && has_only_device_work(&graph)?
            && let Some(order) = in_line(&nodes)?
        {
            graph.put_in_line(&order)?;
        }
        // Nodes of the longest path are taken to be alike, and the others to be like those.
        let each_ns = total_ns / longest_path(&nodes)?.max(1) as u64;
        let each: Vec<_> = takes_time.iter().map(|takes| u64::from(*takes) * each_ns).collect();
        if graph.insert_gates(&at.word, NodeTimes::Each(&each), at.spacing_ns)? == 0 {
            return Err(left("there is no place for a gate between its nodes"));
        }
        graph.instantiate_with(flags)
    }
}

/// Whether all nodes are kernels, copies, fills and empty ones, none of which can wait for another
/// one past the edges between them, as a host function may.
fn has_only_device_work(graph: &CudaGraph) -> Result<bool, CudaError> {
    let kinds = (0..graph.nodes()).map(|node| graph.kind(node)).collect::<Result<Vec<_>, _>>()?;
    Ok(kinds.iter().all(|kind| matches!(*kind, 0..NODE_HOST | NODE_EMPTY)))
}

/// Whether a node takes time. Fails if the node cannot be copied, or cannot be told.
fn takes_time(graph: &CudaGraph, node: usize) -> Result<bool, CudaError> {
    match graph.kind(node)? {
        0 if graph.is_device_updatable(node) => Err(left("kernels on the device change its nodes")),
        0..=NODE_CHILD => Ok(true),
        NODE_EMPTY | NODE_WAIT_EVENT => Ok(false),
        NODE_RECORD_EVENT | NODE_MEM_OP => Err(left("other streams may wait for its nodes")),
        _ => Err(left("it has nodes of memory, of semaphores or with conditions")),
    }
}
