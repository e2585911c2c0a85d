//! Hooks of the functions with which streams, primary contexts and captures begin and end, streams
//! join captures, and programs wait for streams.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::OnceLock;

use crate::engine::{self, real};
use crate::{Address, Code, captures, driver, streams, table};

/// The handle of a stream whose null is the default stream of the thread.
fn of_thread(stream: Address) -> Address {
    if stream.is_null() { ptr::without_provenance_mut(engine::PER_THREAD) } else { stream }
}

/// Defines a hook for each name. `$next` calls the driver in what it does.
macro_rules! hooks {
    ($(
        $names:literal: $hook:ident($($parameter:ident: $kind:ty),*) => |$next:ident| $does:expr;
    )*) => {
        /// The hooks by the names of their functions.
        pub(crate) fn hooks() -> impl Iterator<Item = (&'static CStr, Address)> {
            [$(($names, $hook::call as Address)),*].into_iter()
        }

        $(mod $hook {
            use super::*;

            /// # Safety
            /// As of the driver's function.
            pub(super) unsafe extern "C" fn call($($parameter: $kind),*) -> Code {
                let $next = || real!($names, ($($parameter),*): ($($kind),*));
                $does
            }
        })*
    };
}

hooks! {
    c"cuStreamDestroy": destroy_old(stream: Address) => |next| {
        streams::end_stream(stream);
        next()
    };
    c"cuStreamDestroy_v2": destroy(stream: Address) => |next| {
        streams::end_stream(stream);
        next()
    };
    c"cuDevicePrimaryCtxReset": reset_old(device: c_int) => |next| {
        streams::end_device(device);
        next()
    };
    c"cuDevicePrimaryCtxReset_v2": reset(device: c_int) => |next| {
        streams::end_device(device);
        next()
    };
    c"cuDevicePrimaryCtxRelease": release_old(device: c_int) => |next| {
        streams::end_device(device);
        next()
    };
    c"cuDevicePrimaryCtxRelease_v2": release(device: c_int) => |next| {
        streams::end_device(device);
        next()
    };
    c"cuStreamWaitEvent": wait(stream: Address, event: Address, flags: u32) => |next| {
        captures::join(stream, next)
    };
    c"cuStreamWaitEvent_ptsz": wait_ptsz(stream: Address, event: Address, flags: u32) => |next| {
        captures::join(of_thread(stream), next)
    };
    c"cuStreamSynchronize": synchronize(stream: Address) => |next| {
        let code = next();
        streams::waited(stream);
        code
    };
    c"cuStreamSynchronize_ptsz": synchronize_ptsz(stream: Address) => |next| {
        let code = next();
        streams::waited(of_thread(stream));
        code
    };
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
