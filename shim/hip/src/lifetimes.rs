//! Hooks of the functions with which streams, devices' streams and captures end and begin, streams
//! join captures, programs wait for streams, and programs ask for the last error.

use std::ffi::{c_int, c_uint};
use std::ptr;

use xsched_shim_engine::hooks::of_thread;
use xsched_shim_engine::{Address, captures, errors, lifetimes, streams};

use crate::vendor;

lifetimes! {
    c"hipStreamDestroy": destroy(stream: Address) => |next| {
        streams::end_stream(stream);
        next()
    };
    c"hipDeviceReset": reset() => |next| {
        streams::end_device(vendor::device(ptr::null_mut()));
        next()
    };
    c"hipDevicePrimaryCtxReset": reset_primary(device: c_int) => |next| {
        streams::end_device(device);
        next()
    };
    c"hipStreamWaitEvent": wait(stream: Address, event: Address, flags: c_uint) => |next| {
        captures::join(stream, next)
    };
    c"hipStreamWaitEvent_spt": wait_spt(stream: Address, event: Address, flags: c_uint) => |next| {
        captures::join(of_thread(stream), next)
    };
    c"hipStreamSynchronize": synchronize(stream: Address) => |next| {
        let code = next();
        streams::waited(stream);
        code
    };
    c"hipStreamSynchronize_spt": synchronize_spt(stream: Address) => |next| {
        let code = next();
        streams::waited(of_thread(stream));
        code
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
