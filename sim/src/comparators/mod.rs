//! The systems that XSched is compared with, as models that only the simulator has.
//!
//! Each is a small variation of the simulated machine: how processes share the device
//! (`timeslice`, `mps`), when a task may launch (`vcuda`, `tgs`, `paella`), when a request may
//! begin (`triton`), or just other settings (`native`, `sync`). The queue machines, the scheduler
//! and all checkers run as ever. `docs/src/reference/comparators.md` says what each model leaves
//! out.

pub(crate) mod gate;
mod mps;
mod native;
mod paella;
mod sync;
#[cfg(test)]
mod tests;
mod tgs;
mod timeslice;
mod triton;
mod vcuda;

use std::fmt;
use std::str::FromStr;

use xsched_policies::Any;
use xsched_policies::fcfs::Fcfs;
use xsched_policies::hpf::Hpf;

use crate::device::Sharing;
use crate::scenario::{Scenario, TaskSpec};
pub(crate) use gate::{Admit, Gate};

/// A system that XSched is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Concurrent streams, no scheduling.
    Native,
    /// One process on the device at a time, in slices.
    Timeslice,
    /// Processes side by side, each with a share of the units.
    Mps,
    /// A quota of device time for each process.
    Vcuda,
    /// Launch rates that give way to the most important task.
    Tgs,
    /// Kernels of the shortest request first.
    Paella,
    /// Whole requests one after the other, by priority.
    Triton,
    /// Highest priority first with one command in flight.
    Sync,
}

impl System {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Native,
        Self::Timeslice,
        Self::Mps,
        Self::Vcuda,
        Self::Tgs,
        Self::Paella,
        Self::Triton,
        Self::Sync,
    ];

    /// The name in scenario files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Timeslice => "timeslice",
            Self::Mps => "mps",
            Self::Vcuda => "vcuda",
            Self::Tgs => "tgs",
            Self::Paella => "paella",
            Self::Triton => "triton",
            Self::Sync => "sync",
        }
    }

    /// All names, with commas between.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The policy that runs below.
    pub(crate) fn policy(self) -> Any {
        match self {
            Self::Sync => Any::Hpf(Hpf::default()),
            _ => Any::Fcfs(Fcfs),
        }
    }

    /// Gives the tasks the launch windows that they have under this system.
    pub(crate) fn prepare(self, scenario: &Scenario, tasks: &mut [TaskSpec]) {
        for task in tasks {
            let depth = scenario.devices[task.device].launch_queue;
            match self {
                Self::Native | Self::Timeslice | Self::Mps | Self::Triton => {
                    native::open_window(task, depth);
                }
                Self::Vcuda | Self::Tgs | Self::Paella => gate::watched_window(task, depth),
                Self::Sync => sync::one_at_a_time(task),
            }
        }
    }

    /// How the processes share a device, if not as the scenario says.
    pub(crate) fn sharing(
        self,
        scenario: &Scenario,
        tasks: &[TaskSpec],
        device: usize,
    ) -> Option<Sharing> {
        let parameters = &scenario.comparators;
        match self {
            Self::Timeslice => Some(timeslice::sharing(parameters, tasks)),
            Self::Mps => Some(mps::sharing(parameters, tasks, device)),
            _ => None,
        }
    }

    /// What keeps tasks from launching, if anything does.
    pub(crate) fn gate(self, scenario: &Scenario, tasks: &[TaskSpec]) -> Option<Box<dyn Gate>> {
        let parameters = &scenario.comparators;
        match self {
            Self::Vcuda => Some(Box::new(vcuda::Quotas::new(parameters, tasks))),
            Self::Tgs => Some(Box::new(tgs::RateControl::new(parameters, tasks))),
            Self::Paella => Some(Box::new(paella::Dispatcher::new(parameters, tasks))),
            Self::Triton => Some(Box::new(triton::Requests::new(parameters, tasks))),
            Self::Native | Self::Timeslice | Self::Mps | Self::Sync => None,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no system of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown system; known are {}", System::names())]
pub struct UnknownSystem;

impl FromStr for System {
    type Err = UnknownSystem;

    /// Ignores case, as the names of policies do.
    fn from_str(name: &str) -> Result<Self, UnknownSystem> {
        let found = Self::ALL.into_iter().find(|system| system.name().eq_ignore_ascii_case(name));
        found.ok_or(UnknownSystem)
    }
}

/// The system of a scenario, if it has one, and the parameters of all of them. The documentation
/// says where each default comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparators {
    /// The system to run instead of a policy when the command line names neither.
    pub system: Option<System>,
    /// `timeslice`: how long a process has the device while others want it.
    pub slice_ns: u64,
    /// `timeslice`: device time of changing from one process to another.
    pub switch_ns: u64,
    /// `mps`: share of the units that a process may use unless its tasks have a `share`, 1 to 100
    /// percent.
    pub mps_percent: u32,
    /// `vcuda`: period after which quotas are renewed.
    pub vcuda_window_ns: u64,
    /// `tgs`: how often the rate of the production tasks is judged.
    pub tgs_interval_ns: u64,
    /// `tgs`: period for which the opportunistic tasks get their allowance.
    pub tgs_window_ns: u64,
    /// `tgs`: drop of the production rate that is put up with, 0 to 1.
    pub tgs_tolerance: f64,
    /// `tgs`: what is added to the opportunistic rate, as a part of the production rate.
    pub tgs_increase: f64,
    /// `tgs`: part by which the opportunistic rate is cut, 0 to 1.
    pub tgs_decrease: f64,
    /// `tgs`: opportunistic rate to begin with, in device time per time.
    pub tgs_start: f64,
    /// `paella`: kernels on a device at a time.
    pub paella_in_flight: u32,
    /// `paella`: device time that a task may fall behind its fair part before it goes first.
    pub paella_deficit_ns: u64,
    /// `triton`: requests that execute on a device at a time.
    pub triton_running: u32,
}

impl Default for Comparators {
    fn default() -> Self {
        const MS: u64 = 1_000_000;
        Self {
            system: None,
            slice_ns: 2 * MS,
            switch_ns: 40_000,
            mps_percent: 100,
            vcuda_window_ns: 120 * MS,
            tgs_interval_ns: 5_000 * MS,
            tgs_window_ns: 50 * MS,
            tgs_tolerance: 0.03,
            tgs_increase: 0.025,
            tgs_decrease: 0.08,
            tgs_start: 0.01,
            paella_in_flight: 2,
            paella_deficit_ns: 50 * MS,
            triton_running: 1,
        }
    }
}

/// For each task the number of its process; a task without one is a process of its own.
fn clients(tasks: &[TaskSpec]) -> Vec<usize> {
    let named = tasks.iter().filter_map(|task| task.process).max().map_or(0, |most| most + 1);
    tasks.iter().enumerate().map(|(i, task)| task.process.unwrap_or(named + i)).collect()
}

/// For each process the largest `share` of its tasks on a device, in percent; `None` where there is
/// no such task or none has a share.
fn shares(tasks: &[TaskSpec], clients: &[usize], device: usize) -> Vec<Option<u8>> {
    let mut shares = vec![None; clients.iter().max().map_or(0, |most| most + 1)];
    for (task, &client) in tasks.iter().zip(clients).filter(|(task, _)| task.device == device) {
        shares[client] = shares[client].max(task.share);
    }
    shares
}
