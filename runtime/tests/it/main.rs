//! The runtime on a device that the tests have in their hand. Nothing here measures time; what must
//! happen "soon" is waited for, and fails after ten seconds.

mod batches;
mod closing;
mod device;
mod events;
mod failing;
mod feeding;
mod holding;
mod launcher;
#[cfg(feature = "metrics")]
mod metrics;
mod policies;
mod replay;
mod waiting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use device::{ByHand, Hand, Job};
use xsched::policies::fcfs::Fcfs;
use xsched::{Runtime, XQueue, XQueueConfig};
use xsched_core::hint::Priority;
use xsched_core::level::Level;
use xsched_core::policy::Policy;
use xsched_core::window::WindowConfig;

pub(crate) type TestQueue = XQueue<Job>;

/// Waits until it is so.
pub(crate) fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

pub(crate) fn config(priority: i32, level: Level, threshold: u32) -> XQueueConfig {
    XQueueConfig::default()
        .with_priority(Priority::new(priority).unwrap())
        .with_level(level)
        .with_window(WindowConfig::fixed(threshold, threshold.div_ceil(2)))
}

/// A runtime with this policy, and a device in hand.
pub(crate) fn bench(policy: impl Policy + Send + 'static) -> (Runtime, xsched::Device<ByHand>) {
    let runtime = Runtime::new(policy).unwrap();
    let device = runtime.device(ByHand).unwrap();
    (runtime, device)
}

/// One queue without scheduling.
pub(crate) fn lone(threshold: u32) -> (Arc<Hand>, TestQueue) {
    let (_, device) = bench(Fcfs);
    let hand = Arc::new(Hand::default());
    let queue = device.queue(config(0, Level::Deactivate, threshold), hand.clone()).unwrap();
    (hand, queue)
}
