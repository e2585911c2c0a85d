//! `xsched-lab bench preempt`.

use std::fmt::Write;

use clap::{Args, value_parser};
use serde::Serialize;
use xsched_core::level::Level;
use xsched_sim::run::RunError;

use super::args::{PredictFlags, SpinArgs};
use super::common::{self, prediction};
use crate::bench::preempt::{Plan, Results, Row, run};
use crate::device::BenchDevice;
use crate::device::hal::on_device;
use crate::device::mode::{Mode, SPACING_US};
use crate::error::CommandError;
use crate::predict;
use crate::stats::P99_SAMPLES;
use crate::threads::{BusyThread, Usage};
use xsched_console::Ending;
use xsched_console::machine::default_threads;

/// Most samples of a bench for each level.
const MAX_SAMPLES: i64 = 10_000_000;

#[derive(Debug, Args)]
pub(crate) struct PreemptArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    #[command(flatten)]
    pub(crate) predict: PredictFlags,
    /// Holds in each combination; a P99 and a verdict need 1000.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    #[arg(value_parser = value_parser!(u32).range(1..=MAX_SAMPLES))]
    pub(crate) samples: u32,
    /// Preemption levels, 1 to 3, with commas between; by default all that the device has.
    #[arg(long = "level", value_name = "N,N", value_delimiter = ',')]
    pub(crate) levels: Vec<u8>,
    /// Lengths of the victim's commands in microseconds, with commas between; by default 500 on the
    /// host, and seven from 10 to 2000 elsewhere.
    #[arg(long, value_name = "US,US", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) commands_us: Vec<u64>,
    /// Commands that the victim keeps in flight, with commas between, of which Lv1 uses the first;
    /// by default 8 on the host, 8 and 64 elsewhere.
    #[arg(long = "threshold", value_name = "N,N", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u64).range(1..=64))]
    pub(crate) thresholds: Vec<u64>,
}

/// Figures of the bench, and whether the processors had room for it.
#[derive(Debug, Serialize)]
struct Outcome {
    /// Threads that were busy most of the time.
    busy: Vec<BusyThread>,
    /// Busy threads that leave a processor free, for everything that must not wait.
    busy_max: usize,
    enough_cores: bool,
    #[serde(flatten)]
    results: Results,
}

impl Outcome {
    /// Returns whether anything is not as it should be.
    fn missed(&self) -> bool {
        !self.enough_cores || self.results.missed()
    }
}

/// Measures how fast a device is preempted, and prints what came out.
pub(super) fn execute(args: &PreemptArgs) -> Result<Ending, CommandError> {
    let level = |&n: &u8| Level::from_number(n).ok_or(RunError::NoSuchLevel { level: n });
    let levels: Vec<Level> = args.levels.iter().map(level).collect::<Result<_, _>>()?;
    let given = predict::file_of(args.predict.options.device_file.as_deref())?;
    common::run(
        "preempt",
        &args.spin,
        |pace| {
            let before = Usage::now();
            let results = on_device!(args.spin.hal, args.spin.device, |bench| {
                run(&bench, &plan(args, &levels, &bench), pace)
            })?;
            let busy = Usage::now().busy_since(&before);
            let busy_max = default_threads().saturating_sub(1);
            Ok(Outcome { enough_cores: busy.len() <= busy_max, busy, busy_max, results })
        },
        |outcome| {
            let on = (&args.predict, given, &outcome.results.device);
            let more = prediction(on, |device| predict::preempt(device, &outcome.results.rows));
            Ok((report(outcome) + &more, Ending::new(outcome.missed())))
        },
    )
}

/// Makes the plan that was asked for, or one that suits the device.
fn plan<B: BenchDevice>(args: &PreemptArgs, levels: &[Level], bench: &B) -> Plan {
    let device = bench.describe();
    let has_gates = device.hal != "host";
    let or = |asked: &[u64], host: &[u64], other: &[u64]| match (asked.is_empty(), has_gates) {
        (false, _) => asked.to_vec(),
        (true, false) => host.to_vec(),
        (true, true) => other.to_vec(),
    };
    let commands_us = or(&args.commands_us, &[500], &[10, 50, 100, 200, 500, 1_000, 2_000]);
    let thresholds = or(&args.thresholds, &[8], &[8, 64]);
    let levels: Vec<Level> = if levels.is_empty() {
        Level::ALL.into_iter().filter(|level| level.number() <= device.level).collect()
    } else {
        levels.to_vec()
    };
    let of = |level: Level| match (level, has_gates) {
        (Level::Block, _) => vec![Mode::Lv1],
        (Level::Deactivate, false) => vec![Mode::Gate { spacing_us: 0 }],
        (Level::Deactivate, true) => {
            [0, SPACING_US].map(|spacing_us| Mode::Gate { spacing_us }).to_vec()
        }
        (Level::Interrupt, _) => vec![Mode::Lv3],
    };
    Plan {
        commands_ns: commands_us.iter().map(|us| us * 1_000).collect(),
        modes: levels.into_iter().flat_map(of).collect(),
        thresholds: thresholds.iter().filter_map(|&n| u32::try_from(n).ok()).collect(),
        samples: args.samples,
    }
}

/// Returns the lines that are printed below the tables.
fn report(outcome: &Outcome) -> String {
    let rows = &outcome.results.rows;
    let mut text = busy_line(outcome);
    for Row { mode, ran_on, quiet, .. } in rows.iter().filter(|row| row.ran_on > 0) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "FAIL {mode}: ran on after {ran_on} of {} holds", quiet.samples);
    }
    for Row { mode, goal, .. } in rows.iter().filter(|row| row.goal.reached == Some(false)) {
        let _ = writeln!(text, "FAIL {mode}: {}", goal.what);
    }
    if rows.iter().any(|row| row.goal.reached.is_none()) {
        let _ = writeln!(text, "a P99 and a verdict need {P99_SAMPLES} samples");
    }
    text
}

fn busy_line(outcome: &Outcome) -> String {
    let Outcome { busy, busy_max, enough_cores, .. } = outcome;
    let threads = busy.iter().map(|thread| format!("{} {:.0}%", thread.name, thread.share * 100.0));
    let names =
        if busy.is_empty() { "none".into() } else { threads.collect::<Vec<_>>().join(", ") };
    let verdict = if *enough_cores { "PASS" } else { "FAIL" };
    format!("{verdict} busy threads: {} ({names}), at most {busy_max}\n", busy.len())
}

#[cfg(test)]
mod tests {
    use crate::bench::preempt::Goal;
    use crate::device::Described;
    use crate::stats::Quantiles;

    use super::*;

    fn outcome(reached: bool, busy: usize) -> Outcome {
        let quiet = Quantiles::of(&vec![20_000; 1_000]);
        let goal = Goal { what: "P99 below 200 µs".into(), reached: Some(reached) };
        let row = Row {
            mode: Mode::Lv3,
            level: 3,
            command_ns: 500_000,
            threshold: 8,
            quiet,
            detect: quiet,
            restart: quiet,
            uncertain_us: 0.0,
            ran_on: 0,
            goal,
        };
        let device = Described {
            hal: "host",
            device: "a device".into(),
            driver: "a driver".into(),
            pci: String::new(),
            level: 3,
            no_gate: None,
            entries_max: 256,
        };
        let plan = Plan {
            commands_ns: vec![500_000],
            modes: vec![Mode::Lv3],
            thresholds: vec![8],
            samples: 1_000,
        };
        Outcome {
            enough_cores: busy < 2,
            busy_max: 1,
            busy: vec![BusyThread { name: "queue".into(), share: 0.9 }; busy],
            results: Results { device, plan, seed: 1, rows: vec![row] },
        }
    }

    #[test]
    fn a_good_run_says_so() {
        let good = outcome(true, 1);
        assert!(!good.missed());
        let text = report(&good);
        assert!(text.contains("PASS busy threads: 1 (queue 90%), at most 1"), "{text}");
        assert!(!text.contains("FAIL"), "{text}");
    }

    #[test]
    fn a_missed_goal_and_too_many_threads_are_failures() {
        assert!(outcome(false, 1).missed());
        assert!(report(&outcome(false, 1)).contains("FAIL lv3: P99 below 200 µs"));
        assert!(outcome(true, 2).missed());
        assert!(report(&outcome(true, 2)).contains("FAIL busy threads: 2"));
    }
}
