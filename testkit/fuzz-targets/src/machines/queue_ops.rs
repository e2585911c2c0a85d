//! Operations on one queue.

use xsched_core::fault::Fault;
use xsched_core::id::{CmdId, EventRef, QueueId};
use xsched_core::level::Level;
use xsched_core::message::Order;
use xsched_core::queue::{Outcome as Ended, Retired, Signal, SubmitError};
use xsched_core::time::Duration;

use super::queue::{COMMANDS_MAX, QueueMutant, Run, window};
use super::queue_model::Place;
use super::{Checked, require, same};

/// An operation, and how often it is drawn.
type Operation = (fn(&mut Run<'_>) -> Checked, &'static str, usize);

const OPERATIONS: &[Operation] = &[
    (submit, "submit", 10),
    (advance, "the device goes on", 16),
    (tell, "a completion is seen", 12),
    (run, "order to run", 6),
    (hold, "order to hold", 6),
    (enqueue_wait, "submit a wait", 2),
    (reached, "an event is reached", 4),
    (want, "a completion is requested", 3),
    (late_answer, "late answers", 6),
    (all_is_well, "all is well", 4),
    (cancel, "cancel", 2),
    (drop_pending, "drop", 1),
    (stale, "stale order", 1),
    (suspend, "user hold", 1),
    (resume, "resume", 2),
    (refuse_launches, "refuse launches", 1),
    (slow_launch, "a slow launch", 2),
    (fail_command, "fail a command", 1),
    (refuse_fences, "refuse fences", 1),
    (lose_fence, "lose a fence", 1),
    (fail_steps, "fail steps", 1),
    (late_steps, "answer steps late", 2),
    (nonsense, "nonsense", 1),
    (repeat, "tell again", 1),
    (set_window, "another window", 1),
    (set_level, "another level", 2),
    (timeout, "time passes", 2),
    (fail_open, "fail open", 1),
    (watch, "watch", 2),
    (progress, "progress", 1),
    (lose, "lose the device", 1),
];

impl Run<'_> {
    /// Does what the bytes say.
    pub(super) fn operation(&mut self) -> Checked {
        let total: usize = OPERATIONS.iter().map(|(.., weight)| weight).sum();
        let mut drawn = self.bytes.below(total);
        for (operation, name, weight) in OPERATIONS {
            if drawn < *weight {
                self.log.note(|| (*name).into());
                return operation(self);
            }
            drawn -= weight;
        }
        Ok(())
    }

    /// A command that exists, if one does.
    fn any_command(&mut self) -> Option<u64> {
        let total = self.model.commands.len();
        // Recent ones are more interesting.
        let back = self.bytes.below(total.clamp(1, 24));
        Some(total.checked_sub(1 + back)? as u64)
    }

    fn any_event(&mut self) -> EventRef {
        EventRef { queue: QueueId::new(9, 1), cmd: CmdId(self.bytes.below(4) as u64) }
    }

    fn any_level(&mut self) -> Level {
        self.bytes.pick(&[Level::Interrupt, Level::Deactivate, Level::Block])
    }

    /// An order with an epoch this much ahead.
    pub(super) fn order(&mut self, ahead: u32, hold: Option<Level>) {
        let epoch = self.model.epoch.wrapping_add(ahead);
        if epoch < self.model.epoch {
            self.counters.count("epochs that wrap around");
        }
        self.model.order(epoch, hold);
        let (order, lost) = match hold {
            Some(level) => (Order::Hold { epoch, level }, self.mutates(QueueMutant::IgnoreHold, 1)),
            None => (Order::Run { epoch }, self.mutates(QueueMutant::LoseRun, 2)),
        };
        if !lost {
            self.queue.handle_order(order);
        }
    }

    pub(super) fn resume(&mut self, drop: bool) {
        self.model.suspended = None;
        if drop {
            self.model.drop_pending();
        }
        self.queue.resume(drop);
    }

    pub(super) fn reach(&mut self, event: EventRef, ok: bool) {
        self.model.reached(event, ok);
        self.queue.handle_order(Order::Reached { event, ok });
    }

    pub(super) fn timeout(&mut self) {
        if self.queue.poll_timeout().is_some_and(|due| self.now >= due) {
            self.checks.timer_fired();
            self.counters.count("timers");
        }
        self.queue.handle_timeout(self.now);
    }
}

fn submit(run: &mut Run<'_>) -> Checked {
    for _ in 0..run.bytes.up_to(4) {
        submit_one(run, None)?;
    }
    Ok(())
}

fn enqueue_wait(run: &mut Run<'_>) -> Checked {
    let event = run.any_event();
    submit_one(run, Some(event))
}

fn submit_one(run: &mut Run<'_>, wait: Option<EventRef>) -> Checked {
    if run.model.commands.len() >= COMMANDS_MAX {
        return Ok(());
    }
    let expected = match () {
        () if run.model.lost => Err(SubmitError::Lost),
        () if run.model.is_full() => Err(SubmitError::Full),
        () => Ok(CmdId(run.model.commands.len() as u64)),
    };
    let answer = match wait {
        None => run.queue.submit(run.now),
        Some(event) => run.queue.enqueue_wait(run.now, event),
    };
    same("the answer to a submission", expected, answer)?;
    match answer {
        Ok(_) => run.model.submit(wait),
        Err(SubmitError::Full) => run.counters.count("full"),
        Err(SubmitError::Lost) => run.counters.count("submitted to a lost device"),
    }
    Ok(())
}

fn advance(run: &mut Run<'_>) -> Checked {
    for _ in 0..run.bytes.up_to(12) {
        run.advance()?;
    }
    Ok(())
}

fn tell(run: &mut Run<'_>) -> Checked {
    run.tell();
    Ok(())
}

fn run(run: &mut Run<'_>) -> Checked {
    let ahead = run.bytes.up_to(3) as u32;
    run.order(ahead, None);
    Ok(())
}

fn hold(run: &mut Run<'_>) -> Checked {
    let level = run.any_level();
    let ahead = run.bytes.up_to(3) as u32;
    run.order(ahead, Some(level));
    Ok(())
}

fn stale(run: &mut Run<'_>) -> Checked {
    let back = run.bytes.pick(&[0, 1, 5, 1 << 20, 1 << 31]);
    let hold = run.bytes.flag().then_some(Level::Block);
    run.counters.count("stale orders");
    let mut epoch = run.model.epoch.wrapping_sub(back);
    run.model.order(epoch, hold);
    if run.mutates(QueueMutant::ObeyStale, 1) {
        epoch = run.model.epoch.wrapping_add(1);
    }
    run.queue.handle_order(match hold {
        Some(level) => Order::Hold { epoch, level },
        None => Order::Run { epoch },
    });
    Ok(())
}

fn reached(run: &mut Run<'_>) -> Checked {
    let ok = run.bytes.below(4) != 3;
    let other = run.any_event();
    // Mostly what it waits for; now and then something else.
    let event = run.queue.waiting().filter(|_| other.cmd.0 != 3).unwrap_or(other);
    run.counters.count("events");
    run.reach(event, ok);
    Ok(())
}

fn want(run: &mut Run<'_>) -> Checked {
    let Some(cmd) = run.any_command() else { return Ok(()) };
    let command = &mut run.model.commands[cmd as usize];
    command.wanted |= command.place != Place::Retired;
    run.queue.request_completion(CmdId(cmd));
    Ok(())
}

fn cancel(run: &mut Run<'_>) -> Checked {
    let Some(cmd) = run.any_command() else { return Ok(()) };
    let expected = run.model.cancel(cmd as usize);
    if expected && run.mutates(QueueMutant::IgnoreCancel, 1) {
        return Ok(());
    }
    if expected {
        run.counters.count("cancelled");
    }
    same("the answer to a cancellation", expected, run.queue.cancel(CmdId(cmd)))
}

fn drop_pending(run: &mut Run<'_>) -> Checked {
    run.model.drop_pending();
    run.queue.drop_pending();
    run.counters.count("dropped");
    Ok(())
}

fn suspend(run: &mut Run<'_>) -> Checked {
    let level = run.any_level();
    run.counters.count("user holds");
    run.model.suspended = Some(level);
    if run.mutates(QueueMutant::IgnoreHand, 1) {
        return Ok(());
    }
    run.queue.suspend(level);
    Ok(())
}

fn resume(run: &mut Run<'_>) -> Checked {
    let drop = run.bytes.below(3) == 2;
    run.resume(drop);
    Ok(())
}

fn refuse_launches(run: &mut Run<'_>) -> Checked {
    run.faults.launches = run.bytes.up_to(3);
    Ok(())
}

fn slow_launch(run: &mut Run<'_>) -> Checked {
    run.faults.slow = true;
    Ok(())
}

fn fail_command(run: &mut Run<'_>) -> Checked {
    run.device.fail_next = true;
    Ok(())
}

fn refuse_fences(run: &mut Run<'_>) -> Checked {
    run.faults.fences = run.bytes.pick(&[1, 2, 100_000]);
    Ok(())
}

fn lose_fence(run: &mut Run<'_>) -> Checked {
    run.device.lose_next = true;
    Ok(())
}

fn fail_steps(run: &mut Run<'_>) -> Checked {
    if run.bytes.flag() {
        run.faults.holds = 1;
    } else {
        run.faults.releases = run.bytes.pick(&[1, 2, 1, 3, 2, 1]);
    }
    Ok(())
}

fn late_steps(run: &mut Run<'_>) -> Checked {
    run.faults.late_steps = run.bytes.flag();
    Ok(())
}

fn late_answer(run: &mut Run<'_>) -> Checked {
    if run.answer.is_some() {
        run.counters.count("late answers");
    }
    if run.bytes.flag() { run.leave_launch() } else { run.answer_step() }
}

/// Nothing stands in the way for a moment.
fn all_is_well(run: &mut Run<'_>) -> Checked {
    run.leave_launch()?;
    run.answer_step()?;
    run.order(1, None);
    run.resume(false);
    if let Some(event) = run.queue.waiting() {
        run.reach(event, true);
    }
    Ok(())
}

/// Something that no driver should say. It is counted, and nothing else changes.
fn nonsense(run: &mut Run<'_>) -> Checked {
    let beyond = run.queue.next_launch().0 + run.bytes.pick(&[0, 1, 1 << 40]);
    let retired = Retired {
        upto: CmdId(beyond),
        busy: Duration::from_us(1),
        outcome: Ended::Failed { from: CmdId(0), fault: Fault::Execution },
    };
    let over = run.model.commands.iter().rposition(|c| c.place == Place::Passed);
    let over = over.map_or(beyond, |n| n as u64);
    let fault = Fault::Launch;
    let seq = run.seq.wrapping_add(if run.answer.is_some() { 1 } else { 0 });
    let signal = match run.bytes.below(4) {
        0 => Signal::Retired(retired),
        1 => Signal::LaunchFailed { cmd: CmdId(beyond), fault },
        2 => Signal::LaunchFailed { cmd: CmdId(over), fault },
        _ => Signal::Stepped { seq, result: Ok(Some(CmdId(0))) },
    };
    run.counters.count("nonsense");
    run.model.nonsense += u64::from(!run.model.lost);
    run.signal(signal);
    Ok(())
}

fn repeat(run: &mut Run<'_>) -> Checked {
    if let Some(retired) = run.last_told {
        run.signal(Signal::Retired(retired));
    }
    Ok(())
}

fn set_window(run: &mut Run<'_>) -> Checked {
    let config = window(&mut run.bytes);
    run.counters.count(if config.adaptive { "adaptive windows" } else { "fixed windows" });
    run.queue.set_window(config);
    let window = run.queue.window();
    require(window.threshold() <= config.threshold, "a window wider than asked for")?;
    require(window.batch() <= window.threshold(), "a batch larger than the window")
}

fn set_level(run: &mut Run<'_>) -> Checked {
    let level = run.any_level();
    run.model.level = level;
    run.queue.set_level(level);
    Ok(())
}

fn timeout(run: &mut Run<'_>) -> Checked {
    run.now += Duration::from_us(run.bytes.pick(&[1, 100, 10_000]));
    run.timeout();
    Ok(())
}

fn fail_open(run: &mut Run<'_>) -> Checked {
    run.model.fail_open();
    if run.model.failed_open {
        run.counters.count("failed open");
    }
    run.signal(Signal::FailOpen);
    Ok(())
}

fn watch(run: &mut Run<'_>) -> Checked {
    let upto = run.model.commands.len() as u64 + 4;
    let upto = upto.saturating_sub(run.bytes.below(12) as u64);
    run.model.watch = upto;
    run.queue.handle_order(Order::Watch { upto });
    Ok(())
}

fn progress(run: &mut Run<'_>) -> Checked {
    let every = Duration::from_us(run.bytes.pick(&[25, 0, u64::MAX]));
    run.progress_every = every;
    run.queue.handle_order(Order::Progress { every });
    Ok(())
}

/// Rarely: there is not much to see afterwards.
fn lose(run: &mut Run<'_>) -> Checked {
    if run.bytes.below(64) == 63 {
        run.model.lose();
        run.signal(Signal::Lost);
    }
    Ok(())
}
