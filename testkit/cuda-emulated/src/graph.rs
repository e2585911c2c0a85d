//! Graphs that can be changed, and those that can be launched.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use xsched_emulated_device::code::{
    Answer, GRAPH_EXEC_UPDATE_FAILURE, INVALID_HANDLE, INVALID_VALUE,
};
use xsched_emulated_device::{Graph as Nodes, Kind, Stream, Work};

use crate::driver::driver;

/// Handles of nodes: this, the graph's number and the node's.
const NODE: usize = 1 << 46;
const NODE_BITS: u32 = 20;
/// Handles of graphs are multiples of it.
const STEP: usize = 64;

/// A graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Nodes,
    /// Data of edges that are not plain, by where these begin and end.
    pub(crate) data: BTreeMap<(usize, usize), u64>,
}

impl Graph {
    /// True if the driver copies it: not if memory is allocated in it.
    pub(crate) fn can_be_copied(&self) -> bool {
        let mut nodes = self.nodes.nodes.iter().filter(|node| !node.is_gone);
        nodes.all(|node| !matches!(node.kind, Kind::Allocate | Kind::Free))
    }
}

/// The handle of a graph's node.
pub(crate) const fn node_handle(graph: usize, number: usize) -> usize {
    NODE | ((graph / STEP) << NODE_BITS) | number
}

/// The graph of a node's handle, and the node's number.
pub(crate) const fn split(node: usize) -> Answer<(usize, usize)> {
    if node & NODE == 0 {
        return Err(INVALID_HANDLE);
    }
    let rest = node & !NODE;
    Ok(((rest >> NODE_BITS) * STEP, rest & ((1 << NODE_BITS) - 1)))
}

/// Does something with a graph.
pub(crate) fn with<R>(graph: usize, body: impl FnOnce(&mut Graph) -> Answer<R>) -> Answer<R> {
    let graph = driver().graph(graph)?;
    let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
    body(&mut graph)
}

/// The numbers of a graph's nodes, by their handles.
pub(crate) fn numbers(graph: usize, nodes: &Nodes, handles: &[usize]) -> Answer<Vec<usize>> {
    let number = |handle: &usize| {
        let (of, number) = split(*handle).map_err(|_| INVALID_VALUE)?;
        let is_there = of == graph && nodes.node(number).is_some();
        if is_there { Ok(number) } else { Err(INVALID_VALUE) }
    };
    handles.iter().map(number).collect()
}

/// Adds a node to a graph. Its handle.
pub(crate) fn add(graph: usize, kind: Kind, works: Vec<Work>, after: &[usize]) -> Answer<usize> {
    with(graph, |inner| {
        let after = numbers(graph, &inner.nodes, after)?;
        Ok(node_handle(graph, inner.nodes.add(kind, works, &after)))
    })
}

/// Executable graph.
#[derive(Debug)]
pub(crate) struct Exec {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    nodes: Arc<Nodes>,
    /// Works of disabled nodes.
    disabled: BTreeMap<usize, Vec<Work>>,
    /// The last launch: one runs at a time.
    last: Option<(Arc<Stream>, u64)>,
}

impl Exec {
    pub(crate) fn new(nodes: Nodes) -> Answer<Self> {
        if nodes.has_cycle() {
            return Err(INVALID_VALUE);
        }
        let disabled = BTreeMap::new();
        Ok(Self { state: Mutex::new(State { nodes: Arc::new(nodes), disabled, last: None }) })
    }

    pub(crate) fn launch(&self, stream: &Arc<Stream>) -> Answer {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let work = Work::Graph(Arc::clone(&state.nodes));
        if stream.capture().is_some() {
            return stream.launch(Kind::Graph, work);
        }
        // A wait for a stream of a context that is gone is over.
        let last = state.last.take().filter(|(last, _)| std::ptr::eq(last.device, stream.device));
        let number = stream.launch_after(work, last.into_iter().collect())?;
        state.last = Some((Arc::clone(stream), number));
        Ok(())
    }

    /// Takes what another graph does, if it has the same form. Otherwise `CUgraphExecUpdateResult`
    /// and the node that differs.
    pub(crate) fn update(&self, to: &Nodes) -> Result<(), (u32, Option<usize>)> {
        const TOPOLOGY_CHANGED: u32 = 2;
        const TYPE_CHANGED: u32 = 3;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let form = |nodes: &Nodes| {
            let there = nodes.nodes.iter().enumerate().filter(|(_, node)| !node.is_gone);
            there.map(|(at, node)| (at, node.kind, node.after.clone())).collect::<Vec<_>>()
        };
        let (ours, theirs) = (form(&state.nodes), form(to));
        if ours.len() != theirs.len() {
            return Err((TOPOLOGY_CHANGED, None));
        }
        for (ours, theirs) in ours.iter().zip(&theirs) {
            if ours.1 != theirs.1 {
                return Err((TYPE_CHANGED, Some(theirs.0)));
            }
            if ours != theirs {
                return Err((TOPOLOGY_CHANGED, Some(theirs.0)));
            }
        }
        state.nodes = Arc::new(to.clone());
        Ok(())
    }

    /// Has a node do something, or nothing.
    pub(crate) fn enable(&self, number: usize, is_enabled: bool) -> Answer {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { nodes, disabled, .. } = &mut *state;
        let node = Arc::make_mut(nodes).nodes.get_mut(number).ok_or(INVALID_VALUE)?;
        if is_enabled {
            node.works = disabled.remove(&number).unwrap_or_else(|| node.works.clone());
        } else {
            disabled.entry(number).or_insert_with(|| std::mem::take(&mut node.works));
        }
        Ok(())
    }

    /// Changes what a node does.
    pub(crate) fn set(&self, number: usize, kind: Kind, works: Vec<Work>) -> Answer {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let node = Arc::make_mut(&mut state.nodes).nodes.get_mut(number).ok_or(INVALID_VALUE)?;
        if node.is_gone || node.kind != kind {
            return Err(GRAPH_EXEC_UPDATE_FAILURE);
        }
        node.works = works;
        Ok(())
    }
}
