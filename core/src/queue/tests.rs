//! Tests of the queue machine. The [`Rig`] is a driver in slow motion: what the queue asks for
//! comes back as a line of text, and every answer is given by hand.

mod faults;
mod fences;
mod holds;
mod replay;
mod reports;

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::id::QueueId;
use crate::level::Recovery;
use crate::message::HoldState;

/// Actions that none of these tests can need: a queue that asks for as many is going in circles.
const ACTIONS_MAX: usize = 1_000;

/// A queue and the hands that drive it.
pub(super) struct Rig {
    pub(super) queue: Queue<Vec<CommandSlot>>,
    pub(super) now: Instant,
    pub(super) epoch: u32,
    /// Number of the last step that the queue asked for.
    pub(super) seq: u32,
}

impl Rig {
    /// A queue on a device that can do everything, held at `level` at most.
    pub(super) fn new(slots: usize, window: WindowConfig, level: Level) -> Self {
        Self::on(slots, window, Caps::up_to(level, 4_096))
    }

    /// A queue on a device that replays what a hold at Lv2 stopped.
    pub(super) fn replaying(slots: usize, window: WindowConfig) -> Self {
        let caps = Caps::up_to(Level::Deactivate, 4_096).with_recovery(Recovery::Replay);
        Self::on(slots, window, caps)
    }

    pub(super) fn on(slots: usize, window: WindowConfig, caps: Caps) -> Self {
        let config = QueueConfig { window, level: caps.level, ..QueueConfig::default() };
        let queue = Queue::new(vec![CommandSlot::default(); slots], config, caps);
        Self { queue, now: Instant::ZERO, epoch: 0, seq: 0 }
    }

    /// Submits `n` commands and returns the last.
    pub(super) fn submit(&mut self, n: u64) -> CmdId {
        let mut last = CmdId(0);
        for _ in 0..n {
            last = self.queue.submit(self.now).expect("room in the ring");
        }
        last
    }

    pub(super) fn enqueue_wait(&mut self, event: EventRef) -> CmdId {
        self.queue.enqueue_wait(self.now, event).expect("room in the ring")
    }

    /// Everything the queue asks for now, one word each: `3` a launch, `3*` one with a fence,
    /// `fence3` a fence on demand, or the name of a step.
    pub(super) fn act(&mut self) -> String {
        let mut words = Vec::new();
        while let Some(action) = self.queue.poll_action(self.now) {
            words.push(match action {
                Action::Launch { cmd, fence } => {
                    format!("{}{}", cmd.0, ["", "*"][usize::from(fence)])
                }
                Action::Fence { upto } => format!("fence{}", upto.0),
                Action::Step { step, seq } => {
                    self.seq = seq;
                    format!("{step:?}").to_lowercase()
                }
            });
            assert!(words.len() < ACTIONS_MAX, "the queue never stops asking: {words:?}");
        }
        words.join(" ")
    }

    /// The device says that everything up to `cmd` has retired.
    pub(super) fn retire(&mut self, cmd: u64) {
        self.retire_as(cmd, 0, Outcome::Ok);
    }

    pub(super) fn retire_as(&mut self, cmd: u64, busy_us: u64, outcome: Outcome) {
        let retired = Retired { upto: CmdId(cmd), busy: Duration::from_us(busy_us), outcome };
        self.queue.handle_signal(self.now, Signal::Retired(retired));
    }

    pub(super) fn refuse(&mut self, cmd: u64) {
        let signal = Signal::LaunchFailed { cmd: CmdId(cmd), fault: Fault::Launch };
        self.queue.handle_signal(self.now, signal);
    }

    /// Answers the outstanding step.
    pub(super) fn answer(&mut self, result: Result<Option<u64>, Fault>) {
        let result = result.map(|first| first.map(CmdId));
        self.queue.handle_signal(self.now, Signal::Stepped { seq: self.seq, result });
    }

    pub(super) fn done(&mut self) {
        self.answer(Ok(None));
    }

    pub(super) fn hold(&mut self, level: Level) {
        self.epoch = self.epoch.wrapping_add(1);
        self.queue.handle_order(Order::Hold { epoch: self.epoch, level });
    }

    pub(super) fn run(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.queue.handle_order(Order::Run { epoch: self.epoch });
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.queue.handle_signal(self.now, signal);
    }

    /// Time passes, and the queue gets the call that it asked for if that is due.
    pub(super) fn pass(&mut self, span: Duration) {
        self.now += span;
        self.queue.handle_timeout(self.now);
    }

    pub(super) fn state(&self) -> HoldState {
        self.queue.hold_state()
    }

    pub(super) fn status(&self, cmd: u64) -> Status {
        self.queue.status(CmdId(cmd))
    }

    /// Submitted, launched, retired.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        (self.queue.submitted(), self.queue.launched(), self.queue.retired())
    }

    /// The reports that are due; there is at most one.
    pub(super) fn report(&mut self) -> Option<Report> {
        let report = self.queue.poll_report();
        assert_eq!(self.queue.poll_report(), None, "a report was given twice");
        report
    }
}

pub(super) fn window(threshold: u32, batch: u32) -> WindowConfig {
    WindowConfig::fixed(threshold, batch)
}

/// Command `cmd` of some other queue.
pub(super) fn event(cmd: u64) -> EventRef {
    EventRef { queue: QueueId::new(7, 1), cmd: CmdId(cmd) }
}

pub(super) const HELD_1: HoldState = HoldState::Held(Level::Block);
pub(super) const HELD_2: HoldState = HoldState::Held(Level::Deactivate);
pub(super) const HELD_3: HoldState = HoldState::Held(Level::Interrupt);
