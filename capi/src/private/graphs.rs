//! Gates inside the graphs that a program launches, for interposers.

use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;

use xsched_core::level::Level;
use xsched_hal_cuda::table::{CuGraph, CuGraphExec, CuStream};
use xsched_hal_cuda::{CudaError, GateAt, GatedCopy};

use crate::contention;
use crate::graphs::lock;
use crate::process::{Process, process};
use crate::refusal::{Refusal, answer};
use crate::types::{XQueueHandle, XResult};

/// `CUDA_ERROR_UNKNOWN`.
const UNKNOWN: c_int = 999;

/// Returns whether a graph that is made executable now may ever be launched where there are gates.
fn may_get_gates(process: &Process) -> bool {
    let of_environment = || process.env.auto.as_ref().is_some_and(|auto| auto.level > 1);
    let of_program = || {
        contention::may_be_required()
            && process.queues.find(|queue| queue.level() > Level::Block).is_some()
    };
    process.env.graphs && (of_environment() || of_program())
}

/// The place of gates in what is launched in an XQueue; 0 is none.
fn gates_of(process: &Process, xq: XQueueHandle) -> Option<GateAt> {
    process.queues.get(xq)?.hwq().hardware.gates_of_graphs()
}

/// Returns whether a graph may be held that is launched in an XQueue now.
fn needs_gates(process: &Process, xq: XQueueHandle) -> bool {
    process.queues.get(xq).is_none_or(|queue| process.may_hold(&queue))
}

/// For interposers: the program has made `exec` of `graph` with these flags of
/// `cuGraphInstantiateWithFlags`. `kXSchedSuccess` if that is to be launched by
/// [`xsched_private_cuda_graph_launch`] from now on.
///
/// # Safety
/// They are alive, and used by no other thread now.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_cuda_graph(
    exec: *mut c_void,
    graph: *mut c_void,
    flags: u64,
) -> XResult {
    answer(|| {
        let process = process();
        if !may_get_gates(process) {
            return Err(Refusal::not_supported("no XQueue of the process has gates"));
        }
        let failed = |error: CudaError| Refusal::hardware(error.to_string());
        let context = xsched_hal_cuda::current_context().map_err(failed)?;
        let context = context.ok_or_else(|| Refusal::not_allowed("no context is current"))?;
        // SAFETY: as the caller promises; it tells of changes, and of the end.
        let copy = unsafe { GatedCopy::new(CuGraphExec(exec), CuGraph(graph), flags) };
        let copy = copy.inspect_err(|why| tracing::info!(?exec, "a graph gets no gates: {why}"));
        process.cuda.graphs.insert(exec, context, copy.map_err(failed)?);
        Ok(())
    })
}

/// For interposers: an executable graph is about to be launched in an XQueue, or in a stream that
/// has none if `xq` is 0. To be called before the launch waits for its turn, since it may take
/// milliseconds. `kXSchedErrorNotFound` if no copy of it is kept, and none will be.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_cuda_graph_prepare(
    xq: XQueueHandle,
    exec: *mut c_void,
) -> XResult {
    answer(|| {
        let process = process();
        let unknown = || Refusal::not_found("no copy of the graph is kept");
        let copy = process.cuda.graphs.find(exec).ok_or_else(unknown)?;
        let may_hold = needs_gates(process, xq);
        let prepared = lock(&copy).prepare(xq, may_hold, || gates_of(process, xq));
        let _ = prepared.inspect_err(|why| tracing::info!(?exec, "a graph has no gates: {why}"));
        Ok(())
    })
}

/// For interposers: launches an executable graph, or its copy with gates, into the stream of an
/// XQueue, or into one that has none if `xq` is 0. The copy is launched only if `has_turn` is not
/// 0: it is the XQueue's turn. What the driver answers, `CUresult`.
///
/// # Safety
/// As of `cuGraphLaunch`.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_cuda_graph_launch(
    xq: XQueueHandle,
    has_turn: c_int,
    exec: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    let launch = || {
        let process = process();
        let (exec, stream, copy) =
            (CuGraphExec(exec), CuStream(stream), process.cuda.graphs.find(exec));
        match copy {
            Some(copy) => {
                let may_hold = has_turn != 0 && needs_gates(process, xq);
                let mut copy = lock(&copy);
                // SAFETY: as the caller promises.
                let code = unsafe { copy.launch(xq, may_hold, || gates_of(process, xq), stream) };
                if copy.is_ungated() {
                    process.cuda.graphs.remove(exec.0);
                }
                code
            }
            // SAFETY: as the caller promises.
            None => unsafe { xsched_hal_cuda::launch_graph(exec, stream) },
        }
    };
    catch_unwind(launch).unwrap_or(UNKNOWN)
}

/// For interposers: an executable graph is about to be changed. It is launched as it is from then
/// on.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_cuda_graph_changed(exec: *mut c_void) -> XResult {
    answer(|| {
        if let Some(copy) = process().cuda.graphs.find(exec) {
            lock(&copy).ungate();
        }
        Ok(())
    })
}

/// For interposers: an executable graph is about to end. What was launched runs to its end.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_cuda_graph_ended(exec: *mut c_void) -> XResult {
    answer(|| {
        process().cuda.graphs.remove(exec);
        Ok(())
    })
}
