//! Lv2: what is launched and has not started is held.

use std::sync::Arc;

use xsched_core::level::{Level, Recovery, Step as DeviceStep};

use super::{Check, list};
use crate::rig::{Rig, in_time, stands_still};
use crate::subject::Subject;
use crate::verdict::{Step, ensure, skip};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "deactivate::nothing_starts",
        "invariant 3, Hold: at Lv2 nothing passes the next gate; the running one finishes",
        nothing_starts;
        "deactivate::the_running_one_is_seen_to_finish",
        "invariant 4, Wait: what finishes while the queue is held is reported then",
        the_running_one_is_seen_to_finish;
        "deactivate::held_ones_run_later_once_and_in_order",
        "invariants 1 and 5: nothing that was held is lost, repeated or overtaken",
        held_ones_run_later_once_and_in_order;
        "deactivate::forgotten_ones_are_named",
        "`StepDone::Now`, `Recovery::Replay`: names the first that will not run, and keeps none",
        forgotten_ones_are_named;
        "deactivate::while_idle",
        "`Steps::step`: the core may find out too late that the queue is idle",
        while_idle;
        "deactivate::launches_wait",
        "invariant 3, Hold: a launch that was under way is taken and does not start",
        launches_wait;
        "deactivate::again_and_again",
        "invariants 1, 3 and 5, at random times",
        again_and_again;
    }
}

/// Commands behind the long one.
const BEHIND: u64 = 4;

/// A queue that was deactivated while the first of its commands ran, or `None` if all had ended by
/// then. Nothing starts after the answer.
fn held<S: Subject>(subject: &S, ns: u64) -> Step<Option<Rig<'_, S>>> {
    let mut rig = Rig::new(subject)?;
    rig.require_deactivation()?;
    let first = rig.timed(ns, true)?;
    for _ in 0..BEHIND {
        rig.timed(1_000, true)?;
    }
    rig.started(first)?;
    rig.step(DeviceStep::Deactivate)?;
    let all = 0..rig.launched();
    let (ends, starts) = (rig.log.ends(all.clone()), rig.log.starts(all.clone()));
    if starts == ends {
        // The device may have started one that has not come to note it.
        return Ok(None);
    }
    rig.ended(starts.saturating_sub(1))?;
    let log = Arc::clone(&rig.log);
    stands_still(subject, "commands start after the deactivation", || log.starts(all.clone()))?;
    let after = rig.log.starts(all);
    ensure!(after == starts, "{} commands started after the deactivation", after - starts);
    if starts > BEHIND {
        return Ok(None);
    }
    Ok(Some(rig))
}

const LATE: &str = "everything had run before the deactivation was in effect";

fn nothing_starts<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| Ok(held(subject, ns)?.is_some()))
}

fn the_running_one_is_seen_to_finish<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| {
        let Some(mut rig) = held(subject, ns)? else { return Ok(false) };
        let ended = rig.log.ends(0..rig.launched());
        rig.seen_upto(ended)?;
        Ok(true)
    })
}

fn held_ones_run_later_once_and_in_order<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| {
        let Some(mut rig) = held(subject, ns)? else { return Ok(false) };
        rig.release()?;
        rig.empty(true)?;
        rig.finish()?;
        Ok(true)
    })
}

fn forgotten_ones_are_named<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| {
        let mut rig = Rig::new(subject)?;
        rig.require_deactivation()?;
        if rig.caps.deactivate != Some(Recovery::Replay) {
            return skip("the device keeps held commands");
        }
        let first = rig.timed(ns, true)?;
        for _ in 0..BEHIND {
            rig.timed(1_000, true)?;
        }
        rig.started(first)?;
        let forgotten = rig.step(DeviceStep::Deactivate)?.unwrap_or(rig.launched());
        rig.ended(forgotten.saturating_sub(1))?;
        // Without launching them again: none of them may run.
        rig.step(DeviceStep::Reactivate)?;
        let (log, from) = (Arc::clone(&rig.log), forgotten..rig.launched());
        stands_still(subject, "forgotten commands start", || log.starts(from.clone()))?;
        let starts = rig.log.starts(from);
        ensure!(starts == 0, "{starts} commands from {forgotten} on ran and were to be forgotten");
        rig.release()?;
        rig.finish()?;
        Ok(forgotten <= BEHIND)
    })
}

fn while_idle<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    rig.require_deactivation()?;
    for _ in 0..50 {
        rig.hold(Level::Deactivate)?;
        rig.release()?;
        let n = rig.empty(true)?;
        rig.seen_upto(n + 1)?;
    }
    rig.finish()
}

fn launches_wait<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    rig.require_deactivation()?;
    rig.require_continue()?;
    for _ in 0..3 {
        rig.hold(Level::Deactivate)?;
        for _ in 0..BEHIND {
            rig.timed(1_000, true)?;
        }
        stands_still(subject, "commands launched while held start", || rig.starts())?;
        ensure!(rig.starts() == 0, "{} commands launched while held started", rig.starts());
        rig.release()?;
        rig.seen_upto(rig.launched())?;
    }
    rig.finish()
}

fn again_and_again<S: Subject>(subject: &S) -> Step {
    super::interrupt::again_and_again_at(subject, Level::Deactivate)
}
