//! Queues of streams on a device in memory, whose clock the test sets.
#![expect(unsafe_code, reason = "drivers' handles")]

mod bursts;
mod busy_time;
mod contexts;
mod ends;
mod failing_drivers;
mod flags;
mod forecasts;
mod gates;
mod graphs;
mod levels;
mod mock;
mod quiet;
mod self_test;
mod shared_words;
mod stream_of_thread;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use mock::{LEGACY, Mock, Nature, PER_THREAD, Put};
use xsched_core::hal::{Backend, Halves, LevelAdapter, Retire, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Level, Step};
use xsched_hal_stream::{
    Holder, NoGate, PageSource, SharedPage, Spacing, StreamApi, StreamCommand, StreamConfig,
    StreamDevice, StreamDeviceConfig, StreamError, StreamPreempt, StreamRetire, StreamSubmit,
};
use xsched_node::{GATES_PER_PAGE, NodeRank};

type Queue = Halves<StreamSubmit<Mock>, StreamRetire<Mock>, LevelAdapter<StreamPreempt<Mock>>>;

const US: u64 = 1_000;

fn with_entries(entries_max: Option<u32>) -> StreamDeviceConfig {
    let mut config = StreamDeviceConfig::default();
    config.entries_max = entries_max;
    // Calls are counted here.
    config.probe_every = Duration::ZERO;
    config
}

/// A device whose gates have been tested.
fn device(nature: Nature) -> StreamDevice<Mock> {
    tested(Mock::new(nature), with_entries(Some(64)))
}

fn tested(mock: Mock, config: StreamDeviceConfig) -> StreamDevice<Mock> {
    let device = StreamDevice::new(mock, config).expect("the driver refuses nothing that all need");
    let _ = device.level();
    device
}

fn open(device: &mut StreamDevice<Mock>, spacing_ns: u64) -> Queue {
    let config = StreamConfig::default().spacing(Spacing::of_ns(spacing_ns));
    device.open(QueueId::new(0, 0), config).expect("a queue")
}

/// Command that takes `ns` nanoseconds.
fn command(ns: u64) -> StreamCommand<Mock> {
    StreamCommand::native(ns)
}

/// Lists what was put into the stream that was made last.
fn puts(device: &StreamDevice<Mock>) -> Vec<Put> {
    device.api().puts().pop().expect("a stream")
}

/// Launches commands with a fence each, numbered from `first`.
fn launch(queue: &mut Queue, first: u64, count: u64, ns: u64) {
    for n in first..first + count {
        queue.submit.launch(CmdId(n), &command(ns), true).expect("a launch");
    }
}

/// One past the newest command that has retired, and the device time told with it, if any has.
fn poll(queue: &mut Queue) -> Option<(u64, u64)> {
    let retired = queue.retire.poll_retired().expect("an answer")?;
    Some((retired.upto.count(), retired.busy.as_ns()))
}
