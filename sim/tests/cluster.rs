//! Rates of jobs on a GPU in the simulation of clusters, beside the simulator of commands.

#[path = "theory/build.rs"]
mod build;

use build::{MS, US, device, exponential, prioritised, run_fast, task, think};
use xsched_sim::cluster::{Resident, Way, progress};
use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::{
    DaemonSpec, DeviceSpec, Dist, JobClass, Scenario, SharingSpec, TaskSpec,
};

/// Length of a run, in which jobs of a period of 20 ms have 2,500 requests alone.
const DURATION_NS: u64 = 50_000 * MS;
/// Time of a request and the pause behind it, alone.
const PERIOD_NS: u64 = 20 * MS;
const COMMAND_NS: u64 = 100 * US;
/// How far a rate may be from that of the commands.
const WITHIN: f64 = 0.06;
/// How far, where jobs of one class take turns of 10 ms: one whose requests fit into a turn waits
/// less than one whose requests do not, of which the rates know nothing.
const WITHIN_IN_TURNS: f64 = 0.14;
/// How far the busy part of the GPU may be from that of the commands.
const WITHIN_BUSY: f64 = 0.05;

const FREE: SharingSpec =
    SharingSpec { jobs_max: 4, floor: 0.05, beside: 1.0, gate: 0.0, hold: 0.0 };

fn job(class: JobClass, duty: f64) -> Resident {
    Resident { class, duty }
}

fn urgent(duty: f64) -> Resident {
    job(JobClass::Interactive, duty)
}

fn normal(duty: f64) -> Resident {
    job(JobClass::Normal, duty)
}

fn batch(duty: f64) -> Resident {
    job(JobClass::Batch, duty)
}

/// The jobs as processes whose requests have commands of 100 µs, and pauses at random.
fn commands(jobs: &[Resident]) -> Scenario {
    let of = |(index, job): (usize, &Resident)| {
        let busy_ns = PERIOD_NS as f64 * job.duty;
        let pause_ns = PERIOD_NS as f64 - busy_ns;
        let pause = if pause_ns > 1.0 { exponential(pause_ns) } else { Dist::Constant(0) };
        TaskSpec {
            arrival: think(pause),
            commands: (busy_ns / COMMAND_NS as f64) as u32,
            command: Dist::Constant(COMMAND_NS),
            priority: 100 - 100 * job.class as i16,
            ..task(&format!("job-{index}"))
        }
    };
    let device = DeviceSpec { gate_close_ns: 2 * US, gate_spacing_ns: 100 * US, ..device() };
    let tasks = jobs.iter().enumerate().map(of).collect();
    let wake = Dist::Constant(15 * US);
    let daemon = DaemonSpec { wake, decide_ns: 2 * US, spin_ns: 200 * US, idle_ns: 0 };
    Scenario {
        daemon: Some(daemon),
        duration_ns: Some(DURATION_NS),
        timeslice_ns: Some(10 * MS),
        floor_permille: 50,
        ..prioritised(device, 2, tasks)
    }
}

/// Compares the rates of jobs with the device time that their commands had.
fn compare(way: Way, jobs: &[Resident], device_ns: &[u64]) {
    let rates = progress(way, &FREE, jobs);
    let in_turns = jobs.windows(2).any(|pair| pair[0].class == pair[1].class && pair[0] != pair[1]);
    let within = if in_turns { WITHIN_IN_TURNS } else { WITHIN };
    let mut busy = 0.0;
    for ((job, rate), ns) in jobs.iter().zip(&rates).zip(device_ns) {
        let of_commands = *ns as f64 / DURATION_NS as f64;
        let difference = rate - of_commands / job.duty;
        assert!(difference.abs() < within, "{way:?} {jobs:?}: {rates:?}, {device_ns:?}");
        busy += rate * job.duty - of_commands;
    }
    assert!(busy.abs() < WITHIN_BUSY, "{way:?} {jobs:?}: busy by {busy} more");
}

#[test]
fn classes_get_what_the_daemon_gives_them() {
    let cases: [&[Resident]; 8] = [
        &[urgent(0.25), batch(1.0)],
        &[urgent(0.5), batch(0.6)],
        &[urgent(0.2), normal(0.4), batch(0.8)],
        &[urgent(1.0), batch(1.0)],
        &[batch(1.0), batch(1.0)],
        &[normal(0.5), normal(0.5)],
        &[normal(0.3), normal(0.5), normal(0.9)],
        &[urgent(0.1), batch(0.9), batch(0.5)],
    ];
    for jobs in cases {
        let outcome = run_fast(&commands(jobs), 1);
        let device_ns: Vec<u64> = outcome.tasks.iter().map(|task| task.device_time_ns).collect();
        compare(Way::Classes, jobs, &device_ns);
    }
}

#[test]
fn shares_get_what_time_slices_give_them() {
    let cases: [&[Resident]; 4] = [
        &[urgent(0.25), batch(1.0)],
        &[urgent(0.5), batch(0.6)],
        &[batch(1.0), batch(1.0)],
        &[normal(0.5), normal(0.5)],
    ];
    for jobs in cases {
        let mut scenario = commands(jobs);
        scenario.daemon = None;
        scenario.comparators.switch_ns = 0;
        let policy = Some("timeslice".to_owned());
        let options = RunOptions { policy, seed: Some(1), ..RunOptions::default() };
        let outcome = run(&scenario, &options, &mut |_| {}).expect("the scenario is sound");
        let device_ns: Vec<u64> = outcome.tasks.iter().map(|task| task.device_time_ns).collect();
        compare(Way::Shares, jobs, &device_ns);
    }
}
