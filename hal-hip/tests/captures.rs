//! Threads that ask the runtime for something while a program captures.
#![expect(unsafe_code, reason = "a driver's handles")]

mod common;

use std::ptr;
use std::thread;

use common::{device, library};
use xsched_hal_hip::leave_captures_alone;
use xsched_hal_stream::StreamApi;

/// Captures in which all threads must not do what a capture forbids.
const GLOBAL: u32 = 0;

/// Alone in its process, since it is for all of it.
#[test]
fn what_other_threads_ask_spoils_no_capture() {
    let api = device();
    let entered = api.enter().expect("a device");
    let [stream, other] = [(); 2].map(|()| api.create_stream(Some(0)).expect("a stream"));
    let event = api.create_event().expect("an event");
    // SAFETY: both are alive.
    unsafe { api.record(event, other) }.expect("a record");
    let library = library();
    let table = library.table();
    let begin = table.hipStreamBeginCapture.expect("there");
    let end = table.hipStreamEndCapture.expect("there");
    let capture = || {
        // SAFETY: the stream is alive.
        assert_eq!(unsafe { begin(stream.as_raw(), GLOBAL) }, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                // As the thread does that polls completions: it does not enter first.
                // SAFETY: the event is alive.
                let _ = unsafe { api.query(event) };
            });
        });
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is alive, and the handle may be written to.
        unsafe { end(stream.as_raw(), &raw mut graph) }
    };
    // hipErrorStreamCaptureInvalidated.
    assert_eq!(capture(), 901);
    leave_captures_alone();
    assert_eq!(capture(), 0);
    drop(entered);
}
