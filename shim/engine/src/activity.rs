//! Scheduling by this library: from the first call of the driver on, if the environment asks for
//! it, until `libpreempt.so` is found to be missing. Otherwise from the first XQueue on that the
//! program makes for a stream, and then the streams that have such XQueues.
//!
//! A driver that is initialised does not work in the child of a fork, so launches there are not
//! scheduled. One that was only asked something before the fork is initialised by the child, and
//! schedules as in any process.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use xsched_hal_process::environment::variable;

use crate::direct;

const VARIABLE: &str = "XSCHED_AUTO_XQUEUE";

static ACTIVITY: AtomicU8 = AtomicU8::new(Activity::Off as u8);
static WATCHES_FORKS: AtomicBool = AtomicBool::new(false);
/// True if this process, or one that it was forked from, has initialised the driver.
static IS_INITIALISED: AtomicBool = AtomicBool::new(false);

/// Launches that are scheduled in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Not asked for, or not possible.
    Off,
    /// Asked for: each stream gets an XQueue.
    On,
    /// Off, in the child of a fork of a process that had initialised the driver.
    Child,
    /// Launches into streams for which the program makes XQueues itself.
    OwnQueues,
}

/// Begins to schedule, if the environment asks for it. The driver is open, and initialised if any
/// call does that.
pub(crate) fn start(is_initialised_by_any: bool) {
    if is_initialised_by_any {
        initialised();
    }
    if variable(VARIABLE).is_some_and(|value| value.eq_ignore_ascii_case("on")) {
        begin(Activity::On);
    }
}

/// The program makes XQueues itself.
pub(crate) fn start_own_queues() {
    if now() == Activity::Off {
        begin(Activity::OwnQueues);
    }
}

/// Streams get no XQueues but those that the program makes: `libpreempt.so` says so.
pub(crate) fn leave_own_queues() {
    change(Activity::On, Activity::OwnQueues);
}

fn begin(activity: Activity) {
    change(Activity::Off, activity);
    if !WATCHES_FORKS.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stores and adds to numbers, which a child of a fork may do.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// Goes from one state to another. Another thread may have left the first.
fn change(from: Activity, to: Activity) {
    let (from, to) = (from as u8, to as u8);
    let _ = ACTIVITY.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
}

/// The driver is initialised, or may be by a call that is made now.
pub(crate) fn initialised() {
    IS_INITIALISED.store(true, Ordering::Release);
}

extern "C" fn in_child() {
    if IS_INITIALISED.load(Ordering::Acquire) && is_on() {
        ACTIVITY.store(Activity::Child as u8, Ordering::Relaxed);
    }
    direct::begin_generation();
}

/// Ends scheduling: `libpreempt.so` is missing.
pub(crate) fn end() {
    ACTIVITY.store(Activity::Off as u8, Ordering::Relaxed);
}

/// The present state.
pub(crate) fn now() -> Activity {
    match ACTIVITY.load(Ordering::Acquire) {
        1 => Activity::On,
        2 => Activity::Child,
        3 => Activity::OwnQueues,
        _ => Activity::Off,
    }
}

/// Returns whether this library schedules.
#[must_use]
pub fn is_on() -> bool {
    matches!(now(), Activity::On | Activity::OwnQueues)
}

/// Returns whether streams get XQueues for which the program makes none.
pub(crate) fn gives_queues() -> bool {
    now() == Activity::On
}
