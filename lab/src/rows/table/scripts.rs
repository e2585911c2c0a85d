//! Sections 4.2 and 7.1: unmodified programs, each with the same results as without XSched.

use super::super::plan::{CellPlan, Hal, ProcessPlan, Program, Way};
use super::build::{Granularity, Group, role};
use super::goals::GoalPlan;
use super::{Definition, Setting};
use crate::stats::PAIRS_MIN;
use xsched_sim::stats::Goal;

/// Programs have the GPU to themselves here.
const STARTED: &str = "time if only started, over that without XSched";
/// Highest cost of a cell, over the time without XSched.
const COST_MAX: f64 = 1.034;

/// Least part that priority gives, in percent: the larger part of 7.2.2.
const URGENT_PERCENT: f64 = 75.0;
/// Unmodified programs of several frameworks.
const PROGRAMS: [&str; 10] = [
    "vision.py",
    "generate.py",
    "resnet_train.py",
    "bert_train.py",
    "threads.py",
    "jax_step.py",
    "onnx_session.py",
    "cupy_kernels.py",
    "numba_kernel.py",
    "triton_kernel.py",
];

/// A cell for a program.
fn cell(script: &str, setting: Setting) -> CellPlan {
    let name = format!("{}, xsched", script.split('.').next().unwrap_or(script));
    CellPlan {
        group: name.clone(),
        name,
        way: Way::Xsched,
        processes: vec![ProcessPlan {
            program: Program::Script,
            roles: vec![role("program", script)],
            ..ProcessPlan::default()
        }],
        measured: "program".to_owned(),
        samples: if setting.quick { 1 } else { PAIRS_MIN as u32 },
        unavailable: (setting.hal == Hal::Host).then(|| "needs a GPU".to_owned()),
        ..CellPlan::default()
    }
}

/// 7.1.1.
pub(super) fn portability(setting: Setting) -> Definition {
    let mut row = Definition::new("7.1.1", "Portability", "portability");
    for script in PROGRAMS {
        let cell = cell(script, setting);
        let same = "the same results, bit for bit";
        let of = |quantity| (cell.name.as_str(), "program", quantity);
        let words = |what: &str| format!("{script}: {what}");
        row.goals.push(GoalPlan::new("ours", &words(same), of("same"), Goal::AtLeast(1.0)));
        let cost =
            GoalPlan::new("plan", &words(STARTED), of("over_native"), Goal::AtMost(COST_MAX));
        row.goals.push(cost);
        row.plan.cells.push(cell);
    }
    row
}

/// Adds a cell for each suite of operators, in both ways.
fn suites(row: &mut Definition, suites: &[&str], setting: Setting) {
    for suite in suites {
        let one = role("suite", "operators").option("suite", *suite);
        let group = Group::new(*suite, Granularity::Processes, vec![one]);
        let group = group.only_alone().samples(100).needs_gpu(true);
        let cell = group.cell_name(Way::Xsched);
        let of = |quantity| (cell.as_str(), "suite", quantity);
        let words = |what: &str| format!("{suite}: {what}");
        row.goals.push(GoalPlan::new(
            "ours",
            &words("the same results, bit for bit"),
            of("same"),
            Goal::AtLeast(1.0),
        ));
        let cost =
            GoalPlan::new("plan", &words(STARTED), of("over_native"), Goal::AtMost(COST_MAX));
        row.goals.push(cost);
        row.plan.cells.extend(group.cells(setting));
    }
}

/// Two processes that are always busy, of which one is urgent.
fn ranked(row: &mut Definition, work: &str, setting: Setting) {
    let one = |name| role(name, work).endless(2);
    let roles = vec![one("high").priority(10), one("low").priority(-10)];
    let group = Group::new(format!("priority, {work}"), Granularity::Processes, roles);
    let group = group.samples(300);
    row.goals.push(GoalPlan::new(
        "plan",
        &format!("{work}: part of the GPU with the higher priority, in percent"),
        (&group.cell_name(Way::Xsched), "high", "share_percent"),
        Goal::AtLeast(URGENT_PERCENT),
    ));
    row.plan.cells.extend(group.cells(setting));
}

/// 4.2.1.
pub(super) fn operators(setting: Setting) -> Definition {
    let mut row = Definition::new("4.2.1", "PyTorch's operators", "pytorch");
    suites(&mut row, &["forward", "backward", "autocast", "compile", "graphs"], setting);
    ranked(&mut row, "bert-base", setting);
    row
}

/// 4.2.2.
pub(super) fn libraries(setting: Setting) -> Definition {
    let name = "cuBLAS and cuDNN, or hipBLAS and MIOpen";
    let mut row = Definition::new("4.2.2", name, "libraries");
    suites(&mut row, &["blas", "dnn"], setting);
    ranked(&mut row, "gemm-8192", setting);
    row
}
