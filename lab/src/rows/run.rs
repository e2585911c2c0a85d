//! Runs rows: for each cell its programs, alone and beside each other, with the prediction written
//! down before the first phase.

mod kept;
mod phases;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use xsched_sim::scenario::DeviceSpec;

use super::counts::Counts;
use super::document::{Cell, Figure, Prediction, Progress, Role, Row, Status, VERSION};
use super::files::{Folder, NO_TIME};
use super::identity::Identity;
use super::judge::verdicts;
use super::measure::Phase;
use super::plan::{CellPlan, InTurns, LoadPlan, Program, RolePlan, Way};
use super::predict::{Target, predict};
use super::prestart::Prestart;
use super::program::ProgramError;
use super::protocol::{Load, Profile, Ready};
use super::quantities::figures;
use super::script;
use super::session::{Session, Starter};
use super::table::{Definition, Setting};
use super::timing::{Clock, Limit};
use crate::error::CommandError;
use kept::Kept;
pub(crate) use kept::coming;
use xsched_console::machine::Machine;

/// Programs, device and settings that rows are run with.
pub(crate) struct Lab<'a> {
    /// How programs are started.
    pub(crate) starter: &'a Starter<'a>,
    /// Where documents go.
    pub(crate) folder: Folder,
    /// The description of the device, where one was given.
    pub(crate) device: Option<DeviceSpec>,
    /// Is told what is done, in a line.
    pub(crate) say: &'a dyn Fn(&str),
}

/// State of a row that is run.
struct Run<'r, 'a> {
    lab: &'r Lab<'a>,
    prestart: &'r mut Prestart<'a>,
    experiment: &'r Definition,
    clock: Clock,
    /// Progress of roles alone, by group and role.
    alone: BTreeMap<(String, String), Progress>,
    /// Needs of the programs of each group alone.
    ready: BTreeMap<String, Ready>,
    prediction: Option<Prediction>,
    hardware: String,
    software: BTreeMap<String, String>,
    cells: Vec<Cell>,
    kept: Kept,
    /// Launches, by what became of them, of a program that was run to its end.
    script_counts: Option<Counts>,
    /// Groups that an earlier call began on another device.
    elsewhere: Vec<String>,
    /// The programs of a group without XSched, while its other ways are measured.
    reference: Option<RunningCell<'a>>,
}

/// The programs that run, and what they were started for.
struct RunningCell<'a> {
    plan: CellPlan,
    group: String,
    /// Set if what runs alone in another way is set beside these in turns.
    is_reference: bool,
    session: Session<'a>,
    /// The cells that were measured with them.
    cells: Vec<String>,
}

/// Why a row is not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The user ends everything.
    #[error("interrupted")]
    Interrupted,
    /// A document cannot be written.
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl<'a> Lab<'a> {
    const fn setting(&self) -> Setting {
        Setting { hal: self.starter.hal, quick: self.starter.quick }
    }

    /// A row with nothing in it.
    pub(crate) fn blank(&self, of: &Definition, status: Status) -> Row {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let quick = if self.starter.quick { " --quick" } else { "" };
        let hal = self.starter.hal.name();
        Row {
            version: VERSION,
            id: of.plan.id.to_owned(),
            name: of.plan.name.to_owned(),
            date: Machine::here().date,
            hal: hal.to_owned(),
            hardware: String::new(),
            identity: Identity::here(),
            software: [("xsched".to_owned(), version)].into(),
            quick: self.starter.quick,
            status,
            command: format!("xsched-lab run {} --hal {hal}{quick}", of.plan.id),
            cells: Vec::new(),
            figures: Vec::new(),
            verdicts: Vec::new(),
            notes: of.notes.clone(),
            seconds: 0.0,
        }
    }

    /// Runs a row within a time, and writes its documents. What an earlier call measured of it is
    /// kept.
    pub(crate) fn run(
        &self,
        of: &Definition,
        limit: Limit,
        before: Option<Row>,
        prestart: &mut Prestart<'a>,
    ) -> Result<Row, RunError> {
        let kept = before.as_ref().map(|row| Kept::of(of, row, &self.folder)).unwrap_or_default();
        let before = before.filter(|_| !kept.cells.is_empty());
        let prediction = self.folder.prediction(of.plan.id).filter(|_| before.is_some());
        let prediction = prediction.map(|said| Prediction {
            figures: said
                .figures
                .into_iter()
                .filter(|one| kept.has_group_of(of, &one.key.cell))
                .collect(),
            ..said
        });
        // If this program ends before the row, this is what stays.
        let ended = Status::Failed("the program ended before the row did".to_owned());
        let begun = self.blank(of, ended);
        let begun = Row { cells: kept.cells.values().cloned().collect(), ..begun };
        self.folder.write_row(&begun, of)?;
        let mut run = Run {
            lab: self,
            prestart,
            experiment: of,
            clock: Clock::new(limit, self.setting()),
            alone: kept.alone(of),
            ready: kept.ready.clone(),
            prediction,
            hardware: before.as_ref().map(|row| row.hardware.clone()).unwrap_or_default(),
            software: before.as_ref().map(|row| row.software.clone()).unwrap_or_default(),
            cells: Vec::new(),
            kept,
            script_counts: None,
            elsewhere: Vec::new(),
            reference: None,
        };
        let mut running = None;
        for number in 0..of.plan.cells.len() {
            run.cell(number, &mut running)?;
            run.keep(&begun)?;
        }
        let reference = run.reference.take();
        running.into_iter().chain(reference).for_each(|one| run.finish(one));
        run.row(begun, before.map_or(0.0, |row| row.seconds))
    }
}

impl<'a> Run<'_, 'a> {
    /// Runs a cell, and keeps its programs for the next one.
    fn cell(
        &mut self,
        number: usize,
        running: &mut Option<RunningCell<'a>>,
    ) -> Result<(), RunError> {
        let of = self.experiment;
        let Some(cell) = of.plan.cells.get(number) else { return Ok(()) };
        if let Some(kept) = self.kept.cells.get(&cell.name) {
            self.cells.push(kept.clone());
            return Ok(());
        }
        let start = Instant::now();
        let mut measured = Vec::new();
        let status = match &cell.unavailable {
            Some(why) => Status::NotRun(why.clone()),
            None if self.elsewhere.contains(&cell.group) => self.begun_elsewhere(),
            None if !self.clock.has_time() => {
                Status::NotRun(format!("{NO_TIME}: the row had {:.0} s", self.clock.limit_s()))
            }
            None => match self.measure(number, cell, running) {
                Ok(roles) => {
                    measured = roles;
                    Status::Measured
                }
                Err(Fault::Program(ProgramError::Interrupted)) => {
                    return Err(RunError::Interrupted);
                }
                Err(Fault::Command(error)) => return Err(error.into()),
                Err(Fault::Time(seconds)) => {
                    Status::NotRun(format!("{NO_TIME}: a phase takes {seconds:.0} s"))
                }
                Err(Fault::Elsewhere) => self.begun_elsewhere(),
                Err(Fault::Program(ProgramError::Missing(why))) => Status::NotRun(why),
                Err(Fault::Program(error)) => Status::Failed(error.to_string()),
            },
        };
        if status != Status::Measured {
            // Programs that failed are not used for the next cell.
            let ended = running.take_if(|_| cell.unavailable.is_none());
            // A program that failed may not come to its end.
            let fine = ended.filter(|_| !matches!(status, Status::Failed(_)));
            fine.into_iter().for_each(|fine| self.finish(fine));
            measured = cell.roles().map(|role| self.role(cell, role, None)).collect();
        }
        let seconds = start.elapsed().as_secs_f64();
        let line = match &status {
            Status::Measured => format!("  {}: {seconds:.1} s\n", cell.name),
            Status::NotRun(why) => format!("  {}: not run: {why}\n", cell.name),
            Status::Failed(why) => format!("  {}: FAILED: {why}\n", cell.name),
        };
        (self.lab.say)(&line);
        let (name, way) = (cell.name.clone(), cell.way.name().to_owned());
        let counts = self.script_counts.take();
        self.cells.push(Cell { name, way, status, counts, roles: measured, seconds });
        Ok(())
    }

    /// Writes down what there is, in case that this program is killed.
    fn keep(&self, begun: &Row) -> Result<(), RunError> {
        let behind = self.experiment.plan.cells.get(self.cells.len()..).unwrap_or_default();
        let kept = behind.iter().filter_map(|cell| self.kept.cells.get(&cell.name));
        let mut software = begun.software.clone();
        software.extend(self.software.clone());
        let row = Row {
            hardware: self.hardware.clone(),
            software,
            cells: self.cells.iter().chain(kept).cloned().collect(),
            ..begun.clone()
        };
        Ok(self.lab.folder.write_row(&row, self.experiment)?)
    }

    /// Measures a cell.
    fn measure(
        &mut self,
        number: usize,
        cell: &CellPlan,
        running: &mut Option<RunningCell<'a>>,
    ) -> Result<Vec<Role>, Fault> {
        let raw = self.lab.folder.raw(self.experiment.plan.id, &cell.name);
        if cell.processes.iter().any(|process| process.program == Program::Script) {
            let left = self.clock.limit_s() - self.clock.elapsed_s();
            let limit =
                (self.clock.limit_s() > 0.0).then(|| Duration::from_secs_f64(left.max(1.0)));
            let (progress, counts) = script::run(self.lab.starter, cell, &raw, limit)?;
            self.script_counts = counts;
            let of = |role: &RolePlan| Role {
                alone: Some(progress.clone()),
                ..self.role(cell, role, None)
            };
            return Ok(cell.roles().map(of).collect());
        }
        let plan = programs(cell);
        if running.as_ref().is_none_or(|one| one.plan != plan) {
            self.put_aside(running.take(), &cell.group);
            let start = Instant::now();
            let mut prepared = match self.prestart.take(&raw) {
                Some(prepared) => prepared,
                None => self.lab.starter.prepare(cell, &raw)?,
            };
            self.prestart.fill();
            prepared.load(!self.ready.contains_key(&cell.group))?;
            self.prestart.imported();
            let session = prepared.ready()?;
            self.clock.started_in(start.elapsed().as_secs_f64());
            let in_turns =
                |of: &CellPlan| of.group == cell.group && of.in_turns != InTurns::Nothing;
            let has_turns = !cell.has_beside || self.experiment.plan.cells.iter().any(in_turns);
            let is_reference = cell.way == Way::Native && has_turns;
            let (group, cells) = (cell.group.clone(), Vec::new());
            *running = Some(RunningCell { plan, group, is_reference, session, cells });
        }
        let Some(RunningCell { session, cells, .. }) = running else { return Ok(Vec::new()) };
        cells.push(cell.name.clone());
        self.learn(cell, &session.ready)?;
        self.phases(number, cell, session)
    }

    /// Ends programs, or keeps them if the group goes on and needs them as its reference.
    fn put_aside(&mut self, old: Option<RunningCell<'a>>, group: &str) {
        let (kept, old) = match old {
            Some(one) if one.is_reference => (Some(one), None),
            old => (self.reference.take(), old),
        };
        let is_of_group = kept.as_ref().is_some_and(|one| one.group == group);
        let (kept, over) = if is_of_group { (kept, None) } else { (None, kept) };
        let before = self.reference.take();
        self.reference = kept;
        [old, over, before].into_iter().flatten().for_each(|one| self.finish(one));
    }

    /// Ends programs, and keeps what they counted with the cells that they were started for.
    fn finish(&mut self, ended: RunningCell<'a>) {
        let counts = ended.session.finish();
        let of = |cell: &&mut Cell| ended.cells.contains(&cell.name);
        self.cells.iter_mut().filter(of).for_each(|cell| cell.counts = counts);
    }

    /// Keeps what the programs of a group need alone, and writes down what is predicted of it.
    fn learn(&mut self, cell: &CellPlan, ready: &Ready) -> Result<(), Fault> {
        self.software.extend(ready.software.clone());
        if !ready.hardware.is_empty() && self.hardware != ready.hardware {
            self.hardware.clone_from(&ready.hardware);
            self.forget_kept();
            if self.elsewhere.contains(&cell.group) {
                return Err(Fault::Elsewhere);
            }
        }
        // Of a group that goes on, the plan may have cells that there were not before.
        let goes_on = self.kept.ready.remove(&cell.group).is_some();
        if self.ready.contains_key(&cell.group) && !goes_on {
            return Ok(());
        }
        let ready = self.ready.entry(cell.group.clone()).or_insert_with(|| ready.clone());
        let target = Target {
            hal: self.lab.starter.hal,
            hardware: self.hardware.clone(),
            device: self.lab.device.clone(),
            date: Machine::here().date,
        };
        let group = [(cell.group.clone(), ready.clone())].into();
        let new = predict(&self.experiment.plan, &group, &target);
        let prediction = match self.prediction.take() {
            None => new,
            Some(before) => joined(before, new),
        };
        self.lab.folder.write_prediction(&prediction)?;
        self.prediction = Some(prediction);
        Ok(())
    }

    /// Has what was measured on another device measured again, by the next call.
    fn forget_kept(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let status = self.begun_elsewhere();
        for cell in self.cells.iter_mut().filter(|cell| kept.cells.contains_key(&cell.name)) {
            cell.status = status.clone();
        }
        self.elsewhere.extend(kept.ready.into_keys());
    }

    fn begun_elsewhere(&self) -> Status {
        Status::NotRun(format!("{NO_TIME}: it was begun on another device than {}", self.hardware))
    }

    /// A role of a document.
    fn role(&self, cell: &CellPlan, role: &RolePlan, phase: Option<&Phase>) -> Role {
        let name = &role.spec.name;
        let ready = self.ready.get(&cell.group).and_then(|ready| ready.roles.get(name));
        let mut beside = phase.and_then(|phase| phase.work(name));
        let is_first = cell.roles().next().is_some_and(|first| first.spec.name == *name);
        if let (Some(beside), Some(phase), true) = (&mut beside, phase, is_first) {
            beside.samples.cores.clone_from(&phase.cores);
        }
        Role {
            name: name.clone(),
            work: work(role),
            load: words(&role.load, ready),
            alone: self.alone_of(cell, role).filter(|_| cell.has_beside),
            beside,
        }
    }

    /// Returns the progress of a role alone: it, or another one that is the same but for its name.
    fn alone_of(&self, cell: &CellPlan, role: &RolePlan) -> Option<Progress> {
        let of = |name: &str| self.alone.get(&(cell.group.clone(), name.to_owned())).cloned();
        of(&role.spec.name).or_else(|| {
            let same = |other: &&RolePlan| other.is_same(role);
            cell.roles().filter(same).find_map(|other| of(&other.spec.name))
        })
    }

    fn with_windows(&self, mut roles: Vec<Role>, phase: &Phase) -> Vec<Role> {
        if !self.experiment.has_windows {
            return roles;
        }
        let rate = |role: &Role| Some((role.name.clone(), role.alone.as_ref()?.rate_per_s));
        let mut windows = phase.windows(&roles.iter().filter_map(rate).collect());
        for role in &mut roles {
            if let Some(beside) = &mut role.beside {
                beside.samples.windows_percent = windows.remove(&role.name).unwrap_or_default();
            }
        }
        roles
    }

    /// The row, judged and written.
    fn row(self, begun: Row, seconds_before: f64) -> Result<Row, RunError> {
        let figures = figures(&self.experiment.plan, &self.cells);
        let verdicts = verdicts(self.experiment, &self.cells, self.lab.setting());
        let mut software = begun.software.clone();
        software.extend(self.software);
        let row = Row {
            hardware: self.hardware,
            software,
            status: status(&self.cells),
            verdicts,
            figures,
            cells: self.cells,
            seconds: self.clock.elapsed_s() + seconds_before,
            ..begun
        };
        self.lab.folder.write_row(&row, self.experiment)?;
        Ok(row)
    }
}

/// Why a cell is not measured.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("there is no time for a phase of {0} s")]
    Time(f64),
    #[error("its group was begun on another device")]
    Elsewhere,
}

fn nothing(role: &str) -> ProgramError {
    ProgramError::Failed(format!("role {role} had no request in the time that counts"))
}

/// How a row ended whose cells are these.
fn status(cells: &[Cell]) -> Status {
    if cells.iter().any(|cell| cell.status == Status::Measured) {
        return Status::Measured;
    }
    let failed = cells.iter().find(|cell| matches!(cell.status, Status::Failed(_)));
    let first = failed.or(cells.first()).map(|cell| cell.status.clone());
    first.unwrap_or_else(|| Status::NotRun("it has no cells".to_owned()))
}

/// The programs of a cell without what they are told later, to see whether another cell needs the
/// same ones.
fn programs(cell: &CellPlan) -> CellPlan {
    let mut processes = cell.processes.clone();
    for role in processes.iter_mut().flat_map(|process| &mut process.roles) {
        role.load = LoadPlan::Busy(0.0);
        role.load_alone = None;
    }
    CellPlan { way: cell.way, policy: cell.policy, processes, ..CellPlan::default() }
}

/// Joins two predictions: what was predicted before stays.
pub(crate) fn joined(mut before: Prediction, new: Prediction) -> Prediction {
    let known: BTreeSet<String> =
        before.figures.iter().map(|figure| figure.key.cell.clone()).collect();
    let is_new = |figure: &Figure| !known.contains(&figure.key.cell);
    before.figures.extend(new.figures.into_iter().filter(is_new));
    before.left_out.retain(|cell, _| !new.left_out.contains_key(cell));
    before.left_out.extend(new.left_out);
    let predicted: Vec<&str> =
        before.figures.iter().map(|figure| figure.key.cell.as_str()).collect();
    before.left_out.retain(|cell, _| !predicted.contains(&cell.as_str()));
    before
}

/// The work of a role, for people.
fn work(role: &RolePlan) -> String {
    let spec = &role.spec;
    let graph = if spec.graph { ", graph" } else { "" };
    format!("{}, {}, batch {}{graph}", spec.work, spec.dtype, spec.batch)
}

/// A load, for people.
fn words(load: &LoadPlan, ready: Option<&Profile>) -> String {
    let fixed = match load {
        LoadPlan::Fixed(load) => load.clone(),
        LoadPlan::Busy(percent) => {
            let every = ready.map(|profile| load.of(profile));
            let Some(Load::Periodic { every_ms }) = every else {
                return format!("{percent} % busy");
            };
            return format!("{percent} % busy, every {every_ms:.2} ms");
        }
    };
    match fixed {
        Load::Closed { pause_ms, .. } if pause_ms > 0.0 => format!("closed, {pause_ms} ms pause"),
        Load::Closed { .. } => "closed".to_owned(),
        Load::Periodic { every_ms } => format!("every {every_ms} ms"),
        Load::Poisson { per_s } => format!("Poisson, {per_s} a second"),
        Load::Lognormal { per_s, sigma } => format!("log-normal, σ = {sigma}, {per_s} a second"),
        Load::Endless { in_flight } => format!("endless, {in_flight} in flight"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    use super::super::plan::{Hal, ProcessPlan};
    use super::super::protocol::RoleSpec;
    use super::super::table::all;
    use super::*;

    /// Says that it is ready, and answers orders with a request each 10 ms, of 5 ms.
    const GOOD: &str = r#"
role=$(sed 's/.*"name":"\([^"]*\)".*/\1/' "$1")
echo "{\"ready\":true,\"hardware\":\"a card\",\"roles\":{\"$role\":{\"request_ns\":5000000}}}"
while read -r order; do
    phase=$(echo "$order" | sed 's/.*"phase":\([0-9]*\).*/\1/')
    begins= ends= n=1
    while [ $n -le 30 ]; do
        begins="$begins${begins:+,}$((n * 10))000000" ends="$ends${ends:+,}$((n * 10 + 5))000000"
        n=$((n + 1))
    done
    echo "{\"phase\":$phase,\"begin_ns\":0,\"end_ns\":300000000,\"roles\":{\"$role\":{\"begin_ns\":[$begins],\"end_ns\":[$ends]}}}"
done"#;

    /// A row of two processes with a role each, in two ways.
    fn row() -> Definition {
        let mut row = all(Setting { hal: Hal::Host, quick: true }).remove(0);
        let process = |name: &str| ProcessPlan {
            roles: vec![RolePlan {
                spec: RoleSpec { name: name.to_owned(), ..RoleSpec::default() },
                load: LoadPlan::Fixed(Load::Endless { in_flight: 1 }),
                load_alone: None,
            }],
            ..ProcessPlan::default()
        };
        let cell = |way: Way| CellPlan {
            name: format!("g, {}", way.name()),
            group: "g".to_owned(),
            way,
            processes: vec![process("high"), process("low")],
            alone: vec!["high".to_owned()],
            has_beside: true,
            measured: "high".to_owned(),
            samples: 10,
            ..CellPlan::default()
        };
        row.plan.cells = vec![cell(Way::Native), cell(Way::Xsched)];
        row.goals.clear();
        row.results.clear();
        row
    }

    #[test]
    fn what_runs_alone_takes_turns_with_the_reference() {
        let mut lone = row();
        for cell in &mut lone.plan.cells {
            cell.processes.truncate(1);
            cell.has_beside = false;
        }
        let twice = r#"case $(cat "$1") in *xsched*) slow=5;; *) slow=0;; esac"#;
        let slower = GOOD.replace("$((n * 10 + 5))", "$((n * 10 + 4 + slow))");
        let (folder, row) = run_of(&lone, &format!("{twice}\n{slower}"), Limit::None, false, None);
        let over = row.figures.iter().find(|figure| figure.key.quantity == "over_native").unwrap();
        assert!((over.value - 9.0 / 4.0).abs() < 1e-3, "{over:?}");
        let alone = row.cells[1].roles[0].alone.as_ref().unwrap();
        assert_eq!(alone.samples.native_cores.len(), alone.samples.cores.len());
        assert!(alone.samples.turns.len() >= 5, "{alone:?}");
        let turns = ["native", "xsched"].map(|way| {
            let said = format!("report/raw/7.2.1-g-{way}.0.jsonl");
            let said = fs::read_to_string(folder.path().join(said)).unwrap();
            said.matches("\"phase\":").count()
        });
        // What the reference did alone came before.
        assert!(turns[1] >= 5 && turns[0] == turns[1] + 1, "{turns:?}");
    }

    #[test]
    fn what_is_beside_each_other_takes_turns_with_the_reference_where_that_is_asked_for() {
        for in_turns in [InTurns::All, InTurns::Alone] {
            let mut turns = row();
            turns.plan.cells[1].in_turns = in_turns;
            takes_turns(&turns);
        }
    }

    fn takes_turns(of: &Definition) {
        let twice = r#"case $(cat "$1") in *xsched*) slow=5;; *) slow=0;; esac"#;
        let slower = GOOD.replace("$((n * 10 + 5))", "$((n * 10 + 4 + slow))");
        let (folder, row) = run_of(of, &format!("{twice}\n{slower}"), Limit::None, false, None);
        assert_eq!(row.cells[1].status, Status::Measured, "{row:?}");
        let high = &row.cells[1].roles[0];
        let mean = |progress: &Option<Progress>| progress.as_ref().unwrap().latency.mean_us;
        assert_eq!((mean(&high.alone), mean(&high.beside)), (4_000.0, 9_000.0));
        let phases = ["native", "xsched"].map(|way| {
            let said = format!("report/raw/7.2.1-g-{way}.0.jsonl");
            let said = fs::read_to_string(folder.path().join(said)).unwrap();
            said.matches("\"phase\":").count()
        });
        // The reference measured what is alone before, and what is beside in six parts.
        assert!(phases[1] >= 6 && phases[0] == phases[1] + 7, "{phases:?}");
    }

    /// The row that programs like this one leave.
    fn run(script: &str, limit: Limit) -> (tempfile::TempDir, Row) {
        let (folder, row) = run_again(script, limit, false, None);
        (folder, row)
    }

    fn run_again(
        script: &str,
        limit: Limit,
        steps: bool,
        before: Option<Row>,
    ) -> (tempfile::TempDir, Row) {
        run_of(&row(), script, limit, steps, before)
    }

    fn run_of(
        of: &Definition,
        script: &str,
        limit: Limit,
        steps: bool,
        before: Option<Row>,
    ) -> (tempfile::TempDir, Row) {
        let folder = tempfile::tempdir().unwrap();
        let row = run_in(&folder, of, script, (limit, steps), before);
        (folder, row)
    }

    fn run_in(
        folder: &tempfile::TempDir,
        of: &Definition,
        script: &str,
        (limit, steps): (Limit, bool),
        before: Option<Row>,
    ) -> Row {
        let program = folder.path().join("fake");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let stop = AtomicBool::new(false);
        let programs = (PathBuf::from("python3"), Some(program));
        let mut starter = Starter::new(Hal::Host, true, programs, &stop);
        starter.after = Duration::from_secs(3);
        starter.steps = steps;
        let lab = Lab {
            starter: &starter,
            folder: Folder::make(&folder.path().join("report")).unwrap(),
            device: None,
            say: &|_| {},
        };
        let mut prestart = Prestart::new(&starter, Vec::new);
        prestart.expect(coming(&lab.folder, of, before.as_ref()));
        lab.run(of, limit, before, &mut prestart).unwrap()
    }

    #[test]
    fn times_of_two_processes_are_joined_and_set_beside_those_alone() {
        let (folder, row) = run(GOOD, Limit::None);
        assert_eq!((&row.status, row.hardware.as_str()), (&Status::Measured, "a card"), "{row:?}");
        let role = &row.cells[1].roles[0];
        let (alone, beside) = (role.alone.as_ref().unwrap(), role.beside.as_ref().unwrap());
        assert!((alone.rate_per_s - 100.0).abs() < 5.0 && (beside.rate_per_s - 100.0).abs() < 5.0);
        assert!((beside.latency.p50_us - 5_000.0).abs() < 1.0);
        assert!(row.cells[1].roles[1].alone.is_some(), "it is the same work under another name");
        let of = |figure: &&Figure| figure.key.quantity == "p50_over_alone";
        assert!(row.figures.iter().any(|figure| of(&figure) && (figure.value - 1.0).abs() < 1e-6));
        let prediction = folder.path().join("report/predictions/7.2.1.json");
        let written = |place: &std::path::Path| fs::metadata(place).unwrap().modified().unwrap();
        let raw = folder.path().join("report/raw/7.2.1-g-native.0.jsonl");
        assert!(fs::read_to_string(&raw).unwrap().contains("\"phase\":2"));
        assert!(written(&prediction) < written(&raw), "it was written before the phases ended");
    }

    #[test]
    fn a_program_that_hangs_or_ends_in_a_phase_fails_its_cell_and_no_other() {
        let start = r#"role=$(sed 's/.*"name":"\([^"]*\)".*/\1/' "$1")
            echo "{\"ready\":true,\"roles\":{\"$role\":{\"request_ns\":5000000}}}"; read -r order"#;
        for (end, words) in [("exec sleep 1000", "within"), ("echo bad >&2; exit 7", "bad")] {
            let native = format!(r#"if grep -q native "$1"; then {start}; {end}; fi"#);
            let (_folder, row) = run(&format!("{native}\n{GOOD}"), Limit::None);
            let Status::Failed(why) = &row.cells[0].status else { panic!("{row:?}") };
            assert!(why.contains(words), "{why}");
            assert_eq!(row.cells[1].status, Status::Measured, "{row:?}");
            assert!(row.cells[1].roles[0].alone.is_some(), "measured where it could be");
        }
    }

    #[test]
    fn a_row_without_time_says_so_and_is_run_again() {
        let (_folder, row) = run(GOOD, Limit::Shorten(Duration::ZERO));
        assert!(matches!(&row.status, Status::NotRun(why) if why.starts_with(NO_TIME)), "{row:?}");
        assert!(!super::super::files::is_done(&row, "host", true));
    }

    #[test]
    fn programs_that_wait_at_steps_import_while_others_load() {
        let steps = r#"echo "imported $1" >> "${0%/*}/log"; echo '{"step":"imported"}'; read -r go
            echo "loaded $1 $go" >> "${0%/*}/log"; echo '{"step":"loaded"}'; read -r go"#;
        let (folder, row) = run_again(&format!("{steps}\n{GOOD}"), Limit::None, true, None);
        let measured = row.cells.iter().all(|cell| cell.status == Status::Measured);
        assert!(measured && row.cells.len() == 2, "{row:?}");
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 8, "{log}");
        let kernels = |line: &&str| line.contains(r#""measure":true"#);
        let asked = lines.iter().copied().filter(kernels).count();
        assert_eq!(asked, 1, "the first two have the same work, and later ones are known: {log}");
        let last = lines.iter().rposition(|line| line.starts_with("imported")).unwrap();
        let loads = lines.iter().rposition(|line| line.starts_with("loaded")).unwrap();
        assert!(last < loads - 1, "all have imported before the last two load: {log}");
        let (_, row) = run_again("echo '{\"step\":\"loaded\"}'; read go", Limit::None, true, None);
        let Status::Failed(why) = &row.cells[0].status else { panic!("{row:?}") };
        assert!(why.contains("it is at `loaded` and not at `imported`"), "{why}");
    }

    #[test]
    fn groups_that_were_measured_whole_are_kept_unless_it_was_on_another_device() {
        let (_folder, first) = run(GOOD, Limit::None);
        let fails = "echo '{\"error\":\"gone\"}'";
        let (_folder, again) = run_again(fails, Limit::None, false, Some(first.clone()));
        assert_eq!(again.cells, first.cells, "nothing was run");
        let mut other = first.clone();
        other.cells[1].roles[0].work = "of an earlier version".to_owned();
        let (_folder, again) = run_again(GOOD, Limit::None, false, Some(other));
        assert_eq!(again.cells[1].roles[0].work, first.cells[1].roles[0].work);
        let mut part = first;
        part.cells[1].status = Status::NotRun(NO_TIME.to_owned());
        let (_folder, again) = run_again(GOOD, Limit::None, false, Some(part));
        assert!(again.cells.iter().all(|cell| cell.status == Status::Measured), "{again:?}");
    }

    #[test]
    fn cells_of_a_group_that_was_begun_are_kept_while_it_is_known_what_its_programs_said() {
        let not_native = format!("if grep -q native \"$1\"; then exit 9; fi\n{GOOD}");
        let part = |row: &Row| {
            let mut part = row.clone();
            part.cells[1].status = Status::NotRun(NO_TIME.to_owned());
            part.cells[1].roles.iter_mut().for_each(|role| role.beside = None);
            part
        };
        let (folder, first) = run(GOOD, Limit::None);
        let prediction = folder.path().join("report/predictions/7.2.1.json");
        let predicted = fs::read_to_string(&prediction).unwrap();
        let again =
            |script, before| run_in(&folder, &row(), script, (Limit::None, false), Some(before));
        let resumed = again(&not_native, part(&first));
        assert_eq!(resumed.cells[0], first.cells[0]);
        assert_eq!(resumed.cells[1].status, Status::Measured, "{resumed:?}");
        assert_eq!(resumed.cells[1].roles[0].alone, first.cells[0].roles[0].alone);
        assert_eq!(fs::read_to_string(&prediction).unwrap(), predicted, "as before the first one");
        // A cell that the plan has since is predicted as well.
        let mut longer = row();
        let title = "g, xsched, later".to_owned();
        longer.plan.cells.push(CellPlan { name: title, ..longer.plan.cells[1].clone() });
        let limit = (Limit::None, false);
        let resumed = run_in(&folder, &longer, &not_native, limit, Some(first.clone()));
        assert_eq!(resumed.cells[..2], first.cells);
        assert_eq!(resumed.cells[2].status, Status::Measured, "{resumed:?}");
        assert!(fs::read_to_string(&prediction).unwrap().contains("later"), "what was left out");
        // On another device nothing counts, and the next call begins anew.
        let elsewhere = not_native.replace("a card", "another");
        let other = again(&elsewhere, part(&first));
        let is_open =
            |cell: &Cell| matches!(&cell.status, Status::NotRun(why) if why.starts_with(NO_TIME));
        assert!(other.cells.iter().all(is_open), "{other:?}");
        assert_eq!(again(GOOD, other).cells[1].status, Status::Measured);
        // Without it, the whole group is measured again.
        fs::remove_file(folder.path().join("report/raw/7.2.1-g-native.1.jsonl")).unwrap();
        let anew = again(&not_native, part(&first));
        assert!(matches!(anew.cells[0].status, Status::Failed(_)), "{anew:?}");
    }

    #[test]
    fn what_does_not_fit_before_the_time_to_stop_is_not_run() {
        let slow = format!("sleep 0.6\n{GOOD}");
        let (_folder, row) = run(&slow, Limit::Stop(Duration::from_millis(600)));
        let Status::NotRun(why) = &row.cells[0].status else { panic!("{row:?}") };
        assert!(why.starts_with(NO_TIME), "{why}");
    }

    #[test]
    fn what_was_predicted_before_a_cell_ran_stays() {
        let prediction = |cell: &str, left_out: &str| Prediction {
            version: VERSION,
            id: "1".to_owned(),
            date: String::new(),
            device: String::new(),
            figures: vec![Figure {
                key: super::super::document::Key {
                    cell: cell.to_owned(),
                    role: "high".to_owned(),
                    quantity: "p50_ms".to_owned(),
                },
                value: 1.0,
            }],
            left_out: [(left_out.to_owned(), "no model".to_owned())].into(),
        };
        let again = joined(prediction("a", "b"), prediction("a", "b"));
        assert_eq!(again, prediction("a", "b"));
        let both = joined(prediction("a", "b"), prediction("b", "c"));
        assert_eq!(both.figures.len(), 2);
        assert_eq!(both.left_out.keys().collect::<Vec<_>>(), ["c"]);
    }
}
