//! The programs of a cell, from their start to their end.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use super::counts::Counts;
use super::measure::Phase;
use super::node::{Gpu, Node, has_daemon};
use super::plan::{CellPlan, Hal, ProcessPlan, Program, RolePlan, Way};
use super::program::{ProgramError, Running, beside};
use super::program_files;
use super::protocol::{Go, IMPORTED, LOADED, Load, Order, Ready, RoleSpec, Spec, VERSION};
use crate::parent;
use xsched_console::note;

/// The option of `xsched run` with which all launches go through XQueues.
pub(super) const STREAMS: &str = "--streams";
/// How files of counts of the interposers begin, in the folder of a node.
const COUNTS: &str = "counts-";
/// For how long loading models may take, and stand-ins.
const LOADING: Duration = Duration::from_secs(300);
const LOADING_HOST: Duration = Duration::from_secs(30);
/// For how long what was begun in a phase may run on, beside a multiple of the phase.
const AFTER: Duration = Duration::from_secs(60);
const AFTER_HOST: Duration = Duration::from_secs(20);
/// Seed of the random choices of programs.
const SEED: u64 = 1;
/// Number of processors that a role needs to keep to one: what else a program does has others.
const PROCESSORS: usize = 4;

/// How programs are started.
#[derive(Clone, Debug)]
pub(crate) struct Starter<'a> {
    /// The device.
    pub(crate) hal: Hal,
    /// With few samples.
    pub(crate) quick: bool,
    /// Python that runs the programs of the lab.
    pub(crate) python: PathBuf,
    /// A program to run instead of those of the lab, for tests.
    pub(crate) instead: Option<PathBuf>,
    /// For how long loading may take.
    pub(crate) loading: Duration,
    /// For how long what was begun in a phase may run on, beside a multiple of the phase.
    pub(crate) after: Duration,
    /// Set if programs wait at steps, so that several can load at once.
    pub(crate) steps: bool,
    /// The GPU that programs see; by default all of them.
    pub(crate) gpu: Option<Gpu>,
    /// Set when the user wants to end.
    pub(crate) stop: &'a AtomicBool,
}

/// The programs of a cell, which are not ready yet.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    starter: &'a Starter<'a>,
    cell: CellPlan,
    raw: PathBuf,
    node: Node,
    programs: Vec<Running>,
    has_imported: bool,
}

/// The programs of a cell, which run.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    starter: &'a Starter<'a>,
    programs: Vec<Running>,
    /// The roles of each program.
    roles_of: Vec<Vec<String>>,
    node: Node,
    phases: u32,
    /// Launches that programs reported, by what became of them.
    counts: BTreeMap<usize, Counts>,
    /// Needs of each role alone, of all programs.
    pub(crate) ready: Ready,
}

impl<'s> Starter<'s> {
    /// For programs on this device.
    pub(crate) fn new(
        hal: Hal,
        quick: bool,
        (python, instead): (PathBuf, Option<PathBuf>),
        stop: &'s AtomicBool,
    ) -> Self {
        let (loading, after) = match hal {
            Hal::Host => (LOADING_HOST, AFTER_HOST),
            Hal::Cuda | Hal::Hip => (LOADING, AFTER),
        };
        let steps = hal != Hal::Host && instead.is_none();
        Self { hal, quick, python, instead, loading, after, steps, gpu: None, stop }
    }

    /// For programs that see one GPU, as the device's runtime calls it.
    pub(crate) fn on(self, name: &str) -> Self {
        let variable = match self.hal {
            Hal::Cuda => "CUDA_VISIBLE_DEVICES",
            Hal::Hip => "HIP_VISIBLE_DEVICES",
            Hal::Host => return self,
        };
        Self { gpu: Some(Gpu { variable, name: name.to_owned() }), ..self }
    }

    /// Makes the specification of a program.
    fn spec(&self, process: &ProcessPlan, cell: &CellPlan) -> Spec {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let mut roles: Vec<RoleSpec> = process.roles.iter().map(|role| role.spec.clone()).collect();
        roles.iter_mut().for_each(|role| role.processor = processor(cell, processors));
        Spec {
            version: VERSION,
            device: self.hal.name().to_owned(),
            seed: SEED,
            quick: self.quick,
            steps: self.steps,
            way: cell.way.name().to_owned(),
            roles,
        }
    }

    /// The program and its arguments, without what schedules it.
    fn plain(&self, process: &ProcessPlan, spec: &Path) -> Result<Vec<PathBuf>, ProgramError> {
        if let Some(program) = &self.instead {
            return Ok(vec![program.clone(), spec.to_owned()]);
        }
        let file = match (self.hal, process.program) {
            (Hal::Host, _) => {
                let mut all = vec![own()?];
                all.push("stand-in".into());
                all.push(spec.to_owned());
                all.extend(parent::arguments().map(PathBuf::from));
                return Ok(all);
            }
            (_, Program::Triton) => "triton_server.py",
            (_, Program::Roles | Program::Script) => "roles.py",
        };
        let program = program_files::find(file).ok_or_else(|| {
            ProgramError::Missing(format!("lab/programs/{file} is not beside this program"))
        })?;
        Ok(vec![self.python.clone(), program, spec.to_owned()])
    }

    /// How a process of the cell is started.
    fn command(
        &self,
        cell: &CellPlan,
        process: &ProcessPlan,
        spec: &Path,
        node: &Node,
    ) -> Result<Command, ProgramError> {
        let plain = self.plain(process, spec)?;
        let is_scheduled = cell.way.is_scheduled() && self.hal != Hal::Host;
        let mut words: Vec<PathBuf> = Vec::new();
        if is_scheduled && self.instead.is_none() {
            words.push(program_files::program("xsched").map_err(ProgramError::Missing)?);
            words.push("run".into());
            words.extend(run_options(cell, process).into_iter().map(PathBuf::from));
            words.push("--".into());
        }
        words.extend(plain);
        let (program, arguments) =
            words.split_first().ok_or_else(|| ProgramError::Failed("no program".to_owned()))?;
        let mut command = Command::new(program);
        command.args(arguments).envs(node.variables());
        command.envs(scheduling(self.hal, cell, process));
        if is_scheduled {
            command.env("XSCHED_SHIM_COUNTS", node.file(&format!("{COUNTS}%p-%v.json")));
        }
        if cell.way == Way::MpsPercent {
            let share = process.share.map(|share| share.to_string());
            command.envs(share.map(|share| ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share)));
        }
        Ok(command)
    }

    /// Starts what the cell needs. Programs that wait at steps are started as well, and do not use
    /// the device before [`Prepared::load`].
    pub(crate) fn prepare<'a>(
        &'a self,
        cell: &CellPlan,
        raw: &Path,
    ) -> Result<Prepared<'a>, ProgramError> {
        let node = Node::start(cell, (self.hal, self.gpu.as_ref()), raw, self.stop)?;
        let (cell, raw) = (cell.clone(), raw.to_owned());
        let mut prepared =
            Prepared { starter: self, cell, raw, node, programs: Vec::new(), has_imported: false };
        if self.steps {
            for number in 0..prepared.cell.processes.len() {
                prepared.start(number)?;
            }
        }
        Ok(prepared)
    }
}

impl<'a> Prepared<'a> {
    fn start(&mut self, number: usize) -> Result<(), ProgramError> {
        let Some(process) = self.cell.processes.get(number) else { return Ok(()) };
        let spec = self.node.file(&format!("{number}.json"));
        let text = serde_json::to_string(&self.starter.spec(process, &self.cell));
        let text = text.map_err(|error| ProgramError::Failed(error.to_string()))?;
        let written = fs::write(&spec, text);
        written.map_err(|source| ProgramError::File { place: spec.clone(), source })?;
        let command = self.starter.command(&self.cell, process, &spec, &self.node)?;
        note(|| format!("runs {command:?}"));
        let kept = beside(&self.raw, &number.to_string());
        self.programs.push(Running::start(command, &kept)?);
        Ok(())
    }

    /// Waits until the programs that are started have imported what they need.
    pub(crate) fn imported(&mut self) -> Result<(), ProgramError> {
        if !self.has_imported {
            self.each(|program, starter| program.step(IMPORTED, starter.loading, starter.stop))?;
            self.has_imported = true;
        }
        Ok(())
    }

    /// Has the programs load; with `measure` they say what their kernels take once they are ready,
    /// of several with the same works the first.
    pub(crate) fn load(&mut self, measure: bool) -> Result<(), ProgramError> {
        self.imported()?;
        for (number, program) in self.programs.iter_mut().enumerate() {
            let measure = Some(measure && has_new_works(&self.cell.processes, number));
            program.go(&Go { go: true, measure })?;
        }
        Ok(())
    }

    fn each(
        &mut self,
        mut of: impl FnMut(&mut Running, &Starter<'_>) -> Result<(), ProgramError>,
    ) -> Result<(), ProgramError> {
        self.programs.iter_mut().try_for_each(|program| of(program, self.starter))
    }

    /// Waits until all programs are ready. They measure what they need alone one after the other;
    /// those that do not wait at steps do so alone where no other way is measured.
    pub(crate) fn ready(mut self) -> Result<Session<'a>, ProgramError> {
        let mut ready = Ready { ready: true, ..Ready::default() };
        let (loading, stop) = (self.starter.loading, self.starter.stop);
        let one_by_one = self.starter.steps || self.cell.way == Way::Native;
        if self.starter.steps {
            self.each(|program, starter| program.step(LOADED, starter.loading, starter.stop))?;
        }
        let processes = self.cell.processes.clone();
        for (number, process) in processes.iter().enumerate() {
            if !self.starter.steps {
                self.start(number)?;
            }
            let Some(program) = self.programs.get_mut(number).filter(|_| one_by_one) else {
                continue;
            };
            if self.starter.steps {
                program.go(&Go { go: true, measure: None })?;
            }
            merge(&mut ready, program.ready(loading, stop)?, process)?;
        }
        if !one_by_one {
            for (program, process) in self.programs.iter_mut().zip(&processes) {
                merge(&mut ready, program.ready(loading, stop)?, process)?;
            }
        }
        let names = |process: &ProcessPlan| {
            process.roles.iter().map(|role| role.spec.name.clone()).collect()
        };
        let roles_of = processes.iter().map(names).collect();
        like_measured(&mut ready, &self.cell);
        let Self { starter, node, programs, .. } = self;
        Ok(Session { starter, programs, roles_of, node, phases: 0, counts: BTreeMap::new(), ready })
    }
}

impl Session<'_> {
    /// Has roles work with these loads for `seconds`. The beginning does not count.
    pub(crate) fn phase(
        &mut self,
        (seconds, settle_seconds, part): (f64, f64, u32),
        load: &BTreeMap<String, Load>,
    ) -> Result<Phase, ProgramError> {
        self.phases += 1;
        let daemon_before = self.node.daemon_cpu_ns();
        for (program, roles) in self.programs.iter_mut().zip(&self.roles_of) {
            let own = load.iter().filter(|(role, _)| roles.contains(role));
            let load = own.map(|(role, load)| (role.clone(), load.clone())).collect();
            program.tell(&Order { phase: self.phases, part, seconds, load })?;
        }
        let within = Duration::from_secs_f64(3.0 * seconds) + self.starter.after;
        let mut answers = Vec::new();
        for (number, program) in self.programs.iter_mut().enumerate() {
            let answer = program.answer(self.phases, within, self.starter.stop)?;
            self.counts.extend(answer.counts.map(|counts| (number, counts)));
            answers.push(answer);
        }
        let why = |why| ProgramError::Nonsense { what: "phase", why, line: String::new() };
        let mut phase = Phase::join(&answers, seconds, settle_seconds).map_err(why)?;
        let used = self.node.daemon_cpu_ns().saturating_sub(daemon_before);
        phase.cores.iter_mut().for_each(|cores| *cores += used as f64 / 1e9 / seconds);
        Ok(phase)
    }

    /// Ends all programs. Answers what became of their launches, if that was counted.
    pub(crate) fn finish(mut self) -> Option<Counts> {
        let node = self.node.status().map(|status| Counts::of_node(&status));
        self.programs.iter_mut().for_each(Running::let_end);
        self.programs.into_iter().for_each(Running::finish);
        let written = self.node.files(COUNTS);
        let interposers = written.iter().map(Counts::of_interposer);
        let mut launches = self.counts.into_values().chain(interposers);
        let mut all = launches.next()?;
        launches.chain(node).for_each(|more| all.add(more));
        Some(all)
    }
}

/// Returns the path of this program.
fn own() -> Result<PathBuf, ProgramError> {
    env::current_exe()
        .map_err(|source| ProgramError::Start { program: "this program".to_owned(), source })
}

/// The options of `xsched run` for a process.
fn run_options(cell: &CellPlan, process: &ProcessPlan) -> Vec<String> {
    let mut options = process.options.clone();
    if !has_daemon(cell) {
        options.push(STREAMS.to_owned());
        return options;
    }
    let mut say = |name: &str, value: String| options.extend([name.to_owned(), value]);
    match (process.share, process.priority, process.class) {
        (Some(share), ..) if cell.policy.is_some() => say("--share", share.to_string()),
        (_, Some(priority), _) => say("--priority", priority.to_string()),
        (_, None, Some(class)) => say("--class", class.to_owned()),
        _ => {}
    }
    options
}

/// Adds what a program says to what others have said.
pub(super) fn merge(
    all: &mut Ready,
    one: Ready,
    process: &ProcessPlan,
) -> Result<(), ProgramError> {
    let silent = process.roles.iter().find(|role| !one.roles.contains_key(&role.spec.name));
    if let Some(role) = silent {
        let why = format!("role {} is missing", role.spec.name);
        return Err(ProgramError::Nonsense { what: "ready", why, line: String::new() });
    }
    all.software.extend(one.software);
    if all.hardware.is_empty() {
        all.hardware = one.hardware;
    }
    all.roles.extend(one.roles);
    Ok(())
}

/// The processor that a role keeps to where roles only work alone, in turns with those of another
/// way: the same for both, since how fast one is depends on what else is on its core.
fn processor(cell: &CellPlan, of: usize) -> Option<usize> {
    (!cell.has_beside && of >= PROCESSORS).then_some(of / 2)
}

/// Returns whether a process has a role with a work that no process before it has.
fn has_new_works(processes: &[ProcessPlan], number: usize) -> bool {
    let (before, own) = processes.split_at(number);
    let known = |role: &RolePlan| {
        before.iter().flat_map(|process| &process.roles).any(|other| other.has_work_of(role))
    };
    own.first().is_some_and(|process| process.roles.iter().any(|role| !known(role)))
}

/// Gives roles that did not say their kernels what another one with the same work said.
pub(super) fn like_measured(ready: &mut Ready, cell: &CellPlan) {
    let measured = ready.roles.clone();
    let has_kernels = |name: &str| measured.get(name).filter(|said| !said.kernels_ns.is_empty());
    for role in cell.roles().filter(|role| has_kernels(&role.spec.name).is_none()) {
        let mut same = cell.roles().filter(|other| other.has_work_of(role));
        let said = same.find_map(|other| has_kernels(&other.spec.name));
        if let (Some(own), Some(said)) = (ready.roles.get_mut(&role.spec.name), said) {
            *own = said.clone();
        }
    }
}

/// Variables that say how a process is scheduled. A stand-in has no daemon.
fn scheduling(hal: Hal, cell: &CellPlan, process: &ProcessPlan) -> BTreeMap<String, String> {
    if !cell.way.is_scheduled() {
        return BTreeMap::new();
    }
    let policy = cell.policy.filter(|_| hal == Hal::Host || !has_daemon(cell));
    let policy = policy.map(|policy| ("XSCHED_POLICY".to_owned(), policy.to_owned()));
    process.environment.clone().into_iter().chain(policy).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plan::LoadPlan;
    use super::super::protocol::Profile;
    use super::*;

    fn process(name: &str) -> ProcessPlan {
        let spec = RoleSpec { name: name.to_owned(), ..RoleSpec::default() };
        let load = LoadPlan::Fixed(Load::Endless { in_flight: 1 });
        ProcessPlan {
            roles: vec![RolePlan { spec, load, load_alone: None }],
            ..ProcessPlan::default()
        }
    }

    #[test]
    fn roles_keep_to_a_processor_where_none_is_beside_another_one() {
        let mut cell = CellPlan::default();
        assert_eq!([2, 4, 16].map(|of| processor(&cell, of)), [None, Some(2), Some(8)]);
        cell.has_beside = true;
        assert_eq!(processor(&cell, 16), None);
    }

    #[test]
    fn processes_get_what_users_say_and_threads_their_streams() {
        let mut cell = CellPlan {
            way: Way::Xsched,
            processes: vec![process("a"), process("b")],
            ..CellPlan::default()
        };
        let urgent = ProcessPlan { class: Some("interactive"), share: Some(75), ..process("a") };
        assert_eq!(run_options(&cell, &urgent), ["--class", "interactive"]);
        cell.policy = Some("up");
        assert_eq!(run_options(&cell, &urgent), ["--share", "75"]);
        let ranked = ProcessPlan { priority: Some(3), ..process("a") };
        assert_eq!(run_options(&cell, &ranked), ["--priority", "3"]);
        let mut threads = process("a");
        threads.roles.extend(process("b").roles);
        cell.processes = vec![threads.clone()];
        assert_eq!(run_options(&cell, &threads), ["--streams"]);
    }

    #[test]
    fn of_processes_with_the_same_work_the_first_says_its_kernels() {
        let mut processes = vec![process("a"), process("b"), process("c")];
        processes[2].roles[0].spec.batch = 8;
        let are_asked = [0, 1, 2].map(|number| has_new_works(&processes, number));
        assert_eq!(are_asked, [true, false, true]);
        let cell = CellPlan { processes, ..CellPlan::default() };
        let said = |kernels_ns: &[u64]| Profile {
            kernels_ns: kernels_ns.to_vec(),
            request_ns: 7 + kernels_ns.len() as u64,
            ..Profile::default()
        };
        let roles = [("a", said(&[3, 4])), ("b", said(&[])), ("c", said(&[]))];
        let roles = roles.map(|(name, profile)| (name.to_owned(), profile)).into();
        let mut ready = Ready { roles, ..Ready::default() };
        like_measured(&mut ready, &cell);
        assert_eq!(ready.roles["b"], ready.roles["a"]);
        assert!(ready.roles["c"].kernels_ns.is_empty(), "its requests are others");
    }

    #[test]
    fn the_policy_is_told_where_no_daemon_decides() {
        let mut one = process("a");
        one.roles.extend(process("b").roles);
        one.environment.insert("XSCHED_AUTO_XQUEUE_KDEADLINE".to_owned(), "16".to_owned());
        let mut cell = CellPlan { way: Way::Xsched, policy: Some("up"), ..CellPlan::default() };
        cell.processes = vec![one.clone()];
        for hal in [Hal::Host, Hal::Cuda] {
            let said = scheduling(hal, &cell, &one);
            assert_eq!(said["XSCHED_POLICY"], "up");
            assert_eq!(said["XSCHED_AUTO_XQUEUE_KDEADLINE"], "16");
        }
        cell.processes = vec![process("a")];
        assert!(scheduling(Hal::Cuda, &cell, &process("a")).is_empty(), "the daemon is told");
        assert_eq!(scheduling(Hal::Host, &cell, &process("a")).len(), 1, "it has no daemon");
        cell.way = Way::Native;
        assert!(scheduling(Hal::Host, &cell, &one).is_empty());
    }

    #[test]
    fn a_program_that_leaves_out_a_role_is_not_ready() {
        let mut all = Ready::default();
        let error = merge(&mut all, Ready::default(), &process("a")).unwrap_err().to_string();
        assert!(error.contains("role a is missing"), "{error}");
        let roles = [("a".to_owned(), Default::default())].into();
        let hardware = "a card".to_owned();
        merge(&mut all, Ready { roles, hardware, ..Ready::default() }, &process("a")).unwrap();
        assert_eq!(all.hardware, "a card");
    }
}
