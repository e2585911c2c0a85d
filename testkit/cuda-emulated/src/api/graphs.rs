//! Graphs, and what is made of them.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

use xsched_emulated_device::c::{In, Out};
use xsched_emulated_device::code::{
    Answer, GRAPH_EXEC_UPDATE_FAILURE, INVALID_VALUE, LOSSY_QUERY, NOT_SUPPORTED,
};

use super::check_default;
use crate::context::engine;
use crate::driver::{Object, driver};
use crate::exports::exports;
use crate::graph::{Exec, Graph, node_handle, numbers, split, with};

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Instantiation {
    flags: u64,
    stream: usize,
    node: usize,
    result: u32,
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Update {
    result: u32,
    node: usize,
    from: usize,
}

fn add(graph: Graph) -> usize {
    driver().objects.add(Object::Graph(Arc::new(Mutex::new(graph))))
}

fn instantiate(exec: Out<usize>, graph: usize) -> Answer {
    engine()?;
    let nodes = with(graph, |graph| Ok(graph.nodes.clone()))?;
    exec.set(driver().objects.add(Object::Exec(Arc::new(Exec::new(nodes)?))))
}

/// Writes as many handles as there is room for, and how many there are if there is no room.
fn list(handles: &[usize], to: Out<usize>, count: Out<usize>) -> Answer {
    if to.is_null() {
        return count.set(handles.len());
    }
    let room = count.get()?;
    let missing = room.saturating_sub(handles.len());
    to.set_all(handles.iter().copied().take(room).chain(std::iter::repeat_n(0, missing)));
    count.set(room.min(handles.len()))
}

/// The handles of a graph's edges, and their data.
fn edges(graph: usize) -> Answer<Vec<(usize, usize, u64)>> {
    with(graph, |inner| {
        let data = |edge| inner.data.get(&edge).copied().unwrap_or(0);
        let edge =
            |(from, to)| (node_handle(graph, from), node_handle(graph, to), data((from, to)));
        Ok(inner.nodes.edges().map(edge).collect())
    })
}

fn list_edges(
    graph: usize,
    from: Out<usize>,
    to: Out<usize>,
    data: Out<u64>,
    count: Out<usize>,
) -> Answer {
    let edges = edges(graph)?;
    if from.is_null() != to.is_null() {
        return Err(INVALID_VALUE);
    }
    if from.is_null() {
        return count.set(edges.len());
    }
    if data.is_null() && edges.iter().any(|(_, _, data)| *data != 0) {
        return Err(LOSSY_QUERY);
    }
    let room = count.get()?;
    from.set_all(edges.iter().map(|edge| edge.0).take(room));
    to.set_all(edges.iter().map(|edge| edge.1).take(room));
    if !data.is_null() {
        data.set_all(edges.iter().map(|edge| edge.2).take(room));
    }
    count.set(room.min(edges.len()))
}

/// Dependencies of a node.
fn before(node: usize) -> Answer<Vec<usize>> {
    let (graph, number) = split(node)?;
    with(graph, |inner| {
        let node = inner.nodes.node(number).ok_or(INVALID_VALUE)?;
        Ok(node.after.iter().map(|before| node_handle(graph, *before)).collect())
    })
}

/// Adds or removes edges, which have this data, if any.
fn change(graph: usize, from: &[usize], to: &[usize], add: bool, data: Option<&[u64]>) -> Answer {
    with(graph, |inner| {
        let from = numbers(graph, &inner.nodes, from)?;
        let to = numbers(graph, &inner.nodes, to)?;
        let has = |from: usize, to: usize| inner.nodes.nodes[to].after.contains(&from);
        // An edge twice, or a node behind itself; an edge that there is not.
        if from.iter().zip(&to).any(|(from, to)| has(*from, *to) == add || from == to) {
            return Err(INVALID_VALUE);
        }
        for (number, (from, to)) in from.into_iter().zip(to).enumerate() {
            let data = data.map_or(0, |data| data[number]);
            if !add && inner.data.remove(&(from, to)).unwrap_or(0) != data {
                return Err(INVALID_VALUE);
            }
            if add && data != 0 {
                inner.data.insert((from, to), data);
            }
            let after = &mut inner.nodes.nodes[to].after;
            match add {
                true => after.push(from),
                false => after.retain(|before| *before != from),
            }
            after.sort_unstable();
        }
        Ok(())
    })
}

fn update(exec: usize, graph: usize) -> Answer<Result<(), (u32, usize)>> {
    let exec = driver().exec(exec)?;
    with(graph, |inner| {
        let handle = |node: Option<usize>| node.map_or(0, |number| node_handle(graph, number));
        Ok(exec.update(&inner.nodes).map_err(|(result, node)| (result, handle(node))))
    })
}

exports! {
    fn cuGraphCreate(graph: Out<usize>, flags: u32) {
        if graph.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        graph.set(add(Graph::default()))
    }

    fn cuGraphDestroy(graph: usize) {
        driver().graph(graph)?;
        driver().objects.remove(graph);
        Ok(())
    }

    fn cuGraphClone(clone: Out<usize>, graph: usize) {
        let copy = with(graph, |graph| {
            if graph.can_be_copied() { Ok(graph.clone()) } else { Err(NOT_SUPPORTED) }
        })?;
        clone.set(add(copy))
    }

    fn cuGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) {
        let handles = with(graph, |inner| {
            let all = 0..inner.nodes.nodes.len();
            let there = all.filter(|number| inner.nodes.node(*number).is_some());
            Ok(there.map(|number| node_handle(graph, number)).collect::<Vec<_>>())
        })?;
        list(&handles, nodes, count)
    }

    fn cuGraphGetRootNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) {
        let handles = with(graph, |inner| {
            let all = inner.nodes.nodes.iter().enumerate();
            let roots = all.filter(|(_, node)| !node.is_gone && node.after.is_empty());
            Ok(roots.map(|(number, _)| node_handle(graph, number)).collect::<Vec<_>>())
        })?;
        list(&handles, nodes, count)
    }

    fn cuGraphGetEdges(graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) {
        list_edges(graph, from, to, Out::NONE, count)
    }

    fn cuGraphGetEdges_v2(
        graph: usize,
        from: Out<usize>,
        to: Out<usize>,
        data: Out<u64>,
        count: Out<usize>,
    ) {
        list_edges(graph, from, to, data, count)
    }

    fn cuGraphAddDependencies(graph: usize, from: In<usize>, to: In<usize>, count: usize) {
        change(graph, from.slice(count)?, to.slice(count)?, true, None)
    }

    fn cuGraphAddDependencies_v2(
        graph: usize,
        from: In<usize>,
        to: In<usize>,
        data: In<u64>,
        count: usize,
    ) {
        let data = if data.is_null() { None } else { Some(data.slice(count)?) };
        change(graph, from.slice(count)?, to.slice(count)?, true, data)
    }

    fn cuGraphRemoveDependencies(graph: usize, from: In<usize>, to: In<usize>, count: usize) {
        change(graph, from.slice(count)?, to.slice(count)?, false, None)
    }

    fn cuGraphRemoveDependencies_v2(
        graph: usize,
        from: In<usize>,
        to: In<usize>,
        data: In<u64>,
        count: usize,
    ) {
        let data = if data.is_null() { None } else { Some(data.slice(count)?) };
        change(graph, from.slice(count)?, to.slice(count)?, false, data)
    }

    fn cuGraphNodeGetType(node: usize, kind: Out<u32>) {
        let (graph, number) = split(node)?;
        let found = with(graph, |graph| {
            Ok(graph.nodes.node(number).ok_or(INVALID_VALUE)?.kind as u32)
        })?;
        kind.set(found)
    }

    fn cuGraphNodeGetDependencies(node: usize, nodes: Out<usize>, count: Out<usize>) {
        list(&before(node)?, nodes, count)
    }

    fn cuGraphNodeGetDependencies_v2(
        node: usize,
        nodes: Out<usize>,
        data: Out<u64>,
        count: Out<usize>,
    ) {
        let before = before(node)?;
        if !data.is_null() && !nodes.is_null() {
            data.set_all(std::iter::repeat_n(0, count.get()?.min(before.len())));
        }
        list(&before, nodes, count)
    }

    fn cuGraphDestroyNode(node: usize) {
        let (graph, number) = split(node)?;
        with(graph, |graph| {
            graph.nodes.node(number).ok_or(INVALID_VALUE)?;
            graph.nodes.remove(number);
            Ok(())
        })
    }

    fn cuGraphInstantiateWithFlags(exec: Out<usize>, graph: usize, _flags: u64) {
        instantiate(exec, graph)
    }

    fn cuGraphInstantiate_v2(
        exec: Out<usize>,
        graph: usize,
        _node: Out<usize>,
        _log: *mut c_char,
        _bytes: usize,
    ) {
        instantiate(exec, graph)
    }

    [cuGraphInstantiateWithParams_ptsz]
    fn cuGraphInstantiateWithParams(
        exec: Out<usize>,
        graph: usize,
        how: Out<Instantiation>,
    ) {
        let before = how.get()?;
        let done = instantiate(exec, graph);
        // CUDA_GRAPH_INSTANTIATE_SUCCESS and _ERROR.
        how.set(Instantiation { node: 0, result: u32::from(done.is_err()), ..before })?;
        done
    }

    [cuGraphUpload_ptsz]
    fn cuGraphUpload(exec: usize, stream: usize) {
        driver().exec(exec)?;
        driver().stream(stream).map(drop)
    }

    [cuGraphLaunch_ptsz]
    fn cuGraphLaunch(exec: usize, stream: usize) {
        let (exec, stream) = (driver().exec(exec)?, driver().stream(stream)?);
        check_default(&stream)?;
        exec.launch(&stream)
    }

    fn cuGraphExecUpdate_v2(exec: usize, graph: usize, info: Out<Update>) {
        let done = update(exec, graph)?;
        let (result, node) = done.err().unwrap_or_default();
        info.set(Update { result, node, from: 0 })?;
        done.map_err(|_| GRAPH_EXEC_UPDATE_FAILURE)
    }

    fn cuGraphExecUpdate(exec: usize, graph: usize, node: Out<usize>, result: Out<u32>) {
        let done = update(exec, graph)?;
        let (number, at) = done.err().unwrap_or_default();
        node.offer(at);
        result.set(number)?;
        done.map_err(|_| GRAPH_EXEC_UPDATE_FAILURE)
    }

    fn cuGraphNodeSetEnabled(exec: usize, node: usize, is_enabled: u32) {
        driver().exec(exec)?.enable(split(node)?.1, is_enabled != 0)
    }

    fn cuGraphExecDestroy(exec: usize) {
        driver().exec(exec)?;
        driver().objects.remove(exec);
        Ok(())
    }

    fn cuDeviceGraphMemTrim(_device: i32) {
        Ok(())
    }

    fn cuGraphDebugDotPrint(graph: usize, _path: *const c_void, _flags: u32) {
        driver().graph(graph).map(drop)
    }
}
