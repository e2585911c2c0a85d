//! CUDA graphs, and gates inside them.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use xsched_hal_stream::{GateWord, GraphError, GraphNode, StreamApi, StreamDevice, gates_in_graph};

use crate::api::CudaApi;
use crate::command::{CudaCommand, CudaKernel};
use crate::driver::{Entered, need, written};
use crate::error::CudaError;
use crate::exec::CudaGraphExec;
use crate::table::{
    AttributeValue, BatchMemOpParams, CAPTURE_THREAD_LOCAL, CuGraph, CuGraphNode, CuStream,
    EdgeData, KERNEL_DEVICE_UPDATABLE, KernelNodeParams, LAUNCH_PARAMS, MEM_OP_WAIT_32, MemOp,
    SUCCESS, WAIT_EQUAL,
};

/// How long the nodes of a graph take, in nanoseconds of device time, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeTimes<'a> {
    /// Nothing is known: every node but the first gets a gate.
    Unknown,
    /// All nodes together, which are taken to be alike.
    Total(u64),
    /// Each node, by its number.
    Each(&'a [u64]),
}

/// A graph that can still be changed: `CUgraph`.
///
/// To its queue a graph is one command, so a hold has to wait for its end, unless it has gates of
/// its own:
///
/// ```no_run
/// # use xsched_hal_cuda::{CudaApi, CudaGraph, CudaKernel, NodeTimes};
/// # use xsched_hal_cuda::{StreamCommand, StreamConfig, StreamDevice};
/// # fn graphs(device: &StreamDevice<CudaApi>, kernels: &[CudaKernel])
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let word = device.gate_word()?;
/// let mut graph = CudaGraph::row(device, kernels)?;
/// graph.insert_gates(&word, NodeTimes::Total(4_600_000), 100_000)?;
/// let graph = graph.instantiate()?.command();
/// let command = StreamCommand::<CudaApi>::native(graph).expected_ns(4_600_000);
/// // Open the queue that gets the command with this.
/// let config = StreamConfig::default().with_gate(&word);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CudaGraph {
    device: StreamDevice<CudaApi>,
    graph: CuGraph,
    /// Without gates.
    nodes: Vec<CuGraphNode>,
    /// The nodes that each of them directly depends on.
    after: Vec<Vec<usize>>,
    /// Data of edges from one node to another that are of a kind of their own.
    data: HashMap<(usize, usize), EdgeData>,
    /// The word that gates in the graph wait for, once there are any.
    gate: Option<GateWord<CudaApi>>,
    gates: usize,
}

/// A length for the driver, and back.
fn list<T: Clone>(
    none: T,
    mut ask: impl FnMut(*mut T, *mut usize) -> Result<(), CudaError>,
) -> Result<Vec<T>, CudaError> {
    let mut count = 0;
    ask(null_mut(), &raw mut count)?;
    let mut items = vec![none; count];
    if count > 0 {
        ask(items.as_mut_ptr(), &raw mut count)?;
    }
    items.truncate(count);
    Ok(items)
}

/// Where a list begins; null if it has no items.
fn start<T>(items: &mut [T]) -> *mut T {
    if items.is_empty() { null_mut() } else { items.as_mut_ptr() }
}

impl CudaGraph {
    /// A graph without nodes.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(device: &StreamDevice<CudaApi>) -> Result<Self, CudaError> {
        let table = device.api().table();
        let create = need(table.graph_create, "cuGraphCreate")?;
        let _entered = device.api().enter()?;
        // SAFETY: it writes a handle.
        let create = |graph| unsafe { create(graph, 0) };
        let graph = written(table, "cuGraphCreate", CuGraph::NULL, create)?;
        Ok(Self::around(device, graph))
    }

    fn around(device: &StreamDevice<CudaApi>, graph: CuGraph) -> Self {
        let device = device.clone();
        let (nodes, after, data) = (Vec::new(), Vec::new(), HashMap::new());
        Self { device, graph, nodes, after, data, gate: None, gates: 0 }
    }

    /// Kernels, each of which waits for the one before.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn row(device: &StreamDevice<CudaApi>, kernels: &[CudaKernel]) -> Result<Self, CudaError> {
        let mut graph = Self::new(device)?;
        let mut last = None;
        for kernel in kernels {
            last = Some(graph.add_kernel(kernel, last.as_slice())?);
        }
        Ok(graph)
    }

    /// A graph of the caller's, which becomes part of this: it is destroyed with this, or if this
    /// fails. Nodes are numbered as `cuGraphGetNodes` lists them.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The graph is alive, nothing else uses it afterwards, and what its nodes use belongs to the
    /// device's context and is alive and free for them as long as the graph, or what is made of it,
    /// is launched and runs.
    pub unsafe fn from_raw(
        device: &StreamDevice<CudaApi>,
        graph: CuGraph,
    ) -> Result<Self, CudaError> {
        let mut this = Self::around(device, graph);
        let _entered = device.api().enter()?;
        this.nodes = this.list_nodes()?;
        this.note_edges()?;
        Ok(this)
    }

    /// Captures what a closure launches into the stream that it gets, which runs nothing, as
    /// `cuStreamBeginCapture` on this thread. Its priority is as in [`CudaGraph::captured_row`].
    ///
    /// ```no_run
    /// # use xsched_hal_cuda::{CudaApi, CudaError, CudaGraph, StreamCommand, StreamDevice};
    /// # fn graph(device: &StreamDevice<CudaApi>, commands: &[StreamCommand<CudaApi>])
    /// # -> Result<CudaGraph, CudaError> {
    /// // SAFETY: the commands are kernels, which use nothing that goes away.
    /// unsafe {
    ///     CudaGraph::capture(device, None, |stream| {
    ///         commands.iter().try_for_each(|command| command.launch_into(device.api(), stream))
    ///     })
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The closure's, or if the driver refuses, for example because the closure did something that
    /// cannot be captured.
    ///
    /// # Safety
    /// The launched work uses what belongs to the device's context and is alive and free for it as
    /// long as the graph, or what is made of it, is launched and runs.
    pub unsafe fn capture(
        device: &StreamDevice<CudaApi>,
        priority: Option<i32>,
        launch: impl FnOnce(CuStream) -> Result<(), CudaError>,
    ) -> Result<Self, CudaError> {
        let capture = Capture::begin(device, priority)?;
        launch(capture.stream)?;
        let graph = capture.end()?;
        // SAFETY: just made, and nothing else refers to it; as promised by the caller.
        unsafe { Self::from_raw(device, graph) }
    }

    /// Kernels, each of which waits for the one before, captured. They keep the priority of the
    /// stream in which that is done, in the driver's own numbers, clamped to those it has; those of
    /// [`CudaGraph::row`] have the driver's default.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn captured_row(
        device: &StreamDevice<CudaApi>,
        kernels: &[CudaKernel],
        priority: Option<i32>,
    ) -> Result<Self, CudaError> {
        let capture = Capture::begin(device, priority)?;
        for kernel in kernels {
            let command = CudaCommand::kernel(*kernel);
            // SAFETY: the stream is alive, and the context current.
            unsafe { device.api().launch_native(&command, capture.stream)? };
        }
        let graph = capture.end()?;
        // SAFETY: just made, and nothing else refers to it. Kernels may run at any time; the maker
        // of them promised so.
        unsafe { Self::from_raw(device, graph) }
    }

    /// Adds a kernel behind the nodes with these numbers. Its own number, which is one higher than
    /// that of the node before.
    ///
    /// # Errors
    /// [`CudaError::Graph`] if there is no such node, [`CudaError::HasGates`], or if the driver
    /// refuses.
    pub fn add_kernel(&mut self, kernel: &CudaKernel, after: &[usize]) -> Result<usize, CudaError> {
        if self.gate.is_some() {
            return Err(CudaError::HasGates);
        }
        let (node, nodes) = (self.nodes.len(), self.nodes.len());
        if let Some(&after) = after.iter().find(|&&before| before >= nodes) {
            return Err(GraphError::NoSuchNode { node, after, nodes }.into());
        }
        let mut after = after.to_vec();
        after.sort_unstable();
        after.dedup();
        let table = self.device.api().table();
        let add = need(table.graph_kernel, "cuGraphAddKernelNode_v2")?;
        let befores = self.handles(&after);
        let _entered = self.device.api().enter()?;
        let (pointer, mut bytes) = kernel.parameters();
        let [by_pointer, by_size, end] = LAUNCH_PARAMS.map(|n| n as *mut c_void);
        let size = (&raw mut bytes).cast::<c_void>();
        let mut extra = [by_pointer, pointer.cast_mut(), by_size, size, end];
        let params = KernelNodeParams {
            function: kernel.function,
            grid: kernel.grid,
            block: kernel.block,
            shared_bytes: kernel.shared_bytes,
            parameters: null_mut(),
            extra: if bytes > 0 { extra.as_mut_ptr() } else { null_mut() },
            kernel: null_mut(),
            context: self.device.api().context(),
        };
        // SAFETY: it writes a handle; the nodes are the graph's, and what the parameters point to
        // is copied before it returns.
        let add = |node| unsafe {
            add(node, self.graph, befores.as_ptr(), befores.len(), &raw const params)
        };
        let added = written(table, "cuGraphAddKernelNode", CuGraphNode::NULL, add)?;
        self.nodes.push(added);
        self.after.push(after);
        Ok(node)
    }

    /// How many nodes there are, without gates.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How many gates there are.
    #[must_use]
    pub const fn gates(&self) -> usize {
        self.gates
    }

    /// The nodes that a node directly depends on; none if there is no such node.
    #[must_use]
    pub fn dependencies(&self, node: usize) -> &[usize] {
        self.after.get(node).map_or(&[], Vec::as_slice)
    }

    /// Has the nodes run one after the other, in this order.
    ///
    /// # Errors
    /// If the driver refuses. The graph then has some of the edges, and is otherwise as it was.
    pub(crate) fn put_in_line(&mut self, order: &[usize]) -> Result<(), CudaError> {
        let api = self.device.api();
        let depend = need(api.table().graph_depend, "cuGraphAddDependencies")?;
        let _entered = api.enter()?;
        for pair in order.windows(2) {
            if self.after[pair[1]].contains(&pair[0]) {
                continue;
            }
            let (before, then) = (&self.nodes[pair[0]], &self.nodes[pair[1]]);
            // SAFETY: both nodes are the graph's.
            let code = unsafe { depend(self.graph, before, then, 1) };
            api.check("cuGraphAddDependencies", code)?;
            self.after[pair[1]].push(pair[0]);
        }
        Ok(())
    }

    /// Puts gates into the graph, a spacing of predicted work apart on each path, as
    /// [`gates_in_graph`] says. How many. What is made of it must be launched in the queue that is
    /// opened with the word, where a hold stops it at its next gates; in other queues and streams
    /// it stops with that queue as well. Nodes within a node, as of a child graph, get none. A
    /// kernel with a gate that could begin before those in front of it end begins after them.
    ///
    /// # Errors
    /// [`CudaError::HasGates`], [`CudaError::NodeTimes`], [`CudaError::WordOfOtherDevice`], or if
    /// the driver refuses or lacks what is needed. If that is half-way, the graph has some of the
    /// gates and is otherwise as it was.
    pub fn insert_gates(
        &mut self,
        word: &GateWord<CudaApi>,
        times: NodeTimes<'_>,
        spacing_ns: u64,
    ) -> Result<usize, CudaError> {
        if self.gate.is_some() {
            return Err(CudaError::HasGates);
        }
        if !word.is_of(&self.device) {
            return Err(CudaError::WordOfOtherDevice);
        }
        let gated = gates_in_graph(&self.predicted(times)?, spacing_ns)?;
        let _entered = self.device.api().enter()?;
        self.gate = Some(word.clone());
        for node in gated {
            self.insert_gate(word.address(), node)?;
            self.gates += 1;
        }
        Ok(self.gates)
    }

    /// Makes it executable as it is now.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn instantiate(&mut self) -> Result<CudaGraphExec, CudaError> {
        self.instantiate_with(0)
    }

    /// Makes it executable, with flags of `cuGraphInstantiateWithFlags`.
    pub(crate) fn instantiate_with(&mut self, flags: u64) -> Result<CudaGraphExec, CudaError> {
        // SAFETY: the graph is alive, and this is the only thread that uses it. What its nodes use
        // is alive, as promised when they were added; of the word there is a clone.
        unsafe { CudaGraphExec::new(&self.device, self.graph, self.gate.clone(), flags) }
    }

    /// The kind of a node, `CUgraphNodeType`.
    pub(crate) fn kind(&self, node: usize) -> Result<c_int, CudaError> {
        let table = self.device.api().table();
        let ask = need(table.graph_node_kind, "cuGraphNodeGetType")?;
        // SAFETY: the node is the graph's; it writes a number.
        written(table, "cuGraphNodeGetType", 0, |kind| unsafe { ask(self.nodes[node], kind) })
    }

    /// Tells whether a kernel of the device may change this kernel's node by the handle that the
    /// program has, which is not that of a copy.
    pub(crate) fn is_device_updatable(&self, kernel: usize) -> bool {
        let Some(ask) = self.device.api().table().graph_kernel_attribute else { return false };
        let mut value = AttributeValue::default();
        // SAFETY: the node is the graph's, and of a kernel; it writes no more than the union has.
        let code = unsafe { ask(self.nodes[kernel], KERNEL_DEVICE_UPDATABLE, &raw mut value) };
        // The first member is an `int`. Drivers that do not know it have no such nodes.
        code == SUCCESS && value.words[0] as u32 != 0
    }

    fn handles(&self, nodes: &[usize]) -> Vec<CuGraphNode> {
        nodes.iter().map(|&node| self.nodes[node]).collect()
    }

    fn predicted(&self, times: NodeTimes<'_>) -> Result<Vec<GraphNode>, CudaError> {
        let nodes = self.nodes.len();
        if let NodeTimes::Each(each) = times
            && each.len() != nodes
        {
            return Err(CudaError::NodeTimes { given: each.len(), nodes });
        }
        let expected_ns = |node: usize| match times {
            NodeTimes::Unknown => None,
            NodeTimes::Total(ns) => Some(ns / nodes as u64),
            NodeTimes::Each(each) => Some(each[node]),
        };
        let after = self.after.iter().cloned().enumerate();
        let node = |(n, after)| GraphNode { expected_ns: expected_ns(n), after };
        Ok(after.map(node).collect())
    }

    /// Puts a gate between a node and what it depends on. In every state between, the node still
    /// comes after that.
    fn insert_gate(&self, word: u64, node: usize) -> Result<(), CudaError> {
        let api = self.device.api();
        let table = api.table();
        let add = need(table.graph_mem_op, "cuGraphAddBatchMemOpNode")?;
        let depend = need(table.graph_depend, "cuGraphAddDependencies")?;
        let befores = self.handles(&self.after[node]);
        let wait = MemOp {
            operation: MEM_OP_WAIT_32,
            address: word,
            value: 0,
            flags: WAIT_EQUAL,
            alias: 0,
            rest: 0,
        };
        let params = BatchMemOpParams {
            context: api.context(),
            count: 1,
            operations: &raw const wait,
            flags: 0,
        };
        // SAFETY: it writes a handle; the nodes are the graph's, the operation is copied before it
        // returns, and the word is kept by the graph and by what is made of it.
        let add = |gate| unsafe {
            add(gate, self.graph, befores.as_ptr(), befores.len(), &raw const params)
        };
        let gate = written(table, "cuGraphAddBatchMemOpNode", CuGraphNode::NULL, add)?;
        // SAFETY: both nodes are the graph's.
        let code = unsafe { depend(self.graph, &raw const gate, &raw const self.nodes[node], 1) };
        api.check("cuGraphAddDependencies", code)?;
        self.free_edges(node, &befores)
    }

    /// Removes the edges to a node from all that it directly depends on, which are these.
    fn free_edges(&self, node: usize, befores: &[CuGraphNode]) -> Result<(), CudaError> {
        let (api, count) = (self.device.api(), befores.len());
        let (from, then) = (befores.as_ptr(), vec![self.nodes[node]; count]);
        let data = |before: &usize| self.data.get(&(*before, node)).copied();
        let data: Vec<_> = self.after[node].iter().map(data).collect();
        if data.iter().all(Option::is_none) {
            let free = need(api.table().graph_free_edges, "cuGraphRemoveDependencies")?;
            // SAFETY: both are lists of the graph's nodes, of this length, with an edge between
            // each two.
            let code = unsafe { free(self.graph, from, then.as_ptr(), count) };
            return api.check("cuGraphRemoveDependencies", code);
        }
        let free = need(api.table().graph_free_edges_data, "cuGraphRemoveDependencies_v2")?;
        let data: Vec<_> = data.into_iter().map(Option::unwrap_or_default).collect();
        // SAFETY: as above, and this is the edges' data.
        let code = unsafe { free(self.graph, from, then.as_ptr(), data.as_ptr(), count) };
        api.check("cuGraphRemoveDependencies_v2", code)
    }

    fn list_nodes(&self) -> Result<Vec<CuGraphNode>, CudaError> {
        let api = self.device.api();
        let ask = need(api.table().graph_nodes, "cuGraphGetNodes")?;
        list(CuGraphNode::NULL, |nodes, count| {
            // SAFETY: it writes as many handles as it was told, or only their number.
            api.check("cuGraphGetNodes", unsafe { ask(self.graph, nodes, count) })
        })
    }

    /// Notes which nodes depend on which, and how.
    fn note_edges(&mut self) -> Result<(), CudaError> {
        let count = self.ask_edges(&mut [], &mut [], &mut [])?;
        let (mut from, mut data) =
            (vec![CuGraphNode::NULL; count], vec![EdgeData::default(); count]);
        let mut to = from.clone();
        let count = self.ask_edges(&mut from, &mut to, &mut data)?;
        let numbered = self.nodes.iter().enumerate().map(|(n, node)| (*node, n));
        let numbers: HashMap<_, _> = numbered.collect();
        self.after = vec![Vec::new(); self.nodes.len()];
        for ((before, then), data) in from.iter().zip(&to).zip(data).take(count) {
            if let (Some(&before), Some(&then)) = (numbers.get(before), numbers.get(then)) {
                self.after[then].push(before);
                if data != EdgeData::default() {
                    self.data.insert((before, then), data);
                }
            }
        }
        Ok(())
    }

    /// Has the driver write edges into lists of one length, and answer how many, or how many there
    /// are. Before driver API 12.3 all edges are of the usual kind.
    fn ask_edges(
        &self,
        from: &mut [CuGraphNode],
        to: &mut [CuGraphNode],
        data: &mut [EdgeData],
    ) -> Result<usize, CudaError> {
        let (api, mut count) = (self.device.api(), from.len());
        let (from, to, data) = (start(from), start(to), start(data));
        let Some(ask) = api.table().graph_edges_data else {
            let ask = need(api.table().graph_edges, "cuGraphGetEdges")?;
            // SAFETY: the graph is alive; it writes as many handles as it was told to each place,
            // if any.
            let code = unsafe { ask(self.graph, from, to, &raw mut count) };
            return api.check("cuGraphGetEdges", code).map(|()| count);
        };
        // SAFETY: as above.
        let code = unsafe { ask(self.graph, from, to, data, &raw mut count) };
        api.check("cuGraphGetEdges_v2", code).map(|()| count)
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        let api = self.device.api();
        let (Some(destroy), Ok(_entered)) = (api.table().graph_destroy, api.enter()) else {
            return;
        };
        // SAFETY: it is this one's, which is gone; what was made of it does not need it. Nothing
        // can be done about an error.
        let _ = unsafe { destroy(self.graph) };
    }
}

/// A stream that is being captured on this thread.
struct Capture<'a> {
    api: &'a CudaApi,
    stream: CuStream,
    /// Has not been ended.
    going: bool,
    _entered: Entered,
}

impl<'a> Capture<'a> {
    fn begin(device: &'a StreamDevice<CudaApi>, priority: Option<i32>) -> Result<Self, CudaError> {
        let api = device.api();
        let begin = need(api.table().capture_begin, "cuStreamBeginCapture_v2")?;
        need(api.table().capture_end, "cuStreamEndCapture")?;
        let entered = api.enter()?;
        let stream = api.create_stream(priority)?;
        let mut this = Self { api, stream, going: false, _entered: entered };
        // Calls of other threads, such as polls of events, do not disturb it.
        // SAFETY: just made.
        api.check("cuStreamBeginCapture", unsafe { begin(stream, CAPTURE_THREAD_LOCAL) })?;
        this.going = true;
        Ok(this)
    }

    fn end(mut self) -> Result<CuGraph, CudaError> {
        let table = self.api.table();
        let end = need(table.capture_end, "cuStreamEndCapture")?;
        self.going = false;
        // SAFETY: the stream is being captured; it writes a handle.
        let end = |graph| unsafe { end(self.stream, graph) };
        written(table, "cuStreamEndCapture", CuGraph::NULL, end)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        let table = self.api.table();
        if self.going
            && let (Some(end), Some(destroy)) = (table.capture_end, table.graph_destroy)
        {
            let mut graph = CuGraph::NULL;
            // SAFETY: the stream is being captured; it writes a handle.
            let _ = unsafe { end(self.stream, &raw mut graph) };
            if graph != CuGraph::NULL {
                // SAFETY: just made, and nothing else refers to it.
                let _ = unsafe { destroy(graph) };
            }
        }
        // SAFETY: made by this, and nothing runs in it. Nothing can be done about an error.
        let _ = unsafe { self.api.destroy_stream(self.stream) };
    }
}
