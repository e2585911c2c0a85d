//! Reports to the scheduler and orders to the queues, with their latency; timers and the watchdog.

use xsched_core::message::{HoldState, Order, Report};
use xsched_core::queue::Signal;
use xsched_core::time::Instant;

use super::Engine;
use crate::clock::Event;

impl Engine<'_> {
    /// Sends a queue's report on its way, if it has one.
    pub(super) fn report(&mut self, queue: usize) {
        self.note_load(queue);
        let q = &mut self.queues[queue];
        let Some(report) = q.machine.poll_report() else { return };
        let report = Report { claim: q.claim, ..report };
        if let Some(checks) = &mut self.checks {
            match report.hold {
                HoldState::Held(level) => checks.held(queue, level),
                HoldState::Running => checks.released(queue),
                _ => {}
            }
        }
        let at_ns = self.now_ns() + self.scenario.scheduler_latency_ns;
        self.inbox.push_back((at_ns, queue as u32, report));
        if self.scenario.scheduler_latency_ns > 0 {
            self.world.borrow_mut().clock.at(at_ns, Event::Scheduler);
        }
    }

    /// Delivers what is due; false if nothing was.
    pub(super) fn deliver_messages(&mut self) -> bool {
        let now_ns = self.now_ns();
        let now = Instant::from_ns(now_ns);
        if self.outbox.front().is_some_and(|(at, ..)| *at <= now_ns) {
            if let Some((_, queue, order)) = self.outbox.pop_front() {
                self.obey(queue as usize, order);
            }
            return true;
        }
        if now_ns < self.stalled_until_ns {
            return false;
        }
        if self.inbox.front().is_some_and(|(at, ..)| *at <= now_ns) {
            if let Some((_, queue, report)) = self.inbox.pop_front() {
                let id = self.queues[queue as usize].id;
                // A queue that has gone meanwhile needs no orders.
                let _ = self.scheduler.handle_report(now, id, &report);
                self.scheduler_due = true;
            }
            return true;
        }
        if std::mem::take(&mut self.scheduler_due) {
            self.lease.renew(now);
            self.give_orders(now);
            return true;
        }
        false
    }

    fn give_orders(&mut self, now: Instant) {
        let at_ns = now.as_ns() + self.scenario.scheduler_latency_ns;
        let mut any = false;
        while let Some((id, order)) = self.scheduler.poll_order(now) {
            // Slots are handed out in order and one per task, so a slot is a queue.
            let queue = id.index();
            if let Order::Hold { level, .. } = order {
                self.hold_ordered(queue, level);
            }
            self.outbox.push_back((at_ns, queue as u32, order));
            any = true;
        }
        let mut world = self.world.borrow_mut();
        if any && self.scenario.scheduler_latency_ns > 0 {
            world.clock.at(at_ns, Event::Orders);
        }
        // An event that comes early does nothing; one for each wish would multiply.
        if let Some(due) = self.scheduler.poll_timeout()
            && self.policy_timer.is_none_or(|known| due < known)
        {
            self.policy_timer = Some(due);
            world.clock.at(due.as_ns(), Event::PolicyTimer);
        }
    }

    fn obey(&mut self, queue: usize, order: Order) {
        let q = &mut self.queues[queue];
        if q.gone {
            return;
        }
        q.machine.handle_order(order);
        if let Order::Run { .. } = order {
            self.hold_ended(queue);
            self.released(queue);
        }
        self.todo.push_back(queue as u32);
    }

    /// The scheduler's hold is over; whether the queue runs is up to the user's.
    fn released(&mut self, queue: usize) {
        if let Some(checks) = self.checks.as_mut().filter(|_| !self.queues[queue].suspended) {
            checks.released(queue);
        }
    }

    pub(super) fn on_policy_timer(&mut self) {
        let now = self.now();
        if self.policy_timer.is_some_and(|known| known > now) {
            return;
        }
        self.policy_timer = None;
        if now.as_ns() >= self.stalled_until_ns {
            self.scheduler.handle_timeout(now);
        }
        self.scheduler_due = true;
    }

    /// Looks at the lease; if it ran out, every queue stops obeying.
    pub(super) fn on_watchdog(&mut self) {
        let now = self.now();
        if !self.lease.expired(now) {
            return;
        }
        for queue in 0..self.queues.len() {
            self.queues[queue].machine.handle_signal(now, Signal::FailOpen);
            self.released(queue);
            self.todo.push_back(queue as u32);
        }
    }
}
