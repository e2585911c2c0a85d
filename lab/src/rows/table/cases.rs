//! Section 8: programs that share a device.

use super::super::plan::{CellPlan, Hal, RolePlan, Way};
use super::super::protocol::{Load, RoleSpec};
use super::super::quantities::{KEPT, P99_OVER_NATIVE};
use super::build::{Granularity, Group, HOST_SCALE, role};
use super::goals::{GoalPlan, results};
use super::{Definition, Setting};
use xsched_sim::stats::Goal;

/// Between two frames, and between two transcriptions.
const FRAME_MS: f64 = 40.0;
const SPEECH_MS: f64 = 3_000.0;
/// Length for stand-ins, whose phases are short.
const HOST_SPEECH_MS: f64 = 400.0;
/// A transcription is urgent from this part of its period before it is due.
const LAXITY_PART: f64 = 1.0 / 30.0;
/// Requests a second of the urgent model.
const URGENT_PER_S: f64 = 10.0;
/// Arrivals a second over all networks, and for stand-ins.
const RATES: [u32; 4] = [1_000, 100, 500, 1_200];
const HOST_RATES: [u32; 4] = [300, 50, 150, 400];
/// Networks of 8.3.2, with the inputs of a request.
const NETWORKS: [(&str, &str, u32); 4] = [
    ("resnet50", "resnet50", 1),
    ("resnet50-batch", "resnet50", 4),
    ("resnet152", "resnet152", 1),
    ("bert-base", "bert-base", 1),
];
/// Requests that run at once by the plan, which holds none of four networks, and fewer than there
/// are networks.
const K: u32 = 16;
const FEWER_K: u32 = 2;
/// Least part of its rate with which a role counts as one that goes on, as the plan asks of 8.1.1.
const RUNS: f64 = 0.1;
/// Upper limit of frames over those without a scheduler: the plan has them nine times better.
const FRAMES_OVER_NATIVE: f64 = 0.111;
/// How long a training job waits for the data of its next iteration.
const DATA_MS: f64 = 14.0;

/// 8.1.1. Where the production job waits for its data, others can have the device meanwhile.
pub(super) fn training(setting: Setting) -> Definition {
    let mut row = Definition::new("8.1.1", "GPU harvesting, training", "harvesting_training");
    row.figure = Some("13");
    // With a smaller batch the host's launches take longer than the kernels.
    let one = |name| role(name, "resnet50-train").dtype("bf16").batch(128);
    let all = [Way::Native, Way::Xsched, Way::Mps, Way::MpsPercent];
    let endless = one("production").endless(2);
    let paused = one("production").paused(DATA_MS);
    for (name, whose, production, ways) in
        [("processes", "plan", endless, &all[..]), ("waits for data", "ours", paused, &all[..2])]
    {
        let roles = vec![
            production.priority(10).share(80),
            one("opportunistic").endless(2).priority(-10).share(20),
        ];
        let group = Group::new(name, Granularity::Processes, roles).samples(200).ways(ways);
        let cell = group.cell_name(Way::Xsched);
        let kept = |role, goal| {
            let what = format!("{name}: {role}'s rate over its rate alone");
            GoalPlan::new(whose, &what, (&cell, role, KEPT), goal)
        };
        row.goals.push(kept("production", Goal::AtLeast(0.95)));
        row.goals.push(kept("opportunistic", Goal::AtLeast(RUNS)));
        row.plan.cells.extend(group.cells(setting));
    }
    row.results = results([
        ("production_throughput_native", "processes, native", "production", KEPT),
        ("opportunistic_throughput_native", "processes, native", "opportunistic", KEPT),
        ("production_throughput_xsched", "processes, xsched", "production", KEPT),
        ("opportunistic_throughput_xsched", "processes, xsched", "opportunistic", KEPT),
    ]);
    row.notes.push(
        "vCUDA and TGS are models in the simulator: `xsched sim paper --only 8.1.1,8.1.2`."
            .to_owned(),
    );
    row
}

/// 8.1.2.
pub(super) fn mixed(setting: Setting) -> Definition {
    let mut row = Definition::new("8.1.2", "GPU harvesting, mixed", "harvesting_mixed");
    row.figure = Some("13");
    row.needs = "PyTorch, a compiler for the kernels";
    for (name, whose, passes, pause_ms) in
        [("processes", "plan", 32, 20.0), ("short requests", "ours", 8, 6.0)]
    {
        let production = role("production", "black-scholes").option("passes", passes);
        let roles = vec![
            production.priority(10).share(60).paused(pause_ms),
            role("opportunistic", "cfd").priority(-10).share(40).endless(2),
        ];
        let group = Group::new(name, Granularity::Processes, roles);
        let group = group.ways(&[Way::Native, Way::Xsched, Way::Mps, Way::MpsPercent]);
        let cell = group.cell_name(Way::Xsched);
        row.goals.push(GoalPlan::new(
            whose,
            &format!("{name}: production's mean latency over that alone"),
            (&cell, "production", "mean_over_alone"),
            Goal::AtMost(1.05),
        ));
        row.goals.push(runs(&cell, "opportunistic"));
        row.plan.cells.extend(group.cells(setting));
    }
    row.results = results([
        ("production_latency_native", "processes, native", "production", "mean_over_alone"),
        ("production_latency_xsched", "processes, xsched", "production", "mean_over_alone"),
        ("opportunistic_throughput_xsched", "processes, xsched", "opportunistic", "kept"),
    ]);
    row
}

/// 8.2.1.
pub(super) fn conference(setting: Setting) -> Definition {
    let mut row = Definition::new("8.2.1", "Video conferencing", "video_conferencing");
    row.figure = Some("14");
    row.needs = "PyTorch, TorchVision, Transformers";
    let speech_ms = if setting.hal == Hal::Host { HOST_SPEECH_MS } else { SPEECH_MS };
    let laxity_ms = speech_ms * (1.0 - LAXITY_PART);
    let frame = role("frame", "deeplabv3").dtype("fp16").priority(10);
    let speech = role("speech", "whisper").dtype("fp16").priority(-10).option("size", "small");
    let roles = vec![
        frame.load(Load::Periodic { every_ms: FRAME_MS }),
        speech
            .deadline(speech_ms)
            .option("laxity_ms", laxity_ms * HOST_SCALE)
            .load(Load::Periodic { every_ms: speech_ms }),
    ];
    let group = Group::new("processes", Granularity::Processes, roles);
    let hpf = group.clone();
    let group = group.policy("lax").ways(&[Way::Native, Way::Xsched, Way::Mps]);
    let group = group.variable_of(1, "XSCHED_AUTO_XQUEUE_LAXITY", laxity_ms * 1e3);
    row.plan.cells = group.cells(setting);
    let title = "processes, xsched, hpf".to_owned();
    row.plan.cells.push(hpf.cell(Way::Xsched, title.clone(), setting));
    let cell = group.cell_name(Way::Xsched);
    let goal = |what: &str, (role, quantity), goal| {
        GoalPlan::new("plan", what, (&cell, role, quantity), goal)
    };
    row.goals = vec![
        goal("P99 of frames in ms", ("frame", "p99_ms"), Goal::AtMost(100.0)).time(),
        goal("the longest transcription in ms", ("speech", "max_ms"), Goal::AtMost(SPEECH_MS))
            .time(),
        goal(
            "P99 of frames over that without XSched",
            ("frame", P99_OVER_NATIVE),
            Goal::AtMost(FRAMES_OVER_NATIVE),
        ),
        runs(&cell, "speech"),
    ];
    row.results = results([
        ("frame_p99_native_ms", "processes, native", "frame", "p99_ms"),
        ("frame_p99_xsched_ms", "processes, xsched", "frame", "p99_ms"),
        ("transcription_max_native_ms", "processes, native", "speech", "max_ms"),
        ("transcription_max_xsched_ms", "processes, xsched", "speech", "max_ms"),
        ("transcription_max_hpf_ms", "processes, xsched, hpf", "speech", "max_ms"),
    ]);
    row
}

/// Two models of an inference server, of which one is urgent.
fn served(load: Load) -> Vec<RolePlan> {
    let one = |name| role(name, "bert-large").dtype("fp16").graph(true);
    vec![one("high").priority(10).load(load), one("low").priority(-10).endless(4)]
}

/// 8.3.1.
pub(super) fn server(setting: Setting) -> Definition {
    let mut row = Definition::new("8.3.1", "Inference server", "inference_serving");
    row.figure = Some("15");
    row.needs = "a Triton server, PyTorch, Transformers";
    let ways = [Way::Native, Way::Xsched, Way::TritonPriorities, Way::TritonRateLimiter];
    let closed = Load::Closed { pause_ms: 20.0, jitter_ms: 2.0, requests: None };
    for (name, whose, load) in [
        ("triton", "plan", Load::Poisson { per_s: URGENT_PER_S }),
        ("triton, closed", "ours", closed.clone()),
    ] {
        let group = Group::new(name, Granularity::Processes, served(load)).triton().ways(&ways);
        row.goals.extend(of_server(&group, whose));
        row.plan.cells.extend(group.cells(setting));
    }
    // Each start of a server serves both loads.
    row.plan.cells.sort_by_key(|cell| cell.way);
    // The plan's third model, which has the default priority.
    let norm = served(closed.clone()).remove(1);
    let norm = RolePlan { spec: RoleSpec { name: "norm".to_owned(), ..norm.spec }, ..norm };
    let mut three = served(closed.clone());
    three.insert(1, norm.priority(0));
    let group = Group::new("triton, three models", Granularity::Processes, three).triton();
    let group = group.ways(&[Way::Native, Way::Xsched, Way::TritonPriorities]);
    row.goals.extend(of_server(&group, "ours"));
    row.plan.cells.extend(group.cells(setting));
    let group = Group::new("without a server", Granularity::Processes, served(closed));
    let group = group.ways(&[Way::Native, Way::Xsched, Way::Mps]);
    row.goals.extend(of_server(&group, "ours"));
    row.plan.cells.extend(group.cells(setting));
    row.results = results([
        ("high_p99_standalone_ms", "triton, native", "high", "alone_p99_ms"),
        ("high_p99_native_ms", "triton, native", "high", "p99_ms"),
        ("high_p99_xsched_ms", "triton, xsched", "high", "p99_ms"),
        ("low_throughput_native", "triton, native", "low", "kept"),
        ("low_throughput_xsched", "triton, xsched", "low", "kept"),
    ]);
    row
}

/// Returns the goals of a server: the urgent model as if alone, 30 % better than without XSched,
/// and the other one goes on.
fn of_server(group: &Group, whose: &'static str) -> [GoalPlan; 3] {
    let cell = group.cell_name(Way::Xsched);
    let goal = |over: &str, quantity, most| {
        let what = format!("P99 of high over its P99 {over} ({cell})");
        GoalPlan::new(whose, &what, (&cell, "high", quantity), Goal::AtMost(most))
    };
    [
        goal("alone", "p99_over_alone", 1.1),
        goal("without XSched", P99_OVER_NATIVE, 0.7),
        runs(&cell, "low"),
    ]
}

/// A role below another one goes on.
fn runs(cell: &str, role: &'static str) -> GoalPlan {
    let what = format!("{role}'s rate over its rate alone ({cell})");
    GoalPlan::new("ours", &what, (cell, role, KEPT), Goal::AtLeast(RUNS))
}

/// 8.3.2.
pub(super) fn arrivals(setting: Setting) -> Definition {
    let mut row = Definition::new("8.3.2", "Log-normal arrivals", "arrivals");
    row.figure = Some("15");
    row.needs = "PyTorch, TorchVision";
    let is_host = setting.hal == Hal::Host;
    for rate in if is_host { HOST_RATES } else { RATES } {
        let each = f64::from(rate) / NETWORKS.len() as f64;
        // Times of stand-ins are scaled, and these rates are made for them.
        let per_s = if is_host { each * HOST_SCALE } else { each };
        let roles = NETWORKS.map(|(name, work, batch)| {
            let one = role(name, work).dtype("fp16").graph(true).batch(batch).deadline(30_000.0);
            one.load(Load::Lognormal { per_s, sigma: 2.0 })
        });
        let group =
            Group::new(format!("{rate} per s"), Granularity::Threads, roles.into()).alone(&[]);
        let kedf = |k: u32| {
            let kedf = group.clone().policy("kedf").variable("XSCHED_AUTO_XQUEUE_KDEADLINE", k);
            kedf.variable("XSCHED_AUTO_XQUEUE_DEADLINE", 30_000_000)
        };
        row.plan.cells.extend(kedf(K).cells(setting));
        let title = format!("{rate} per s, xsched, fcfs");
        row.plan.cells.push(group.clone().policy("fcfs").cell(Way::Xsched, title, setting));
        if rate == 1_000 || is_host && rate == HOST_RATES[0] {
            let fewer = format!("{rate} per s, xsched, K {FEWER_K}");
            row.plan.cells.push(kedf(FEWER_K).cell(Way::Xsched, fewer.clone(), setting));
            for (cell, k) in [(kedf(K).cell_name(Way::Xsched), K), (fewer, FEWER_K)] {
                let over = "P99 of resnet50 over that without XSched";
                row.goals.push(GoalPlan::new(
                    "ours",
                    &format!("{over}, {rate} requests/s, K = {k}"),
                    (&cell, "resnet50", P99_OVER_NATIVE),
                    Goal::AtMost(1.0),
                ));
            }
        }
    }
    // Without a scheduler first, and each start of the programs serves all rates.
    let k = |cell: &CellPlan| cell.processes.first().map(|one| one.environment.clone());
    row.plan.cells.sort_by_key(|cell| (cell.way, cell.policy == Some("fcfs"), k(cell)));
    row.notes.push(
        "Paella is a model in the simulator: `xsched sim paper --only 8.3.2`. Here K-EDF is set \
         beside FCFS and no scheduler."
            .to_owned(),
    );
    row
}

/// A language model's chat beside summaries in batches.
pub(super) fn language(setting: Setting) -> Definition {
    let mut row = Definition::new("llm", "Language model, chat beside batches", "language_model");
    row.needs = "PyTorch, Transformers";
    let one = |name| role(name, "llm").dtype("bf16").graph(true);
    let chat = one("chat").priority(10).option("new_tokens", 32);
    let roles = vec![
        chat.load(Load::Poisson { per_s: 4.0 }),
        one("batch").priority(-10).option("new_tokens", 64).endless(16),
    ];
    let group = Group::new("processes", Granularity::Processes, roles).samples(300);
    let group = group.ways(&[Way::Native, Way::Xsched, Way::Mps]);
    let cell = group.cell_name(Way::Xsched);
    let goal = |what: &str, quantity, most| {
        GoalPlan::new("ours", what, (&cell, "chat", quantity), Goal::AtMost(most))
    };
    row.goals = vec![
        goal("P50 to the first token over that alone", "first_token_p50_over_alone", 1.3),
        goal("P50 per token over that alone", "per_token_p50_over_alone", 1.3),
        GoalPlan::new("ours", "the batches' tokens", (&cell, "batch", "same"), Goal::AtLeast(1.0)),
        runs(&cell, "batch"),
    ];
    row.plan.cells = group.cells(setting);
    row
}
