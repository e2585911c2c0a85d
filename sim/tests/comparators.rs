//! Characteristics of each system that XSched is compared with.

#[path = "theory/build.rs"]
mod build;

use build::{
    MS, S, US, assert_sound, device, once, parse, periodic, run_checked, runs, scenario,
    slow_device, task, us,
};
use xsched_sim::outcome::Outcome;
use xsched_sim::run::{RunError, RunOptions, run};
use xsched_sim::scenario::{Comparators, System};
use xsched_sim::scenario::{Concurrency, DeviceSpec, Dist, Scenario, TaskSpec};

/// The tasks on a device under a system with its default parameters.
fn under(system: System, tasks: Vec<TaskSpec>) -> Scenario {
    let comparators = Comparators { system: Some(system), ..Comparators::default() };
    Scenario { comparators, duration_ns: Some(2 * S), ..scenario(device(), tasks) }
}

/// A task that always has commands of this length.
fn endless(name: &str, command_ns: u64) -> TaskSpec {
    TaskSpec { commands: 50, command: Dist::Constant(command_ns), ..task(name) }
}

/// Part of the time in which the device ran commands of a task.
fn part(outcome: &Outcome, task: usize) -> f64 {
    outcome.tasks[task].device_time_ns as f64 / outcome.duration_ns as f64
}

/// Without the checkers, for runs that are long.
fn run_long(scenario: &Scenario, duration_ns: u64) -> Outcome {
    build::run_fast(&Scenario { duration_ns: Some(duration_ns), ..scenario.clone() }, 1)
}

/// Part of a run of 2 s that this many commands of this length take.
fn part_of_2_s(commands: u64, command_ns: u64) -> f64 {
    (commands * command_ns) as f64 / (2 * S) as f64
}

fn assert_near(value: f64, expected: f64, within: f64) {
    assert!((value - expected).abs() <= within, "{value} is not within {within} of {expected}");
}

#[test]
fn native_streams_take_turns_and_know_no_priorities() {
    let urgent = TaskSpec { priority: 100, ..endless("urgent", 100 * US) };
    let outcome = run_checked(&under(System::Native, vec![endless("a", 100 * US), urgent]), 1);
    // They take turns command by command, so neither is ahead by more than the one that runs.
    let within = part_of_2_s(1, 100 * US);
    assert_near(part(&outcome, 0), 0.5, within);
    assert_near(part(&outcome, 1), 0.5, within);
    assert_eq!(outcome.devices[0].preemptions, 0);
    assert_eq!(outcome.policy, "native");
}

#[test]
fn time_slices_alternate_and_cut_kernels() {
    let comparators = Comparators {
        system: Some(System::Timeslice),
        slice_ns: 2 * MS,
        switch_ns: 100 * US,
        ..Comparators::default()
    };
    let tasks = vec![once("a", 1, 5 * MS), once("b", 1, 3 * MS)];
    let outcome = run_checked(&Scenario { comparators, ..scenario(device(), tasks) }, 1);
    // a 0-2, b 2.1-4.1, a 4.2-6.2, b 6.3-7.3, a 7.4-8.4.
    assert_eq!(outcome.tasks[0].latencies_ns, [8_400 * US]);
    assert_eq!(outcome.tasks[1].latencies_ns, [7_300 * US]);
    assert_eq!(outcome.devices[0].overhead_ns, 400 * US);
}

#[test]
fn time_slices_are_for_processes_not_for_tasks() {
    let mut scenario = under(System::Timeslice, vec![]);
    scenario.comparators.switch_ns = 0;
    scenario.processes = vec![build::locked(xsched_sim::scenario::LockOrder::Fair)];
    scenario.processes[0].lock = None;
    // With two requests each, no task ever runs out of work in the middle of a slice.
    let busy = |name| TaskSpec { outstanding: 2, ..endless(name, 100 * US) };
    let of_one = |name| TaskSpec { process: Some(0), ..busy(name) };
    scenario.tasks = vec![of_one("a"), of_one("b"), busy("c")];
    let outcome = run_checked(&scenario, 1);
    // The run may end within a slice; until then, processes have had equally many.
    let within = part_of_2_s(1, scenario.comparators.slice_ns);
    for (task, expected) in [0.25, 0.25, 0.5].into_iter().enumerate() {
        assert_near(part(&outcome, task), expected, within);
    }
}

#[test]
fn mps_runs_processes_together_at_half_rate() {
    let tasks = vec![once("a", 1, 4 * MS), once("b", 1, 4 * MS)];
    let both = Scenario { duration_ns: None, ..under(System::Mps, tasks) };
    let outcome = run_checked(&both, 1);
    assert_eq!(us(runs(&outcome, 0)), [(0, 8_000)]);
    assert_eq!(us(runs(&outcome, 1)), [(0, 8_000)]);
}

#[test]
fn mps_limits_hold_for_a_process_that_is_alone() {
    let limited = TaskSpec { share: Some(25), ..once("a", 1, 4 * MS) };
    let alone = Scenario { duration_ns: None, ..under(System::Mps, vec![limited]) };
    assert_eq!(us(runs(&run_checked(&alone, 1), 0)), [(0, 16_000)]);
}

#[test]
fn a_quota_is_kept_and_the_rest_is_idle() {
    let half = TaskSpec { share: Some(50), ..endless("half", 100 * US) };
    let outcome = run_checked(&under(System::Vcuda, vec![half]), 1);
    // A quota of 60 ms in each of the 16 windows of 120 ms that are over, and another in the 80 ms
    // of the last. One command may overdraw the last quota.
    let (expected, within) = (part_of_2_s(17, 60 * MS), part_of_2_s(1, 100 * US));
    assert_near(part(&outcome, 0), expected, within);
    let busy = outcome.devices[0].busy_ns as f64 / outcome.duration_ns as f64;
    assert_near(busy, expected, within);
}

#[test]
fn quotas_hold_for_commands_longer_than_a_window() {
    let long = TaskSpec { share: Some(30), commands: 1, ..endless("long", 200 * MS) };
    let short = TaskSpec { share: Some(60), ..endless("short", 300 * US) };
    let outcome = run_long(&under(System::Vcuda, vec![long, short]), 20 * S);
    // 20 s are 166 windows of 120 ms and most of another. A command may begin with the last rest of
    // a quota and runs to its end; later windows pay for it.
    let command = 200.0 / 20_000.0;
    assert_near(part(&outcome, 0), 0.3, command);
    let quotas = 167.0 * 0.6 * 120.0 + 0.3;
    assert!(part(&outcome, 1) <= quotas / 20_000.0, "{}", part(&outcome, 1));
}

#[test]
fn rate_control_lets_production_have_nearly_everything() {
    let production = TaskSpec { priority: 1, ..endless("production", 100 * US) };
    let tasks = vec![production, endless("opportunistic", 100 * US)];
    let outcome = run_long(&under(System::Tgs, tasks), 200 * S);
    // The allowance grows by `tgs_increase` while the drop is within `tgs_tolerance`, so production
    // loses no more than both together.
    let Comparators { tgs_tolerance, tgs_increase, tgs_start, .. } = Comparators::default();
    let least = 1.0 - tgs_tolerance - tgs_increase;
    assert!(part(&outcome, 0) >= least, "production has {}", part(&outcome, 0));
    // The allowance begins with `tgs_start`, and grows while it costs production less than the
    // tolerance. A cut takes a third of it at most, when it is above the tolerance.
    let least = tgs_start;
    assert!(part(&outcome, 1) >= least, "opportunistic has {}", part(&outcome, 1));
}

#[test]
fn rate_control_gives_away_what_production_leaves() {
    let production = TaskSpec {
        priority: 1,
        arrival: periodic(10 * MS),
        commands: 40,
        command: Dist::Constant(100 * US),
        ..task("production")
    };
    let tasks = vec![production.clone(), endless("opportunistic", 100 * US)];
    let alone = run_long(&under(System::Tgs, vec![production]), 400 * S);
    let outcome = run_long(&under(System::Tgs, tasks), 400 * S);
    let Comparators { tgs_tolerance, tgs_increase, tgs_start, .. } = Comparators::default();
    let least = (1.0 - tgs_tolerance - tgs_increase) * part(&alone, 0);
    assert!(part(&outcome, 0) >= least, "production has {}", part(&outcome, 0));
    // What production leaves, but not in all of the 80 intervals: in two its rate is learnt, and as
    // many are needed to grow by half in each from `tgs_start` to what is left.
    let left = 1.0 - part(&alone, 0);
    let grows = ((left / tgs_start).ln() / 1.5_f64.ln()).ceil();
    let least = left * (80.0 - 2.0 - grows) / 80.0;
    assert!(part(&outcome, 1) >= least, "opportunistic has {}", part(&outcome, 1));
}

#[test]
fn rate_control_frees_the_device_when_production_is_through() {
    let production = TaskSpec { priority: 1, requests: Some(100), ..endless("p", 100 * US) };
    let tasks = vec![production, endless("opportunistic", 100 * US)];
    let outcome = run_long(&under(System::Tgs, tasks), 60 * S);
    // Production launches in the first interval of 5 s alone. At the end of the second, the device
    // is free for the 50 s that are left, less the command that runs at the end.
    let least = (50.0 * 1e9 - 1e5) / 60e9;
    assert!(part(&outcome, 1) >= least, "opportunistic has {}", part(&outcome, 1));
}

/// A task that waits for a time asks once when it has come, and not once for each time it has
/// asked.
#[test]
fn waiting_for_an_allowance_does_not_multiply_events() {
    let production = TaskSpec {
        priority: 1,
        arrival: build::think(Dist::Constant(6 * MS)),
        commands: 40,
        ..endless("production", 100 * US)
    };
    let greedy = TaskSpec { outstanding: 2, ..endless("opportunistic", 40 * US) };
    let per_command = |system| {
        let outcome = run_long(&under(system, vec![production.clone(), greedy.clone()]), 60 * S);
        let ran: u64 = outcome.tasks.iter().map(|task| task.device_time_ns).sum();
        outcome.events as f64 / (ran / (40 * US)) as f64
    };
    // A command that is kept back costs one event more, when its time has come; one that is not
    // kept back costs the same as without a gate.
    let (gated, free) = (per_command(System::Tgs), per_command(System::Native));
    assert!(gated < 2.0 * free + 1.0, "{gated} events for each command, {free} without a gate");
}

#[test]
fn paella_takes_the_shortest_request_first() {
    let short = TaskSpec { start_ns: 10 * MS, ..once("short", 20, 100 * US) };
    let tasks = vec![once("long", 1_000, 100 * US), short];
    let paella = Scenario { duration_ns: None, ..under(System::Paella, tasks) };
    let outcome = run_checked(&paella, 1);
    // Its own 2 ms and the two kernels that are in flight when it comes.
    assert!(outcome.tasks[1].latencies_ns[0] <= 2_200 * US, "{:?}", outcome.tasks[1]);
    // All 1,020 kernels, one after the other.
    assert_eq!(outcome.tasks[0].latencies_ns, [102 * MS]);
}

#[test]
fn paella_gives_a_request_two_kernels_at_a_time() {
    let tasks = (0..4).map(|n| once(&format!("t{n}"), 100, 100 * US)).collect();
    let mut paella = Scenario { duration_ns: None, ..under(System::Paella, tasks) };
    paella.devices = vec![build::sharing(0.0)];
    paella.comparators.paella_in_flight = 8;
    // There is room for all four side by side, and no task takes another's.
    for task in run_checked(&paella, 1).tasks {
        assert_eq!(task.latencies_ns, [10 * MS], "{}", task.name);
    }
}

#[test]
fn paella_does_not_starve_a_long_request() {
    let short = |name| TaskSpec { commands: 10, ..endless(name, 100 * US) };
    let long = once("long", 1_000, 100 * US);
    let fair = under(System::Paella, vec![short("a"), short("b"), long]);
    let outcome = run_checked(&fair, 1);
    // Its fair part is a third of the device. It waits until it is 50 ms behind, and then has its
    // part for 100 ms of work; the two kernels in flight come first.
    assert_eq!(outcome.tasks[2].latencies_ns.len(), 1);
    let most = 3 * (50 * MS + 100 * MS) + 2 * 100 * US;
    assert!(outcome.tasks[2].latencies_ns[0] <= most, "{:?}", outcome.tasks[2]);
    let mut never = fair;
    never.comparators.paella_deficit_ns = 100 * S;
    assert_eq!(run_checked(&never, 1).tasks[2].latencies_ns.len(), 0, "without the threshold");
}

#[test]
fn triton_orders_requests_by_priority_and_stops_none() {
    let with = |name, priority, start_ns| TaskSpec { priority, start_ns, ..once(name, 10, MS) };
    let tasks = vec![
        with("running", 0, 0),
        with("first", 0, MS),
        with("second", 0, 2 * MS),
        with("urgent", 5, 3 * MS),
    ];
    let triton = Scenario { duration_ns: None, ..under(System::Triton, tasks) };
    let outcome = run_checked(&triton, 1);
    // Requests of 10 ms run from 0 (the one that is there), 10 (the urgent one, which came at 3),
    // 20 (came at 1) and 30 ms (came at 2).
    let latency_ms = |task: usize| outcome.tasks[task].latencies_ns[0] / MS;
    assert_eq!([0, 3, 1, 2].map(latency_ms), [10, 17, 29, 38]);
}

#[test]
fn triton_with_two_instances_runs_two_requests() {
    let tasks = vec![once("a", 1, 4 * MS), once("b", 1, 4 * MS), once("c", 1, 4 * MS)];
    let mut triton = Scenario { duration_ns: None, ..under(System::Triton, tasks) };
    triton.devices = vec![build::sharing(0.0)];
    triton.comparators.triton_running = 2;
    let outcome = run_checked(&triton, 1);
    assert_eq!(us(runs(&outcome, 1)), [(0, 4_000)]);
    assert_eq!(us(runs(&outcome, 2)), [(4_000, 8_000)]);
}

#[test]
fn triton_runs_one_request_of_a_model_at_a_time() {
    let greedy = TaskSpec { outstanding: 4, ..endless("greedy", 100 * US) };
    let urgent = TaskSpec { priority: 1, start_ns: MS, ..once("urgent", 10, 100 * US) };
    let mut triton = under(System::Triton, vec![greedy, urgent]);
    triton.devices = vec![build::sharing(0.0)];
    triton.comparators.triton_running = 2;
    // The second instance is the urgent one's, however much the other has waiting.
    assert_eq!(run_checked(&triton, 1).tasks[1].latencies_ns, [MS]);
}

#[test]
fn synchronous_launching_pays_a_round_trip_for_each_command() {
    let tasks = vec![once("a", 10, 100 * US)];
    let sync = Scenario { devices: vec![slow_device()], ..under(System::Sync, tasks) };
    let outcome = run_checked(&Scenario { duration_ns: None, ..sync }, 1);
    // Each launch call takes 3, the launch 4, the command 100 and seeing its end 8; the thread
    // itself returns 5 later.
    assert_eq!(outcome.tasks[0].latencies_ns, [(10 * 115 + 5) * US]);
}

#[test]
fn synchronous_launching_preempts_between_commands() {
    let urgent = TaskSpec { priority: 1, start_ns: 250 * US, ..once("urgent", 1, 100 * US) };
    let sync = under(System::Sync, vec![endless("low", 100 * US), urgent]);
    let outcome = run_checked(&sync, 1);
    // The rest of the command that runs, and its own.
    assert!(outcome.tasks[1].latencies_ns[0] <= 200 * US);
}

#[test]
fn every_system_runs_with_locks_dependencies_and_latencies_and_repeats_itself() {
    let text = include_str!("../scenarios/comparators.toml");
    for system in System::ALL {
        let scenario = parse(text);
        let options = RunOptions {
            policy: Some(system.name().to_owned()),
            checks: true,
            timeline_spans: 1_000,
            ..RunOptions::default()
        };
        let once = || run(&scenario, &options, &mut |_| {}).unwrap();
        let outcome = once();
        assert_sound(&outcome);
        assert_eq!(outcome.policy, system.name());
        let finished = |task: &xsched_sim::outcome::TaskOutcome| !task.latencies_ns.is_empty();
        assert!(outcome.tasks.iter().all(finished), "{system}: {:?}", outcome.tasks);
        assert_eq!(outcome, once(), "{system}");
    }
}

#[test]
fn nothing_is_forgotten_on_any_kind_of_device() {
    let concurrencies = [
        Concurrency::RoundRobin,
        Concurrency::Exclusive,
        Concurrency::ProcessorSharing { contention: 0.7 },
    ];
    for (system, seed) in System::ALL.into_iter().flat_map(|s| (1..=6).map(move |n| (s, n))) {
        let mut scenario = parse(include_str!("../scenarios/comparators.toml"));
        scenario.comparators.system = Some(system);
        scenario.comparators.paella_in_flight = 1 + seed as u32 % 3;
        scenario.comparators.triton_running = 1 + seed as u32 % 2;
        scenario.devices[0].concurrency = concurrencies[seed as usize % 3];
        scenario.devices[0].launch_queue = [4, 16, 1_024][seed as usize / 2 % 3];
        if seed % 2 == 0 {
            let free = device();
            scenario.scheduler_latency_ns = 0;
            scenario.devices[0] = DeviceSpec { concurrency: concurrencies[0], ..free };
        }
        // A task that is kept waiting for ever keeps the run from ending well.
        (scenario.duration_ns, scenario.warmup_ns) = (None, 0);
        for task in &mut scenario.tasks {
            task.requests = Some(12);
        }
        let outcome = run_checked(&scenario, seed);
        for task in &outcome.tasks {
            assert_eq!(task.latencies_ns.len(), 12, "{system}, seed {seed}: {}", task.name);
        }
    }
}

#[test]
fn names_are_those_of_the_documentation() {
    for system in System::ALL {
        assert_eq!(system.name().parse(), Ok(system));
        assert_eq!(system.name().to_uppercase().parse(), Ok(system));
        let page = include_str!("../../docs/src/guides/simulate.md");
        assert!(page.contains(&format!("`{system}`")), "{system} is not documented");
    }
    let error = "nvidia".parse::<System>().unwrap_err().to_string();
    assert!(error.ends_with(&System::names()), "{error}");
}

#[test]
fn an_unknown_name_is_an_error_with_the_known_ones() {
    let options = RunOptions { policy: Some("unheard-of".to_owned()), ..RunOptions::default() };
    let result = run(&scenario(device(), vec![once("a", 1, US)]), &options, &mut |_| {});
    let error = result.unwrap_err();
    assert!(matches!(error, RunError::UnknownName { .. }));
    assert!(error.to_string().contains("native, timeslice, mps, vcuda, tgs, paella, triton, sync"));
}

#[test]
fn a_file_names_a_system_or_a_policy() {
    let with = |line: &str| {
        let text = include_str!("../scenarios/comparators.toml");
        let text = text.replace("system = \"timeslice\"\n", line);
        Scenario::parse(&text, std::path::Path::new("x.toml"))
    };
    assert_eq!(with("system = \"tgs\"\n").unwrap().comparators.system, Some(System::Tgs));
    let error = with("system = \"cuda\"\n").unwrap_err().to_string();
    assert!(error.contains("system: must be one of \"native\", \"timeslice\""), "{error}");
    let error = with("system = \"tgs\"\npolicy = \"hpf\"\n").unwrap_err().to_string();
    assert!(error.contains("policy: only used without `system`"), "{error}");
}
