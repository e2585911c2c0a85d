//! Captures: which streams are being captured, and that nothing here spoils one.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::{self, real};
use crate::{Address, Code, driver, streams, table};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub(crate) const RELAXED: c_int = 2;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURED: c_int = 0;

/// Captures that were begun and not ended, as far as was seen. While it is 0 no stream is asked.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// Sets this thread's capture mode, and answers the one before.
pub(crate) fn exchange_mode(mut mode: c_int) -> c_int {
    // A driver that refuses leaves it as it was.
    let _: Code = real!(c"cuThreadExchangeStreamCaptureMode", (&raw mut mode): (*mut c_int));
    mode
}

/// Whether what is launched into a stream becomes part of a graph; null is the legacy default
/// stream, which may not be asked while others are captured.
pub(crate) fn is_captured(stream: Address) -> bool {
    BEGUN.load(Ordering::Acquire) > 0 && asks(stream)
}

/// Whether any capture is under way.
pub(crate) fn are_any() -> bool {
    BEGUN.load(Ordering::Acquire) > 0
}

fn asks(stream: Address) -> bool {
    let mut status = NOT_CAPTURED;
    let code = real!(c"cuStreamIsCapturing", (stream, &raw mut status): (Address, *mut c_int));
    code != 0 || status != NOT_CAPTURED
}

/// Begins a capture of this stream by what `real` does.
pub(crate) fn begin(stream: Address, real: impl FnOnce() -> Code) -> Code {
    // Before, so that no launch takes the stream for one that is not captured.
    BEGUN.fetch_add(1, Ordering::AcqRel);
    streams::settle(stream);
    let code = real();
    if code != 0 {
        BEGUN.fetch_sub(1, Ordering::AcqRel);
    }
    code
}

/// Has a stream wait for an event by what `real` does, which may make it part of a capture.
pub(crate) fn join(stream: Address, real: impl FnOnce() -> Code) -> Code {
    if are_any() {
        streams::settle(stream);
    }
    real()
}

/// Ends a capture of this stream by what `real` does. A capture that was spoiled ends with an
/// error.
pub(crate) fn end(stream: Address, real: impl FnOnce() -> Code) -> Code {
    if !engine::is_on() {
        return real();
    }
    let was = asks(stream);
    let code = real();
    if was && !asks(stream) {
        // Another that was begun before this library looked may end here as well.
        let _ =
            BEGUN.fetch_update(Ordering::AcqRel, Ordering::Acquire, |begun| begun.checked_sub(1));
    }
    code
}
