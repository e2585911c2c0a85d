//! Hooks of the functions with which streams, contexts and captures begin and end, streams
//! join captures, and programs wait for streams.

use std::ffi::c_int;

use xsched_shim_engine::engine::{asked, waiting};
use xsched_shim_engine::hooks::of_thread;
use xsched_shim_engine::{Address, captures, lifetimes, streams};

use crate::graphs;
use crate::vendor::{context_of_green, primary_context};

lifetimes! {
    c"cuStreamDestroy": destroy_old(stream: Address) => |next| {
        streams::end_stream(stream);
        next()
    };
    c"cuStreamDestroy_v2": destroy(stream: Address) => |next| {
        streams::end_stream(stream);
        next()
    };
    c"cuCtxDestroy": destroy_context_old(context: Address) => |next| {
        streams::end_context(context, next)
    };
    c"cuCtxDestroy_v2": destroy_context(context: Address) => |next| {
        streams::end_context(context, next)
    };
    c"cuCtxDetach": detach(context: Address) => |next| streams::end_context(context, next);
    c"cuGreenCtxDestroy": destroy_green(context: Address) => |next| {
        streams::end_context(context_of_green(context), next)
    };
    c"cuDevicePrimaryCtxReset": reset_old(device: c_int) => |next| {
        streams::end_context(primary_context(device), next)
    };
    c"cuDevicePrimaryCtxReset_v2": reset(device: c_int) => |next| {
        streams::end_context(primary_context(device), next)
    };
    c"cuDevicePrimaryCtxRelease": release_old(device: c_int) => |next| {
        streams::end_context(primary_context(device), next)
    };
    c"cuDevicePrimaryCtxRelease_v2": release(device: c_int) => |next| {
        streams::end_context(primary_context(device), next)
    };
    c"cuStreamWaitEvent": wait(stream: Address, event: Address, flags: u32) => |next| {
        graphs::await_event(stream, event);
        captures::join(stream, next)
    };
    c"cuStreamWaitEvent_ptsz": wait_ptsz(stream: Address, event: Address, flags: u32) => |next| {
        graphs::await_event(of_thread(stream), event);
        captures::join(of_thread(stream), next)
    };
    c"cuStreamSynchronize": synchronize(stream: Address) => |next| {
        streams::wait(stream, next)
    };
    c"cuStreamSynchronize_ptsz": synchronize_ptsz(stream: Address) => |next| {
        streams::wait(of_thread(stream), next)
    };
    c"cuEventSynchronize": synchronize_event(event: Address) => |next| {
        waiting(next)
    };
    c"cuStreamQuery": query(stream: Address) => |next| asked(next());
    c"cuStreamQuery_ptsz": query_ptsz(stream: Address) => |next| asked(next());
    c"cuEventQuery": query_event(event: Address) => |next| asked(next());
    c"cuStreamBeginCapture": begin_old(stream: Address) => |next| captures::begin(stream, next);
    c"cuStreamBeginCapture_ptsz": begin_old_ptsz(stream: Address) => |next| captures::begin(of_thread(stream), next);
    c"cuStreamBeginCapture_v2": begin(stream: Address, mode: c_int) => |next| {
        captures::begin(stream, next)
    };
    c"cuStreamBeginCapture_v2_ptsz": begin_ptsz(stream: Address, mode: c_int) => |next| {
        captures::begin(of_thread(stream), next)
    };
    c"cuStreamBeginCaptureToGraph": begin_into(
        stream: Address, graph: Address, nodes: Address, edges: Address, count: usize, mode: c_int
    ) => |next| captures::begin(stream, next);
    c"cuStreamBeginCaptureToGraph_ptsz": begin_into_ptsz(
        stream: Address, graph: Address, nodes: Address, edges: Address, count: usize, mode: c_int
    ) => |next| captures::begin(of_thread(stream), next);
    c"cuStreamEndCapture": end(stream: Address, graph: Address) => |next| {
        captures::end(stream, next)
    };
    c"cuStreamEndCapture_ptsz": end_ptsz(stream: Address, graph: Address) => |next| {
        captures::end(of_thread(stream), next)
    };
    c"cuStreamBeginRecaptureToGraph": again(
        stream: Address, mode: c_int, graph: Address, callback: Address, data: Address
    ) => |next| captures::begin(stream, next);
    c"cuStreamBeginRecaptureToGraph_ptsz": again_ptsz(
        stream: Address, mode: c_int, graph: Address, callback: Address, data: Address
    ) => |next| captures::begin(of_thread(stream), next);
    c"cuStreamBeginCaptureToCig": begin_cig(stream: Address, parameters: Address) => |next| {
        captures::begin(stream, next)
    };
    c"cuStreamBeginCaptureToCig_ptsz": begin_cig_ptsz(
        stream: Address, parameters: Address
    ) => |next| captures::begin(of_thread(stream), next);
    c"cuStreamEndCaptureToCig": end_cig(stream: Address) => |next| captures::end(stream, next);
    c"cuStreamEndCaptureToCig_ptsz": end_cig_ptsz(stream: Address) => |next| {
        captures::end(of_thread(stream), next)
    };
}
