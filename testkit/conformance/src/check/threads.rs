//! The halves on three threads at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::hal::{Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Level, Recovery, Step as DeviceStep};
use xsched_core::rng::SplitMix64;

use super::{Check, list};
use crate::log::Log;
use crate::rig::{Rig, timed, until};
use crate::subject::{Subject, SubmitOf};
use crate::verdict::{Step, ensure, fail};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "threads::halves_at_once",
        "`hal`, For authors: three threads touch a queue; invariants 1 and 5 hold all the same",
        halves_at_once;
    }
}

/// How long the threads work.
const STRESS: Duration = Duration::from_millis(300);

/// What the threads share.
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

/// Holds and releases until the launching thread has ended.
fn step_all<S: Subject>(
    subject: &S,
    preempt: &mut impl Steps,
    steps: &[DeviceStep],
    shared: &Shared,
) -> Step {
    while !shared.done.load(Ordering::Acquire) {
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
        thread::yield_now();
    }
    Ok(())
}

fn halves_at_once<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    let replays = rig.caps.deactivate == Some(Recovery::Replay)
        || rig.caps.interrupt == Some(Recovery::Replay);
    // What is forgotten is launched again by the core, which these threads do without.
    let level = if replays { Level::Block } else { rig.caps.level };
    let steps = round(level, level >= Level::Deactivate && rig.caps.deactivate.is_some());
    let (shared, log, room) = (Shared::default(), Arc::clone(&rig.log), rig.room().min(32));
    let (submit, retire, preempt) = (&mut rig.submit, &mut rig.retire, &mut rig.preempt);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let end = watch_all(subject, retire, &shared);
            shared.done.store(true, Ordering::Release);
            end
        });
        let stepper = scope.spawn(|| step_all(subject, preempt, &steps, &shared));
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
