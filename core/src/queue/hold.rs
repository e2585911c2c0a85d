//! Holding: what the scheduler, the user and a scheduler above want, where the device is, and the
//! steps between.

use super::{CommandSlot, Queue};
use crate::fault::Fault;
use crate::id::CmdId;
use crate::level::{Level, Recovery, Step};
use crate::message::{HoldState, Order};
use crate::store::Store;
use crate::time::Instant;

/// Number of times that a failed `Restore` or `Reactivate` is tried before the device counts as
/// lost.
const RELEASE_TRIES: u8 = 3;

/// The hold state of a queue: three wishes (the scheduler's, the user's, that of a scheduler above)
/// and one reality.
#[derive(Debug, Default)]
pub(super) struct Hold {
    pub(super) epoch: u32,
    ordered: Option<Level>,
    pub(super) suspended: Option<Level>,
    /// A scheduler above holds the queue.
    from_above: bool,
    pub(super) failed_open: bool,
    pub(super) reported: HoldState,

    deactivated: bool,
    interrupted: bool,
    step: Option<Step>,
    /// The outstanding step has been handed to the driver.
    step_taken: bool,
    step_seq: u32,
    /// Steps that failed once and are not tried again.
    no_deactivate: bool,
    no_interrupt: bool,
    release_failures: u8,
    /// First command that the device has forgotten, under `Recovery::Replay`.
    pub(super) forgotten: Option<u64>,
    /// Commands below this may be launched behind the user's hold.
    behind: u64,
}

impl Hold {
    /// Takes a verdict; false if it is stale.
    pub(super) fn order(&mut self, order: Order) -> bool {
        let (epoch, ordered) = match order {
            Order::Run { epoch } => (epoch, None),
            Order::Hold { epoch, level } => (epoch, Some(level)),
            _ => return false,
        };
        // Epochs wrap; half the range is "older".
        if epoch.wrapping_sub(self.epoch).cast_signed() <= 0 {
            return false;
        }
        self.epoch = epoch;
        self.ordered = ordered;
        self.failed_open = false;
        true
    }

    pub(super) fn fail_open(&mut self) {
        self.failed_open = self.ordered.is_some();
    }

    pub(super) fn device_lost(&mut self) {
        self.deactivated = false;
        self.interrupted = false;
        self.step = None;
        self.forgotten = None;
    }

    /// Nothing on the device is held, and no step is on its way.
    pub(super) const fn device_is_free(&self) -> bool {
        !self.deactivated && !self.interrupted && self.step.is_none()
    }

    /// No hold is wanted, and none is left on the device: the usual case.
    pub(super) fn is_absent(&self) -> bool {
        let is_wanted = self.ordered.is_some() || self.suspended.is_some() || self.from_above;
        !is_wanted && self.device_is_free()
    }

    /// Returns the highest level that the scheduler and the user want.
    fn wish(&self) -> Option<Level> {
        let ordered = if self.failed_open { None } else { self.ordered };
        ordered.max(self.suspended)
    }

    pub(super) fn state(&self, target: Option<Target>, in_flight: bool) -> HoldState {
        match target {
            None if self.device_is_free() => HoldState::Running,
            None => HoldState::Resuming,
            Some(_) if self.step.is_some() => HoldState::Holding,
            Some(target) if self.missing(target, in_flight).is_some() => HoldState::Holding,
            // With nothing on the device, not launching is as good as any level.
            Some(target) if !in_flight => HoldState::Held(target.level),
            Some(_) if self.interrupted => HoldState::Held(Level::Interrupt),
            Some(_) if self.deactivated => HoldState::Held(Level::Deactivate),
            Some(_) => HoldState::Held(Level::Block),
        }
    }

    /// The step that leads from where the device is towards the target.
    fn missing(&self, target: Target, in_flight: bool) -> Option<Step> {
        if self.interrupted && !target.interrupt {
            return Some(Step::Restore);
        }
        if self.deactivated && !target.deactivate && !self.interrupted {
            return Some(Step::Reactivate);
        }
        if !in_flight {
            return None;
        }
        if target.deactivate && !self.deactivated {
            // Where a gate is needed and fails, interrupting would only let the next command start.
            return (!self.no_deactivate).then_some(Step::Deactivate);
        }
        (target.interrupt && !self.interrupted && !self.no_interrupt).then_some(Step::Interrupt)
    }
}

/// Where the device should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    level: Level,
    deactivate: bool,
    interrupt: bool,
}

impl<R: Store<CommandSlot>> Queue<R> {
    /// How far the queue has got with the hold that applies to it.
    #[must_use]
    pub fn hold_state(&self) -> HoldState {
        if self.hold.is_absent() {
            return HoldState::Running;
        }
        self.hold.state(self.hold_target(), self.needs_steps())
    }

    /// Holds the queue on behalf of the user until [`Queue::resume`], whatever the scheduler
    /// orders.
    ///
    /// The hold is as deep as `level` says, as the device can and as the queue is configured for.
    /// Poll for actions and reports afterwards.
    pub fn suspend(&mut self, level: Level) {
        self.hold.suspended = Some(level);
        self.report_due = true;
    }

    /// Lets a command be launched while the user holds the queue, once a closed gate or an
    /// interrupt keeps it from running. False, and nothing changes, unless it is the next to be
    /// launched, the hold is at Lv2 or above, the device [keeps](Recovery::Continue) what it holds,
    /// and the window has room.
    ///
    /// For a thread that holds the queue, and would wait for itself. May be called before the
    /// command is submitted. Poll for steps afterwards.
    pub fn launch_behind_hold(&mut self, cmd: CmdId) -> bool {
        let is_next = cmd.0 == self.cursor && !self.lost;
        let may = is_next && self.has_room() && self.can_hold_behind();
        if may {
            self.hold.behind = cmd.count();
        }
        may
    }

    /// Returns whether the user's hold is one that keeps what is launched from running.
    fn can_hold_behind(&self) -> bool {
        let (gate, interrupt) = (self.caps.deactivate, self.caps.interrupt);
        let forgets = [gate, interrupt].contains(&Some(Recovery::Replay));
        let target = self.hold_target().filter(|_| self.hold.suspended.is_some() && !forgets);
        target.is_some_and(|target| {
            let interrupts = target.interrupt && !self.hold.no_interrupt;
            if target.deactivate { !self.hold.no_deactivate } else { interrupts }
        })
    }

    /// Returns whether the next command may be launched though the queue is held: the device is
    /// where the hold wants it, and nothing starts.
    pub(super) fn is_behind_hold(&self, target: Target) -> bool {
        let hold = &self.hold;
        let is_kept = (hold.deactivated || hold.interrupted) && hold.step.is_none();
        let is_allowed = self.cursor < hold.behind && hold.suspended.is_some();
        is_allowed && is_kept && hold.missing(target, true).is_none()
    }

    /// Returns whether something is on the device, or about to be while the queue is held.
    fn needs_steps(&self) -> bool {
        self.device_in_flight() || self.cursor < self.hold.behind
    }

    /// Ends a user hold. With `drop_pending` the queue first drops every command that can still be
    /// kept from running, whether or not there is a hold. Poll for actions and reports afterwards.
    pub fn resume(&mut self, drop_pending: bool) {
        if drop_pending {
            self.drop_pending();
        }
        self.hold.behind = 0;
        if self.hold.suspended.take().is_some() {
            self.report_due = true;
        }
    }

    /// Holds the queue on behalf of a scheduler above its own, such as that of a node, as deep as
    /// the device can and as the queue is configured for, or ends that. Neither orders nor
    /// [`Queue::resume`] end it. What another process holds at its gates ([`Caps::in_unit`]) needs
    /// no gate to be closed here: at Lv1 and Lv2 nothing is to be done for it.
    /// Poll for actions and reports afterwards.
    ///
    /// [`Caps::in_unit`]: crate::level::Caps::in_unit
    pub fn hold_from_above(&mut self, hold: bool) {
        self.report_due |= self.hold.from_above != hold;
        self.hold.from_above = hold;
    }

    /// Returns the level that a scheduler above wants and no other process does.
    fn wish_from_above(&self) -> Option<Level> {
        let interrupts = self.level.min(self.caps.level) >= Level::Interrupt;
        (self.hold.from_above && (interrupts || !self.caps.in_unit)).then_some(Level::Interrupt)
    }

    fn wish(&self) -> Option<Level> {
        self.hold.wish().max(self.wish_from_above())
    }

    pub(super) fn hold_target(&self) -> Option<Target> {
        let level = self.wish()?.min(self.level).min(self.caps.level);
        // Where a gate is closed already, its step would only be one to undo.
        let closes = !self.caps.in_unit || self.hold.wish() >= Some(Level::Deactivate);
        Some(Target {
            level,
            deactivate: closes && level >= Level::Deactivate && self.caps.deactivate.is_some(),
            interrupt: level >= Level::Interrupt && self.caps.interrupt.is_some(),
        })
    }

    pub(super) fn next_step(&mut self) -> Option<(Step, u32)> {
        if self.lost || self.hold.is_absent() {
            return None;
        }
        if self.hold.step.is_none() && (self.wish().is_some() || !self.hold.device_is_free()) {
            let free = Target { level: Level::Block, deactivate: false, interrupt: false };
            let target = self.hold_target().unwrap_or(free);
            self.hold.step = self.hold.missing(target, self.needs_steps());
            self.hold.step_taken = false;
        }
        let step = self.hold.step?;
        if self.hold.step_taken {
            return None;
        }
        self.hold.step_taken = true;
        self.hold.step_seq = self.hold.step_seq.wrapping_add(1);
        Some((step, self.hold.step_seq))
    }

    pub(super) fn on_stepped(
        &mut self,
        now: Instant,
        seq: u32,
        result: Result<Option<CmdId>, Fault>,
    ) {
        let Some(step) = self.hold.step.filter(|_| seq == self.hold.step_seq) else {
            self.anomalies.protocol += 1;
            return;
        };
        self.hold.step = None;
        match result {
            Ok(first_forgotten) => self.step_done(now, step, first_forgotten),
            Err(fault) => self.step_failed(step, fault),
        }
        self.report_due = true;
    }

    fn step_done(&mut self, now: Instant, step: Step, first_forgotten: Option<CmdId>) {
        self.hold.release_failures = 0;
        if !self.hold.deactivated && !self.hold.interrupted {
            self.quiet = now.since(self.last_progress);
        }
        match step {
            Step::Deactivate => self.hold.deactivated = true,
            Step::Interrupt => self.hold.interrupted = true,
            Step::Restore => self.hold.interrupted = false,
            Step::Reactivate => self.hold.deactivated = false,
        }
        let recovery = match step {
            Step::Deactivate | Step::Reactivate => self.caps.deactivate,
            Step::Interrupt | Step::Restore => self.caps.interrupt,
        };
        // A release tells of the launches that were on their way when the device was held.
        let told = step.is_hold() || first_forgotten.is_some();
        if told && recovery == Some(Recovery::Replay) {
            let first = first_forgotten.map_or(self.cursor, |cmd| cmd.0);
            let first = first.clamp(self.device_retired, self.cursor);
            let first = self.hold.forgotten.map_or(first, |f| f.min(first));
            self.hold.forgotten = Some(first);
            if self.fenced > first {
                // That fence is forgotten too, and what precedes the commands may rely on it.
                self.fenced = self.fenced.min(self.device_retired);
            }
        }
        if self.hold.device_is_free() {
            // The time before the hold counts, or short turns would never notice a lost fence.
            self.last_progress = Instant::from_ns(now.since(Instant::ZERO + self.quiet).as_ns());
            self.fence_refused = false;
            if let Some(first) = self.hold.forgotten.take() {
                self.last_progress = now;
                self.replay_from(first);
            }
        }
    }

    /// The device has forgotten the commands from `first` on; launch them again.
    fn replay_from(&mut self, first: u64) {
        let first = first.max(self.device_retired).max(self.retired);
        // Commands that needed no device were settled on the way and pass again on the way back.
        let passed = (first..self.cursor).filter(|&n| self.slot(n).settled).count() as u64;
        self.settled = self.settled.saturating_sub(passed);
        if first < self.cursor {
            // The wait behind the launch point is told again when it gets there.
            self.stop_waiting();
        }
        self.cursor = first;
        self.last_launch = self.last_launch.min(first);
        self.fenced = self.fenced.min(first);
        // Those behind it are remembered in their slots.
        self.requested = self.requested.min(first);
        self.lone = None;
    }

    fn step_failed(&mut self, step: Step, fault: Fault) {
        self.anomalies.failed_steps += 1;
        match step {
            _ if fault.is_sticky() => self.lose(),
            Step::Deactivate => self.hold.no_deactivate = true,
            Step::Interrupt => self.hold.no_interrupt = true,
            Step::Restore | Step::Reactivate => {
                self.hold.release_failures += 1;
                if self.hold.release_failures >= RELEASE_TRIES {
                    self.lose();
                }
            }
        }
    }
}
