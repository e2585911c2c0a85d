//! Progress decides who may hold others.
//!
//! A queue that is held for another one may be what that waits for: by a value in memory, a lock
//! that a host function takes, a kernel of another process. No driver tells of these waits. What
//! all of them have in common is that nothing of the device retires, neither of the queue for which
//! others are held nor of what those had in flight. So it is passed over once that has been so for
//! the stall time: it counts as one without work, and goes on running, until it retires a command.
//! *Some queue that can run runs.*

use super::state::{State, dirty};
use crate::policy::Policy;
use crate::table::bits::{Set, members};
use crate::table::slot::ProgressState;
use crate::time::{Duration, Instant};

/// Held queues of a device that are asked in a check whether what they had in flight goes on: an
/// order for each. Those behind them are taken to have stopped. Not measured.
const DRAINS_MAX: u32 = 8;
/// A queue that retires something this part of the stall time after it was passed over has waited
/// for one that it held: its own command would end then by a chance of one in as many.
const PROMPT: u64 = 8;
/// Then its stall time is a quarter from now on, down to a 32nd: 1.6 ms by default, in which a
/// process is seen to go on that is looked at every 2 ms, as nodes do.
const HALVINGS: u8 = 2;
const HALVINGS_MAX: u8 = 5;

impl<P: Policy> State<'_, P> {
    /// A queue became ready or not, or may run or not, until when it `ran` or did not. Time in
    /// which it ran and retired nothing counts on when it runs again, if another one was held all
    /// the time: what it waits for may be that, and it may be held more often than it would be
    /// passed over. Where all have turns, none of them waits for good.
    pub(super) fn pause_progress(&mut self, index: usize, ran: bool) {
        let now = self.lists.now;
        let slot = &mut self.queues[index];
        let progress = &mut slot.progress;
        if ran && matches!(progress.state, ProgressState::Asked | ProgressState::Watched) {
            let went_on = self.devices[slot.info.device.index()].went_on;
            if progress.ran == Duration::ZERO {
                progress.ran_from = progress.since;
            }
            progress.ran += progress.lasts(now).min(now.since(went_on));
        }
        if ran && !slot.info.running {
            progress.held_from = now;
        }
        progress.state = ProgressState::Unwatched;
        self.lists.is_contended |= slot.info.ready && !slot.info.running;
        if slot.info.ready && slot.info.running && progress.ran > Duration::ZERO {
            progress.enter(ProgressState::Asked, now);
            // A check at another time may never find it running.
            let due = now + (self.stall_of(index) - self.queues[index].progress.ran);
            self.lists.progress_due = self.lists.progress_due.map(|other| other.min(due));
            self.mark_dirty(index, dirty::WATCH);
        }
    }

    /// Has progress and device time be checked, if queues came to be held that have work.
    pub(super) fn arm_checks(&mut self, now: Instant) {
        let is_contended = core::mem::take(&mut self.lists.is_contended);
        self.arm_floor_check(now, is_contended);
        if is_contended && self.lists.stall != Duration::MAX {
            // Most reasons to hold others are over before that.
            let half =
                Duration::from_ns(self.lists.stall.as_ns() >> self.lists.stall_halvings >> 1);
            self.lists.progress_due.get_or_insert(now + half);
        }
    }

    /// Passes over the queues that hold others on a device of which nothing has retired for the
    /// stall time.
    pub(super) fn check_progress(&mut self, now: Instant) {
        self.lists.progress_due = None;
        for index in 0..self.devices.len() {
            let device = &mut self.devices[index];
            (device.is_contended, device.is_drained, device.asked) = (false, true, 0);
            device.held_from = None;
        }
        let mut is_contended = false;
        for slot in members(self.queues, |slot| slot.ready_bits) {
            let info = &slot.info;
            let device = &mut self.devices[info.device.index()];
            // Rank 0 never runs, so nothing of it can be waited for.
            if !info.running && info.hints.priority.rank() > 0 {
                device.is_contended = true;
                is_contended = true;
                let held_from = slot.progress.held_from;
                device.held_from =
                    Some(device.held_from.map_or(held_from, |from| from.min(held_from)));
            }
            let drains = info.drains() && slot.progress.state != ProgressState::Stopped;
            device.is_drained &= !drains;
            let is_stopping = drains && info.held.is_none();
            device.went_on = match slot.progress.state {
                _ if is_stopping => now,
                ProgressState::GoneOn => now,
                ProgressState::Watched => device.went_on.max(slot.progress.since),
                ProgressState::Unwatched | ProgressState::Asked | ProgressState::Stopped => {
                    device.went_on
                }
            };
        }
        if !is_contended {
            return;
        }
        let mut due = now + self.lists.stall;
        let mut next = 0;
        while let Some(index) = Set::Ready.next(self.queues, next) {
            due = due.min(self.check_queue(now, index));
            next = index + 1;
        }
        self.lists.progress_due = Some(due);
        self.refresh_ready(now);
    }

    /// Checks a queue that is ready, and answers when that is due again.
    fn check_queue(&mut self, now: Instant, index: usize) -> Instant {
        let stall = self.stall_of(index);
        let slot = &mut self.queues[index];
        let device = &mut self.devices[slot.info.device.index()];
        // A command in flight may take the device for the stall time, and be seen to end late.
        let stall = if device.is_drained { stall } else { stall.times(2) };
        // What a queue waits for by an event runs in its place, and is checked itself.
        let runs = slot.info.running && slot.target.is_none();
        if slot.progress.state == ProgressState::Stopped {
            return now + stall;
        }
        device.asked += u32::from(!runs && slot.info.drains());
        let is_asked = runs || slot.info.drains() && device.asked <= DRAINS_MAX;
        if !device.is_contended || !is_asked {
            slot.progress.state = ProgressState::Unwatched;
            return now + stall;
        }
        if matches!(slot.progress.state, ProgressState::Unwatched | ProgressState::GoneOn) {
            slot.progress.enter(ProgressState::Asked, now);
        }
        if !runs && slot.info.held.is_some() && slot.progress.lasts(now) >= stall {
            slot.progress.enter(ProgressState::Stopped, now);
            return now + stall;
        }
        if device.held_from.is_none_or(|held_from| held_from > slot.progress.ran_from) {
            slot.progress.ran = Duration::ZERO;
        }
        let lasts = slot.progress.ran + slot.progress.lasts(now).min(now.since(device.went_on));
        if runs && lasts >= stall {
            slot.progress.enter(ProgressState::Unwatched, now);
            slot.info.passed_over = true;
            self.lists.stats.passed_over += 1;
            self.push_work(index);
        }
        self.mark_dirty(index, dirty::WATCH);
        if runs { now + (stall - lasts) } else { now + stall }
    }

    fn stall_of(&self, index: usize) -> Duration {
        Duration::from_ns(self.lists.stall.as_ns() >> self.queues[index].progress.halvings)
    }

    /// A queue's report says that it has gone on.
    pub(super) fn note_progress(&mut self, now: Instant, index: usize) {
        let prompt = self.lists.stall.per(PROMPT);
        let slot = &mut self.queues[index];
        let progress = &mut slot.progress;
        progress.ran = Duration::ZERO;
        if core::mem::take(&mut slot.info.passed_over) {
            let halvings = (progress.halvings + HALVINGS).min(HALVINGS_MAX);
            progress.halvings = if progress.lasts(now) <= prompt { halvings } else { 0 };
            self.lists.stall_halvings = progress.halvings;
            self.push_work(index);
            self.refresh_run(index);
            return;
        }
        match progress.state {
            ProgressState::Unwatched | ProgressState::GoneOn | ProgressState::Stopped => {}
            ProgressState::Asked => {
                progress.enter(ProgressState::Watched, now);
                self.mark_dirty(index, dirty::WATCH);
            }
            ProgressState::Watched => progress.enter(ProgressState::GoneOn, now),
        }
    }
}
