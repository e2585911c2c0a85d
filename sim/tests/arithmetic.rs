//! Scenarios whose figures follow by arithmetic: shares, starvation, restores, rates.

#[path = "theory/build.rs"]
mod build;

use build::{
    MS, S, US, device, exclusive, once, parse, periodic, run_checked, scenario, spans, task, us,
};
use xsched_sim::outcome::{Outcome, SpanKind};
use xsched_sim::report::RunFigures;
use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::{Dist, Scenario, TaskSpec};

/// An endless task whose requests are one command of a length, two of them at a time.
fn endless(name: &str, command_ns: u64) -> TaskSpec {
    TaskSpec { command: Dist::Constant(command_ns), outstanding: 2, ..task(name) }
}

fn with_share(share: u8, task: TaskSpec) -> TaskSpec {
    TaskSpec { share: Some(share), ..task }
}

fn under(policy: &str, level: u8, duration_ns: u64, scenario: Scenario) -> Scenario {
    let (policy, duration_ns) = (policy.to_owned(), Some(duration_ns));
    Scenario { policy, level, duration_ns, ..scenario }
}

fn outcome(scenario: &Scenario) -> Outcome {
    run(scenario, &RunOptions::default(), &mut |_| {}).expect("the scenario is sound")
}

/// The share of the time that each task used the device.
fn shares(outcome: &Outcome) -> Vec<f64> {
    let duration = outcome.duration_ns as f64;
    outcome.tasks.iter().map(|task| task.device_time_ns as f64 / duration).collect()
}

#[test]
fn guaranteed_shares_hold_for_commands_longer_than_the_timeslice() {
    for level in [1, 2, 3] {
        for command_ns in [MS, 20 * MS, 70 * MS] {
            for device in [exclusive(), device()] {
                let pair = ["a", "b"].map(|name| with_share(50, endless(name, command_ns)));
                let both = under("spup", level, 20 * S, scenario(device.clone(), pair.to_vec()));
                let both = shares(&outcome(&both));
                let what = format!("level {level}, {command_ns} ns, {:?}", device.concurrency);
                // Half of the time each, less what is paid back at the end.
                assert!(both.iter().all(|share| (0.49..=0.51).contains(share)), "{what}: {both:?}");
                let alone = vec![with_share(50, endless("a", command_ns))];
                let alone =
                    shares(&outcome(&under("spup", level, 20 * S, scenario(device, alone))));
                assert!((0.49..=0.51).contains(&alone[0]), "{what}, alone: {alone:?}");
            }
        }
    }
}

#[test]
fn strict_shares_stay_upper_bounds_for_commands_longer_than_the_timeslice() {
    let tasks = vec![with_share(30, endless("a", 20 * MS)), with_share(20, endless("b", 15 * MS))];
    for level in [1, 2, 3] {
        let used =
            shares(&outcome(&under("spup", level, 20 * S, scenario(device(), tasks.clone()))));
        assert!((0.29..=0.305).contains(&used[0]), "level {level}: {used:?}");
        assert!((0.19..=0.205).contains(&used[1]), "level {level}: {used:?}");
    }
}

/// A task that has the device for 0.8 ms of each millisecond, above a command of 1 ms whose restore
/// takes 0.5 ms: it is interrupted 999 times before it has been restored.
fn interrupted_restores() -> Scenario {
    let mut device = device();
    device.restore_fixed_ns = 500 * US;
    device.save_context_ns = 100 * US;
    let high = TaskSpec {
        priority: 1,
        requests: Some(1_000),
        arrival: periodic(MS),
        command: Dist::Constant(800 * US),
        ..task("high")
    };
    let policy = "hpf".to_owned();
    Scenario { policy, level: 3, ..scenario(device, vec![high, once("low", 1, MS)]) }
}

#[test]
fn a_restore_that_is_interrupted_leaves_no_work_behind() {
    let outcome = run_checked(&interrupted_restores(), 1);
    // The first gap runs 0.2 ms of it, and 0.1 ms saves that. 0.8 ms are left after the last
    // request, which ends at 999.8 ms, and the restore.
    assert_eq!(outcome.tasks[1].latencies_ns, [999_800 * US + 500 * US + 800 * US]);
    let [device] = &outcome.devices[..] else { panic!("{:?}", outcome.devices) };
    // One save, 998 restores that take a gap of 0.2 ms (the first less by the save), and a whole
    // one.
    assert_eq!(device.switch_ns, 100 * US + 998 * 200 * US - 100 * US + 500 * US);
    assert_eq!(device.busy_ns, 1_000 * 800 * US + MS + device.switch_ns - 100 * US);
    // Restores are no commands: the command runs in the first gap and at the end.
    let runs = us(spans(&outcome, 1, SpanKind::Command));
    assert_eq!(runs, [(800, 1_000), (1_000_300, 1_001_100)]);
    assert_eq!(spans(&outcome, 1, SpanKind::Restore).len(), 999);
}

/// Eleven tasks take turns: each has a burst of a slice of level 0 less a gap, and is then idle for
/// long enough to start afresh. Before them the victim has 200 ms to come to the last level.
fn bursts(gap_ns: impl Fn(u64) -> u64) -> Vec<TaskSpec> {
    let burst = |n: u64| TaskSpec {
        start_ns: 200 * MS + n * 10 * MS,
        arrival: periodic(110 * MS),
        command: Dist::Constant(10 * MS - gap_ns(n)),
        ..task(&format!("burst{n}"))
    };
    (0..11).map(burst).collect()
}

#[test]
fn gaps_of_microseconds_do_not_end_a_wait_under_mlfq() {
    let victim = TaskSpec { threshold: 2, batch: 1, ..endless("victim", 100 * US) };
    for level in [1, 2, 3] {
        let mut tasks = bursts(|n| 50 * US + n * 2 * US);
        tasks.push(victim.clone());
        let scenario = under("mlfq", level, 20 * S, scenario(device(), tasks));
        let outcome = outcome(&Scenario { warmup_ns: S, ..scenario });
        // At the latest after half a second and a slice for each of the others (0.61 s) it has a
        // slice of 10 ms, which is 100 commands.
        let completed = outcome.tasks[11].latencies_ns.len();
        assert!(completed as f64 >= 19.0 / 0.62 * 100.0, "level {level}: {completed}");
    }
}

#[test]
fn a_command_that_gaps_only_suffice_to_restore_is_promoted_under_mlfq() {
    let mut device = device();
    device.restore_fixed_ns = 950 * US;
    let mut tasks = bursts(|_| MS);
    // On the last level when the bursts begin, with 5 ms to go.
    tasks.push(once("victim", 1, 205 * MS));
    let outcome = outcome(&under("mlfq", 3, 20 * S, scenario(device, tasks)));
    let latencies = &outcome.tasks[11].latencies_ns;
    assert!(latencies.iter().all(|ns| *ns < 820 * MS) && latencies.len() == 1, "{latencies:?}");
    assert!(outcome.devices[0].switches < 150, "{}", outcome.devices[0].switches);
}

#[test]
fn equal_processes_have_equal_shares_however_many_there_are() {
    for (count, each) in [(64, 780.0), (96, 520.0), (128, 390.0), (1_000, 50.0)] {
        let tasks = (0..count).map(|n| with_share(1, endless(&format!("t{n}"), MS / 10)));
        let scenario = scenario(device(), tasks.collect());
        let outcome = outcome(&under("pup", 2, 49_920 * MS / 10, scenario));
        let done = outcome.tasks.iter().map(|task| task.latencies_ns.len() as f64 / each);
        let (least, most) = done.fold((f64::MAX, 0f64), |(l, m), d| (l.min(d), m.max(d)));
        assert!(least > 0.75 && most < 1.25, "{count}: {least:.2} to {most:.2} of {each}");
    }
}

#[test]
fn waiting_behind_a_task_that_keeps_an_exclusive_device_is_no_violation() {
    let first = TaskSpec { threshold: 4, batch: 2, ..endless("a", MS) };
    let second = TaskSpec { threshold: 4, batch: 2, ..endless("b", MS) };
    let waits = TaskSpec { after: Some(0), ..second.clone() };
    for other in [second, waits] {
        let scenario = scenario(exclusive(), vec![first.clone(), other]);
        let outcome = run_checked(&under("fcfs", 1, 5 * S, scenario), 1);
        assert_eq!(outcome.tasks[1].latencies_ns.len(), 0);
        assert_eq!(outcome.tasks[0].latencies_ns.len(), 5_000);
    }
}

#[test]
fn checkers_look_at_each_of_many_queues_in_turn() {
    // A second of work, so that there are 500 looks at 1,000 of 2,500 queues.
    let tasks = (0..2_500).map(|n| once(&format!("t{n}"), 1, 400 * US)).collect();
    let outcome = run_checked(&scenario(device(), tasks), 1);
    let observed = outcome.checks["wakeup"].observed;
    assert!((500_000..510_000).contains(&observed), "{observed}");
}

#[test]
fn throughput_counts_what_ends_in_the_window() {
    let busy = TaskSpec { outstanding: 1_024, ..endless("a", MS) };
    for (duration_ns, warmup_ns) in [(2 * S, S), (10 * S, S), (10 * S, 0)] {
        let scenario = under("fcfs", 1, duration_ns, scenario(device(), vec![busy.clone()]));
        let figures = RunFigures::of(&outcome(&Scenario { warmup_ns, ..scenario }));
        // The device is never idle, and a command takes a millisecond.
        assert_eq!(figures.tasks[0].throughput_rps, Some(1_000.0), "{duration_ns}, {warmup_ns}");
        assert_eq!(figures.throughput_rps, Some(1_000.0));
    }
}

#[test]
fn arrivals_that_are_not_served_are_counted() {
    // 1,200 requests of 2 ms in a second, of which 500 fit.
    let text = "version = 1\nname = \"overload\"\npolicy = \"fcfs\"\nduration_s = 1\n\
         [[device]]\nname = \"d\"\n[[task]]\nname = \"t\"\n\
         arrival = { kind = \"periodic\", period_us = 833.333 }\n\
         command = { kind = \"constant\", ms = 2 }\n";
    let figures = RunFigures::of(&outcome(&parse(text)));
    let [task] = &figures.tasks[..] else { panic!("{:?}", figures.tasks) };
    assert!((495..=500).contains(&task.completed), "{}", task.completed);
    assert_eq!(task.completed + task.unfinished, 1_201);
    assert!(task.is_overloaded());
}

#[test]
fn equal_tasks_have_equal_parts_under_paella() {
    for outstanding in [1, 2, 4] {
        let one = |name| TaskSpec { outstanding, ..endless(name, MS) };
        let scenario = scenario(device(), vec![one("a"), one("b")]);
        let scenario = Scenario { duration_ns: Some(2 * S), ..scenario };
        let options = RunOptions { policy: Some("paella".to_owned()), ..RunOptions::default() };
        let outcome = run(&scenario, &options, &mut |_| {}).expect("the scenario is sound");
        let [a, b] = [0, 1].map(|task: usize| outcome.tasks[task].latencies_ns.len());
        // The first may get ahead by the threshold of 50 ms.
        assert!(a + b >= 1_996 && a.abs_diff(b) <= 104, "{outstanding}: {a} and {b}");
    }
}

#[test]
fn holds_are_drawn_with_their_level() {
    let high = TaskSpec { priority: 1, start_ns: MS, ..once("high", 1, MS) };
    for level in [1, 2, 3] {
        let tasks = vec![once("low", 10, MS), high.clone()];
        let scenario = Scenario { policy: "hpf".to_owned(), level, ..scenario(device(), tasks) };
        let timeline = run_checked(&scenario, 1).timeline.expect("a timeline was asked for");
        let holds = timeline.spans.iter().filter(|span| span.kind == SpanKind::Hold);
        let levels: Vec<_> = holds.map(|span| span.number).collect();
        assert_eq!(levels, [u64::from(level)]);
    }
}
