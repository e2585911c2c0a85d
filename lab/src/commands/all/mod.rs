//! `xsched-lab bench all`: every bench on one device, with records in the form of the test plan, a
//! report of them, and an archive that can be sent.

mod archive;
mod facts;
mod page;
pub(in crate::commands) mod plan;
mod private;
mod programs;
mod questions;
pub(crate) mod report;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value};
use xsched_hal_kfd::log::Watch;

use self::facts::Facts;
use self::page::Report;
use self::plan::Part;
use self::plan::{CANARY, ELSEWHERE, PROGRAMS, QUICK_MAX, Run};
use self::private::Private;
use super::child::{self, Ended};
use super::open;
use crate::device::hal::SpinHal;
use crate::error::CommandError;
use crate::interrupt::log;
use crate::judge::Judged;
use crate::record::experiment::{Record, Status};
use xsched_console::machine::Machine;
use xsched_console::output::{Output, Stream};
use xsched_console::{Ending, note};

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device, where there are several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,
    /// The folder for records, raw data, report.md and report.html. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: PathBuf,
    /// A look in a few minutes, at most ten, with too few samples for verdicts.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Do only what has no record of a completed run in the folder.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Only these experiments, by the names of their records, with commas between.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// Where the benches' own outputs go, below the folder of the report.
const RAW: &str = "raw";
/// Facts before the first bench and after the last, and what machine this is.
const BEFORE: &str = "facts-before.json";
const AFTER: &str = "facts-after.json";
const MACHINE: &str = "machine.json";
/// Part of its time that a bench is told, in percent: the rest is for what it cannot foresee.
const TOLD_PERCENT: u32 = 60;

/// Runs everything that is asked for and not done yet, and writes the report.
pub(super) fn execute(args: &AllArgs) -> Result<Ending, CommandError> {
    if let Some(unknown) = args.only.iter().find(|id| !plan::ids().contains(&id.as_str())) {
        let known = plan::ids().join(", ");
        return Err(CommandError::NoExperiment { id: unknown.clone(), known });
    }
    let folder = &args.report;
    let mut session = Session::new(args);
    // Nothing is written for a device that cannot be used.
    open::in_a_process(&session.hal, args.device, &session.environment)?;
    let raw = folder.join(RAW);
    fs::create_dir_all(&raw)
        .map_err(|source| CommandError::Write { place: raw.display().to_string(), source })?;
    let mut before = Facts::here();
    before.environment.extend(session.environment.iter().cloned());
    write_json(&raw.join(BEFORE), &before)?;
    write_json(&raw.join(MACHINE), &session.machine)?;
    let runs = plan::runs(args.hal, args.quick);
    Stream::Stdout.print(&session.announcement(&runs))?;
    let mut records = Vec::new();
    for number in 0..runs.len() {
        records.extend(session.run(&runs, number)?);
    }
    records.extend(session.elsewhere()?);
    let after = Facts::here();
    write_json(&raw.join(AFTER), &after)?;
    let report = Report {
        machine: &session.machine,
        facts: &before,
        after: &after,
        records: &records,
        raw: &|name| fs::read_to_string(folder.join(name)).ok(),
    };
    let blocks = report.blocks();
    write_text(&folder.join("report.md"), &crate::report::markdown(&blocks))?;
    write_text(&folder.join("report.html"), &crate::report::page(&report.title(), &blocks))?;
    let private = Private::here(&[folder]);
    let sent = archive::write(folder, &sent(&records), &private)?;
    note(|| format!("looked for {} private texts", private.looked_for().len()));
    let text = format!("{}{}\n", page::summary(&records, folder), sent.display());
    Stream::Stdout.print(&text)?;
    Ok(Ending::new(records.iter().any(Record::is_finding)))
}

/// The files of a report that are sent, by their names in its folder.
fn sent(records: &[Record]) -> Vec<String> {
    let facts = [BEFORE, AFTER, MACHINE].map(|name| format!("{RAW}/{name}"));
    let mut files: Vec<String> = facts.into();
    for record in records {
        files.push(format!("{}.json", record.test_id));
        files.extend(record.raw.iter().cloned());
    }
    // Several experiments have the same raw data.
    files.sort();
    files.dedup();
    files
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
    Ok(Output::prepare(path)?.write(|out| xsched_sim::report::write_json(out, document))?)
}

fn write_text(path: &Path, text: &str) -> Result<(), CommandError> {
    Ok(Output::prepare(path)?.write(|out| out.write_all(text.as_bytes()))?)
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
    began: Instant,
}

impl<'a> Session<'a> {
    fn new(args: &'a AllArgs) -> Self {
        Self {
            args,
            folder: &args.report,
            hal: args.hal.name().to_owned(),
            machine: Machine::here(),
            watch: log::watch(),
            halted: None,
            environment: environment(args.hal),
            began: Instant::now(),
        }
    }

    /// How long it will take, in a line.
    fn announcement(&self, runs: &[Run]) -> String {
        let to_do: Vec<&Run> = runs.iter().filter(|run| self.is_to_do(run)).collect();
        let count = to_do.len();
        if self.args.quick {
            let most = QUICK_MAX.as_secs().div_ceil(60);
            return format!("{count} benches with few samples, a few minutes, at most {most}\n");
        }
        let most: Duration = to_do.iter().map(|run| run.limit).sum();
        let hours = most.as_secs_f64() / 3_600.0;
        format!("{count} benches, an hour or two, at most {hours:.1} hours\n")
    }

    /// Returns whether a bench has anything to show that is asked for and not there yet.
    fn is_to_do(&self, run: &Run) -> bool {
        run.parts.iter().any(|part| self.wants(part.id)) && !self.is_done(run)
    }

    fn is_done(&self, run: &Run) -> bool {
        let kept = self.kept(run.parts);
        let done = |record: &Record| record.is_done(&self.hal, self.args.quick);
        self.args.resume && kept.len() == run.parts.len() && kept.iter().all(done)
    }

    /// How long a bench may take: with few samples, its part of what is left.
    fn limit(&self, run: &Run, behind: &[Run]) -> Duration {
        if !self.args.quick {
            return run.limit;
        }
        let behind: Vec<Run> = behind.iter().filter(|run| self.is_to_do(run)).cloned().collect();
        plan::share_of(QUICK_MAX.saturating_sub(self.began.elapsed()), run, &behind)
    }

    fn wants(&self, id: &str) -> bool {
        self.args.only.is_empty() || self.args.only.iter().any(|only| only == id)
    }

    /// The records of a bench: those that are there, if they may stay, or new ones.
    fn run(&mut self, runs: &[Run], number: usize) -> Result<Vec<Record>, CommandError> {
        let (Some(run), behind) = (runs.get(number), runs.get(number + 1..).unwrap_or_default())
        else {
            return Ok(Vec::new());
        };
        if !run.parts.iter().any(|part| self.wants(part.id)) {
            return Ok(self.kept(run.parts));
        }
        let say = |words: &str| {
            let line = format!("{}/{} {}: {words}\n", number + 1, runs.len(), run.bench);
            Stream::Stdout.print(&line)
        };
        if self.is_done(run) {
            say("done before")?;
            return Ok(self.kept(run.parts));
        }
        if let Some(why) = &self.halted {
            say("not run")?;
            return self.left_out(run, why);
        }
        // If this program ends before the bench, this record stays as it is.
        let begun: Vec<Record> = run.parts.iter().map(|part| self.begun(run, part)).collect();
        begun.iter().try_for_each(|record| record.write(self.folder))?;
        let start = Instant::now();
        let ended = self.measure(run, self.limit(run, behind))?;
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
        let command = if run.bench == PROGRAMS {
            programs::COMMAND.to_owned()
        } else {
            format!("xsched {}", self.arguments(run, Path::new("")).join(" "))
        };
        Record {
            raw: raw.collect(),
            command,
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
    fn measure(&self, run: &Run, limit: Duration) -> Result<Measured, CommandError> {
        let place = |ending| self.folder.join(Self::raw(run, ending));
        // What an earlier run left must not be taken for what this one wrote.
        let _ = fs::remove_file(place("json"));
        let command = if run.bench == PROGRAMS {
            match programs::command(self.args.quick, limit.as_secs(), &place("json")) {
                Ok(command) => command,
                Err(why) => return Ok(Measured::NotHere(why)),
            }
        } else {
            let mut arguments = self.arguments(run, self.folder);
            if self.args.quick {
                let told = (limit * TOLD_PERCENT / 100).as_secs().max(1);
                arguments.extend(["--within".to_owned(), told.to_string()]);
            }
            open::program(arguments, &self.environment)?
        };
        let ended = child::run(command, &place("txt"), &place("err.txt"), limit);
        Ok(match ended {
            Ended::Badly(why) => Measured::Failed(why),
            Ended::Well => {
                let text = fs::read_to_string(place("json"));
                let text = text.map_err(|error| format!("it wrote no figures: {error}"));
                let read = |text: String| serde_json::from_str(&text).map_err(|e| e.to_string());
                text.and_then(read).map_or_else(Measured::Failed, Measured::Well)
            }
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

/// Outcome of a bench.
#[derive(Debug)]
enum Measured {
    /// Record that the bench wrote.
    Well(Value),
    /// Why it wrote nothing.
    Failed(String),
    /// Why it was not begun.
    NotHere(String),
}

/// The record of an experiment whose bench has ended.
fn finished(part: &Part, begun: Record, ended: &Measured) -> Record {
    let record = Record { notes: String::new(), ..begun };
    let document = match ended {
        Measured::Well(document) => document,
        Measured::Failed(why) => {
            return Record { status: Status::Failed, notes: why.clone(), ..record };
        }
        Measured::NotHere(why) => {
            return Record { status: Status::NotRun, notes: why.clone(), ..record };
        }
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
    use crate::record::experiment::sample;

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
            ..sample(Status::Measured, Some(pass))
        };
        let halted = |hal, pass| {
            let args = args(hal);
            let mut session = Session::new(&args);
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
        let begun = || sample(Status::Interrupted, None);
        let document = json!({
            "device": { "device": "a card", "pci": "0000:01:00.0", "driver": "a driver" },
            "lone": { "p50_us": 3.5 }
        });
        let good = finished(&PART, begun(), &Measured::Well(document));
        assert_eq!(
            (good.status, good.hardware.as_str()),
            (Status::Measured, "a card, PCI 0000:01:00.0")
        );
        assert_eq!(good.results["lone_p50_us"], 3.5);
        let bad = finished(&PART, begun(), &Measured::Failed("it hung".to_owned()));
        assert_eq!((bad.status, bad.notes.as_str()), (Status::Failed, "it hung"));
        let wrong = Part { judge: judge::per_level, ..PART };
        let unread = finished(&wrong, begun(), &Measured::Well(json!({ "rows": 1 })));
        assert_eq!(unread.status, Status::Failed);
        let none = Part { judge: judge::interrupt, ..PART };
        assert_eq!(finished(&none, begun(), &Measured::Well(json!({}))).status, Status::NotRun);
        let not_here = finished(&PART, begun(), &Measured::NotHere("no PyTorch".to_owned()));
        assert_eq!((not_here.status, &*not_here.notes), (Status::NotRun, "no PyTorch"));
    }
}
