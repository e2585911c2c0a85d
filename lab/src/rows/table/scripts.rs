//! Sections 4.2 and 7.1: unmodified programs, each with the same results as without XSched.

use super::super::plan::{CellPlan, Hal, ProcessPlan, Program, Way};
use super::build::{Granularity, Group, role};
use super::goals::{GoalPlan, LAUNCHES};
use super::{Definition, Setting};
use xsched_sim::stats::Goal;

/// What a cell costs at most.
const COST_MAX: f64 = 1.034;

/// What bounds the cost of a program whose streams have two priorities.
const TURNS: &str = "its streams have two priorities, so each launch and each wait for an event takes \
     its turn, and what has the lower priority waits for the other";

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
        samples: if setting.quick { 1 } else { 3 },
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
        row.goals.push(GoalPlan::new("plan", &words(same), of("same"), Goal::AtLeast(1.0)));
        let cost = GoalPlan::new(
            "plan",
            &words("time over that without XSched"),
            of("over_native"),
            Goal::AtMost(COST_MAX),
        );
        row.goals.push(cost.bound(if script == "threads.py" { TURNS } else { LAUNCHES }));
        row.plan.cells.push(cell);
    }
    row
}

/// The same operators in both ways.
fn suites(row: &mut Definition, suites: &[&str], setting: Setting) {
    for suite in suites {
        let one = role("suite", "operators").option("suite", *suite);
        let group = Group::new(*suite, Granularity::Processes, vec![one]);
        let group = group.only_alone().samples(100).needs_gpu(true);
        let cell = group.cell_name(Way::Xsched);
        let of = |quantity| (cell.as_str(), "suite", quantity);
        let words = |what: &str| format!("{suite}: {what}");
        row.goals.push(GoalPlan::new(
            "plan",
            &words("the same results, bit for bit"),
            of("same"),
            Goal::AtLeast(1.0),
        ));
        let cost = GoalPlan::new(
            "plan",
            &words("time over that without XSched"),
            of("over_native"),
            Goal::AtMost(COST_MAX),
        );
        row.goals.push(cost.bound(LAUNCHES));
        row.plan.cells.extend(group.cells(setting));
    }
}

/// 4.2.1.
pub(super) fn operators(setting: Setting) -> Definition {
    let mut row = Definition::new("4.2.1", "PyTorch's operators", "pytorch");
    suites(&mut row, &["forward", "backward", "autocast", "compile", "graphs"], setting);
    row
}

/// 4.2.2.
pub(super) fn libraries(setting: Setting) -> Definition {
    let name = "cuBLAS and cuDNN, or hipBLAS and MIOpen";
    let mut row = Definition::new("4.2.2", name, "libraries");
    suites(&mut row, &["blas", "dnn"], setting);
    row
}
