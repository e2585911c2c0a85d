//! Events: queues that come, go, report and change, and the policy's turn.

use super::{Attach, Lists, SchedulerError};
use crate::hint::Hints;
use crate::id::{DeviceId, QueueId};
use crate::level::LevelChoice;
use crate::message::{HoldState, Report};
use crate::policy::{Changed, ChangedQueues, Decisions, Event, Policy, Verdict};
use crate::table::bits::Set;
use crate::table::slot::{DeviceSlot, END, Edge, NONE, QueueInfo, QueueSlot};
use crate::table::{DEVICE_WORDS, QUEUE_WORDS, QueueTable};
use crate::time::{Duration, Instant};

/// The tables, the lists and the policy, borrowed apart from each other.
pub(super) struct State<'a, P> {
    pub(super) policy: &'a mut P,
    pub(super) queues: &'a mut [QueueSlot],
    pub(super) devices: &'a mut [DeviceSlot],
    pub(super) edges: &'a mut [Edge],
    pub(super) lists: &'a mut Lists,
}

/// Parts of a queue's state that an order is due for.
pub(super) mod dirty {
    pub(crate) const VERDICT: u8 = 1;
    pub(crate) const WATCH: u8 = 2;
    pub(crate) const REACHED: u8 = 4;
    pub(crate) const PROGRESS: u8 = 8;
}

impl<P: Policy> State<'_, P> {
    pub(super) fn find(&self, queue: QueueId) -> Result<usize, SchedulerError> {
        match self.queues.get(queue.index()) {
            Some(slot) if slot.is(queue) => Ok(queue.index()),
            _ => Err(SchedulerError::UnknownQueue),
        }
    }

    pub(super) fn attach(&mut self, now: Instant, with: Attach) -> Result<QueueId, SchedulerError> {
        if with.device.index() >= self.devices.len() {
            return Err(SchedulerError::UnknownDevice);
        }
        let index = self.lists.free;
        if index == NONE {
            return Err(SchedulerError::TableFull);
        }
        let slot = &mut self.queues[index as usize];
        self.lists.free = slot.bucket_next;
        // A slot that is still in a list stays there; the list skips what is not due.
        let fresh = QueueSlot {
            dirty_next: slot.dirty_next,
            ready_bits: slot.ready_bits,
            changed_bits: slot.changed_bits,
            ..QueueSlot::default()
        };
        let generation = slot.info.id.generation().wrapping_add(1);
        *slot = fresh;
        let id = QueueId::new(index, generation);
        let Attach { device, process, hints, .. } = with;
        slot.info = QueueInfo { id, device, process, hints, ..QueueInfo::default() };
        slot.live = true;
        slot.info.threshold = with.threshold.max(1);
        slot.info.context_permille = with.context_permille.min(1_000) as u16;
        (slot.exact_level, slot.level) = match with.level {
            LevelChoice::Exactly(level) => (true, level),
            LevelChoice::UpTo(level) => (false, level),
        };
        let index = index as usize;
        self.link_bucket(index);
        self.mark_changed(index);
        if self.policy.needs().progress_every.is_some() {
            self.mark_dirty(index, dirty::PROGRESS);
        }
        // The floor of the device applies from the start.
        self.refresh_run(index);
        self.observe(now, index, Event::Attached);
        Ok(id)
    }

    pub(super) fn detach(&mut self, now: Instant, index: usize) {
        self.observe(now, index, Event::Detached);
        self.mark_changed(index);
        self.unlink_wait(index);
        if self.queues[index].info.ready {
            self.set_ready(index, false);
        }
        if self.lists.changed_marked {
            Set::Changed.put(self.queues, index, false);
        }
        self.unlink_bucket(index);
        let slot = &mut self.queues[index];
        slot.live = false;
        slot.dirty = 0;
        slot.changed = false;
        slot.bucket_next = self.lists.free;
        self.lists.free = index as u32;
        self.abandon_waiters(now, index);
    }

    pub(super) fn report(
        &mut self,
        now: Instant,
        index: usize,
        report: &Report,
    ) -> Result<(), SchedulerError> {
        if report.submitted < report.launched || report.launched < report.retired {
            return Err(SchedulerError::BadReport);
        }
        let info = &self.queues[index].info;
        let is_moved = info.ready && info.report.claim != report.claim;
        if is_moved {
            self.count_ready(index, false);
        }
        let old = core::mem::replace(&mut self.queues[index].info.report, *report);
        if is_moved {
            self.count_ready(index, true);
        }
        if report.retired != old.retired || !report.pending() {
            self.note_progress(now, index);
        }
        self.note_hold(now, index, report);
        if report.busy > old.busy {
            let busy = report.busy - old.busy;
            self.observe(now, index, Event::Progress { busy });
            if self.policy.needs().progress_every.is_some() {
                self.mark_changed(index);
            }
        }
        if report.waiting != old.waiting || report.suspended != old.suspended {
            self.update_wait(index);
        } else if let Some(event) = report.waiting
            && self.queues[index].target != Some(event)
        {
            // It still waits for something that was reached: the order may have been lost.
            self.update_wait(index);
        }
        if report.claim != old.claim {
            self.mark_changed(index);
        }
        if report.lost && !old.lost {
            self.observe(now, index, Event::Lost);
            self.mark_changed(index);
        }
        if self.queues[index].waiters != NONE {
            self.satisfy_waiters(index);
            self.push_waiters(index);
            if report.lost {
                self.abandon_waiters(now, index);
            }
        }
        let was_ready = self.queues[index].info.ready;
        self.push_work(index);
        self.refresh_ready(now);
        // Idle and ready again between two reports: policies that count from readiness must know.
        if was_ready && self.queues[index].info.ready && report.ready_since != old.ready_since {
            self.observe(now, index, Event::Ready);
            self.mark_changed(index);
        }
        Ok(())
    }

    fn note_hold(&mut self, now: Instant, index: usize, report: &Report) {
        let slot = &mut self.queues[index];
        let held = match report.hold {
            HoldState::Held(level) => Some(level),
            HoldState::Running | HoldState::Holding | HoldState::Resuming => None,
        };
        if report.epoch != slot.epoch {
            self.lists.stats.stale_acks += u64::from(held.is_some());
            return;
        }
        self.measure(now, index, report);
        let slot = &mut self.queues[index];
        if report.failed_open && slot.ordered.is_some() {
            // It does not obey, whatever was ordered; if it should, it is told again. A hold by
            // hand is in effect all the same.
            slot.ordered = None;
            slot.stopped &= held.is_some();
            self.lists.stats.failed_open += 1;
            self.mark_dirty(index, dirty::VERDICT);
            self.observe(now, index, Event::FailedOpen);
        }
        let slot = &mut self.queues[index];
        let news = held != slot.info.held;
        slot.info.held = held;
        if let Some(level) = held {
            slot.stopped = true;
            if news {
                self.observe(now, index, Event::Held(level));
            }
        } else if slot.stopped && report.hold != HoldState::Holding {
            slot.stopped = false;
            self.observe(now, index, Event::Resumed);
        }
    }

    pub(super) fn set_hints(&mut self, now: Instant, index: usize, hints: Hints) {
        let slot = &mut self.queues[index];
        let moved = slot.info.hints.priority != hints.priority;
        if moved {
            let ready = slot.info.ready;
            if ready {
                self.count_ready(index, false);
            }
            self.unlink_bucket(index);
            self.queues[index].info.hints = hints;
            self.link_bucket(index);
            if ready {
                self.count_ready(index, true);
            }
            self.refresh_run(index);
        } else {
            slot.info.hints = hints;
        }
        self.mark_changed(index);
        self.observe(now, index, Event::Hinted);
    }

    pub(super) fn set_level(&mut self, index: usize, choice: LevelChoice) {
        let slot = &mut self.queues[index];
        (slot.exact_level, slot.level) = match choice {
            LevelChoice::Exactly(level) => (true, level),
            LevelChoice::UpTo(level) => (false, level),
        };
        self.mark_dirty(index, dirty::VERDICT);
    }

    pub(super) fn policy_changed(&mut self) {
        self.end_slices();
        self.lists.changed_all = true;
        self.lists.wake.set(None);
        for device in self.devices.iter_mut() {
            device.floor = 0;
            device.floor_wanted.set(0);
            device.words.set([0; DEVICE_WORDS]);
        }
        for index in 0..self.queues.len() {
            let slot = &mut self.queues[index];
            if slot.live {
                slot.verdict.set(Verdict::Run);
                slot.words.set([0; QUEUE_WORDS]);
                self.refresh_run(index);
            }
        }
    }

    /// The policy wants to hear of progress more often or less often than before.
    pub(super) fn progress_changed(&mut self) {
        for index in 0..self.queues.len() {
            if self.queues[index].live {
                self.mark_dirty(index, dirty::PROGRESS);
            }
        }
    }

    /// Asks the policy if anything changed since it was last asked.
    pub(super) fn decide_if_due(&mut self, now: Instant) {
        if self.lists.changed_all && !self.lists.changed.is_empty() {
            self.mark_listed();
        }
        let lists = &mut *self.lists;
        // Every change is on a device.
        let changed = !lists.changed_devices.is_empty();
        if !(lists.changed_all || changed || lists.timer_fired) {
            return;
        }
        lists.timer_fired = false;
        lists.stats.decisions += 1;
        lists.stats.full_decisions += u64::from(lists.changed_all);
        let table =
            QueueTable { queues: &*self.queues, devices: &*self.devices, looked: &lists.looked };
        let changed = if lists.changed_all {
            Changed::All
        } else {
            let queues = if lists.changed_marked {
                ChangedQueues::marked(&*self.queues)
            } else {
                ChangedQueues::listed(&lists.changed)
            };
            Changed::Some { queues, devices: &lists.changed_devices }
        };
        let mut out = Decisions {
            queues: &*self.queues,
            devices: &*self.devices,
            touched: &lists.touched,
            floors: &lists.floors,
            wake: &lists.wake,
            calls: 0,
        };
        self.policy.decide(now, changed, &table, &mut out);
        self.forget_changes();
        self.apply_verdicts();
    }

    fn forget_changes(&mut self) {
        if core::mem::take(&mut self.lists.changed_marked) {
            Set::Changed.drain(self.queues, |slot| slot.changed = false);
        }
        for &queue in &self.lists.changed {
            self.queues[queue.index()].changed = false;
        }
        for &device in &self.lists.changed_devices {
            self.devices[device.index()].changed = false;
        }
        self.lists.changed.clear();
        self.lists.changed_devices.clear();
        self.lists.changed_all = false;
    }

    fn apply_verdicts(&mut self) {
        while self.lists.floors.get() != END {
            let device = self.lists.floors.get() as usize;
            self.lists.floors.set(self.devices[device].floor_next.replace(NONE));
            self.apply_floor(device);
        }
        while self.lists.touched.get() != END {
            let index = self.lists.touched.get() as usize;
            self.lists.touched.set(self.queues[index].touch_next.replace(NONE));
            self.refresh_run(index);
            if !self.queues[index].info.running {
                // Held already, but perhaps not deep enough for a new urgency.
                self.mark_dirty(index, dirty::VERDICT);
            }
        }
    }

    /// Looks only at the queues between the old floor and the new one.
    fn apply_floor(&mut self, device: usize) {
        let slot = &mut self.devices[device];
        let (old, new) = (slot.floor as usize, slot.floor_wanted.get() as usize);
        slot.floor = new as u16;
        let (mut rank, end) = (old.min(new), old.max(new));
        while let Some(next) = self.devices[device].next_rank(rank).filter(|&r| r < end) {
            let mut index = self.devices[device].head(next);
            while index != NONE {
                self.refresh_run(index as usize);
                index = self.queues[index as usize].bucket_next;
            }
            rank = next + 1;
        }
    }

    pub(super) fn observe(&mut self, now: Instant, index: usize, event: Event) {
        let table = QueueTable {
            queues: &*self.queues,
            devices: &*self.devices,
            looked: &self.lists.looked,
        };
        let queue = table.queues[index].info.id;
        self.policy.observe(now, queue, event, &table);
    }

    pub(super) fn mark_changed(&mut self, index: usize) {
        let slot = &mut self.queues[index];
        let (id, device) = (slot.info.id, slot.info.device);
        if !core::mem::replace(&mut slot.changed, true) {
            if self.lists.changed_marked {
                Set::Changed.put(self.queues, index, true);
            } else if self.lists.changed.push(id).is_err() {
                self.mark_listed();
                Set::Changed.put(self.queues, index, true);
            }
        }
        self.mark_device_changed(device);
    }

    /// From now on changed queues are noted in the table, where there is room for all: the list of
    /// them is full, or they are needed in table order.
    #[cold]
    fn mark_listed(&mut self) {
        self.lists.changed_marked = true;
        for &id in &self.lists.changed {
            if self.queues[id.index()].is(id) {
                Set::Changed.put(self.queues, id.index(), true);
            }
        }
        self.lists.changed.clear();
    }

    /// All queues count as changed.
    pub(super) fn all_changed(&mut self) {
        for index in 0..self.queues.len() {
            if self.queues[index].live {
                self.mark_changed(index);
            }
        }
        self.lists.changed_all = true;
    }

    fn mark_device_changed(&mut self, device: DeviceId) {
        let slot = &mut self.devices[device.index()];
        if !slot.changed {
            slot.changed = self.lists.changed_devices.push(device).is_ok();
            self.lists.changed_all |= !slot.changed;
        }
    }

    /// A queue becomes ready, or stops being so.
    pub(super) fn set_ready(&mut self, index: usize, ready: bool) {
        let ran = !ready && self.queues[index].info.running;
        self.queues[index].info.ready = ready;
        Set::Ready.put(self.queues, index, ready);
        self.count_ready(index, ready);
        self.pause_progress(index, ran);
    }

    fn count_ready(&mut self, index: usize, ready: bool) {
        let info = &self.queues[index].info;
        let (rank, claim) = (info.hints.priority.rank(), info.report.claim);
        self.devices[info.device.index()].count_ready(rank, claim, ready);
    }

    fn link_bucket(&mut self, index: usize) {
        let info = &self.queues[index].info;
        let (device, rank) = (info.device.index(), info.hints.priority.rank());
        let head = self.devices[device].head(rank);
        let was_equal = self.devices[device].has_one_rank();
        if head != NONE {
            self.queues[head as usize].bucket_prev = index as u32;
        }
        let slot = &mut self.queues[index];
        slot.bucket_next = head;
        slot.bucket_prev = NONE;
        self.devices[device].set_head(rank, index as u32);
        self.lists.devices_mixed += u32::from(was_equal && !self.devices[device].has_one_rank());
    }

    fn unlink_bucket(&mut self, index: usize) {
        let slot = &self.queues[index];
        let (prev, next) = (slot.bucket_prev, slot.bucket_next);
        let (device, rank) = (slot.info.device.index(), slot.info.hints.priority.rank());
        if next != NONE {
            self.queues[next as usize].bucket_prev = prev;
        }
        if prev == NONE {
            let was_equal = self.devices[device].has_one_rank();
            self.devices[device].set_head(rank, next);
            let is_equal = self.devices[device].has_one_rank();
            let mixed = self.lists.devices_mixed;
            self.lists.devices_mixed = mixed.saturating_sub(u32::from(is_equal && !was_equal));
        } else {
            self.queues[prev as usize].bucket_next = next;
        }
    }

    pub(super) fn mean_command(&self, index: usize) -> Duration {
        let report = &self.queues[index].info.report;
        report.busy.per(report.retired)
    }
}
