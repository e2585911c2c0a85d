//! XQueues as the C API has them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xsched::{Drain, LaunchToken, Quiet, SubmitError, WaitError, XQueue};
use xsched_core::hint::{Hints, Priority};
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::window::WindowConfig;
use xsched_hal_stream::Reach;

use crate::command::{Command, is_inside_callback};
use crate::commands::Commands;
use crate::contention;
use crate::hwqueue::HwQueue;
use crate::refusal::{Answer, Refusal};
use crate::side::{End, Side};
use crate::thread::this_thread;
use crate::types::XQueueSuspendFlag;

/// Threshold and batch at first.
pub(crate) const WINDOW: (i64, i64) = (16, 8);

/// Time within which an idle stream gets past an event, on a GPU within some 5 µs.
const MARKING: Duration = Duration::from_micros(500);

/// An XQueue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) handle: u64,
    xq: XQueue<Command>,
    /// The level that it was asked for.
    asked: Level,
    hwq: Arc<HwQueue>,
    side: Arc<Side>,
    /// Submitting waits for the launch.
    blocks: bool,
    /// Threshold and batch as they were asked for. A batch above the threshold counts as that.
    window: Mutex<(i64, i64)>,
    hints: Mutex<Hints>,
    /// An interposer may have launched into its stream past it, before something told the streams
    /// apart.
    was_passed: AtomicBool,
    /// The queue has the threshold of one with gates, which the scheduler of the node alone closes.
    is_wide: AtomicBool,
    /// The thread that suspended it; 0 if it is not suspended.
    suspender: AtomicU64,
    /// The queue is being destroyed, and nothing may keep it from getting done.
    closing: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn outside_callbacks() -> Answer {
    if is_inside_callback() {
        return Err(Refusal::not_allowed(
            "a callback cannot wait for an XQueue: it would wait for itself",
        ));
    }
    Ok(())
}

impl Queue {
    /// A queue that runs `xq` on hardware, and was asked for this level.
    pub(crate) fn new(
        handle: u64,
        (xq, asked): (XQueue<Command>, Level),
        hwq: Arc<HwQueue>,
        side: Arc<Side>,
        blocks: bool,
    ) -> Self {
        Self {
            handle,
            xq,
            asked,
            hwq,
            side,
            blocks,
            window: Mutex::new(WINDOW),
            hints: Mutex::default(),
            was_passed: AtomicBool::new(!contention::scheduling_required()),
            is_wide: AtomicBool::new(false),
            suspender: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        }
    }

    /// Gives it the threshold of a queue with gates, though it is at level 1.
    pub(crate) fn set_wide(&self) {
        self.is_wide.store(true, Ordering::Relaxed);
    }

    /// Returns whether it has that threshold, and streams are told apart by now: then it is to have
    /// that of its level. True once.
    pub(crate) fn is_to_be_narrow(&self) -> bool {
        self.is_wide.load(Ordering::Relaxed) && contention::scheduling_required() && self.end_wide()
    }

    /// Notes that its threshold is of its level, or one that was asked for. Returns whether it was
    /// not before.
    pub(crate) fn end_wide(&self) -> bool {
        self.is_wide.swap(false, Ordering::Relaxed)
    }

    /// The hardware queue that it is made for.
    pub(crate) fn hwq(&self) -> &Arc<HwQueue> {
        &self.hwq
    }

    /// Watch that tells when neither this nor the device's side has it any more.
    pub(crate) fn end(&self) -> Arc<End> {
        self.side.end()
    }

    /// Lets everything run, whatever holds it: a suspension, and the priorities with which nothing
    /// runs. From now on no call changes that.
    pub(crate) fn release(&self) {
        // Before the rest: a thread that holds it after this resume sees the flag.
        self.closing.store(true, Ordering::SeqCst);
        self.suspender.store(0, Ordering::Relaxed);
        self.xq.resume();
        let mut hints = lock(&self.hints);
        let runnable = hints.without_no_execute();
        if *hints != runnable {
            *hints = runnable;
            self.xq.set_hints(runnable);
        }
    }

    /// Waits until everything submitted is done.
    pub(crate) fn finish(&self) {
        self.xq.wait_all();
    }

    /// Submits a command that was created.
    pub(crate) fn submit(&self, commands: &Commands, raw: u64) -> Answer {
        let command = commands.take(raw)?;
        match self.submit_command(command) {
            Ok(number) => {
                commands.submitted(raw, self.handle, number);
                if self.blocks {
                    self.wait_launched(number);
                }
                Ok(())
            }
            Err(refusal) => {
                commands.put_back(raw);
                Err(refusal)
            }
        }
    }

    /// Returns when this thread is to launch something by itself; `None` if it was dropped. If the
    /// thread has suspended the queue, that is now or never.
    pub(crate) fn begin_launch(
        &self,
        kind: u32,
        reach: Reach,
    ) -> Answer<Option<LaunchToken<Command>>> {
        let command = Command::of_caller(kind, reach);
        let waits = self.may_wait("it would wait for the launch");
        if waits.is_err() && !is_inside_callback() && !self.hwq.hardware.is_host() {
            let begun = self.xq.begin_launch_behind_hold(command);
            return begun.or_else(|_| waits.map(|()| None));
        }
        waits?;
        self.xq.begin_launch(command).map_err(|_| lost())
    }

    fn submit_command(&self, command: Command) -> Answer<u64> {
        if command.is_for_host() && !self.hwq.hardware.is_host() {
            return Err(Refusal::invalid("the command is one for the host device"));
        }
        if self.blocks {
            self.may_wait("it would wait for the launch")?;
        }
        let command = match self.xq.try_submit(command) {
            Ok(ticket) => return Ok(ticket.number()),
            Err(SubmitError::Full(command)) => command,
            // No XQueue of this interface is closed while it can be found.
            Err(_) => return Err(lost()),
        };
        self.may_wait("the XQueue is full")?;
        match self.xq.submit(command) {
            Ok(ticket) => Ok(ticket.number()),
            Err(_) => Err(lost()),
        }
    }

    /// Returns whether this thread can wait for the queue to get on without waiting for itself.
    fn may_wait(&self, what: &str) -> Answer {
        if is_inside_callback() {
            return Err(Refusal::not_allowed(format!(
                "{what}, and a callback cannot wait; submit outside of callbacks"
            )));
        }
        if self.suspender.load(Ordering::Relaxed) == this_thread() {
            return Err(Refusal::not_allowed(format!(
                "{what}, and this thread has suspended the XQueue; resume it first"
            )));
        }
        Ok(())
    }

    fn wait_launched(&self, number: u64) {
        let Some(ticket) = self.xq.ticket_of(number) else { return };
        let over = || self.xq.wait_timeout(ticket, Duration::ZERO) != Err(WaitError::Timeout);
        self.side.wait_launched(number, over);
    }

    /// Waits for a command that was submitted.
    pub(crate) fn wait(&self, commands: &Commands, raw: u64) -> Answer {
        outside_callbacks()?;
        let number = commands.number(raw, self.handle)?;
        let ticket = self.xq.ticket_of(number);
        let ticket = ticket.ok_or_else(|| Refusal::invalid("the command is another queue's"))?;
        self.xq.wait(ticket).map_err(|error| match error {
            WaitError::Failed(_) => self.side.answer_of(number).unwrap_or_else(|| error.into()),
            error => error.into(),
        })
    }

    /// Waits for everything submitted so far, and answers the first failure since the last time.
    pub(crate) fn wait_all(&self) -> Answer {
        outside_callbacks()?;
        let submitted = self.xq.stats().submitted;
        self.xq.wait_all();
        match self.side.take_first_failure(submitted) {
            Some(failure) => Err(failure),
            None if self.xq.stats().lost => Err(lost()),
            None => Ok(()),
        }
    }

    /// Returns whether everything submitted is done.
    pub(crate) fn is_idle(&self) -> bool {
        let stats = self.xq.stats();
        stats.retired >= stats.submitted
    }

    pub(crate) fn retired(&self) -> u64 {
        self.xq.stats().retired
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.xq.stats().submitted
    }

    /// How many of its holds that came into effect have ended.
    pub(crate) fn holds_ended(&self) -> u64 {
        let stats = self.xq.stats();
        let is_held = matches!(stats.hold, HoldState::Held(_));
        stats.hold_latency.count().saturating_sub(is_held.into())
    }

    pub(crate) fn suspend(&self, flags: i64) -> Answer {
        let flag = |flag: XQueueSuspendFlag| flags & flag as i64 != 0;
        if flags != 0 {
            outside_callbacks()?;
            self.wait_passed()?;
        }
        if flag(XQueueSuspendFlag::kQueueSuspendFlagWaitIdle) {
            self.hold_after(Drain::Idle)?;
        } else if flag(XQueueSuspendFlag::kQueueSuspendFlagWaitAll) {
            self.hold_after(Drain::All)?;
        } else {
            self.xq.suspend(Level::Interrupt);
        }
        self.suspender.store(this_thread(), Ordering::Relaxed);
        if self.closing.load(Ordering::SeqCst) {
            self.suspender.store(0, Ordering::Relaxed);
            self.xq.resume();
            return Ok(());
        }
        if flag(XQueueSuspendFlag::kQueueSuspendFlagSyncHwQueue) {
            self.wait_quiet();
        }
        Ok(())
    }

    /// Waits once for what was launched past the queue, unless that is suspended: at level 2 the
    /// stream may be at a gate, which this thread is to open.
    fn wait_passed(&self) -> Answer {
        if self.was_passed.load(Ordering::Relaxed) && !self.xq.stats().suspended {
            self.hwq.hardware.synchronize()?;
            self.was_passed.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn hold_after(&self, drain: Drain) -> Answer {
        Ok(self.xq.suspend_after(drain, Level::Interrupt, None)?)
    }

    /// Waits until nothing of it runs, as far as the device can tell. Ends with the hold.
    fn wait_quiet(&self) {
        // Without a limit it cannot fail.
        if self.xq.wait_quiet(None) == Ok(Quiet::Unknown) {
            tracing::debug!("the device cannot tell what still runs");
        }
    }

    /// Waits until what was launched by now has run.
    pub(crate) fn wait_launched_commands(&self) {
        let launched = self.xq.stats().launched;
        let ticket = launched.checked_sub(1).and_then(|last| self.xq.ticket_of(last));
        // How it ended is answered to the thread that waits for the command itself.
        let _ = ticket.map(|ticket| self.xq.wait(ticket));
    }

    /// The stream has run what was launched by now: sees to it that the scheduler knows at once,
    /// or nearly, for the end of a burst has to be marked first.
    pub(crate) fn look(&self) {
        let launched = self.xq.stats().launched;
        let ticket = launched.checked_sub(1).and_then(|last| self.xq.ticket_of(last));
        // How it ended is answered to the thread that waits for the command itself.
        let _ = ticket.map(|ticket| self.xq.wait_timeout(ticket, MARKING));
    }

    /// Touches its stream no more until the next launch. False if it cannot do without.
    pub(crate) fn seal(&self) -> bool {
        self.xq.seal()
    }

    pub(crate) fn resume(&self, drop_commands: bool) {
        self.suspender.store(0, Ordering::Relaxed);
        // As with the C++ XSched, a queue that is not suspended is left alone, flags and all.
        if !self.xq.stats().suspended {
            return;
        }
        if drop_commands {
            self.xq.resume_and_drop();
        } else {
            self.xq.resume();
        }
    }

    /// Lets it go for the process's exit, without what has not been launched.
    pub(crate) fn abandon(&self) {
        self.xq.suspend(Level::Block);
        self.xq.resume_and_drop();
    }

    /// The highest level that it can have.
    pub(crate) fn level(&self) -> Level {
        self.xq.caps().level
    }

    /// Why it has no higher level, and what is special about its holds, in words for the user.
    pub(crate) fn why_no_higher(&self) -> String {
        let (level, hardware) = (self.level(), &self.hwq.hardware);
        let why = if level == Level::Interrupt {
            "there is none".to_owned()
        } else if level >= self.asked {
            "none was asked for".to_owned()
        } else {
            hardware.why_no_higher(level)
        };
        match hardware.how_held(level) {
            Some(how) => format!("{why}; {how}"),
            None => why,
        }
    }

    pub(crate) fn set_level(&self, level: i32) -> Answer {
        let number = u8::try_from(level).ok().and_then(Level::from_number);
        let level = number.ok_or_else(|| Refusal::invalid("a level is 1 to 3"))?;
        let highest = self.xq.caps().level;
        if level > highest {
            return Err(Refusal::not_supported(format!(
                "the XQueue can do level {} at most; make it with a higher one, if the hardware \
                 queue can: {}",
                highest.number(),
                self.hwq.hardware.why_no_higher(highest)
            )));
        }
        self.xq.set_level(level);
        Ok(())
    }

    /// Sets threshold and batch; what is not above 0 stays.
    pub(crate) fn set_window(&self, threshold: i64, batch: i64) -> Answer {
        let max = i64::from(WindowConfig::THRESHOLD_MAX);
        if threshold > max || batch > max {
            return Err(Refusal::invalid(format!("threshold and batch are {max} at most")));
        }
        let mut window = lock(&self.window);
        let new = (
            if threshold > 0 { threshold } else { window.0 },
            if batch > 0 { batch } else { window.1 },
        );
        if batch > 0 && new.1 > new.0 {
            return Err(Refusal::invalid(format!(
                "a batch of {} is more than the threshold of {}",
                new.1, new.0
            )));
        }
        *window = new;
        self.xq.set_window(WindowConfig::fixed(new.0 as u32, new.1 as u32));
        Ok(())
    }

    /// Hints that the policy has of it.
    pub(crate) fn hints(&self) -> Hints {
        *lock(&self.hints)
    }

    /// Priority of the queue, as it was set last.
    pub(crate) fn priority(&self) -> Priority {
        lock(&self.hints).priority
    }

    /// Changes what the policy knows about it.
    pub(crate) fn hint(&self, change: impl FnOnce(&mut Hints) -> Answer) -> Answer {
        let mut hints = lock(&self.hints);
        let mut new = *hints;
        change(&mut new)?;
        if self.closing.load(Ordering::SeqCst) {
            // The program cannot tell that it is not destroyed yet.
            return Ok(());
        }
        *hints = new;
        self.xq.set_hints(new);
        drop(hints);
        // So that what is submitted next cannot slip past it. A callback is not to wait, and what
        // a scheduler that does not answer was told it will know later.
        if !is_inside_callback() {
            let _ = self.xq.flush();
        }
        Ok(())
    }
}

fn lost() -> Refusal {
    Refusal::hardware("the device is lost; make new queues, or start the program again")
}
