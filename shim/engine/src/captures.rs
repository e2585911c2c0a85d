//! Captures: which streams are being captured, and that nothing here spoils one.
//!
//! A capture ends when the program ends it, or with its stream, which may end with its thread,
//! context or device.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::errors::Kept;
use crate::streams::{About, Key};
use crate::{Address, Code, activity, direct, driver, streams};

/// The capture mode in which nothing that a thread calls spoils a capture. CUDA and HIP have the
/// same number.
pub(crate) const RELAXED: c_int = 2;
/// Captures that were begun and not ended, as far as was seen, and those that are about to begin.
/// While it is 0 no stream is asked.
static BEGUN: AtomicUsize = AtomicUsize::new(0);
/// Streams in which these were begun.
static ORIGINS: Mutex<Vec<Origin>> = Mutex::new(Vec::new());

/// A stream in which a capture was begun.
#[derive(Clone, Copy, Debug)]
struct Origin {
    key: Key,
    about: About,
}

fn origins() -> MutexGuard<'static, Vec<Origin>> {
    ORIGINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Captures in these streams are over.
fn forget(is_over: impl Fn(&Origin) -> bool) {
    // A child of a fork does not wait for a thread of its parent.
    if !are_any() || !activity::is_on() {
        return;
    }
    let mut origins = origins();
    let before = origins.len();
    origins.retain(|origin| !is_over(origin));
    BEGUN.fetch_sub(before - origins.len(), Ordering::AcqRel);
}

/// Sets this thread's capture mode, and answers the one before.
pub(crate) fn exchange_mode(mode: c_int) -> c_int {
    driver::opened().map_or(mode, |driver| (driver.vendor().questions.exchange_mode)(mode))
}

/// Returns whether what is launched into a stream becomes part of a graph; null is the legacy
/// default stream, which may not be asked while others are captured.
pub(crate) fn is_captured(stream: Address) -> bool {
    BEGUN.load(Ordering::Acquire) > 0 && asks(stream)
}

/// Returns whether any capture is under way.
pub(crate) fn are_any() -> bool {
    BEGUN.load(Ordering::Acquire) > 0
}

fn asks(stream: Address) -> bool {
    driver::opened().is_some_and(|driver| (driver.vendor().questions.is_captured)(stream))
}

/// Asks as `asks` does, and the thread's last error stays.
pub(crate) fn asks_aside(stream: Address) -> bool {
    let _kept = Kept::now();
    asks(stream)
}

/// Waits until nothing here touches a stream that is about to be captured, nor the legacy default
/// stream, if that may not be used meanwhile.
fn settle(stream: Address) {
    streams::settle(stream);
    if activity::is_on() && blocks(stream) {
        streams::settle(ptr::null_mut());
    }
}

fn blocks(stream: Address) -> bool {
    let _kept = Kept::now();
    driver::opened().is_some_and(|driver| (driver.vendor().questions.is_blocking)(stream))
}

/// Begins a capture of this stream by what `real` does.
pub fn begin(stream: Address, real: impl FnOnce() -> Code) -> Code {
    if !activity::is_on() {
        return real();
    }
    // Before, so that no launch takes the stream for one that is not captured.
    BEGUN.fetch_add(1, Ordering::AcqRel);
    direct::begin_generation();
    settle(stream);
    let origin = {
        let _kept = Kept::now();
        streams::key(stream).map(|key| Origin { key, about: About::of(stream) })
    };
    let code = real();
    match origin {
        Some(origin) if code == 0 => origins().push(origin),
        _ => _ = BEGUN.fetch_sub(1, Ordering::AcqRel),
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
    if !activity::is_on() {
        return real();
    }
    let was = asks_aside(stream);
    let code = real();
    if was && !asks_aside(stream) {
        let key = streams::key(stream);
        forget(|origin| Some(origin.key) == key);
    }
    code
}

/// Destroys a stream by what `real` does, and with it a capture that was begun in it. A stream that
/// the driver does not destroy is asked.
pub fn end_stream(stream: Address, real: impl FnOnce() -> Code) -> Code {
    let code = real();
    if are_any() && (code == 0 || !asks_aside(stream)) {
        let key = streams::key(stream);
        forget(|origin| Some(origin.key) == key);
    }
    code
}

/// Ends a context, or only gives it back, by what `real` does. `has_ended` is asked afterwards.
pub fn end_context(
    context: Address,
    real: impl FnOnce() -> Code,
    has_ended: impl FnOnce() -> bool,
) -> Code {
    let code = real();
    if are_any() && code == 0 && has_ended() {
        forget(|origin| origin.about.context == context.addr());
    }
    code
}

/// A device has lost its streams, where the vendor's streams are of devices.
pub(crate) fn end_device(device: c_int) {
    forget(|origin| origin.about.device == device);
}

/// The default streams of a thread have ended.
pub(crate) fn end_thread(number: usize) {
    forget(|origin| origin.key.thread == number);
}
