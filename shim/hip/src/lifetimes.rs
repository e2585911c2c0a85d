//! Hooks of the functions with which streams, devices' streams and captures end and begin, streams
//! join captures, programs wait for streams, and programs ask for the last error.

use std::ffi::{c_int, c_uint};
use std::ptr;

use xsched_shim_engine::direct::change_context;
use xsched_shim_engine::hooks::of_thread;
use xsched_shim_engine::waits::{note_query, waiting, with_gates_open};
use xsched_shim_engine::{
    Address, Code, captures, engine, errors, events, lifetimes, real, streams,
};

use crate::{rings, vendor};

fn end_device(device: c_int) {
    streams::end_device(device);
    rings::end_device(device);
}

/// Records an event in a stream by what `next` does.
fn record_event(event: Address, stream: Address, next: impl FnOnce() -> Code) -> Code {
    events::record(event, stream, || ordered(stream, next))
}

/// Has a stream wait for an event by what `next` does.
fn await_event(stream: Address, event: Address, next: impl FnOnce() -> Code) -> Code {
    events::await_event(stream, event, || real!(c"hipEventQuery", (event): (Address)) == 0);
    captures::join(stream, || ordered(stream, next))
}

/// Makes a call that stays in order with a stream's launches. The legacy default stream waits for
/// all blocking ones then, as with a launch.
fn ordered(stream: Address, next: impl FnOnce() -> Code) -> Code {
    if engine::is_legacy(stream) { engine::in_legacy(next) } else { next() }
}

lifetimes! {
    c"hipSetDevice": set_device(device: c_int) => |next| change_context(next);
    c"hipSetValidDevices": set_valid(devices: Address, count: c_int) => |next| {
        change_context(next)
    };
    c"hipCtxSetCurrent": set_current(context: Address) => |next| change_context(next);
    c"hipCtxPushCurrent": push(context: Address) => |next| change_context(next);
    c"hipCtxPopCurrent": pop(context: Address) => |next| change_context(next);
    c"hipCtxCreate": create(
        context: Address, flags: c_uint, device: c_int
    ) => |next| change_context(next);
    c"hipCtxDestroy": destroy(context: Address) => |next| change_context(next);
    c"hipDeviceReset": reset() => |next| {
        end_device(vendor::device(ptr::null_mut()));
        next()
    };
    c"hipDevicePrimaryCtxReset": reset_primary(device: c_int) => |next| {
        end_device(device);
        next()
    };
    c"hipEventDestroy": destroy_event(event: Address) => |next| events::destroy(event, next);
    c"hipEventRecord": record(event: Address, stream: Address) => |next| {
        record_event(event, stream, next)
    };
    c"hipEventRecord_spt": record_spt(event: Address, stream: Address) => |next| {
        record_event(event, of_thread(stream), next)
    };
    c"hipEventRecordWithFlags": record_with_flags(
        event: Address, stream: Address, flags: c_uint
    ) => |next| record_event(event, stream, next);
    c"hipStreamWaitEvent": wait(stream: Address, event: Address, flags: c_uint) => |next| {
        await_event(stream, event, next)
    };
    c"hipStreamWaitEvent_spt": wait_spt(stream: Address, event: Address, flags: c_uint) => |next| {
        await_event(of_thread(stream), event, next)
    };
    c"hipStreamQuery": query(stream: Address) => |next| {
        // It may have the legacy default stream wait for all blocking ones, as below.
        note_query(if engine::is_legacy(stream) { with_gates_open(next) } else { next() })
    };
    c"hipStreamQuery_spt": query_spt(stream: Address) => |next| note_query(next());
    c"hipEventQuery": query_event(event: Address) => |next| note_query(next());
    c"hipEventSynchronize": synchronize_event(event: Address) => |next| {
        waiting(next)
    };
    c"hipStreamSynchronize": synchronize(stream: Address) => |next| {
        // That of the legacy default stream waits for all blocking ones, which may be held.
        let is_legacy = engine::is_legacy(stream);
        streams::wait(stream, || if is_legacy { with_gates_open(next) } else { next() })
    };
    c"hipStreamSynchronize_spt": synchronize_spt(stream: Address) => |next| {
        streams::wait(of_thread(stream), next)
    };
    c"hipStreamBeginCapture": begin(stream: Address, mode: c_uint) => |next| {
        captures::begin(stream, next)
    };
    c"hipStreamBeginCapture_spt": begin_spt(stream: Address, mode: c_uint) => |next| {
        captures::begin(of_thread(stream), next)
    };
    c"hipStreamBeginCaptureToGraph": begin_into(
        stream: Address, graph: Address, nodes: Address, edges: Address, count: usize, mode: c_uint
    ) => |next| captures::begin(stream, next);
    c"hipStreamEndCapture": end(stream: Address, graph: Address) => |next| {
        captures::end(stream, next)
    };
    c"hipStreamEndCapture_spt": end_spt(stream: Address, graph: Address) => |next| {
        captures::end(of_thread(stream), next)
    };
    c"hipGetLastError": last_error() => |next| errors::take(next());
    c"hipPeekAtLastError": peek_at_last_error() => |next| errors::peek(next());
}
