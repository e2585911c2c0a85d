//! Cost of a command through the C API: a callback that does nothing, on the host device. Times
//! on the wall. `cargo bench -p xsched-capi --bench c_api`; with `-- --check` a goal that is missed
//! is an error.
#![expect(unsafe_code, reason = "it calls the C API")]

use std::alloc::System;
use std::ffi::c_void;
use std::process::ExitCode;
use std::time::Instant;

use preempt::hint::{XHintPriority, XHintSetScheduler};
use preempt::private::xsched_private_host_queue_create;
use preempt::types::{
    HwCommandHandle, HwQueueHandle, XPolicyType, XQueueHandle, XResult, XResultValue,
    XSchedulerType,
};
use preempt::xqueue::{
    HwCommandCreateCallback, XQueueCreate, XQueueResume, XQueueSubmit, XQueueSuspend, XQueueWaitAll,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Room of an XQueue, as the documentation says.
const CAPACITY: usize = 8_192;
/// Commands of each figure.
const RUNS: usize = 50_000;

// SAFETY: it touches nothing.
unsafe extern "C" fn nothing(_: HwQueueHandle, _: *mut c_void) -> XResultValue {
    0
}

fn fine(result: XResult) {
    assert_eq!(result, XResult::kXSchedSuccess);
}

fn command() -> HwCommandHandle {
    let mut command = 0;
    // SAFETY: it may be written to; the callback takes no data.
    fine(unsafe { HwCommandCreateCallback(&raw mut command, Some(nothing), std::ptr::null_mut()) });
    command
}

fn queue() -> XQueueHandle {
    let (mut hwq, mut xq) = (0, 0);
    // SAFETY: they may be written to.
    unsafe {
        fine(xsched_private_host_queue_create(&raw mut hwq));
        fine(XQueueCreate(&raw mut xq, hwq, 1, 0));
    }
    xq
}

/// The median of what `run` takes in nanoseconds, with a new command each time.
fn median_ns(runs: usize, mut run: impl FnMut(HwCommandHandle)) -> u64 {
    let once = |_| {
        let command = command();
        let start = Instant::now();
        run(command);
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    };
    let mut times: Vec<_> = (0..runs).map(once).collect();
    times.sort_unstable();
    times.get(runs / 2).copied().unwrap_or(u64::MAX)
}

/// Bytes that a full XQueue takes for each command, all that belongs to the queue included.
fn bytes_per_command() -> u64 {
    let region = Region::new(ALLOCATIONS);
    let xq = queue();
    fine(XQueueSuspend(xq, 0));
    (0..CAPACITY).for_each(|_| fine(XQueueSubmit(xq, command())));
    let change = region.change();
    let bytes = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
    fine(XQueueResume(xq, 0));
    fine(XQueueWaitAll(xq));
    (bytes / CAPACITY) as u64
}

fn line(what: &str, value: u64, unit: &str, goal: u64) -> bool {
    println!("{what:<52} {value:>8} {unit:<5} {goal:>8}");
    value <= goal
}

fn main() -> ExitCode {
    let has = |wanted: &str| std::env::args().any(|arg| arg == wanted);
    let (smoke, check) = (!has("--bench"), has("--check"));
    let runs = if smoke { 10 } else { RUNS };
    println!(
        "Medians of {runs}; policy HPF, threshold 16, batch 8; the goal is the last column.\n"
    );
    fine(XHintSetScheduler(
        XSchedulerType::kSchedulerLocal as i32,
        XPolicyType::kPolicyHighestPriorityFirst as i32,
    ));
    // The first of all has what belongs to the process, such as the device.
    let xq = queue();
    fine(XHintPriority(xq, 1));
    let submit = median_ns(runs, |command| fine(XQueueSubmit(xq, command)));
    fine(XQueueWaitAll(xq));
    let round = median_ns(runs, |command| {
        fine(XQueueSubmit(xq, command));
        fine(XQueueWaitAll(xq));
    });
    let mut reached = line("XQueueSubmit", submit, "ns", 250);
    reached &= line("XQueueSubmit and XQueueWaitAll", round, "ns", 10_000);
    reached &= line("memory of a full XQueue, for each command", bytes_per_command(), "bytes", 64);
    println!("\n{} every figure is within its goal", if reached { "PASS" } else { "FAIL" });
    if check && !reached { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
