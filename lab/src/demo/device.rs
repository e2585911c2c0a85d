//! The devices that the demo can run on, and which of them it runs on.

use serde::Serialize;
use xsched_sim::scenario::DeviceSpec;

use super::spool::Spool;
use super::{Outcomes, Plan, measure};
use crate::device::hal::{Choice, SpinHal, first_that_works, on_device};
use crate::device::{BenchDevice, Described};
use crate::error::CommandError;
use crate::predict::device_for;

/// Devices in the order in which they are tried: a GPU first, since a user who has one expects it.
const ORDER: [SpinHal; 3] = [SpinHal::Cuda, SpinHal::Hip, SpinHal::Host];

/// Kernels of a request, all of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Request {
    /// How many.
    pub(crate) kernels: u32,
    /// Device time of each, in nanoseconds.
    pub(crate) kernel_ns: u64,
}

/// The demo's request: as much device time as BERT-base with 384 tokens takes on an H200 (4.60 ms),
/// in fewer and longer kernels than the 157 there, since taking turns costs a processor more than
/// it costs a GPU.
pub(crate) const REQUEST: Request = Request { kernels: 24, kernel_ns: 192_000 };

impl Request {
    /// Device time of all kernels, in nanoseconds.
    pub(crate) const fn device_ns(self) -> u64 {
        self.kernels as u64 * self.kernel_ns
    }
}

/// A device that is open and can run the demo, of whatever kind.
pub(crate) trait DemoDevice {
    /// Description of the device.
    fn about(&self) -> Described;

    /// Runs all modes, as [`measure`] does.
    fn measure(
        &self,
        plan: &Plan,
        record: Option<&Spool>,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Outcomes, CommandError>;
}

impl<B: BenchDevice> DemoDevice for B {
    fn about(&self) -> Described {
        self.describe()
    }

    fn measure(
        &self,
        plan: &Plan,
        record: Option<&Spool>,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Outcomes, CommandError> {
        measure(self, plan, record, progress)
    }
}

/// Opens the device that was asked for, or else the first of CUDA's, HIP's and the processor that
/// works.
pub(crate) fn choose(
    asked: Option<SpinHal>,
) -> Result<Choice<SpinHal, Box<dyn DemoDevice>>, CommandError> {
    first_that_works(asked, &ORDER, |hal| {
        on_device!(hal, 0, |bench| Ok(Box::new(bench) as Box<dyn DemoDevice>))
            .map_err(CommandError::device)
    })
}

/// The device as the simulator should see it; `None` if no description of it is part of the
/// program.
pub(crate) fn model(device: &Described) -> Option<DeviceSpec> {
    if device.hal == "host" {
        return Some(host_model());
    }
    let mut spec = device_for(None, &device.device).ok()?;
    // The demo's queues have a gate for each command.
    spec.gate_spacing_ns = 0;
    (spec.max_level >= device.level).then_some(spec)
}

/// Not fitted to the run: what threads of this device cost on an idle machine of two cores.
pub(super) fn host_model() -> DeviceSpec {
    // One compute unit, given up after each command if another queue waits for it.
    DeviceSpec {
        launch_latency_ns: 15_000,
        host_launch_ns: 1_000,
        host_sync_ns: 15_000,
        detect_ns: 15_000,
        launch_queue: 256,
        gate_close_ns: 1_000,
        save_fixed_ns: 10_000,
        restore_fixed_ns: 15_000,
        ..DeviceSpec::ideal("host")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_are_described_have_a_model() {
        let device = |hal, name: &str, level| Described {
            hal,
            device: name.to_owned(),
            driver: String::new(),
            pci: String::new(),
            level,
            no_gate: None,
            entries_max: 8,
        };
        assert_eq!(model(&device("host", "the processor", 3)), Some(host_model()));
        assert_eq!(model(&device("cuda", "NVIDIA H200", 2)).map(|spec| spec.max_level), Some(2));
        assert_eq!(model(&device("cuda", "toaster", 2)), None);
    }
}
