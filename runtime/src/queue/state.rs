//! State of a queue under its lock.

use std::collections::VecDeque;

use xsched_core::fault::Fault;
use xsched_core::hal::Submit;
use xsched_core::id::CmdId;
use xsched_core::level::Caps;
use xsched_core::message::Report;
use xsched_core::queue::{CommandSlot, Queue, QueueConfig, Signal, Status};
use xsched_core::time::Instant;

use super::failures::Failures;
use super::lifecycle::{Lifecycle, StepState};
use super::timing::Timing;
use crate::clock::now;
use crate::completion::{Outcome, Until, WaiterId, Waiters};
use crate::error::WaitError;
use crate::record::RecordBuffer;
use crate::sync::bound;

/// Places of a new queue. Their number doubles, up to the queue's capacity, whenever all are taken,
/// so that a queue whose commands are launched as they come stays small.
const PLACES_FIRST: usize = bound(64, 2) as usize;

pub(super) struct State<S: Submit<Payload: Sized>> {
    pub(super) machine: Queue<Box<[CommandSlot]>>,
    /// Commands that wait to be launched, or for as long as they may have to be launched again.
    payloads: Box<[Option<S::Payload>]>,
    /// Commands that may be submitted and not retired.
    capacity: usize,
    /// The right to launch.
    pub(super) launcher: Option<Box<S>>,
    /// Commands that only the threads may launch that submitted them, in order. Those that are over
    /// are taken out by these threads.
    pub(super) caller_launched: VecDeque<CmdId>,
    pub(super) waiters: Waiters,
    pub(super) failures: Failures,
    /// Commands to be dropped once the state is let go: their destructors are the user's.
    pub(super) deferred_drops: Vec<S::Payload>,
    /// Report that the scheduler has not fetched.
    pub(super) report: Option<Report>,
    /// Commands submitted before the reaper's last rest.
    pub(super) submitted_before: u64,
    /// Where what happens to the queue is written down, if it is.
    pub(super) record: Option<Box<RecordBuffer>>,
    /// The last time that was read while something was in flight. Reading the clock costs as much
    /// as launching, and only an idle queue needs to know when it became ready.
    pub(super) time: Instant,
    pub(super) lifecycle: Lifecycle,
    pub(super) step: StepState,
    /// The pump has been asked, and has not come.
    pub(super) pump_asked: bool,
    /// The queue counts among those that have something to do.
    pub(super) counted: bool,
    pub(super) timing: Timing,
}

/// Parts of a queue's machine.
pub(crate) struct MachineParams {
    pub(crate) config: QueueConfig,
    pub(crate) caps: Caps,
    /// Commands that may be submitted and not retired.
    pub(crate) capacity: usize,
}

fn slots(places: usize) -> Box<[CommandSlot]> {
    vec![CommandSlot::default(); places].into_boxed_slice()
}

fn empty<P>(places: usize) -> Box<[Option<P>]> {
    (0..places).map(|_| None).collect()
}

impl<S: Submit<Payload: Sized>> State<S> {
    pub(super) fn new(params: MachineParams, submit: S) -> Self {
        let MachineParams { config, caps, capacity } = params;
        let places = capacity.min(PLACES_FIRST);
        Self {
            machine: Queue::new(slots(places), config, caps),
            payloads: empty(places),
            capacity,
            launcher: Some(Box::new(submit)),
            caller_launched: VecDeque::new(),
            waiters: Waiters::new(),
            failures: Failures::default(),
            deferred_drops: Vec::new(),
            report: None,
            submitted_before: 0,
            record: None,
            time: now(),
            lifecycle: Lifecycle::default(),
            step: StepState::default(),
            pump_asked: false,
            counted: false,
            timing: Timing::default(),
        }
    }

    /// Ends the burst that may be under way if the machine lets none be.
    pub(super) fn end_burst_if_held(&mut self) {
        if !self.machine.may_burst()
            && let Some(launcher) = &mut self.launcher
        {
            launcher.end_burst();
        }
    }

    /// Returns whether threads launch behind the last command, and no scheduler has a use for its
    /// end.
    pub(super) fn is_in_burst(&self) -> bool {
        let is_in = |launcher: &S| launcher.is_unattended() && launcher.is_in_burst();
        self.machine.is_unattended() && self.launcher.as_deref().is_some_and(is_in)
    }

    /// Makes the ring larger if all its places are taken and there may be more.
    #[inline]
    pub(super) fn grow_if_full(&mut self) {
        let (taken, places) = (self.unfinished(), self.payloads.len());
        if taken == places as u64 && places < self.capacity {
            self.grow((2 * places).min(self.capacity));
        }
    }

    #[cold]
    fn grow(&mut self, places: usize) {
        let mut before = std::mem::replace(&mut self.payloads, empty(places));
        for n in self.machine.retired()..self.machine.submitted() {
            let old = (n % before.len() as u64) as usize;
            *self.payload(CmdId(n)) = before[old].take();
        }
        drop(self.machine.grow(slots(places)));
    }

    /// The place of a command.
    pub(super) fn payload(&mut self, cmd: CmdId) -> &mut Option<S::Payload> {
        let places = self.payloads.len() as u64;
        &mut self.payloads[(cmd.0 % places) as usize]
    }

    /// Drops the payloads of commands that will not be launched (any more).
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

    /// True if something could be launched, and no thread is about it.
    pub(super) fn backlog(&self) -> bool {
        self.launcher.is_some() && self.machine.can_launch().is_ok() && !self.is_for_caller()
    }

    /// True if what comes next is launched by the thread that submitted it.
    #[inline]
    pub(super) fn is_for_caller(&self) -> bool {
        if self.caller_launched.is_empty() {
            return false;
        }
        let next = self.machine.peek_launch();
        next.is_some_and(|next| self.caller_launched.binary_search(&next).is_ok())
    }

    /// Notes that commands from `from` up to `to` have passed the launch point without a launch.
    pub(super) fn pass(&mut self, from: CmdId, to: CmdId) {
        if to > from {
            self.discard(from, to);
            self.end_waits_early(from, to);
            self.end_waits();
        }
    }

    /// The launch of this command has failed.
    pub(super) fn fail_launch(&mut self, cmd: CmdId, fault: Fault) {
        self.machine.handle_signal(now(), Signal::LaunchFailed { cmd, fault });
        self.lose_if_sticky(fault);
        self.end_waits_early(cmd, CmdId(cmd.count()));
        self.end_waits();
    }

    /// Notes how many commands the device has room for by now.
    pub(super) fn note_room(&mut self, launcher: &S) {
        if let Some(commands) = launcher.room() {
            self.machine.set_room(commands);
        }
    }

    /// Returns whether another scheduler holds what is in flight, as far as is known while no
    /// thread launches.
    pub(super) fn is_held(&self) -> bool {
        self.launcher.as_ref().is_some_and(|launcher| launcher.is_held())
    }

    pub(super) fn oldest_in_flight(&self) -> Option<CmdId> {
        (self.machine.in_flight() > 0).then(|| CmdId(self.machine.retired()))
    }

    /// True if everything that was submitted has retired.
    pub(super) fn is_drained(&self) -> bool {
        self.machine.submitted() == self.machine.retired()
    }

    /// True if nothing is taken any more, and nothing is left to do.
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
        (self.capacity as u64).saturating_sub(self.unfinished())
    }

    /// Commands that have not retired.
    fn unfinished(&self) -> u64 {
        self.machine.submitted() - self.machine.retired()
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// True if there is room for a submitter: one that waits for room under this number, or one
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
