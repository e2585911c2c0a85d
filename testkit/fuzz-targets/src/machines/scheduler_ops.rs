//! Operations on a scheduler and its queues.

use xsched_core::hint::{Hints, Priority};
use xsched_core::id::{CmdId, EventRef, QueueId};
use xsched_core::level::Level;
use xsched_core::policy::Policy;
use xsched_core::queue::Signal;
use xsched_core::scheduler::{Attach, LevelChoice, SchedulerError};

use super::scheduler::{Actor, Run, SchedulerMutant, policy};
use super::scheduler_model::Known;
use super::{Checked, require, same};

/// Commands that one queue takes in one run.
const COMMANDS_MAX: u64 = 200;

/// An operation on a queue that exists, and how often it is drawn.
type Operation = (fn(&mut Run<'_>, usize) -> Checked, &'static str, usize);

const OPERATIONS: &[Operation] = &[
    (submit, "submit", 10),
    (work, "the device goes on", 8),
    (work_all, "all devices go on", 6),
    (report, "a report arrives", 10),
    (repeat_report, "a report arrives twice", 2),
    (orders, "orders leave", 8),
    (order, "an order arrives", 10),
    (wait, "wait for another queue", 8),
    (settle, "all messages arrive", 8),
    (hint, "another priority", 4),
    (suspend, "user hold", 2),
    (resume, "resume", 3),
    (cancel, "cancel", 2),
    (attach, "attach", 3),
    (detach, "detach", 1),
    (switch, "another policy", 2),
    (fail_open, "fail open", 2),
    (set_level, "another level", 2),
    (want, "a completion is requested", 2),
    (nonsense, "nonsense", 1),
    (lose, "lose the device", 1),
];

impl Run<'_> {
    /// Does what the bytes say.
    pub(super) fn operation(&mut self) -> Checked {
        let total: usize = OPERATIONS.iter().map(|(.., weight)| weight).sum();
        let mut drawn = self.bytes.below(total);
        for (operation, name, weight) in OPERATIONS {
            if drawn < *weight {
                if self.actors.is_empty() {
                    return self.attach();
                }
                let n = self.bytes.below(self.actors.len());
                self.log.note(|| format!("{name}: {n}"));
                return operation(self, n);
            }
            drawn -= weight;
        }
        Ok(())
    }

    /// A priority from all over the scale, more often from a few.
    fn any_priority(&mut self) -> i16 {
        self.bytes.pick(&[0, 1, 2, 1, 3, 0, 2, 255, -255, -256])
    }

    pub(super) fn attach(&mut self) -> Checked {
        let mut actor = Actor::new(&mut self.bytes);
        actor.level = self.bytes.pick(&[Level::Interrupt, Level::Deactivate, Level::Block]);
        let priority = self.any_priority();
        let device = self.device();
        let attach = Attach {
            device,
            hints: hints(priority),
            level: LevelChoice::Exactly(actor.level),
            ..Attach::default()
        };
        let mut said = attach;
        if self.mutates(SchedulerMutant::OneDevice, 1) {
            said.device.0 = 0;
        }
        match self.scheduler.attach(self.now, said) {
            Ok(id) => {
                let fresh = !self.gone.contains(&id) && self.model.get(id).is_none();
                require(fresh, "an id is given out twice")?;
                actor.id = id;
                let report = actor.queue.report();
                self.model.queues.push(Known { id, device: device.0, priority, report });
                self.actors.push(actor);
                self.counters.count("attached");
                Ok(())
            }
            Err(SchedulerError::TableFull) => {
                self.counters.count("table full");
                Ok(())
            }
            Err(error) => same("attaching", None, Some(error)),
        }
    }

    pub(super) fn set_priority(&mut self, n: usize, priority: i16) -> Checked {
        let id = self.actors[n].id;
        if let Some(known) = self.model.get_mut(id) {
            known.priority = priority;
        }
        if self.mutates(SchedulerMutant::KeepHints, 1) {
            return Ok(());
        }
        let answer = self.scheduler.set_hints(self.now, id, hints(priority));
        same("the answer to a hint", Ok(()), answer)
    }

    pub(super) fn resume(&mut self, n: usize, drop: bool) -> Checked {
        let actor = &mut self.actors[n];
        actor.suspended = false;
        actor.queue.resume(drop);
        self.act(n)
    }

    pub(super) fn set_policy(&mut self, hpf: bool) {
        self.model.hpf = hpf;
        if !self.mutates(SchedulerMutant::KeepPolicy, 1) {
            self.scheduler.set_policy(policy(hpf));
        }
    }
}

fn hints(priority: i16) -> Hints {
    Hints::with_priority(Priority::new(priority.into()).unwrap_or_default())
}

fn submit(run: &mut Run<'_>, n: usize) -> Checked {
    for _ in 0..run.bytes.up_to(5) {
        let queue = &mut run.actors[n].queue;
        if queue.submitted() < COMMANDS_MAX && queue.submit(run.now).is_err() {
            run.counters.count("full or lost");
        }
    }
    run.act(n)
}

fn work(run: &mut Run<'_>, n: usize) -> Checked {
    let steps = run.bytes.up_to(12);
    run.work(n, steps)?;
    Ok(())
}

fn work_all(run: &mut Run<'_>, _: usize) -> Checked {
    let steps = run.bytes.up_to(24);
    for n in 0..run.actors.len() {
        run.work(n, steps)?;
    }
    Ok(())
}

fn report(run: &mut Run<'_>, n: usize) -> Checked {
    run.deliver_report(n, false)?;
    Ok(())
}

fn repeat_report(run: &mut Run<'_>, n: usize) -> Checked {
    run.deliver_report(n, true)?;
    Ok(())
}

fn orders(run: &mut Run<'_>, _: usize) -> Checked {
    run.give_orders()?;
    Ok(())
}

fn order(run: &mut Run<'_>, n: usize) -> Checked {
    for _ in 0..run.bytes.up_to(3) {
        run.deliver_order(n)?;
    }
    Ok(())
}

fn settle(run: &mut Run<'_>, _: usize) -> Checked {
    run.settle()
}

/// The queue's next command is to wait for a command of another queue, which may be in the future.
fn wait(run: &mut Run<'_>, n: usize) -> Checked {
    let Some(event) = any_event(run) else { return Ok(()) };
    let (waiter, cmd) = (run.actors[n].id, CmdId(run.actors[n].queue.submitted()));
    let expected = run.model.admit(waiter, cmd, event);
    let mut answer = run.scheduler.admit_wait(waiter, cmd, event);
    if run.mutates(SchedulerMutant::AdmitAll, 1) {
        answer = Ok(true);
    }
    same("the answer to a wait", expected, answer)?;
    match answer {
        Ok(true) => {
            run.counters.count("waits");
            if run.actors[n].queue.enqueue_wait(run.now, event).is_err() {
                run.counters.count("admitted waits that were not submitted");
            }
        }
        Ok(false) => run.counters.count("waits for nothing"),
        Err(SchedulerError::WouldDeadlock) => run.counters.count("deadlocks refused"),
        Err(SchedulerError::WaitTableFull) => run.counters.count("wait table full"),
        Err(_) => run.counters.count("waits for the gone"),
    }
    run.act(n)
}

fn any_event(run: &mut Run<'_>) -> Option<EventRef> {
    if run.bytes.below(16) == 15 {
        let queue = run.gone.last().copied().unwrap_or(QueueId::new(77, 1));
        return Some(EventRef { queue, cmd: CmdId(0) });
    }
    let target = run.bytes.below(run.actors.len());
    let target = &run.actors[target];
    let ahead = target.queue.submitted() + 2;
    let cmd = ahead.checked_sub(run.bytes.below(8) as u64)?;
    // What lies too far ahead would take long to get to.
    (cmd < COMMANDS_MAX).then_some(EventRef { queue: target.id, cmd: CmdId(cmd) })
}

fn hint(run: &mut Run<'_>, n: usize) -> Checked {
    let priority = run.any_priority();
    run.set_priority(n, priority)
}

fn suspend(run: &mut Run<'_>, n: usize) -> Checked {
    let level = run.bytes.pick(&[Level::Interrupt, Level::Deactivate, Level::Block]);
    run.actors[n].suspended = true;
    if !run.mutates(SchedulerMutant::IgnoreHand, 1) {
        run.actors[n].queue.suspend(level);
    }
    run.counters.count("user holds");
    run.act(n)
}

fn resume(run: &mut Run<'_>, n: usize) -> Checked {
    let drop = run.bytes.below(4) == 3;
    run.resume(n, drop)
}

fn cancel(run: &mut Run<'_>, n: usize) -> Checked {
    let back = 1 + run.bytes.below(4) as u64;
    let queue = &mut run.actors[n].queue;
    if let Some(cmd) = queue.submitted().checked_sub(back)
        && queue.cancel(CmdId(cmd))
    {
        run.counters.count("cancelled");
    }
    run.act(n)
}

fn attach(run: &mut Run<'_>, _: usize) -> Checked {
    run.attach()
}

fn detach(run: &mut Run<'_>, n: usize) -> Checked {
    let actor = run.actors.remove(n);
    run.model.queues.retain(|known| known.id != actor.id);
    run.gone.push(actor.id);
    run.counters.count("detached");
    if run.mutates(SchedulerMutant::KeepGone, 1) {
        return Ok(());
    }
    let answer = run.scheduler.detach(run.now, actor.id);
    same("the answer to detaching", Ok(()), answer)?;
    let again = run.scheduler.detach(run.now, actor.id);
    same("detaching again", Err(SchedulerError::UnknownQueue), again)
}

fn switch(run: &mut Run<'_>, _: usize) -> Checked {
    let hpf = run.bytes.below(4) != 3;
    run.set_policy(hpf);
    let name = if hpf { "hpf" } else { "fcfs" };
    run.counters.count(name);
    let _ = run.scheduler.policy().name();
    Ok(())
}

fn fail_open(run: &mut Run<'_>, n: usize) -> Checked {
    let actor = &mut run.actors[n];
    actor.queue.handle_signal(run.now, Signal::FailOpen);
    if actor.queue.report().failed_open {
        run.counters.count("failed open");
    }
    run.act(n)
}

/// Another level, in the scheduler's orders or in the queue's own limit.
fn set_level(run: &mut Run<'_>, n: usize) -> Checked {
    let level = run.bytes.pick(&[Level::Interrupt, Level::Deactivate, Level::Block]);
    let actor = &mut run.actors[n];
    if run.bytes.flag() {
        actor.level = level;
        let answer = run.scheduler.set_level(actor.id, LevelChoice::Exactly(level));
        same("the answer to a level", Ok(()), answer)
    } else {
        actor.limit = level;
        actor.queue.set_level(level);
        run.act(n)
    }
}

fn want(run: &mut Run<'_>, n: usize) -> Checked {
    let queue = &mut run.actors[n].queue;
    let back = 1 + run.bytes.below(4) as u64;
    if let Some(cmd) = queue.submitted().checked_sub(back) {
        queue.request_completion(CmdId(cmd));
    }
    run.act(n)
}

/// Reports that cannot be true, calls for queues that do not exist, timers that were not set.
fn nonsense(run: &mut Run<'_>, n: usize) -> Checked {
    let id = run.actors[n].id;
    let mut report = run.actors[n].queue.report();
    report.retired = report.submitted + 1;
    let answer = run.scheduler.handle_report(run.now, id, &report);
    same("a report that contradicts itself", Err(SchedulerError::BadReport), answer)?;
    if let Some(&gone) = run.gone.last() {
        let report = run.actors[n].queue.report();
        let answer = run.scheduler.handle_report(run.now, gone, &report);
        same("a report of an unknown queue", Err(SchedulerError::UnknownQueue), answer)?;
    }
    run.scheduler.handle_timeout(run.now);
    same("a timer", None, run.scheduler.poll_timeout())
}

/// Rarely: there is not much to see afterwards.
fn lose(run: &mut Run<'_>, n: usize) -> Checked {
    if run.bytes.below(4) != 3 {
        return Ok(());
    }
    run.counters.count("lost");
    run.lose(n)
}
