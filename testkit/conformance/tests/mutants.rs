//! Each check fails for the defects that it is there to find.

mod common;

use std::fmt::Debug;

use common::{Flaw, Model};
use libtest_mimic::{Arguments, Trial};
use xsched_conformance::broken::{Broken, Defect};
use xsched_conformance::staged::Staged;
use xsched_conformance::{Check, Subject, Verdict, checks};
use xsched_core::level::{Level, Recovery};

/// The model with little patience, since what is broken may hang, and with many rounds, since some
/// defects strike rarely.
fn model() -> Model {
    Model { patience_ms: 500, rounds: 2_000, ..Model::default() }
}

/// The model in which a defect at the boundary can show.
fn model_for(defect: Defect) -> Model {
    match defect {
        Defect::NamesTooFew => Model { recovery: Recovery::Replay, ..model() },
        Defect::AnswersUnclaimedSteps => Model { level: Level::Deactivate, ..model() },
        _ => model(),
    }
}

/// A test that passes if the check fails. What depends on chance gets three of them.
fn found<S: Subject>(defect: impl Debug, name: &'static str, subject: S) -> Trial {
    Trial::test(format!("{defect:?} is found by {name}"), move || {
        let mut verdicts = Vec::new();
        while verdicts.len() < 3 {
            let check = checks::<S>().into_iter().find(|check: &Check<S>| check.name == name);
            let verdict = check.ok_or("there is no such check")?.run(&subject);
            if matches!(verdict, Verdict::Failed(_)) {
                return Ok(());
            }
            verdicts.push(verdict);
        }
        Err(format!("it is not: {verdicts:?}").into())
    })
}

fn boundary() -> impl Iterator<Item = Trial> {
    let all = Defect::ALL.iter().flat_map(|defect| defect.found_by().iter().map(|c| (*defect, *c)));
    all.map(|(defect, check)| match check.starts_with("commit::") {
        true => found(defect, check, Broken::new(Staged(model_for(defect)), defect)),
        false => found(defect, check, Broken::new(model_for(defect), defect)),
    })
}

/// Defects inside of the device.
fn inside() -> impl Iterator<Item = Trial> {
    let flaws = [
        (Flaw::DropsHeld, "deactivate::held_ones_run_later_once_and_in_order"),
        (Flaw::TurnsHeldRound, "deactivate::held_ones_run_later_once_and_in_order"),
        (Flaw::DropsHeld, "deactivate::again_and_again"),
        (Flaw::KeepsTheUnit, "interrupt::other_queues_get_the_device"),
        (Flaw::Restarts, "interrupt::continues_where_it_was"),
        (Flaw::LosesState, "interrupt::continues_where_it_was"),
        (Flaw::LosesState, "interrupt::again_and_again"),
        (Flaw::Panics, "fence::fenced_is_seen"),
    ];
    let replayed = [
        "deactivate::forgotten_ones_are_named",
        "deactivate::held_ones_run_later_once_and_in_order",
        "contract::a_random_life_with_the_core",
    ];
    let keeps = Model { flaw: Flaw::KeepsForgotten, recovery: Recovery::Replay, ..model() };
    flaws
        .into_iter()
        .map(|(flaw, check)| found(flaw, check, Model { flaw, ..model() }))
        .chain(replayed.map(|check| found(keeps.flaw, check, keeps)))
}

/// Claims that do not hold.
fn claims() -> [Trial; 3] {
    let waits = Model { claims_to_stop: true, stops: false, ..model() };
    let lower = Model { claimed: Some(Level::Deactivate), ..model() };
    let fewer = Model { claimed_queues: Some(4), ..model() };
    [
        found("waits for the end instead of stopping", "interrupt::nothing_runs", waits),
        found("has a level that is not claimed", "level::is_what_is_claimed", lower),
        found("has queues that are not claimed", "lifetime::many_queues", fewer),
    ]
}

/// Nothing is in the suite that cannot fail.
fn complete() -> Trial {
    Trial::test("every check has a defect", || {
        for check in checks::<Model>() {
            if !Defect::ALL.iter().any(|defect| defect.found_by().contains(&check.name)) {
                return Err(format!("nothing shows that {} can fail", check.name).into());
            }
        }
        Ok(())
    })
}

fn main() {
    let trials = boundary().chain(inside()).chain(claims()).chain([complete()]);
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(1));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
