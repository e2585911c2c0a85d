//! Needs of a role for a request, from what it said when it was ready.

use std::sync::Arc;

use xsched_sim::scenario::{DeviceSpec, Dist, TaskSpec};

use crate::rows::protocol::{Profile, RoleSpec};

/// Between two kernels of a stream the device does nothing for up to this long: 157 kernels of a
/// graph with 4.60 ms took 4.78 ms on an H200.
const GAP_NS: u64 = 1_500;
/// Host time of a launch at most that another thread can take over, where the window was full. The
/// framework's own time before it stays with the thread.
const LAUNCH_NS: u64 = 1_000;
/// Kernels of a request at most, as the simulator has it.
const KERNELS_MAX: usize = 1_000_000;
/// The work whose requests are computed together, as many as there are.
const BATCHED: &str = "llm";
/// Entries that an XQueue has room for, as in the runtime's defaults.
const CAPACITY: u32 = 1_024;

/// Kernels and times of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Need {
    /// Device time of each kernel, with the gap behind it.
    pub(super) kernels_ns: Arc<[u64]>,
    /// Set if the kernels are launched as one graph.
    pub(super) is_graph: bool,
    /// Host time before each launch, beyond the launch.
    pub(super) dispatch_ns: u64,
    /// Host time of a launch, which is not the framework's.
    pub(super) launch_ns: u64,
    /// Host time of a request that no kernel waits for, as to prepare it and to read its result.
    pub(super) extra_ns: u64,
    /// Time that a lone request takes in all, as it was said.
    pub(super) request_ns: u64,
}

impl Need {
    /// Returns the needs of a role that said this.
    pub(super) fn of(
        spec: &RoleSpec,
        profile: &Profile,
        device: &DeviceSpec,
    ) -> Result<Self, String> {
        let name = &spec.name;
        if spec.work == BATCHED {
            return Err(format!(
                "requests of {name} are computed together, with kernels that were not said"
            ));
        }
        if profile.request_ns == 0 {
            return Err(format!("{name} did not say what a lone request takes"));
        }
        let kernels: Vec<u64> = profile.kernels_ns.iter().map(|&ns| ns.max(1)).collect();
        if kernels.is_empty() {
            return Err(format!("{name} did not say which kernels a request has"));
        }
        if kernels.len() > KERNELS_MAX {
            return Err(format!("a request of {name} has more than {KERNELS_MAX} kernels"));
        }
        let need = Self::launched(spec.graph, kernels, profile.host_ns);
        Ok(need.lasting(profile.request_ns, device))
    }

    /// With the host's time spread over the launches.
    fn launched(is_graph: bool, kernels: Vec<u64>, host_ns: u64) -> Self {
        let each_ns = host_ns / kernels.len() as u64;
        let launch_ns = if is_graph { each_ns } else { each_ns.min(LAUNCH_NS) };
        let dispatch_ns = each_ns - launch_ns;
        let (extra_ns, request_ns) = (0, 0);
        Self { kernels_ns: kernels.into(), is_graph, dispatch_ns, launch_ns, extra_ns, request_ns }
    }

    /// Device time of a request.
    pub(super) fn device_ns(&self) -> u64 {
        self.kernels_ns.iter().sum()
    }

    /// Host time of one command.
    const fn command_ns(&self) -> u64 {
        self.dispatch_ns + self.launch_ns
    }

    /// Returns the time of a lone request without [`Self::extra_ns`]: the host and the device work
    /// at the same time, each command after the one before it and after its own launch.
    pub(super) fn lone_ns(&self, device: &DeviceSpec) -> u64 {
        let step_ns = self.command_ns();
        let wake_ns = device.wake_ns.iter().sum::<u64>() / device.wake_ns.len().max(1) as u64;
        let (mut launched_ns, mut ran_ns) = (wake_ns, 0);
        for kernel_ns in self.kernels_ns.iter() {
            launched_ns += step_ns;
            ran_ns = (launched_ns + device.launch_latency_ns).max(ran_ns) + kernel_ns;
        }
        ran_ns + device.fence_ns + device.detect_ns + device.host_sync_ns
    }

    /// With a lone request as long as the role said: kernels have gaps behind them, and what is
    /// left is host time around the launches. Of a request that was faster than its parts, the
    /// longer part is shortened.
    fn lasting(self, request_ns: u64, device: &DeviceSpec) -> Self {
        let said = Self { request_ns, ..self };
        let count = said.kernels_ns.len() as u64;
        let lone_ns = said.lone_ns(device);
        if lone_ns > request_ns {
            return said.shortened(lone_ns - request_ns);
        }
        let gap_ns = GAP_NS.min((request_ns - lone_ns) / count);
        let with_gaps = said.kernels_ns.iter().map(|ns| ns + gap_ns).collect();
        let longer = Self { kernels_ns: with_gaps, ..said };
        let extra_ns = request_ns.saturating_sub(longer.lone_ns(device));
        Self { extra_ns, ..longer }
    }

    fn shortened(self, by_ns: u64) -> Self {
        let count = self.kernels_ns.len() as u64;
        let device_ns = self.device_ns();
        if self.command_ns() * count > device_ns {
            let dispatch_ns = self.dispatch_ns.saturating_sub(by_ns / count);
            let launch_ns = self.launch_ns.saturating_sub(by_ns / count);
            return Self { dispatch_ns, launch_ns, ..self };
        }
        // Profiled kernels are a little longer than others; half of them are not made up.
        let part = 1.0 - (by_ns as f64 / device_ns as f64).min(0.5);
        let shorter = self.kernels_ns.iter().map(|&ns| ((ns as f64 * part) as u64).max(1));
        let kernels_ns = shorter.collect();
        Self { kernels_ns, ..self }
    }

    /// A task that makes such requests.
    pub(super) fn task(&self, name: &str) -> TaskSpec {
        TaskSpec {
            commands: u32::try_from(self.kernels_ns.len()).unwrap_or(u32::MAX),
            command: Dist::Sequence { values_ns: Arc::clone(&self.kernels_ns) },
            host_launch_ns: Some(self.launch_ns),
            dispatch_ns: self.dispatch_ns,
            capacity: CAPACITY,
            ..TaskSpec::named(name)
        }
    }
    /// The task with all kernels of a request as one command, launched at once.
    pub(super) fn as_one(&self, task: TaskSpec) -> TaskSpec {
        let count = self.kernels_ns.len() as u64;
        TaskSpec {
            commands: 1,
            command: Dist::Constant(self.device_ns()),
            host_launch_ns: Some(self.launch_ns * count),
            ..task
        }
    }
}
