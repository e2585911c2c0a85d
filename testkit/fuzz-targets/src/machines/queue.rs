//! One queue on a model device: configuration, the driver, and the course of a run.

use xsched_core::check::WakeupCheck;
use xsched_core::fault::Fault;
use xsched_core::id::CmdId;
use xsched_core::level::{Caps, Level, Recovery, Step};
use xsched_core::message::{Order, Report};
use xsched_core::queue::{Action, CommandSlot, Queue, QueueConfig, Retired, Signal};
use xsched_core::time::{Duration, Instant};
use xsched_core::window::WindowConfig;

use super::bytes::Bytes;
use super::device::{Device, Did};
use super::queue_checks::Checks;
use super::queue_model::{Model, Next, Place};
use super::{Checked, Counters, Difference, Log, require, same};

/// Operations in one run.
const OPERATIONS_MAX: usize = 400;
/// Commands in one run.
pub(super) const COMMANDS_MAX: usize = 300;
/// Actions that a queue may ask for after one operation.
const ACTIONS_MAX: usize = 1_000;
/// Rounds of the last phase.
const ROUNDS_MAX: usize = 3_000;

mutants! {
    QueueMutant:
    /// Every third completion does not get to the queue.
    SkipRetire,
    /// The device takes every fourth launch twice.
    DoubleLaunch,
    /// Every other launch gets to the device before the one before it.
    SwapLaunches,
    /// Orders to hold do not get to the queue.
    IgnoreHold,
    /// Every other order to run does not get to the queue.
    LoseRun,
    /// Stale orders come with a fresh epoch.
    ObeyStale,
    /// The queue is not told what the device forgot.
    LoseReplay,
    /// The device never opens its gate again.
    StuckGate,
    /// Every third fence that a launch should carry is left out.
    DropFence,
    /// User holds do not get to the queue.
    IgnoreHand,
    /// Cancelled commands are launched all the same.
    IgnoreCancel,
    /// A hold that failed is said to have worked.
    HideStepFailure,
    /// One more command than the window allows is launched.
    WidenWindow,
}

/// Runs the life of one queue, with a defect if one is asked for.
///
/// # Errors
/// The first difference that shows.
pub fn run_queue(data: &[u8], mutant: QueueMutant) -> Result<Counters, Difference> {
    let mut run = Run::new(Bytes::new(data), mutant);
    if run.course().is_ok() {
        return Ok(run.counters);
    }
    // Once more, to say what happened.
    let mut run = Run::new(Bytes::new(data), mutant);
    run.log = Log::on();
    let outcome = run.course();
    outcome.map_err(|difference| run.log.explain(&difference)).map(|()| run.counters)
}

/// Faults to come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Launches to refuse.
    pub(super) launches: usize,
    /// The next launch takes its time.
    pub(super) slow: bool,
    /// Fences to refuse.
    pub(super) fences: usize,
    /// Hold steps to refuse.
    pub(super) holds: usize,
    /// Releases to refuse.
    pub(super) releases: usize,
    /// Steps are answered later; the device acts when it is asked.
    pub(super) late_steps: bool,
}

/// A launch between the queue and the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entered {
    cmd: u64,
    fence: bool,
    refused: bool,
}

/// A run: the queue, its model, its device, and what is under way between them.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) bytes: Bytes<'a>,
    pub(super) queue: Queue<Vec<CommandSlot>>,
    pub(super) model: Model,
    pub(super) device: Device,
    pub(super) checks: Checks,
    pub(super) now: Instant,
    pub(super) mutant: QueueMutant,
    pub(super) mutations: u64,
    pub(super) faults: Faults,
    /// A launch that was entered and has not returned.
    pub(super) entered: Option<Entered>,
    /// The answer to the outstanding step.
    pub(super) answer: Option<(u32, Result<Option<u64>, Fault>)>,
    pub(super) seq: u32,
    /// A launch that the next one overtakes.
    overtaken: Option<(u64, bool)>,
    pub(super) last_told: Option<Retired>,
    pub(super) last_report: Report,
    pub(super) progress_every: Duration,
    /// Commands have retired since the last report was taken.
    pub(super) progressed: bool,
    pub(super) counters: Counters,
    pub(super) log: Log,
}

impl<'a> Run<'a> {
    fn course(&mut self) -> Checked {
        for _ in 0..OPERATIONS_MAX {
            if self.bytes.is_empty() {
                break;
            }
            self.now += Duration::from_us(3);
            self.operation()?;
            self.settle()?;
        }
        self.log.note(|| "the last phase".into());
        self.finish()
    }

    fn new(mut bytes: Bytes<'a>, mutant: QueueMutant) -> Self {
        let slots = bytes.pick(&[8, 16, 5, 32, 12, 64, 7, 24, 3, 2, 16, 1, 10, 20, 48, 0]);
        let caps = caps(&mut bytes);
        let level = bytes.pick(&[Level::Interrupt, Level::Deactivate, Level::Block]);
        let window = window(&mut bytes);
        let fence_timeout = Duration::from_us(bytes.pick(&[1_000, 20, 0]));
        let config = QueueConfig { window, level, fence_timeout };
        let mut queue = Queue::new(vec![CommandSlot::default(); slots], config, caps);
        let mut model = Model::new(slots, level, caps);
        let mut device = Device::new(&caps);
        device.stuck = mutant == QueueMutant::StuckGate;
        let checks = Checks::new(slots as u64, caps.entries_max.into());
        if bytes.flag() {
            // Close to where epochs wrap around.
            for epoch in [0x7fff_fff0, 0xffff_ffd0, 0xffff_fff8] {
                queue.handle_order(Order::Run { epoch });
                model.order(epoch, None);
            }
        }
        Self {
            bytes,
            queue,
            model,
            device,
            checks,
            now: Instant::ZERO,
            mutant,
            mutations: 0,
            faults: Faults::default(),
            entered: None,
            answer: None,
            seq: 0,
            overtaken: None,
            last_told: None,
            last_report: Report::default(),
            progress_every: Duration::MAX,
            progressed: false,
            counters: Counters::default(),
            log: Log::default(),
        }
    }

    /// True if this is one of the times at which the mutant does what it should not.
    pub(super) fn mutates(&mut self, mutant: QueueMutant, every: u64) -> bool {
        if self.mutant != mutant {
            return false;
        }
        self.mutations += 1;
        self.mutations.is_multiple_of(every)
    }

    /// Carries out everything the queue asks for, and compares.
    pub(super) fn settle(&mut self) -> Checked {
        self.checks.hold.sync(&self.queue)?;
        let faulty = self.faults.launches + self.faults.fences > 0;
        let mut fences = 0;
        for n in 0.. {
            require(n < ACTIONS_MAX, "the queue never stops asking")?;
            let mut limit = u64::from(self.queue.window().threshold());
            if self.mutates(QueueMutant::WidenWindow, 1) {
                limit += 1;
            }
            // While a launch is entered, steps go on, and nothing else is launched.
            let (expected, action) = if self.entered.is_some() {
                (self.model.next_step(), self.queue.poll_step())
            } else {
                (self.model.next(limit), self.queue.poll_action(self.now))
            };
            if let Some(action) = action {
                self.log.note(|| format!("  {action:?}"));
            }
            fences += u32::from(matches!(action, Some(Action::Fence { .. })));
            match action {
                None => {
                    same("what to do next", expected, Next::Nothing)?;
                    break;
                }
                Some(action) => self.act(expected, action, limit)?,
            }
            self.checks.hold.sync(&self.queue)?;
        }
        if let Some((cmd, fence)) = self.overtaken.take() {
            self.give(cmd, fence)?;
        }
        require(faulty || fences <= 1, "more than one fence on demand in a round")?;
        while let Some(report) = self.queue.poll_report() {
            self.last_report = report;
        }
        self.compare()
    }

    fn act(&mut self, expected: Next, action: Action, limit: u64) -> Checked {
        match action {
            Action::Step { step, seq } => {
                same("the next step", expected, Next::Step(step))?;
                self.model.step = Some(step);
                self.step(step, seq)
            }
            Action::Launch { cmd, fence } => {
                same("the next launch", expected, Next::Launch(cmd.0))?;
                self.launch(cmd, fence, limit)
            }
            Action::Fence { upto } => {
                same("a fence comes after everything else", expected, Next::Nothing)?;
                require(self.model.on_device(), "a fence behind nothing")?;
                self.fence(upto)
            }
        }
    }

    fn launch(&mut self, cmd: CmdId, fence: bool, limit: u64) -> Checked {
        self.checks.launched(cmd, limit)?;
        self.model.launched(cmd.0);
        self.counters.count(if fence { "launched with a fence" } else { "launched without" });
        let refused = self.faults.launches > 0;
        self.faults.launches -= usize::from(refused);
        self.entered = Some(Entered { cmd: cmd.0, fence, refused });
        if std::mem::take(&mut self.faults.slow) {
            self.counters.count("slow launches");
            return Ok(());
        }
        self.leave_launch()
    }

    /// The launch that was entered, if one was, returns.
    pub(super) fn leave_launch(&mut self) -> Checked {
        let Some(Entered { cmd, fence, refused }) = self.entered.take() else { return Ok(()) };
        if refused {
            self.refuse(cmd);
            return Ok(());
        }
        let fence = fence && !self.mutates(QueueMutant::DropFence, 3);
        if self.mutates(QueueMutant::SwapLaunches, 2) && self.overtaken.is_none() {
            self.overtaken = Some((cmd, fence));
            return Ok(());
        }
        self.give(cmd, fence)?;
        if self.mutates(QueueMutant::DoubleLaunch, 4) {
            self.give(cmd, fence)?;
        }
        match self.overtaken.take() {
            Some((cmd, fence)) => self.give(cmd, fence),
            None => Ok(()),
        }
    }

    fn give(&mut self, cmd: u64, fence: bool) -> Checked {
        let gated = self.model.level.min(self.model.caps.level) >= Level::Deactivate;
        require(self.device.launch(cmd, fence, gated), "a launch while the device forgets")?;
        self.checks.room(self.device.entries())
    }

    fn refuse(&mut self, cmd: u64) {
        self.counters.count("refused launches");
        self.checks.order.refused();
        self.checks.more_fences();
        self.checks.window.retired(1);
        let fault = Fault::Launch;
        if !self.model.lost {
            self.model.refused(cmd, fault);
        }
        self.signal(Signal::LaunchFailed { cmd: CmdId(cmd), fault });
    }

    fn fence(&mut self, upto: CmdId) -> Checked {
        self.counters.count("fences on demand");
        if self.faults.fences > 0 {
            self.faults.fences -= 1;
            self.counters.count("refused fences");
            self.checks.lost_fence();
            self.checks.more_fences();
            self.signal(Signal::FenceFailed);
            return Ok(());
        }
        self.device.fence(upto.0);
        self.checks.room(self.device.entries())
    }

    fn step(&mut self, step: Step, seq: u32) -> Checked {
        self.seq = seq;
        let faults = &mut self.faults;
        let refusals = if step.is_hold() { &mut faults.holds } else { &mut faults.releases };
        let result = if *refusals > 0 {
            *refusals -= 1;
            self.counters.count("failed steps");
            Err(Fault::Timeout)
        } else {
            let forgets = step.is_hold() && self.recovery(step) == Some(Recovery::Replay);
            if forgets {
                // What is launched while the device forgets would be forgotten unnoticed.
                self.leave_launch()?;
            }
            let not_started = self.device.not_started();
            let first = self.device.step(step);
            if let Some(first) = first.filter(|_| forgets) {
                self.counters.count("forgotten by the device");
                self.checks.order.replayed(CmdId(first), not_started);
                self.checks.more_fences();
            }
            self.checks.hold.stepped(step, self.device.running())?;
            Ok(first)
        };
        self.answer = Some((seq, result));
        if self.faults.late_steps { Ok(()) } else { self.answer_step() }
    }

    fn recovery(&self, step: Step) -> Option<Recovery> {
        match step {
            Step::Deactivate | Step::Reactivate => self.model.caps.deactivate,
            Step::Interrupt | Step::Restore => self.model.caps.interrupt,
        }
    }

    /// The answer to the outstanding step gets to the queue.
    pub(super) fn answer_step(&mut self) -> Checked {
        let Some((seq, result)) = self.answer.take() else { return Ok(()) };
        let mut told = result;
        if self.mutates(QueueMutant::LoseReplay, 1) && told.is_ok() {
            told = Ok(None);
        }
        if self.mutates(QueueMutant::HideStepFailure, 1) && told.is_err() {
            told = Ok(None);
        }
        if !self.model.lost {
            let settled = self.model.count(|c| c.place == Place::Passed);
            let back = self.model.stepped(result);
            if back > 0 {
                self.counters.count("replays");
            }
            if self.model.count(|c| c.place == Place::Passed) < settled {
                self.counters.count("replays of what needs no device");
            }
            self.checks.window.retired(back);
        }
        let result = told.map(|first| first.map(CmdId));
        self.signal(Signal::Stepped { seq, result });
        Ok(())
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.log.note(|| format!("  {signal:?}"));
        self.queue.handle_signal(self.now, signal);
    }

    /// The device does the next thing that it can do. Returns false if there is none.
    pub(super) fn advance(&mut self) -> Result<bool, Difference> {
        let (did, lost) = self.device.advance();
        if lost {
            self.counters.count("lost fences");
            self.checks.lost_fence();
        }
        self.log.note(|| format!("  device: {did:?}"));
        match did {
            Did::Started(cmd, gated) => self.checks.started(CmdId(cmd), gated)?,
            Did::Finished(cmd) => self.checks.finished(CmdId(cmd)),
            Did::Passed => {}
            Did::Nothing => return Ok(false),
        }
        Ok(true)
    }

    /// The host learns of the newest completion. Returns false if there is none.
    pub(super) fn tell(&mut self) -> bool {
        let Some(retired) = self.device.tell() else { return false };
        self.last_told = Some(retired);
        if !self.model.lost {
            let commands = self.model.told(retired.upto.0, retired.outcome);
            self.checks.window.retired(commands);
            self.progressed |= commands > 0;
            self.counters.count("completions");
        }
        if self.mutates(QueueMutant::SkipRetire, 3) {
            return true;
        }
        self.signal(Signal::Retired(retired));
        true
    }

    /// Everything works from now on, and everything has to retire.
    fn finish(&mut self) -> Checked {
        self.faults = Faults::default();
        (self.device.fail_next, self.device.lose_next) = (false, false);
        self.leave_launch()?;
        self.order(1, None);
        self.resume(false);
        for round in 0.. {
            require(round < ROUNDS_MAX, "the last phase never ends")?;
            self.now += Duration::from_us(1);
            self.answer_step()?;
            self.settle()?;
            let mut busy = false;
            for _ in 0..8 {
                busy |= self.advance()?;
            }
            busy |= self.tell();
            if let Some(event) = self.queue.waiting() {
                self.reach(event, true);
                busy = true;
            }
            self.settle()?;
            if busy || self.answer.is_some() {
                continue;
            }
            // Only a fence that got lost may need a timer.
            let Some(due) = self.queue.poll_timeout() else { break };
            self.checks.may_need_timer()?;
            self.now = self.now.max(due);
            self.timeout();
        }
        let (submitted, retired) = (self.queue.submitted(), self.queue.retired());
        self.counters.count(if self.model.lost { "ended lost" } else { "ended well" });
        self.checks.order_drained(self.model.lost)?;
        Ok(WakeupCheck::ended(true, submitted, retired)?)
    }
}

fn caps(bytes: &mut Bytes<'_>) -> Caps {
    let level = bytes.pick(&[Level::Interrupt, Level::Deactivate, Level::Block]);
    let entries = bytes.pick(&[4_096, 64, 24, 4]);
    let mut caps = Caps::up_to(level, entries);
    let how = bytes.byte();
    if how & 1 != 0 {
        caps = caps.with_recovery(Recovery::Replay);
    }
    if how & 2 != 0 && caps.interrupt.is_some() {
        caps.interrupt = Some(Recovery::Replay);
    }
    if how & 12 == 12 && level == Level::Interrupt {
        caps.deactivate = None;
    }
    caps
}

/// A window of any kind.
pub(super) fn window(bytes: &mut Bytes<'_>) -> WindowConfig {
    let threshold = bytes.up_to(20) as u32;
    let batch = bytes.up_to(10) as u32;
    if bytes.below(8) == 7 {
        WindowConfig::adaptive(threshold)
    } else {
        WindowConfig::fixed(threshold, batch)
    }
}
