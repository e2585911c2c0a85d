//! A process on a GPU, as the daemon knows it.

use xsched_core::hint::Hints;
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order, Report};
use xsched_core::time::{Duration, Instant};
use xsched_hal_stream::SharedPage;
use xsched_node::{holder, is_loaded, set_unwanted, set_wanted};

/// A process on a GPU.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) client: u64,
    pub(crate) device: DeviceId,
    /// Its queue in the scheduler machine.
    pub(crate) queue: QueueId,
    /// The first has the count of queues with work.
    pages: Vec<SharedPage>,
    pub(crate) report: Report,
    is_held: bool,
    pub(crate) by_hand: bool,
    /// Since when it is idle, running or held.
    pub(crate) since: Instant,
    pub(crate) holds: u64,
    /// Reports are wanted each time this much device time has been used.
    progress: Duration,
    reported: Duration,
}

impl Unit {
    /// A process that has handed its first page over.
    pub(crate) fn new(client: u64, device: DeviceId, queue: QueueId, now: Instant) -> Self {
        Self {
            client,
            device,
            queue,
            pages: Vec::new(),
            report: Report::default(),
            is_held: false,
            by_hand: false,
            since: now,
            holds: 0,
            progress: Duration::MAX,
            reported: Duration::ZERO,
        }
    }

    /// Adds a page, whose gates are closed if the others are.
    pub(crate) fn add(&mut self, page: SharedPage) {
        if self.is_closed() {
            page.close_all(holder());
        } else {
            // A daemon before this one may have closed them.
            page.release_all(holder());
        }
        self.pages.push(page);
    }

    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Whether it wants to run and may.
    pub(crate) fn runs(&self) -> bool {
        self.report.pending() && !self.is_closed()
    }

    /// Whether its gates are closed.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_held || self.by_hand
    }

    /// Says whether the process is to wake the daemon when its work begins or ends.
    pub(crate) fn set_wanted(&self, wanted: bool) {
        let Some(page) = self.pages.first() else { return };
        if wanted {
            // Its work is looked at again before the daemon sleeps.
            set_wanted(page);
        } else {
            set_unwanted(page);
        }
    }

    /// Looks whether it has work. True if that has changed.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        let loaded = self.pages.first().is_some_and(is_loaded);
        if loaded == self.report.pending() {
            return false;
        }
        self.since = now;
        if loaded {
            self.report.submitted += 1;
            self.report.launched = self.report.submitted;
            self.report.ready_since = now;
        } else {
            self.report.retired = self.report.submitted;
        }
        true
    }

    /// It has had its part of the GPU for so long. True if the scheduler wants to know now.
    pub(crate) fn used(&mut self, time: Duration) -> bool {
        let busy_ns = self.report.busy.as_ns().saturating_add(time.as_ns());
        self.report.busy = Duration::from_ns(busy_ns);
        self.left_to_report().as_ns() == 0
    }

    /// The device time until the scheduler wants to know; [`Duration::MAX`] for never.
    pub(crate) fn left_to_report(&self) -> Duration {
        if self.progress == Duration::MAX {
            return Duration::MAX;
        }
        let used = self.report.busy.as_ns().saturating_sub(self.reported.as_ns());
        Duration::from_ns(self.progress.as_ns().saturating_sub(used))
    }

    /// What is told the scheduler now.
    pub(crate) const fn take_report(&mut self) -> Report {
        self.reported = self.report.busy;
        self.report
    }

    /// Does what the scheduler orders. True if it is to hear of it.
    pub(crate) fn obey(&mut self, order: Order, now: Instant) -> bool {
        match order {
            Order::Run { epoch } => {
                self.report.epoch = epoch;
                self.report.hold = HoldState::Running;
                self.change(now, |unit| unit.is_held = false);
            }
            Order::Hold { epoch, .. } => {
                self.report.epoch = epoch;
                self.report.hold = HoldState::Held(Level::Deactivate);
                self.change(now, |unit| unit.is_held = true);
            }
            Order::Progress { every } => {
                self.progress = every;
                return false;
            }
            Order::Watch { .. } | Order::Reached { .. } => return false,
        }
        true
    }

    /// Holds it by hand, or ends that.
    pub(crate) fn hold_by_hand(&mut self, hold: bool, now: Instant) {
        self.report.suspended = hold;
        self.change(now, |unit| unit.by_hand = hold);
    }

    /// Changes what it is held for, and its gates if that matters.
    fn change(&mut self, now: Instant, change: impl FnOnce(&mut Self)) {
        let before = self.is_closed();
        change(self);
        let closed = self.is_closed();
        if closed == before {
            return;
        }
        self.apply();
        if self.report.pending() {
            self.since = now;
            self.holds += u64::from(closed);
        }
    }

    /// Closes or opens all its gates, whatever they were.
    pub(crate) fn apply(&self) {
        for page in &self.pages {
            if self.is_closed() {
                page.close_all(holder());
            } else {
                page.release_all(holder());
            }
        }
    }

    /// Renews the lease of its hold.
    pub(crate) fn renew(&self) {
        self.pages.iter().for_each(SharedPage::renew_all);
    }

    /// Opens its gates for the last time.
    pub(crate) fn let_go(&self) {
        self.pages.iter().for_each(|page| page.release_all(holder()));
    }

    /// `idle`, `running` or `held`.
    pub(crate) fn state(&self) -> &'static str {
        match (self.report.pending(), self.is_closed()) {
            (_, true) if self.by_hand => "held",
            (false, _) => "idle",
            (true, true) => "held",
            (true, false) => "running",
        }
    }
}

/// What is known of a process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) name: String,
    pub(crate) hints: Hints,
    pub(crate) by_hand: bool,
    /// Wakes the daemon.
    pub(crate) doorbell: std::os::fd::OwnedFd,
}
