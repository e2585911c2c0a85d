//! `xsched-lab list`, `run`, `all` and `join`: the plan's experiments with real programs.

pub(super) mod device;
pub(super) mod join;
pub(super) mod list;
mod row_queue;
mod stop;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use xsched_sim::scenario::{DeviceFile, DeviceSpec};

use crate::error::CommandError;
use crate::rows::files::{Folder, LEFT_OUT};
use crate::rows::identity::Identity;
use crate::rows::plan::{CellPlan, Hal};
use crate::rows::report;
use crate::rows::session::Starter;
use crate::rows::table::{self, Definition, Setting};
use xsched_console::Ending;
use xsched_console::output::Stream;

use self::row_queue::{Most, RowQueue};

/// All rows with few samples take no longer, however slow the device is, and on the processor.
const QUICK_MAX: Duration = Duration::from_secs(570);
const QUICK_HOST_MAX: Duration = Duration::from_secs(150);

/// The devices of `xsched-lab`.
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
    /// Only cells whose names have this in front of the way, as `six, eager`. Others are left for
    /// `xsched-lab all --resume`.
    #[arg(long, value_name = "TEXT")]
    cells: Option<String>,
    /// Python that runs the programs of `lab/programs`.
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    python: PathBuf,
    /// A description of the device for the simulator, as `xsched-lab bench calibrate` writes it; by
    /// default the one for this device that is part of the program.
    #[arg(long, value_name = "FILE")]
    device_file: Option<PathBuf>,
    /// GPUs that rows are run on at the same time, with commas between, as CUDA_VISIBLE_DEVICES or
    /// HIP_VISIBLE_DEVICES names them. Each has its part of the processors. By default one at a
    /// time, on the first GPU.
    #[arg(long, value_name = "GPU,GPU", value_delimiter = ',')]
    gpus: Vec<String>,
    /// A program to run instead of those of the lab.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    program: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The rows, as `xsched-lab list` has them.
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
    /// fit is left for `xsched-lab all --resume`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration,
          conflicts_with_all = ["budget", "quick"])]
    stop_after: Option<Duration>,
}

impl Time {
    /// The time for everything.
    fn most(self, setting: Setting) -> Most {
        let quick_max = if setting.hal == Hal::Host { QUICK_HOST_MAX } else { QUICK_MAX };
        match (self.stop_after, self.budget.or(setting.quick.then_some(quick_max))) {
            (Some(time), _) => Most::Stop(time),
            (None, Some(time)) => Most::Share(time),
            (None, None) => Most::Free,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    #[command(flatten)]
    how: How,
    /// The folder for predictions, rows, results and the report. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    report: PathBuf,
    /// Run only what has no complete record in the folder, by this build on this machine.
    #[arg(long)]
    resume: bool,
    /// With --resume, keep what another build or machine measured as well; the report says so.
    #[arg(long, requires = "resume")]
    mixed: bool,
    /// Only these rows, with commas between.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    time: Time,
}

#[derive(Debug, Args)]
pub(crate) struct StandInArgs {
    /// Description of the program to stand in for, a file with JSON.
    #[arg(value_name = "SPEC", value_parser = value_parser!(PathBuf))]
    spec: PathBuf,
}

/// Rows that are asked for, and how to run them.
struct Asked<'a> {
    how: &'a How,
    folder: &'a std::path::Path,
    /// All rows if empty.
    rows: &'a [String],
    resume: Resume,
    time: Time,
}

/// Treatment of what an earlier call measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resume {
    /// Measured again.
    Anew,
    /// Kept, if this build measured it on this machine.
    Same,
    /// Kept, from whichever build and machine.
    Mixed,
}

/// `xsched-lab run`.
pub(super) fn run(args: &RunArgs) -> Result<Ending, CommandError> {
    execute(&Asked {
        how: &args.how,
        folder: &args.report,
        rows: &args.rows,
        resume: Resume::Anew,
        time: args.time,
    })
}

/// `xsched-lab all`.
pub(super) fn all(args: &AllArgs) -> Result<Ending, CommandError> {
    execute(&Asked {
        how: &args.how,
        folder: &args.report,
        rows: &args.only,
        resume: match (args.resume, args.mixed) {
            (false, _) => Resume::Anew,
            (true, false) => Resume::Same,
            (true, true) => Resume::Mixed,
        },
        time: args.time,
    })
}

/// A stand-in for a model, for `xsched-lab` on the processor.
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
    if let Some(text) = &asked.how.cells {
        rows.retain_mut(|row| keep_cells(row, text));
        if rows.is_empty() {
            return Err(CommandError::NoCells { text: text.clone() });
        }
    }
    let gpus = gpus_of(&asked.how.gpus, hal)?;
    let stop = stop::on_signals()?;
    let programs = (asked.how.python.clone(), asked.how.program.clone());
    let starter = Starter::new(hal, setting.quick, programs, &stop);
    let starters: Vec<Starter<'_>> = match gpus {
        [] => vec![starter],
        gpus => gpus.iter().map(|gpu| starter.clone().on(gpu)).collect(),
    };
    let folder = Folder::make(asked.folder)?;
    let most = asked.time.most(setting);
    if asked.resume == Resume::Same {
        refuse_others(&folder, &rows)?;
    }
    let resume = asked.resume != Resume::Anew;
    let queue = RowQueue::new(&rows, (setting, resume), &folder, device, most);
    let ended = queue.run(&starters).map(Ending::new);
    // What was measured is worth a report, also if the rest was not.
    report::write(asked.folder)?;
    Stream::Stdout.print(&format!("report: {}\n", asked.folder.display()))?;
    ended
}

/// Refuses a folder with rows of another build or machine.
fn refuse_others(folder: &Folder, rows: &[Definition]) -> Result<(), CommandError> {
    let here = Identity::here();
    let known = rows.iter().filter_map(|row| folder.row(row.plan.id));
    match known.map(|row| row.identity).find(|found| *found != here) {
        None => Ok(()),
        Some(found) => Err(CommandError::Mixed {
            place: folder.0.display().to_string(),
            found: format!("build {}, {}", found.build, found.machine),
            wanted: format!("build {}, {}", here.build, here.machine),
        }),
    }
}

/// Leaves out all cells but those of groups with this in their names. Whether there are any.
fn keep_cells(row: &mut Definition, text: &str) -> bool {
    let is_other = |cell: &&mut CellPlan| !cell.group.contains(text);
    for other in row.plan.cells.iter_mut().filter(is_other) {
        other.unavailable.get_or_insert_with(|| format!("{LEFT_OUT}: --cells {text}"));
    }
    row.plan.cells.iter().any(|cell| cell.group.contains(text))
}

/// The GPUs that rows are run on at the same time.
fn gpus_of(gpus: &[String], hal: Hal) -> Result<&[String], CommandError> {
    let wrong = |why| CommandError::Gpus { gpus: gpus.join(","), why };
    if !gpus.is_empty() && hal == Hal::Host {
        return Err(wrong("the processor is one device; name GPUs with --hal cuda or hip"));
    }
    if gpus.iter().any(|gpu| gpu.trim().is_empty()) {
        return Err(wrong("a name is empty"));
    }
    let names: BTreeSet<&String> = gpus.iter().collect();
    if names.len() < gpus.len() {
        return Err(wrong("a GPU is named twice"));
    }
    Ok(gpus)
}

fn read_device(place: &std::path::Path) -> Result<DeviceSpec, CommandError> {
    Ok(DeviceFile::load(place)?.spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::report::samples;

    #[test]
    fn a_folder_of_another_build_or_machine_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::make(place.path()).unwrap();
        let rows = table::all(Setting { hal: Hal::Host, quick: true });
        let here = Identity::here();
        for (identity, is_fine) in [
            (here.clone(), true),
            (Identity { build: "another".to_owned(), ..here.clone() }, false),
            (Identity { machine: "another".to_owned(), ..here }, false),
        ] {
            let row = samples::row("7.2.1", "a row", Vec::new(), Vec::new());
            let row = crate::rows::document::Row { identity, ..row };
            folder.write_row(&row, &rows[0]).unwrap();
            let refused = refuse_others(&folder, &rows);
            assert_eq!(refused.is_ok(), is_fine);
            let said = refused.err().map(|error| error.to_string());
            assert!(said.is_none_or(|said| said.contains("--mixed")));
        }
    }

    #[test]
    fn gpus_that_make_no_sense_are_refused() {
        let of = |names: &[&str], hal| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            gpus_of(&names, hal).map(<[String]>::len).map_err(|error| error.to_string())
        };
        assert_eq!((of(&["0", "GPU-1"], Hal::Cuda), of(&[], Hal::Host)), (Ok(2), Ok(0)));
        assert!(of(&["0", "0"], Hal::Hip).unwrap_err().contains("named twice"));
        assert!(of(&["0", ""], Hal::Cuda).unwrap_err().contains("empty"));
        assert!(of(&["0"], Hal::Host).unwrap_err().contains("--hal cuda"));
    }
}
