//! The steps of holds.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use xsched_core::fault::Fault;
use xsched_core::hal::StepDone;
use xsched_core::level::Step;
use xsched_core::message::HoldState;
use xsched_core::queue::{Action, Signal};

use super::halves::{Launching, Retiring, Stepping};
use super::lifecycle::StepState;
use super::shared::{Guard, SharedQueue};
use crate::backoff::delay_after;
use crate::clock::now;
use crate::completion::poll_delay;
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use crate::workers::Committer;

impl<S: Launching, R: Retiring, P: Stepping> SharedQueue<S, R, P> {
    /// Carries out the steps that are due, also if that takes a commit.
    pub(super) fn run_steps_and_commit(&self) {
        if let Some(committer) = self.run_steps() {
            committer.commit();
        }
    }

    /// Carries out the steps that are due, and waits for one that takes its time, as long as the
    /// scheduler may take to answer.
    pub(super) fn finish_steps(&self) {
        self.run_steps_and_commit();
        let start = Instant::now();
        while self.lock().step.on_device() && start.elapsed() < self.scheduler.lease {
            poll_delay::exactly(|| thread::sleep(delay_after(start.elapsed())));
            self.finish_later_step(None);
        }
    }

    /// Carries out the steps that are due. If one was staged, the caller has to have it committed.
    pub(super) fn run_steps(&self) -> Option<&Arc<Committer>> {
        self.run_steps_from(self.lock())
    }

    /// Carries out the steps that are due, for a caller that has the state.
    pub(super) fn run_steps_from<'a>(
        &'a self,
        mut state: Guard<'a, S>,
    ) -> Option<&'a Arc<Committer>> {
        loop {
            let hold = state.machine.hold_state();
            state.timing.hold(hold);
            if self.replays()
                && state.launcher.is_none()
                && state.machine.hold_state() == HoldState::Resuming
            {
                // A launch is on its way that the device must still forget, or it would run before
                // those that are launched again.
                if !state.step.on_device() {
                    state.step = StepState::AwaitsLauncher;
                }
                self.finish(state);
                return None;
            }
            let Some(Action::Step { step, seq }) = state.machine.poll_step() else {
                self.finish(state);
                return None;
            };
            drop(state);
            let mut steps = lock(&self.steps);
            let done = self.guarded(|| steps.step(step));
            drop(steps);
            state = self.lock();
            let result = match done {
                Ok(StepDone::Now(first)) => Ok(first),
                Ok(StepDone::Later) => {
                    state.step = StepState::OnDevice(seq);
                    self.finish(state);
                    return self.staged();
                }
                Err(fault) => Err(fault),
            };
            state.machine.handle_signal(now(), Signal::Stepped { seq, result });
            drop(state);
            if step == Step::Reactivate && self.flags.silent.load(Ordering::Relaxed) {
                // A thread that sleeps thinks that there is nothing to see as long as the queue is
                // held.
                self.alarm_waker.wake_by_ref();
            }
            state = self.lock();
        }
    }

    /// A step has been answered with "later".
    fn staged(&self) -> Option<&Arc<Committer>> {
        let committer = self.workers.committer();
        match (committer, self.this.upgrade()) {
            (Some(committer), Some(this)) => committer.stage(this),
            // The reaper may rest until the next completion, and none may come before this ends.
            _ => self.workers.reaper().notify(),
        }
        committer
    }

    /// The end of a step that took its time. `failed` if it will not come by itself.
    pub(super) fn finish_later_step(&self, failed: Option<Fault>) -> bool {
        let StepState::OnDevice(seq) = self.lock().step else { return false };
        let mut steps = lock(&self.steps);
        let done = self.guarded(|| steps.poll_step());
        drop(steps);
        let result = match (done, failed) {
            (Ok(Some(StepDone::Now(first))), _) => Ok(first),
            (Ok(None | Some(StepDone::Later)), None) => return false,
            (Ok(None | Some(StepDone::Later)), Some(fault)) | (Err(fault), _) => Err(fault),
        };
        let mut state = self.lock();
        if state.step != StepState::OnDevice(seq) {
            return false;
        }
        state.step = StepState::None;
        state.machine.handle_signal(now(), Signal::Stepped { seq, result });
        drop(state);
        self.run_steps_and_commit();
        true
    }
}
