//! Running a scenario.

use std::fmt;

use thiserror::Error;
use xsched_core::hal::Contract;
use xsched_core::hint::{HintKinds, Priority};
use xsched_core::policy::{MayHold, Policy};
use xsched_policies::Any;

use crate::engine::{Engine, Faults, Setup, Variation};
use crate::outcome::Outcome;
use crate::scenario::{DAEMON_LEVEL, Scenario, System, TaskSpec};

/// Changes of the caller to the scenario.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The policy, or a [`System`] to compare with, instead of what the scenario says.
    pub policy: Option<String>,
    /// The preemption level, 1 to 3, of tasks that do not choose one, instead of the scenario's.
    pub level: Option<u8>,
    /// The seed, instead of the scenario's.
    pub seed: Option<u64>,
    /// True if to run the checkers.
    pub checks: bool,
    /// How many spans of the timeline to keep; 0 for none.
    pub timeline_spans: usize,
    /// True if to write a record of the run, as the runtime does of a real one.
    pub record: bool,
    /// True if each hold has the level that its predicted cost suggests, up to that of the task,
    /// instead of just that.
    pub by_cost: bool,
}

/// Why a scenario cannot be run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// No such policy.
    #[error("unknown policy `{name}`; known are {}", policy_names().join(", "))]
    UnknownPolicy {
        /// Requested number.
        name: String,
    },
    /// Neither a policy nor a system.
    #[error(
        "unknown policy `{name}`; known are {}, and to compare with {}",
        policy_names().join(", "),
        System::names()
    )]
    UnknownName {
        /// Requested number.
        name: String,
    },
    /// There are levels 1 to 3.
    #[error("there is no level {level}; levels are 1, 2 and 3")]
    NoSuchLevel {
        /// Requested number.
        level: u8,
    },
    /// The daemon of a node has one level.
    #[error("the scenario's [daemon] holds at level {DAEMON_LEVEL} only; leave level {level} out")]
    DaemonLevel {
        /// Requested number.
        level: u8,
    },
    /// A device cannot preempt that deeply.
    #[error("task `{task}` asks for level {level}, but device `{device}` has max_level {max}")]
    LevelTooHigh {
        /// The task.
        task: String,
        /// Requested level.
        level: u8,
        /// Device.
        device: String,
        /// Highest level.
        max: u8,
    },
    /// The scenario does not fit into the scheduler's tables.
    #[error("the scenario cannot be set up: {0}")]
    Setup(#[from] xsched_core::scheduler::SchedulerError),
}

/// The names of the policies.
#[must_use]
pub fn policy_names() -> &'static [&'static str] {
    Any::NAMES
}

/// True if the level makes no difference to a policy, because it never holds a queue, or to a
/// system. To unknown ones it does.
#[must_use]
pub fn never_holds(policy: &str) -> bool {
    match policy.parse::<Any>() {
        Ok(policy) => policy.needs().may_hold == MayHold::Nothing,
        Err(_) => policy.parse::<System>().is_ok(),
    }
}

/// Hints of a task of which a policy takes no notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnoticedHints {
    /// Name of the task, as in the scenario.
    pub task: String,
    /// Name of the policy.
    pub policy: &'static str,
    /// Kinds of the hints.
    pub hints: HintKinds,
}

impl fmt::Display for UnnoticedHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, policy, hints } = self;
        write!(f, "task {task}: {policy} takes no notice of {hints}")
    }
}

/// The tasks of a scenario with hints of which a policy takes no notice, as it says itself in its
/// [`Needs`](xsched_core::policy::Needs). None for a system and an unknown policy.
///
/// ```
/// use std::path::Path;
///
/// use xsched_sim::run::unnoticed_hints;
/// use xsched_sim::scenario::Scenario;
///
/// let text = "version = 1\nname = \"one\"\nduration_ms = 5\n[[device]]\nname = \"d\"\n\
///     [[task]]\nname = \"t\"\narrival = { kind = \"closed\", think_ms = 0 }\n\
///     command = { kind = \"constant\", us = 100 }\npriority = 3\ndeadline_ms = 2\nweight = 5\n";
/// let scenario = Scenario::parse(text, Path::new("one.toml"))?;
/// let lines = unnoticed_hints(&scenario, "wfq");
/// assert_eq!(lines[0].to_string(), "task t: wfq takes no notice of priority, deadline");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn unnoticed_hints(scenario: &Scenario, policy: &str) -> Vec<UnnoticedHints> {
    let Ok(policy) = policy.parse::<Any>() else { return Vec::new() };
    let needs = policy.needs();
    let unnoticed = |task: &TaskSpec| {
        let mut hints = task.hints();
        // Every policy that holds queues takes notice of that.
        if hints.priority == Priority::NO_EXECUTE && needs.may_hold != MayHold::Nothing {
            hints.priority = Priority::DEFAULT;
        }
        let hints = hints.kinds().without(needs.hints);
        let (task, policy) = (task.name.clone(), policy.name());
        (!hints.is_empty()).then_some(UnnoticedHints { task, policy, hints })
    };
    scenario.tasks.iter().filter_map(unnoticed).collect()
}

/// Runs a scenario once. `progress` gets the share that is done, 0 to 1, now and then.
///
/// ```
/// use std::path::Path;
///
/// use xsched_sim::run::{RunOptions, run};
/// use xsched_sim::scenario::Scenario;
///
/// let text = "version = 1\nname = \"one\"\n[[device]]\nname = \"d\"\n[[task]]\nname = \"t\"\n\
///     arrival = { kind = \"closed\", think_ms = 0 }\nrequests = 3\n\
///     command = { kind = \"constant\", us = 100 }\ncommands = 4\n";
/// let scenario = Scenario::parse(text, Path::new("one.toml"))?;
/// let options = RunOptions { policy: Some("hpf".to_owned()), ..RunOptions::default() };
/// let outcome = run(&scenario, &options, &mut |_| {})?;
/// assert_eq!(outcome.tasks[0].latencies_ns.len(), 3);
/// assert_eq!(outcome.tasks[0].device_time_ns, 3 * 4 * 100_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the policy or system or the level does not exist, or a device cannot do the level.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<Outcome, RunError> {
    let (system, policy) = choose(scenario, options)?;
    let setup = setup(scenario, system, options)?;
    run_setup(scenario, system, Box::new(policy), setup, progress)
}

/// Runs a scenario once under a policy of the caller's: the object that a runtime would take. What
/// the scenario and the options say about the policy and about a system is not looked at.
///
/// Give `&mut policy` to look at the policy afterwards. It must be fresh; the same object after
/// another run remembers queues of that one.
///
/// ```
/// use xsched_policies::hpf::Hpf;
/// use xsched_sim::run::{RunOptions, run, run_with};
/// use xsched_sim::scenario::Scenario;
///
/// let scenario = "version = 1\nname = \"one\"\npolicy = \"fcfs\"\nduration_ms = 5\n\
///     [[device]]\nname = \"d\"\n[[task]]\nname = \"t\"\n\
///     arrival = { kind = \"closed\", think_ms = 0 }\n\
///     command = { kind = \"constant\", us = 100 }\ncommands = 4\n";
/// let scenario = Scenario::parse(scenario, std::path::Path::new("one.toml"))?;
/// let mine = run_with(&scenario, Hpf::default(), &RunOptions::default(), &mut |_| {})?;
/// let by_name = RunOptions { policy: Some("hpf".to_owned()), ..RunOptions::default() };
/// assert_eq!(mine, run(&scenario, &by_name, &mut |_| {})?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the level does not exist, or a device cannot do it.
pub fn run_with<'p>(
    scenario: &Scenario,
    policy: impl Policy + 'p,
    options: &RunOptions,
    progress: &mut dyn FnMut(f64),
) -> Result<Outcome, RunError> {
    let setup = setup(scenario, None, options)?;
    run_setup(scenario, None, Box::new(policy), setup, progress)
}

pub(crate) fn setup(
    scenario: &Scenario,
    system: Option<System>,
    options: &RunOptions,
) -> Result<Setup, RunError> {
    let level = options.level.unwrap_or(scenario.level);
    if !(1..=3).contains(&level) {
        return Err(RunError::NoSuchLevel { level });
    }
    if scenario.daemon.is_some() && system.is_none() && level != DAEMON_LEVEL {
        return Err(RunError::DaemonLevel { level });
    }
    Ok(Setup {
        // The systems do not preempt.
        level: if system.is_some() { 1 } else { level },
        seed: options.seed.unwrap_or(scenario.seed),
        checks: options.checks,
        timeline_spans: options.timeline_spans,
        faults: Faults::default(),
        must_finish: false,
        record: options.record,
        by_cost: options.by_cost,
    })
}

/// The system, if one is to run, and the policy.
fn choose(scenario: &Scenario, options: &RunOptions) -> Result<(Option<System>, Any), RunError> {
    let name = match (&options.policy, scenario.comparators.system) {
        (Some(name), _) => name.as_str(),
        (None, Some(system)) => system.name(),
        (None, None) => scenario.policy.as_str(),
    };
    if let Ok(policy) = name.parse() {
        return Ok((None, policy));
    }
    let unknown = |_| RunError::UnknownName { name: name.to_owned() };
    let system: System = name.parse().map_err(unknown)?;
    Ok((Some(system), system.policy()))
}

pub(crate) fn run_setup<'p>(
    scenario: &Scenario,
    system: Option<System>,
    policy: Box<dyn Policy + 'p>,
    setup: Setup,
    progress: &mut dyn FnMut(f64),
) -> Result<Outcome, RunError> {
    let mut tasks = scenario.expanded_tasks();
    if let Some(system) = system {
        system.prepare(scenario, &mut tasks);
    }
    if policy.needs().may_hold != MayHold::Nothing {
        for task in &tasks {
            check_level(scenario, task, setup.level)?;
        }
    }
    let contracts: Vec<Contract> = tasks.iter().map(|_| Contract::default()).collect();
    let none = Variation::default;
    let variation = system.map_or_else(none, |system| system.variation(scenario, &tasks));
    Ok(Engine::new(scenario, &tasks, &contracts, policy, variation, setup)?.run(progress))
}

fn check_level(scenario: &Scenario, task: &TaskSpec, level: u8) -> Result<(), RunError> {
    let level = task.level.unwrap_or(level);
    let device = &scenario.devices[task.device];
    if level <= device.max_level {
        return Ok(());
    }
    Err(RunError::LevelTooHigh {
        task: task.name.clone(),
        level,
        device: device.name.clone(),
        max: device.max_level,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_queue_that_must_not_run_is_no_hint_that_a_policy_passes_over() {
        let text = "version = 1\nname = \"one\"\nduration_ms = 5\n[[device]]\nname = \"d\"\n\
            [[task]]\nname = \"t\"\narrival = { kind = \"closed\", think_ms = 0 }\n\
            command = { kind = \"constant\", us = 100 }\npriority = -256\ncpu_priority = 4\n";
        let scenario = Scenario::parse(text, Path::new("one.toml")).expect("a scenario");
        let lines = |policy: &str| {
            let all = unnoticed_hints(&scenario, policy);
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(lines("mlfq"), ["task t: mlfq takes no notice of CPU priority"]);
        assert_eq!(lines("FCFS"), ["task t: fcfs takes no notice of priority, CPU priority"]);
        assert!(lines("chpf").is_empty() && lines("mps").is_empty() && lines("none").is_empty());
    }
}
