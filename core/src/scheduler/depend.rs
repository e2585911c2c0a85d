//! Queues that wait for each other: readiness along a chain, inheritance of the right to run, and
//! deadlock.

use super::SchedulerError;
use super::state::{State, dirty};
use crate::id::{CmdId, EventRef, QueueId};
use crate::policy::{Event, Policy};
use crate::table::slot::{END, Edge, NONE};
use crate::time::Instant;

impl<P: Policy> State<'_, P> {
    /// The queue's next command waits for something else than before (or for nothing).
    pub(super) fn update_wait(&mut self, index: usize) {
        let event = self.queues[index].info.report.waiting;
        if self.queues[index].target.is_some() {
            self.unlink_wait(index);
        }
        let Some(event) = event else { return };
        let Ok(target) = self.find(event.queue) else {
            self.answer_wait(index, event, false);
            return;
        };
        if self.queues[target].info.report.retired > event.cmd.0 {
            self.answer_wait(index, event, true);
        } else if self.queues[target].info.report.lost {
            // It takes no more commands, so the event will never be.
            self.answer_wait(index, event, false);
        } else if self.closes_circle(index, event) {
            self.lists.stats.circles += 1;
            self.answer_wait(index, event, false);
        } else {
            self.link_wait(index, target, event);
        }
    }

    /// Returns whether the event cannot come because the queue itself stands in its way.
    fn closes_circle(&mut self, index: usize, mut event: EventRef) -> bool {
        if self.queues[index].waiters == NONE && event.queue.index() != index {
            // No chain of waits comes back to a queue that no other one waits for.
            return false;
        }
        for _ in 0..self.queues.len() {
            self.lists.stats.waits_looked_at += 1;
            let at = event.queue.index();
            if !self.needs_launch(event) {
                return false;
            }
            if at == index {
                return true;
            }
            match self.queues[at].target {
                Some(next) => event = next,
                None => return false,
            }
        }
        true
    }

    /// Returns whether the command has yet to pass the launch point. What has passed it does not
    /// depend on what its queue waits for now. (Exact for a queue that waits, since it has stopped
    /// there.)
    fn needs_launch(&self, event: EventRef) -> bool {
        event.cmd.0 >= self.queues[event.queue.index()].info.report.launched
    }

    fn answer_wait(&mut self, index: usize, event: EventRef, ok: bool) {
        let slot = &mut self.queues[index];
        (slot.reached, slot.reached_ok) = (event, Some(ok));
        self.mark_dirty(index, dirty::REACHED);
    }

    fn link_wait(&mut self, index: usize, target: usize, event: EventRef) {
        let first = self.queues[target].waiters;
        let slot = &mut self.queues[index];
        slot.target = Some(event);
        slot.waiter_next = first;
        self.queues[target].waiters = index as u32;
        self.mark_dirty(target, dirty::WATCH);
        self.refresh_run(target);
    }

    /// Takes the queue off the list of the queue it waits for.
    pub(super) fn unlink_wait(&mut self, index: usize) {
        let Some(event) = self.queues[index].target.take() else { return };
        let next = core::mem::replace(&mut self.queues[index].waiter_next, NONE);
        let target = event.queue.index();
        let mut at = self.queues[target].waiters;
        if at == index as u32 {
            self.queues[target].waiters = next;
        } else {
            while at != NONE {
                let slot = &mut self.queues[at as usize];
                if slot.waiter_next == index as u32 {
                    slot.waiter_next = next;
                    break;
                }
                at = slot.waiter_next;
            }
        }
        if self.queues[target].live {
            self.mark_dirty(target, dirty::WATCH);
            self.refresh_run(target);
        }
    }

    /// Answers the waits for commands that have retired by now.
    pub(super) fn satisfy_waiters(&mut self, index: usize) {
        let retired = self.queues[index].info.report.retired;
        let mut at = self.queues[index].waiters;
        while at != NONE {
            let waiter = at as usize;
            at = self.queues[waiter].waiter_next;
            if let Some(event) = self.queues[waiter].target.filter(|e| e.cmd.0 < retired) {
                self.unlink_wait(waiter);
                self.push_work(waiter);
                self.answer_wait(waiter, event, true);
            }
        }
    }

    /// Ends waits for a queue that is gone or lost: the commands that wait fail.
    pub(super) fn abandon_waiters(&mut self, now: Instant, index: usize) {
        while self.queues[index].waiters != NONE {
            let waiter = self.queues[index].waiters as usize;
            let event = self.queues[waiter].target;
            self.unlink_wait(waiter);
            self.push_work(waiter);
            if let Some(event) = event {
                self.answer_wait(waiter, event, false);
            }
        }
        self.refresh_ready(now);
    }

    pub(super) fn push_work(&mut self, index: usize) {
        if self.queues[index].work_next == NONE {
            self.queues[index].work_next = self.lists.work;
            self.lists.work = index as u32;
        }
    }

    pub(super) fn push_waiters(&mut self, index: usize) {
        let mut at = self.queues[index].waiters;
        while at != NONE {
            self.push_work(at as usize);
            at = self.queues[at as usize].waiter_next;
        }
    }

    /// Recomputes readiness of the queues on the work list, and of all that depend on them.
    pub(super) fn refresh_ready(&mut self, now: Instant) {
        while self.lists.work != END {
            let index = self.lists.work as usize;
            self.lists.work = core::mem::replace(&mut self.queues[index].work_next, NONE);
            let ready = self.queues[index].live && self.is_ready(index);
            if ready == self.queues[index].info.ready {
                continue;
            }
            self.set_ready(index, ready);
            self.mark_changed(index);
            self.observe(now, index, if ready { Event::Ready } else { Event::Idle });
            self.push_waiters(index);
        }
    }

    fn is_ready(&self, index: usize) -> bool {
        let claims = |index: usize| {
            let report = &self.queues[index].info.report;
            report.pending() && !report.suspended && !report.lost
        };
        if !claims(index) || self.queues[index].info.passed_over {
            return false;
        }
        let Some(event) = self.queues[index].target else { return true };
        if !self.needs_launch(event) {
            return claims(event.queue.index());
        }
        // Waiting for a command that has not been submitted yet is not a claim to the device: it
        // must not hold queues whose progress that submission may need.
        let target = &self.queues[event.queue.index()].info;
        target.ready && target.report.submitted > event.cmd.0
    }

    /// Recomputes whether a queue may run, and along the chain of what it waits for.
    pub(super) fn refresh_run(&mut self, index: usize) {
        let mut at = index;
        for _ in 0..=self.queues.len() {
            let running = self.may_run(at);
            let slot = &mut self.queues[at];
            let same = slot.info.running == running;
            slot.info.running = running;
            let target = slot.target;
            if !same {
                self.mark_dirty(at, dirty::VERDICT);
                self.pause_progress(at, !running);
            } else if at != index {
                return;
            }
            match target {
                Some(event) => at = event.queue.index(),
                None => return,
            }
        }
    }

    fn may_run(&self, index: usize) -> bool {
        let slot = &self.queues[index];
        if !slot.live {
            return false;
        }
        let device = &self.devices[slot.info.device.index()];
        let rank = slot.info.hints.priority.rank();
        let is_let =
            slot.verdict.get() == crate::policy::Verdict::Run && rank >= usize::from(device.floor);
        let own = device.arrears.runs(rank).unwrap_or(is_let);
        own || slot.info.passed_over && rank > 0 || self.inherits(index)
    }

    /// A queue that may run waits for this one.
    fn inherits(&self, index: usize) -> bool {
        let mut at = self.queues[index].waiters;
        while at != NONE {
            let waiter = &self.queues[at as usize];
            if waiter.info.running && !waiter.info.report.suspended {
                return true;
            }
            at = waiter.waiter_next;
        }
        false
    }

    pub(super) fn admit_wait(
        &mut self,
        waiter: QueueId,
        cmd: CmdId,
        event: EventRef,
    ) -> Result<bool, SchedulerError> {
        self.find(waiter)?;
        let target = self.find(event.queue)?;
        if event.queue == waiter {
            return if event.cmd < cmd { Ok(false) } else { Err(SchedulerError::WouldDeadlock) };
        }
        if self.queues[target].info.report.retired > event.cmd.0 {
            return Ok(false);
        }
        // A circle comes back to this command or a later one, so some wait must be for such a one.
        // A driver that waits only for what was submitted before never looks further.
        let known = self.queues[waiter.index()].in_waits > cmd.0;
        if known || self.lists.edges == self.edges.len() {
            self.drop_old_edges(waiter, cmd);
        }
        if known && self.reaches(event, waiter, cmd) {
            return Err(SchedulerError::WouldDeadlock);
        }
        let free = self.edges.get_mut(self.lists.edges).ok_or(SchedulerError::WaitTableFull)?;
        *free = Edge { waiter, cmd: cmd.0, event: Some(event) };
        self.lists.edges += 1;
        for (index, cmd) in [(waiter.index(), cmd), (target, event.cmd)] {
            let slot = &mut self.queues[index];
            slot.in_waits = slot.in_waits.max(cmd.count());
        }
        Ok(true)
    }

    /// Forgets waits that are over, as far as the reports tell, and those that were asked about for
    /// commands of `queue` from `next` on: they were not submitted, since `next` is its next
    /// command.
    fn drop_old_edges(&mut self, queue: QueueId, next: CmdId) {
        let mut n = 0;
        while n < self.lists.edges {
            let edge = self.edges[n];
            self.lists.stats.waits_looked_at += 1;
            let waiting = self
                .find(edge.waiter)
                .is_ok_and(|i| self.queues[i].info.report.retired <= edge.cmd);
            let open = edge.event.is_some_and(|event| {
                self.find(event.queue)
                    .is_ok_and(|i| self.queues[i].info.report.retired <= event.cmd.0)
            });
            let submitted = edge.waiter != queue || edge.cmd < next.0;
            if waiting && open && submitted {
                n += 1;
            } else {
                self.lists.edges -= 1;
                self.edges[n] = self.edges[self.lists.edges];
            }
        }
    }

    /// Returns whether reaching `event` needs command `cmd` (or a later one) of `queue` first.
    /// Follows every submitted wait until nothing new turns up; each pass settles at least one
    /// queue.
    fn reaches(&mut self, event: EventRef, queue: QueueId, cmd: CmdId) -> bool {
        self.queues[event.queue.index()].reach = event.cmd.count();
        let mut grew = true;
        while grew {
            grew = false;
            self.lists.stats.waits_looked_at += self.lists.edges as u64;
            for edge in &self.edges[..self.lists.edges] {
                let Some(next) = edge.event else { continue };
                let needed = self.queues[edge.waiter.index()].reach > edge.cmd;
                let reach = &mut self.queues[next.queue.index()].reach;
                if needed && *reach < next.cmd.count() {
                    *reach = next.cmd.count();
                    grew = true;
                }
            }
        }
        let found = self.queues[queue.index()].reach > cmd.0;
        self.queues[event.queue.index()].reach = 0;
        for edge in &self.edges[..self.lists.edges] {
            if let Some(next) = edge.event {
                self.queues[next.queue.index()].reach = 0;
            }
        }
        found
    }
}
