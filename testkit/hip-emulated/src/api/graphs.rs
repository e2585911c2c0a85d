//! Graphs.

use std::ffi::c_char;
use std::sync::Arc;

use xsched_emulated_device::code::{Answer, INVALID_VALUE};

use super::{Out, exports};
use crate::graph::{Captured, Executable};
use crate::runtime::{Object, runtime};

/// A node's handle has the number of its kind below this, and its own number above.
const KINDS: usize = 256;

fn instantiate(exec: Out<usize>, graph: usize) -> Answer {
    let made = Executable::new(runtime().graph(graph)?)?;
    exec.set(runtime().add(Object::Exec(Arc::new(made))))
}

/// The handles of a graph's nodes.
fn nodes(graph: &Captured) -> Vec<usize> {
    let nodes = graph.graph.nodes.iter().enumerate();
    nodes.map(|(at, node)| (at + 1) * KINDS + node.kind as usize).collect()
}

/// Writes handles, if there is a place for them.
fn write(to: *mut usize, handles: impl Iterator<Item = usize>) {
    if to.is_null() {
        return;
    }
    for (at, handle) in handles.enumerate() {
        // SAFETY: the caller has room for as many as it was told that there are.
        unsafe { to.add(at).write(handle) };
    }
}

exports! {
    fn hipStreamEndCapture(stream: usize, graph: Out<usize>) {
        let stream = runtime().stream(stream)?;
        let captured = Arc::new(stream.end_capture()?);
        let captured = Captured { device: stream.device, graph: captured };
        graph.set(runtime().add(Object::Graph(Arc::new(captured))))
    }

    fn hipGraphInstantiate(
        exec: Out<usize>,
        graph: usize,
        _failed: *mut usize,
        _log: *mut c_char,
        _log_bytes: usize,
    ) {
        instantiate(exec, graph)
    }

    fn hipGraphInstantiateWithFlags(exec: Out<usize>, graph: usize, _flags: u64) {
        instantiate(exec, graph)
    }

    fn hipGraphGetNodes(graph: usize, to: *mut usize, count: Out<usize>) {
        let nodes = nodes(&*runtime().graph(graph)?);
        write(to, nodes.iter().copied());
        count.set(nodes.len())
    }

    fn hipGraphGetEdges(graph: usize, from: *mut usize, to: *mut usize, count: Out<usize>) {
        let graph = runtime().graph(graph)?;
        let nodes = nodes(&graph);
        let edges: Vec<_> = graph.graph.edges().collect();
        write(from, edges.iter().map(|(from, _)| nodes[*from]));
        write(to, edges.iter().map(|(_, to)| nodes[*to]));
        count.set(edges.len())
    }

    fn hipGraphNodeGetType(node: usize, kind: Out<u32>) {
        kind.set(u32::try_from(node % KINDS).map_err(|_| INVALID_VALUE)?)
    }

    fn hipGraphLaunch(exec: usize, stream: usize) {
        runtime().exec(exec)?.launch(&runtime().stream(stream)?)
    }

    fn hipGraphDestroy(graph: usize) {
        runtime().graph(graph)?;
        runtime().forget(graph);
        Ok(())
    }

    fn hipGraphExecDestroy(exec: usize) {
        runtime().exec(exec)?;
        runtime().forget(exec);
        Ok(())
    }
}
