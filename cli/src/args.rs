//! The command line, as `docs/src/reference/commands.md` describes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum, value_parser};
use clap_complete::Shell;
use serde::Serialize;
use xsched_console::program::EXIT_CODES;
use xsched_launch::{Class, LaunchArgs, Messages, Scheduling};
use xsched_sim::scenario::System;

use crate::meaning;

/// Most seeds that a run or a comparison takes.
const MAX_SEEDS: u64 = 1_000_000;

/// Preemptive scheduling of accelerator queues: run programs, operate a node, simulate policies.
#[derive(Debug, Parser)]
#[command(name = "xsched", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Command to carry out.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// How much it says.
    #[command(flatten)]
    pub(crate) messages: Messages,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(LaunchArgs),
    /// Print the environment with which `xsched run` starts a program under xschedd.
    ///
    /// For what starts programs itself: a shell, Slurm, a container engine. It is the same whether
    /// xschedd runs or not.
    #[command(after_help = EXIT_CODES)]
    Env(EnvArgs),
    /// Have container engines schedule the programs of containers.
    #[command(subcommand, after_help = EXIT_CODES)]
    Cdi(Cdi),
    /// List the processes that the scheduler of this node, xschedd, knows: who runs, who is held.
    ///
    /// Users see their own processes, administrators all.
    #[command(after_help = EXIT_CODES, after_long_help = meaning::of_ps())]
    Ps(PsArgs),
    /// Show the GPUs and processes of this node as they change.
    ///
    /// The keys are named in the last line; `?` says what columns and states mean, and `q` leaves.
    /// If the daemon goes away, it says so and goes on when there is one. Without a terminal it
    /// prints one frame.
    #[command(after_help = EXIT_CODES)]
    Top(TopArgs),
    /// Tell the scheduler of this node, xschedd, what to do.
    #[command(subcommand, after_help = EXIT_CODES)]
    Ctl(Control),
    /// Record what the processes of this node do, for `xsched replay`.
    ///
    /// For administrators. It ends after some time, when the record has its size, or when it is
    /// interrupted.
    #[command(after_help = EXIT_CODES)]
    Record(RecordArgs),
    /// List the devices that can be scheduled, with their levels.
    Devices(DevicesArgs),
    /// Say what would be scheduled on this machine, what would go past, and why.
    ///
    /// It looks at the drivers, the interposers, the devices and the environment, and changes
    /// nothing. A program that is named is run as `xsched run` does it; then the report says which
    /// of its launches went through XQueues. Every problem comes with what to do about it.
    #[command(after_help = DOCTOR_CODES)]
    Doctor(DoctorArgs),
    /// Run the simulator.
    #[command(subcommand, after_help = EXIT_CODES)]
    Sim(Sim),
    /// Run the workload of a record in the simulator and compare the latencies.
    #[command(after_help = policies())]
    Replay(ReplayArgs),
    /// Print a script with which a shell completes commands and options.
    #[command(after_help = EXIT_CODES)]
    Completions(CompletionsArgs),
    /// Write manual pages: one for each command.
    #[command(after_help = EXIT_CODES)]
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// The form.
    #[arg(long = "for", value_enum, value_name = "FORM", default_value_t = Format::Shell)]
    pub(crate) format: Format,
    /// How programs are scheduled.
    #[command(flatten)]
    pub(crate) scheduling: Scheduling,
}

/// Forms of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines for `eval` of a shell.
    Shell,
    /// Lines that Slurm takes from a `TaskProlog`.
    Slurm,
    /// The `containerEdits` of a container device, with `LD_PRELOAD`.
    Cdi,
    /// An object: the version of these variables, the variables, and the files to preload.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cdi {
    /// Write the specification of the devices xsched.dev/class=interactive, normal and batch.
    ///
    /// A container with one of them has its class as a grant, which ends with the container. Beside
    /// the file stands another with the list of files that programs of the container load first.
    #[command(after_help = EXIT_CODES)]
    Generate(CdiArgs),
    /// Grant a container its class: for the runtime, which says on standard input which it is.
    #[command(hide = true)]
    Hook(HookArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CdiArgs {
    /// The file.
    #[arg(long, value_name = "FILE", default_value = "/etc/cdi/xsched.json")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The class.
    #[arg(long, value_enum)]
    pub(crate) class: Class,
    /// Share of a GPU, in percent.
    #[arg(long, value_name = "P", value_parser = value_parser!(u8).range(0..=100))]
    pub(crate) share: Option<u8>,
    /// Gang of its processes.
    #[arg(long, value_name = "NAME")]
    pub(crate) gang: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Write JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// How often it asks the daemon, 50ms to 1h.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print one frame.
    #[arg(long)]
    pub(crate) once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let can_be = Duration::from_millis(50)..=Duration::from_secs(3_600);
    if can_be.contains(&time) { Ok(time) } else { Err("it can be 50ms to 1h".to_owned()) }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Control {
    /// Put another policy in charge. For administrators.
    #[command(after_help = policies())]
    Policy(PolicyArgs),
    /// Change the class, the priority or the share of a process.
    #[command(after_help = EXIT_CODES)]
    Set(SetArgs),
    /// Hold a process until it is released.
    #[command(after_help = EXIT_CODES)]
    Hold(PidArgs),
    /// Let a process go that was held by hand.
    #[command(after_help = EXIT_CODES)]
    Release(PidArgs),
    /// Undo what `set` changed: what the process asked for counts again.
    #[command(after_help = EXIT_CODES)]
    Reset(PidArgs),
    /// Check a configuration file of xschedd. It needs no daemon.
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Have xschedd read its configuration file again, whole or not at all. For administrators.
    ///
    /// Processes that are connected come under the limits that the file has then.
    #[command(after_help = EXIT_CODES)]
    Reload,
    /// Have xschedd take no new processes, which then run unscheduled. For administrators.
    #[command(after_help = EXIT_CODES)]
    Drain(DrainArgs),
    /// Give the processes of a cgroup, or one process, a class that they cannot raise. For root.
    ///
    /// It counts instead of what the configuration file says of them, also over a restart of
    /// xschedd, until it is revoked or the cgroup or the process ends.
    #[command(after_help = EXIT_CODES)]
    Grant(GrantArgs),
    /// End a grant: what the configuration file says of its processes counts again. For root.
    #[command(after_help = EXIT_CODES)]
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("processes").required(true).args(["cgroup", "pid"])))]
pub(crate) struct GrantArgs {
    /// The folder of the cgroup, as in `/sys/fs/cgroup/job`. Those below it count as well.
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// The process. Those that it starts do not count.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<i32>,
    /// The class of those that ask for none, and the highest that they may have.
    #[arg(long, value_enum)]
    pub(crate) class: Class,
    /// The share of a GPU that they have together at most, in percent.
    #[arg(long, value_name = "P", value_parser = value_parser!(u8).range(0..=100))]
    pub(crate) share: Option<u8>,
    /// Highest priority of the processes instead of that of the class, up to 255.
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = value_parser!(i32).range(-255..=255))]
    pub(crate) priority_max: Option<i32>,
    /// Gang of the processes, unless they name one when they connect.
    #[arg(long, value_name = "NAME")]
    pub(crate) gang: Option<String>,
    /// Name of the grant and its processes, as in `job 24`; by default the last part of the path,
    /// or `pid N`.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The name of the grant.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Take new processes again.
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The file for the record.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// For how long; by default until it is interrupted.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: Option<u64>,
    /// The most that the file may have.
    #[arg(long, value_name = "N", default_value_t = 256,
        value_parser = value_parser!(u64).range(1..=1_024))]
    pub(crate) mib: u64,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// The policy.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("change").required(true).multiple(true)
        .args(["class", "priority", "share", "active"])
))]
pub(crate) struct SetArgs {
    /// The process.
    #[arg(value_name = "PID")]
    pub(crate) pid: i32,
    /// Priority of the process, by the name of a class.
    #[arg(long, value_enum, conflicts_with = "priority")]
    pub(crate) class: Option<Class>,
    /// Priority of the process, −256 to 255.
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = value_parser!(i32).range(-256..=255))]
    pub(crate) priority: Option<i32>,
    /// Share of each GPU, in percent.
    #[arg(long, value_name = "P", value_parser = value_parser!(u8).range(0..=100))]
    pub(crate) share: Option<u8>,
    /// True if the process has the active window, for the policy `awf`.
    #[arg(long, value_name = "BOOL")]
    pub(crate) active: Option<bool>,
}

#[derive(Debug, Args)]
pub(crate) struct PidArgs {
    /// The process.
    #[arg(value_name = "PID")]
    pub(crate) pid: i32,
}

/// The exit codes of the doctor.
const DOCTOR_CODES: &str = "Exit codes: 2 for bad input or a program that cannot be started, the \
                            program's if one is named, 1 if `--for` finds something missing or \
                            wrong, and else 0, whatever is found.";

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Write everything as JSON; `-`, or nothing, writes it to standard output, and the report and
    /// what the program prints to standard error.
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Print what happens to each function of CUDA's driver and HIP's runtime.
    #[arg(long, conflicts_with_all = ["json", "program"])]
    pub(crate) functions: bool,
    /// Say instead whether this node is set up for an engine of clusters, and end with code 1 if
    /// something is missing or wrong. A warning does not count. With `--json`, the document has
    /// `schema`, `version`, `engine`, `facts`, `problems` and `warnings`.
    #[arg(long = "for", value_enum, value_name = "ENGINE",
        conflicts_with_all = ["program", "functions"])]
    pub(crate) engine: Option<Engine>,
    /// Ask the drivers, and print what they say for the process that reports.
    #[arg(long, hide = true, conflicts_with_all = ["json", "program"])]
    pub(crate) probe: bool,
    /// A program and its arguments, behind `--`.
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Engines of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    /// Slurm, with the plugin `spank_xsched.so`.
    Slurm,
    /// Podman and other container engines, with the container devices.
    Podman,
    /// Kubernetes, with the driver gpu.xsched.dev or its device plugin.
    Kubernetes,
    /// Ray, with the plugin `xsched_ray.Plugin`.
    Ray,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages, for example `~/.cargo/share/man/man1`. It is made if it is not
    /// there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Run a scenario and print its figures.
    #[command(after_help = policies_and_systems())]
    Run(RunArgs),
    /// Run a scenario under several policies and levels and print them side by side.
    #[command(after_help = policies_and_systems())]
    Compare(CompareArgs),
    /// Run many small drawn scenarios with injected faults and check every invariant.
    #[command(after_help = EXIT_CODES)]
    Swarm(SwarmArgs),
    /// Run the experiments of the XSched paper and set them beside its figures.
    #[command(after_help = experiments())]
    Paper(PaperArgs),
    /// Say what an MI308X would do at Lv3 under three assumptions about its driver.
    #[command(after_help = EXIT_CODES)]
    Lv3(Lv3Args),
    /// Simulate a day of jobs on the nodes of a cluster: whole GPUs, parts of GPUs, and classes.
    #[command(after_help = EXIT_CODES)]
    Cluster(ClusterArgs),
    /// Say what holds at different times on its nodes cost a gang.
    #[command(after_help = EXIT_CODES)]
    Gangs(GangsArgs),
}

fn experiments() -> String {
    format!("Experiments: {}.\n{EXIT_CODES}", xsched_paper::ids().join(", "))
}

#[derive(Debug, Args)]
pub(crate) struct Lv3Args {
    /// Holds for each figure.
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = value_parser!(u64).range(1..=100_000))]
    pub(crate) requests: u64,
    /// The folder for the tables `lv3.md` and all figures `lv3.json`.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The file with nodes and classes of jobs.
    pub(crate) file: PathBuf,
    /// First seed, instead of that of the file.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Run this many consecutive seeds, instead of the file's number.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MAX_SEEDS))]
    pub(crate) seeds: Option<u64>,
    /// Have each job keep its GPUs busy for this percentage of its time alone, instead of what the
    /// file says.
    #[arg(long, value_name = "PERCENT", value_parser = value_parser!(u8).range(1..=100))]
    pub(crate) duty_percent: Option<u8>,
    /// Write the figures as JSON; `-` writes them to standard output and the table to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GangsArgs {
    /// The seed.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the figures as JSON; `-` writes them to standard output and the table to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PaperArgs {
    /// Only these experiments, with commas between.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// The folder for records, figures and the page `index.html`.
    #[arg(long, value_name = "DIR", default_value = "xsched-paper")]
    pub(crate) out: PathBuf,
    /// A twentieth of the requests, to see that everything works; the verdicts mean little.
    #[arg(long)]
    pub(crate) small: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Write the list as JSON; `-` writes it to standard output and the table to standard error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

fn policies() -> String {
    format!("Policies: {}.\n{EXIT_CODES}", xsched_sim::run::policy_names().join(", "))
}

fn policies_and_systems() -> String {
    format!("Systems to compare with: {}.\n{}", System::names(), policies())
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The scenario, a TOML file.
    pub(crate) file: PathBuf,
    /// Policy, or system to compare with, instead of the policy of the scenario.
    #[arg(long, value_name = "P")]
    pub(crate) policy: Option<String>,
    /// Preemption level, 1 to 3, instead of that of the scenario.
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<u8>,
    /// First seed, instead of that of the scenario.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Run this many consecutive seeds and print bands, instead of the scenario's number.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MAX_SEEDS))]
    pub(crate) seeds: Option<u64>,
    /// Write the figures as JSON; `-` writes them to standard output and the tables to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the latency distributions; of several seeds the median, and a band from the lowest to
    /// the highest.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the timeline of the first seed for a trace viewer.
    #[arg(long, value_name = "OUT")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The scenario, a TOML file.
    pub(crate) file: PathBuf,
    /// Policies and systems, with commas between; the others are compared with the first.
    #[arg(long, value_name = "P,P", value_delimiter = ',', required = true)]
    pub(crate) policies: Vec<String>,
    /// Preemption levels, 1 to 3, with commas between; by default that of the scenario.
    #[arg(long = "level", alias = "levels", value_name = "N,N", value_delimiter = ',')]
    pub(crate) levels: Vec<u8>,
    /// First seed, instead of that of the scenario.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Run this many consecutive seeds and compare medians over them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u64).range(1..=MAX_SEEDS))]
    pub(crate) seeds: u64,
    /// Write the figures as JSON; `-` writes them to standard output and the table to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the latency distributions; of several seeds the median, and a band from the lowest to
    /// the highest.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: Option<PathBuf>,
    /// Write a page with the table, the pictures, the scenario and this command.
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SwarmArgs {
    /// Run nodes instead: processes and the daemon that schedules them, which are killed, stopped
    /// and cut off.
    #[arg(long)]
    pub(crate) daemon: bool,
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "FIRST", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads to use; by default one for each processor.
    #[arg(long, value_name = "T", value_parser = value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The record, a file that a runtime has written.
    pub(crate) file: PathBuf,
    /// Policy, instead of the recorded one.
    #[arg(long, value_name = "P")]
    pub(crate) policy: Option<String>,
    /// Preemption level of all tasks, 1 to 3, instead of the recorded ones.
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<u8>,
    /// Have the daemon of a node schedule the processes, with its latencies: for what
    /// `xsched record` has written. Another policy than the recorded one is told what the
    /// daemon tells it by default, as how long a turn is.
    #[arg(long, conflicts_with = "level")]
    pub(crate) daemon: bool,
    /// Write the figures as JSON; `-` writes them to standard output and the tables to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
    /// End with code 1 if a predicted P99 is further than this percentage from the recorded one.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) check: Option<f64>,
    /// Feed the recorded scheduler's inputs to a fresh one and compare the orders, instead of
    /// simulating; a difference ends with code 1.
    #[arg(long, conflicts_with_all = ["policy", "level", "daemon", "json", "check"])]
    pub(crate) orders: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a percentage of 0 or more");
    let percent: f64 = text.trim_end_matches('%').parse().map_err(|_| wrong())?;
    if percent.is_finite() && percent >= 0.0 { Ok(percent) } else { Err(wrong()) }
}
