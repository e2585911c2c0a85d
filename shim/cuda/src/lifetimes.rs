//! Hooks of the functions with which streams, contexts and captures begin and end, streams
//! join captures, and programs wait for streams.

use std::ffi::c_int;

use xsched_shim_engine::direct::change_context;
use xsched_shim_engine::hooks::of_thread;
use xsched_shim_engine::waits::{note_query, waiting};
use xsched_shim_engine::{Address, Code, captures, engine, lifetimes, streams};

use crate::vendor::{context_of_green, primary_context};
use crate::{attached, graphs, primary};

/// Ends a context by what `next` does.
fn end(context: Address, next: impl FnOnce() -> Code) -> Code {
    attached::forget(context);
    captures::end_context(context, || streams::end_context(context, next), || true)
}

/// Gives a device's primary context back by what `next` does, which may end it.
fn release(device: c_int, next: impl FnOnce() -> Code) -> Code {
    let context = primary_context(device);
    let has_ended = || primary_context(device).is_null();
    captures::end_context(context, || primary::release(device, next), has_ended)
}

lifetimes! {
    c"cuInit": initialise(flags: u32) => |next| engine::initialise(next);
    c"cuStreamDestroy": destroy_old(stream: Address) => |next| {
        streams::end_stream(stream);
        captures::end_stream(stream, next)
    };
    c"cuStreamDestroy_v2": destroy(stream: Address) => |next| {
        streams::end_stream(stream);
        captures::end_stream(stream, next)
    };
    c"cuCtxDestroy": destroy_context_old(context: Address) => |next| end(context, next);
    c"cuCtxDestroy_v2": destroy_context(context: Address) => |next| end(context, next);
    c"cuCtxAttach": attach(context: *mut Address, flags: u32) => |next| {
        // SAFETY: as the caller of the hook promises.
        unsafe { attached::attach(context, next) }
    };
    c"cuCtxDetach": detach(context: Address) => |next| attached::detach(context, next, end);
    c"cuGreenCtxDestroy": destroy_green(context: Address) => |next| {
        end(context_of_green(context), next)
    };
    c"cuDevicePrimaryCtxReset": reset_old(device: c_int) => |next| {
        end(primary_context(device), next)
    };
    c"cuDevicePrimaryCtxReset_v2": reset(device: c_int) => |next| {
        end(primary_context(device), next)
    };
    c"cuDevicePrimaryCtxRetain": retain(context: Address, device: c_int) => |next| {
        primary::retain(device, next)
    };
    c"cuDevicePrimaryCtxRelease": release_old(device: c_int) => |next| release(device, next);
    c"cuDevicePrimaryCtxRelease_v2": release_second(device: c_int) => |next| {
        release(device, next)
    };
    c"cuCtxSetCurrent": set_current(context: Address) => |next| change_context(next);
    c"cuCtxPushCurrent": push_old(context: Address) => |next| change_context(next);
    c"cuCtxPushCurrent_v2": push(context: Address) => |next| change_context(next);
    c"cuCtxPopCurrent": pop_old(context: Address) => |next| change_context(next);
    c"cuCtxPopCurrent_v2": pop(context: Address) => |next| change_context(next);
    c"cuCtxCreate": create_old(
        context: Address, flags: u32, device: c_int
    ) => |next| change_context(next);
    c"cuCtxCreate_v2": create_second(
        context: Address, flags: u32, device: c_int
    ) => |next| change_context(next);
    c"cuCtxCreate_v3": create_third(
        context: Address, parameters: Address, count: c_int, flags: u32, device: c_int
    ) => |next| change_context(next);
    c"cuCtxCreate_v4": create_fourth(
        context: Address, parameters: Address, flags: u32, device: c_int
    ) => |next| change_context(next);
    c"cuGLCtxCreate": create_gl_old(
        context: Address, flags: u32, device: c_int
    ) => |next| change_context(next);
    c"cuGLCtxCreate_v2": create_gl(
        context: Address, flags: u32, device: c_int
    ) => |next| change_context(next);
    c"cuVDPAUCtxCreate": create_vdpau_old(
        context: Address, flags: u32, device: c_int, vdp_device: u32, get_address: Address
    ) => |next| change_context(next);
    c"cuVDPAUCtxCreate_v2": create_vdpau(
        context: Address, flags: u32, device: c_int, vdp_device: u32, get_address: Address
    ) => |next| change_context(next);
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
    c"cuStreamQuery": query(stream: Address) => |next| note_query(next());
    c"cuStreamQuery_ptsz": query_ptsz(stream: Address) => |next| note_query(next());
    c"cuEventQuery": query_event(event: Address) => |next| note_query(next());
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
    c"cuStreamEndCapture": end_capture(stream: Address, graph: Address) => |next| {
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
