//! `xsched bench all`: every bench on one device, with records in the form of the test plan, and a
//! report of them.

mod child;
mod facts;
mod page;
mod plan;
mod record;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value};

use self::child::Ended;
use self::facts::Facts;
use self::page::Report;
use self::plan::{CANARY, ELSEWHERE, Run};
pub use self::plan::{Part, parts};
use self::record::{Record, Status};
use super::args::SpinHal;
use crate::console::output::{Output, Stream};
use crate::console::{Ending, note};
use crate::error::{CommandError, UNUSABLE};
use crate::interrupt::log::Watch;
use crate::judge::Judged;
use crate::machine::Machine;
use crate::parent;

#[derive(Debug, Args)]
pub struct AllArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device, where there are several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,
    /// The folder for records, raw data, report.md and report.html. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: PathBuf,
    /// A look in two minutes, with too few samples for verdicts.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Do only what has no record of a completed run in the folder.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Only these experiments, by the names of their records, with commas between.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// Opening a device takes longer only if its driver hangs.
const OPEN_MAX: Duration = Duration::from_secs(120);
/// Where the benches' own outputs go, below the folder of the report.
const RAW: &str = "raw";

/// Runs everything that is asked for and not done yet, and writes the report.
///
/// # Errors
/// If an experiment is not known, the device cannot be opened, or the folder cannot be written to.
/// A bench that fails is no error: its record says so.
pub(super) fn execute(args: &AllArgs) -> Result<Ending, CommandError> {
    if let Some(unknown) = args.only.iter().find(|id| !plan::ids().contains(&id.as_str())) {
        let known = plan::ids().join(", ");
        return Err(CommandError::NoExperiment { id: unknown.clone(), known });
    }
    let folder = &args.report;
    let mut session = Session {
        args,
        folder,
        hal: args.hal.name().to_owned(),
        machine: Machine::here(),
        watch: Watch::new(),
        halted: None,
        environment: environment(args.hal),
    };
    session.try_device()?;
    let raw = folder.join(RAW);
    fs::create_dir_all(&raw)
        .map_err(|source| CommandError::Write { place: raw.display().to_string(), source })?;
    let mut before = Facts::here();
    before.environment.extend(session.environment.iter().cloned());
    write_json(&raw.join("facts-before.json"), &before)?;
    let runs = plan::runs(args.hal, args.quick);
    let mut records = Vec::new();
    for (number, run) in (1..).zip(&runs) {
        let done = session.run(run, (number, runs.len()))?;
        records.extend(done);
    }
    records.extend(session.elsewhere()?);
    let after = Facts::here();
    write_json(&raw.join("facts-after.json"), &after)?;
    let report = Report {
        machine: &session.machine,
        facts: &before,
        after: &after,
        records: &records,
        folder,
    };
    write_text(&folder.join("report.md"), &report.markdown())?;
    write_text(&folder.join("report.html"), &report.html())?;
    Stream::Stdout.print(&page::summary(&records, folder))?;
    Ok(Ending::new(records.iter().any(Record::is_finding)))
}

/// Variables that AMD's runtime reads, and the values that benches need.
const RUNTIME: [(&str, &str); 2] = [
    // Else the runtime may write to queues that are suspended, and let them go on.
    ("HSA_NO_SCRATCH_RECLAIM", "1"),
    // Else a stream may change its hardware queue between two launches.
    ("DEBUG_HIP_DYNAMIC_QUEUES", "0"),
];
/// The library that sees which of the driver's queues a stream is, beside the program.
const WATCH_LIBRARY: &str = "libxsched_kfd_watch.so";

/// Variables of the environment that are set for the benches, unless the user has set them.
fn environment(hal: SpinHal) -> Vec<(String, String)> {
    if !matches!(hal, SpinHal::Hip | SpinHal::Kfd) {
        return Vec::new();
    }
    let mut wanted: Vec<_> = RUNTIME.map(|(name, value)| (name, value.to_owned())).into();
    let library = env::current_exe().ok().map(|program| program.with_file_name(WATCH_LIBRARY));
    if let Some(library) = library.filter(|library| hal == SpinHal::Kfd && library.is_file()) {
        wanted.push(("LD_PRELOAD", library.display().to_string()));
    }
    let unset = wanted.into_iter().filter(|(name, _)| env::var_os(name).is_none());
    unset.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn write_json(path: &Path, document: &impl serde::Serialize) -> Result<(), CommandError> {
    Output::prepare(path)?.write(|out| xsched_sim::report::write_json(out, document))
}

fn write_text(path: &Path, text: &str) -> Result<(), CommandError> {
    Output::prepare(path)?.write(|out| out.write_all(text.as_bytes()))
}

/// One call of `bench all`.
#[derive(Debug)]
struct Session<'a> {
    args: &'a AllArgs,
    folder: &'a Path,
    hal: String,
    machine: Machine,
    /// The kernel's log.
    watch: Watch,
    /// Why nothing more may be done on this device, if so.
    halted: Option<String>,
    /// Variables that are set for the benches.
    environment: Vec<(String, String)>,
}

impl Session<'_> {
    /// Opens the device, so that nothing is written for one that cannot be used. A process of its
    /// own does that, because a device that this one had open would change what benches measure.
    fn try_device(&self) -> Result<(), CommandError> {
        let folder = tempfile::tempdir().map_err(CommandError::Temporary)?;
        let device = self.args.device.to_string();
        let arguments = ["bench", "open", "--hal", &self.hal, "--device", &device];
        let command = self.program(arguments.map(str::to_owned))?;
        let file = |name| folder.path().join(name);
        match child::run(command, &file("out"), &file("err"), OPEN_MAX) {
            Ended::Well => Ok(()),
            Ended::Badly(why) => Err(CommandError::device(why.trim_start_matches(UNUSABLE))),
        }
    }

    /// This program with these arguments, in a process that ends with this one.
    fn program(
        &self,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Command, CommandError> {
        let mut command = Command::new(env::current_exe().map_err(CommandError::device)?);
        command.args(arguments).args(parent::arguments());
        command.envs(self.environment.iter().cloned());
        note(|| format!("runs {command:?}"));
        Ok(command)
    }

    fn wants(&self, id: &str) -> bool {
        self.args.only.is_empty() || self.args.only.iter().any(|only| only == id)
    }

    /// The records of a bench: those that are there, if they may stay, or new ones.
    fn run(
        &mut self,
        run: &Run,
        (number, count): (usize, usize),
    ) -> Result<Vec<Record>, CommandError> {
        if !run.parts.iter().any(|part| self.wants(part.id)) {
            return Ok(self.kept(run.parts));
        }
        let kept = self.kept(run.parts);
        let done = |record: &Record| record.is_done(&self.hal, self.args.quick);
        let say = |words: &str| {
            let line = format!("{number}/{count} {}: {words}\n", run.bench);
            Stream::Stdout.print(&line)
        };
        if self.args.resume && kept.len() == run.parts.len() && kept.iter().all(done) {
            say("done before")?;
            return Ok(kept);
        }
        if let Some(why) = &self.halted {
            say("not run")?;
            return self.left_out(run, why);
        }
        // If this program ends before the bench, this record stays as it is.
        let begun: Vec<Record> = run.parts.iter().map(|part| self.begun(run, part)).collect();
        begun.iter().try_for_each(|record| record.write(self.folder))?;
        let start = Instant::now();
        let ended = self.measure(run)?;
        let seconds = start.elapsed().as_secs_f64();
        let finish =
            |(part, record): (&Part, Record)| finished(part, Record { seconds, ..record }, &ended);
        let records: Vec<Record> = run.parts.iter().zip(begun).map(finish).collect();
        records.iter().try_for_each(|record| record.write(self.folder))?;
        let word = records.first().map_or("", |record| record.status.word());
        say(&format!("{word}, {seconds:.1} s"))?;
        self.halted = self.reason_to_halt(&records);
        Ok(records)
    }

    /// Why nothing more may be done after these records: the driver has complained, or the first
    /// steps at Lv3 went wrong. The host device's driver is this program.
    fn reason_to_halt(&mut self, records: &[Record]) -> Option<String> {
        if self.args.hal == SpinHal::Host {
            return None;
        }
        if let Err(line) = self.watch.check() {
            return Some(line);
        }
        let canary = records.iter().find(|record| record.test_id == CANARY)?;
        let notes = &canary.notes;
        canary.is_finding().then(|| format!("the first steps at Lv3 went wrong: {notes}"))
    }

    /// The records of a bench that may not be run any more.
    fn left_out(&self, run: &Run, why: &str) -> Result<Vec<Record>, CommandError> {
        let record = |part: &Part| {
            let goal = part.goal.to_owned();
            // As if interrupted, so that it is run when the rest is resumed.
            let status = Status::Interrupted;
            let notes = format!("not begun: {why}");
            Record { goal, status, notes, ..self.blank(part.id, part.name) }
        };
        let records: Vec<Record> = run.parts.iter().map(record).collect();
        records.iter().try_for_each(|record| record.write(self.folder))?;
        Ok(records)
    }

    /// The records of these experiments that are in the folder.
    fn kept(&self, parts: &[Part]) -> Vec<Record> {
        parts.iter().filter_map(|part| Record::read(self.folder, part.id)).collect()
    }

    /// A bench's output with this ending, from the folder of the report.
    fn raw(run: &Run, ending: &str) -> PathBuf {
        Path::new(RAW).join(format!("{}.{ending}", run.bench))
    }

    /// The arguments of a bench, whose outputs are relative to a folder.
    fn arguments(&self, run: &Run, folder: &Path) -> Vec<String> {
        let path = |ending| folder.join(Self::raw(run, ending)).display().to_string();
        let mut arguments = vec!["bench".to_owned(), run.bench.to_owned(), "--hal".to_owned()];
        arguments.extend([self.hal.clone(), "--device".to_owned(), self.args.device.to_string()]);
        arguments.extend(run.options.iter().cloned());
        arguments.extend(["--json".to_owned(), path("json")]);
        if run.bench == "interrupt" {
            arguments.extend(["--events".to_owned(), path("jsonl")]);
        }
        if run.drawn {
            arguments.extend(["--svg".to_owned(), path("svg")]);
        }
        if run.bench == "calibrate" {
            arguments.extend(["--out".to_owned(), path("toml")]);
        }
        arguments
    }

    /// The record of an experiment that has begun.
    fn begun(&self, run: &Run, part: &Part) -> Record {
        let mut endings = vec!["json", "txt", "err.txt"];
        endings.extend(run.drawn.then_some("svg"));
        endings.extend((run.bench == "calibrate").then_some("toml"));
        endings.extend((run.bench == "interrupt").then_some("jsonl"));
        let raw = endings.into_iter().map(|ending| Self::raw(run, ending).display().to_string());
        let arguments = self.arguments(run, Path::new(""));
        Record {
            raw: raw.collect(),
            command: format!("xsched {}", arguments.join(" ")),
            goal: part.goal.to_owned(),
            notes: "the program ended before the experiment did".to_owned(),
            status: Status::Interrupted,
            ..self.blank(part.id, part.name)
        }
    }

    /// A record with nothing in it.
    fn blank(&self, id: &str, name: &str) -> Record {
        Record {
            test_id: id.to_owned(),
            test_name: name.to_owned(),
            date: Machine::here().date,
            hardware: String::new(),
            rocm_version: String::new(),
            xsched_version: env!("CARGO_PKG_VERSION").to_owned(),
            results: Map::new(),
            pass: None,
            notes: String::new(),
            status: Status::NotRun,
            goal: String::new(),
            hal: self.hal.clone(),
            quick: self.args.quick,
            command: String::new(),
            seconds: 0.0,
            raw: Vec::new(),
        }
    }

    /// Runs a bench, and gives what it wrote, or why it wrote nothing.
    fn measure(&self, run: &Run) -> Result<Result<Value, String>, CommandError> {
        let place = |ending| self.folder.join(Self::raw(run, ending));
        // What an earlier run left must not be taken for what this one wrote.
        let _ = fs::remove_file(place("json"));
        let command = self.program(self.arguments(run, self.folder))?;
        let ended = child::run(command, &place("txt"), &place("err.txt"), run.limit);
        Ok(match ended {
            Ended::Badly(why) => Err(why),
            Ended::Well => fs::read_to_string(place("json"))
                .map_err(|error| format!("it wrote no figures: {error}"))
                .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())),
        })
    }

    /// Records that say which experiments are not among these, and why.
    fn elsewhere(&self) -> Result<Vec<Record>, CommandError> {
        let wanted = ELSEWHERE.iter().filter(|(id, ..)| self.wants(id));
        wanted
            .map(|(id, name, why)| {
                let record = Record { notes: (*why).to_owned(), ..self.blank(id, name) };
                record.write(self.folder)?;
                Ok(record)
            })
            .collect()
    }
}

/// The record of an experiment whose bench has ended.
fn finished(part: &Part, begun: Record, ended: &Result<Value, String>) -> Record {
    let record = Record { notes: String::new(), ..begun };
    let document = match ended {
        Ok(document) => document,
        Err(why) => return Record { status: Status::Failed, notes: why.clone(), ..record },
    };
    let words = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (device, pci) = (words("/device/device"), words("/device/pci"));
    let at = if pci.is_empty() { String::new() } else { format!(", PCI {pci}") };
    let record = Record {
        hardware: format!("{device}{at}"),
        rocm_version: words("/device/driver").to_owned(),
        ..record
    };
    match (part.judge)(document) {
        Err(why) => Record { status: Status::Failed, notes: why.to_string(), ..record },
        Ok(Judged { not_run: Some(why), .. }) => {
            Record { status: Status::NotRun, notes: why, ..record }
        }
        Ok(Judged { results, pass, notes, .. }) => {
            Record { status: Status::Measured, results, pass, notes: notes.join("; "), ..record }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::judge;

    use super::*;

    const PART: Part = Part { id: "1", name: "one", goal: "good", judge: judge::calibration };

    #[test]
    fn amd_benches_get_what_their_runtime_needs() {
        let names = |hal| environment(hal).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert!(names(SpinHal::Host).is_empty() && names(SpinHal::Cuda).is_empty());
        let set = |name: &str| env::var_os(name).is_some();
        for (name, _) in RUNTIME {
            assert!(set(name) || names(SpinHal::Kfd).contains(&name.to_owned()), "{name}");
        }
    }

    #[test]
    fn a_failed_careful_step_ends_everything_on_a_gpu() {
        let folder = tempfile::tempdir().unwrap();
        let args = |hal| AllArgs {
            hal,
            device: 0,
            report: folder.path().to_owned(),
            quick: true,
            resume: false,
            only: Vec::new(),
        };
        let canary = |pass| Record {
            test_id: CANARY.to_owned(),
            notes: "a victim ran on".to_owned(),
            ..record::sample(Status::Measured, Some(pass))
        };
        let halted = |hal, pass| {
            let args = args(hal);
            let mut session = Session {
                args: &args,
                folder: folder.path(),
                hal: args.hal.name().to_owned(),
                machine: Machine::here(),
                watch: Watch::new(),
                halted: None,
                environment: environment(hal),
            };
            session.halted = session.reason_to_halt(&[canary(pass)]);
            let run = &plan::runs(hal, true)[1];
            let why = session.halted.clone()?;
            Some(session.left_out(run, &why).unwrap())
        };
        assert!(halted(SpinHal::Host, false).is_none() && halted(SpinHal::Kfd, true).is_none());
        let records = halted(SpinHal::Kfd, false).unwrap();
        assert!(records.iter().all(|record| record.is_finding() && !record.is_done("kfd", true)));
        assert!(records[0].notes.contains("a victim ran on"), "{}", records[0].notes);
        assert_eq!(Record::read(folder.path(), "7.3.1"), Some(records[0].clone()));
    }

    #[test]
    fn how_a_bench_ended_is_in_its_record() {
        let begun = || record::sample(Status::Interrupted, None);
        let document = json!({
            "device": { "device": "a card", "pci": "0000:01:00.0", "driver": "a driver" },
            "lone": { "p50_us": 3.5 }
        });
        let good = finished(&PART, begun(), &Ok(document));
        assert_eq!(
            (good.status, good.hardware.as_str()),
            (Status::Measured, "a card, PCI 0000:01:00.0")
        );
        assert_eq!(good.results["lone_p50_us"], 3.5);
        let bad = finished(&PART, begun(), &Err("it hung".to_owned()));
        assert_eq!((bad.status, bad.notes.as_str()), (Status::Failed, "it hung"));
        let wrong = Part { judge: judge::per_level, ..PART };
        let unread = finished(&wrong, begun(), &Ok(json!({ "rows": 1 })));
        assert_eq!(unread.status, Status::Failed);
        let none = Part { judge: judge::interrupt, ..PART };
        assert_eq!(finished(&none, begun(), &Ok(json!({}))).status, Status::NotRun);
    }
}
