//! Errors of the device as the queue's halves report them, on the emulated HIP runtime.
#![expect(unsafe_code, reason = "drivers' handles")]

mod common;

use std::time::{Duration, Instant};

use xsched_conformance::Work;
use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, HalError, Retire, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Level, Step};
use xsched_hal_hip::{HipApi, Rings};
use xsched_hal_stream::{Spacing, StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig};

use common::{Kernels, counter, open, until};

fn opened() -> (Kernels, StreamDevice<HipApi>) {
    let api = open(Rings::Own);
    let kernels = Kernels::load(&api);
    (kernels, StreamDevice::new(api, StreamDeviceConfig::default()).expect("a device"))
}

fn gated() -> StreamConfig<HipApi> {
    StreamConfig::default().spacing(Spacing::of_ns(0))
}

/// Commands that completed before an error are reported; what it hit and all that comes later
/// fails, and nothing waits for ever.
#[test]
fn a_failed_kernel_fails_itself_and_all_later_commands() {
    let (kernels, mut device) = opened();
    let mut queue = device.open(QueueId::new(0, 0), gated()).expect("a queue");
    let empty = StreamCommand::native(kernels.command(Work::Empty));
    let failing = StreamCommand::native(kernels.command(Work::Failing));
    queue.submit.launch(CmdId(0), &empty, true).expect("a launch");
    until("the completion of the first", || {
        queue.retire.poll_retired().expect("no error yet").is_some()
    });
    // It may have failed before the launch has returned.
    let mut error = queue.submit.launch(CmdId(1), &failing, true).err();
    until("the error", || {
        if error.is_none() {
            error = queue.retire.poll_retired().err();
        }
        error.is_some()
    });
    assert_eq!(error.map(|error| error.kind()), Some(Fault::DeviceLost));
    let later = queue.submit.launch(CmdId(2), &empty, true).expect_err("the device is lost");
    assert_eq!(later.kind(), Fault::DeviceLost);
    // Steps still answer, since they are stores.
    assert!(queue.preempt.step(Step::Deactivate).is_ok());
    assert!(queue.preempt.step(Step::Reactivate).is_ok());
}

/// A queue that is dropped while it is held does what it was given.
#[test]
fn a_queue_that_is_dropped_while_held_runs_to_its_end() {
    let (kernels, mut device) = opened();
    let mut queue = device.open(QueueId::new(0, 0), gated()).expect("a queue");
    assert_eq!(queue.caps.level, Level::Deactivate);
    let word = counter();
    queue.preempt.step(Step::Deactivate).expect("a hold");
    for n in 0..5 {
        let command = StreamCommand::native(kernels.add(0, word));
        queue.submit.launch(CmdId(n), &command, true).expect("a launch");
    }
    // On a busy machine a launch may take long enough that the gates open for it.
    common::throughout("nothing runs while it is held", || {
        word.load(std::sync::atomic::Ordering::Acquire) == 0 || device.forced_open() > 0
    });
    drop(queue);
    until("the end of all five", || word.load(std::sync::atomic::Ordering::Acquire) == 5);
}

/// Filling the ring of a held queue past the limit that the backend names blocks the launch. The
/// gates open for as long as it takes, and that is counted.
#[test]
fn a_launch_that_blocks_opens_the_gates() {
    let (kernels, mut device) = opened();
    let mut queue = device.open(QueueId::new(0, 0), gated()).expect("a queue");
    let word = counter();
    queue.preempt.step(Step::Deactivate).expect("a hold");
    let start = Instant::now();
    let command = StreamCommand::native(kernels.add(0, word));
    // Without fences, so that only the ring is full.
    for n in 0..u64::from(device.entries_max()) * 8 {
        queue.submit.launch(CmdId(n), &command, false).expect("a launch");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "it hung");
    assert!(device.forced_open() >= 1, "no gate was forced open");
    queue.preempt.step(Step::Reactivate).expect("the end of the hold");
}

/// A call that waits for the whole device comes back though a queue is held.
#[test]
fn a_call_for_the_whole_device_is_made_with_gates_open() {
    let (kernels, mut device) = opened();
    let mut queue = device.open(QueueId::new(0, 0), gated()).expect("a queue");
    let word = counter();
    queue.preempt.step(Step::Deactivate).expect("a hold");
    let command = StreamCommand::native(kernels.add(0, word));
    queue.submit.launch(CmdId(0), &command, true).expect("a launch");
    let before = word.load(std::sync::atomic::Ordering::Acquire);
    device.with_gates_open(|| {
        until("the command", || word.load(std::sync::atomic::Ordering::Acquire) == 1);
    });
    // As above.
    assert!(before == 0 || device.forced_open() > 0);
    queue.submit.launch(CmdId(1), &command, true).expect("a launch");
    common::throughout("the hold is in effect again", || {
        word.load(std::sync::atomic::Ordering::Acquire) == 1 || device.forced_open() > 0
    });
    queue.preempt.step(Step::Reactivate).expect("the end of the hold");
    until("the second", || word.load(std::sync::atomic::Ordering::Acquire) == 2);
}
