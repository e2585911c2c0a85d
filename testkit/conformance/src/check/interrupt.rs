//! Lv3: the running command is stopped and continues later.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::level::{Level, Recovery, Step as DeviceStep};
use xsched_core::rng::SplitMix64;

use super::{Check, list};
use crate::rig::{Device, Rig, device, in_time, stands_still};
use crate::subject::Subject;
use crate::verdict::{Step, ensure, skip};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "interrupt::nothing_runs",
        "invariant 3, Hold: at Lv3 nothing runs",
        nothing_runs;
        "interrupt::other_queues_get_the_device",
        "Lv3 is there for this: another queue runs while this one is stopped",
        other_queues_get_the_device;
        "interrupt::continues_where_it_was",
        "invariant 1, Order: what was stopped goes on as if nothing had happened",
        continues_where_it_was;
        "interrupt::restored_is_still_deactivated",
        "invariant 3, Hold: from Lv3 up to Lv2, what was stopped finishes and nothing else starts",
        restored_is_still_deactivated;
        "interrupt::deepened_and_raised_again",
        "`Queue`: a hold at Lv2 becomes one at Lv3 and back, without a second deactivation",
        deepened_and_raised_again;
        "interrupt::stopped_time_is_not_busy",
        "`Retired::busy`: device time used; a queue does not pay for being held",
        stopped_time_is_not_busy;
        "interrupt::while_idle",
        "`Steps::step`: the core may find out too late that the queue is idle",
        while_idle;
        "interrupt::again_and_again",
        "invariants 1, 3 and 5, at random times",
        again_and_again;
    }
}

const LATE: &str = "the command had ended before the interrupt was in effect";

/// A queue that was held at Lv3 while its first command ran. `None` if that had ended by then.
fn held<'a, S: Subject>(
    subject: &'a S,
    device: &Device<S>,
    number: u32,
    ns: u64,
) -> Step<Option<Rig<'a, S>>> {
    let mut rig = Rig::on(subject, device, number)?;
    rig.require(Level::Interrupt)?;
    let first = rig.timed(ns, true)?;
    rig.timed(1_000, true)?;
    rig.started(first)?;
    rig.hold(Level::Interrupt)?;
    let progress = rig.progress();
    stands_still(subject, "a stopped queue makes progress", || rig.progress())?;
    let after = rig.progress();
    ensure!(after == progress, "a stopped queue made progress: {progress} became {after}");
    let midway = rig.log.ends(first..first + 1) == 0;
    // Where commands are not stopped, their end is as far as a check can see.
    Ok((midway || !subject.claims().stops_commands).then_some(rig))
}

fn nothing_runs<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| Ok(held(subject, &device(subject)?, 0, ns)?.is_some()))
}

fn other_queues_get_the_device<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| {
        let device = device(subject)?;
        // As many as can run at once are stopped.
        let mut stopped = Vec::new();
        for n in 0..subject.claims().units {
            let Some(rig) = held(subject, &device, n, ns)? else { return Ok(false) };
            stopped.push(rig);
        }
        let progress: u64 = stopped.iter().map(Rig::progress).sum();
        let mut other = Rig::on(subject, &device, subject.claims().units)?;
        for _ in 0..5 {
            other.timed(subject.claims().unit_ns / 10, true)?;
        }
        other.finish()?;
        let after: u64 = stopped.iter().map(Rig::progress).sum();
        ensure!(after == progress, "a stopped queue made progress while another one ran");
        Ok(true)
    })
}

fn continues_where_it_was<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| {
        let Some(mut rig) = held(subject, &device(subject)?, 0, ns)? else { return Ok(false) };
        rig.release()?;
        rig.empty(true)?;
        rig.finish()?;
        Ok(true)
    })
}

fn restored_is_still_deactivated<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| {
        let Some(mut rig) = held(subject, &device(subject)?, 0, ns)? else { return Ok(false) };
        rig.require_deactivation()?;
        if rig.caps.interrupt == Some(Recovery::Replay) {
            return skip("the device forgets the command that it stops");
        }
        let (log, behind) = (Arc::clone(&rig.log), 1..rig.launched());
        if log.starts(behind.clone()) > 0 {
            return Ok(false);
        }
        rig.step(DeviceStep::Restore)?;
        rig.seen_upto(1)?;
        stands_still(subject, "commands start on restoring", || log.starts(behind.clone()))?;
        ensure!(log.starts(behind) == 0, "a deactivated command started on restoring");
        rig.release()?;
        rig.finish()?;
        Ok(true)
    })
}

fn deepened_and_raised_again<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| {
        let mut rig = Rig::new(subject)?;
        rig.require(Level::Interrupt)?;
        rig.require_continue()?;
        let first = rig.timed(ns, true)?;
        rig.timed(1_000, true)?;
        rig.started(first)?;
        rig.hold(Level::Deactivate)?;
        for _ in 0..3 {
            rig.step(DeviceStep::Interrupt)?;
            let progress = rig.progress();
            stands_still(subject, "a stopped queue makes progress", || rig.progress())?;
            ensure!(rig.progress() == progress, "a stopped queue made progress");
            rig.step(DeviceStep::Restore)?;
        }
        let midway = rig.log.ends(first..first + 1) == 0;
        rig.release()?;
        rig.finish()?;
        Ok(midway || !subject.claims().stops_commands)
    })
}

fn stopped_time_is_not_busy<S: Subject>(subject: &S) -> Step {
    if subject.claims().busy_permille == 0 {
        return skip("the device cannot measure busy time");
    }
    in_time(subject, LATE, |ns| {
        let start = Instant::now();
        let Some(mut rig) = held(subject, &device(subject)?, 0, ns)? else { return Ok(false) };
        let stopped = Instant::now();
        // On a busy machine what came before takes long, and more than that has to be told apart.
        thread::sleep(Duration::from_nanos(ns).max(start.elapsed() * 2));
        let stopped = stopped.elapsed();
        rig.release()?;
        rig.finish()?;
        let most = start.elapsed().saturating_sub(stopped);
        let busy = Duration::from_nanos(rig.busy_ns);
        ensure!(busy <= most, "busy for {busy:?}, and not stopped for {most:?} only");
        Ok(true)
    })
}

fn while_idle<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    rig.require(Level::Interrupt)?;
    for _ in 0..50 {
        rig.hold(Level::Interrupt)?;
        rig.release()?;
        let n = rig.empty(true)?;
        rig.seen_upto(n + 1)?;
    }
    rig.finish()
}

fn again_and_again<S: Subject>(subject: &S) -> Step {
    again_and_again_at(subject, Level::Interrupt)
}

/// A random wait below `ns` nanoseconds.
pub(super) fn pause(rng: &mut SplitMix64, ns: u64) {
    let span = Duration::from_nanos(rng.below(ns));
    let start = Instant::now();
    while start.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// Each round launches a command on each queue at most, and they must find room in the logs.
const ROUNDS_MAX: u32 = 8_000;

/// How long the rounds may take.
const ROUNDS_TIME: Duration = Duration::from_millis(500);

/// Holds and releases a busy queue at random times, with another one that runs meanwhile.
pub(super) fn again_and_again_at<S: Subject>(subject: &S, level: Level) -> Step {
    in_time(subject, "no hold came while a command ran", |ns| rounds(subject, level, ns / 10))
}

/// Many rounds, with commands of about `unit_ns`. Whether a hold came while one ran.
fn rounds<S: Subject>(subject: &S, level: Level, unit_ns: u64) -> Step<bool> {
    let device = device(subject)?;
    let (mut low, mut high) = (Rig::on(subject, &device, 0)?, Rig::on(subject, &device, 1)?);
    if level == Level::Deactivate { low.require_deactivation() } else { low.require(level) }?;
    let mut rng = SplitMix64::new(subject.seed());
    let (start, mut midway) = (Instant::now(), 0_u32);
    for _ in 0..subject.rounds().min(ROUNDS_MAX) {
        if low.launched() - low.seen < low.room().min(8) {
            // Some are long enough that a hold comes in time even if its steps take their time.
            let longest_ns = if rng.chance(200) { 4 * unit_ns } else { unit_ns / 4 };
            low.timed(rng.below(longest_ns), rng.chance(500))?;
        }
        pause(&mut rng, unit_ns / 8);
        low.poll()?;
        low.hold(level)?;
        midway += u32::from(low.ends() < low.starts());
        held_a_moment(&mut low, &mut high, level, &mut rng)?;
        low.release()?;
        if low.launched() - low.seen >= low.room().min(8) {
            low.fence()?;
            let upto = low.seen + 1;
            low.seen_upto(upto)?;
        }
        if start.elapsed() > ROUNDS_TIME {
            break;
        }
    }
    low.finish()?;
    high.finish()?;
    Ok(midway > 0 || level == Level::Interrupt && !subject.claims().stops_commands)
}

/// Nothing of the held queue starts, or at Lv3 runs.
fn held_a_moment<S: Subject>(
    low: &mut Rig<'_, S>,
    high: &mut Rig<'_, S>,
    level: Level,
    rng: &mut SplitMix64,
) -> Step {
    let unit_ns = low.subject.claims().unit_ns;
    let number = |low: &Rig<'_, S>| match level {
        Level::Interrupt => low.progress() + low.starts(),
        _ => low.starts(),
    };
    let ended = low.ends();
    let before = number(low);
    // The device may have started one that has not come to note it. At Lv3 that is stopped too.
    let may_start = u64::from(level == Level::Deactivate && before == ended);
    if rng.chance(100) {
        let n = high.timed(unit_ns / 20, true)?;
        high.seen_upto(n + 1)?;
    }
    pause(rng, unit_ns / 10);
    if rng.chance(150) {
        // Long enough to see a command run on a busy machine.
        thread::sleep(Duration::from_nanos(unit_ns));
    }
    let (after, launched) = (number(low), low.launched());
    let right = (before..=before + may_start).contains(&after);
    ensure!(right, "{level}: {before} became {after} while held, at command {launched}");
    Ok(())
}
