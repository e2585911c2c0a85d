//! An open queue under test, driven the way the core drives queues.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, ErrorType, HalError, Halves, Retire, StepDone, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level, Recovery, Step as DeviceStep};
use xsched_core::queue::{Outcome, Retired};

use crate::log::{Log, Note};
use crate::subject::{PreemptOf, RetireOf, Subject, SubmitOf, Work};
use crate::verdict::{Step, ensure, fail, skip};

/// Between two looks at a condition that a check waits for.
const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// Commands that a queue's log has room for.
const COMMANDS_MAX: usize = 8_192;
/// Tries, each with commands twice as long as before, to come in time.
const TRIES: u32 = 6;
/// The first of them has commands of this many units.
const UNITS: u64 = 10;

/// The halves of a subject's queue.
pub(crate) type Open<S> = Halves<SubmitOf<S>, RetireOf<S>, CommitEach<S>>;

/// A device under test.
pub(crate) struct Device<S: Subject>(Arc<Mutex<S::Backend>>);

impl<S: Subject> Device<S> {
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut S::Backend) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn stages(&self) -> bool {
        self.with(|device| device.stages())
    }

    pub(crate) fn commit(&self) -> Step {
        self.with(Backend::commit)
            .or_else(|error| fail(format!("the commit was refused: {error:?} ({})", error.kind())))
    }
}

/// The half that preempts. It commits each step as soon as it is staged, so that checks that are
/// not about commits need not make any.
pub(crate) struct CommitEach<S: Subject> {
    inner: PreemptOf<S>,
    /// The device, if it stages steps.
    device: Option<Device<S>>,
}

impl<S: Subject> CommitEach<S> {
    /// Only stages a step, where the device does.
    pub(crate) fn stage(&mut self, step: DeviceStep) -> Result<StepDone, Fault> {
        self.inner.step(step)
    }
}

impl<S: Subject> ErrorType for CommitEach<S> {
    type Error = <PreemptOf<S> as ErrorType>::Error;
}

impl<S: Subject> Steps for CommitEach<S> {
    fn level(&self) -> Level {
        self.inner.level()
    }

    fn step(&mut self, step: DeviceStep) -> Result<StepDone, Fault> {
        let done = self.inner.step(step)?;
        if let Some(device) = self.device.as_ref().filter(|_| done == StepDone::Later) {
            device.with(Backend::commit).map_err(|error| error.kind())?;
        }
        Ok(done)
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        self.inner.poll_step()
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        self.inner.is_quiet()
    }
}

/// Opens a queue on a device.
pub(crate) fn open<S: Subject>(subject: &S, device: &Device<S>, n: u32) -> Step<Open<S>> {
    let opened = device.with(|device| {
        let config = subject.config(device);
        device.open(QueueId::new(n, 0), config)
    });
    match opened {
        Ok(Halves { submit, retire, preempt: inner, caps }) => {
            let device = device.stages().then(|| Device(Arc::clone(&device.0)));
            Ok(Halves { submit, retire, preempt: CommitEach { inner, device }, caps })
        }
        Err(error) => fail(format!("queue {n} was not opened: {error:?}")),
    }
}

pub(crate) fn device<S: Subject>(subject: &S) -> Step<Device<S>> {
    match subject.device() {
        Ok(device) => Ok(Device(Arc::new(Mutex::new(device)))),
        Err(why) => fail(format!("the device was not opened: {why}")),
    }
}

/// Waits until something holds, for as long as the subject's patience.
pub(crate) fn until<S: Subject>(
    subject: &S,
    what: &str,
    mut holds: impl FnMut() -> Step<bool>,
) -> Step {
    let start = Instant::now();
    while !holds()? {
        ensure!(start.elapsed() < subject.patience(), "timed out waiting for {what}");
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Watches for a while that a number does not change.
pub(crate) fn stands_still<S: Subject>(s: &S, what: &str, number: impl Fn() -> u64) -> Step {
    let (start, before) = (Instant::now(), number());
    while start.elapsed() < s.settle() {
        thread::sleep(POLL_INTERVAL);
        let now = number();
        ensure!(now == before, "{what}: a count that must not change went from {before} to {now}");
    }
    Ok(())
}

/// A command of the empty kind.
pub(crate) fn empty<S: Subject>(subject: &S) -> Step<S::Command> {
    subject.command(Work::Empty).map_or_else(|| skip("there are no empty commands"), Ok)
}

/// A command that takes a time, or skips the check.
pub(crate) fn timed<S: Subject>(s: &S, log: &Arc<Log>, n: u64, ns: u64) -> Step<S::Command> {
    ensure!(n < log.len() as u64, "the check launches too many commands");
    let note = Note::new(Arc::clone(log), n);
    let command = s.command(Work::Timed { ns, note });
    command.map_or_else(|| skip("the device's commands cannot be seen running"), Ok)
}

/// Tries something that shows nothing if the device or the machine was too slow, with longer and
/// longer commands. `attempt` gets a time in nanoseconds and says whether it was in time.
pub(crate) fn in_time<S: Subject>(
    subject: &S,
    what: &str,
    mut attempt: impl FnMut(u64) -> Step<bool>,
) -> Step {
    let mut ns = subject.claims().unit_ns.saturating_mul(UNITS);
    for _ in 0..TRIES {
        if attempt(ns)? {
            return Ok(());
        }
        ns = ns.saturating_mul(2);
    }
    fail(format!("{what}, in {TRIES} tries, the last with commands of {} µs", ns / 2_000))
}

/// An open queue.
pub(crate) struct Rig<'a, S: Subject> {
    pub(crate) subject: &'a S,
    pub(crate) submit: SubmitOf<S>,
    pub(crate) retire: RetireOf<S>,
    pub(crate) preempt: CommitEach<S>,
    pub(crate) caps: Caps,
    pub(crate) log: Arc<Log>,
    /// Commands, for the case that they have to be launched again.
    sent: Vec<S::Command>,
    /// Commands known to have retired.
    pub(crate) seen: u64,
    /// Commands that a fence covers.
    fenced: u64,
    /// Device time reported, in nanoseconds.
    pub(crate) busy_ns: u64,
    /// Commands reported to have failed.
    pub(crate) failed: Vec<Range<u64>>,
    deactivated: bool,
    interrupted: bool,
    /// The first command that the device has forgotten.
    forgotten: Option<u64>,
    /// Timed commands, whose log tells when they end.
    noted: Vec<bool>,
}

impl<'a, S: Subject> Rig<'a, S> {
    /// A queue on a fresh device.
    pub(crate) fn new(subject: &'a S) -> Step<Self> {
        Self::on(subject, &device(subject)?, 0)
    }

    /// A queue on a device.
    pub(crate) fn on(subject: &'a S, device: &Device<S>, n: u32) -> Step<Self> {
        let Halves { submit, retire, preempt, caps } = open(subject, device, n)?;
        Ok(Self {
            subject,
            submit,
            retire,
            preempt,
            caps,
            log: Log::new(COMMANDS_MAX),
            sent: Vec::new(),
            seen: 0,
            fenced: 0,
            busy_ns: 0,
            failed: Vec::new(),
            deactivated: false,
            interrupted: false,
            forgotten: None,
            noted: Vec::new(),
        })
    }

    /// Commands launched.
    pub(crate) fn launched(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Commands that may be in flight if each carries a fence.
    pub(crate) fn room(&self) -> u64 {
        u64::from(self.caps.in_flight_max(1))
    }

    fn launch(&mut self, command: S::Command, fence: bool, noted: bool) -> Step<u64> {
        let n = self.launched();
        if let Err(error) = self.submit.launch(CmdId(n), &command, fence) {
            let in_flight = n - self.seen;
            return fail(format!(
                "launch of command {n} was refused with {in_flight} in flight: {error:?} ({})",
                error.kind()
            ));
        }
        self.sent.push(command);
        self.noted.push(noted);
        if fence {
            self.fenced = n + 1;
        }
        Ok(n)
    }

    /// Launches a command that takes a time.
    pub(crate) fn timed(&mut self, ns: u64, fence: bool) -> Step<u64> {
        let command = timed(self.subject, &self.log, self.launched(), ns)?;
        self.launch(command, fence, true)
    }

    /// Launches an empty command.
    pub(crate) fn empty(&mut self, fence: bool) -> Step<u64> {
        let command = empty(self.subject)?;
        self.launch(command, fence, false)
    }

    /// Launches a command that fails.
    pub(crate) fn failing(&mut self, fence: bool) -> Step<u64> {
        match self.subject.command(Work::Failing) {
            Some(command) => self.launch(command, fence, false),
            None => skip("the device's commands cannot be made to fail"),
        }
    }

    /// Puts a fence behind everything launched.
    pub(crate) fn fence(&mut self) -> Step {
        let Some(last) = self.launched().checked_sub(1) else { return Ok(()) };
        self.fenced = self.launched();
        let fenced = self.submit.fence(CmdId(last));
        fenced.or_else(|error| fail(format!("a fence behind {last} was refused: {error:?}")))
    }

    /// Asks for completions, and checks what can be checked about any answer.
    pub(crate) fn poll(&mut self) -> Step<Option<Retired>> {
        let answer = match self.retire.poll_retired() {
            Ok(None) => return Ok(None),
            Ok(Some(answer)) => answer,
            Err(error) => return fail(format!("`poll_retired` failed: {error:?}")),
        };
        let (upto, seen) = (answer.upto.count(), self.seen);
        ensure!(upto <= self.launched(), "{upto} retired of {} launched", self.launched());
        ensure!(upto > seen, "{upto} retired, after {seen} were reported before");
        ensure!(upto <= self.fenced, "{upto} retired, of which fences cover {}", self.fenced);
        for n in seen..upto {
            let runs = self.noted.get(n as usize) == Some(&true) && self.log.ends(n..n + 1) == 0;
            ensure!(!runs, "command {n} is reported to have retired and has not ended");
        }
        if let Outcome::Failed { from, .. } = answer.outcome {
            ensure!(from.0 < upto, "failed from {} on, and retired up to {upto}", from.0);
            self.failed.push(from.0.max(seen)..upto);
        }
        self.seen = upto;
        self.busy_ns = self.busy_ns.saturating_add(answer.busy.as_ns());
        Ok(Some(answer))
    }

    /// Waits until this many commands are reported.
    pub(crate) fn seen_upto(&mut self, count: u64) -> Step {
        let subject = self.subject;
        until(subject, &format!("the completion of command {}", count.saturating_sub(1)), || {
            self.poll()?;
            Ok(self.seen >= count)
        })
    }

    /// Waits for room for one more command.
    pub(crate) fn make_room(&mut self) -> Step {
        if self.launched() - self.seen < self.room() {
            return Ok(());
        }
        if self.fenced <= self.seen {
            self.fence()?;
        }
        let upto = self.seen + 1;
        self.seen_upto(upto)
    }

    /// Waits until everything is reported, with a fence if needed, and checks the order in which
    /// commands ran that note it.
    pub(crate) fn finish(&mut self) -> Step {
        if self.fenced < self.launched() {
            self.fence()?;
        }
        self.seen_upto(self.launched())?;
        let restarts = self.caps.interrupt == Some(Recovery::Replay);
        for part in self.noted_parts() {
            if let Some(disorder) = self.log.disorder(part, restarts) {
                return fail(disorder);
            }
        }
        ensure!(self.failed.is_empty(), "commands {:?} failed", self.failed);
        Ok(())
    }

    /// Ranges of commands that are all noted.
    fn noted_parts(&self) -> Vec<Range<u64>> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        for (n, _) in (0..).zip(&self.noted).filter(|(_, noted)| **noted) {
            match parts.last_mut() {
                Some(last) if last.end == n => last.end += 1,
                _ => parts.push(n..n + 1),
            }
        }
        parts
    }

    /// Commands not reported, of which some may still run.
    pub(crate) fn open_commands(&self) -> Range<u64> {
        self.seen..self.launched()
    }

    pub(crate) fn starts(&self) -> u64 {
        self.log.starts(self.open_commands())
    }

    pub(crate) fn ends(&self) -> u64 {
        self.log.ends(self.open_commands())
    }

    pub(crate) fn progress(&self) -> u64 {
        self.log.progress(self.open_commands())
    }

    /// Waits until a command has started.
    pub(crate) fn started(&self, n: u64) -> Step {
        until(self.subject, &format!("the start of command {n}"), || {
            Ok(self.log.starts(n..n + 1) > 0)
        })
    }

    /// Waits until a command has ended.
    pub(crate) fn ended(&self, n: u64) -> Step {
        until(self.subject, &format!("the end of command {n}"), || Ok(self.log.ends(n..n + 1) > 0))
    }

    /// Carries out a step to its end.
    pub(crate) fn step(&mut self, step: DeviceStep) -> Step<Option<u64>> {
        let mut done = self.preempt.step(step);
        let start = Instant::now();
        loop {
            match done {
                Ok(StepDone::Now(first)) => return self.stepped(step, first),
                Ok(StepDone::Later) => {}
                Err(fault) => return fail(format!("{step:?} was refused: {fault}")),
            }
            ensure!(start.elapsed() < self.subject.patience(), "{step:?} has no end");
            thread::sleep(POLL_INTERVAL);
            done = self.preempt.poll_step().map(|done| done.unwrap_or(StepDone::Later));
        }
    }

    pub(crate) fn stepped(&mut self, step: DeviceStep, first: Option<CmdId>) -> Step<Option<u64>> {
        let recovery = match step {
            DeviceStep::Deactivate | DeviceStep::Reactivate => self.caps.deactivate,
            DeviceStep::Interrupt | DeviceStep::Restore => self.caps.interrupt,
        };
        match step {
            DeviceStep::Deactivate => self.deactivated = true,
            DeviceStep::Interrupt => self.interrupted = true,
            DeviceStep::Restore => self.interrupted = false,
            DeviceStep::Reactivate => self.deactivated = false,
        }
        let first = first.map(|cmd| cmd.0);
        if step.is_hold() && recovery == Some(Recovery::Replay) {
            let (seen, launched) = (self.seen, self.launched());
            if let Some(n) = first {
                ensure!((seen..=launched).contains(&n), "{n} forgotten of {seen}..{launched}");
                self.forgotten = Some(self.forgotten.map_or(n, |before| before.min(n)));
            }
        } else {
            ensure!(first.is_none(), "{step:?} names {first:?} as forgotten, and nothing is");
        }
        Ok(first)
    }

    /// True if it is held on the device.
    pub(crate) const fn is_held(&self) -> bool {
        self.deactivated || self.interrupted
    }

    /// Skips the check if the queue does not go so far.
    pub(crate) fn require(&self, level: Level) -> Step {
        if self.caps.level < level {
            return skip(format!("the device allows {} only", self.caps.level));
        }
        Ok(())
    }

    /// Skips the check unless holds deactivate the queue: elsewhere nothing is launched into one
    /// that is held, and what was launched may start.
    pub(crate) fn require_deactivation(&self) -> Step {
        self.require(Level::Deactivate)?;
        if self.caps.deactivate.is_none() {
            return skip("a hold needs no deactivation on this device");
        }
        Ok(())
    }

    /// Skips the check if held commands are forgotten.
    pub(crate) fn require_continue(&self) -> Step {
        if [self.caps.deactivate, self.caps.interrupt].contains(&Some(Recovery::Replay)) {
            return skip("the device forgets held commands, so nothing is launched while held");
        }
        Ok(())
    }

    /// Holds at a level, as the core does.
    pub(crate) fn hold(&mut self, level: Level) -> Step {
        if level >= Level::Deactivate && self.caps.deactivate.is_some() {
            self.step(DeviceStep::Deactivate)?;
        }
        if level >= Level::Interrupt {
            self.step(DeviceStep::Interrupt)?;
        }
        Ok(())
    }

    /// Releases as the core does, and launches again what the device has forgotten.
    pub(crate) fn release(&mut self) -> Step {
        if self.interrupted {
            self.step(DeviceStep::Restore)?;
        }
        if self.deactivated {
            self.step(DeviceStep::Reactivate)?;
        }
        let Some(first) = self.forgotten.take() else { return Ok(()) };
        self.fenced = self.fenced.min(first);
        for n in first.max(self.seen)..self.launched() {
            let command = &self.sent[n as usize];
            if let Err(error) = self.submit.launch(CmdId(n), command, true) {
                return fail(format!("command {n} was not taken again: {error:?}"));
            }
            self.fenced = n + 1;
        }
        Ok(())
    }
}
