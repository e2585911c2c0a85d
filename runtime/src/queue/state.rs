//! What the state lock of a queue guards.

use std::collections::VecDeque;

use xsched_core::fault::Fault;
use xsched_core::hal::Submit;
use xsched_core::id::CmdId;
use xsched_core::message::Report;
use xsched_core::queue::{CommandSlot, LaunchBlock, Queue, Signal, Status};
use xsched_core::time::Instant;

use super::failures::Failures;
use super::lifecycle::{Lifecycle, StepState};
use super::timing::Timing;
use crate::clock::now;
use crate::completion::{Outcome, Until, WaiterId, Waiters};
use crate::error::WaitError;
use crate::record::Tape;
use crate::sync::bound;

/// Looks of the reaper after which a launcher thread is late: about a tenth of a millisecond.
pub(super) const LATE_LOOKS: u32 = bound(64, 1);

pub(super) struct State<S: Submit<Payload: Sized>> {
    pub(super) machine: Queue<Box<[CommandSlot]>>,
    /// Commands that wait to be launched, or for as long as they may have to be launched again.
    pub(super) payloads: Box<[Option<S::Payload>]>,
    /// The right to launch.
    pub(super) launcher: Option<Box<S>>,
    /// Commands that only the threads may launch that submitted them, in order. Those that are over
    /// are taken out by these threads.
    pub(super) here: VecDeque<CmdId>,
    pub(super) waiters: Waiters,
    pub(super) failures: Failures,
    /// Commands to be dropped once the state is let go: their destructors are the user's.
    pub(super) deferred_drops: Vec<S::Payload>,
    /// What the scheduler has not fetched.
    pub(super) report: Option<Report>,
    /// Commands submitted before the reaper's last rest.
    pub(super) submitted_before: u64,
    /// Where what happens to the queue is written down, if it is.
    pub(super) tape: Option<Box<Tape>>,
    /// The last time that was read while something was in flight. Reading the clock costs as much
    /// as launching, and only an idle queue needs to know when it became ready.
    pub(super) time: Instant,
    pub(super) lifecycle: Lifecycle,
    pub(super) step: StepState,
    /// The pump has been asked, and has not come.
    pub(super) pump_asked: bool,
    /// What waits in the ring is for the shared launcher thread. If that does not come, the pump
    /// launches it as well.
    pub(super) handed_over: bool,
    /// That thread has been asked, and has not come.
    pub(super) launcher_asked: bool,
    /// It is to look whether there is room in the window.
    pub(super) look_due: bool,
    /// The reaper's looks while it has not come.
    pub(super) late_looks: u32,
    /// The pump is to launch in its place.
    pub(super) pump_due: bool,
    /// The queue counts among those that have something to do.
    pub(super) counted: bool,
    /// Completions are needed as soon as they are there. The reaper reads a copy.
    pub(super) eager: bool,
    pub(super) timing: Timing,
}

impl<S: Submit<Payload: Sized>> State<S> {
    pub(super) fn new(machine: Queue<Box<[CommandSlot]>>, submit: S, capacity: usize) -> Self {
        Self {
            machine,
            payloads: (0..capacity).map(|_| None).collect(),
            launcher: Some(Box::new(submit)),
            here: VecDeque::new(),
            waiters: Waiters::new(),
            failures: Failures::default(),
            deferred_drops: Vec::new(),
            report: None,
            submitted_before: 0,
            tape: None,
            time: now(),
            lifecycle: Lifecycle::default(),
            step: StepState::default(),
            pump_asked: false,
            handed_over: false,
            launcher_asked: false,
            look_due: false,
            late_looks: 0,
            pump_due: false,
            counted: false,
            eager: false,
            timing: Timing::default(),
        }
    }

    /// The place of a command.
    pub(super) fn payload(&mut self, cmd: CmdId) -> &mut Option<S::Payload> {
        let places = self.payloads.len() as u64;
        &mut self.payloads[(cmd.0 % places) as usize]
    }

    /// These commands will not be launched (any more).
    pub(super) fn discard(&mut self, from: CmdId, to: CmdId) {
        for n in from.0..to.0 {
            let payload = self.payload(CmdId(n)).take();
            self.deferred_drops.extend(payload);
        }
    }

    /// Takes the machine's report; true if the scheduler must be told that there is one.
    pub(super) fn keep_report(&mut self) -> bool {
        let Some(report) = self.machine.poll_report() else { return false };
        self.report.replace(report).is_none()
    }

    /// Whether something could be launched, and no thread is about it.
    pub(super) fn backlog(&self) -> bool {
        self.launcher.is_some() && self.machine.can_launch().is_ok() && !self.is_for_other(None)
    }

    /// Whether what comes next is to be launched by another thread than the one that launches this
    /// command, if any.
    #[inline]
    pub(super) fn is_for_other(&self, own: Option<CmdId>) -> bool {
        if self.here.is_empty() {
            return false;
        }
        let next = self.machine.peek_launch();
        next != own && next.is_some_and(|next| self.here.binary_search(&next).is_ok())
    }

    /// The reaper looks. Says whether the shared launcher thread does not come, as it may hang in
    /// another launch: then the pump is to launch.
    pub(super) fn launcher_is_late(&mut self, looks: u32) -> bool {
        let late = self.launcher_asked && self.backlog();
        self.late_looks = if late { self.late_looks.saturating_add(looks) } else { 0 };
        self.pump_due = self.late_looks >= LATE_LOOKS;
        self.pump_due
    }

    /// Has the shared launcher thread look for room if the window is full.
    pub(super) fn note_full_window(&mut self) {
        self.look_due = self.machine.can_launch() == Err(LaunchBlock::WindowFull);
    }

    /// Notes how many commands the device has room for by now.
    pub(super) fn note_room(&mut self, launcher: &S) {
        if let Some(commands) = launcher.room() {
            self.machine.set_room(commands);
        }
    }

    pub(super) fn oldest_in_flight(&self) -> Option<CmdId> {
        (self.machine.in_flight() > 0).then(|| CmdId(self.machine.retired()))
    }

    /// Whether everything that was submitted has retired.
    pub(super) fn is_drained(&self) -> bool {
        self.machine.submitted() == self.machine.retired()
    }

    /// Whether nothing is taken any more, and nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.lifecycle.is_closing() && self.is_drained() && !self.step.on_device()
    }

    /// Ends the waits for commands that have retired, and for room if there is some, and keeps
    /// what has failed. Called in the step in which commands retire, since the ring may forget
    /// them after it.
    #[inline]
    pub(super) fn end_waits(&mut self) {
        let free = self.free();
        let Self { machine, waiters, failures, .. } = self;
        failures.keep(machine);
        waiters.retire(machine.retired(), |until| outcome(machine, failures, until));
        waiters.make_room(free);
    }

    /// Ends the waits of threads whose turn has come to launch.
    #[inline]
    pub(super) fn give_turns(&mut self) {
        let Self { machine, waiters, launcher, .. } = self;
        let is_free = launcher.is_some();
        waiters.give_turns(|until| turn(machine, is_free, until));
    }

    /// Free places in the ring.
    fn free(&self) -> u64 {
        let unfinished = self.machine.submitted() - self.machine.retired();
        (self.payloads.len() as u64).saturating_sub(unfinished)
    }

    /// Whether there is room for a submitter: one that waits for room under this number, or one
    /// that waits for none.
    #[inline]
    pub(super) fn has_room(&self, waiter: Option<WaiterId>) -> bool {
        match waiter {
            Some(id) => self.waiters.ended(id).is_some(),
            None => self.waiters.leave_room(self.free()),
        }
    }

    /// Ends the waits for those of these commands that have failed and not retired.
    pub(super) fn end_waits_early(&mut self, from: CmdId, to: CmdId) {
        let Self { machine, waiters, failures, .. } = self;
        waiters.end(from.0..to.0, |until| outcome(machine, failures, until));
    }

    pub(super) fn lose_if_sticky(&mut self, fault: Fault) {
        if fault.is_sticky() {
            self.machine.handle_signal(now(), Signal::Lost);
        }
    }

    /// The outcome of a wait, if it is over. What is registered keeps its outcome, and knows it
    /// better than the machine.
    pub(super) fn outcome(&self, until: Until, id: Option<WaiterId>) -> Option<Outcome> {
        id.and_then(|id| self.waiters.ended(id))
            .or_else(|| outcome(&self.machine, &self.failures, until))
            .or_else(|| turn(&self.machine, self.launcher.is_some(), until))
    }
}

/// The outcome of a wait for a command's turn to be launched: it has come if no thread launches.
fn turn(machine: &Queue<Box<[CommandSlot]>>, is_free: bool, until: Until) -> Option<Outcome> {
    let Until::Turn(cmd) = until else { return None };
    let is_over = machine.next_launch() > cmd || machine.is_lost();
    let is_next = || is_free && machine.peek_launch() == Some(cmd);
    (is_over || is_next()).then_some(Ok(()))
}

fn outcome(
    machine: &Queue<Box<[CommandSlot]>>,
    failures: &Failures,
    until: Until,
) -> Option<Outcome> {
    let cmd = match until {
        Until::Ended(cmd) => cmd,
        Until::Retired(cmd) => return (machine.retired() > cmd.0).then_some(Ok(())),
        // A place is given to waiters that are registered, in their turn.
        Until::Room | Until::Turn(_) => return None,
    };
    match machine.status(cmd) {
        Status::Done => Some(Ok(())),
        Status::Failed(fault) => Some(Err(WaitError::Failed(fault))),
        Status::Forgotten => Some(failures.outcome(cmd)),
        Status::Unknown => Some(Err(WaitError::WrongQueue)),
        Status::InFlight | Status::Queued => None,
    }
}
