//! The invariants of one queue, and the comparison of all that can be seen of it with its model.

use xsched_core::check::{BoundedCheck, HoldCheck, OrderCheck, WaitCheck, WindowCheck};
use xsched_core::id::CmdId;
use xsched_core::level::Step;
use xsched_core::message::{HoldState, Report};
use xsched_core::queue::{CommandSlot, Queue, Status};
use xsched_core::time::Duration;

use super::queue::Run;
use super::queue_model::Place;
use super::{Checked, require, same};

/// The checkers, and what is excused.
#[derive(Debug)]
pub(super) struct Checks {
    pub(super) order: OrderCheck,
    pub(super) window: WindowCheck,
    pub(super) hold: Holding,
    pub(super) wait: WaitCheck,
    ring: BoundedCheck,
    /// Entries that the device has room for.
    entries: u64,
    /// Fences that were put once more because something went wrong.
    more_fences: u64,
    /// A fence was lost or refused; only the timer, or more work, brings another.
    lost_fence: bool,
    /// True if a wait for each command would have returned, at the last look.
    final_before: Vec<bool>,
    counters: [u64; 5],
}

/// State of the hold as the queue says it, and the checker that takes it at its word.
#[derive(Debug, Default)]
pub(super) struct Holding {
    check: HoldCheck,
    said: Option<HoldState>,
}

impl Holding {
    /// The queue may have changed its mind.
    pub(super) fn sync(&mut self, queue: &Queue<Vec<CommandSlot>>) -> Checked {
        // There is no promise about what still runs on a lost device.
        let lost = queue.is_lost();
        let state = if lost { HoldState::Running } else { queue.hold_state() };
        if self.said.replace(state) == Some(state) {
            return Ok(());
        }
        match state {
            HoldState::Held(level) => self.check.acknowledged(level)?,
            _ => self.check.released(),
        }
        Ok(())
    }

    /// The device carried out a step; `running` if a command is on it.
    pub(super) fn stepped(&mut self, step: Step, running: bool) -> Checked {
        match step {
            Step::Interrupt => self.check.stopped(),
            // What was stopped continues, past its gate.
            Step::Restore if running => self.check.started(CmdId(0), false)?,
            _ => {}
        }
        Ok(())
    }
}

impl Checks {
    pub(super) fn new(slots: u64, entries: u64) -> Self {
        Self {
            order: OrderCheck::default(),
            window: WindowCheck::default(),
            hold: Holding::default(),
            wait: WaitCheck::default(),
            ring: BoundedCheck::new(slots),
            entries,
            more_fences: 0,
            lost_fence: false,
            final_before: Vec::new(),
            counters: [0; 5],
        }
    }

    pub(super) fn launched(&mut self, cmd: CmdId, limit: u64) -> Checked {
        self.order.launched(cmd)?;
        self.window.launched(limit)?;
        Ok(self.hold.check.launched(cmd)?)
    }

    pub(super) fn started(&mut self, cmd: CmdId, gated: bool) -> Checked {
        self.order.started(cmd)?;
        Ok(self.hold.check.started(cmd, gated)?)
    }

    pub(super) fn finished(&mut self, cmd: CmdId) {
        self.hold.check.stopped();
        self.wait.finished(cmd);
    }

    /// The device holds this many entries.
    pub(super) fn room(&self, entries: u64) -> Checked {
        let room = self.entries + self.more_fences;
        require(entries <= room, format_args!("{entries} entries on a device with room for {room}"))
    }

    pub(super) fn more_fences(&mut self) {
        self.more_fences += 1;
    }

    pub(super) fn lost_fence(&mut self) {
        self.lost_fence = true;
    }

    /// A timer has fired: lost fences were put again.
    pub(super) fn timer_fired(&mut self) {
        self.lost_fence = false;
        self.more_fences += 1;
    }

    pub(super) fn may_need_timer(&self) -> Checked {
        require(self.lost_fence, "a timer is needed although no fence was lost")
    }

    pub(super) fn order_drained(&self, lost: bool) -> Checked {
        if lost { Ok(()) } else { Ok(self.order.drained()?) }
    }
}

impl Run<'_> {
    /// Compares everything that can be seen.
    pub(super) fn compare(&mut self) -> Checked {
        self.compare_counters()?;
        self.compare_hold()?;
        self.compare_statuses()?;
        self.compare_report()?;
        self.check_fences()
    }

    fn compare_counters(&mut self) -> Checked {
        let (queue, model) = (&self.queue, &self.model);
        same("submitted", model.commands.len() as u64, queue.submitted())?;
        same("launched", model.count(|c| c.passed), queue.launched())?;
        same("retired", model.retired(), queue.retired())?;
        same("the launch point", model.launch_point() as u64, queue.next_launch().0)?;
        same("in flight", model.in_flight(), queue.in_flight())?;
        same("full", model.is_full(), queue.is_full())?;
        same("lost", model.lost, queue.is_lost())?;
        let waiting = model.waiting.and_then(|n| model.commands[n].wait);
        same("what it waits for", waiting, queue.waiting())?;
        let anomalies = queue.anomalies();
        same("stale orders", model.stale_orders, anomalies.stale_orders)?;
        same("nonsense", model.nonsense, anomalies.protocol)?;
        same("failed steps", model.failed_steps, anomalies.failed_steps)?;
        let report = queue.report();
        same("failures", model.count(|c| c.fault.is_some()), report.failures)?;
        let counters = [
            report.submitted,
            report.launched,
            report.retired,
            report.failures,
            report.busy.as_ns(),
        ];
        let back = counters.iter().zip(&self.checks.counters).any(|(now, before)| now < before);
        require(!back, format_args!("a counter went back: {counters:?}"))?;
        self.checks.counters = counters;
        Ok(self.checks.ring.look(report.submitted - report.retired)?)
    }

    fn compare_hold(&mut self) -> Checked {
        let (queue, model) = (&self.queue, &self.model);
        let report = queue.report();
        same("the hold", model.hold_state(), queue.hold_state())?;
        same("the epoch", model.epoch, report.epoch)?;
        same("suspended", model.suspended.is_some(), report.suspended)?;
        same("failed open", model.failed_open, report.failed_open)?;
        match queue.hold_state() {
            HoldState::Held(level) => self.counters.count(
                ["held at Lv1", "held at Lv2", "held at Lv3"][usize::from(level.number()) - 1],
            ),
            HoldState::Holding => self.counters.count("holding"),
            HoldState::Resuming => self.counters.count("resuming"),
            _ => {}
        }
        Ok(())
    }

    fn compare_statuses(&mut self) -> Checked {
        let total = self.model.commands.len();
        self.checks.final_before.resize(total, false);
        same("the next command", Status::Unknown, self.queue.status(CmdId(total as u64)))?;
        for n in 0..total {
            let cmd = CmdId(n as u64);
            let status = self.queue.status(cmd);
            same(format_args!("command {n}"), self.model.status(n), status)?;
            let over = status.is_final();
            require(over || !self.checks.final_before[n], "an outcome was taken back")?;
            if over && !std::mem::replace(&mut self.checks.final_before[n], true) {
                self.check_wait(cmd, status)?;
            }
        }
        Ok(())
    }

    /// A wait for the command returns now.
    fn check_wait(&mut self, cmd: CmdId, status: Status) -> Checked {
        let command = &self.model.commands[cmd.0 as usize];
        if let Some(fault) = command.fault {
            self.checks.wait.failed(cmd, CmdId(cmd.count()), fault);
        } else if command.settled {
            // A wait that was reached: nothing before it is open.
            let before = &self.model.commands[..cmd.0 as usize];
            let over = before.iter().all(|c| c.place == Place::Retired);
            require(over, "a wait retired before what precedes it")?;
            self.checks.wait.finished(cmd);
        }
        match status {
            Status::Done => self.checks.wait.returned(cmd, None)?,
            Status::Failed(fault) => self.checks.wait.returned(cmd, Some(fault))?,
            _ => {}
        }
        Ok(())
    }

    /// The last report that was given says all that the scheduler must know.
    fn compare_report(&mut self) -> Checked {
        let (now, last) = (self.queue.report(), self.last_report);
        if std::mem::take(&mut self.progressed) {
            let unsaid = now.busy - last.busy;
            let fine = unsaid == Duration::ZERO || unsaid < self.progress_every;
            require(fine, format_args!("{unsaid} of device time were not reported"))?;
        }
        let essence = |r: &Report| {
            let flags = (r.suspended, r.failed_open, r.lost, r.pending());
            (r.epoch, r.hold, flags, r.ready_since, r.waiting)
        };
        same("what was last reported", essence(&now), essence(&last))?;
        let watch = self.model.watch;
        let seen = |r: &Report| (r.submitted >= watch, r.retired >= watch);
        same("what is watched", seen(&now), seen(&last))
    }

    /// Checks that what is on the device and unseen has a fence to come, and what is waited for.
    fn check_fences(&mut self) -> Checked {
        let forgotten = self.model.forgotten.map_or(usize::MAX, |n| n as usize);
        let commands = self.model.commands.iter().enumerate().take(forgotten);
        let mut unseen = commands.filter(|(_, c)| c.place == Place::Device).map(|(n, _)| n as u64);
        let first = unseen.next();
        let Some(first) = first else {
            if !self.model.on_device() {
                self.checks.lost_fence = false;
            }
            return Ok(());
        };
        let checks = &self.checks;
        if checks.lost_fence || self.entered.is_some() || self.answer.is_some() {
            let timer = self.queue.poll_timeout().is_some() || !self.model.device_is_free();
            return require(timer, "a fence was lost, and there is no timer");
        }
        let told = |n| self.device.will_tell(n);
        require(told(first), format_args!("no message will tell of command {first}"))?;
        let wanted =
            |n: &usize| self.model.commands[*n].wanted || self.model.watch == *n as u64 + 1;
        let passed = self.model.launch_point().min(forgotten);
        let Some(wanted) = (0..passed).rev().find(wanted) else { return Ok(()) };
        let before = (0..=wanted).rev().find(|&n| self.model.commands[n].place == Place::Device);
        let seen = before.is_none_or(|n| told(n as u64));
        require(seen, format_args!("command {wanted} is waited for and not fenced"))
    }
}
