//! Orders: the difference between what was decided and what was last ordered.

use super::state::{State, dirty};
use crate::cost::Load;
use crate::id::QueueId;
use crate::level::Level;
use crate::message::{HoldState, Order, Report};
use crate::policy::{Policy, Verdict};
use crate::table::slot::{END, NONE, ProgressState};
use crate::time::{Duration, Instant};

impl<P: Policy> State<'_, P> {
    pub(super) fn mark_dirty(&mut self, index: usize, what: u8) {
        let slot = &mut self.queues[index];
        slot.dirty |= what;
        if slot.dirty_next != NONE {
            return;
        }
        let (is_ready, number) = (slot.info.ready, slot.info.device.index());
        let device = &mut self.devices[number];
        if device.dirty_next == NONE {
            self.list_device(number);
        }
        let device = &mut self.devices[number];
        // Those that are ready come before those that have nothing to run.
        let before = if is_ready { device.dirty_ready } else { device.dirty_tail };
        let next = if before == END {
            &mut device.dirty_head
        } else {
            &mut self.queues[before as usize].dirty_next
        };
        let after = core::mem::replace(next, index as u32);
        self.queues[index].dirty_next = after;
        if is_ready {
            device.dirty_ready = index as u32;
        }
        if after == END {
            device.dirty_tail = index as u32;
        }
    }

    /// Puts a device behind those with queues that need orders.
    fn list_device(&mut self, number: usize) {
        self.devices[number].dirty_next = END;
        match self.lists.dirty_tail {
            END => self.lists.dirty_head = number as u32,
            last => self.devices[last as usize].dirty_next = number as u32,
        }
        self.lists.dirty_tail = number as u32;
    }

    /// Takes the first device off those with queues that need orders.
    fn unlist_device(&mut self, number: usize) {
        let next = core::mem::replace(&mut self.devices[number].dirty_next, NONE);
        self.lists.dirty_head = next;
        if next == END {
            self.lists.dirty_tail = END;
        }
    }

    /// Takes orders from the queues that need any. Devices take turns, so that many queues of one
    /// do not delay those of another. On a device, orders come in the order in which queues came to
    /// need them: first from those that were ready then, as the device waits for these.
    pub(super) fn next_order(&mut self, now: Instant) -> Option<(QueueId, Order)> {
        while self.lists.dirty_head != END {
            let number = self.lists.dirty_head as usize;
            let order = self.order_on(now, number);
            self.unlist_device(number);
            if self.devices[number].dirty_head != END {
                self.list_device(number);
            }
            if order.is_some() {
                self.lists.stats.orders += 1;
                return order;
            }
        }
        None
    }

    /// Takes an order from the queues of a device.
    fn order_on(&mut self, now: Instant, number: usize) -> Option<(QueueId, Order)> {
        while self.devices[number].dirty_head != END {
            let index = self.devices[number].dirty_head as usize;
            if let Some(order) = self.order_for(now, index) {
                return Some((self.queues[index].info.id, order));
            }
            let next = core::mem::replace(&mut self.queues[index].dirty_next, NONE);
            let device = &mut self.devices[number];
            device.dirty_head = next;
            if device.dirty_ready as usize == index {
                device.dirty_ready = END;
            }
            if next == END {
                device.dirty_tail = END;
            }
        }
        None
    }

    fn order_for(&mut self, now: Instant, index: usize) -> Option<Order> {
        if self.take(index, dirty::VERDICT) {
            let order = self.verdict_order(now, index);
            if order.is_some() {
                return order;
            }
        }
        if self.take(index, dirty::REACHED)
            && let Some(ok) = self.queues[index].reached_ok.take()
        {
            return Some(Order::Reached { event: self.queues[index].reached, ok });
        }
        if self.take(index, dirty::WATCH) {
            let order = self.watch_order(index);
            if order.is_some() {
                return order;
            }
        }
        self.take(index, dirty::PROGRESS).then(|| Order::Progress {
            every: self.policy.needs().progress_every.unwrap_or(Duration::MAX),
        })
    }

    fn take(&mut self, index: usize, what: u8) -> bool {
        let slot = &mut self.queues[index];
        let due = slot.dirty & what != 0;
        slot.dirty &= !what;
        due
    }

    fn verdict_order(&mut self, now: Instant, index: usize) -> Option<Order> {
        let wanted = if self.queues[index].info.running { None } else { Some(self.level(index)) };
        let slot = &mut self.queues[index];
        if wanted == slot.ordered {
            return None;
        }
        // A hold by the cost model gets deeper when it becomes more urgent, but not shallower
        // again: that would give the device back.
        if let (Some(level), Some(ordered)) = (wanted, slot.ordered)
            && !slot.exact_level
            && level < ordered
            && ordered <= slot.level
        {
            return None;
        }
        slot.ordered = wanted;
        slot.epoch = slot.epoch.wrapping_add(1);
        let epoch = slot.epoch;
        self.time_order(now, index);
        Some(match wanted {
            None => Order::Run { epoch },
            Some(level) => Order::Hold { epoch, level },
        })
    }

    /// The level for holding a queue: as configured, or by the cost model.
    fn level(&self, index: usize) -> Level {
        let slot = &self.queues[index];
        if slot.exact_level {
            return slot.level;
        }
        let command = self.mean_command(index);
        if command == Duration::ZERO {
            // Nothing measured yet: assume the worst about what is in flight.
            return slot.level;
        }
        let device = &self.devices[slot.info.device.index()];
        let below = slot.info.hints.priority.rank() < usize::from(device.floor);
        let mut within = if below { device.floor_urgency.get().span() } else { Duration::MAX };
        if let Verdict::Hold(urgency) = slot.verdict.get() {
            within = within.min(urgency.span());
        }
        let joins = device.cost.batches && device.interrupted_in == self.lists.stats.decisions;
        let load = Load { command, joins, ..self.load(index) };
        device.measured.correct(device.cost).choose(slot.level, within, &load)
    }

    /// The most that a queue and the other queues can have on the device. What the others' waves
    /// fill is not known, so it counts as all that the queue leaves them.
    pub(super) fn load(&self, index: usize) -> Load {
        let slot = &self.queues[index];
        Load {
            in_flight: u64::from(slot.info.threshold),
            context_permille: slot.info.context_permille.into(),
            others_permille: 1_000,
            ..Load::default()
        }
    }

    /// A verdict was ordered: notes when, if it begins or ends a hold at Lv3.
    fn time_order(&mut self, now: Instant, index: usize) {
        let slot = &self.queues[index];
        let device = &mut self.devices[slot.info.device.index()];
        let timed = Some((slot.info.id, slot.epoch, now));
        match (slot.ordered, slot.info.held) {
            (Some(Level::Interrupt), _) => {
                device.interrupted_in = self.lists.stats.decisions;
                device.timed[0] = timed;
            }
            (None, Some(Level::Interrupt)) => device.timed[1] = timed,
            _ => {}
        }
    }

    /// The queue says where it is with what it was last ordered: notes how long that took if it was
    /// about Lv3 and there was anything to save.
    pub(super) fn measure(&mut self, now: Instant, index: usize, report: &Report) {
        let slot = &self.queues[index];
        let of = match report.hold {
            HoldState::Held(Level::Interrupt) => 0,
            HoldState::Running => 1,
            _ => return,
        };
        let device = slot.info.device.index();
        let timed = self.devices[device].timed[of];
        let timed = timed.filter(|(id, epoch, _)| (*id, *epoch) == (slot.info.id, slot.epoch));
        let Some((.., at)) = timed else { return };
        let load = self.load(index);
        let device = &mut self.devices[device];
        device.timed[of] = None;
        if report.launched == report.retired {
            return;
        }
        if of == 0 {
            device.measured.suspend.note(device.cost.suspend(&load), now.since(at));
        } else {
            device.measured.resume.note(device.cost.resume(&load), now.since(at));
        }
    }

    fn watch_order(&mut self, index: usize) -> Option<Order> {
        let mut upto = 0;
        let mut at = self.queues[index].waiters;
        while at != NONE {
            let waiter = &self.queues[at as usize];
            let count = waiter.target.map_or(0, |event| event.cmd.count());
            upto = if upto == 0 { count } else { upto.min(count) };
            at = waiter.waiter_next;
        }
        let slot = &mut self.queues[index];
        let is_asked =
            !matches!(slot.progress.state, ProgressState::Unwatched | ProgressState::Stopped);
        if slot.info.passed_over || is_asked {
            let next = slot.info.report.retired.saturating_add(1);
            upto = if upto == 0 { next } else { upto.min(next) };
        }
        let due = upto != 0 && upto != slot.watching;
        slot.watching = upto;
        due.then_some(Order::Watch { upto })
    }
}
