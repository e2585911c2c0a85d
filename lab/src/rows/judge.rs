//! Goals and what they came to.

use std::collections::BTreeMap;

use super::counts::Treatment;
use super::document::{Cell, Figure, Role, Status, Verdict, shown};
use super::plan::Hal;
use super::quantities::{
    ALL, KEPT, MORE_CORES, OVER_ALONE, OVER_NATIVE, P99_OVER_NATIVE, figures, find, interval,
    redrawn,
};
use super::table::{Definition, GoalPlan, Setting};
use crate::stats::{FASTER_THAN_ALONE, PAIRS_MIN, SAMPLES_MIN, is_faster_than_alone};
use xsched_sim::stats::Goal;

/// Figures and limits by which a row is judged.
struct Judge<'a> {
    of: &'a Definition,
    cells: &'a [Cell],
    figures: Vec<Figure>,
    setting: Setting,
    /// Figures of cells whose samples were drawn anew, by the cells' names.
    redrawn: BTreeMap<&'a str, Vec<Vec<Figure>>>,
}

/// A verdict on each goal of a row, by what was measured of its cells.
pub(crate) fn verdicts(of: &Definition, cells: &[Cell], setting: Setting) -> Vec<Verdict> {
    let figures = figures(&of.plan, cells);
    let mut judge = Judge { of, cells, figures, setting, redrawn: BTreeMap::new() };
    of.goals.iter().map(|goal| judge.verdict(goal)).collect()
}

/// Returns whether all goals are met; `None` if that is not known of one and none is missed.
pub(crate) fn pass(verdicts: &[Verdict]) -> Option<bool> {
    if verdicts.iter().any(|verdict| verdict.met == Some(false)) {
        return Some(false);
    }
    let all = !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict.met == Some(true));
    all.then_some(true)
}

impl<'a> Judge<'a> {
    fn verdict(&mut self, goal: &'a GoalPlan) -> Verdict {
        let key = (goal.cell.as_str(), goal.role, goal.quantity);
        let value = find(&self.figures, key.0, key.1, key.2);
        let redraw = || redrawn(&self.of.plan, self.cells, key.0);
        let redrawn = self.redrawn.entry(key.0).or_insert_with(redraw);
        let interval = value.and_then(|_| interval(redrawn, key));
        let doubt = match value.zip(interval) {
            None => Some(absence(goal, self.cells)),
            Some(_) if goal.is_time && self.setting.hal == Hal::Host => {
                Some("a time that counts on a GPU alone".to_owned())
            }
            Some((value, _)) if has_disturbed_baseline(goal, value) => {
                Some(FASTER_THAN_ALONE.to_owned())
            }
            Some((_, interval)) if is_open(goal.goal, interval) => {
                Some("the interval contains the goal".to_owned())
            }
            Some(_) => self.scarcity(goal).or_else(|| self.treatment_absence(goal)),
        };
        let met = value.filter(|_| doubt.is_none()).map(|value| goal.goal.is_met(value));
        Verdict {
            goal: format!("{} {}", goal.what, goal.goal),
            whose: goal.whose.to_owned(),
            measured: value.map(shown).unwrap_or_default(),
            interval,
            met,
            open: doubt,
        }
    }

    /// Returns which samples are too few for a verdict, if any are.
    fn scarcity(&self, goal: &GoalPlan) -> Option<String> {
        let cell = self.cells.iter().find(|cell| cell.name == goal.cell)?;
        let is_its = |role: &&Role| role.name == goal.role || goal.role == ALL;
        let role = cell.roles.iter().find(is_its)?;
        let here = &role.beside.as_ref().or(role.alone.as_ref())?.samples;
        let alone = role.alone.as_ref().filter(|_| goal.quantity.ends_with(OVER_ALONE));
        let requests = alone.into_iter().map(|alone| alone.samples.times_us.len());
        let requests = requests.chain([here.times_us.len()]).min().unwrap_or(0);
        let (has, needs, what) = match goal.quantity {
            OVER_NATIVE | P99_OVER_NATIVE if !here.turns.is_empty() => {
                (here.turns.len(), PAIRS_MIN, "turns")
            }
            MORE_CORES => (here.cores.len(), PAIRS_MIN, "parts"),
            name if name.starts_with("window_") => {
                (here.windows_percent.len(), SAMPLES_MIN, "windows")
            }
            name if name.ends_with("_ms") || name.contains("mean") || alone.is_some() => {
                (requests, SAMPLES_MIN, "requests")
            }
            _ => return None,
        };
        (has < needs).then(|| format!("it was measured in {has} {what}, and needs {needs}"))
    }

    /// Why what the cell is about was not in effect, if it was not.
    fn treatment_absence(&self, goal: &GoalPlan) -> Option<String> {
        let planned = self.of.plan.cells.iter().find(|cell| cell.name == goal.cell)?;
        let measured = self.cells.iter().find(|cell| cell.name == goal.cell)?;
        Treatment::of(planned).absence(measured.counts.as_ref())
    }
}

/// Returns whether values of an interval meet the goal and others do not.
fn is_open(goal: Goal, (least, most): (f64, f64)) -> bool {
    let reaches_into = match goal {
        Goal::AtMost(_) | Goal::AtLeast(_) => false,
        Goal::Between(low, high) => least < low && most > high,
    };
    goal.is_met(least) != goal.is_met(most) || reaches_into
}

/// Returns whether a role was faster beside others than alone.
fn has_disturbed_baseline(goal: &GoalPlan, value: f64) -> bool {
    match goal.goal {
        // Nor does being scheduled make what is alone faster.
        Goal::AtMost(most)
            if goal.quantity.ends_with(OVER_ALONE) || goal.quantity == OVER_NATIVE =>
        {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::counts::Counts;
    use super::super::document::{Progress, Samples};
    use super::super::plan::{CellPlan, Way};
    use super::super::table::all;
    use super::*;

    const FULL: Setting = Setting { hal: Hal::Cuda, quick: false };

    /// Samples of a role alone and beside others, if nothing is said: 10 ms, 100 times a second.
    fn usual(requests: usize) -> Samples {
        Samples {
            times_us: vec![10_000; requests],
            rates_per_s: vec![100.0; 20],
            first_token_us: vec![10_000; 30],
            per_token_us: vec![10_000; 30],
            cores: vec![1.0; 6],
            digest: Some("same".to_owned()),
            ..Samples::default()
        }
    }

    /// A cell in which all is as usual, with enough requests for what the goal judges.
    fn measured(plan: &CellPlan, goal: &GoalPlan) -> Cell {
        let role = |role: &super::super::plan::RolePlan| {
            let is_tail = goal.quantity.contains("p99") && role.spec.name == goal.role;
            let progress = Progress::from(usual(if is_tail { 1_000 } else { 30 }));
            Role {
                name: role.spec.name.clone(),
                work: role.spec.work.clone(),
                load: String::new(),
                beside: Some(progress.clone()).filter(|_| plan.has_beside),
                alone: Some(progress),
            }
        };
        Cell {
            name: plan.name.clone(),
            way: plan.way.name().to_owned(),
            status: Status::Measured,
            counts: Some(Counts { scheduled: 1_000, holds: 9, ..Counts::default() }),
            roles: plan.roles().map(role).collect(),
            seconds: 1.0,
        }
    }

    /// Has a role's figure be this.
    fn set(samples: &mut Samples, goal: &GoalPlan, value: f64, roles: usize) {
        let times = |ms: f64| vec![(ms * 1e3) as u64; samples.times_us.len()];
        match goal.quantity {
            "first_token_p50_over_alone" => samples.first_token_us = times(10.0 * value),
            "per_token_p50_over_alone" => samples.per_token_us = times(10.0 * value),
            "over_native" | "p99_over_native" => samples.turns = vec![(1.0, value); 9],
            "kept" if goal.role == ALL => {
                samples.rates_per_s = vec![100.0 * value / roles as f64; 20];
            }
            "kept" | "rate_over_native" => samples.rates_per_s = vec![100.0 * value; 20],
            "share_percent" => samples.rates_per_s = vec![100.0 * value / (100.0 - value); 20],
            "window_p5_percent" | "window_p95_percent" => samples.windows_percent = vec![value; 30],
            "cores_over_native_percent" => {
                samples.cores = vec![1.0 + value / 100.0; 6];
            }
            "same" if value < 1.0 => samples.digest = Some("another".to_owned()),
            "same" => {}
            name if name.ends_with("_ms") => samples.times_us = times(value),
            name => {
                assert!(name.ends_with(OVER_ALONE) || name == "mean_over_first", "{name}");
                samples.times_us = times(10.0 * value);
            }
        }
    }

    /// The cells of a goal whose figure is this, and its verdict.
    fn judged(of: &Definition, goal: &GoalPlan, value: f64) -> (Vec<Cell>, Verdict) {
        let plan = of.plan.cells.iter().find(|cell| cell.name == goal.cell).unwrap();
        let group = of.plan.cells.iter().filter(|cell| cell.group == plan.group);
        let mut cells: Vec<Cell> = group.map(|plan| measured(plan, goal)).collect();
        let cell = cells.iter_mut().find(|cell| cell.name == goal.cell).unwrap();
        let roles = cell.roles.len();
        for (number, role) in cell.roles.iter_mut().enumerate() {
            let is_its = role.name == goal.role || goal.role == ALL && number == 0;
            let is_of_all = goal.role == ALL && goal.quantity != "cores_over_native_percent";
            let Some(progress) = role.beside.as_mut().or(role.alone.as_mut()) else { continue };
            if is_its || is_of_all {
                set(&mut progress.samples, goal, value, roles);
                *progress = Progress::from(progress.samples.clone());
            }
            if goal.quantity == "same" {
                // Scripts say themselves whether results are the same.
                progress.samples.more.insert("same".to_owned(), value);
                role.alone = Some(progress.clone());
            }
        }
        let verdict = verdict_on(of, goal, &cells);
        (cells, verdict)
    }

    fn verdict_on(of: &Definition, goal: &GoalPlan, cells: &[Cell]) -> Verdict {
        let of = Definition { goals: vec![goal.clone()], ..of.clone() };
        verdicts(&of, cells, FULL).remove(0)
    }

    fn find_goal(id: &str, quantity: &str) -> (Definition, GoalPlan) {
        let row = all(FULL).into_iter().find(|row| row.plan.id == id).unwrap();
        let goal = row.goals.iter().find(|goal| goal.quantity == quantity).unwrap().clone();
        (row, goal)
    }

    #[test]
    fn every_verdict_flips_when_its_figure_is_made_bad() {
        let mut kinds = BTreeSet::new();
        for row in all(FULL) {
            let is_new = |goal: &&GoalPlan| {
                let is_script = row.plan.id == "7.1.1";
                kinds.insert((is_script, goal.role == ALL, goal.quantity, goal.goal.to_string()))
            };
            for goal in row.goals.iter().filter(is_new) {
                let (good, bad) = match goal.goal {
                    _ if goal.quantity == "same" => (1.0, vec![0.0]),
                    Goal::AtMost(most) => (most * 0.995, vec![most * 1.03, most * 7.0]),
                    Goal::AtLeast(least) => (least * 1.03, vec![least * 0.97, 0.0]),
                    Goal::Between(least, most) => {
                        (f64::midpoint(least, most), vec![least * 0.97, most * 1.03])
                    }
                };
                let of = |value| judged(&row, goal, value).1;
                let met = of(good);
                assert_eq!(met.met, Some(true), "{} {met:?}", row.plan.id);
                for bad in bad.into_iter().map(of) {
                    assert_eq!(bad.met, Some(false), "{} {bad:?}", row.plan.id);
                }
            }
        }
    }

    #[test]
    fn an_interval_that_contains_the_goal_is_open() {
        let (row, goal) = find_goal("7.2.1", "p99_over_alone");
        let (mut cells, _) = judged(&row, &goal, 1.0);
        let mut of = |tail: usize| {
            let cell = cells.iter_mut().find(|cell| cell.name == goal.cell).unwrap();
            let beside = cell.roles[0].beside.as_mut().unwrap();
            beside.samples.times_us = (0..1_000)
                .map(|n| if n % 100 < tail && n / 100 % 2 == 0 { 20_000 } else { 10_000 })
                .collect();
            *beside = Progress::from(beside.samples.clone());
            verdict_on(&row, &goal, &cells)
        };
        let near = of(2);
        assert_eq!(near.met, None, "{near:?}");
        assert_eq!(near.open.as_deref(), Some("the interval contains the goal"));
        assert_eq!(near.interval, Some((1.0, 2.0)));
        assert_eq!(of(0).met, Some(true));
        assert_eq!(of(20).met, Some(false));
        let open = |least, most| is_open(Goal::Between(70.0, 80.0), (least, most));
        let all = [(71.0, 79.0), (60.0, 90.0), (69.0, 71.0), (81.0, 90.0)];
        assert_eq!(all.map(|(least, most)| open(least, most)), [false, true, true, false]);
    }

    #[test]
    fn without_enough_samples_or_treatment_there_is_no_verdict() {
        let (row, goal) = find_goal("7.2.1", "p99_over_alone");
        let (mut cells, _) = judged(&row, &goal, 1.0);
        let name = goal.cell.clone();
        let cell = |cells: &mut Vec<Cell>| cells.iter().position(|cell| cell.name == name).unwrap();
        let at = cell(&mut cells);
        cells[at].counts = Some(Counts { scheduled: 0, alone: 2_101, ..Counts::default() });
        let unheld = verdict_on(&row, &goal, &cells);
        assert_eq!(unheld.open.as_deref(), Some("not in effect: nothing was held"));
        assert_eq!((unheld.met, unheld.measured.as_str()), (None, "1.000"), "a value is a value");
        cells[at].counts = None;
        let unknown = verdict_on(&row, &goal, &cells);
        assert!(unknown.met.is_none() && unknown.open.is_some_and(|why| why.contains("no counts")));
        let beside = cells[at].roles[0].beside.as_mut().unwrap();
        beside.samples.times_us.truncate(999);
        *beside = Progress::from(beside.samples.clone());
        let few = verdict_on(&row, &goal, &cells);
        assert!(few.open.is_some_and(|why| why.contains("1,000 samples")));
        assert_eq!(few.measured, "");
        for (id, quantity, needs) in [
            ("7.4.2", MORE_CORES, "parts, and needs 6"),
            ("7.4.1", OVER_NATIVE, "turns, and needs 6"),
            ("7.2.2", "window_p5_percent", "windows, and needs 30"),
            ("8.1.2", "mean_over_alone", "requests, and needs 30"),
        ] {
            let (row, goal) = find_goal(id, quantity);
            let good = if let Goal::Between(..) = goal.goal { 75.0 } else { 1.0 };
            let (mut cells, fine) = judged(&row, &goal, good);
            assert_eq!(fine.met, Some(true), "{fine:?}");
            for role in cells.iter_mut().flat_map(|cell| &mut cell.roles) {
                for one in [&mut role.alone, &mut role.beside].into_iter().flatten() {
                    one.samples.cores.truncate(5);
                    one.samples.turns.truncate(5);
                    one.samples.windows_percent.truncate(29);
                    one.samples.times_us.truncate(29);
                }
            }
            let few = verdict_on(&row, &goal, &cells);
            assert!(few.met.is_none() && few.open.is_some_and(|why| why.contains(needs)), "{id}");
        }
    }

    #[test]
    fn a_role_that_is_faster_than_alone_is_not_judged() {
        let (row, goal) = find_goal("7.2.1", "p99_over_alone");
        let of = |value| judged(&row, &goal, value).1;
        assert!(of(0.54).open.is_some_and(|why| why.contains("the run alone was disturbed")));
        assert_eq!(of(0.9).met, Some(true), "the goal allows 1.3");
        let (started, cost) = find_goal("5.1", OVER_NATIVE);
        let cost = |value| judged(&started, &cost, value).1.met;
        assert_eq!([0.5, 0.98, 1.1].map(cost), [None, Some(true), Some(false)]);
        let (row, goal) = find_goal("8.1.1", KEPT);
        let kept = |value| judged(&row, &goal, value).1.met;
        assert_eq!([0.8, 1.01, 1.2].map(kept), [Some(false), Some(true), None]);
        let (row, goal) = find_goal("7.2.2", KEPT);
        assert_eq!(goal.role, ALL);
        assert_eq!(judged(&row, &goal, 1.2).1.met, Some(true), "two that leave each other time");
    }

    #[test]
    fn times_of_stand_ins_are_not_judged() {
        let (row, goal) = find_goal("8.2.1", "p99_ms");
        let (cells, bad) = judged(&row, &goal, 700.0);
        assert_eq!(bad.met, Some(false));
        let host = Setting { hal: Hal::Host, quick: false };
        let of = Definition { goals: vec![goal], ..row };
        assert_eq!(verdicts(&of, &cells, host)[0].met, None);
    }

    #[test]
    fn a_row_passes_if_all_goals_are_met() {
        let (row, goal) = find_goal("7.2.1", "p99_over_alone");
        let verdict = judged(&row, &goal, 1.0).1;
        let of = |met| Verdict { met, ..verdict.clone() };
        assert_eq!(pass(&[of(Some(true)), of(Some(true))]), Some(true));
        assert_eq!(pass(&[of(Some(true)), of(None)]), None);
        assert_eq!(pass(&[of(None), of(Some(false))]), Some(false));
        assert_eq!(pass(&[]), None);
    }

    #[test]
    fn rows_that_schedule_are_judged_by_processor_time() {
        for row in all(FULL) {
            let judged = row.goals.iter().map(|goal| &goal.cell).collect::<Vec<_>>();
            let schedules = |cell: &&CellPlan| {
                let is_judged = judged.contains(&&cell.name) && cell.way == Way::Xsched;
                is_judged && Treatment::of(cell) != Treatment::Nothing
            };
            for cell in row.plan.cells.iter().filter(schedules) {
                let is_of = |goal: &&GoalPlan| {
                    goal.cell == cell.name && goal.quantity == "cores_over_native_percent"
                };
                let goal = row.goals.iter().find(is_of);
                assert!(goal.is_some_and(|goal| goal.goal == Goal::AtMost(5.0)), "{}", cell.name);
            }
        }
    }
}
