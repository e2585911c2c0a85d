//! The devices that the demo can run on.

use serde::Serialize;
use xsched::{Runtime, XQueue, XQueueConfig};
use xsched_core::level::Level;
use xsched_hal_host::{BusyLoop, HostCommand, HostConfig, HostDevice};
use xsched_sim::scenario::{Concurrency, DeviceSpec};

use crate::error::CommandError;

/// A device that the demo's service can run on.
pub trait DemoDevice {
    /// A kernel, ready to be launched. Cloning it is cheap.
    type Kernel: Clone + Send + 'static;

    /// What it is, in a line.
    fn describe(&self) -> String;

    /// What a request consists of on it.
    fn request(&self) -> Request;

    /// The deepest hold that it can do.
    fn top(&self) -> Level;

    /// One kernel of a request.
    fn kernel(&self) -> Self::Kernel;

    /// Adds the device to a runtime and opens a queue on it for each of `queues`.
    ///
    /// # Errors
    /// If the device or the runtime refuses.
    fn open(
        &self,
        runtime: &Runtime,
        queues: &[XQueueConfig],
    ) -> Result<Vec<XQueue<Self::Kernel>>, CommandError>;

    /// The device as the simulator should see it.
    fn model(&self) -> DeviceSpec;
}

/// Kernels of a request, all of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// How many.
    pub kernels: u32,
    /// Device time of each, in nanoseconds.
    pub kernel_ns: u64,
}

impl Request {
    /// Device time of all kernels, in nanoseconds.
    pub const fn device_ns(self) -> u64 {
        self.kernels as u64 * self.kernel_ns
    }
}

/// The processor as a device.
#[derive(Debug)]
pub struct HostDemo {
    busy: BusyLoop,
}

impl HostDemo {
    /// The request: as much device time as BERT-base with 384 tokens takes on an H200 (4.60 ms),
    /// in fewer and longer kernels than the 157 there, since taking turns costs a processor more
    /// than it costs a GPU.
    const REQUEST: Request = Request { kernels: 24, kernel_ns: 192_000 };

    /// Measures how fast the processor is.
    pub fn calibrate() -> Self {
        Self { busy: BusyLoop::calibrate() }
    }
}

impl DemoDevice for HostDemo {
    type Kernel = HostCommand;

    fn describe(&self) -> String {
        let Request { kernels, kernel_ns } = Self::REQUEST;
        format!(
            "the processor as a device (xsched-hal-host) with 1 compute unit. No GPU is used: a \
             request is {kernels} kernels\nof {} µs of calibrated computing, in place of the 157 \
             kernels in 4.60 ms of BERT-base on an H200",
            kernel_ns / 1_000
        )
    }

    fn request(&self) -> Request {
        Self::REQUEST
    }

    fn top(&self) -> Level {
        Level::Interrupt
    }

    fn kernel(&self) -> HostCommand {
        self.busy.command(Self::REQUEST.kernel_ns)
    }

    fn open(
        &self,
        runtime: &Runtime,
        queues: &[XQueueConfig],
    ) -> Result<Vec<XQueue<HostCommand>>, CommandError> {
        let device = HostDevice::new(HostConfig::default().with_compute_units(1));
        let device =
            runtime.device(device.map_err(CommandError::device)?).map_err(CommandError::device)?;
        let open =
            |config: &XQueueConfig| device.queue(config.clone(), ()).map_err(CommandError::device);
        queues.iter().map(open).collect()
    }

    /// Not fitted to the run: what threads of this device cost on an idle machine of two cores.
    fn model(&self) -> DeviceSpec {
        DeviceSpec {
            name: "host".to_owned(),
            // One compute unit, given up after each command if another queue waits for it.
            concurrency: Concurrency::RoundRobin,
            launch_latency_ns: 15_000,
            host_launch_ns: 1_000,
            host_sync_ns: 15_000,
            detect_ns: 15_000,
            launch_queue: 256,
            max_level: 3,
            gate_ns: 0,
            gate_close_ns: 1_000,
            gate_spacing_ns: 0,
            save_fixed_ns: 10_000,
            save_context_ns: 0,
            restore_fixed_ns: 15_000,
            restore_context_ns: 0,
            grace_ns: 0,
            reach: xsched_core::cost::Reach::Queue,
            batches: false,
            wake_ns: [].into(),
            queue_wake_ns: [].into(),
        }
    }
}
