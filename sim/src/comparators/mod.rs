//! The systems that XSched is compared with, as models that only the simulator has.
//!
//! Each is a small variation of the simulated machine: how processes share the device
//! (`timeslice`, `mps`), when a task may launch (`vcuda`, `tgs`, `paella`), when a request may
//! begin (`triton`), or just other settings (`native`, `sync`). The queue machines, the scheduler
//! and all checkers run as ever. `docs/src/guides/simulate.md` says what each model leaves
//! out.

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

use xsched_policies::Any;
use xsched_policies::fcfs::Fcfs;
use xsched_policies::hpf::Hpf;

use crate::device::Sharing;
use crate::engine::Variation;
use crate::gate::{Admit, LaunchGate};
use crate::scenario::{Comparators, Scenario, System, TaskSpec, WindowSpec};

impl System {
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
                Self::Vcuda | Self::Tgs | Self::Paella => watched_window(task, depth),
                Self::Sync => sync::one_at_a_time(task),
            }
        }
    }

    /// The machine as it is under this system.
    pub(crate) fn variation(self, scenario: &Scenario, tasks: &[TaskSpec]) -> Variation {
        let devices = 0..scenario.devices.len();
        Variation {
            name: Some(self.name()),
            sharing: devices.map(|device| self.sharing(scenario, tasks, device)).collect(),
            gate: self.gate(scenario, tasks),
        }
    }

    /// How the processes share a device, if not as the scenario says.
    fn sharing(self, scenario: &Scenario, tasks: &[TaskSpec], device: usize) -> Option<Sharing> {
        let parameters = &scenario.comparators;
        match self {
            Self::Timeslice => Some(timeslice::sharing(parameters, tasks)),
            Self::Mps => Some(mps::sharing(parameters, tasks, device)),
            _ => None,
        }
    }

    /// Gate that keeps tasks from launching, if any.
    fn gate(self, scenario: &Scenario, tasks: &[TaskSpec]) -> Option<Box<dyn LaunchGate>> {
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

/// A window that does not limit by itself, in which the host sees the end of every command: what a
/// gate keeps back must not depend on fences that only come with later commands.
fn watched_window(task: &mut TaskSpec, launch_queue: u32) {
    task.window = WindowSpec::Fixed;
    task.threshold = (launch_queue / 8).clamp(1, task.capacity);
    task.batch = 1;
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
