//! Goals and what they came to.

use super::document::{Cell, Figure, Status, Verdict};
use super::plan::Hal;
use super::quantities::{ALL, KEPT, OF_TURNS, OVER_ALONE, OVER_NATIVE, P99_OVER_NATIVE, find};
use super::table::{GoalPlan, Setting};
use crate::stats::{FASTER_THAN_ALONE, is_faster_than_alone};
use xsched_sim::stats::Goal;

/// A verdict on each goal of a row.
pub(crate) fn verdicts(
    goals: &[GoalPlan],
    (cells, figures): (&[Cell], &[Figure]),
    predicted: &[Figure],
    setting: Setting,
) -> Vec<Verdict> {
    goals.iter().map(|goal| verdict(goal, (cells, figures), predicted, setting)).collect()
}

/// Whether all goals are met; `None` if that is not known of one and none is missed.
pub(crate) fn pass(verdicts: &[Verdict]) -> Option<bool> {
    if verdicts.iter().any(|verdict| verdict.met == Some(false)) {
        return Some(false);
    }
    let all = !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict.met == Some(true));
    all.then_some(true)
}

fn verdict(
    goal: &GoalPlan,
    (cells, figures): (&[Cell], &[Figure]),
    predicted: &[Figure],
    setting: Setting,
) -> Verdict {
    let value = find(figures, &goal.cell, goal.role, goal.quantity);
    let doubt = match value {
        None => Some(absence(goal, cells)),
        Some(_) if setting.quick => Some("too few samples for a verdict".to_owned()),
        Some(_) if goal.is_time && setting.hal == Hal::Host => {
            Some("a time that counts on a GPU alone".to_owned())
        }
        Some(value) if has_disturbed_baseline(goal, value) => Some(FASTER_THAN_ALONE.to_owned()),
        Some(_) => None,
    };
    let met = value.filter(|_| doubt.is_none()).map(|value| goal.goal.is_met(value));
    Verdict {
        goal: format!("{} {}", goal.what, goal.goal),
        whose: goal.whose.to_owned(),
        measured: value.map(shown).unwrap_or_default(),
        met,
        open: doubt,
        bound: (met == Some(false)).then(|| bound(goal, figures, predicted)).flatten(),
    }
}

/// Whether a role was faster beside others than alone.
fn has_disturbed_baseline(goal: &GoalPlan, value: f64) -> bool {
    match goal.goal {
        Goal::AtMost(most) if goal.quantity.ends_with(OVER_ALONE) => {
            is_faster_than_alone(value, most)
        }
        // Of several roles, each may leave time to the others.
        Goal::AtLeast(least) if goal.quantity == KEPT && goal.role != ALL => {
            is_faster_than_alone(value.recip(), least.recip())
        }
        _ => false,
    }
}

/// Why there is no value.
fn absence(goal: &GoalPlan, cells: &[Cell]) -> String {
    match cells.iter().find(|cell| cell.name == goal.cell).map(|cell| &cell.status) {
        Some(Status::NotRun(why)) => format!("not run: {why}"),
        Some(Status::Failed(why)) => format!("failed: {why}"),
        Some(Status::Measured) if goal.quantity.contains("p99") => {
            "a P99 needs 1,000 samples, alone and beside".to_owned()
        }
        _ => "not measured".to_owned(),
    }
}

/// What explains a missed goal: what is known of it, how turns differed, and what the simulator
/// said before.
fn bound(goal: &GoalPlan, figures: &[Figure], predicted: &[Figure]) -> Option<String> {
    let value = find(predicted, &goal.cell, goal.role, goal.quantity);
    let said = value.map(|value| format!("the simulator said {}", shown(value)));
    let of_turns = [OVER_NATIVE, P99_OVER_NATIVE].contains(&goal.quantity);
    let varied = of_turns.then(|| varied(goal, figures)).flatten();
    let all = goal.bound.map(str::to_owned).into_iter().chain(varied).chain(said);
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// How far apart the turns were, and those of the reference among themselves.
fn varied(goal: &GoalPlan, figures: &[Figure]) -> Option<String> {
    let [_, least, most, spread] =
        OF_TURNS.map(|quantity| find(figures, &goal.cell, goal.role, quantity));
    let (least, most, spread) = (shown(least?), shown(most?), 100.0 * (spread? - 1.0));
    Some(format!("turns had {least} to {most}, and those without XSched differ by {spread:.1} %"))
}

/// A value with as many digits as count.
pub(crate) fn shown(value: f64) -> String {
    match value.abs() {
        v if v >= 1_000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::Key;
    use super::super::quantities::{cell, progress};
    use super::*;

    const FULL: Setting = Setting { hal: Hal::Cuda, quick: false };

    fn goal() -> GoalPlan {
        GoalPlan {
            what: "P99 of high over its P99 alone".to_owned(),
            whose: "plan",
            cell: "g, xsched".to_owned(),
            role: "high",
            quantity: "p99_over_alone",
            goal: Goal::AtMost(1.3),
            is_time: false,
            bound: Some("a kernel of 2 ms"),
        }
    }

    fn figure(value: f64) -> Vec<Figure> {
        let key = Key {
            cell: "g, xsched".to_owned(),
            role: "high".to_owned(),
            quantity: "p99_over_alone".to_owned(),
        };
        vec![Figure { key, value }]
    }

    fn one(goal: &GoalPlan, figures: &[Figure], setting: Setting) -> Verdict {
        let roles =
            || [0, 1].map(|n| (["high", "low"][n], progress(1.0, 1.0, 9), progress(1.0, 1.0, 9)));
        let cells = [cell("g, xsched", "xsched", roles())];
        verdict(goal, (&cells, figures), &figure(1.55), setting)
    }

    #[test]
    fn a_goal_is_met_or_missed_with_what_bounds_it() {
        let met = one(&goal(), &figure(1.3), FULL);
        assert_eq!((met.met, met.bound, met.open), (Some(true), None, None));
        let missed = one(&goal(), &figure(1.31), FULL);
        assert_eq!(missed.met, Some(false));
        assert_eq!(missed.bound.as_deref(), Some("a kernel of 2 ms; the simulator said 1.550"));
        assert_eq!(missed.goal, "P99 of high over its P99 alone ≤ 1.3");
        assert_eq!(missed.measured, "1.310");
    }

    #[test]
    fn a_missed_ratio_says_how_far_apart_its_turns_were() {
        let goal = GoalPlan { quantity: OVER_NATIVE, bound: None, ..goal() };
        let of = |(quantity, value): (&str, f64)| {
            Figure::of(&goal.cell, goal.role, quantity, value).unwrap()
        };
        let all = OF_TURNS.into_iter().zip([1.4, 0.9, 1.8, 1.25]).map(of).collect::<Vec<_>>();
        let bound = one(&goal, &all, FULL).bound.unwrap();
        assert_eq!(bound, "turns had 0.900 to 1.800, and those without XSched differ by 25.0 %");
        assert_eq!(one(&goal, &all[..1], FULL).bound, None);
    }

    #[test]
    fn without_enough_samples_there_is_no_verdict() {
        let quick = one(&goal(), &figure(9.0), Setting { quick: true, ..FULL });
        assert_eq!((quick.met, quick.bound), (None, None));
        assert_eq!(quick.measured, "9.000", "a value is a value");
        assert!(quick.open.is_some_and(|why| why.contains("too few samples")));
        let few = one(&goal(), &[], FULL);
        assert_eq!(few.met, None);
        assert!(few.open.is_some_and(|why| why.contains("1,000 samples")));
        assert_eq!(few.measured, "");
    }

    #[test]
    fn a_role_that_is_faster_than_alone_is_not_judged() {
        let faster = one(&goal(), &figure(0.54), FULL);
        assert_eq!((faster.met, faster.bound), (None, None));
        assert!(faster.open.is_some_and(|why| why.contains("the run alone was disturbed")));
        assert_eq!(one(&goal(), &figure(0.9), FULL).met, Some(true), "the goal allows 1.3");
        let kept = |role, value| {
            let goal = GoalPlan { role, quantity: KEPT, goal: Goal::AtLeast(0.9), ..goal() };
            let figure = Figure::of(&goal.cell, role, KEPT, value).unwrap();
            one(&goal, &[figure], FULL).met
        };
        assert_eq!(
            [0.8, 1.1, 1.2].map(|value| kept("high", value)),
            [Some(false), Some(true), None]
        );
        assert_eq!(kept(ALL, 1.2), Some(true), "two that leave each other time");
    }

    #[test]
    fn times_of_stand_ins_are_not_judged() {
        let host = Setting { hal: Hal::Host, quick: false };
        let time = GoalPlan { is_time: true, ..goal() };
        assert_eq!(one(&time, &figure(9.0), host).met, None);
        assert_eq!(one(&goal(), &figure(9.0), host).met, Some(false));
        assert_eq!(one(&time, &figure(9.0), FULL).met, Some(false));
    }

    #[test]
    fn a_row_passes_if_all_goals_are_met() {
        let of = |met| Verdict { met, ..one(&goal(), &figure(1.0), FULL) };
        assert_eq!(pass(&[of(Some(true)), of(Some(true))]), Some(true));
        assert_eq!(pass(&[of(Some(true)), of(None)]), None);
        assert_eq!(pass(&[of(None), of(Some(false))]), Some(false));
        assert_eq!(pass(&[]), None);
    }
}
