//! `xsched doctor`: what would be scheduled on this machine, what would go past, and why.

mod daemon;
mod elf;
mod engine;
mod environment;
mod interposer;
mod mps;
mod nodes;
mod nvml;
mod place;
mod probe;
mod problem;
mod program;
mod started;
mod text;
mod vendor;
mod watch;

use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;
use xsched_console::machine::Machine;
use xsched_console::output::{Output, Outputs, Places};
use xsched_console::program::{EXIT_FINDING, EXIT_OK};
use xsched_launch::LaunchError;

use crate::args::{DoctorArgs, Engine};
use crate::error::CliError;
use daemon::Daemon;
use engine::Findings;
use environment::Environment;
use mps::Mps;
use nodes::Node;
use nvml::Gpu;
use place::Place;
use probe::{Device, Probe};
use problem::Problem;
use program::Program;
use started::Started;
use vendor::Vendor;

/// The number of the form of the JSON document.
const SCHEMA: u32 = 1;
/// Where the system's files are.
const ROOT: &str = "/";

/// Everything, as `--json` writes it.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    version: &'static str,
    machine: Machine,
    vendors: Vec<Vendor>,
    devices: Vec<Device>,
    device_problems: Vec<Problem>,
    gpus: Vec<Gpu>,
    /// Why NVIDIA's management library says nothing of GPUs.
    no_gpus: Option<String>,
    nodes: Vec<Node>,
    node_problems: Vec<Problem>,
    mps: Mps,
    mps_problems: Vec<Problem>,
    daemon: Daemon,
    daemon_problems: Vec<Problem>,
    environment: Environment,
    program: Option<Trial>,
}

/// A program that was tried.
#[derive(Debug, Serialize)]
struct Trial {
    command: Vec<String>,
    #[serde(flatten)]
    file: Program,
    /// `None` while it has not been started.
    run: Option<Started>,
}

/// Reports, and answers the code with which this process is to end.
pub(crate) fn execute(args: &DoctorArgs) -> Result<u8, CliError> {
    if args.probe {
        probe::answer()?;
        return Ok(EXIT_OK);
    }
    if args.functions {
        Outputs::prepare(Places::default())?.tables().print(&interposer::reference())?;
        return Ok(EXIT_OK);
    }
    let outputs = Outputs::prepare(Places { json: args.json.as_deref(), ..Places::default() })?;
    if let Some(engine) = args.engine {
        return examine(engine, &outputs);
    }
    let place = Place::find();
    let mut report = Report::here(&place);
    outputs.tables().print(&text::machine(&report))?;
    let tried = args.program.first().map(|_| {
        let trial = report.program.insert(Trial::look(&args.program));
        outputs.tables().print(&text::program(&trial.command.join(" "), &trial.file))?;
        let quiet_stdout = matches!(outputs.json, Some(Output::Stdout));
        let started = trial.run(&place, &args.program, quiet_stdout)?;
        outputs.tables().print(&text::started(started))?;
        Ok::<_, CliError>(started.exit_code)
    });
    // Also if the program could not be started.
    if let Some(output) = &outputs.json {
        output.write(|out| xsched_sim::report::write_json(out, &report))?;
    }
    tried.unwrap_or(Ok(EXIT_OK))
}

/// Reports whether this node is set up for an engine.
fn examine(engine: Engine, outputs: &Outputs) -> Result<u8, CliError> {
    let daemon = Daemon::here(&xsched_node::SocketPath::from_env());
    let file = std::env::var_os("SLURM_CONF").map(Into::into);
    let findings = Findings::of(engine, Path::new(ROOT), file, &daemon);
    if let Some(output) = &outputs.json {
        output.write(|out| xsched_sim::report::write_json(out, &findings))?;
    }
    outputs.tables().print(&text::engine(&findings))?;
    Ok(if findings.problems.is_empty() { EXIT_OK } else { EXIT_FINDING })
}

impl Report {
    fn here(place: &Result<Place, Problem>) -> Self {
        let root = Path::new(ROOT);
        let mut probe = Probe::run(place.as_ref().ok());
        probe.explain();
        let vendors = vec![vendor::cuda(&probe, place, root), vendor::hip(&probe, place, root)];
        let (nodes, node_problems) = nodes::find(root);
        let mps = Mps::here(root);
        let daemon = Daemon::here(&xsched_node::SocketPath::from_env());
        let own = place.as_ref().ok().and_then(|place| place.files().first());
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::here(),
            vendors,
            device_problems: probe.problems(),
            devices: probe.findings.devices,
            mps_problems: mps.problems(&probe.findings.nvidia),
            gpus: probe.findings.nvidia,
            no_gpus: probe.findings.no_nvml,
            nodes,
            node_problems,
            mps,
            daemon_problems: daemon.problems(),
            daemon,
            environment: Environment::here(own.map(AsRef::as_ref), root),
            program: None,
        }
    }
}

impl Trial {
    fn look(program: &[OsString]) -> Self {
        let command = program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let file = program.first().map(|name| Program::look(name)).unwrap_or_default();
        Self { command, file, run: None }
    }

    fn run(
        &mut self,
        place: &Result<Place, Problem>,
        program: &[OsString],
        quiet_stdout: bool,
    ) -> Result<&Started, CliError> {
        let place = place.as_ref().map_err(|problem| CliError::NotTried {
            program: self.command.first().cloned().unwrap_or_default(),
            why: problem.what.clone(),
        })?;
        let started = started::run(place, program, quiet_stdout, Path::new(ROOT))
            .map_err(|error: LaunchError| CliError::from(error))?;
        Ok(self.run.insert(started))
    }
}
