//! Checks that a quiet queue neither runs nor starts.

use std::sync::Arc;
use std::thread;

use xsched_core::hal::Steps;
use xsched_core::level::Step as DeviceStep;

use super::{Check, list};
use crate::rig::{Rig, in_time, stands_still, until};
use crate::subject::Subject;
use crate::verdict::{Step, ensure, fail, skip};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "quiet::nothing_runs",
        "`Steps::is_quiet`: true once what ran has ended, and then nothing starts, runs or ends",
        nothing_runs;
        "quiet::not_without_a_hold",
        "`Steps::is_quiet`: false while no hold step is in effect",
        not_without_a_hold;
    }
}

/// Commands behind the long one.
const BEHIND: u64 = 4;

/// Skips the check if the device cannot tell.
pub(super) fn must_tell(preempt: &mut impl Steps) -> Step {
    match preempt.is_quiet() {
        Ok(None) => skip("the device cannot tell whether a held queue is quiet"),
        Ok(Some(_)) => Ok(()),
        Err(fault) => fail(format!("`is_quiet` failed: {fault}")),
    }
}

/// True if a held queue is quiet.
pub(super) fn is_quiet(preempt: &mut impl Steps) -> Step<bool> {
    match preempt.is_quiet() {
        Ok(quiet) => Ok(quiet == Some(true)),
        Err(fault) => fail(format!("`is_quiet` failed: {fault}")),
    }
}

fn nothing_runs<S: Subject>(subject: &S) -> Step {
    in_time(subject, "everything had run before the hold was in effect", |ns| {
        let mut rig = Rig::new(subject)?;
        rig.require_deactivation()?;
        must_tell(&mut rig.preempt)?;
        let first = rig.timed(ns, true)?;
        for _ in 0..BEHIND {
            rig.timed(1_000, true)?;
        }
        rig.started(first)?;
        rig.step(DeviceStep::Deactivate)?;
        let midway = rig.ends() == 0;
        thread::sleep(subject.start_lag());
        until(subject, "a held queue to be quiet", || {
            rig.poll()?;
            is_quiet(&mut rig.preempt)
        })?;
        let all = 0..rig.launched();
        let (starts, ends) = (rig.log.starts(all.clone()), rig.log.ends(all.clone()));
        ensure!(starts == ends, "{starts} commands started and {ends} ended in a quiet queue");
        let log = Arc::clone(&rig.log);
        stands_still(subject, "commands of a quiet queue", || log.activity(all.clone()))?;
        rig.release()?;
        rig.finish()?;
        Ok(midway)
    })
}

fn not_without_a_hold<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    rig.require_deactivation()?;
    must_tell(&mut rig.preempt)?;
    for _ in 0..3 {
        rig.empty(true)?;
        rig.step(DeviceStep::Deactivate)?;
        rig.release()?;
        ensure!(!is_quiet(&mut rig.preempt)?, "a queue is quiet that is not held");
    }
    rig.finish()
}
