//! A floor of device time for lower priorities.
//!
//! Under a policy by priority a queue runs only while none of a higher priority of its device has
//! work. So that it does not starve below one that always has, lower priorities together keep a
//! share of the device time for as long as one of them has work and is held. Device time that they
//! use in pauses of the higher ones counts, as do commands that end after a hold. What is missing
//! is given in a *slice*: the highest priority holds, and all lower ones run. There is no more than
//! one slice in a second, and so no more than one of the highest priority's requests in a second is
//! late.

use super::state::State;
use crate::hint::Priority;
use crate::policy::{MayHold, Policy};
use crate::table::bits::Set;
use crate::table::slot::{DeviceSlot, NONE};
use crate::time::{Duration, Instant};

/// Time over which the share counts.
const PERIOD: Duration = Duration::from_ms(1_000);
/// Looks at the device time of lower priorities in a period. A slice begins late by the time
/// between two looks, and is longer by as much as is owed for that time.
const LOOKS: u64 = 16;
const WHOLE: u64 = 1_000;

/// Device time that the lower priorities of a device are owed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrears {
    owed: Duration,
    /// Part of the last slice that was charged before its use was reported.
    advance: Duration,
    slice: Option<Slice>,
    /// Since the last look: lower queues have used this much, and one is held that has work.
    used: Duration,
    is_starved: bool,
}

/// A slice that lasts.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Ranks from this one on hold.
    below: usize,
    began: Instant,
    until: Instant,
    /// Device time of lower priorities since then, as far as reports tell.
    used: Duration,
}

impl Arrears {
    /// Returns whether a slice says that a rank runs; `None` without one, and for rank 0, which
    /// never runs.
    pub(crate) fn runs(&self, rank: usize) -> Option<bool> {
        self.slice.filter(|_| rank > 0).map(|slice| rank < slice.below)
    }

    /// Lower ranks are those below this one.
    fn bound(&self, device: &DeviceSlot) -> usize {
        let top = || device.top_ready().map_or(0, Priority::rank);
        self.slice.map_or_else(top, |slice| slice.below)
    }
}

/// Returns whether a policy holds queues for those of higher priorities.
pub(super) fn is_by_priority(policy: &impl Policy) -> bool {
    matches!(policy.needs().may_hold, MayHold::Lower | MayHold::Peers)
}

impl<P: Policy> State<'_, P> {
    /// Has device time of lower priorities be looked at from now on, if a queue came to be held
    /// that has work.
    pub(super) fn arm_floor_check(&mut self, now: Instant, is_contended: bool) {
        let is_armed = self.lists.floor_due.is_some();
        if is_contended && !is_armed && self.lists.floor_permille > 0 && is_by_priority(self.policy)
        {
            self.lists.floor_looked = now;
            self.lists.floor_due = Some(now + PERIOD.per(LOOKS));
        }
    }

    /// Charges lower priorities for what they have used, and begins and ends slices.
    pub(super) fn check_floor(&mut self, now: Instant) {
        self.lists.floor_due = None;
        let elapsed = now.since(core::mem::replace(&mut self.lists.floor_looked, now));
        self.sum_up_lower();
        let mut due: Option<Instant> = None;
        for index in 0..self.devices.len() {
            let next = self.check_floor_of(now, index, elapsed);
            due = due.into_iter().chain(next).min();
        }
        self.lists.floor_due = due;
    }

    /// Sums up, for each device, what lower queues have used.
    fn sum_up_lower(&mut self) {
        for device in self.devices.iter_mut() {
            (device.arrears.used, device.arrears.is_starved) = (Duration::ZERO, false);
        }
        let mut next = 0;
        while let Some(index) = Set::Ready.next(self.queues, next) {
            next = index + 1;
            let slot = &mut self.queues[index];
            let device = &mut self.devices[slot.info.device.index()];
            let (rank, busy) = (slot.info.hints.priority.rank(), slot.info.report.busy);
            let used = busy - core::mem::replace(&mut slot.busy_seen, busy);
            if rank > 0 && rank < device.arrears.bound(device) {
                device.arrears.used += used;
                device.arrears.is_starved |= !slot.info.running;
            }
        }
    }

    /// Answers when the device is to be looked at again.
    fn check_floor_of(&mut self, now: Instant, index: usize, elapsed: Duration) -> Option<Instant> {
        let permille = u64::from(self.lists.floor_permille);
        let share = |span: Duration| Duration::from_ns(span.as_ns() / WHOLE * permille);
        let device = &mut self.devices[index];
        let below = device.arrears.bound(device);
        let arrears = &mut device.arrears;
        if arrears.is_starved || arrears.slice.is_some() {
            arrears.owed += share(elapsed);
        }
        let paid = arrears.used.min(arrears.advance);
        arrears.advance = arrears.advance - paid;
        arrears.owed = arrears.owed - (arrears.used - paid);
        if let Some(slice) = &mut arrears.slice {
            slice.used += arrears.used;
            if now < slice.until {
                return Some(slice.until);
            }
            // It is charged as a whole, used or not: the highest priority had to wait.
            let rest = now.since(slice.began) - slice.used;
            arrears.advance = rest.min(arrears.owed);
            arrears.owed = arrears.owed - rest;
            arrears.slice = None;
            self.refresh_device(index);
        } else if arrears.is_starved && arrears.owed >= share(PERIOD) && is_by_priority(self.policy)
        {
            let arrears = &mut self.devices[index].arrears;
            let rest = WHOLE.saturating_sub(permille).max(1);
            let until = now + Duration::from_ns(arrears.owed.as_ns() / rest * WHOLE);
            arrears.slice = Some(Slice { below, began: now, until, used: Duration::ZERO });
            self.lists.stats.slices += 1;
            self.refresh_device(index);
            return Some(until);
        }
        self.devices[index].arrears.is_starved.then(|| now + PERIOD.per(LOOKS))
    }

    /// Recomputes for all queues of a device whether they may run.
    fn refresh_device(&mut self, device: usize) {
        let mut rank = 0;
        while let Some(next) = self.devices[device].next_rank(rank) {
            let mut index = self.devices[device].head(next);
            while index != NONE {
                self.refresh_run(index as usize);
                index = self.queues[index as usize].bucket_next;
            }
            rank = next + 1;
        }
    }

    /// Ends all slices: another policy or another share is in charge.
    pub(super) fn end_slices(&mut self) {
        for index in 0..self.devices.len() {
            if core::mem::take(&mut self.devices[index].arrears).slice.is_some() {
                self.refresh_device(index);
            }
        }
    }
}
