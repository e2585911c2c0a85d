//! Retiring: what the device has finished, what failed, and losing the device.

use super::{CommandSlot, Outcome, Queue, Retired};
use crate::fault::Fault;
use crate::store::Store;
use crate::time::{Duration, Instant};

impl<R: Store<CommandSlot>> Queue<R> {
    /// Commands that have failed so far, whether or not they have retired.
    #[must_use]
    pub const fn failures(&self) -> u64 {
        self.failures
    }

    pub(super) fn on_retired(&mut self, now: Instant, retired: Retired) {
        let count = retired.upto.count();
        if count > self.last_launch.max(self.device_retired) {
            self.anomalies.protocol += 1;
            return;
        }
        let sticky = match retired.outcome {
            Outcome::Ok => false,
            Outcome::Failed { fault, .. } => fault.is_sticky(),
        };
        if count <= self.device_retired {
            if sticky {
                self.lose();
            }
            return;
        }
        let commands = count - self.device_retired;
        if let Outcome::Failed { from, fault } = retired.outcome {
            self.anomalies.protocol += u64::from(from.0 >= count);
            self.fail_range(from.0.max(self.device_retired), count, fault);
        }
        self.device_retired = count;
        self.busy += retired.busy;
        self.last_progress = now;
        self.quiet = Duration::ZERO;
        self.fence_wait = self.fence_timeout;
        self.fence_refused = false;
        self.settle();
        self.measure(now, commands, &retired);
        if sticky {
            self.lose();
        }
    }

    fn measure(&mut self, now: Instant, commands: u64, retired: &Retired) {
        if let Some((cmd, launched)) = self.lone
            && retired.upto >= cmd
        {
            self.lone = None;
            if retired.upto == cmd && commands == 1 {
                self.window.on_lone_retired(launched, now, retired.busy);
            }
        }
        let backlog = self.submitted > self.cursor && self.hold_target().is_none();
        self.window.on_retired(commands, retired.busy, self.in_flight(), backlog);
        if (self.busy - self.busy_reported) >= self.progress_every {
            self.report_due = true;
        }
    }

    fn fail_range(&mut self, from: u64, to: u64, fault: Fault) {
        for n in from..to {
            let slot = self.slot_mut(n);
            if slot.fault.is_none() && !slot.settled {
                slot.fault = Some(fault);
                self.failures += 1;
            }
        }
    }

    /// Advances `retired` over everything the device is done with and everything that needs none.
    pub(super) fn settle(&mut self) {
        let before = self.retired;
        if self.settled == 0 {
            self.retired = self.retired.max(self.device_retired);
        } else {
            while self.retired < self.cursor {
                if self.slot(self.retired).settled {
                    self.settled -= 1;
                } else if self.retired >= self.device_retired {
                    break;
                }
                self.retired += 1;
            }
        }
        // A settled command that nothing precedes retires without the device.
        self.device_retired = self.device_retired.max(self.retired);
        if self.retired != before {
            self.after_retiring();
        }
    }

    fn after_retiring(&mut self) {
        if self.retired == self.submitted {
            self.report_due = true;
        }
        if self.watch != 0 && self.retired >= self.watch {
            self.watch = 0;
            self.report_due = true;
        }
    }

    /// The device is gone: everything that has not retired fails, and nothing more is taken.
    pub(super) fn lose(&mut self) {
        if self.lost {
            return;
        }
        self.lost = true;
        self.fail_range(self.retired, self.submitted, Fault::DeviceLost);
        self.cursor = self.submitted;
        self.launched = self.submitted;
        self.device_retired = self.submitted;
        self.retired = self.submitted;
        self.last_launch = 0;
        self.settled = 0;
        self.waiting = None;
        self.hold.device_lost();
        self.report_due = true;
        self.after_retiring();
    }
}
