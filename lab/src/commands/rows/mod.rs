//! `xsched lab list`, `run`, `all` and `join`: the plan's experiments with real programs.

pub(super) mod device;
pub(super) mod join;
pub(super) mod list;
mod stop;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, value_parser};
use xsched_sim::scenario::{DeviceFile, DeviceSpec};

use crate::console::output::Stream;
use crate::console::{Ending, note};
use crate::error::CommandError;
use crate::rows::ahead::Ahead;
use crate::rows::document::{Row, Status};
use crate::rows::files::{Folder, NO_TIME, counts, is_done, is_finding, words};
use crate::rows::plan::Hal;
use crate::rows::report;
use crate::rows::run::{Lab, RunError, expect};
use crate::rows::session::Starter;
use crate::rows::table::{self, Definition, Setting};
use crate::rows::timing::Limit;

/// All rows with few samples take no longer, however slow the device is, and on the processor.
const QUICK_MAX: Duration = Duration::from_secs(570);
const QUICK_HOST_MAX: Duration = Duration::from_secs(90);

/// The devices of `xsched lab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabHal {
    /// An NVIDIA GPU.
    Cuda,
    /// An AMD GPU.
    Hip,
    /// The processor as a device, with stand-ins for the models.
    Host,
}

impl From<LabHal> for Hal {
    fn from(hal: LabHal) -> Self {
        match hal {
            LabHal::Cuda => Self::Cuda,
            LabHal::Hip => Self::Hip,
            LabHal::Host => Self::Host,
        }
    }
}

/// How rows are run.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// The device; by default an NVIDIA or an AMD GPU if one works, and the processor otherwise.
    #[arg(long, value_enum)]
    hal: Option<LabHal>,
    /// A look with too few samples for verdicts; all rows take at most ten minutes.
    #[arg(long)]
    quick: bool,
    /// What runs the programs of `lab/programs`.
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    python: PathBuf,
    /// A description of the device for the simulator, as `xsched bench calibrate` writes it; by
    /// default the one for this device that is part of the program.
    #[arg(long, value_name = "FILE")]
    device_file: Option<PathBuf>,
    /// A program to run instead of those of the lab.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    program: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The rows, as `xsched lab list` has them.
    #[arg(value_name = "ROW", required = true)]
    rows: Vec<String>,
    #[command(flatten)]
    how: How,
    /// The folder for predictions, rows, results and the report. It is made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "xsched-lab")]
    report: PathBuf,
    #[command(flatten)]
    time: Time,
}

/// How long it may take.
#[derive(Clone, Copy, Debug, Args)]
struct Time {
    /// The time for all rows together, as `25m`; phases are shorter then.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    budget: Option<Duration>,
    /// Stop after this time, as `9m`. Phases are as long as their samples need, and what does not
    /// fit is left for `xsched lab all --resume`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration,
          conflicts_with_all = ["budget", "quick"])]
    stop_after: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct AllArgs {
    #[command(flatten)]
    how: How,
    /// The folder for predictions, rows, results and the report. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    report: PathBuf,
    /// Run only what has no complete record in the folder.
    #[arg(long)]
    resume: bool,
    /// Only these rows, with commas between.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    time: Time,
}

#[derive(Debug, Args)]
pub struct StandInArgs {
    /// What it is to be, a file with JSON.
    #[arg(value_name = "SPEC", value_parser = value_parser!(PathBuf))]
    spec: PathBuf,
}

/// What is asked for.
struct Asked<'a> {
    how: &'a How,
    folder: &'a std::path::Path,
    /// All rows if empty.
    rows: &'a [String],
    resume: bool,
    time: Time,
}

/// `xsched lab run`.
pub(super) fn run(args: &RunArgs) -> Result<Ending, CommandError> {
    execute(&Asked {
        how: &args.how,
        folder: &args.report,
        rows: &args.rows,
        resume: false,
        time: args.time,
    })
}

/// `xsched lab all`.
pub(super) fn all(args: &AllArgs) -> Result<Ending, CommandError> {
    execute(&Asked {
        how: &args.how,
        folder: &args.report,
        rows: &args.only,
        resume: args.resume,
        time: args.time,
    })
}

/// A stand-in for a model, for `xsched lab` on the processor.
pub(super) fn stand_in(args: &StandInArgs) -> Result<Ending, CommandError> {
    crate::rows::stand_in::execute(&args.spec)?;
    Ok(Ending::Fine)
}

fn execute(asked: &Asked<'_>) -> Result<Ending, CommandError> {
    let known = table::ids();
    if let Some(id) = asked.rows.iter().find(|id| !known.contains(&id.as_str())) {
        return Err(CommandError::NoExperiment { id: id.clone(), known: known.join(", ") });
    }
    let device = asked.how.device_file.as_deref().map(read_device).transpose()?;
    let hal = match &asked.how.program {
        // It needs no device.
        Some(_) => asked.how.hal.map_or(Hal::Host, Hal::from),
        None => device::choose(asked.how.hal.map(Hal::from))?,
    };
    let setting = Setting { hal, quick: asked.how.quick };
    let mut rows = table::all(setting);
    rows.retain(|row| asked.rows.is_empty() || asked.rows.iter().any(|id| id == row.plan.id));
    let stop = stop::on_signals()?;
    let programs = (asked.how.python.clone(), asked.how.program.clone());
    let starter = Starter::new(hal, setting.quick, programs, &stop);
    let say = |line: &str| note(|| line.trim().to_owned());
    let lab = Lab { starter: &starter, folder: Folder::make(asked.folder)?, device, say: &say };
    let ended = run_all(asked, setting, &lab, &rows);
    // What was measured is worth a report, also if the rest was not.
    report::write(asked.folder)?;
    Stream::Stdout.print(&format!("report: {}\n", asked.folder.display()))?;
    ended
}

fn run_all(
    asked: &Asked<'_>,
    setting: Setting,
    lab: &Lab<'_>,
    rows: &[Definition],
) -> Result<Ending, CommandError> {
    let began = Instant::now();
    let quick_max = if setting.hal == Hal::Host { QUICK_HOST_MAX } else { QUICK_MAX };
    let budget = asked.time.budget.or(setting.quick.then_some(quick_max));
    let most = asked.time.stop_after.or(budget);
    let is_to_do = |row: &&Definition| {
        let kept = lab.folder.row(row.plan.id).filter(|_| asked.resume);
        !kept.is_some_and(|row| is_done(&row, setting.hal.name(), setting.quick))
    };
    let before = |row: &Definition| {
        let row = lab.folder.row(row.plan.id).filter(|_| asked.resume);
        row.filter(|row| counts(row, setting.hal.name(), setting.quick))
    };
    let mut ahead = Ahead::new(lab.starter);
    for row in rows.iter().filter(is_to_do) {
        expect(&mut ahead, &lab.folder, row, before(row).as_ref());
    }
    let mut finding = false;
    for (number, row) in rows.iter().enumerate() {
        let head = format!("{}/{} {} {}", number + 1, rows.len(), row.plan.id, row.plan.name);
        if !is_to_do(&row) {
            let kept = lab.folder.row(row.plan.id);
            finding |= kept.as_ref().is_some_and(is_finding);
            Stream::Stdout.print(&format!("{head}: done before\n"))?;
            continue;
        }
        let behind: Vec<&Definition> = rows.iter().skip(number + 1).filter(is_to_do).collect();
        let left = most.map(|most| most.saturating_sub(began.elapsed()));
        let limit = match left {
            None => Limit::None,
            Some(left) if asked.time.stop_after.is_some() => Limit::Stop(left),
            Some(left) => Limit::Shorten(share(left, row, &behind)),
        };
        let before = before(row);
        let measured = match left {
            Some(left) if left.is_zero() && before.is_some() => continue,
            Some(left) if left.is_zero() => not_begun(lab, row)?,
            _ => match lab.run(row, limit, before, &mut ahead) {
                Ok(measured) => measured,
                Err(RunError::Interrupted) => return Err(CommandError::Stopped),
                Err(RunError::Command(error)) => return Err(error),
            },
        };
        finding |= is_finding(&measured);
        Stream::Stdout.print(&summary(&head, &measured))?;
    }
    Ok(Ending::new(finding))
}

/// The part of what is left that a row may take: its part by what it takes.
fn share(left: Duration, row: &Definition, behind: &[&Definition]) -> Duration {
    let all: u32 = behind.iter().map(|row| row.cost()).sum::<u32>() + row.cost();
    left * row.cost() / all.max(1)
}

/// The row as one for which there was no time, which `--resume` runs.
fn not_begun(lab: &Lab<'_>, of: &Definition) -> Result<Row, CommandError> {
    let row = lab.blank(of, Status::NotRun(format!("{NO_TIME}; --resume runs it")));
    lab.folder.write_row(&row, of)?;
    Ok(row)
}

fn read_device(place: &std::path::Path) -> Result<DeviceSpec, CommandError> {
    Ok(DeviceFile::load(place)?.spec)
}

/// What came out of a row, in a few lines.
fn summary(head: &str, row: &Row) -> String {
    let mut text = format!("{head}: {}, {:.1} s\n", words(row), row.seconds);
    let failed = row.cells.iter().filter_map(|cell| match &cell.status {
        Status::Failed(why) => Some(format!("  {}: failed: {why}\n", cell.name)),
        Status::Measured | Status::NotRun(_) => None,
    });
    text.extend(failed);
    for verdict in &row.verdicts {
        let met = match verdict.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "open",
        };
        let bound = verdict.bound.as_ref().map_or_else(String::new, |bound| format!(" ({bound})"));
        text += &format!("  {met}: {}: {}{bound}\n", verdict.goal, verdict.measured);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_share_what_is_left_by_what_they_take_and_those_that_cannot_be_run_have_none() {
        let rows = table::all(Setting { hal: Hal::Host, quick: true });
        let mut left = QUICK_HOST_MAX;
        for (number, row) in rows.iter().enumerate() {
            let behind: Vec<&Definition> = rows.iter().skip(number + 1).collect();
            let part = share(left, row, &behind);
            let runs = row.plan.cells.iter().any(|cell| cell.unavailable.is_none());
            assert_eq!(part.is_zero(), !runs, "{}", row.plan.id);
            left -= part;
        }
        assert!(left < Duration::from_millis(10), "{left:?}");
    }
}
