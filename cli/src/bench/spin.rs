//! Benches on commands that spin, on any device that has them.

use std::io;
use std::process::Command;

use clap::ValueEnum;
use serde::Serialize;
use xsched_lab::mode::{Mode, SPACING_US};
use xsched_lab::processes::{self, Request};
use xsched_lab::{
    Bench, Described, Foreground, LabError, Quantiles, overhead, partition, priority, threshold,
};
use xsched_sim::run::RunError;
use xsched_sim::scenario::DeviceSpec;

use super::on::on_device;
use super::{draw, predict};
use crate::Ending;
use crate::args::{
    BackgroundArgs, FixedPriorityArgs, OverheadArgs, PartitionArgs, PredictFlags, SpinArgs,
    ThresholdArgs,
};
use crate::error::CliError;
use crate::machine::Machine;
use crate::output::{Outputs, Places};
use crate::progress::Progress;
use crate::table::{number, percent, table};

/// Device time of the task's commands, in nanoseconds.
pub(super) const TASK_NS: u64 = 100_000;
/// Without a load, the task pauses for so long between runs, in nanoseconds.
pub(super) const PAUSE_NS: (u64, u64) = (1_000_000, 3_000_000);
/// Device time of a row of commands, in nanoseconds.
const ROW_NS: u64 = 40_000_000;
/// Lone tiny commands, each way.
const LONE: u32 = 3_000;

/// What was measured, on what, as `--json` writes it.
#[derive(Debug, Serialize)]
struct Document<T> {
    bench: &'static str,
    version: &'static str,
    machine: Machine,
    seconds: f64,
    #[serde(flatten)]
    outcome: T,
}

/// Runs an experiment, which gets where it may say how far it has got, and writes what came out.
pub(super) fn run<T: Serialize>(
    bench: &'static str,
    args: &SpinArgs,
    measure: impl FnOnce(&dyn Fn(f64)) -> Result<T, LabError>,
    report: impl FnOnce(&T) -> Result<String, CliError>,
) -> Result<Ending, CliError> {
    let outputs = outputs(bench, args)?;
    let machine = Machine::here();
    let progress = Progress::new(false);
    let show = |part: f64| progress.set(part);
    let outcome = measure(&show);
    let seconds = progress.finish().as_secs_f64();
    let outcome = outcome.map_err(CliError::device)?;
    let version = env!("CARGO_PKG_VERSION");
    let document = Document { bench, version, machine, seconds, outcome };
    if let Some(output) = &outputs.json {
        output.write(|out| xsched_sim::report::write_json(out, &document))?;
    }
    draw::document(outputs.svg.as_ref(), bench, &document)?;
    let machine = &document.machine;
    let text = report(&document.outcome)?;
    let text = format!("machine: {machine}\n{text}{}", machine.warning());
    outputs.tables().print(&text)?;
    Ok(Ending::Fine)
}

/// Where the figures and the picture go, if both can be had.
pub(super) fn outputs(bench: &str, args: &SpinArgs) -> Result<Outputs, CliError> {
    draw::check(args.svg.is_some(), bench)?;
    let (json, svg) = (args.json.as_deref(), args.svg.as_deref());
    Outputs::prepare(Places { json, svg, ..Places::default() })
}

pub(super) fn describe(device: &Described) -> String {
    let Described { hal, device, driver, pci, level, entries_max, .. } = device;
    let pci = if pci.is_empty() { String::new() } else { format!(", PCI {pci}") };
    format!("device: {device} ({hal}, {driver}{pci}), Lv{level}, {entries_max} entries\n")
}

/// The text with the prediction below, if one is wanted. What was measured is worth having without.
pub(super) fn with_prediction(
    text: String,
    (flags, given, device): (&PredictFlags, Option<DeviceSpec>, &Described),
    predict: impl FnOnce(&DeviceSpec) -> Result<predict::Prediction, RunError>,
) -> String {
    if !flags.predict {
        return text;
    }
    let device = predict::device_for(given, &device.device);
    match device.and_then(|device| Ok(predict(&device)?)) {
        Ok(prediction) => format!("{text}\n{}", prediction.report()),
        Err(error) => format!("{text}\nno prediction: {error}\n"),
    }
}

/// `xsched bench fixed-priority`.
pub(crate) fn fixed_priority(args: &FixedPriorityArgs) -> Result<Ending, CliError> {
    let highest = args.level;
    let given = predict::file_of(&args.predict.options)?;
    let plan = |device: &Described| {
        let task_ns = u64::from(args.commands) * TASK_NS;
        let pause = |load: u32| {
            let mean = task_ns / u64::from(load) * u64::from(100 - load);
            (mean / 2, mean + mean / 2)
        };
        priority::Plan {
            foreground: Foreground {
                commands: args.commands,
                command_ns: TASK_NS,
                pause_ns: args.load.map_or(PAUSE_NS, pause),
                samples: args.samples,
            },
            background_ns: args.background_us.iter().map(|us| us * 1_000).collect(),
            waves: args.waves.clone(),
            threshold: args.threshold,
            modes: if args.modes.is_empty() {
                Mode::of(device, highest.unwrap_or(3))
            } else {
                args.modes.clone()
            },
        }
    };
    let launcher = |request: &Request| background_command(&args.spin, request);
    run(
        "fixed-priority",
        &args.spin,
        |show| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                priority::run(&bench, &plan(&bench.describe()), &launcher, show)
            })
        },
        |outcome| {
            let text = priority_report(outcome);
            let on = (&args.predict, given, &outcome.device);
            Ok(with_prediction(text, on, |device| {
                let alone = [&outcome.alone, &outcome.alone_queue];
                predict::fixed_priority(device, &outcome.plan, alone, &outcome.cells)
            }))
        },
    )
}

/// The command line of a background in a process of its own.
pub(super) fn background_command(spin: &SpinArgs, request: &Request) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let hal = spin.hal.to_possible_value().map(|hal| hal.get_name().to_owned());
    command.args(["bench", "background", "--hal", &hal.unwrap_or_default()]);
    command.args(["--device", &spin.device.to_string(), "--page"]).arg(&request.page);
    command.args(["--mode", &Mode::Processes(request.apart).to_string()]);
    command.args(["--command-ns", &request.command_ns.to_string()]);
    command.args(["--waves", &request.waves.to_string()]);
    command.args(["--threshold", &request.threshold.to_string()]);
    Ok(command)
}

/// `xsched bench background`, which other benches start.
pub(crate) fn background(args: &BackgroundArgs) -> Result<Ending, CliError> {
    let Mode::Processes(apart) = args.mode else {
        return Err(CliError::device(format!("`{}` is no way with processes", args.mode)));
    };
    let request = Request {
        page: args.page.clone(),
        apart,
        command_ns: args.command_ns,
        waves: args.waves,
        threshold: args.threshold,
    };
    let ran = on_device!(args.hal, args.device, |bench| processes::background(&bench, &request));
    ran.map_err(CliError::device)?;
    Ok(Ending::Fine)
}

fn priority_report(outcome: &priority::Outcome) -> String {
    let priority::Outcome { device, plan, alone, alone_queue, .. } = outcome;
    let task = plan.foreground;
    let mut text = describe(device);
    text += &format!(
        "task: {} commands of {} µs, {} runs; background: {} in flight\n\n",
        task.commands,
        task.command_ns / 1_000,
        task.samples,
        plan.threshold
    );
    let header =
        ["waves", "background", "<way", "P50", "P95", "P99", "max", "P99/alone", "share", "cores"];
    let line = |first: [String; 3], q: &Quantiles, rest: [String; 3]| {
        let us = |value| number(Some(value), 0);
        let mut row = first.to_vec();
        row.extend([us(q.p50_us), us(q.p95_us), number(q.p99_us, 0), us(q.max_us)]);
        row.extend(rest);
        row
    };
    let none = || "-".to_owned();
    let single = |name: &str, q: &Quantiles| {
        let ratio = number(q.p99_over(alone), 3);
        line([none(), none(), name.to_owned()], q, [ratio, none(), none()])
    };
    let mut rows = vec![single("alone, plain", alone), single("alone, XQueue", alone_queue)];
    rows.extend(outcome.cells.iter().map(|cell| {
        let first = [
            cell.waves.to_string(),
            (cell.background_ns / 1_000).to_string(),
            cell.mode.to_string(),
        ];
        let rest = [
            number(cell.p99_over_alone, 3),
            percent(Some(cell.background_share)),
            number(Some(cell.processors), 2),
        ];
        line(first, &cell.foreground, rest)
    }));
    text += &table("times of the task in µs", &header, rows);
    if task.samples < 1_000 {
        text += "a P99 needs 1000 runs\n";
    }
    text
}

/// `xsched bench overhead`.
pub(crate) fn overhead(args: &OverheadArgs) -> Result<Ending, CliError> {
    let plan = overhead::Plan {
        commands_ns: args.commands_us.iter().map(|us| us * 1_000).collect(),
        row_ns: ROW_NS,
        rounds: args.rounds,
        lone: LONE,
        threshold: args.threshold,
        batch: args.batch,
    };
    run(
        "overhead",
        &args.spin,
        |show| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                overhead::run(&bench, &plan, show)
            })
        },
        |outcome| Ok(overhead_report(outcome)),
    )
}

fn overhead_report(outcome: &overhead::Outcome) -> String {
    let mut text = describe(&outcome.device);
    let plan = &outcome.plan;
    text += &format!(
        "rows of {} ms, medians of {} rounds; {} in flight, a fence every {}\n\n",
        plan.row_ns / 1_000_000,
        plan.rounds,
        plan.threshold,
        plan.batch
    );
    let header = ["command", "<way", "row P50", "overhead", "cores"];
    let rows = outcome.rows.iter().map(|row| {
        vec![
            (row.command_ns / 1_000).to_string(),
            row.mode.to_string(),
            number(Some(row.row.p50_us), 1),
            percent(Some(row.overhead)),
            number(Some(row.processors), 2),
        ]
    });
    text += &table("commands in a row, times in µs", &header, rows);
    let header = ["<way", "P50", "P95", "P99", "added"];
    let lone = outcome.lone.iter().map(|lone| {
        vec![
            lone.mode.to_string(),
            number(Some(lone.time.p50_us), 2),
            number(Some(lone.time.p95_us), 2),
            number(lone.time.p99_us, 2),
            number(Some(lone.added_us), 2),
        ]
    });
    text += &table("a lone tiny command, times in µs", &header, lone);
    let idle = percent(Some(outcome.idle_processors));
    text + &format!("idle queues use {idle} of a core\n")
}

/// `xsched bench partition`.
pub(crate) fn partition(args: &PartitionArgs) -> Result<Ending, CliError> {
    let given = predict::file_of(&args.predict.options)?;
    let first = args.commands_us.first().copied().unwrap_or(500);
    let second = args.commands_us.get(1).copied().unwrap_or(first);
    let plan = |device: &Described| partition::Plan {
        policy: args.policy.clone(),
        shares: (args.share, 100 - args.share),
        commands_ns: (first * 1_000, second * 1_000),
        threshold: args.threshold,
        levels: (1..=args.level.unwrap_or(3).min(device.level)).collect(),
        measured_ms: args.seconds * 1_000,
    };
    run(
        "partition",
        &args.spin,
        |show| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                partition::run(&bench, &plan(&bench.describe()), show)
            })
        },
        |outcome| {
            let text = partition_report(outcome);
            let on = (&args.predict, given, &outcome.device);
            Ok(with_prediction(text, on, |device| {
                predict::partition(device, &outcome.plan, &outcome.cells)
            }))
        },
    )
}

fn partition_report(outcome: &partition::Outcome) -> String {
    let partition::Outcome { device, plan, alone, cells } = outcome;
    let (first, second) = plan.commands_ns;
    let mut text = describe(device);
    text += &format!(
        "two tasks of {} and {} µs commands, {} in flight each, parts {}:{} under {}; the first \
         alone on a plain stream uses {} of the device\n\n",
        first / 1_000,
        second / 1_000,
        plan.threshold,
        plan.shares.0,
        plan.shares.1,
        plan.policy,
        percent(Some(*alone))
    );
    let header = ["<way", "first", "second", "total/alone", "first counted", "second", "cores"];
    let rows = cells.iter().map(|cell| {
        let part = |value: f64| format!("{value:.2}%");
        vec![
            cell.level.map_or_else(|| "plain".to_owned(), |level| format!("lv{level}")),
            part(cell.first_percent),
            part(100.0 - cell.first_percent),
            number(Some(cell.total), 4),
            number(Some(cell.counted.0), 3),
            number(Some(cell.counted.1), 3),
            number(Some(cell.processors), 2),
        ]
    });
    text + &table("parts of what both got", &header, rows)
}

/// `xsched bench threshold`.
pub(crate) fn threshold(args: &ThresholdArgs) -> Result<Ending, CliError> {
    let plan = |device: &Described| {
        let modes = [Mode::Lv1, Mode::Gate { spacing_us: SPACING_US }, Mode::Lv3];
        let highest = args.level.unwrap_or(3).min(device.level);
        threshold::Plan {
            commands_ns: args.commands_us.iter().map(|us| us * 1_000).collect(),
            modes: modes.into_iter().filter(|mode| mode.level() <= highest).collect(),
            thresholds: args.thresholds.clone(),
            row_ns: ROW_NS,
            rounds: args.rounds,
        }
    };
    run(
        "threshold",
        &args.spin,
        |show| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                threshold::run(&bench, &plan(&bench.describe()), show)
            })
        },
        |outcome| Ok(threshold_report(outcome)),
    )
}

fn threshold_report(outcome: &threshold::Outcome) -> String {
    let threshold::Outcome { device, plan, cells, least } = outcome;
    let mut text = describe(device);
    text += &format!(
        "rows of {} ms, medians of {} rounds, over those of a plain stream\n\n",
        plan.row_ns / 1_000_000,
        plan.rounds
    );
    let mut header = vec!["command".to_owned(), "in flight".to_owned(), "per fence".to_owned()];
    header.extend(plan.modes.iter().map(ToString::to_string));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = cells.iter().filter_map(|cell| {
        let command_ns = cell.rows.first()?.command_ns;
        let mut row = vec![(command_ns / 1_000).to_string()];
        row.extend([cell.threshold.to_string(), cell.batch.to_string()]);
        row.extend(cell.rows.iter().skip(1).map(|row| percent(Some(row.overhead))));
        Some(row)
    });
    text += &table("overhead of commands in a row", &header, rows);
    for least in least {
        let length = least.command_ns / 1_000;
        let limit = threshold::LITTLE * 100.0;
        text += &match least.threshold {
            Some(n) => format!("{}, {length} µs: below {limit:.0} % from {n} on\n", least.mode),
            None => format!("{}, {length} µs: never below {limit:.0} %\n", least.mode),
        };
    }
    text
}
