//! A command that fails.

use xsched_core::queue::Outcome;

use super::{Check, list};
use crate::rig::Rig;
use crate::subject::Subject;
use crate::verdict::{Step, ensure};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "failure::is_reported_for_the_one_that_failed",
        "invariant 4, Wait: a failed command returns its error, and only those that failed do",
        is_reported_for_the_one_that_failed;
        "failure::within_a_batch_is_in_its_range",
        "invariant 4, Wait: without a fence each, what is named includes the one that failed",
        within_a_batch_is_in_its_range;
    }
}

/// True if the device is lost with the command that fails.
fn sticky(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed { fault, .. } if fault.is_sticky())
}

/// Launches two good ones, one that fails and two good ones, and waits until those are reported
/// that will be. Whether the later ones may fail as well.
fn around<S: Subject>(rig: &mut Rig<'_, S>, fence: bool) -> Step<bool> {
    rig.empty(fence)?;
    rig.empty(fence)?;
    let bad = rig.failing(fence)?;
    rig.empty(fence)?;
    rig.empty(true)?;
    let subject = rig.subject;
    let mut lost = false;
    crate::rig::until(subject, "the failure", || {
        if let Some(retired) = rig.poll()? {
            lost |= sticky(retired.outcome);
        }
        Ok(rig.seen == rig.launched() || lost && rig.seen > bad)
    })?;
    Ok(lost)
}

fn is_reported_for_the_one_that_failed<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    for _ in 0..10 {
        let first = rig.launched();
        let lost = around(&mut rig, true)?;
        let failed: Vec<u64> = rig.failed.drain(..).flatten().collect();
        let bad = first + 2;
        ensure!(failed.contains(&bad), "command {bad} failed, and is not among {failed:?}");
        let right = failed.iter().all(|&n| n == bad || lost && n > bad);
        ensure!(right, "command {bad} failed, and {failed:?} are said to have failed");
        if lost {
            return Ok(());
        }
    }
    rig.finish()
}

fn within_a_batch_is_in_its_range<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    let n = rig.empty(true)?;
    rig.seen_upto(n + 1)?;
    let lost = around(&mut rig, false)?;
    let failed: Vec<u64> = rig.failed.drain(..).flatten().collect();
    ensure!(failed.contains(&3), "command 3 failed, and is not among {failed:?}");
    ensure!(!failed.contains(&0), "command 0 was reported before, and failed now");
    if lost {
        return Ok(());
    }
    let n = rig.empty(true)?;
    rig.seen_upto(n + 1)?;
    rig.finish()
}
