//! The simulator's work: a fixed scenario in several variants.

use std::path::Path;

use xsched_sim::run::{RunError, RunOptions, run};
use xsched_sim::scenario::{Concurrency, Scenario, ScenarioError};

const SCENARIO: &str = include_str!("../scenarios/throughput.toml");

/// A way to run the scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Name of the mode.
    pub name: &'static str,
    policy: &'static str,
    level: u8,
    concurrency: Concurrency,
}

impl Variant {
    const fn new(name: &'static str, policy: &'static str, level: u8) -> Self {
        Self { name, policy, level, concurrency: Concurrency::RoundRobin }
    }

    const fn shared(name: &'static str, policy: &'static str, level: u8) -> Self {
        let concurrency = Concurrency::ProcessorSharing { contention: 1.0 };
        Self { name, policy, level, concurrency }
    }
}

/// All variants. The first is the one that the goals are about.
pub const VARIANTS: [Variant; 6] = [
    Variant::new("hpf, level 2", "hpf", 2),
    Variant::new("hpf, level 1", "hpf", 1),
    Variant::new("hpf, level 3", "hpf", 3),
    Variant::new("fcfs", "fcfs", 1),
    Variant::shared("hpf, level 2, processor sharing", "hpf", 2),
    Variant::shared("fcfs, processor sharing", "fcfs", 1),
];

/// A variant, ready to run.
#[derive(Clone, Debug)]
pub struct Simulation {
    scenario: Scenario,
    options: RunOptions,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Commands that ran.
    pub commands: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Holds of a queue that had work on the device.
    pub preemptions: u64,
    /// Violations that the checkers found.
    pub violations: u64,
}

impl Simulation {
    /// The variant with this much simulated time.
    ///
    /// # Errors
    /// If the scenario is not valid.
    pub fn new(variant: &Variant, seconds: u64, checks: bool) -> Result<Self, ScenarioError> {
        let mut scenario = Scenario::parse(SCENARIO, Path::new("throughput.toml"))?;
        scenario.duration_ns = Some(seconds * 1_000_000_000);
        scenario.devices[0].concurrency = variant.concurrency;
        let policy = Some(variant.policy.to_owned());
        let options =
            RunOptions { policy, level: Some(variant.level), checks, ..Default::default() };
        Ok(Self { scenario, options })
    }

    /// Runs it.
    ///
    /// # Errors
    /// If the variant does not exist.
    pub fn run(&self) -> Result<Done, RunError> {
        let outcome = run(&self.scenario, &self.options, &mut |_| {})?;
        Ok(Done {
            commands: outcome.commands,
            events: outcome.events,
            preemptions: outcome.devices.iter().map(|device| device.preemptions).sum(),
            violations: outcome.checks.values().map(|check| check.violations).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_does_what_it_says() {
        for variant in &VARIANTS {
            let done = Simulation::new(variant, 1, true).unwrap().run().unwrap();
            let name = variant.name;
            assert!(done.commands > 10_000, "{name}: the device is busy, but ran {done:?}");
            assert_eq!(done.preemptions > 50, variant.policy == "hpf", "{name}: {done:?}");
            assert_eq!(done.violations, 0, "{name}");
        }
    }
}
