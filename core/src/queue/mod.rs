//! The machine of one XQueue.
//!
//! A driver calls [`Queue::submit`] and the `handle_*` methods with what happened, and after each
//! of them carries out [`Queue::poll_action`] and forwards [`Queue::poll_report`] until both give
//! `None`. Every call does a bounded amount of work (at most one pass over the ring).
//!
//! Three counters say where the commands are. They never go back:
//! `submitted ≥ launched ≥ retired`. A command that needs no device (a reached wait, a cancelled
//! command, a refused launch) passes the launch point without an [`Action::Launch`] and retires
//! when everything before it has.
//!
//! ```text
//!  0 ............ retired ........ launched ............ submitted
//!    gone           │ in flight │   (window)  waiting in the ring │
//! ```
//!
//! Under [`Recovery::Replay`] a hold makes the device forget commands; they are then launched
//! again, from [`Queue::next_launch`] on, which is below `launched` for that time.

mod hold;
mod launch;
mod retire;
mod slot;
#[cfg(test)]
mod tests;

use core::fmt;

pub use launch::LaunchBlock;
pub use slot::{CommandSlot, Status};

use crate::fault::Fault;
use crate::id::{CmdId, EventRef};
#[cfg(doc)]
use crate::level::Recovery;
use crate::level::{Caps, Level, Step};
use crate::message::{Claim, Order, Report};
use crate::store::Store;
use crate::time::{Duration, Instant};
use crate::window::{Window, WindowConfig};

/// How a queue is set up.
#[derive(Clone, Copy, Debug)]
pub struct QueueConfig {
    /// The in-flight window.
    pub window: WindowConfig,
    /// The deepest hold to use, at most what the device can do.
    pub level: Level,
    /// A fence that has not been seen this long after the last progress is put again (doubled each
    /// time until there is progress). Not counted while the queue is held.
    pub fence_timeout: Duration,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            window: WindowConfig::default(),
            level: Level::Block,
            fence_timeout: Duration::from_ms(100),
        }
    }
}

/// Action that a driver must carry out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Launch a command, with a completion fence behind it if `fence`.
    Launch {
        /// The command.
        cmd: CmdId,
        /// True if the command's completion must be seen.
        fence: bool,
    },
    /// Put a completion fence behind the last launched command.
    Fence {
        /// The last launched command.
        upto: CmdId,
    },
    /// Ask the device for a step, and answer with [`Signal::Stepped`].
    Step {
        /// The step.
        step: Step,
        /// Number of the step, to be repeated in the answer.
        seq: u32,
    },
}

/// Event that a driver saw on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Commands have retired.
    Retired(Retired),
    /// The device refused a launch.
    LaunchFailed {
        /// The command.
        cmd: CmdId,
        /// Why.
        fault: Fault,
    },
    /// The device refused a fence.
    FenceFailed,
    /// A step has been carried out or refused.
    Stepped {
        /// Number of the step.
        seq: u32,
        /// For a hold under [`Recovery::Replay`] the first command that did not run, or why the
        /// step failed.
        result: Result<Option<CmdId>, Fault>,
    },
    /// The device is gone.
    Lost,
    /// The scheduler's lease has run out: stop obeying its hold.
    FailOpen,
}

/// Commands that have retired on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The last of them.
    pub upto: CmdId,
    /// Device time used since the previous answer; zero if it cannot be measured.
    pub busy: Duration,
    /// How they ended.
    pub outcome: Outcome,
}

/// How a batch of commands ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All without an error.
    Ok,
    /// Commands from `from` on ended with an error.
    Failed {
        /// The first that failed.
        from: CmdId,
        /// Why. A [sticky](Fault::is_sticky) fault fails everything submitted later as well.
        fault: Fault,
    },
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// As many commands as the ring has slots are waiting or in flight. Try again when one retired.
    Full,
    /// The device is lost.
    Lost,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the queue is full; wait for a command to retire",
            Self::Lost => "the device is lost; reopen it and make a new queue",
        })
    }
}

impl core::error::Error for SubmitError {}

/// Counts of things that should be rare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Orders that arrived after a newer one.
    pub stale_orders: u64,
    /// Answers of the driver that made no sense and were ignored.
    pub protocol: u64,
    /// Fences that had to be put again.
    pub repeated_fences: u64,
    /// Steps that failed.
    pub failed_steps: u64,
}

/// The state machine of one XQueue.
///
/// `R` lends the command slots: `&mut [CommandSlot]`, an array, a boxed slice.
///
/// ```
/// use xsched_core::level::{Caps, Level};
/// use xsched_core::queue::{Action, CommandSlot, Queue, QueueConfig};
/// use xsched_core::time::Instant;
///
/// let caps = Caps::up_to(Level::Block, 64);
/// let mut queue = Queue::new([CommandSlot::default(); 4], QueueConfig::default(), caps);
/// let cmd = queue.submit(Instant::ZERO)?;
/// // A lone command carries a fence, so its completion is seen.
/// let launch = Action::Launch { cmd, fence: true };
/// assert_eq!(queue.poll_action(Instant::ZERO), Some(launch));
/// # Ok::<(), xsched_core::queue::SubmitError>(())
/// ```
#[derive(Debug)]
pub struct Queue<R> {
    ring: R,
    /// Largest index when the ring's size is a power of two, for a cheap remainder; else 0.
    mask: u64,
    caps: Caps,
    level: Level,
    window: Window,

    submitted: u64,
    launched: u64,
    retired: u64,
    /// Next command to launch; below `launched` only while commands are replayed.
    cursor: u64,
    /// Commands that the device has told us about.
    device_retired: u64,
    /// One past the last command that was really launched.
    last_launch: u64,
    /// Commands covered by a fence.
    fenced: u64,
    /// No scheduler waits for the queue to run out of work.
    is_unattended: bool,
    /// The device refused a fence; the next one waits until something has changed.
    fence_refused: bool,
    /// Completions were requested up to this many commands, all of which have passed the launch
    /// point.
    requested: u64,
    /// The device has room for commands below this one, as it said last.
    room: u64,
    /// Settled commands between `retired` and `cursor`.
    settled: u64,
    /// Commands below this are dropped instead of launched.
    drop_until: u64,
    /// When a command was launched into the idle queue, and which.
    lone: Option<(CmdId, Instant)>,

    hold: hold::Hold,
    waiting: Option<EventRef>,
    lost: bool,

    failures: u64,
    busy: Duration,
    busy_reported: Duration,
    progress_every: Duration,
    watch: u64,
    ready_since: Instant,
    report_due: bool,

    fence_timeout: Duration,
    fence_wait: Duration,
    last_progress: Instant,
    /// How long nothing had come from the device when it was held.
    quiet: Duration,
    anomalies: Anomalies,
}

impl<R: Store<CommandSlot>> Queue<R> {
    /// A queue on a device with these capabilities. It runs until it is told otherwise.
    ///
    /// A ring without slots takes no commands: every submit answers [`SubmitError::Full`].
    #[must_use]
    pub fn new(ring: R, config: QueueConfig, caps: Caps) -> Self {
        Self {
            mask: slot::mask(ring.as_ref().len()),
            ring,
            caps,
            level: config.level,
            // As if each command carried a gate: the level, and with it the gates, can change at
            // any time, and what was launched before keeps its own.
            window: Window::new(config.window, &caps),
            submitted: 0,
            launched: 0,
            retired: 0,
            cursor: 0,
            device_retired: 0,
            last_launch: 0,
            fenced: 0,
            is_unattended: false,
            fence_refused: false,
            requested: 0,
            room: u64::MAX,
            settled: 0,
            drop_until: 0,
            lone: None,
            hold: hold::Hold::default(),
            waiting: None,
            lost: false,
            failures: 0,
            busy: Duration::ZERO,
            busy_reported: Duration::ZERO,
            progress_every: Duration::MAX,
            watch: 0,
            ready_since: Instant::ZERO,
            report_due: false,
            fence_timeout: config.fence_timeout.max(Duration::from_ns(1)),
            fence_wait: config.fence_timeout.max(Duration::from_ns(1)),
            last_progress: Instant::ZERO,
            quiet: Duration::ZERO,
            anomalies: Anomalies::default(),
        }
    }

    /// Takes a command. Poll for actions and reports afterwards.
    ///
    /// # Errors
    /// [`SubmitError::Full`] when the ring is full, [`SubmitError::Lost`] after a device loss.
    pub fn submit(&mut self, now: Instant) -> Result<CmdId, SubmitError> {
        self.accept(now, CommandSlot::device())
    }

    /// Takes a command that waits for an event of another queue: later commands of this queue are
    /// not launched before it is reached. Poll for actions and reports afterwards.
    ///
    /// Whether waiting could deadlock is the scheduler's to say, before this call:
    /// [`crate::scheduler::Scheduler::admit_wait`].
    ///
    /// # Errors
    /// As for [`Queue::submit`].
    pub fn enqueue_wait(&mut self, now: Instant, event: EventRef) -> Result<CmdId, SubmitError> {
        self.accept(now, CommandSlot::wait(event))
    }

    fn accept(&mut self, now: Instant, slot: CommandSlot) -> Result<CmdId, SubmitError> {
        if self.lost {
            return Err(SubmitError::Lost);
        }
        if self.is_full() {
            return Err(SubmitError::Full);
        }
        if self.submitted == self.retired {
            self.ready_since = now;
            self.last_progress = now;
            self.report_due = true;
        }
        let cmd = CmdId(self.submitted);
        *self.slot_mut(cmd.0) = slot;
        self.submitted += 1;
        // The scheduler watches for this command and must learn that it exists now.
        self.report_due |= self.submitted == self.watch;
        Ok(cmd)
    }

    /// Requests that the completion of a command be seen, by a fence if none was due.
    ///
    /// A program that waits for the command calls this; for the last command submitted it means
    /// everything. Poll for actions afterwards.
    pub fn request_completion(&mut self, cmd: CmdId) {
        let Some(last) = self.submitted.checked_sub(1) else { return };
        let n = cmd.0.min(last);
        if n < self.retired {
            return;
        }
        self.slot_mut(n).requested = true;
        if n < self.cursor {
            self.requested = self.requested.max(n + 1);
        }
    }

    /// Cancels a command that was not launched. It fails with [`Fault::Cancelled`] and retires in
    /// its turn. Poll for actions afterwards.
    ///
    /// Returns false if it was launched, cancelled or never submitted.
    pub fn cancel(&mut self, cmd: CmdId) -> bool {
        if cmd.0 < self.cursor.max(self.launched) || cmd.0 >= self.submitted {
            return false;
        }
        let slot = self.slot_mut(cmd.0);
        if slot.settled {
            return false;
        }
        slot.settled = true;
        slot.fault = Some(Fault::Cancelled);
        self.failures += 1;
        if cmd.0 == self.cursor {
            self.stop_waiting();
        }
        true
    }

    /// Drops everything that was submitted and can still be kept from running: commands not yet
    /// launched, and held ones that would have to be launched again. Poll for actions afterwards.
    pub fn drop_pending(&mut self) {
        self.drop_until = self.submitted;
        self.stop_waiting();
    }

    /// Takes a signal: something happened on the device. Poll for actions and reports afterwards.
    pub fn handle_signal(&mut self, now: Instant, signal: Signal) {
        match signal {
            Signal::FailOpen => {
                self.hold.fail_open();
                self.report_due = true;
            }
            // Answers that were on their way when the device was lost.
            _ if self.lost => {}
            Signal::Retired(retired) => self.on_retired(now, retired),
            Signal::LaunchFailed { cmd, fault } => self.on_launch_failed(cmd, fault),
            Signal::FenceFailed => {
                self.fenced = self.fenced.min(self.device_retired);
                self.fence_refused = true;
            }
            Signal::Stepped { seq, result } => self.on_stepped(now, seq, result),
            Signal::Lost => self.lose(),
        }
    }

    /// Takes an order of the scheduler. Poll for actions and reports afterwards.
    ///
    /// An order older than the newest known one is ignored and counted.
    pub fn handle_order(&mut self, order: Order) {
        match order {
            Order::Run { .. } | Order::Hold { .. } => {
                if self.hold.order(order) {
                    self.report_due = true;
                } else {
                    self.anomalies.stale_orders += 1;
                }
            }
            Order::Watch { upto } => {
                self.watch = upto;
                // The answer also tells how much is submitted; reports are rare otherwise.
                self.report_due = true;
            }
            Order::Reached { event, ok } => self.reach(event, ok),
            Order::Progress { every } => self.progress_every = every,
        }
    }

    /// Returns the driver's next action, or `None`. Call again until `None`.
    ///
    /// This is [`Queue::poll_step`], then [`Queue::poll_launch`].
    #[must_use]
    pub fn poll_action(&mut self, now: Instant) -> Option<Action> {
        self.poll_step().or_else(|| self.poll_launch(now))
    }

    /// The next step to ask the device for, or `None`. For drivers in which the thread that
    /// delivers orders does not launch.
    #[must_use]
    pub fn poll_step(&mut self) -> Option<Action> {
        self.next_step().map(|(step, seq)| Action::Step { step, seq })
    }

    /// The next command or fence to launch, or `None`.
    #[must_use]
    pub fn poll_launch(&mut self, now: Instant) -> Option<Action> {
        self.next_launch_action(now).or_else(|| self.poll_fence())
    }

    /// A report for the scheduler, if anything changed that it must know. Call after the actions.
    #[must_use]
    pub fn poll_report(&mut self) -> Option<Report> {
        let hold = self.hold_state();
        if hold != self.hold.reported {
            self.report_due = true;
        }
        if !self.report_due {
            return None;
        }
        self.report_due = false;
        self.hold.reported = hold;
        self.busy_reported = self.busy;
        Some(self.report())
    }

    /// The present state as a report, whether or not anything changed.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            epoch: self.hold.epoch,
            hold: self.hold_state(),
            suspended: self.hold.suspended.is_some(),
            claim: Claim::default(),
            failed_open: self.hold.failed_open,
            lost: self.lost,
            submitted: self.submitted,
            launched: self.launched,
            retired: self.retired,
            failures: self.failures,
            busy: self.busy,
            ready_since: self.ready_since,
            waiting: self.waiting,
        }
    }

    /// When [`Queue::handle_timeout`] wants to be called, if at all. Later is harmless except that
    /// a lost fence is noticed later.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let unseen = self.last_launch > self.device_retired;
        let counting = unseen && !self.lost && self.hold.device_is_free();
        counting.then(|| self.last_progress + self.fence_wait)
    }

    /// Tells the queue that time has passed. Calling it early or for nothing does nothing. Poll for
    /// actions afterwards.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| now >= due) {
            self.fenced = self.fenced.min(self.device_retired);
            self.fence_refused = false;
            self.fence_wait = self.fence_wait.times(2);
            self.last_progress = now;
            self.anomalies.repeated_fences += 1;
        }
    }

    /// Changes the deepest hold to use, even while held; the device is moved there if it can.
    pub fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    /// The deepest hold that will be used: the level that was set, or that of the device if it can
    /// do less.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level.min(self.caps.level)
    }

    /// Returns the status of a command.
    #[must_use]
    pub fn status(&self, cmd: CmdId) -> Status {
        let slots = self.ring.as_ref().len() as u64;
        if cmd.0 >= self.submitted {
            return Status::Unknown;
        }
        if self.submitted - cmd.0 > slots {
            return Status::Forgotten;
        }
        let slot = self.slot(cmd.0);
        match slot.fault {
            Some(fault) => Status::Failed(fault),
            None if cmd.0 < self.retired => Status::Done,
            None if cmd.0 < self.launched => Status::InFlight,
            None => Status::Queued,
        }
    }

    /// Commands submitted so far.
    #[must_use]
    pub const fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Commands that have passed the launch point so far.
    #[must_use]
    pub const fn launched(&self) -> u64 {
        self.launched
    }

    /// Commands retired so far.
    #[must_use]
    pub const fn retired(&self) -> u64 {
        self.retired
    }

    /// The next command to be launched.
    #[must_use]
    pub const fn next_launch(&self) -> CmdId {
        CmdId(self.cursor)
    }

    /// Commands between the launch point and retirement.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.cursor.saturating_sub(self.retired)
    }

    /// Returns whether the ring has no free slot.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.submitted - self.retired >= self.ring.as_ref().len() as u64
    }

    /// The window in use.
    #[must_use]
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// Device time used so far.
    #[must_use]
    pub const fn busy(&self) -> Duration {
        self.busy
    }

    /// The event that the next command waits for, if it does.
    #[must_use]
    pub const fn waiting(&self) -> Option<EventRef> {
        self.waiting
    }

    /// Returns whether the device is lost.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Counts of things that should be rare.
    #[must_use]
    pub const fn anomalies(&self) -> Anomalies {
        self.anomalies
    }

    /// Really launched commands that the device has not told us about.
    const fn device_in_flight(&self) -> bool {
        self.last_launch > self.device_retired
    }
}
