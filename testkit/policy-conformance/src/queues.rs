//! The queues of a rig: what they want, and what they are doing.

use rand::RngExt;
use xsched_core::hint::{Hints, Laxity, Priority};
use xsched_core::id::QueueId;
use xsched_core::message::{Claim, Report};
use xsched_core::time::{Duration, Instant};

use crate::below;
use xsched_sim::sample::Rng;

/// Bursts of device time and pauses between them. A pause of 0 is none: the next burst is there as
/// soon as the last one has ended.
const BURSTS_NS: [u64; 4] = [100_000, 1_000_000, 10_000_000, 100_000_000];
const PAUSES_NS: [u64; 5] = [0, 20_000, 200_000, 2_000_000, 20_000_000];

/// A queue, its device's work for it included.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) id: QueueId,
    /// Queues are numbered as they come; one in a reused slot has a number of its own.
    pub(super) number: usize,
    pub(super) device: usize,
    pub(super) report: Report,
    /// True if it was last ordered to run, not to hold.
    pub(super) runs: bool,
    /// Device time that is left of a burst.
    pub(super) left_ns: u64,
    /// When the pause is over; `None` while it is ready.
    pub(super) wakes_ns: Option<u64>,
    /// Device time that it has not reported, and how much of it makes a report.
    pub(super) unreported_ns: u64,
    pub(super) every_ns: u64,
    burst_ns: u64,
    pause_ns: u64,
    rng: Rng,
}

impl Queue {
    /// A queue that becomes ready at a time of its own; never, if it is `quiet`.
    pub(super) fn new(
        id: QueueId,
        number: usize,
        device: usize,
        now_ns: u64,
        quiet: bool,
        mut rng: Rng,
    ) -> Self {
        let burst_ns = BURSTS_NS[below(BURSTS_NS.len(), &mut rng)];
        let pause_ns = PAUSES_NS[below(PAUSES_NS.len(), &mut rng)];
        let first_ns = now_ns + rng.random_range(0..2_000_000);
        Self {
            id,
            number,
            device,
            report: Report::default(),
            runs: true,
            left_ns: 0,
            wakes_ns: Some(if quiet { u64::MAX } else { first_ns }),
            unreported_ns: 0,
            every_ns: u64::MAX,
            burst_ns,
            pause_ns,
            rng,
        }
    }

    /// As a queue that is ready from a time on, in bursts of about 3 ms with pauses of about 1 ms.
    pub(super) fn regular(mut self, from_ns: u64, rng: Rng) -> Self {
        (self.burst_ns, self.pause_ns, self.wakes_ns) = (3_000_000, 1_000_000, Some(from_ns));
        self.rng = rng;
        self
    }

    pub(super) const fn ready(&self) -> bool {
        self.report.pending()
    }

    pub(super) const fn working(&self) -> bool {
        self.runs && self.ready()
    }

    /// Device time until it has something to say.
    pub(super) fn until_event_ns(&self) -> u64 {
        self.left_ns.min(self.every_ns.saturating_sub(self.unreported_ns))
    }

    /// Notes that the queue has used this much device time.
    pub(super) fn work(&mut self, device_ns: u64) {
        self.left_ns = self.left_ns.saturating_sub(device_ns);
        self.unreported_ns += device_ns;
    }

    /// Report that is due now, if any.
    pub(super) fn due(&mut self, now_ns: u64) -> bool {
        if self.wakes_ns.is_some_and(|at| at <= now_ns) {
            self.begin(now_ns);
        } else if self.ready() && self.left_ns == 0 {
            self.end(now_ns);
        } else if self.unreported_ns < self.every_ns {
            return false;
        }
        true
    }

    fn begin(&mut self, now_ns: u64) {
        self.left_ns = self.rng.random_range(1..=2 * self.burst_ns);
        self.report.submitted += 1;
        let turn = self.report.submitted / 3 % 8;
        self.report.claim = match turn {
            3 => Claim::Part,
            6.. => Claim::Little,
            _ => Claim::Whole,
        };
        self.report.ready_since = Instant::from_ns(now_ns);
        self.wakes_ns = None;
    }

    fn end(&mut self, now_ns: u64) {
        self.stop();
        if self.pause_ns == 0 {
            self.begin(now_ns);
        } else {
            self.wakes_ns = Some(now_ns + self.rng.random_range(1..=2 * self.pause_ns));
        }
    }

    /// Ends what the queue has to do.
    pub(super) fn stop(&mut self) {
        (self.report.launched, self.report.retired) =
            (self.report.submitted, self.report.submitted);
        self.wakes_ns = Some(u64::MAX);
    }

    /// The report as it is sent now.
    pub(super) fn say(&mut self) -> Report {
        let ns = std::mem::take(&mut self.unreported_ns);
        self.report.busy += Duration::from_ns(ns);
        self.report
    }
}

/// Hints of all kinds, with few values, so that there are ties.
pub(super) fn draw_hints(rng: &mut Rng) -> Hints {
    let priority = |rng: &mut Rng| {
        let value = [-3, 0, 0, 2, 5, 9][below(6, rng)];
        Priority::new(value).unwrap_or_default()
    };
    let mut hints = Hints::with_priority(priority(rng));
    if rng.random_bool(0.1) {
        hints.priority = Priority::NO_EXECUTE;
    }
    hints.utilization = rng.random_bool(0.7).then(|| [5, 10, 30, 50][below(4, rng)]);
    hints.weight = rng.random_range(1..=10);
    let ms = |rng: &mut Rng| Duration::from_ms(rng.random_range(1..=20));
    hints.deadline = rng.random_bool(0.7).then(|| ms(rng));
    hints.laxity = rng.random_bool(0.5).then(|| Laxity {
        lax: ms(rng),
        lax_priority: priority(rng),
        critical_priority: priority(rng),
    });
    hints.active_window = rng.random_bool(0.3);
    hints.cpu_priority = [-20, 0, 0, 5, 150][below(5, rng)];
    hints
}

/// Extreme hints of an earlier queue in the slot.
pub(super) fn extreme_hints(rng: &mut Rng) -> Hints {
    let extremes = [Priority::NO_EXECUTE, Priority::MIN, Priority::MAX];
    let mut hints = Hints::with_priority(extremes[below(3, rng)]);
    hints.utilization = Some([0, 100][below(2, rng)]);
    hints.weight = [1, 1_000_000][below(2, rng)];
    hints.deadline = Some(Duration::from_us(1));
    let (lax_priority, critical_priority) = (extremes[below(3, rng)], extremes[below(3, rng)]);
    hints.laxity = Some(Laxity { lax: Duration::from_ms(1), lax_priority, critical_priority });
    hints.active_window = rng.random_bool(0.5);
    hints.cpu_priority = [-20, 200][below(2, rng)];
    hints
}
