//! The device, and opening queues on it.

use std::sync::Arc;

use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Halves, LevelAdapter};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Level};

use crate::config::HostConfig;
use crate::error::HostError;
use crate::halves::{self, HostPreempt, HostRetire, HostSubmit};
use crate::inner::Device;
use crate::queue::Queue;
use crate::signal;

/// A device whose compute units are threads of this process. A clone is the same device.
///
/// Its queues live on when it is dropped. A queue ends when its three halves are dropped: it first
/// finishes what was launched, or, if it is held, only what has started.
#[derive(Clone, Debug)]
pub struct HostDevice {
    device: Arc<Device>,
}

impl HostDevice {
    /// Makes a device, and installs the handler of its signal unless another device has done so.
    ///
    /// # Errors
    /// If the configuration makes no sense, or something else in the process uses the signal.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        if config.compute_units == 0 {
            return Err(HostError::NoComputeUnits);
        }
        if config.entries_max < 4 {
            return Err(HostError::FewEntries { entries_max: config.entries_max });
        }
        let signal = signal::install(config.signal_offset)?;
        Ok(Self { device: Arc::new(Device::new(config, signal)) })
    }
}

impl ErrorType for HostDevice {
    type Error = HostError;
}

impl Backend for HostDevice {
    type Config = ();
    type Submit = HostSubmit;
    type Retire = HostRetire;
    type Preempt = LevelAdapter<HostPreempt>;

    fn open(
        &mut self,
        _: QueueId,
        (): (),
    ) -> Result<Halves<HostSubmit, HostRetire, LevelAdapter<HostPreempt>>, HostError> {
        let queue = Arc::new(Queue::default());
        let entries_max = self.device.config.entries_max;
        let index = self.device.lock().add(Arc::clone(&queue), entries_max as usize);
        let (submit, retire, preempt) = halves::of(Arc::clone(&self.device), index, queue);
        let caps = Caps::up_to(Level::Interrupt, entries_max);
        Ok(Halves { submit, retire, preempt: LevelAdapter(preempt), caps })
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: "host", units: self.device.config.compute_units }
    }
}
