//! Jobs on the nodes of a cluster: whole GPUs for each job, beside shared ones.
//!
//! A day is simulated at the level of jobs, without commands: a GPU gives each of its jobs a rate
//! by [`progress`], whose parameters are measured ones, and tests compare it with the simulator of
//! commands. The same seed gives the same jobs under each [`Way`], and the same figures.
//! `docs/src/results/cluster.md` has results.
//!
//! ```
//! use std::path::Path;
//!
//! use xsched_sim::cluster::{Way, run};
//! use xsched_sim::scenario::ClusterScenario;
//!
//! let text = include_bytes!("../../clusters/alibaba-2023.toml");
//! let mut scenario = ClusterScenario::parse(text, Path::new("alibaba-2023.toml"))?;
//! scenario.nodes = 4;
//! let waits = Way::ALL.map(|way| run(&scenario, 1.0, way, 1).classes[0].wait_p99_s);
//! assert!(waits[2] < waits[0], "urgent jobs wait less if they can start beside others");
//! # Ok::<(), xsched_sim::scenario::ScenarioError>(())
//! ```

mod engine;
mod figures;
mod gangs;
mod jobs;
mod share;
#[cfg(test)]
mod tests;

use std::convert::Infallible;

use serde::Serialize;

use crate::report::in_order;
use crate::scenario::{ClusterScenario, Weighted};

pub use figures::{Cell, ClassFigures, Figure, Figures};
pub use gangs::{GangCell, GangStudy, Skew, gangs};
pub use share::{Resident, Way, device_time, progress};

/// Runs one day with one seed.
#[must_use]
pub fn run(scenario: &ClusterScenario, load: f64, way: Way, seed: u64) -> Figures {
    engine::Cluster::new(scenario, way, &jobs::draw(scenario, load, seed)).run(load, seed)
}

/// Results of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterStudy {
    /// Name of the scenario.
    pub name: String,
    /// First seed.
    pub seed: u64,
    /// Consecutive seeds.
    pub seeds: u64,
    /// Nodes.
    pub nodes: usize,
    /// GPUs of a node.
    pub gpus: usize,
    /// Mean part of its run time in which a job alone keeps its GPUs busy, over the jobs.
    pub duty: f64,
    /// By load, then by way.
    pub cells: Vec<Cell>,
}

/// Runs a scenario with each load, way and seed, on at most `threads` threads.
#[must_use]
pub fn study(scenario: &ClusterScenario, seed: u64, seeds: u64, threads: usize) -> ClusterStudy {
    let mut days = Vec::new();
    for load in &scenario.loads {
        for way in Way::ALL {
            days.extend((0..seeds.max(1)).map(|offset| (*load, way, seed.wrapping_add(offset))));
        }
    }
    let day = |_, (load, way, seed): &(f64, Way, u64)| {
        Ok::<_, Infallible>(run(scenario, *load, *way, *seed))
    };
    let runs = in_order(&days, threads, &day).unwrap_or_else(|never| match never {});
    let of_cell = |runs: &[Figures]| Cell::over(&runs.iter().collect::<Vec<_>>());
    ClusterStudy {
        name: scenario.name.clone(),
        seed,
        seeds: seeds.max(1),
        nodes: scenario.nodes,
        gpus: scenario.gpus,
        duty: mean_duty(scenario),
        cells: runs.chunks(seeds.max(1) as usize).filter_map(of_cell).collect(),
    }
}

fn mean_duty(scenario: &ClusterScenario) -> f64 {
    let mean = |of: &[Weighted]| {
        let weights: f64 = of.iter().map(|one| one.weight).sum();
        of.iter().map(|one| one.value * one.weight).sum::<f64>() / weights
    };
    let of_class = scenario.classes.iter();
    let duties = of_class.map(|class| Weighted { value: mean(&class.duty), weight: class.weight });
    mean(&duties.collect::<Vec<_>>())
}
