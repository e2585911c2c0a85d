//! What Prometheus sees.

use xsched::policies::fcfs::Fcfs;
use xsched_core::level::Level;

use crate::device::Hand;
use crate::{bench, config};

#[test]
fn every_queue_has_its_figures_while_it_is_there() {
    let (runtime, device) = bench(Fcfs);
    let metrics = runtime.metrics();
    let text = metrics.encode();
    assert!(text.contains("xsched_scheduling 1") && !text.contains("queue="), "{text}");
    let first = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    let second = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    for n in 0..3 {
        first.submit(n.into()).unwrap();
    }
    first.wait_all();
    second.suspend(Level::Block);
    second.submit(1.into()).unwrap();
    let text = metrics.encode();
    for line in [
        "xsched_submitted_total{queue=\"0-1\"} 3",
        "xsched_retired_total{queue=\"0-1\"} 3",
        "xsched_pending{queue=\"0-1\"} 0",
        "xsched_pending{queue=\"1-1\"} 1",
        "xsched_in_flight{queue=\"1-1\"} 0",
        "xsched_held_by_hand{queue=\"1-1\"} 1",
        "xsched_held_level{queue=\"1-1\"} 1",
        "xsched_threshold{queue=\"0-1\"} 4",
        "# TYPE xsched_busy_seconds counter",
        "xsched_failed_open_total 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}
