//! The halves on three threads at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::hal::{Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Level, Recovery, Step as DeviceStep};
use xsched_core::rng::SplitMix64;

use super::interrupt::pause;
use super::quiet::{is_quiet, must_tell};
use super::{Check, list};
use crate::log::Log;
use crate::rig::{CommitEach, Rig, timed, until};
use crate::subject::{Subject, SubmitOf};
use crate::verdict::{Step, ensure, fail, skip};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "threads::halves_at_once",
        "`hal`, For authors: three threads touch a queue; invariants 1 and 5 hold all the same",
        halves_at_once;
        "threads::quiet_while_another_launches",
        "`Steps::is_quiet`: until the release nothing starts, runs or ends, at random times",
        quiet_while_another_launches;
    }
}

/// How long the threads work.
const STRESS: Duration = Duration::from_millis(300);

/// Commands in flight at most.
const WINDOW: u64 = 32;

/// State shared by the threads.
#[derive(Debug, Default)]
struct Shared {
    launched: AtomicU64,
    seen: AtomicU64,
    done: AtomicBool,
}

impl Shared {
    fn over(&self, start: Instant) -> bool {
        start.elapsed() > STRESS || self.done.load(Ordering::Acquire)
    }
}

/// Launches within the window until the time is over or the log is full, and ends with a fence.
fn launch_all<S: Subject>(
    subject: &S,
    submit: &mut SubmitOf<S>,
    log: &Arc<Log>,
    room: u64,
    shared: &Shared,
) -> Step {
    let (start, mut rng) = (Instant::now(), SplitMix64::new(subject.seed()));
    let mut n = 0;
    while !shared.over(start) && n < log.len() as u64 {
        if n - shared.seen.load(Ordering::Acquire) >= room {
            thread::yield_now();
            continue;
        }
        let command = timed(subject, log, n, rng.below(subject.claims().unit_ns / 20))?;
        // Published before the call, as the core does.
        shared.launched.store(n + 1, Ordering::Release);
        if let Err(error) = submit.launch(CmdId(n), &command, rng.chance(300)) {
            return fail(format!("launch of command {n} was refused: {error:?}"));
        }
        n += 1;
        if n - shared.seen.load(Ordering::Acquire) >= room || rng.chance(50) {
            fence(submit, n)?;
        }
    }
    fence(submit, n)
}

fn fence(submit: &mut impl Submit, launched: u64) -> Step {
    let Some(last) = launched.checked_sub(1) else { return Ok(()) };
    submit.fence(CmdId(last)).or_else(|error| fail(format!("a fence was refused: {error:?}")))
}

/// Watches completions until the last one, after the launching thread has ended.
fn watch_all<S: Subject>(subject: &S, retire: &mut impl Retire, shared: &Shared) -> Step {
    let mut seen = 0;
    let patience = subject.patience() + STRESS;
    let start = Instant::now();
    while !shared.done.load(Ordering::Acquire) || seen < shared.launched.load(Ordering::Acquire) {
        ensure!(start.elapsed() < patience, "waited in vain for command {seen}");
        let answer = retire.poll_retired();
        let answer = answer.or_else(|e| fail(format!("`poll_retired` failed: {e:?}")))?;
        let Some(answer) = answer else {
            thread::yield_now();
            continue;
        };
        let launched = shared.launched.load(Ordering::Acquire);
        let upto = answer.upto.count();
        ensure!(upto > seen && upto <= launched, "{upto} after {seen}, of {launched} launched");
        seen = upto;
        shared.seen.store(seen, Ordering::Release);
    }
    Ok(())
}

/// Steps of a hold and its release.
fn round(level: Level, deactivate: bool) -> Vec<DeviceStep> {
    let interrupt = level == Level::Interrupt;
    let all = [
        (deactivate, DeviceStep::Deactivate),
        (interrupt, DeviceStep::Interrupt),
        (interrupt, DeviceStep::Restore),
        (deactivate, DeviceStep::Reactivate),
    ];
    all.into_iter().filter(|(used, _)| *used).map(|(_, step)| step).collect()
}

/// Carries out steps to their ends.
fn carry_out<'a>(
    subject: &impl Subject,
    preempt: &mut impl Steps,
    steps: impl IntoIterator<Item = &'a DeviceStep>,
) -> Step {
    for &step in steps {
        let mut done = preempt.step(step);
        until(subject, "the end of a step", || {
            if done == Ok(StepDone::Later) {
                done = preempt.poll_step().map(|done| done.unwrap_or(StepDone::Later));
            }
            Ok(done != Ok(StepDone::Later))
        })?;
        ensure!(done.is_ok(), "{step:?} was refused: {done:?}");
    }
    Ok(())
}

/// Holder: the half that preempts while the others launch and watch.
struct Holder<'a, S: Subject> {
    subject: &'a S,
    preempt: &'a mut CommitEach<S>,
    /// Steps of a hold and its release.
    steps: &'a [DeviceStep],
    log: &'a Log,
    shared: &'a Shared,
}

/// Holds and releases until the launching thread has ended.
fn step_all<S: Subject>(holder: Holder<'_, S>) -> Step {
    let Holder { subject, preempt, steps, shared, .. } = holder;
    while !shared.done.load(Ordering::Acquire) {
        carry_out(subject, preempt, steps)?;
        thread::yield_now();
    }
    Ok(())
}

/// Holds at random times until the launching thread has ended, and watches what is quiet.
fn hold_all<S: Subject>(holder: Holder<'_, S>) -> Step {
    let Holder { subject, preempt, steps, log, shared } = holder;
    let (mut rng, unit_ns) = (SplitMix64::new(subject.seed()), subject.claims().unit_ns);
    while !shared.done.load(Ordering::Acquire) {
        pause(&mut rng, unit_ns / 2);
        // Where a deeper hold stops what runs, there is less to wait for.
        let deep = !steps.contains(&DeviceStep::Deactivate) || rng.chance(300);
        let is_used = |step: &&DeviceStep| {
            deep || matches!(step, DeviceStep::Deactivate | DeviceStep::Reactivate)
        };
        let (holds, releases) = steps.split_at(steps.len() / 2);
        carry_out(subject, preempt, holds.iter().filter(is_used))?;
        thread::sleep(subject.start_lag());
        let still = until(subject, "quiet", || is_quiet(preempt)).and_then(|()| {
            let launched = shared.launched.load(Ordering::Acquire);
            // All that may run or be launched meanwhile. Not more, since a look is to be short.
            let open = shared.seen.load(Ordering::Acquire)..launched + WINDOW + 1;
            let before = log.activity(open.clone());
            pause(&mut rng, unit_ns);
            let after = log.activity(open);
            ensure!(after == before, "a quiet queue starts, runs or ends commands");
            Ok(())
        });
        carry_out(subject, preempt, releases.iter().filter(is_used))?;
        still?;
    }
    Ok(())
}

fn quiet_while_another_launches<S: Subject>(subject: &S) -> Step {
    at_once(subject, |holder| {
        if holder.steps.is_empty() {
            return skip("the device holds no queue, or forgets what it holds");
        }
        must_tell(holder.preempt)?;
        hold_all(holder)
    })
}

fn halves_at_once<S: Subject>(subject: &S) -> Step {
    at_once(subject, step_all)
}

/// Launches, watches and does as `hold` says, on three threads.
fn at_once<S: Subject>(subject: &S, hold: impl FnOnce(Holder<'_, S>) -> Step + Send) -> Step {
    let mut rig = Rig::new(subject)?;
    let replays = rig.caps.deactivate == Some(Recovery::Replay)
        || rig.caps.interrupt == Some(Recovery::Replay);
    // What is forgotten is launched again by the core, which these threads do without.
    let level = if replays { Level::Block } else { rig.caps.level };
    let steps = round(level, level >= Level::Deactivate && rig.caps.deactivate.is_some());
    let (shared, log, room) = (Shared::default(), Arc::clone(&rig.log), rig.room().min(WINDOW));
    let (submit, retire, preempt) = (&mut rig.submit, &mut rig.retire, &mut rig.preempt);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let end = watch_all(subject, retire, &shared);
            shared.done.store(true, Ordering::Release);
            end
        });
        let holder = Holder { subject, preempt, steps: &steps, log: &log, shared: &shared };
        let stepper = scope.spawn(|| hold(holder));
        let end = launch_all(subject, submit, &log, room, &shared);
        shared.done.store(true, Ordering::Release);
        let ended = [stepper.join(), watcher.join()].into_iter();
        let answers = ended.map(|end| end.unwrap_or_else(|_| fail("a half panicked")));
        answers.fold(end, Result::and)
    })?;
    let launched = shared.launched.load(Ordering::Acquire);
    ensure!(launched > 0, "nothing was launched");
    log.disorder(0..launched, false).map_or(Ok(()), fail)
}
