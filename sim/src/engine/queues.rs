//! Driving the queue machines: launches, completions, steps.

use xsched_core::fault::Fault;
use xsched_core::hal::{
    Checked, Contract, Faulty, HalError, LevelAdapter, Retire, StepDone, Steps, Submit,
};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::Level;
use xsched_core::message::Claim;
use xsched_core::queue::{Action, CommandSlot, Outcome, Queue, Retired, Signal};
use xsched_core::time::Instant;

use super::Engine;
use crate::clock::Event;
use crate::device::{Launch, SimRetire, SimSteps, SimSubmit};

/// Host time of putting a command into the ring, when launching costs anything at all.
const ENQUEUE_NS: u64 = 100;

/// An XQueue and what it is connected to.
#[derive(Debug)]
pub(super) struct QueueSim<'a> {
    pub(super) id: QueueId,
    pub(super) machine: Queue<Box<[CommandSlot]>>,
    pub(super) submit: Checked<Faulty<SimSubmit>, &'a Contract>,
    pub(super) retire: Checked<Faulty<SimRetire>, &'a Contract>,
    pub(super) steps: Checked<Faulty<LevelAdapter<SimSteps>>, &'a Contract>,
    pub(super) contract: &'a Contract,
    /// As the scheduler is told.
    pub(super) claim: Claim,
    /// Device time of each command in the ring; 0 for one that needs no device.
    pub(super) work_ns: Box<[u64]>,
    pub(super) stream: u32,
    /// Commands that may be in flight by the scenario and the device, for the checker.
    pub(super) limit: u64,
    pub(super) host_launch_ns: u64,
    pub(super) launch_latency_ns: u64,
    /// The launching thread or the pump is in a launch call until then.
    pub(super) launching_until_ns: u64,
    pub(super) pump_scheduled: bool,
    pub(super) timer_scheduled: bool,
    pub(super) step_seq: u32,
    /// Retired commands when the queue was last driven.
    pub(super) retired_seen: u64,
    /// Commands that failed and whose request has not returned.
    pub(super) failed: std::collections::VecDeque<u64>,
    /// Process has vanished.
    pub(super) gone: bool,
    /// True while it counts among its process's queues with work.
    pub(super) loaded: bool,
    /// A user suspends it.
    pub(super) suspended: bool,
    /// Since when the scheduler holds it, and how deeply at most.
    pub(super) held: Option<(u64, Level)>,
    /// A comparator keeps its next command back.
    pub(super) gated: bool,
    /// When the gate is asked again for the sake of time; in the past if that is over.
    pub(super) asks_at_ns: u64,
}

impl QueueSim<'_> {
    fn slot(&self, cmd: CmdId) -> usize {
        (cmd.0 % self.work_ns.len() as u64) as usize
    }
}

impl Engine<'_> {
    /// Does what a queue's machine asks for.
    pub(super) fn drive(&mut self, queue: usize) {
        if self.queues[queue].gone {
            return;
        }
        let now = self.now();
        self.carry_out_steps(queue);
        self.pump(queue, now);
        self.report(queue);
        self.wake_gated();
        let q = &mut self.queues[queue];
        let retired = q.machine.retired();
        if std::mem::replace(&mut q.retired_seen, retired) != retired {
            self.complete_requests(queue);
            self.unblock(queue);
        }
        if self.faulty {
            self.schedule_timer(queue);
        }
    }

    fn carry_out_steps(&mut self, queue: usize) {
        while let Some(Action::Step { step, seq }) = self.queues[queue].machine.poll_step() {
            if !step.is_hold()
                && let Some(checks) = &mut self.checks
            {
                checks.released(queue);
            }
            let q = &mut self.queues[queue];
            q.step_seq = seq;
            match q.steps.step(step) {
                Ok(StepDone::Now(first)) => self.stepped(queue, Ok(first)),
                Ok(StepDone::Later) => self.world_notes(),
                Err(fault) => self.stepped(queue, Err(fault)),
            }
        }
    }

    fn stepped(&mut self, queue: usize, result: Result<Option<CmdId>, Fault>) {
        let now = self.now();
        let q = &mut self.queues[queue];
        let seq = q.step_seq;
        q.machine.handle_signal(now, Signal::Stepped { seq, result });
        self.world_notes();
    }

    pub(super) fn on_stepped(&mut self, stream: usize) {
        let q = &mut self.queues[stream];
        match q.steps.poll_step() {
            Ok(None) | Ok(Some(StepDone::Later)) => {}
            Ok(Some(StepDone::Now(first))) => self.stepped(stream, Ok(first)),
            Err(fault) => self.stepped(stream, Err(fault)),
        }
        self.todo.push_back(stream as u32);
    }

    /// The pump launches what waits in the ring, one launch call after the other.
    fn pump(&mut self, queue: usize, now: Instant) {
        loop {
            let q = &mut self.queues[queue];
            if q.launching_until_ns > now.as_ns() {
                if !q.pump_scheduled {
                    q.pump_scheduled = true;
                    let event = Event::Pump { queue: queue as u32 };
                    self.world.borrow_mut().clock.at(q.launching_until_ns, event);
                }
                return;
            }
            if self.gate.is_some() && !self.admits(queue) {
                return;
            }
            match self.queues[queue].machine.poll_launch(now) {
                Some(Action::Launch { cmd, fence }) => self.launch(queue, now, cmd, fence),
                Some(Action::Fence { upto }) => self.fence(queue, now, upto),
                Some(Action::Step { .. }) | None => return,
            }
        }
    }

    fn fence(&mut self, queue: usize, now: Instant, upto: CmdId) {
        let q = &mut self.queues[queue];
        if q.submit.fence(upto).is_err() {
            q.machine.handle_signal(now, Signal::FenceFailed);
        }
    }

    /// A thread has submitted a command; if nothing is before it and the window is open, the thread
    /// itself launches it. Returns how long the thread is busy with that.
    pub(super) fn launch_inline(&mut self, queue: usize, now: Instant, cmd: CmdId) -> u64 {
        let q = &mut self.queues[queue];
        let free = q.launching_until_ns <= now.as_ns();
        let enqueue_ns = q.host_launch_ns.min(ENQUEUE_NS);
        if !free || q.machine.next_launch() != cmd {
            return enqueue_ns;
        }
        if self.gate.is_some() && !self.admits(queue) {
            self.wake_gated();
            return enqueue_ns;
        }
        match self.queues[queue].machine.poll_launch(now) {
            Some(Action::Launch { cmd, fence }) => {
                self.launch(queue, now, cmd, fence);
                self.wake_gated();
                return self.queues[queue].launching_until_ns.saturating_sub(now.as_ns());
            }
            // The window is closed, and what is in flight needs a fence.
            Some(Action::Fence { upto }) => self.fence(queue, now, upto),
            Some(Action::Step { .. }) | None => {}
        }
        enqueue_ns
    }

    fn launch(&mut self, queue: usize, now: Instant, cmd: CmdId, fence: bool) {
        let slow = self.setup.faults.launch_slowdown(now.as_ns());
        let q = &mut self.queues[queue];
        let done_ns = now.as_ns() + q.host_launch_ns.saturating_mul(slow);
        q.launching_until_ns = done_ns;
        let slot = q.slot(cmd);
        let ready_at_ns = done_ns + q.launch_latency_ns;
        let payload = Launch { work_ns: q.work_ns[slot], ready_at_ns };
        if let Some(gate) = &mut self.gate {
            gate.launched(now.as_ns(), queue, payload.work_ns);
        }
        if let Some(checks) = &mut self.checks {
            checks.launched(queue, cmd, q.limit);
        }
        if let Err(error) = q.submit.launch(cmd, &payload, fence) {
            q.work_ns[slot] = 0;
            q.failed.push_back(cmd.0);
            let fault = error.kind();
            q.machine.handle_signal(now, Signal::LaunchFailed { cmd, fault });
            if let Some(checks) = &mut self.checks {
                checks.refused(queue, cmd, fault);
            }
            self.todo.push_back(queue as u32);
        }
        self.world_notes();
    }

    /// The host sees a fence of a stream.
    pub(super) fn on_detect(&mut self, stream: usize) {
        let q = &mut self.queues[stream];
        if q.gone {
            return;
        }
        let now = self.now();
        let q = &mut self.queues[stream];
        match q.retire.poll_retired() {
            Ok(None) => {}
            Ok(Some(retired)) => self.retired(stream, now, retired),
            Err(error) => {
                let fault = error.kind();
                if fault.is_sticky() {
                    q.machine.handle_signal(now, Signal::Lost);
                }
            }
        }
        self.todo.push_back(stream as u32);
    }

    fn retired(&mut self, queue: usize, now: Instant, retired: Retired) {
        let q = &mut self.queues[queue];
        let before = q.machine.retired();
        if let Outcome::Failed { from, fault } = retired.outcome {
            for cmd in from.0.max(before)..retired.upto.count() {
                q.failed.push_back(cmd);
                if let Some(checks) = &mut self.checks {
                    checks.failed(queue, CmdId(cmd), fault);
                }
            }
        }
        q.machine.handle_signal(now, Signal::Retired(retired));
        self.record_retired(queue, before, retired.busy);
        self.note_retired(queue, retired.busy);
        if self.checks.is_none() && self.gate.is_none() {
            return;
        }
        let q = &self.queues[queue];
        let range = before..retired.upto.count();
        let on_device = range.filter(|n| q.work_ns[q.slot(CmdId(*n))] > 0).count() as u64;
        if let Some(checks) = &mut self.checks {
            checks.retired(queue, on_device);
        }
        if let Some(gate) = &mut self.gate {
            gate.retired(queue, on_device);
        }
    }

    fn schedule_timer(&mut self, queue: usize) {
        let q = &mut self.queues[queue];
        if q.timer_scheduled {
            return;
        }
        if let Some(due) = q.machine.poll_timeout() {
            q.timer_scheduled = true;
            let event = Event::QueueTimer { queue: queue as u32 };
            self.world.borrow_mut().clock.at(due.as_ns(), event);
        }
    }

    pub(super) fn on_queue_timer(&mut self, queue: usize) {
        let now = self.now();
        let q = &mut self.queues[queue];
        q.timer_scheduled = false;
        q.machine.handle_timeout(now);
        self.todo.push_back(queue as u32);
    }
}
