//! Earliest deadline first, and K of them at a time.
//!
//! A queue's deadline is the time at which it became ready plus the time of its hint. On each
//! device the ready queue with the earliest deadline runs ([`Edf`]), or the K earliest ([`Kedf`],
//! K = 1 by default).
//! A queue without a hint has a day, so it comes after all queues with a sensible one, and of two
//! such queues the one that became ready first goes first. At equal deadlines a queue that runs
//! goes on. Idle queues take no place.
//! [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run.
//!
//! On a device that interrupts (Lv3), with commands of one queue in sequence, EDF meets every
//! deadline that any policy could meet, less the time that interrupting takes (Liu and Layland,
//! "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment", 1973).
//!
//! A queue that is never idle keeps the deadline of the moment when it became ready: it is one long
//! request. Wait for each request to give the next one a deadline of its own. No queue with a
//! deadline starves beside queues that are idle now and then: in time its deadline is the
//! earliest. A queue that is never idle again, as in overload, keeps the earliest deadline and
//! starves others.

use xsched_core::hint::{HintKind, PolicyHint};
use xsched_core::scheduler::QueueInfo;
use xsched_core::time::{Duration, Instant};

use crate::choose::{Chooser, Rules, Width};
use crate::engine::policy;

/// The deadline of a queue without a hint.
const UNHINTED: Duration = Duration::from_ms(86_400_000);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Earliest {
    k: u32,
    settable: bool,
}

pub(crate) const EDF: Earliest = Earliest { k: 1, settable: false };
pub(crate) const KEDF: Earliest = Earliest { k: 1, settable: true };

impl Rules for Earliest {
    const STRICT: bool = false;
    const HINTS: &[HintKind] = &[HintKind::Deadline];

    fn key(&self, _now: Instant, info: &QueueInfo) -> Option<u64> {
        let after_ready = info.hints.deadline.unwrap_or(UNHINTED);
        Some((info.report.ready_since + after_ready).as_ns())
    }

    fn width(&self) -> Width {
        Width::Top(self.k)
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let PolicyHint::K(k) = hint else { return false };
        if self.settable {
            self.k = k.max(1);
        }
        self.settable
    }
}

policy! {
    /// Earliest deadline first. See the [module](self).
    Edf(Chooser<Earliest>) = Chooser::new(EDF), "edf"
}

policy! {
    /// The K earliest deadlines first, on each device. See the [module](self).
    Kedf(Chooser<Earliest>) = Chooser::new(KEDF), "kedf"
}
