//! Calls in which a program waits for the device.
//!
//! While scheduling is required, a call that may wait for the whole device is made while no gate of
//! the process holds anything: what it waits for may be held for another stream whose program waits
//! for this call. How long programs wait tells `libpreempt.so` whether the host is the slower one.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::Code;
use crate::activity::is_on;
use crate::preempt::{Functions, SUCCESS, contended, counted};

/// Time from which a call that may have to wait for the device counts as a wait. PyTorch's
/// libraries make 20 such calls in a request, and those that did not wait took 0.4 to 6 µs: see
/// `benches/results/h200-2026-11-28-host-bound`.
const MAY_WAIT: Duration = Duration::from_micros(100);

thread_local! {
    /// Since when the thread has done nothing but ask the driver whether something has run.
    static POLLED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes a call in which the program waits for the whole device.
pub fn wait(real: impl FnOnce() -> Code) -> Code {
    waiting(|| with_gates_open(real))
}

/// Makes a call that may have to wait for the whole device, and rarely does.
pub fn may_wait(real: impl FnOnce() -> Code) -> Code {
    timed_wait(MAY_WAIT, || with_gates_open(real))
}

/// Makes a call that may wait for the whole device: while no gate of the process holds anything, if
/// scheduling is required. If nothing is held it is only counted; a hold that comes meanwhile ends
/// for a call that does not return.
pub fn with_gates_open(real: impl FnOnce() -> Code) -> Code {
    let Some(functions) = contended().filter(|_| is_on()) else { return real() };
    if !functions.calls.is_any_held() {
        return counted(real);
    }
    let mut token = 0;
    // SAFETY: the token may be written to.
    let answer = unsafe { (functions.begin_wait)(&raw mut token) };
    let code = real();
    if answer == SUCCESS {
        // SAFETY: any number may be given.
        unsafe { (functions.end_wait)(token) };
    }
    code
}

/// Makes a call in which the program waits for the device. What it launches next may depend on it.
pub fn waiting<R>(call: impl FnOnce() -> R) -> R {
    timed_wait(Duration::ZERO, call)
}

/// Makes a call in which the program waits for the device if it takes `least` or longer.
fn timed_wait<R>(least: Duration, call: impl FnOnce() -> R) -> R {
    let Some(functions) = contended() else { return call() };
    let began = Instant::now();
    let answer = call();
    if began.elapsed() >= least {
        note_wait(functions, began);
    }
    answer
}

fn note_wait(functions: &Functions, began: Instant) {
    let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: it may be called at any time.
    unsafe { (functions.waited)(ns) };
}

/// Takes the driver's answer to the question whether something has run. A program that asks until
/// it has, and launches nothing meanwhile, waits.
#[must_use]
pub fn note_query(code: Code) -> Code {
    if let Some(functions) = contended() {
        let began = POLLED.get().unwrap_or_else(Instant::now);
        POLLED.set((code != 0).then_some(began));
        if code == 0 {
            note_wait(functions, began);
        }
    }
    code
}

/// The thread launches something, and does not only ask.
pub(crate) fn note_launch() {
    POLLED.set(None);
}
