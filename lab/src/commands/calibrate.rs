//! `xsched-lab bench calibrate`: a description of a device for the simulator, from measurements
//! with one queue at a time.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, value_parser};

use super::args::SpinArgs;
use super::common::{self, PAUSE_NS, TASK_NS};
use crate::bench::calibrate;
use crate::device::Described;
use crate::device::foreground::Foreground;
use crate::device::hal::on_device;
use crate::error::CommandError;
use xsched_console::Ending;
use xsched_console::machine::Machine;
use xsched_console::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Runs of the task and lone commands, each with and without XSched; a fifth as many holds.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) samples: u32,
    /// Rows of commands of each kind.
    #[arg(long, value_name = "N", default_value_t = 21)]
    #[arg(value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Where the device file goes; by default it is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Commands of a run of the task.
const COMMANDS: u32 = 20;
/// Device time of a row of commands, in nanoseconds.
const ROW_NS: u64 = 40_000_000;
/// Values in a line of a list.
const IN_A_LINE: usize = 10;
/// The gates' default spacing, in microseconds.
/// Closing a gate is one store. One queue cannot tell when the device sees it.
const GATE_CLOSE_US: f64 = 2.0;
const GATE_CLOSE: &str =
    "assumed: an H200 was seen to start nothing later than 2 to 3 us after the store";
const SPACING_US: f64 = crate::device::mode::SPACING_US as f64;

/// Measures, and writes the description.
pub(super) fn execute(args: &CalibrateArgs) -> Result<Ending, CommandError> {
    let file = args.out.as_deref().map(Output::prepare).transpose()?;
    let date = Machine::here().date;
    let plan = calibrate::Plan {
        task: Foreground {
            commands: COMMANDS,
            command_ns: TASK_NS,
            pause_ns: PAUSE_NS,
            samples: args.samples,
        },
        row_ns: ROW_NS,
        rounds: args.rounds,
        lone: args.samples,
        holds: args.samples.div_ceil(5),
    };
    common::run(
        "calibrate",
        &args.spin,
        |pace| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                calibrate::run(&bench, &plan, pace)
            })
        },
        |outcome| {
            let text = description(outcome, &date);
            if let Some(file) = &file {
                file.write(|out| out.write_all(text.as_bytes()))?;
            }
            let printed = if file.is_none() { text.as_str() } else { "" };
            Ok((printed.to_owned(), Ending::Fine))
        },
    )
}

/// A key of a device file, its value, and where that comes from.
type Entry = (&'static str, String, String);

/// The device file.
fn description(outcome: &calibrate::Results, date: &str) -> String {
    let Described { device, driver, .. } = &outcome.device;
    let day = date.split('T').next().unwrap_or_default();
    let by = format!("sourced: measured by xsched-lab bench calibrate, {day}, {driver}");
    let entries = entries(outcome, &by);
    let mut text = format!(
        "# Written by `xsched-lab bench calibrate`: measurements with one queue at a time.\n\
         version = 1\ndescription = \"{}\"\n\n[device]\nname = \"{}\"\n",
        plain_text(&format!("{device} ({driver})")),
        identifier(device)
    );
    for (key, value, _) in &entries {
        let _ = writeln!(text, "{key} = {value}");
    }
    text += "\n[origin]\n";
    for (key, _, origin) in &entries {
        let _ = writeln!(text, "{key} = \"{}\"", plain_text(origin));
    }
    text
}

fn entries(outcome: &calibrate::Results, by: &str) -> Vec<Entry> {
    let measured = |what: &str| format!("{by}: {what}");
    // How a lone command's time is split between the way there and the way back cannot be seen.
    let half_us = (outcome.lone.p50_us - outcome.launch.p50_us).max(0.0) / 2.0;
    let assumed = || "assumed: half of what a lone tiny command takes beyond its launch".to_owned();
    let (_, batch) = calibrate::ROW_WINDOW;
    let device = &outcome.device;
    let turns = "assumed: commands that fill the device run in turn; one queue cannot tell";
    let mut entries: Vec<Entry> = vec![
        ("concurrency", "\"round_robin\"".to_owned(), turns.to_owned()),
        ("launch_latency_us", us(half_us), assumed()),
        ("host_launch_us", us(outcome.launch.p50_us), measured("a launch behind others")),
        ("host_sync_us", us(0.0), "assumed: it is in detect".to_owned()),
        ("detect_us", us(half_us), assumed()),
        (
            "fence_us",
            us((outcome.row_queue.p50_us - outcome.row.p50_us) * f64::from(batch)),
            measured("rows at Lv1, less those on a plain stream, for each fence"),
        ),
        (
            "launch_queue",
            device.entries_max.saturating_mul(4).max(4).to_string(),
            measured("four times the entries that are used"),
        ),
        ("max_level", device.level.to_string(), measured("what the device's check allows")),
        ("wake_us", list(&outcome.wake_us), measured("the task after a pause, plain stream")),
        ("queue_wake_us", list(&outcome.queue_wake_us), measured("the same through an XQueue")),
    ];
    entries.extend(deeper(outcome, half_us, &measured));
    entries
}

/// Adds the costs of Lv2 and Lv3, where the device has them.
fn deeper(
    outcome: &calibrate::Results,
    detect_us: f64,
    measured: &dyn Fn(&str) -> String,
) -> Vec<Entry> {
    let held = |level: u8| outcome.holds.iter().find(|held| held.level == level);
    let mut entries = Vec::new();
    if let (Some(gates), Some(held)) = (&outcome.row_gates, held(2)) {
        let open = "from the end of a hold to the next command, which closing is taken to need too";
        let close = if outcome.device.hal == "host" {
            (us(held.resume.p50_us - detect_us), measured(open))
        } else {
            (us(GATE_CLOSE_US), GATE_CLOSE.to_owned())
        };
        entries.extend([
            (
                "gate_us",
                us(gates.p50_us - outcome.row_queue.p50_us),
                measured("rows with a gate for each command, less those without"),
            ),
            ("gate_close_us", close.0, close.1),
            ("gate_spacing_us", us(SPACING_US), "assumed: the default".to_owned()),
        ]);
    }
    if let Some(held) = held(3) {
        let none = "assumed: there is nothing to move".to_owned();
        let on = "from the end of a hold to the end of the command that was interrupted";
        entries.extend([
            ("save_fixed_us", us(held.detect.p50_us), measured("a hold until it is in effect")),
            ("save_context_us", us(0.0), none.clone()),
            ("restore_fixed_us", us(held.resume.p50_us - detect_us), measured(on)),
            ("restore_context_us", us(0.0), none),
        ]);
    }
    entries
}

/// Microseconds, not below 0.
fn us(value: f64) -> String {
    format!("{:.3}", value.max(0.0))
}

fn list(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{value:.1}")).collect();
    let lines = values.chunks(IN_A_LINE).map(|line| format!("    {},\n", line.join(", ")));
    format!("[\n{}]", lines.collect::<String>())
}

/// A name that a device file accepts.
fn identifier(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().take(64).map(allowed).collect();
    if name.is_empty() { "device".to_owned() } else { name }
}

/// Returns a text as it can stand between quotes in a TOML file.
fn plain_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '"' | '\\') { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::Host;
    use std::path::Path;
    use xsched_sim::scenario::DeviceFile;

    #[test]
    fn what_is_written_is_a_device_file() {
        let task = Foreground {
            commands: 2,
            command_ns: 50_000,
            pause_ns: (100_000, 200_000),
            samples: 10,
        };
        let plan = calibrate::Plan { task, row_ns: 200_000, rounds: 2, lone: 10, holds: 3 };
        let outcome =
            calibrate::run(&Host::open().unwrap(), &plan, &crate::pace::Pace::free()).unwrap();
        let text = description(&outcome, "2026-01-02T03:04:05Z");
        let file = DeviceFile::parse(text.as_bytes(), Path::new("new.toml")).unwrap();
        assert_eq!(file.spec.max_level, 3);
        assert_eq!(file.spec.wake_ns.len(), 10);
        assert!(file.origins["host_launch"].note.contains("2026-01-02"), "{text}");
    }

    #[test]
    fn names_and_texts_can_be_read_back() {
        assert_eq!(identifier("NVIDIA H200"), "nvidia-h200");
        assert_eq!(identifier(""), "device");
        assert_eq!(plain_text("a \"b\"\\c\n"), "a  b  c ");
    }
}
