//! Highest priority first across devices.
//!
//! As [`Hpf`](crate::hpf::Hpf), with one highest priority for all devices: while a queue is ready
//! on any of them, every queue of lower priority holds on all. For programs whose devices disturb
//! each other, through the memory that they share, say.

use xsched_core::hint::Priority;
use xsched_core::policy::{Changed, Decisions, Policy, Urgency};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;

/// The policy. It has no state of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hhpf;

impl Policy for Hhpf {
    fn name(&self) -> &'static str {
        "hhpf"
    }

    fn decide(
        &mut self,
        _now: Instant,
        _changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let top = queues.devices().filter_map(|device| queues.top_ready(device)).max();
        for device in queues.devices() {
            out.floor(device, Some(top.unwrap_or(Priority::MIN)), Urgency::NOW);
        }
    }
}
