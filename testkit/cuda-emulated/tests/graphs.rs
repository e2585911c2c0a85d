//! Captures and graphs of the emulated driver. Runs on a real one as well, as `driver` does.
#![allow(unsafe_code, reason = "calls a driver")]

mod common;

use std::ptr::{null, null_mut};
use std::thread;

use common::*;
use sys::CUstreamCaptureMode::{self, *};
use sys::{CUgraph, CUgraphExec, CUgraphNode, CUstream};

fn begin(stream: CUstream, mode: CUstreamCaptureMode) {
    ok!(cuStreamBeginCapture_v2(stream, mode));
}

fn end(stream: CUstream) -> CUgraph {
    let mut graph = null_mut();
    ok!(cuStreamEndCapture(stream, &mut graph));
    graph
}

fn status(stream: CUstream) -> u32 {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    ok!(cuStreamIsCapturing(stream, &mut status));
    status as u32
}

fn nodes(graph: CUgraph) -> Vec<CUgraphNode> {
    let mut count = 0;
    ok!(cuGraphGetNodes(graph, null_mut(), &mut count));
    let mut nodes = vec![null_mut(); count];
    ok!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count));
    nodes
}

fn edges(graph: CUgraph) -> usize {
    let mut count = 0;
    ok!(cuGraphGetEdges(graph, null_mut(), null_mut(), &mut count));
    count
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    made!(cuGraphInstantiateWithFlags(graph, 0))
}

#[test]
fn a_capture_goes_through_streams_by_events() {
    let _context = Context::new();
    let (first, second) = (stream(1), stream(1));
    let (fork, join) = (event(), event());
    let place = memory(3);
    ok!(cuMemsetD32_v2(place, 0, 3));
    ok!(cuCtxSynchronize());
    begin(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ok!(cuMemsetD32Async(place, 1, 1, first));
    ok!(cuEventRecord(fork, first));
    ok!(cuStreamWaitEvent(second, fork, 0));
    assert_eq!((status(first), status(second)), (1, 1));
    ok!(cuMemsetD32Async(place + 4, 2, 1, second));
    ok!(cuEventRecord(join, second));
    ok!(cuStreamWaitEvent(first, join, 0));
    ok!(cuMemcpyDtoDAsync_v2(place + 8, place + 4, 4, first));
    let graph = end(first);
    assert_eq!((status(first), status(second)), (0, 0));
    assert_eq!((nodes(graph).len(), edges(graph)), (3, 3));
    assert_eq!(read(place, 3), [0, 0, 0]);
    let exec = instantiate(graph);
    ok!(cuGraphDestroy(graph));
    ok!(cuGraphLaunch(exec, second));
    ok!(cuStreamSynchronize(second));
    assert_eq!(read(place, 3), [1, 2, 2]);
    ok!(cuGraphExecDestroy(exec));
}

#[test]
fn what_cannot_be_captured_spoils_the_capture() {
    let _context = Context::new();
    let (first, second) = (stream(1), stream(1));
    let mut graph = null_mut();
    // A fork that is not joined.
    begin(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    let fork = event();
    ok!(cuEventRecord(fork, first));
    ok!(cuStreamWaitEvent(second, fork, 0));
    ok!(cuMemsetD32Async(memory_relaxed(), 1, 1, second));
    assert_eq!(answer!(cuStreamEndCapture(second, &mut graph)), "STREAM_CAPTURE_UNMATCHED");
    assert_eq!(answer!(cuStreamEndCapture(first, &mut graph)), "STREAM_CAPTURE_UNJOINED");
    assert_eq!((status(first), status(second)), (0, 0));
    // A wait for its end.
    begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_eq!(answer!(cuStreamSynchronize(first)), "STREAM_CAPTURE_UNSUPPORTED");
    assert_eq!(status(first), 2);
    assert_eq!(answer!(cuStreamEndCapture(first, &mut graph)), "STREAM_CAPTURE_INVALIDATED");
    // The legacy stream would wait for a blocking one.
    let blocking = stream(0);
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    let code = answer!(cuEventRecord(fork, LEGACY));
    assert_eq!(code, "STREAM_CAPTURE_IMPLICIT");
    assert_eq!(answer!(cuStreamEndCapture(blocking, &mut graph)), "STREAM_CAPTURE_INVALIDATED");
    assert_eq!(
        answer!(cuStreamBeginCapture_v2(LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED)),
        "STREAM_CAPTURE_UNSUPPORTED"
    );
    // What is not captured cannot be waited for.
    let outside = event();
    ok!(cuEventRecord(outside, second));
    begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_eq!(answer!(cuStreamWaitEvent(first, outside, 0)), "STREAM_CAPTURE_ISOLATION");
    assert_eq!(answer!(cuStreamEndCapture(first, &mut graph)), "STREAM_CAPTURE_INVALIDATED");
    assert_eq!(answer!(cuStreamEndCapture(first, &mut graph)), "ILLEGAL_STATE");
}

/// Memory, while this thread captures.
fn memory_relaxed() -> u64 {
    let mut mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ok!(cuThreadExchangeStreamCaptureMode(&mut mode));
    let memory = memory(1);
    ok!(cuThreadExchangeStreamCaptureMode(&mut mode));
    assert_eq!(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    memory
}

#[test]
fn what_is_not_safe_is_forbidden_by_the_mode() {
    let context = Context::new();
    let stream = stream(1);
    let mut graph = null_mut();
    let context = context.0 as usize;
    let elsewhere = || {
        let allocate = move || {
            ok!(cuCtxSetCurrent(context as sys::CUcontext));
            answer!(cuMemAlloc_v2(&mut 0, 8))
        };
        thread::spawn(allocate).join().unwrap()
    };
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_eq!(answer!(cuMemAlloc_v2(&mut 0, 8)), "CUDA_SUCCESS");
    let _graph = end(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    assert_eq!(elsewhere(), "CUDA_SUCCESS");
    assert_eq!(answer!(cuMemAlloc_v2(&mut 0, 8)), "STREAM_CAPTURE_UNSUPPORTED");
    assert_eq!(answer!(cuStreamEndCapture(stream, &mut graph)), "STREAM_CAPTURE_INVALIDATED");
}

#[test]
fn graphs_are_built_changed_and_updated() {
    let _context = Context::new();
    let stream = stream(1);
    let place = memory(2);
    ok!(cuMemsetD32_v2(place, 0, 2));
    ok!(cuCtxSynchronize());
    let context: sys::CUcontext = made!(cuCtxGetCurrent());
    let set = |to: u64, value: u32| {
        let graph: CUgraph = made!(cuGraphCreate(0));
        let how = sys::CUDA_MEMSET_NODE_PARAMS {
            dst: to,
            pitch: 0,
            value,
            elementSize: 4,
            width: 1,
            height: 1,
        };
        let first: CUgraphNode = made!(cuGraphAddMemsetNode(graph, null(), 0, &how, context));
        let empty: CUgraphNode = made!(cuGraphAddEmptyNode(graph, &first, 1));
        (graph, first, empty)
    };
    let (graph, first, empty) = set(place, 1);
    assert_eq!(nodes(graph), [first, empty]);
    let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
    ok!(cuGraphNodeGetType(first, &mut kind));
    assert_eq!(kind, sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET);
    assert_eq!(edges(graph), 1);
    ok!(cuGraphRemoveDependencies(graph, &first, &empty, 1));
    assert_eq!(edges(graph), 0);
    assert_eq!(answer!(cuGraphRemoveDependencies(graph, &first, &empty, 1)), "INVALID_VALUE");
    ok!(cuGraphAddDependencies(graph, &first, &empty, 1));
    assert_eq!(answer!(cuGraphAddDependencies(graph, &first, &empty, 1)), "INVALID_VALUE");
    let exec = instantiate(graph);
    ok!(cuGraphLaunch(exec, stream));
    let (other, ..) = set(place, 3);
    // SAFETY: zeros are valid in it.
    let mut info: sys::CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(place, 2), [1, 0]);
    ok!(cuGraphExecUpdate_v2(exec, other, &mut info));
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(place, 2), [3, 0]);
    let _third: CUgraphNode = made!(cuGraphAddEmptyNode(other, null(), 0));
    assert_eq!(answer!(cuGraphExecUpdate_v2(exec, other, &mut info)), "GRAPH_EXEC_UPDATE_FAILURE");
    ok!(cuGraphDestroyNode(empty));
    assert_eq!((nodes(graph), edges(graph)), (vec![first], 0));
    // SAFETY: zeros are valid in it.
    let mut how: sys::CUDA_GRAPH_INSTANTIATE_PARAMS = unsafe { std::mem::zeroed() };
    let mut again = null_mut();
    ok!(cuGraphInstantiateWithParams(&mut again, graph, &mut how));
    ok!(cuGraphExecDestroy(again));
    ok!(cuGraphExecDestroy(exec));
}

#[test]
fn launches_of_one_executable_run_one_after_the_other() {
    let _context = Context::new();
    let (first, second) = (stream(1), stream(1));
    begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
    let word = held(first);
    let exec = instantiate(end(first));
    ok!(cuGraphLaunch(exec, first));
    ok!(cuGraphLaunch(exec, second));
    fill(second, memory_relaxed(), 1);
    pause();
    assert!(is_busy(first) && is_busy(second));
    release(word);
    ok!(cuStreamSynchronize(second));
    assert!(!is_busy(first));
}

#[test]
fn a_graph_that_allocates_is_not_copied_and_a_disabled_node_does_nothing() {
    let _context = Context::new();
    let (stream, place) = (stream(1), memory(1));
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    let _from_pool: u64 = made!(cuMemAllocAsync(4, stream));
    let allocates = end(stream);
    let mut copy = null_mut();
    assert_eq!(answer!(cuGraphClone(&mut copy, allocates)), "NOT_SUPPORTED");
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    fill(stream, place, 5);
    let graph = end(stream);
    let exec = instantiate(graph);
    ok!(cuMemsetD32_v2(place, 0, 1));
    for (is_enabled, value) in [(0, 0), (1, 5)] {
        ok!(cuGraphNodeSetEnabled(exec, nodes(graph)[0], is_enabled));
        ok!(cuGraphLaunch(exec, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read(place, 1), [value]);
    }
    ok!(cuGraphExecDestroy(exec));
}
