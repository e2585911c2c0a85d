//! What the state lock of a queue guards.

use std::task::Waker;

use xsched_core::fault::Fault;
use xsched_core::hal::Submit;
use xsched_core::id::CmdId;
use xsched_core::message::Report;
use xsched_core::queue::{CommandSlot, Queue, Signal, Status};
use xsched_core::time::Instant;

use super::WAKES;
use crate::clock::now;
use crate::error::WaitError;
use crate::recorder::Tape;
use crate::sync::mutant;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The end of a command: it has retired, or has failed and will retire in its turn.
    Ended(CmdId),
    /// The command and everything before it has retired.
    Retired(CmdId),
    /// Room in the ring. That takes the oldest command to retire.
    Room,
}

pub(super) struct Waiter {
    pub(super) until: Until,
    pub(super) waker: Waker,
}

pub(super) struct State<S: Submit<Payload: Sized>> {
    pub(super) machine: Queue<Box<[CommandSlot]>>,
    /// Commands that wait to be launched, or for as long as they may have to be launched again.
    pub(super) payloads: Box<[Option<S::Payload>]>,
    /// The right to launch.
    pub(super) launcher: Option<Box<S>>,
    pub(super) waiters: Vec<Waiter>,
    /// Commands to be dropped once the state is let go: their destructors are the user's.
    pub(super) trash: Vec<S::Payload>,
    /// What the scheduler has not fetched.
    pub(super) report: Option<Report>,
    /// A step that the device has not finished.
    pub(super) later: Option<u32>,
    /// Somebody needs the completions as soon as they are there.
    pub(super) eager: bool,
    /// Commands submitted before the reaper's last rest.
    pub(super) submitted_before: u64,
    /// A step waits for the launching half to come back.
    pub(super) step_due: bool,
    /// Where what happens to the queue is written down, if it is.
    pub(super) tape: Option<Box<Tape>>,
    /// The last time that was read while something was in flight. Reading the clock costs as much
    /// as launching, and only an idle queue needs to know when it became ready.
    pub(super) time: Instant,
    /// It is among those that have something to do.
    pub(super) counted: bool,
    /// The reaper looks at this queue.
    pub(super) watched: bool,
    /// The pump has been asked.
    pub(super) pump_due: bool,
    /// There is no handle any more.
    pub(super) closing: bool,
    /// There is nothing more to come.
    pub(super) over: bool,
    /// It is out of the scheduler's table.
    pub(super) detached: bool,
}

impl<S: Submit<Payload: Sized>> State<S> {
    /// The place of a command.
    pub(super) fn payload(&mut self, cmd: CmdId) -> &mut Option<S::Payload> {
        let places = self.payloads.len() as u64;
        &mut self.payloads[(cmd.0 % places) as usize]
    }

    /// Whether the in-flight window has room.
    pub(super) fn window_is_open(&self) -> bool {
        self.machine.in_flight() < u64::from(self.machine.window().threshold())
    }

    /// These commands will not be launched (any more).
    pub(super) fn discard(&mut self, from: CmdId, to: CmdId) {
        for n in from.0..to.0 {
            let payload = self.payload(CmdId(n)).take();
            self.trash.extend(payload);
        }
    }

    /// Takes the machine's report; true if the scheduler must be told that there is one.
    pub(super) fn take_note(&mut self) -> bool {
        let Some(report) = self.machine.poll_report() else { return false };
        self.report.replace(report).is_none()
    }

    /// Whether something could be launched, and nobody is about it.
    pub(super) fn backlog(&self) -> bool {
        !mutant("no second look")
            && !mutant("nobody launches after a hold")
            && self.launcher.is_some()
            && self.machine.can_launch().is_ok()
    }

    /// Takes out those whose wait is over, as many as there is room for; true if there are more.
    pub(super) fn ripe_waiters(&mut self, wakes: &mut [Option<Waker>; WAKES]) -> bool {
        let mut room = wakes.iter_mut();
        let mut at = 0;
        while at < self.waiters.len() {
            if self.outcome(self.waiters[at].until).is_none() {
                at += 1;
                continue;
            }
            let Some(place) = room.next() else { return true };
            *place = Some(self.waiters.swap_remove(at).waker);
        }
        false
    }

    pub(super) fn lose_if_sticky(&mut self, fault: Fault) {
        if fault.is_sticky() {
            self.machine.handle_signal(now(), Signal::Lost);
        }
    }

    pub(super) fn outcome(&self, until: Until) -> Option<Result<(), WaitError>> {
        let cmd = match until {
            Until::Ended(cmd) => cmd,
            Until::Retired(cmd) => return (self.machine.retired() > cmd.0).then_some(Ok(())),
            Until::Room => return (!self.machine.is_full()).then_some(Ok(())),
        };
        match self.machine.status(cmd) {
            Status::Done => Some(Ok(())),
            Status::Failed(fault) => Some(Err(WaitError::Failed(fault))),
            Status::Forgotten => Some(Err(WaitError::Forgotten)),
            Status::Unknown => Some(Err(WaitError::WrongQueue)),
            Status::InFlight | Status::Queued => None,
        }
    }
}
