//! The rows: what is run for each, and what is asked for.

mod bert;
mod build;
mod cases;
mod goals;
mod overhead;
mod policies;
mod scripts;

use super::counts::Treatment;
use super::plan::{CellPlan, Hal, InTurns, LoadPlan, Program, RolePlan, RowPlan, Way};
use super::protocol::Profile;
use super::quantities::{ALL, MORE_CORES, P99_OVER_NATIVE};
use super::timing::{LONG_TURNS, few, least, wanted_s};
use xsched_sim::stats::Goal;

use self::goals::CORES_MAX_PERCENT;
pub(crate) use self::goals::{GoalPlan, ResultPlan};

/// Cells of a row in a quick look on a GPU.
const QUICK_CELLS: usize = 3;

/// Part by which the speed of a device changes by itself: 11 % on an H200, 2026-11-28.
const SPEED_CHANGE: f64 = 0.11;
/// About what the start of a program takes, in seconds.
const START_S: f64 = 10.0;
/// About what a request is.
const LIKELY: Profile =
    Profile { kernels_ns: Vec::new(), request_ns: 6_000_000, host_ns: 0, digest: None };

/// For what the rows are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The device.
    pub(crate) hal: Hal,
    /// With few samples.
    pub(crate) quick: bool,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// Cells to run.
    pub(crate) plan: RowPlan,
    /// Name in file names, as `fixed_priority`.
    pub(crate) file: &'static str,
    /// Requirements, for people.
    pub(crate) needs: &'static str,
    /// The figure of the plan that it is drawn in.
    pub(crate) figure: Option<&'static str>,
    /// Goals of the row.
    pub(crate) goals: Vec<GoalPlan>,
    /// Results of the plan's form, by its own names.
    pub(crate) results: Vec<ResultPlan>,
    /// Set if parts of the device are measured in windows.
    pub(crate) has_windows: bool,
    /// Sentences for people.
    pub(crate) notes: Vec<String>,
}

impl Definition {
    fn new(id: &'static str, name: &'static str, file: &'static str) -> Self {
        Self {
            plan: RowPlan { id, name, cells: Vec::new() },
            file,
            needs: "PyTorch",
            figure: None,
            goals: Vec::new(),
            results: Vec::new(),
            has_windows: false,
            notes: Vec::new(),
        }
    }

    /// Leaves what a quick look has time for: loading models takes longer than measuring them. That
    /// is the first group, in the way that decides and without XSched.
    fn shorten(&mut self) {
        let cells = &mut self.plan.cells;
        let is_script = |cell: &CellPlan| {
            cell.processes.iter().any(|process| process.program == Program::Script)
        };
        let first = cells.first().map(|cell| cell.group.clone()).unwrap_or_default();
        cells.retain(|cell| {
            let decides = matches!(cell.way, Way::Native | Way::Xsched);
            is_script(cell) || decides && cell.group == first
        });
        cells.truncate(QUICK_CELLS);
        let kept: Vec<&String> = cells.iter().map(|cell| &cell.name).collect();
        self.goals.retain(|goal| kept.contains(&&goal.cell));
        self.results.retain(|result| kept.contains(&&result.cell));
    }

    /// Has those cells take turns with the reference that are judged by how they are over it, if
    /// the change of a device's speed counts for the goal.
    fn take_turns(&mut self) {
        for goal in &self.goals {
            let in_turns = match (goal.quantity, goal.goal) {
                ("mean_over_alone" | "p99_over_alone", _) => InTurns::Alone,
                (P99_OVER_NATIVE, Goal::AtMost(most)) if most > 1.0 - SPEED_CHANGE => InTurns::All,
                _ => continue,
            };
            let judged = self.plan.cells.iter_mut().filter(|cell| {
                cell.name == goal.cell && cell.measured == goal.role && cell.way != Way::Native
            });
            for cell in judged.filter(|cell| cell.in_turns != InTurns::Alone) {
                cell.in_turns = in_turns;
            }
        }
    }

    /// Asks for the plan's processor time of all cells that schedule and are judged by something.
    fn judge_processor(&mut self) {
        let is_asked = |goals: &[GoalPlan], cell: &CellPlan| {
            let of_cell = |goal: &&GoalPlan| goal.cell == cell.name;
            let mut of_cell = goals.iter().filter(of_cell).peekable();
            of_cell.peek().is_some() && of_cell.all(|goal| goal.quantity != MORE_CORES)
        };
        let schedules = |cell: &&CellPlan| Treatment::of(cell) != Treatment::Nothing;
        let cells = self.plan.cells.iter().filter(schedules);
        let cells = cells.filter(|cell| is_asked(&self.goals, cell));
        let goal = |cell: &CellPlan| {
            let what = format!("{}: percent of a core more than without XSched", cell.name);
            let of = (cell.name.as_str(), ALL, MORE_CORES);
            GoalPlan::new("plan", &what, of, Goal::AtMost(CORES_MAX_PERCENT)).time()
        };
        let goals: Vec<GoalPlan> = cells.map(goal).collect();
        self.goals.extend(goals);
    }

    /// Returns the cost of the row beside the others: starts of programs, and phases.
    pub(crate) fn cost(&self) -> u32 {
        let of = |cell: &CellPlan| {
            let is_new = cell.way == Way::Native || !cell.has_beside;
            let alone = if is_new { cell.alone.len() } else { 0 };
            1 + u32::from(cell.has_beside) + u32::try_from(alone).unwrap_or(0)
        };
        self.plan.cells.iter().filter(|cell| cell.unavailable.is_none()).map(of).sum()
    }

    /// About how long it takes on a GPU, in seconds: what each phase needs for its samples if
    /// requests take some milliseconds, and starts of programs.
    pub(crate) fn about_s(&self) -> f64 {
        self.plan.cells.iter().filter(|cell| cell.unavailable.is_none()).map(about_s).sum()
    }

    /// The ways of its cells, each once.
    pub(crate) fn ways(&self) -> Vec<Way> {
        let mut ways: Vec<Way> = self.plan.cells.iter().map(|cell| cell.way).collect();
        ways.sort_unstable();
        ways.dedup();
        ways
    }
}

/// About how long a cell takes, in seconds.
fn about_s(cell: &CellPlan) -> f64 {
    let samples = |role: &RolePlan, others: fn(u32) -> u32| match role.spec.name == cell.measured {
        true => cell.samples,
        false => others(cell.samples),
    };
    let wanted = |load: &LoadPlan, samples| wanted_s(&load.of(&LIKELY), &LIKELY, samples, false);
    let roles = || cell.roles();
    if cell.processes.iter().any(|process| process.program == Program::Script) {
        return f64::from(2 * cell.samples) * START_S;
    }
    // In turns with the reference, it is both that take their time.
    let times = match (cell.way, cell.has_beside) {
        (Way::Native, _) => 1.0,
        (_, false) => 2.0,
        (_, true) => 0.0,
    };
    let is_alone = |role: &&RolePlan| cell.alone.contains(&role.spec.name);
    let of_alone = |role: &RolePlan| {
        wanted(role.load_alone.as_ref().unwrap_or(&role.load), samples(role, few))
    };
    let alone: f64 = roles().filter(is_alone).map(of_alone).sum();
    let beside = roles().map(|role| wanted(&role.load, samples(role, least)));
    let beside = if cell.has_beside { beside.fold(0.0, f64::max) } else { 0.0 };
    let measured = roles().filter(|role| role.spec.name == cell.measured);
    let turns = match cell.in_turns {
        InTurns::Nothing => beside,
        InTurns::Alone => beside + measured.map(of_alone).sum::<f64>(),
        InTurns::All => 2.0 * LONG_TURNS as f64 * beside,
    };
    START_S + times * alone + turns
}

/// All rows, in the order in which they are run: what matters most first.
pub(crate) fn all(setting: Setting) -> Vec<Definition> {
    let rows = [
        policies::fixed(setting),
        policies::partition(setting),
        bert::priorities(setting),
        cases::server(setting),
        cases::conference(setting),
        cases::training(setting),
        cases::mixed(setting),
        cases::language(setting),
        cases::arrivals(setting),
        overhead::time(setting),
        overhead::threshold(setting),
        overhead::processor(setting),
        bert::three(setting),
        bert::alone(setting),
        bert::sequence(setting),
        scripts::portability(setting),
        scripts::operators(setting),
        scripts::libraries(setting),
    ];
    let mut rows: Vec<Definition> = rows.into();
    if setting.quick && setting.hal != Hal::Host {
        rows.iter_mut().for_each(Definition::shorten);
    }
    rows.iter_mut().for_each(Definition::judge_processor);
    rows.iter_mut().for_each(Definition::take_turns);
    rows
}

/// The names of all rows.
pub(crate) fn ids() -> Vec<&'static str> {
    all(Setting { hal: Hal::Cuda, quick: true }).iter().map(|row| row.plan.id).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The rows of the issue.
    const ROWS: [&str; 18] = [
        "5.1", "5.2", "5.3", "5.4", "7.1.1", "7.2.1", "7.2.2", "7.3.3", "7.4.1", "7.4.2", "8.1.1",
        "8.1.2", "8.2.1", "8.3.1", "8.3.2", "4.2.1", "4.2.2", "llm",
    ];

    fn every() -> impl Iterator<Item = (Setting, Definition)> {
        let hals = [Hal::Cuda, Hal::Hip, Hal::Host];
        let settings = hals.into_iter().flat_map(|hal| [true, false].map(|q| (hal, q)));
        settings.map(|(hal, quick)| Setting { hal, quick }).flat_map(|s| {
            let rows = all(s);
            rows.into_iter().map(move |row| (s, row))
        })
    }

    #[test]
    fn what_is_judged_by_how_it_is_over_the_reference_takes_turns_with_it() {
        let full = Setting { hal: Hal::Cuda, quick: false };
        let of = |row: &Definition, wanted| {
            let cells = row.plan.cells.iter().filter(|cell| cell.in_turns == wanted);
            cells.map(|cell| cell.name.clone()).collect::<BTreeSet<_>>()
        };
        let mut alone = 0;
        for row in all(full) {
            let goals = row.goals.iter().filter(|goal| match goal.quantity {
                "p99_over_alone" | "mean_over_alone" => true,
                // 1.06 could be the device; 0.11 could not.
                P99_OVER_NATIVE => goal.goal.is_met(0.95) && !goal.goal.is_met(1.2),
                _ => false,
            });
            let judged: BTreeSet<_> = goals.map(|goal| goal.cell.clone()).collect();
            let turns = of(&row, InTurns::Alone);
            alone += turns.len();
            assert_eq!(&turns | &of(&row, InTurns::All), judged, "{}", row.plan.id);
            for cell in row.plan.cells.iter().filter(|cell| judged.contains(&cell.name)) {
                let is_reference = |of: &CellPlan| of.group == cell.group && of.way == Way::Native;
                assert!(row.plan.cells.iter().any(is_reference), "{}", cell.name);
            }
        }
        assert_eq!(alone, 13, "7.2.1, 5.4, 8.3.1, and 8.1.2");
        let arrivals = all(full).into_iter().find(|row| row.plan.id == "8.3.2").unwrap();
        assert_eq!(
            of(&arrivals, InTurns::All),
            ["", ", K 2"].map(|k| format!("1000 per s, xsched{k}")).into()
        );
    }

    #[test]
    fn what_a_row_takes_is_known_about() {
        // What they took on an H200.
        let took = [
            ("4.2.1", 164.0),
            ("5.2", 208.0),
            ("5.4", 1_044.0),
            ("7.1.1", 418.0),
            ("7.2.1", 711.0),
            ("7.2.2", 202.0),
            ("7.3.3", 330.0),
            ("7.4.1", 501.0),
            ("8.1.1", 217.0),
            ("8.1.2", 225.0),
            ("8.2.1", 383.0),
            ("8.3.1", 837.0),
            ("8.3.2", 227.0),
            ("llm", 361.0),
        ];
        let rows = all(Setting { hal: Hal::Cuda, quick: false });
        for (id, took_s) in took {
            let row = rows.iter().find(|row| row.plan.id == id).unwrap();
            let about = row.about_s() / took_s;
            assert!((1.0 / 3.0..3.0).contains(&about), "{id}: {about}");
        }
    }

    #[test]
    fn all_rows_are_there_once() {
        let ids: BTreeSet<_> = ids().into_iter().collect();
        assert_eq!(ids, BTreeSet::from(ROWS));
        assert_eq!(super::ids().len(), ROWS.len());
    }

    #[test]
    fn cells_and_roles_have_names_of_their_own_and_a_reference() {
        for (setting, row) in every() {
            let id = row.plan.id;
            let names: BTreeSet<_> = row.plan.cells.iter().map(|cell| &cell.name).collect();
            assert_eq!(names.len(), row.plan.cells.len(), "{id}");
            for cell in &row.plan.cells {
                let roles: Vec<_> = cell.roles().map(|role| role.spec.name.clone()).collect();
                let once: BTreeSet<_> = roles.iter().collect();
                assert!(!roles.is_empty() && once.len() == roles.len(), "{id}: {}", cell.name);
                assert!(roles.contains(&cell.measured), "{id}: {}", cell.name);
                assert!(cell.alone.iter().all(|role| roles.contains(role)), "{id}: {}", cell.name);
                let reference =
                    |other: &&CellPlan| other.group == cell.group && other.way == Way::Native;
                let is_script =
                    cell.processes.iter().any(|process| process.program == Program::Script);
                let has = row.plan.cells.iter().find(reference).is_some();
                assert!(has || is_script, "{id} {setting:?}: {}", cell.name);
            }
        }
    }

    #[test]
    fn goals_and_results_name_cells_and_roles_that_there_are() {
        for (setting, row) in every() {
            let has = |cell: &str, role: &str| {
                let found = row.plan.cells.iter().find(|one| one.name == cell);
                let roles = found.map(|one| one.roles().any(|one| one.spec.name == role));
                roles.is_some_and(|has| has || role == "all")
            };
            for goal in &row.goals {
                assert!(has(&goal.cell, goal.role), "{setting:?} {}: {goal:?}", row.plan.id);
            }
            for result in &row.results {
                assert!(has(&result.cell, result.role), "{setting:?} {}: {result:?}", row.plan.id);
            }
        }
    }

    #[test]
    fn what_decides_is_the_way_that_a_user_gets() {
        for (_, row) in every() {
            for goal in &row.goals {
                let cell = row.plan.cells.iter().find(|cell| cell.name == goal.cell).unwrap();
                assert!(cell.way == Way::Xsched, "{}: {goal:?}", row.plan.id);
            }
        }
    }

    #[test]
    fn a_quick_look_on_a_gpu_has_what_decides_and_the_reference() {
        for row in all(Setting { hal: Hal::Cuda, quick: true }) {
            let ways: Vec<Way> = row.plan.cells.iter().map(|cell| cell.way).collect();
            assert!(ways.contains(&Way::Xsched) && ways.len() <= QUICK_CELLS, "{}", row.plan.id);
        }
    }

    #[test]
    fn on_the_processor_one_process_has_all_roles() {
        for row in all(Setting { hal: Hal::Host, quick: true }) {
            for cell in row.plan.cells.iter().filter(|cell| cell.unavailable.is_none()) {
                assert_eq!(cell.processes.len(), 1, "{}: {}", row.plan.id, cell.name);
                assert!(matches!(cell.way, Way::Native | Way::Xsched), "{}", cell.name);
            }
        }
    }
}
