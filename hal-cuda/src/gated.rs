//! Gates for graphs that a program makes executable and launches itself.

use std::time::Duration;

use xsched_hal_stream::{GateWord, GraphNode, StreamApi, StreamDevice, in_line, longest_path};

use crate::api::CudaApi;
use crate::driver::{need, written};
use crate::error::CudaError;
use crate::exec::CudaGraphExec;
use crate::graph::{CudaGraph, NodeTimes};
use crate::launch_order::{LaunchOrder, Next};
use crate::table::{
    CuEvent, CuGraph, CuGraphExec, CuResult, CuStream, INSTANTIATE_AUTO_FREE,
    INSTANTIATE_NODE_PRIORITY, INSTANTIATE_UPLOAD, NODE_CHILD, NODE_EMPTY, NODE_HOST, NODE_MEM_OP,
    NODE_RECORD_EVENT, NODE_WAIT_EVENT, SUCCESS, Table, load,
};

/// A launch in another queue waits at most for this time, with all gates open, until the copy has
/// run. Graphs of the lab take up to 51 ms (`benches/results/h200-2026-11-27-node`), so only one
/// that waits for something else takes longer.
const COPY_RUN_MAX: Duration = Duration::from_secs(1);
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
/// one queue while that may be held. Anywhere else, and while it may not, the program's is
/// launched, and the two never run at once: the driver would have launches of one executable run
/// one after the other, and so do these. So every launch has to be told.
///
/// In the first queue with gates that the graph is launched in, launches are measured. Then the
/// copy gets gates, if it takes longer than their spacing. A graph whose executable is changed, or
/// which is launched elsewhere once it has gates, is left as it is from then on.
#[derive(Debug)]
pub struct GatedCopy {
    exec: CuGraphExec,
    flags: u64,
    order: LaunchOrder,
    /// While launches are measured.
    profile: Option<Profile>,
    /// Once it has gates, until the program's executable is launched behind it.
    copy: Option<CudaGraphExec>,
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
    /// [`GatedCopy::ungate`].
    pub unsafe fn new(exec: CuGraphExec, graph: CuGraph, flags: u64) -> Result<Self, CudaError> {
        // To free memory at a launch means something for graphs that allocate, which get no copy.
        let known = INSTANTIATE_AUTO_FREE | INSTANTIATE_UPLOAD | INSTANTIATE_NODE_PRIORITY;
        if flags & !known != 0 {
            return Err(unsupported(
                "it may be launched by the device, or has flags that are not known",
            ));
        }
        let table = load()?;
        let clone = need(table.graph_clone, "cuGraphClone")?;
        need(table.graph_destroy, "cuGraphDestroy")?;
        need(table.event_wait, "cuStreamWaitEvent")?;
        // SAFETY: the graph is alive; it writes a handle.
        let clone = |copy| unsafe { clone(copy, graph) };
        let graph = written(table, "cuGraphClone", CuGraph::NULL, clone)?;
        let flags = flags & INSTANTIATE_NODE_PRIORITY;
        let profile = Some(Profile::of(RawGraph { table, graph }));
        Ok(Self { exec, flags, order: LaunchOrder::new(), profile, copy: None })
    }

    /// Places gates if it is time for that, and `may_hold` says that what is launched in the queue
    /// with this number may be held. To be called before a launch waits for the turn of the queue.
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
        may_hold: bool,
        at: impl FnOnce() -> Option<GateAt>,
    ) -> Result<(), CudaError> {
        if self.order.is_behind_other(queue) {
            // The launch would have its queue run, and the other one be held for it.
            self.copy.iter().for_each(|copy| copy.let_run(COPY_RUN_MAX));
            self.ungate();
            return Err(unsupported("it is launched in several streams"));
        }
        if let Some(profile) = &mut self.profile
            && self.order.is_profiled_in(queue)
            && profile.take_measured()
        {
            self.order.end_measurement(true);
        }
        if !may_hold || !self.order.is_profiled(queue) {
            return Ok(());
        }
        let order = std::mem::replace(&mut self.order, LaunchOrder::Ungated);
        let (Some(profile), Some(at)) = (self.profile.take(), at()) else { return Ok(()) };
        self.copy = Some(profile.gated(&at, self.flags)?);
        self.order = order;
        self.order.place();
        Ok(())
    }

    /// Launches the copy, or the program's executable graph. What the driver answers.
    ///
    /// # Safety
    /// The executable graph and the stream are alive, and the stream is that of the queue, if there
    /// is one. The context is current.
    pub unsafe fn launch(
        &mut self,
        queue: u64,
        may_hold: bool,
        at: impl Fn() -> Option<GateAt>,
        stream: CuStream,
    ) -> CuResult {
        let mut next = self.order.launch(queue, may_hold, || at().is_some());
        if let (Next::Copy, Some(copy)) = (next, &self.copy) {
            // SAFETY: as promised by the caller; the copy is of the same context.
            if unsafe { copy.launch(stream) }.is_ok() {
                return SUCCESS;
            }
            self.order.ungate();
            next = Next::BehindCopy;
        }
        if let (Next::BehindCopy, Some(copy)) = (next, &self.copy)
            // SAFETY: as promised by the caller.
            && unsafe { copy.comes_before(stream) }.is_err()
        {
            copy.let_run(COPY_RUN_MAX);
        }
        // SAFETY: as promised by the caller.
        let launch = || unsafe { launch(self.exec, stream) };
        let code = match &mut self.profile {
            Some(profile) if next == Next::Measured => {
                let is_first = self.order.is_unmeasured();
                let (code, is_measured) = profile.measure(is_first, at(), stream, launch);
                if !is_measured {
                    self.order.end_measurement(false);
                }
                code
            }
            _ => launch(),
        };
        if next == Next::BehindCopy && code == SUCCESS {
            self.order.end_copy();
            self.copy = None;
        }
        code
    }

    /// The program's executable graph was changed, and is left as it is from now on.
    pub fn ungate(&mut self) {
        self.order.ungate();
        self.profile = None;
    }

    /// Another queue is about to wait for what was launched in this one: sees to it that a hold
    /// does not keep the copy from ending, and leaves the graph as it is, if its copy has gates of
    /// the queue.
    pub fn ungate_for(&mut self, queue: u64) {
        if let Some(copy) = &self.copy
            && !self.order.is_behind_other(queue)
        {
            copy.let_run(COPY_RUN_MAX);
            self.ungate();
        }
    }

    /// Tells whether there is no copy any more: the program's is launched as if there had been
    /// none.
    #[must_use]
    pub const fn is_ungated(&self) -> bool {
        matches!(self.order, LaunchOrder::Ungated)
    }
}

const fn unsupported(why: &'static str) -> CudaError {
    CudaError::Unsupported { why }
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

/// A copy without gates, and how long launches of the program's graph took.
#[derive(Debug)]
struct Profile {
    graph: RawGraph,
    least_ns: u64,
    /// Times the launch that is being measured, if any is.
    timer: Option<LaunchTimer>,
}

#[derive(Debug)]
struct LaunchTimer {
    device: StreamDevice<CudaApi>,
    start: CuEvent,
    end: CuEvent,
    is_recorded: bool,
}

impl Drop for LaunchTimer {
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

impl LaunchTimer {
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

    /// Ends with an event in the stream, and tells whether it could.
    fn end(&mut self, stream: CuStream) -> bool {
        // SAFETY: both are alive.
        self.is_recorded = unsafe { self.device.api().record(self.end, stream) }.is_ok();
        self.is_recorded
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

impl Profile {
    const fn of(graph: RawGraph) -> Self {
        Self { graph, least_ns: u64::MAX, timer: None }
    }

    /// Takes the time of the launch that was measured last, if that has run.
    fn take_measured(&mut self) -> bool {
        let Some(ns) = self.timer.as_ref().and_then(LaunchTimer::elapsed_ns) else { return false };
        self.timer = None;
        self.least_ns = self.least_ns.min(ns);
        true
    }

    /// Makes a launch, and tells whether its time is measured. What was measured before does not
    /// count if it is the first.
    fn measure(
        &mut self,
        is_first: bool,
        at: Option<GateAt>,
        stream: CuStream,
        launch: impl FnOnce() -> CuResult,
    ) -> (CuResult, bool) {
        if is_first {
            self.least_ns = u64::MAX;
        }
        self.timer = at.and_then(|at| LaunchTimer::begin(&at.device, stream).ok());
        let code = launch();
        let is_measured =
            code == SUCCESS && self.timer.as_mut().is_some_and(|timer| timer.end(stream));
        (code, is_measured)
    }

    /// The copy with gates, made executable.
    fn gated(self, at: &GateAt, flags: u64) -> Result<CudaGraphExec, CudaError> {
        let total_ns = self.least_ns;
        if total_ns < at.spacing_ns {
            return Err(unsupported("it takes less than the spacing of gates"));
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
            return Err(unsupported("there is no place for a gate between its nodes"));
        }
        graph.instantiate_with(flags)
    }
}

/// Tells whether all nodes are kernels, copies, fills and empty ones, none of which can wait for
/// another one past the edges between them, as a host function may.
fn has_only_device_work(graph: &CudaGraph) -> Result<bool, CudaError> {
    let kinds = (0..graph.nodes()).map(|node| graph.kind(node)).collect::<Result<Vec<_>, _>>()?;
    Ok(kinds.iter().all(|kind| matches!(*kind, 0..NODE_HOST | NODE_EMPTY)))
}

/// Tells whether a node takes time. Fails if the node cannot be copied, or cannot be told.
fn takes_time(graph: &CudaGraph, node: usize) -> Result<bool, CudaError> {
    match graph.kind(node)? {
        0 if graph.is_device_updatable(node) => {
            Err(unsupported("kernels on the device change its nodes"))
        }
        0..=NODE_CHILD => Ok(true),
        NODE_EMPTY | NODE_WAIT_EVENT => Ok(false),
        NODE_RECORD_EVENT | NODE_MEM_OP => Err(unsupported("other streams may wait for its nodes")),
        _ => Err(unsupported("it has nodes of memory, of semaphores or with conditions")),
    }
}
