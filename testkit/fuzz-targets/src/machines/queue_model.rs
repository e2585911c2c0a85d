//! Model of a queue, the slow way: a list of commands, each with its state written out, and rules
//! that look at all of them each time.

use xsched_core::fault::Fault;
use xsched_core::id::EventRef;
use xsched_core::level::{Caps, Level, Recovery, Step};
use xsched_core::message::HoldState;
use xsched_core::queue::{Outcome, Status};

/// Where a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Submitted, or forgotten by the device: it has to pass the launch point (again).
    Ring,
    /// Past the launch point without the device; it retires in its turn.
    Passed,
    /// Launched, and not known to have retired.
    Device,
    /// Retired.
    Retired,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) wait: Option<EventRef>,
    /// Needs no device, or no longer.
    pub(super) settled: bool,
    /// Dropped, if it is still to pass the launch point.
    pub(super) doomed: bool,
    pub(super) wanted: bool,
    pub(super) place: Place,
    /// Has passed the launch point at least once.
    pub(super) passed: bool,
    pub(super) fault: Option<Fault>,
}

/// Request that the queue must make next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Step(Step),
    Launch(u64),
    /// Nothing, or a fence.
    Nothing,
}

/// The model.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) commands: Vec<Command>,
    pub(super) slots: usize,
    pub(super) caps: Caps,
    pub(super) level: Level,
    pub(super) lost: bool,
    pub(super) epoch: u32,
    pub(super) ordered: Option<Level>,
    pub(super) suspended: Option<Level>,
    pub(super) failed_open: bool,
    pub(super) deactivated: bool,
    pub(super) interrupted: bool,
    pub(super) step: Option<Step>,
    gate_broken: bool,
    interrupt_broken: bool,
    release_failures: u32,
    /// The first command that the device has forgotten, while held.
    pub(super) forgotten: Option<u64>,
    /// The command that the queue has come to and that waits.
    pub(super) waiting: Option<usize>,
    pub(super) watch: u64,
    pub(super) stale_orders: u64,
    pub(super) nonsense: u64,
    pub(super) failed_steps: u64,
}

impl Model {
    pub(super) fn new(slots: usize, level: Level, caps: Caps) -> Self {
        Self {
            commands: Vec::new(),
            slots,
            caps,
            level,
            lost: false,
            epoch: 0,
            ordered: None,
            suspended: None,
            failed_open: false,
            deactivated: false,
            interrupted: false,
            step: None,
            gate_broken: false,
            interrupt_broken: false,
            release_failures: 0,
            forgotten: None,
            waiting: None,
            watch: 0,
            stale_orders: 0,
            nonsense: 0,
            failed_steps: 0,
        }
    }

    pub(super) fn count(&self, is: impl Fn(&Command) -> bool) -> u64 {
        self.commands.iter().filter(|c| is(c)).count() as u64
    }

    pub(super) fn retired(&self) -> u64 {
        self.count(|c| c.place == Place::Retired)
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.count(|c| matches!(c.place, Place::Passed | Place::Device))
    }

    pub(super) fn on_device(&self) -> bool {
        self.commands.iter().any(|c| c.place == Place::Device)
    }

    pub(super) fn is_full(&self) -> bool {
        self.commands.len() as u64 - self.retired() >= self.slots as u64
    }

    /// The next command to pass the launch point.
    pub(super) fn launch_point(&self) -> usize {
        let next = self.commands.iter().position(|c| c.place == Place::Ring);
        next.unwrap_or(self.commands.len())
    }

    pub(super) fn status(&self, n: usize) -> Status {
        let Some(command) = self.commands.get(n) else { return Status::Unknown };
        if self.commands.len() - n > self.slots {
            return Status::Forgotten;
        }
        match command.fault {
            Some(fault) => Status::Failed(fault),
            None if command.place == Place::Retired => Status::Done,
            None if command.passed => Status::InFlight,
            None => Status::Queued,
        }
    }

    pub(super) fn submit(&mut self, wait: Option<EventRef>) {
        self.commands.push(Command {
            wait,
            settled: false,
            doomed: false,
            wanted: false,
            place: Place::Ring,
            passed: false,
            fault: None,
        });
    }

    pub(super) fn cancel(&mut self, n: usize) -> bool {
        let Some(command) = self.commands.get_mut(n) else { return false };
        if command.passed || command.settled {
            return false;
        }
        command.settled = true;
        command.fault = Some(Fault::Cancelled);
        if self.waiting == Some(n) {
            self.waiting = None;
        }
        true
    }

    pub(super) fn drop_pending(&mut self) {
        for command in &mut self.commands {
            command.doomed = true;
        }
        self.waiting = None;
    }

    /// A verdict with this epoch.
    pub(super) fn order(&mut self, epoch: u32, hold: Option<Level>) {
        let ahead = epoch.wrapping_sub(self.epoch);
        if ahead == 0 || ahead >= 1 << 31 {
            self.stale_orders += 1;
            return;
        }
        (self.epoch, self.ordered, self.failed_open) = (epoch, hold, false);
    }

    pub(super) fn fail_open(&mut self) {
        self.failed_open = self.ordered.is_some();
    }

    pub(super) fn reached(&mut self, event: EventRef, ok: bool) {
        let Some(n) = self.waiting.filter(|&n| self.commands[n].wait == Some(event)) else {
            return;
        };
        self.commands[n].settled = true;
        if !ok {
            self.commands[n].fault = Some(Fault::Abandoned);
        }
        self.waiting = None;
    }

    /// The level of the hold that applies, if one does.
    pub(super) fn hold(&self) -> Option<Level> {
        let ordered = self.ordered.filter(|_| !self.failed_open);
        let wish = ordered.into_iter().chain(self.suspended).max()?;
        Some(wish.min(self.level).min(self.caps.level))
    }

    pub(super) fn device_is_free(&self) -> bool {
        !self.deactivated && !self.interrupted && self.step.is_none()
    }

    fn missing_step(&self) -> Option<Step> {
        let hold = self.hold();
        let gate = hold >= Some(Level::Deactivate) && self.caps.deactivate.is_some();
        let stop = hold >= Some(Level::Interrupt) && self.caps.interrupt.is_some();
        if self.interrupted && !stop {
            return Some(Step::Restore);
        }
        if self.deactivated && !gate && !self.interrupted {
            return Some(Step::Reactivate);
        }
        if !self.on_device() {
            return None;
        }
        if gate && !self.deactivated {
            return (!self.gate_broken).then_some(Step::Deactivate);
        }
        (stop && !self.interrupted && !self.interrupt_broken).then_some(Step::Interrupt)
    }

    pub(super) fn hold_state(&self) -> HoldState {
        let Some(level) = self.hold() else {
            let free = self.device_is_free();
            return if free { HoldState::Running } else { HoldState::Resuming };
        };
        if self.step.is_some() || self.missing_step().is_some() {
            HoldState::Holding
        } else if !self.on_device() {
            HoldState::Held(level)
        } else if self.interrupted {
            HoldState::Held(Level::Interrupt)
        } else if self.deactivated {
            HoldState::Held(Level::Deactivate)
        } else {
            HoldState::Held(Level::Block)
        }
    }

    /// The step that the queue must ask for now.
    pub(super) fn next_step(&self) -> Next {
        let idle = !self.lost && self.step.is_none();
        self.missing_step().filter(|_| idle).map_or(Next::Nothing, Next::Step)
    }

    /// Returns what the queue must ask for now; commands that need no device pass on the way.
    pub(super) fn next(&mut self, limit: u64) -> Next {
        let step = self.next_step();
        if step != Next::Nothing {
            return step;
        }
        if self.lost || self.hold().is_some() || !self.device_is_free() {
            return Next::Nothing;
        }
        while self.in_flight() < limit {
            let n = self.launch_point();
            let Some(command) = self.commands.get_mut(n) else { break };
            if command.doomed && !command.settled {
                command.settled = true;
                command.fault = Some(Fault::Cancelled);
            }
            if !command.settled {
                if command.wait.is_none() {
                    return Next::Launch(n as u64);
                }
                self.waiting = Some(n);
                break;
            }
            command.place = Place::Passed;
            command.passed = true;
            self.waiting = None;
            self.retire_passed();
        }
        Next::Nothing
    }

    /// Retires what needs no device when everything before it has retired.
    fn retire_passed(&mut self) {
        for command in &mut self.commands {
            match command.place {
                Place::Retired => {}
                Place::Passed => command.place = Place::Retired,
                Place::Ring | Place::Device => break,
            }
        }
    }

    pub(super) fn launched(&mut self, n: u64) {
        let command = &mut self.commands[n as usize];
        command.place = Place::Device;
        command.passed = true;
    }

    /// The device refused a launch.
    pub(super) fn refused(&mut self, n: u64, fault: Fault) {
        let known = self.commands.get_mut(n as usize).filter(|c| c.place == Place::Device);
        let Some(command) = known else {
            self.nonsense += 1;
            return;
        };
        command.settled = true;
        command.fault = Some(fault);
        command.place = Place::Passed;
        self.retire_passed();
        if fault.is_sticky() {
            self.lose();
        }
    }

    /// The device says what has retired. Returns how many launched commands that were.
    pub(super) fn told(&mut self, upto: u64, outcome: Outcome) -> u64 {
        let mut commands = 0;
        for (n, command) in self.commands.iter_mut().enumerate().take(upto as usize + 1) {
            if command.place == Place::Device {
                commands += 1;
                if let Outcome::Failed { from, fault } = outcome
                    && n as u64 >= from.0
                {
                    command.fault = Some(fault);
                }
            }
            command.place = Place::Retired;
        }
        self.retire_passed();
        commands
    }

    /// The outstanding step is done, or has failed. Returns how many launched commands go back to
    /// the ring.
    pub(super) fn stepped(&mut self, result: Result<Option<u64>, Fault>) -> u64 {
        let Some(step) = self.step.take() else { return 0 };
        let forgotten = match result {
            Ok(forgotten) => forgotten,
            Err(fault) => {
                self.step_failed(step, fault);
                return 0;
            }
        };
        self.release_failures = 0;
        match step {
            Step::Deactivate => self.deactivated = true,
            Step::Interrupt => self.interrupted = true,
            Step::Restore => self.interrupted = false,
            Step::Reactivate => self.deactivated = false,
        }
        let recovery = match step {
            Step::Deactivate => self.caps.deactivate,
            Step::Interrupt => self.caps.interrupt,
            Step::Restore | Step::Reactivate => None,
        };
        if let Some(first) = forgotten.filter(|_| recovery == Some(Recovery::Replay)) {
            self.forgotten = Some(self.forgotten.map_or(first, |f| f.min(first)));
        }
        if self.device_is_free() { self.replay() } else { 0 }
    }

    fn step_failed(&mut self, step: Step, fault: Fault) {
        self.failed_steps += 1;
        match step {
            _ if fault.is_sticky() => self.lose(),
            Step::Deactivate => self.gate_broken = true,
            Step::Interrupt => self.interrupt_broken = true,
            Step::Restore | Step::Reactivate => {
                self.release_failures += 1;
                if self.release_failures == 3 {
                    self.lose();
                }
            }
        }
    }

    fn replay(&mut self) -> u64 {
        let Some(first) = self.forgotten.take() else { return 0 };
        let mut launched = 0;
        for command in self.commands.iter_mut().skip(first as usize) {
            if matches!(command.place, Place::Passed | Place::Device) {
                launched += u64::from(command.place == Place::Device);
                command.place = Place::Ring;
                self.waiting = None;
            }
        }
        launched
    }

    pub(super) fn lose(&mut self) {
        self.lost = true;
        for command in &mut self.commands {
            if command.place != Place::Retired && command.fault.is_none() && !command.settled {
                command.fault = Some(Fault::DeviceLost);
            }
            command.place = Place::Retired;
            command.passed = true;
        }
        self.waiting = None;
        self.deactivated = false;
        self.interrupted = false;
        self.step = None;
        self.forgotten = None;
    }
}
