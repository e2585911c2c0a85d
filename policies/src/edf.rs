//! Earliest deadline first, and K of them at a time.
//!
//! A queue's deadline is so long after it became ready as its hint says. On each device the ready
//! queue with the earliest deadline runs ([`Edf`]), or the K earliest ([`Kedf`], K = 1 by default).
//! A queue without a hint has a day, so it comes after all that have a sensible one, and among its
//! like whoever became ready first goes first. At equal deadlines whoever runs goes on. Idle queues
//! take no place. [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never
//! run.
//!
//! On a device that interrupts (Lv3), with commands of one queue in sequence, EDF meets every
//! deadline that any policy could meet, less the time that interrupting takes.
//!
//! A queue that is never idle keeps the deadline of the moment when it became ready: it is one long
//! request. Wait for each request to give the next one a deadline of its own.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

use crate::choose::{self, Width};

/// The deadline of a queue without a hint.
const UNHINTED: Duration = Duration::from_ms(86_400_000);

fn deadline(info: &QueueInfo) -> Option<u64> {
    let after_ready = info.hints.deadline.unwrap_or(UNHINTED);
    Some((info.report.ready_since + after_ready).as_ns())
}

/// Earliest deadline first. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Edf;

impl Policy for Edf {
    fn name(&self) -> &'static str {
        "edf"
    }

    fn observe(&mut self, _now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        choose::observe(queue, event, queues);
    }

    fn decide(
        &mut self,
        _now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        choose::decide(changed, queues, out, Width::Top(1), deadline);
    }
}

/// The K earliest deadlines first, on each device. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Kedf {
    k: u32,
}

impl Kedf {
    /// With so many at a time, at least 1.
    #[must_use]
    pub const fn new(k: u32) -> Self {
        Self { k: if k == 0 { 1 } else { k } }
    }
}

impl Default for Kedf {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Policy for Kedf {
    fn name(&self) -> &'static str {
        "kedf"
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::K(k) = hint else { return false };
        *self = Self::new(k);
        true
    }

    fn observe(&mut self, _now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        choose::observe(queue, event, queues);
    }

    fn decide(
        &mut self,
        _now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        choose::decide(changed, queues, out, Width::Top(self.k), deadline);
    }
}
