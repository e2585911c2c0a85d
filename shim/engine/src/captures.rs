//! Captures: which streams are being captured, and that nothing here spoils one.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::errors::Kept;
use crate::{Address, Code, driver, engine, streams};

/// The capture mode in which nothing that a thread calls spoils a capture. CUDA and HIP have the
/// same number.
pub(crate) const RELAXED: c_int = 2;
/// Captures that were begun and not ended, as far as was seen. While it is 0 no stream is asked.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// Sets this thread's capture mode, and answers the one before.
pub(crate) fn exchange_mode(mode: c_int) -> c_int {
    driver::opened().map_or(mode, |driver| (driver.vendor().questions.exchange_mode)(mode))
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
    driver::opened().is_some_and(|driver| (driver.vendor().questions.is_captured)(stream))
}

/// The same, and the thread's last error stays.
fn asks_aside(stream: Address) -> bool {
    let _kept = Kept::now();
    asks(stream)
}

/// Waits until nothing here touches a stream that is about to be captured, nor the legacy default
/// stream, if that may not be used meanwhile.
fn settle(stream: Address) {
    streams::settle(stream);
    if engine::is_on() && blocks(stream) {
        streams::settle(ptr::null_mut());
    }
}

fn blocks(stream: Address) -> bool {
    let _kept = Kept::now();
    driver::opened().is_some_and(|driver| (driver.vendor().questions.is_blocking)(stream))
}

/// Begins a capture of this stream by what `real` does.
pub fn begin(stream: Address, real: impl FnOnce() -> Code) -> Code {
    // Before, so that no launch takes the stream for one that is not captured.
    BEGUN.fetch_add(1, Ordering::AcqRel);
    settle(stream);
    let code = real();
    if code != 0 {
        BEGUN.fetch_sub(1, Ordering::AcqRel);
    }
    code
}

/// Has a stream wait for an event by what `real` does, which may make it part of a capture.
pub fn join(stream: Address, real: impl FnOnce() -> Code) -> Code {
    // One that is part of a capture bears no other question.
    if are_any() && !asks_aside(stream) {
        settle(stream);
    }
    real()
}

/// Ends a capture of this stream by what `real` does. A capture that was spoiled ends with an
/// error.
pub fn end(stream: Address, real: impl FnOnce() -> Code) -> Code {
    if !engine::is_on() {
        return real();
    }
    let was = asks_aside(stream);
    let code = real();
    if was && !asks_aside(stream) {
        // Another that was begun before this library looked may end here as well.
        let _ =
            BEGUN.fetch_update(Ordering::AcqRel, Ordering::Acquire, |begun| begun.checked_sub(1));
    }
    code
}
