//! Metrics as Prometheus sees them.

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
    let first = config(0, Level::Block, 4).with_name("first");
    let first = device.queue(first, Hand::at_once()).unwrap();
    let second = device.queue(config(0, Level::Block, 4), Hand::at_once()).unwrap();
    for n in 0..3 {
        first.submit(n.into()).unwrap();
    }
    first.wait_all();
    second.suspend(Level::Block);
    second.submit(1.into()).unwrap();
    let text = metrics.encode();
    for line in [
        "xsched_submitted_total{queue=\"first\",id=\"0-1\",device=\"device-0\",policy=\"fcfs\"} 3",
        "xsched_retired_total{queue=\"first\",id=\"0-1\",device=\"device-0\",policy=\"fcfs\"} 3",
        "xsched_pending{queue=\"first\",id=\"0-1\",device=\"device-0\",policy=\"fcfs\"} 0",
        "xsched_pending{queue=\"1-1\",id=\"1-1\",device=\"device-0\",policy=\"fcfs\"} 1",
        "xsched_in_flight{queue=\"1-1\",id=\"1-1\",device=\"device-0\",policy=\"fcfs\"} 0",
        "xsched_held_by_hand{queue=\"1-1\",id=\"1-1\",device=\"device-0\",policy=\"fcfs\"} 1",
        "xsched_held_level{queue=\"1-1\",id=\"1-1\",device=\"device-0\",policy=\"fcfs\"} 1",
        "xsched_threshold{queue=\"first\",id=\"0-1\",device=\"device-0\",policy=\"fcfs\"} 4",
        "# TYPE xsched_busy_seconds counter",
        "# TYPE xsched_latency_seconds histogram",
        "xsched_failed_open_total 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    for part in [
        "xsched_holds_total{queue=\"1-1\",",
        "xsched_hold_latency_seconds_count{queue=\"1-1\",",
        "xsched_latency_seconds_count{queue=\"first\",",
        // Every histogram ends with this bucket.
        "xsched_latency_seconds_bucket{le=\"+Inf\",queue=\"first\",",
    ] {
        let line = text.lines().find(|line| line.starts_with(part));
        let value = line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{part} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    runtime.set_policy(xsched::policies::hpf::Hpf::default()).unwrap();
    assert!(metrics.encode().contains("policy=\"hpf\""));
}
