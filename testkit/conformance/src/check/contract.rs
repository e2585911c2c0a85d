//! The whole, through the core's queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_core::hal::{Checked, Contract, HalError, Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Caps, Level, Recovery, Step as DeviceStep};
use xsched_core::message::Order;
use xsched_core::queue::{Action, CommandSlot, Queue, QueueConfig, Signal, Status};
use xsched_core::rng::SplitMix64;
use xsched_core::time;
use xsched_core::window::WindowConfig;

use super::{Check, list};
use crate::log::Log;
use crate::rig::{CommitEach, device, empty, open, timed};
use crate::subject::{RetireOf, Subject, SubmitOf};
use crate::verdict::{Step, Stop, ensure, fail};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "contract::a_random_life_with_the_core",
        "invariants 1 to 5 and `Contract`: submits, holds, resumes and waits at random",
        a_random_life_with_the_core;
    }
}

/// Commands of a life.
const COMMANDS: u64 = 2_000;
/// Slots of the queue's ring.
const SLOTS: usize = 64;

/// A queue of the core on a queue of the device.
struct Driver<'a, S: Subject> {
    subject: &'a S,
    queue: Queue<Vec<CommandSlot>>,
    submit: Checked<SubmitOf<S>, &'a Contract>,
    retire: Checked<RetireOf<S>, &'a Contract>,
    preempt: Checked<CommitEach<S>, &'a Contract>,
    contract: &'a Contract,
    caps: Caps,
    start: Instant,
    log: Arc<Log>,
    noted: bool,
    commands: Vec<S::Command>,
    /// A step that is under way, and its number.
    step: Option<(DeviceStep, u32)>,
    /// Holds of the device: deactivated, interrupted.
    holds: [bool; 2],
    /// First command that the device has forgotten.
    forgotten: Option<u64>,
    epoch: u32,
    /// Steps that were carried out.
    steps: u64,
}

impl<S: Subject> Driver<'_, S> {
    fn now(&self) -> time::Instant {
        time::Instant::from_ns(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Carries out what the queue asks for, and hands it what the device says.
    fn drive(&mut self) -> Step {
        self.finish_step()?;
        while let Some(action) = self.queue.poll_action(self.now()) {
            match action {
                Action::Launch { cmd, fence } => self.launch(cmd, fence)?,
                Action::Fence { upto } => {
                    let fenced = self.submit.fence(upto);
                    fenced.or_else(|error| fail(format!("a fence was refused: {error:?}")))?;
                }
                Action::Step { step, seq } => self.begin_step(step, seq)?,
            }
        }
        let answer = self.retire.poll_retired();
        match answer.or_else(|e| fail(format!("`poll_retired` failed: {e:?}")))? {
            Some(retired) => self.queue.handle_signal(self.now(), Signal::Retired(retired)),
            None => self.queue.handle_timeout(self.now()),
        }
        while self.queue.poll_report().is_some() {}
        let (violations, first) = (self.contract.violations(), self.contract.first());
        ensure!(violations == 0, "{violations} breaches of the contract, the first {first:?}");
        Ok(())
    }

    fn launch(&mut self, cmd: CmdId, fence: bool) -> Step {
        let Some(command) = self.commands.get(cmd.0 as usize) else {
            return fail(format!("the core launches {} of {}", cmd.0, self.commands.len()));
        };
        let launched = self.submit.launch(cmd, command, fence);
        launched.or_else(|error| {
            fail(format!("launch of command {} was refused: {error:?} ({})", cmd.0, error.kind()))
        })
    }

    fn begin_step(&mut self, step: DeviceStep, seq: u32) -> Step {
        match self.preempt.step(step) {
            Ok(StepDone::Now(first)) => self.stepped(step, seq, first),
            Ok(StepDone::Later) => self.step = Some((step, seq)),
            Err(fault) => return fail(format!("{step:?} was refused: {fault}")),
        }
        Ok(())
    }

    fn finish_step(&mut self) -> Step {
        let Some((step, seq)) = self.step else { return Ok(()) };
        match self.preempt.poll_step() {
            Ok(Some(StepDone::Now(first))) => {
                self.step = None;
                self.stepped(step, seq, first);
            }
            Ok(None | Some(StepDone::Later)) => {}
            Err(fault) => return fail(format!("{step:?} failed: {fault}")),
        }
        Ok(())
    }

    fn stepped(&mut self, step: DeviceStep, seq: u32, first: Option<CmdId>) {
        self.steps += 1;
        let deactivation = matches!(step, DeviceStep::Deactivate | DeviceStep::Reactivate);
        self.holds[usize::from(!deactivation)] = step.is_hold();
        let recovery = if deactivation { self.caps.deactivate } else { self.caps.interrupt };
        if step.is_hold()
            && recovery == Some(Recovery::Replay)
            && let Some(CmdId(first)) = first
        {
            self.forgotten = Some(self.forgotten.map_or(first, |before| before.min(first)));
        }
        if self.holds == [false, false]
            && let Some(first) = self.forgotten.take()
        {
            self.contract.replay_from(CmdId(first));
        }
        self.queue.handle_signal(self.now(), Signal::Stepped { seq, result: Ok(first) });
    }

    fn submit(&mut self, ns: u64) -> Step<bool> {
        let n = self.commands.len() as u64;
        if n == COMMANDS || self.queue.submit(self.now()).is_err() {
            return Ok(false);
        }
        let command = match self.noted.then(|| timed(self.subject, &self.log, n, ns)) {
            Some(Err(Stop::Skip(_))) | None => {
                self.noted = false;
                empty(self.subject)?
            }
            Some(command) => command?,
        };
        self.commands.push(command);
        Ok(true)
    }

    /// Something that a user or the scheduler could do.
    fn act(&mut self, rng: &mut SplitMix64) -> Step {
        let level = Level::from_number(1 + rng.below(3) as u8).unwrap_or_default();
        self.epoch += 1;
        let epoch = self.epoch;
        match rng.below(20) {
            0 => self.queue.suspend(level),
            1 => self.queue.handle_order(Order::Hold { epoch, level }),
            2 | 3 => self.queue.resume(false),
            4 | 5 => self.queue.handle_order(Order::Run { epoch }),
            6 => self.queue.request_completion(CmdId(rng.below(self.commands.len() as u64 + 1))),
            _ => drop(self.submit(rng.below(self.subject.claims().unit_ns / 10))?),
        }
        Ok(())
    }

    /// Lets go and waits until everything has retired.
    fn end(&mut self) -> Step {
        self.epoch += 1;
        self.queue.resume(false);
        self.queue.handle_order(Order::Run { epoch: self.epoch });
        if let Some(last) = self.queue.submitted().checked_sub(1) {
            self.queue.request_completion(CmdId(last));
        }
        let start = Instant::now();
        while self.queue.retired() < self.queue.submitted() {
            self.drive()?;
            let (retired, submitted) = (self.queue.retired(), self.queue.submitted());
            let in_time = start.elapsed() < self.subject.patience();
            ensure!(in_time, "{retired} of {submitted} retired; the rest never does");
            std::thread::sleep(Duration::from_micros(20));
        }
        self.verify()
    }

    fn verify(&self) -> Step {
        let submitted = self.queue.submitted();
        for n in submitted.saturating_sub(SLOTS as u64)..submitted {
            let status = self.queue.status(CmdId(n));
            ensure!(status == Status::Done, "command {n} is {status:?} in the end");
        }
        let odd = self.queue.anomalies();
        ensure!(odd.protocol == 0, "{} answers of the device made no sense", odd.protocol);
        ensure!(!self.queue.is_lost(), "the device was lost");
        // Commands that take no time are never on the device when a hold comes.
        let held = self.steps > 0 || !self.noted || self.caps.level == Level::Block;
        ensure!(held, "no hold came while a command was on the device");
        let restarts = self.caps.interrupt == Some(Recovery::Replay);
        let noted = if self.noted { submitted } else { 0 };
        self.log.disorder(0..noted, restarts).map_or(Ok(()), fail)
    }
}

fn a_random_life_with_the_core<S: Subject>(subject: &S) -> Step {
    let mut rng = SplitMix64::new(subject.seed());
    let queue = open(subject, &device(subject)?, 0)?;
    let contract = Contract::default();
    let window = WindowConfig::fixed(1 + rng.below(24) as u32, 1 + rng.below(8) as u32);
    let config = QueueConfig { window, level: Level::Interrupt, ..QueueConfig::default() };
    let mut driver = Driver {
        subject,
        queue: Queue::new(vec![CommandSlot::default(); SLOTS], config, queue.caps),
        submit: Checked::new(queue.submit, &contract),
        retire: Checked::new(queue.retire, &contract),
        preempt: Checked::new(queue.preempt, &contract),
        contract: &contract,
        caps: queue.caps,
        start: Instant::now(),
        log: Log::new(COMMANDS as usize),
        noted: true,
        commands: Vec::new(),
        step: None,
        holds: [false; 2],
        forgotten: None,
        epoch: 0,
        steps: 0,
    };
    while driver.queue.submitted() < COMMANDS && driver.start.elapsed() < Duration::from_secs(1) {
        driver.act(&mut rng)?;
        driver.drive()?;
    }
    driver.end()
}
