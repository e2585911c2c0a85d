//! Section 5: BERT with one, three and six clients.

use super::super::plan::{RolePlan, Way};
use super::build::{Granularity, Group, role};
use super::goals::{GoalPlan, results};
use super::{Definition, Setting};
use xsched_sim::stats::Goal;

/// Between a client's requests.
const PAUSE_MS: f64 = 20.0;
/// Pause in 5.3, in milliseconds.
const SEQUENCE_PAUSE_MS: f64 = 10.0;
/// The names of six clients, as the plan's script has them.
const SIX: [&str; 6] = ["high-1", "high-2", "mid-1", "mid-2", "low-1", "low-2"];

fn client(name: &str, graph: bool) -> RolePlan {
    role(name, "bert-base").graph(graph)
}

/// The name of a mode.
const fn mode(graph: bool) -> &'static str {
    if graph { "graph" } else { "eager" }
}

/// 5.1.
pub(super) fn alone(setting: Setting) -> Definition {
    let mut row = Definition::new("5.1", "BERT, one task", "bert_one_task");
    for graph in [false, true] {
        let group =
            Group::new(mode(graph), Granularity::Threads, vec![client("task", graph).paused(0.0)]);
        let group = group.only_alone();
        let goal = GoalPlan::new(
            "plan",
            &format!("{}: latency if only started, over that without XSched", mode(graph)),
            (&group.cell_name(Way::Xsched), "task", "over_native"),
            Goal::AtMost(1.034),
        );
        row.goals.push(goal);
        row.plan.cells.extend(group.cells(setting));
    }
    row.results = results([
        ("latency_mean_ms", "eager, native", "task", "alone_mean_ms"),
        ("latency_p99_ms", "eager, native", "task", "alone_p99_ms"),
        ("latency_mean_xsched_ms", "eager, xsched", "task", "alone_mean_ms"),
        ("latency_p99_xsched_ms", "eager, xsched", "task", "alone_p99_ms"),
    ]);
    row
}

/// 5.3.
pub(super) fn sequence(setting: Setting) -> Definition {
    let mut row = Definition::new("5.3", "BERT, one after the other", "bert_sequence");
    let tasks = ["first", "second"].map(|name| client(name, false).paused(SEQUENCE_PAUSE_MS));
    let group = Group::new("eager", Granularity::Threads, tasks.into()).only_alone().samples(300);
    let goal = GoalPlan::new(
        "plan",
        "latency of the second if only started, over that without XSched",
        (&group.cell_name(Way::Xsched), "second", "over_native"),
        Goal::AtMost(1.034),
    );
    row.goals.push(goal);
    row.plan.cells = group.cells(setting);
    row
}

/// 5.2.
pub(super) fn three(setting: Setting) -> Definition {
    let name = "BERT, three tasks without priority";
    let mut row = Definition::new("5.2", name, "bert_three_tasks");
    let ways = [Way::Native, Way::Xsched];
    for (graph, unit) in modes() {
        let clients = ["a", "b", "c"].map(|name| client(name, graph).paused(PAUSE_MS));
        let group = Group::new(titled(graph, unit, ""), unit, clients.into());
        let group = group.ways(&ways).alone(&["a"]).samples(300);
        let group = group.needs_gpu(setting.hal == HOST && unit == Granularity::Processes);
        row.plan.cells.extend(group.cells(setting));
        if unit == Granularity::Threads {
            row.goals.push(GoalPlan::new(
                "plan",
                &format!("{}: requests of all a second over those without XSched", mode(graph)),
                (&group.cell_name(Way::Xsched), "all", "rate_over_native"),
                Goal::AtLeast(0.9),
            ));
        }
    }
    row.results = results([
        ("baseline_requests_per_s", "eager, threads, native", "all", "rate_per_s"),
        ("xsched_requests_per_s", "eager, threads, xsched", "all", "rate_per_s"),
        ("baseline_mean_ms", "eager, threads, native", "a", "mean_ms"),
        ("xsched_mean_ms", "eager, threads, xsched", "a", "mean_ms"),
    ]);
    row
}

const HOST: super::Hal = super::Hal::Host;

/// Graphs first: they show the device, and the others the host.
fn modes() -> [(bool, Granularity); 4] {
    [
        (true, Granularity::Processes),
        (true, Granularity::Threads),
        (false, Granularity::Processes),
        (false, Granularity::Threads),
    ]
}

fn titled(graph: bool, unit: Granularity, clients: &str) -> String {
    let unit = if unit == Granularity::Threads { "threads" } else { "processes" };
    format!("{clients}{}, {unit}", mode(graph))
}

/// Clients whose first is urgent; the priorities of threads are those of streams, of which there
/// are two.
fn six(graph: bool) -> Vec<RolePlan> {
    let ranks = [1, 1, 0, 0, -1, -1];
    let each = SIX.into_iter().zip(ranks);
    each.map(|(name, rank)| client(name, graph).priority(rank).paused(PAUSE_MS)).collect()
}

fn three_ranked(graph: bool) -> Vec<RolePlan> {
    let each = [("high-1", 1), ("mid-1", 0), ("low-1", -1)].into_iter();
    each.map(|(name, rank)| client(name, graph).priority(rank).paused(PAUSE_MS)).collect()
}

/// One with pauses, and five without.
fn one_urgent(work: &str, dtype: &str) -> Vec<RolePlan> {
    let make = |(number, name): (usize, &str)| {
        let one = role(name, work).dtype(dtype).graph(true);
        if number == 0 { one.priority(1).paused(PAUSE_MS) } else { one.priority(-1).endless(1) }
    };
    ["high-1", "low-1", "low-2", "low-3", "low-4", "low-5"]
        .into_iter()
        .enumerate()
        .map(make)
        .collect()
}

/// 5.4.
pub(super) fn priorities(setting: Setting) -> Definition {
    let mut row = Definition::new("5.4", "BERT under priority", "bert_priority");
    for (graph, unit) in modes() {
        let ways: &[Way] = match unit {
            Granularity::Processes => &[Way::Native, Way::Xsched, Way::Mps],
            Granularity::Threads => &[Way::Native, Way::Xsched, Way::Priorities],
        };
        let group = Group::new(titled(graph, unit, "six, "), unit, six(graph)).ways(ways);
        let group = group.priorities(&[3, 3, 2, 2, 1, 1]).alone(&["high-1"]);
        let group = group.needs_gpu(setting.hal == HOST && unit == Granularity::Processes);
        row.plan.cells.extend(group.cells(setting));
        if graph {
            row.goals.push(over_alone(&group, "five others"));
        } else if unit == Granularity::Threads {
            row.goals.extend(of_the_plan(&group));
        }
    }
    for (name, work, dtype) in [("base", "bert-base", "fp32"), ("large", "bert-large", "fp16")] {
        let name = format!("{name}, endless others, graph, processes");
        let group = Group::new(name, Granularity::Processes, one_urgent(work, dtype));
        let group = group.alone(&["high-1", "low-1"]);
        row.goals.push(over_alone(&group, "five that are always busy"));
        row.goals.push(GoalPlan::new(
            "plan",
            "mean of low over that of high, beside endless ones",
            (&group.cell_name(Way::Xsched), "low-1", "mean_over_first"),
            Goal::AtLeast(2.5),
        ));
        row.plan.cells.extend(group.cells(setting));
    }
    let ways = [Way::Native, Way::Xsched];
    let group = Group::new("three, eager, threads", Granularity::Threads, three_ranked(false));
    let group = group.ways(&ways).alone(&["high-1"]).samples(300);
    row.plan.cells.extend(group.cells(setting));
    row.results = plan_results();
    row.notes.push(
        "In this closed loop priorities only stagger equal clients, so low over high is judged \
         beside endless ones. Those take turns instead of slices of the GPU, so that a hold waits \
         for the next gate of one of them."
            .to_owned(),
    );
    row
}

fn over_alone(group: &Group, beside: &str) -> GoalPlan {
    let cell = group.cell_name(Way::Xsched);
    let what = format!("P99 of high-1 beside {beside} over its P99 alone ({cell})");
    GoalPlan::new("ours", &what, (&cell, "high-1", "p99_over_alone"), Goal::AtMost(1.1))
}

/// The plan's own goals at level 2, in times of its own hardware.
fn of_the_plan(group: &Group) -> [GoalPlan; 6] {
    let cell = group.cell_name(Way::Xsched);
    let goal = |what: &str, role, quantity, goal| {
        GoalPlan::new("plan", what, (&cell, role, quantity), goal)
    };
    [
        goal("mean of high-1 in ms, eager threads", "high-1", "mean_ms", Goal::AtMost(8.0)).time(),
        goal("P99 of high-1 in ms, eager threads", "high-1", "p99_ms", Goal::AtMost(10.0)).time(),
        goal("mean of low-1 in ms, eager threads", "low-1", "mean_ms", Goal::AtMost(20.0)).time(),
        goal("P99 of low-1 in ms, eager threads", "low-1", "p99_ms", Goal::AtMost(30.0)).time(),
        goal("mean of low-1 over that of high-1", "low-1", "mean_over_first", Goal::AtLeast(2.5)),
        goal(
            "requests of all a second over those without XSched",
            "all",
            "rate_over_native",
            Goal::AtLeast(0.9),
        ),
    ]
}

fn plan_results() -> Vec<super::ResultPlan> {
    results([
        ("high_mean_ms_baseline", "six, eager, threads, native", "high-1", "mean_ms"),
        ("high_p99_ms_baseline", "six, eager, threads, native", "high-1", "p99_ms"),
        ("high_mean_ms_xsched", "six, eager, threads, xsched", "high-1", "mean_ms"),
        ("high_p99_ms_xsched", "six, eager, threads, xsched", "high-1", "p99_ms"),
        ("low_mean_ms_xsched", "six, eager, threads, xsched", "low-2", "mean_ms"),
        ("low_p99_ms_xsched", "six, eager, threads, xsched", "low-2", "p99_ms"),
        ("low_over_high_mean", "six, eager, threads, xsched", "low-2", "mean_over_first"),
        ("throughput_baseline", "six, eager, threads, native", "all", "rate_per_s"),
        ("throughput_xsched", "six, eager, threads, xsched", "all", "rate_per_s"),
    ])
}
