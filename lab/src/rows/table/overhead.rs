//! Sections 7.3 and 7.4: what thresholds, levels and spacings cost real models.

use super::super::plan::{CellPlan, RolePlan, Way};
use super::super::quantities::MORE_CORES;
use super::super::session::STREAMS;
use super::build::{Granularity, Group, role};
use super::goals::{CORES_MAX_PERCENT, GoalPlan, results};
use super::{Definition, Setting};
use xsched_sim::stats::Goal;

/// Highest cost of scheduling that the plan allows, over the reference.
const OVER_MAX: f64 = 1.034;
/// Between two requests where processor time is measured: as long as one takes, so that both what
/// requests and what pauses cost count.
const PAUSE_MS: f64 = 5.0;
/// Commands in flight.
const THRESHOLDS: [u32; 6] = [10, 1, 2, 3, 5, 8];
/// The level of a setting, and the predicted work between two gates in µs.
const LEVELS: [(u8, Option<u32>); 5] =
    [(1, None), (2, None), (2, Some(0)), (2, Some(300)), (2, Some(1_000))];

/// The models: eager ones, of which each kernel is a command, and a graph.
fn works() -> [(&'static str, RolePlan); 3] {
    [
        ("bert eager", role("task", "bert-base").endless(1)),
        ("resnet152 eager", role("task", "resnet152").endless(1)),
        ("bert graph", role("task", "bert-base").graph(true).endless(1)),
    ]
}

/// A task that has the GPU to itself, with every launch through an XQueue.
fn group(name: &str, role: RolePlan) -> Group {
    Group::new(name, Granularity::Processes, vec![role]).only_alone().samples(300)
}

fn scheduled(name: &str, role: RolePlan) -> Group {
    group(name, role).options(&[STREAMS])
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
            let cell = scheduled(name, role.clone().option("threshold", threshold))
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
                row.goals.push(goal);
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
    let mut group = scheduled(name, role.clone().option("level", level));
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
        let title = format!("{name}, started");
        row.goals.push(GoalPlan::new(
            "ours",
            &format!("{name}: latency of a program that is only started, over that without XSched"),
            (&title, "task", "over_native"),
            Goal::AtMost(OVER_MAX),
        ));
        // A stand-in's launches always go through XQueues.
        let started = group(name, role.clone()).needs_gpu(true);
        row.plan.cells.push(started.cell(Way::Xsched, title, setting));
        for level in [1, 2] {
            let goal = GoalPlan::new(
                if level == 1 { "plan" } else { "ours" },
                &format!("{name}: latency at Lv{level} over that without XSched"),
                (&titled(name, (level, None)), "task", "over_native"),
                Goal::AtMost(OVER_MAX),
            );
            row.goals.push(goal);
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
        let group = scheduled(name, role.paused(PAUSE_MS));
        row.plan.cells.extend(group.cells(setting));
        row.goals.push(GoalPlan::new(
            "plan",
            &format!("{name}: percent of a core more than without XSched, with the daemon"),
            (&group.cell_name(Way::Xsched), "all", MORE_CORES),
            Goal::AtMost(CORES_MAX_PERCENT),
        ));
    }
    row.results = results([
        ("cpu_cores_native", "bert eager, native", "all", "cores"),
        ("cpu_cores_xsched", "bert eager, xsched", "all", "cores"),
        ("cpu_overhead_percent", "bert eager, xsched", "all", "cores_over_native_percent"),
    ]);
    row
}
