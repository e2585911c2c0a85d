//! `xsched bench preempt`.

use std::fmt::Write;
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;
use xsched_core::level::Level;
use xsched_sim::run::RunError;
use xsched_sim::scenario::DeviceSpec;

use super::args::{PredictFlags, SpinArgs};
use super::common::{describe, outputs, with_prediction};
use super::on::on_device;
use crate::bench::preempt::{Plan, Results, Row, run};
use crate::console::Ending;
use crate::console::output::Outputs;
use crate::console::progress::Progress;
use crate::console::table::{number, table};
use crate::device::BenchDevice;
use crate::device::Described;
use crate::device::mode::{Mode, SPACING_US};
use crate::error::CommandError;
use crate::machine::Machine;
use crate::pace::Pace;
use crate::stats::P99_SAMPLES;
use crate::stats::Quantiles;
use crate::threads::{BusyThread, Usage};
use crate::{draw, predict};

/// Most samples of a bench for each level.
const MAX_SAMPLES: i64 = 10_000_000;

#[derive(Debug, Args)]
pub struct PreemptArgs {
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

/// Everything that came out, as `--json` writes it.
#[derive(Debug, Serialize)]
struct Document {
    bench: &'static str,
    version: &'static str,
    machine: Machine,
    /// How long it took.
    seconds: f64,
    /// Threads that were busy most of the time.
    busy: Vec<BusyThread>,
    /// Whether they left a processor free, for everything that must not wait.
    enough_cores: bool,
    #[serde(flatten)]
    outcome: Results,
}

impl Document {
    /// Whether anything is not as it should be.
    fn missed(&self) -> bool {
        !self.enough_cores || self.outcome.missed()
    }
}

/// Measures how fast a device is preempted, and prints what came out.
pub(super) fn execute(args: &PreemptArgs) -> Result<Ending, CommandError> {
    let level = |&n: &u8| Level::from_number(n).ok_or(RunError::NoSuchLevel { level: n });
    let levels: Vec<Level> = args.levels.iter().map(level).collect::<Result<_, _>>()?;
    let given = predict::file_of(args.predict.options.device_file.as_deref())?;
    let outputs = outputs("preempt", &args.spin)?;
    let machine = Machine::here();
    let progress = Progress::start();
    let before = Usage::now();
    let show = |part: f64| progress.set(part);
    let pace = Pace::new(&show, args.spin.time());
    let outcome = on_device!(args.spin.hal, args.spin.device, |bench| {
        run(&bench, &plan(args, &levels, &bench), &pace)
    });
    let busy = Usage::now().busy_since(&before);
    let wall = progress.finish();
    let document = Document {
        bench: "preempt",
        version: env!("CARGO_PKG_VERSION"),
        enough_cores: busy.len() < machine.cores,
        machine,
        seconds: wall.max(Duration::from_nanos(1)).as_secs_f64(),
        busy,
        outcome: outcome.map_err(CommandError::device)?,
    };
    print(&outputs, &document, (&args.predict, given))
}

/// Writes and prints what came out, with the prediction if one is wanted.
fn print(
    outputs: &Outputs,
    document: &Document,
    (flags, given): (&PredictFlags, Option<DeviceSpec>),
) -> Result<Ending, CommandError> {
    if let Some(output) = &outputs.json {
        output.write(|out| xsched_sim::report::write_json(out, document))?;
    }
    if let Some(output) = &outputs.svg {
        let svg = draw::document(document.bench, document)?;
        output.write(|out| out.write_all(svg.as_bytes()))?;
    }
    let on = (flags, given, &document.outcome.device);
    let text = with_prediction(report(document), on, |device| {
        predict::preempt(device, &document.outcome.rows)
    });
    outputs.tables().print(&text)?;
    Ok(Ending::new(document.missed()))
}

/// What was asked for, or what suits the device.
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

/// Everything below the progress bar.
fn report(document: &Document) -> String {
    let Document { machine, seconds, outcome, .. } = document;
    let Results { device, plan, seed, rows } = outcome;
    let uncertain = rows.iter().map(|row| row.uncertain_us).fold(0.0, f64::max);
    let mut text = format!(
        "machine: {machine}\n{}a busy queue held {} times at random moments in each row, seed \
         {seed}; {seconds:.1} s taken\n{}{}\n",
        describe(device),
        plan.samples,
        clock_line(device, uncertain),
        busy_line(document)
    );
    let header = [
        "<way",
        "command",
        "in flight",
        "quiet P50",
        "P90",
        "P99",
        "max",
        "detect P50",
        "P99",
        "restart P50",
        "P99",
        "<goal for quiet",
        "<verdict",
    ];
    let title = "times in µs: until the victim is quiet, until the runtime knows, until it goes on";
    text += &table(title, &header, rows.iter().map(cells));
    for row in rows.iter().filter(|row| row.ran_on > 0) {
        let Row { mode, ran_on, quiet, .. } = row;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "FAIL {mode}: ran on after {ran_on} of {} holds", quiet.samples);
    }
    text += &machine.warning();
    if rows.iter().any(|row| row.goal.reached.is_none()) {
        let _ = writeln!(text, "a P99 and a verdict need {P99_SAMPLES} samples");
    }
    text
}

/// The clock that says when the victim ran.
fn clock_line(device: &Described, uncertain_us: f64) -> String {
    if device.hal == "host" {
        return String::new();
    }
    format!("the device's clock says when kernels ran; it is known to {uncertain_us:.1} µs\n")
}

fn busy_line(document: &Document) -> String {
    let threads = document.busy.iter();
    let threads: Vec<_> =
        threads.map(|thread| format!("{} {:.0}%", thread.name, thread.share * 100.0)).collect();
    let names = if threads.is_empty() { "none".to_owned() } else { threads.join(", ") };
    let most = document.machine.cores.saturating_sub(1);
    let verdict = if document.enough_cores { "PASS" } else { "FAIL" };
    format!("{verdict} busy threads: {} ({names}), at most {most}\n", document.busy.len())
}

fn cells(row: &Row) -> Vec<String> {
    let us = |value| number(Some(value), 1);
    let mut cells =
        vec![row.mode.to_string(), us(row.command_ns as f64 / 1e3), row.threshold.to_string()];
    let Quantiles { p50_us, p90_us, p99_us, max_us, .. } = row.quiet;
    cells.extend([us(p50_us), us(p90_us), number(p99_us, 1), us(max_us)]);
    for quantiles in [&row.detect, &row.restart] {
        cells.extend([us(quantiles.p50_us), number(quantiles.p99_us, 1)]);
    }
    let verdict = match row.goal.reached {
        Some(true) => "PASS",
        Some(false) => "FAIL",
        None => "too few samples",
    };
    cells.extend([row.goal.what.clone(), verdict.to_owned()]);
    cells
}

#[cfg(test)]
mod tests {
    use crate::bench::preempt::Goal;

    use super::*;

    fn document(reached: bool, busy: usize) -> Document {
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
        Document {
            bench: "preempt",
            version: "0",
            machine: Machine { cores: 2, ..Machine::here() },
            seconds: 2.0,
            enough_cores: busy < 2,
            busy: vec![BusyThread { name: "queue".into(), share: 0.9 }; busy],
            outcome: Results { device, plan, seed: 1, rows: vec![row] },
        }
    }

    #[test]
    fn a_good_run_says_so() {
        let good = document(true, 1);
        assert!(!good.missed());
        let text = report(&good);
        assert!(text.contains("PASS busy threads: 1 (queue 90%), at most 1"), "{text}");
        assert!(text.contains("P99 below 200 µs  PASS"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 170), "{text}");
    }

    #[test]
    fn a_missed_goal_and_too_many_threads_are_failures() {
        assert!(document(false, 1).missed());
        assert!(report(&document(false, 1)).contains("P99 below 200 µs  FAIL"));
        assert!(document(true, 2).missed());
        assert!(report(&document(true, 2)).contains("FAIL busy threads: 2"));
    }
}
