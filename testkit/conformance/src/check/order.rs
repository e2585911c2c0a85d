//! Commands run in order, each once.

use xsched_core::rng::SplitMix64;

use super::{Check, list};
use crate::rig::{Rig, in_time};
use crate::subject::Subject;
use crate::verdict::Step;

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "order::each_runs_once_and_in_order",
        "invariant 1, Order: in submission order, each once, one after the other",
        each_runs_once_and_in_order;
        "order::reported_after_the_end",
        "invariant 4, Wait: a wait returns when its command has retired",
        reported_after_the_end;
        "order::launches_up_to_the_limit_do_not_block",
        "invariant 8, Bounded; `Caps::entries_max`: so many are taken, without waiting",
        launches_up_to_the_limit_do_not_block;
    }
}

fn each_runs_once_and_in_order<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    let mut rng = SplitMix64::new(subject.seed());
    let longest_ns = subject.claims().unit_ns / 8;
    for _ in 0..400 {
        rig.make_room()?;
        rig.timed(rng.below(longest_ns), rng.chance(300))?;
        rig.poll()?;
    }
    rig.finish()
}

fn reported_after_the_end<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    let ns = subject.claims().unit_ns;
    for round in 0..10 {
        rig.timed(ns, round % 2 == 0)?;
        rig.timed(ns / 2, true)?;
        // Every answer is checked.
        rig.seen_upto(rig.launched())?;
    }
    rig.finish()
}

fn launches_up_to_the_limit_do_not_block<S: Subject>(subject: &S) -> Step {
    in_time(subject, "launching took until the first command had ended", |ns| {
        let mut rig = Rig::new(subject)?;
        let first = rig.timed(ns, true)?;
        rig.started(first)?;
        for _ in 1..rig.room().min(2_000) {
            rig.timed(0, true)?;
        }
        let in_time = rig.log.ends(first..first + 1) == 0;
        rig.finish()?;
        Ok(in_time)
    })
}
