//! The queue machine's work: commands, orders and reports of one queue on a device that does
//! nothing, at once.

use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, HalError, LevelAdapter, NoMoreQueues, Noop, NoopHalf, NoopQueue};
use xsched_core::hal::{Retire, StepDone, Steps, Submit};
use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_core::message::Order;
use xsched_core::queue::{Action, CommandSlot, Queue, QueueConfig, Signal};
use xsched_core::time::{Duration, Instant};
use xsched_core::window::WindowConfig;

/// Slots of the queue's ring.
const SLOTS: usize = 64;

/// Work of the machine that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A command is submitted, launched and retired, each with a fence of its own.
    Single,
    /// A command as in `Single`, in a window of 16 that is always full, with a fence behind every
    /// eighth command.
    Batched,
    /// Nothing has happened: asked for an action and a report, the machine has none.
    Nothing,
    /// An order that wants no more than a report, and the report.
    Report,
    /// A hold at level 1 and its end, with nothing in flight.
    HoldIdle,
    /// A hold at level 3 and its end, with a command in flight: four steps of the device.
    HoldBusy,
}

impl Work {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Single, Self::Batched, Self::Nothing, Self::Report, Self::HoldIdle, Self::HoldBusy];

    /// Name of the mode.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "command, a fence each",
            Self::Batched => "command, window 16, batch 8",
            Self::Nothing => "nothing to do",
            Self::Report => "order and report",
            Self::HoldIdle => "hold and run, level 1, idle",
            Self::HoldBusy => "hold and run, level 3, busy",
        }
    }

    const fn window(self) -> (u32, u32) {
        match self {
            Self::Batched => (16, 8),
            _ => (1, 1),
        }
    }
}

/// A queue with its driver.
#[derive(Debug)]
pub struct Machine<'a> {
    queue: Queue<[CommandSlot; SLOTS]>,
    submit: NoopHalf<'a, ()>,
    retire: NoopHalf<'a, ()>,
    steps: LevelAdapter<NoopHalf<'a, ()>>,
    now: Instant,
    epoch: u32,
    /// Values that crossed the machine's boundary, so that nothing is computed in vain.
    pub seen: Seen,
}

/// Counts of what crossed the boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Commands that retired.
    pub retired: u64,
    /// Reports.
    pub reports: u64,
    /// Steps of the device.
    pub steps: u64,
}

impl<'a> Machine<'a> {
    /// An idle queue on this device.
    ///
    /// # Errors
    /// If the device has no more queues.
    pub fn new(device: &mut Noop<'a, ()>, work: Work) -> Result<Self, NoMoreQueues> {
        let halves = device.open(QueueId::new(0, 0), ())?;
        let (threshold, batch) = work.window();
        let window = WindowConfig::fixed(threshold, batch);
        let config = QueueConfig { window, level: Level::Interrupt, ..QueueConfig::default() };
        Ok(Self {
            queue: Queue::new([CommandSlot::default(); SLOTS], config, halves.caps),
            submit: halves.submit,
            retire: halves.retire,
            steps: halves.preempt,
            now: Instant::ZERO,
            epoch: 0,
            seen: Seen::default(),
        })
    }

    /// Does the work once.
    pub fn once(&mut self, work: Work) {
        self.now += Duration::from_us(1);
        match work {
            Work::Single | Work::Batched => self.command(),
            Work::Nothing => self.pump(),
            Work::Report => {
                self.queue.handle_order(Order::Watch { upto: 0 });
                self.pump();
            }
            Work::HoldIdle => self.hold_and_run(Level::Block),
            Work::HoldBusy => {
                // Submitting into the idle queue works.
                let _ = self.queue.submit(self.now);
                self.pump();
                self.hold_and_run(Level::Interrupt);
                self.look();
                self.pump();
            }
        }
    }

    fn command(&mut self) {
        if self.queue.submit(self.now).is_err() {
            return;
        }
        self.pump();
        // The device is always behind by the whole window.
        if self.queue.in_flight() >= u64::from(self.queue.window().threshold()) {
            self.look();
            self.pump();
        }
    }

    fn hold_and_run(&mut self, level: Level) {
        self.epoch = self.epoch.wrapping_add(2);
        self.queue.handle_order(Order::Hold { epoch: self.epoch - 1, level });
        self.pump();
        self.queue.handle_order(Order::Run { epoch: self.epoch });
        self.pump();
    }

    /// Looks for what has retired.
    fn look(&mut self) {
        if let Ok(Some(retired)) = self.retire.poll_retired() {
            let before = self.queue.retired();
            self.queue.handle_signal(self.now, Signal::Retired(retired));
            self.seen.retired += self.queue.retired() - before;
        }
    }

    /// Carries out all actions and takes all reports.
    fn pump(&mut self) {
        while let Some(action) = self.queue.poll_action(self.now) {
            match action {
                Action::Launch { cmd, fence } => {
                    if let Err(error) = self.submit.launch(cmd, &(), fence) {
                        let fault = error.kind();
                        self.queue.handle_signal(self.now, Signal::LaunchFailed { cmd, fault });
                    }
                }
                Action::Fence { upto } => {
                    if self.submit.fence(upto).is_err() {
                        self.queue.handle_signal(self.now, Signal::FenceFailed);
                    }
                }
                Action::Step { step, seq } => {
                    let result = match self.steps.step(step) {
                        Ok(StepDone::Now(first)) => Ok(first),
                        // This device is never late.
                        Ok(StepDone::Later) => Err(Fault::Protocol),
                        Err(fault) => Err(fault),
                    };
                    self.seen.steps += 1;
                    self.queue.handle_signal(self.now, Signal::Stepped { seq, result });
                }
            }
        }
        while self.queue.poll_report().is_some() {
            self.seen.reports += 1;
        }
    }
}

/// Does the work this many times on a new queue; returns what was seen.
///
/// # Errors
/// If the device has no queues, which it has.
pub fn times(work: Work, count: u64) -> Result<Seen, NoMoreQueues> {
    let queues = [NoopQueue::default()];
    let mut machine = Machine::new(&mut Noop::new(&queues), work)?;
    for _ in 0..count {
        machine.once(work);
    }
    Ok(machine.seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_work_does_what_it_says() {
        let seen = |work| times(work, 800).unwrap();
        let counts = |work| (seen(work).retired, seen(work).steps);
        assert_eq!(counts(Work::Single), (800, 0));
        assert_eq!(counts(Work::Batched), (792, 0), "the last are in flight");
        assert_eq!(seen(Work::Nothing), Seen::default());
        assert_eq!(seen(Work::Report), Seen { reports: 800, ..Seen::default() });
        assert_eq!(seen(Work::HoldIdle).reports, 1_600);
        assert_eq!(counts(Work::HoldBusy), (800, 3_200));
    }
}
