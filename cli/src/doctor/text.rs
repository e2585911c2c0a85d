//! The report for people.

use std::fmt::Write;
use std::path::Path;

use xsched_console::table::table;
use xsched_shim_table::Class;

use super::Report;
use super::daemon::Daemon;
use super::engine::Findings;
use super::interposer::Interposer;
use super::mps::Mps;
use super::nodes::Node;
use super::probe::Device;
use super::problem::Problem;
use super::program::Program;
use super::started::Started;
use super::vendor::Vendor;
use crate::args::Engine;
use crate::node::plain;

/// Number of names that are listed, beside the number of the others.
const NAMES_MAX: usize = 8;
/// The least width of what stands before values.
const WIDTH: usize = 13;

/// A part of the report: a title, lines of what was found, and lines of what is wrong.
#[derive(Debug)]
struct Section {
    title: String,
    lines: Vec<(String, String)>,
}

impl Section {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), lines: Vec::new() }
    }

    fn line(&mut self, name: &str, value: &str) {
        self.lines.push((name.to_owned(), value.to_owned()));
    }

    fn end(mut self, problems: &[Problem]) -> String {
        for problem in problems {
            self.line("problem:", &problem.to_string());
        }
        let width = self.lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let width = width.max(WIDTH);
        let mut text = self.title + "\n";
        for (name, value) in &self.lines {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "  {name:<width$}  {value}");
        }
        text + "\n"
    }
}

/// Tells whether this node is set up for an engine.
pub(super) fn engine(findings: &Findings) -> String {
    let name = match findings.engine {
        Engine::Slurm => "Slurm",
        Engine::Podman => "Podman",
        Engine::Kubernetes => "Kubernetes",
        Engine::Ray => "Ray",
    };
    let state = if findings.problems.is_empty() { "set up" } else { "not set up" };
    let mut section = Section::new(format!("{name}: {state}"));
    findings.facts.iter().for_each(|fact| section.line(fact.name, &plain(&fact.value)));
    findings.warnings.iter().for_each(|warning| section.line("warning:", &warning.to_string()));
    section.end(&findings.problems)
}

fn names(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn path(path: Option<&Path>) -> String {
    path.map_or_else(|| "none".to_owned(), |path| path.display().to_string())
}

/// All but the program.
pub(super) fn machine(report: &Report) -> String {
    let mut text = format!("xsched {} on {}\n\n", report.version, report.machine);
    for found in &report.vendors {
        text += &vendor(found);
    }
    text += &devices(report);
    text += &nodes(&report.nodes, &report.node_problems);
    text += &mps(&report.mps, &report.mps_problems);
    text += &daemon(&report.daemon, &report.daemon_problems);
    let mut section = Section::new("environment");
    for (name, value) in &report.environment.variables {
        section.line(name, value);
    }
    if report.environment.variables.is_empty() {
        section.line("variables", "none of those that matter is set");
    }
    text + &section.end(&report.environment.problems)
}

fn daemon(daemon: &Daemon, problems: &[Problem]) -> String {
    let mut section = Section::new("xschedd");
    section.line("socket", &daemon.place());
    match &daemon.policy {
        Some(policy) => {
            let (processes, past) = (daemon.processes, daemon.not_scheduled.len());
            let counts = format!("{processes} scheduled, {past} past it");
            section.line("policy", policy);
            section.line("processes", &counts);
        }
        None => section.line("daemon", "none that answers; programs are scheduled by themselves"),
    }
    for why in &daemon.not_known {
        section.line("not known", &plain(why));
    }
    section.end(problems)
}

fn vendor(vendor: &Vendor) -> String {
    let mut section = Section::new(vendor.name);
    let driver = match (&vendor.driver, &vendor.version) {
        (Some(driver), Some(version)) => format!("{}, {version}", driver.display()),
        (Some(driver), None) => driver.display().to_string(),
        (None, _) => format!("none: {}", vendor.why.as_deref().unwrap_or("it was not asked")),
    };
    section.line("driver", &driver);
    section.line("kernel module", vendor.kernel_module.as_deref().unwrap_or("none"));
    match &vendor.interposer {
        Some(found) => interposer(&mut section, found),
        None => section.line("interposer", "none"),
    }
    section.end(&vendor.problems)
}

fn interposer(section: &mut Section, found: &Interposer) {
    let by = if found.preloaded { "" } else { ", which `xsched run` does not preload" };
    section.line("interposer", &format!("{}{by}", found.path.display()));
    let version = if found.same_version { "of this version" } else { "of another version" };
    section.line("with", &format!("{}, {version}", path(found.library.as_deref())));
    let counts = Class::ALL.iter().filter_map(|class| found.functions.get_key_value(class.name()));
    let classes = counts.map(|(class, count)| match count.interposed {
        all if all == count.listed => format!("{class} {all}"),
        some => format!("{class} {some} of {}", count.listed),
    });
    section.line("functions", &classes.collect::<Vec<_>>().join(", "));
    if !found.past.is_empty() {
        section.line("go past", &names(&found.past));
    }
    if !found.not_listed.is_empty() {
        let listed = format!("the driver has {} as well", names(&found.not_listed));
        section.line("not listed", &listed);
    }
}

fn devices(report: &Report) -> String {
    let row = |device: &Device| {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let pci = device.pci.as_deref().unwrap_or_default();
        let gpu = report.gpus.iter().find(|gpu| gpu.pci == pci);
        let mig = gpu.and_then(|gpu| gpu.mig).map_or("-", |on| if on { "on" } else { "off" });
        let mode = gpu.and_then(|gpu| gpu.compute_mode.clone());
        vec![
            device.backend.clone(),
            text(&device.device),
            text(&device.pci),
            device.level.map_or_else(|| "-".to_owned(), |level| format!("Lv{level}")),
            mig.to_owned(),
            text(&mode),
            gpu.map_or_else(|| "-".to_owned(), |gpu| gpu.processes.len().to_string()),
        ]
    };
    let header = ["<backend", "<device", "<PCI", "<level", "<MIG", "<mode", "processes"];
    let found: Vec<_> = report.devices.iter().filter(|device| device.device.is_some()).collect();
    let title = if found.is_empty() {
        "devices".to_owned()
    } else {
        table("devices", &header, found.into_iter().map(row)).trim_end().to_owned()
    };
    let mut section = Section::new(title);
    for device in &report.devices {
        if let Some(mechanism) = &device.mechanism {
            section.line(&device.backend, &format!("Lv3 by {mechanism}"));
        }
        match (&device.why, device.level) {
            (Some(why), Some(level)) => {
                section.line(&device.backend, &format!("no higher than Lv{level}: {why}"));
            }
            (Some(why), None) => section.line(&device.backend, &format!("none: {why}")),
            (None, _) => {}
        }
    }
    section.end(&report.device_problems)
}

fn nodes(nodes: &[Node], problems: &[Problem]) -> String {
    let mut section = Section::new("device files");
    for node in nodes {
        let can = if node.usable { "you may use it" } else { "closed to you" };
        let value = format!("{} {}, {can}", node.mode, node.group);
        section.line(&node.path.display().to_string(), &value);
    }
    if nodes.is_empty() {
        section.line("files", "none of NVIDIA's or AMD's GPUs");
    }
    section.end(problems)
}

fn mps(mps: &Mps, problems: &[Problem]) -> String {
    let mut section = Section::new("MPS");
    let state = match (mps.is_used(), mps.servers.len()) {
        (false, _) => "not in use".to_owned(),
        (true, 0) => format!("control daemon {:?}, no server yet", mps.control),
        (true, _) => format!("control daemon {:?}, server {:?}", mps.control, mps.servers),
    };
    section.line("state", &format!("{state} (pipes in {})", mps.directory.display()));
    section.end(problems)
}

/// The program, before it runs.
pub(super) fn program(name: &str, program: &Program) -> String {
    let mut section = Section::new(format!("program {name}"));
    section.line("file", &path(program.file.as_deref()));
    if !program.interpreters.is_empty() {
        let interpreters = program.interpreters.iter().map(|path| path.display().to_string());
        section.line("run by", &interpreters.collect::<Vec<_>>().join(", then "));
    }
    if !program.linked.is_empty() {
        section.line("linked with", &program.linked.join(", "));
    }
    section.line("preloading", if program.preloadable { "works" } else { "does not work" });
    section.end(&program.problems)
}

fn level(number: u8) -> String {
    if number == 0 { "no level".to_owned() } else { format!("Lv{number}") }
}

/// Tells the result of the program.
pub(super) fn started(started: &Started) -> String {
    let mut text = String::from("\n");
    if !started.functions.is_empty() {
        let header = ["<function", "launches", "through queues", "at once", "past"];
        let rows = started.functions.iter().map(|(name, counts)| {
            let numbers = [counts.launches, counts.scheduled, counts.alone, counts.past];
            let numbers = numbers.iter().map(ToString::to_string);
            [name.clone()].into_iter().chain(numbers).collect()
        });
        text += &table("launches", &header, rows);
    }
    let mut section = Section::new("processes");
    for process in &started.processes {
        let sums = &process.sums;
        let driver = process.driver.as_deref().unwrap_or("no driver");
        let value = format!(
            "launches: {}, through queues: {}, past: {}; {driver}",
            sums.launches, sums.scheduled, sums.past
        );
        section.line(&process.pid.to_string(), &value);
    }
    if started.processes.is_empty() {
        section.line("none", "called a vendor's library through an interposer");
    }
    for of in &started.streams {
        let (name, count, why) = (level(of.level), of.streams, &of.why);
        section.line("streams", &format!("{count} at {name}, not higher: {}", plain(why)));
    }
    if started.later > 0 {
        let count = started.later;
        section.line("streams", &format!("{count} like these, until something tells them apart"));
    }
    for (reason, count) in &started.past {
        section.line("past", &format!("{count}: {reason}"));
    }
    let ending = match started.signal {
        Some(signal) => format!("by signal {signal}, which is code {}", started.exit_code),
        None => format!("with code {}", started.exit_code),
    };
    section.line("ended", &ending);
    text + &section.end(&started.problems)
}
