//! Sections 7.3 and 7.4: what thresholds, levels and spacings cost real models.

use super::super::plan::{CellPlan, RolePlan, Way};
use super::build::{Granularity, Group, role};
use super::goals::{GoalPlan, LAUNCHES, results};
use super::{Definition, Setting};
use xsched_sim::stats::Goal;

/// Commands in flight.
const THRESHOLDS: [u32; 6] = [10, 1, 2, 3, 5, 8];
/// What bounds a task with few commands in flight.
const FEW: &str = "ten kernels of microseconds are over before a thread has woken to launch more";
/// What bounds what is launched kernel by kernel with gates.
const GATES: &str =
    "kernel by kernel it takes what the host takes to launch, and a gate is one more call";
/// The level of a setting, and the predicted work between two gates in µs.
const LEVELS: [(u8, Option<u32>); 5] =
    [(1, None), (2, None), (2, Some(0)), (2, Some(300)), (2, Some(1_000))];

/// The models: eager ones, of which each kernel is a command, and a graph.
fn works() -> [(&'static str, RolePlan); 3] {
    [
        ("bert eager", role("task", "bert-base")),
        ("resnet152 eager", role("task", "resnet152")),
        ("bert graph", role("task", "bert-base").graph(true)),
    ]
}

fn group(name: &str, role: RolePlan) -> Group {
    Group::new(name, Granularity::Processes, vec![role.endless(1)]).only_alone().samples(300)
}

/// The reference, and a cell for each setting.
fn reference(name: &str, role: &RolePlan, setting: Setting) -> CellPlan {
    let group = group(name, role.clone());
    group.cell(Way::Native, group.cell_name(Way::Native), setting)
}

/// 7.3.3.
pub(super) fn threshold(setting: Setting) -> Definition {
    let mut row = Definition::new("7.3.3", "Cost of few commands in flight", "threshold");
    row.figure = Some("11");
    for (name, role) in works().into_iter().take(2) {
        row.plan.cells.push(reference(name, &role, setting));
        for threshold in THRESHOLDS {
            let title = format!("{name}, threshold {threshold}");
            let cell = group(name, role.clone().option("threshold", threshold))
                .options(&["--level", "1"])
                .variable("XSCHED_AUTO_XQUEUE_THRESHOLD", threshold)
                .variable("XSCHED_AUTO_XQUEUE_BATCH_SIZE", (threshold / 2).max(1))
                .cell(Way::Xsched, title.clone(), setting);
            row.plan.cells.push(cell);
            if threshold == 10 {
                let goal = GoalPlan::new(
                    "plan",
                    &format!("{name}: latency with ten in flight over that without XSched"),
                    (&title, "task", "over_native"),
                    Goal::AtMost(1.01),
                );
                row.goals.push(goal.bound(FEW));
            }
        }
    }
    row.notes.push(
        "The smallest threshold under 3 % is the first whose `over_native` is below 1.03."
            .to_owned(),
    );
    row
}

/// The title of a setting, with its options.
fn titled(name: &str, (level, spacing_us): (u8, Option<u32>)) -> String {
    match spacing_us {
        None => format!("{name}, level {level}"),
        Some(spacing) => format!("{name}, level {level}, spacing {spacing} µs"),
    }
}

fn level_cell(
    (name, role): (&str, &RolePlan),
    (level, spacing_us): (u8, Option<u32>),
    setting: Setting,
) -> CellPlan {
    let mut group = group(name, role.clone().option("level", level));
    group = group.options(&["--level", &level.to_string()]);
    if let Some(spacing) = spacing_us {
        group = group.variable("XSCHED_GATE_SPACING_US", spacing);
    }
    group.cell(Way::Xsched, titled(name, (level, spacing_us)), setting)
}

/// 7.4.1.
pub(super) fn time(setting: Setting) -> Definition {
    let mut row = Definition::new("7.4.1", "Runtime overhead", "runtime_overhead");
    row.figure = Some("12");
    for (name, role) in &works() {
        row.plan.cells.push(reference(name, role, setting));
        for level in LEVELS {
            row.plan.cells.push(level_cell((name, role), level, setting));
        }
        for level in [1, 2] {
            let goal = GoalPlan::new(
                if level == 1 { "plan" } else { "issue" },
                &format!("{name}: latency at Lv{level} over that without XSched"),
                (&titled(name, (level, None)), "task", "over_native"),
                Goal::AtMost(1.034),
            );
            let bound = if level == 1 { LAUNCHES } else { GATES };
            row.goals.push(if role.spec.graph { goal } else { goal.bound(bound) });
        }
    }
    row.results = results([
        ("latency_native_ms", "bert eager, native", "task", "alone_mean_ms"),
        ("latency_lv1_ms", "bert eager, level 1", "task", "alone_mean_ms"),
        ("lv1_over_native", "bert eager, level 1", "task", "over_native"),
        ("lv2_over_native", "bert eager, level 2", "task", "over_native"),
    ]);
    row
}

/// 7.4.2.
pub(super) fn processor(setting: Setting) -> Definition {
    let mut row = Definition::new("7.4.2", "Processor overhead", "cpu_overhead");
    row.figure = Some("12");
    for (name, role) in works() {
        let group = group(name, role.clone().paused(5.0)).only_alone().samples(300);
        row.plan.cells.extend(group.cells(setting));
        row.goals.push(GoalPlan::new(
            "plan",
            &format!("{name}: percent of a core more than without XSched, with the daemon"),
            (&group.cell_name(Way::Xsched), "all", "cores_over_native_percent"),
            Goal::AtMost(5.0),
        ));
    }
    row.results = results([
        ("cpu_cores_native", "bert eager, native", "all", "cores"),
        ("cpu_cores_xsched", "bert eager, xsched", "all", "cores"),
        ("cpu_overhead_percent", "bert eager, xsched", "all", "cores_over_native_percent"),
    ]);
    row
}
