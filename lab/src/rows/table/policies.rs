//! Section 7.2: priorities and parts, with two processes of ResNet-152.

use super::super::plan::{RolePlan, Way};
use super::super::quantities::{MORE_CORES, P99_OVER_NATIVE};
use super::build::{Granularity, Group, role};
use super::goals::{GoalPlan, results};
use super::{Definition, Setting};
use xsched_sim::stats::Goal;

/// How busy the foreground would be alone, in percent.
const LOAD_PERCENT: f64 = 20.0;
/// Parts of the device in percent.
const SHARES: (u8, u8) = (75, 25);

/// Inputs of a request kernel by kernel. With fewer, the host's launches take longer than the
/// kernels, and the device is idle most of the time.
const EAGER_BATCH: u32 = 16;
/// With 16, the host is late for a request in a hundred, which is where a P99 is; with twice as
/// many it is not. Both are shown.
const LARGE_BATCH: u32 = 32;
/// Part of the device that the daemon leaves to those below by default.
const FLOOR: f64 = 0.05;

/// The name of a mode.
const fn mode(graph: bool) -> &'static str {
    if graph { "graph" } else { "eager" }
}

fn resnet(name: &str, graph: bool, eager_batch: u32) -> RolePlan {
    role(name, "resnet152").graph(graph).batch(if graph { 1 } else { eager_batch })
}

/// 7.2.1.
pub(super) fn fixed(setting: Setting) -> Definition {
    let mut row = Definition::new("7.2.1", "Fixed Priority Policy", "fixed_priority");
    row.figure = Some("9");
    for (mode, graph, batch, whose) in [
        ("eager", false, EAGER_BATCH, "plan"),
        ("graph", true, EAGER_BATCH, "plan"),
        ("large eager", false, LARGE_BATCH, "ours"),
    ] {
        let one = |name| resnet(name, graph, batch);
        let [foreground, background] = ["foreground", "background"].map(one);
        let roles =
            vec![foreground.priority(10).busy(LOAD_PERCENT), background.priority(-10).endless(2)];
        let group = Group::new(format!("{mode}, processes"), Granularity::Processes, roles);
        // A stand-in's host is never late.
        let group = group.needs_gpu(batch == LARGE_BATCH);
        let group = group.ways(&[Way::Native, Way::Xsched, Way::Mps, Way::MpsXsched]);
        let cell = group.cell_name(Way::Xsched);
        let goal = |whose, what: &str, (role, quantity), goal| {
            let what = format!("{mode}: {what}");
            GoalPlan::new(whose, &what, (cell.as_str(), role, quantity), goal)
        };
        let (p99, kept) = (("foreground", "p99_over_alone"), ("background", "kept"));
        let at_20 = "P99 of foreground at 20 % load over its P99";
        row.goals.extend([
            goal(whose, &format!("{at_20} alone"), p99, Goal::AtMost(1.3)),
            goal(
                whose,
                &format!("{at_20} without XSched"),
                (p99.0, P99_OVER_NATIVE),
                Goal::AtMost(1.0),
            ),
            // The plan has it run.
            goal(whose, "background's rate over its rate alone", kept, Goal::AtLeast(FLOOR)),
            // The foreground leaves four fifths, and this is half of that.
            goal("ours", "background's rate over its rate alone", kept, Goal::AtLeast(0.4)),
        ]);
        row.plan.cells.extend(group.cells(setting));
    }
    let (native, xsched) = ("eager, processes, native", "eager, processes, xsched");
    row.results = results([
        ("foreground_p99_latency_standalone", native, "foreground", "alone_p99_ms"),
        ("foreground_p99_latency_native", native, "foreground", "p99_ms"),
        ("foreground_p99_latency_xsched", xsched, "foreground", "p99_ms"),
        ("background_throughput_native", native, "background", "kept"),
        ("background_throughput_xsched", xsched, "background", "kept"),
        ("cpu_overhead_percent", xsched, "all", MORE_CORES),
    ]);
    row
}

/// 7.2.2.
pub(super) fn partition(setting: Setting) -> Definition {
    let mut row = Definition::new("7.2.2", "Bandwidth Partition Policy", "bandwidth_partition");
    row.figure = Some("9");
    row.has_windows = true;
    for graph in [false, true] {
        let one = |name, share| resnet(name, graph, EAGER_BATCH).share(share).endless(2);
        let roles = vec![one("first", SHARES.0), one("second", SHARES.1)];
        let group =
            Group::new(format!("{}, processes", mode(graph)), Granularity::Processes, roles);
        let group = group.ways(&[Way::Native, Way::Xsched, Way::Mps, Way::MpsPercent]);
        let group = group.policy("up");
        let cell = group.cell_name(Way::Xsched);
        let goal = |what: &str, role, quantity, goal| {
            let what = format!("{}: {what}", mode(graph));
            GoalPlan::new("plan", &what, (cell.as_str(), role, quantity), goal)
        };
        let within = Goal::Between(70.0, 80.0);
        row.goals.extend([
            goal("the first one's part in percent", "first", "share_percent", within),
            goal("P5 of its parts in windows", "first", "window_p5_percent", within),
            goal("P95 of its parts in windows", "first", "window_p95_percent", within),
            goal("what both keep of what they do alone", "all", "kept", Goal::AtLeast(0.985)),
        ]);
        row.plan.cells.extend(group.cells(setting));
    }
    let (native, xsched) = ("eager, processes, native", "eager, processes, xsched");
    row.results = results([
        ("first_share_percent_native", native, "first", "share_percent"),
        ("first_share_percent_xsched", xsched, "first", "share_percent"),
        ("second_share_percent_xsched", xsched, "second", "share_percent"),
        ("total_throughput_native", native, "all", "kept"),
        ("total_throughput_xsched", xsched, "all", "kept"),
    ]);
    row.notes.push(
        "Parts are of what each does alone, in windows of 20 timeslices, which are 100 ms. The \
         policy is `up`, which the daemon is started with."
            .to_owned(),
    );
    row
}
