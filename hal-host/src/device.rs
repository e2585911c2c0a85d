//! The device, and opening queues on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Halves, LevelAdapter};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Level};

use crate::arbiter::State;
use crate::error::HostError;
use crate::executor::{self, Queue};
use crate::halves::{self, HostPreempt, HostRetire, HostSubmit};
use crate::signal;

/// How a [`HostDevice`] is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Commands that may run at once. At least 1.
    pub compute_units: u32,
    /// Commands that a hardware queue takes before they start. At least 4.
    pub entries_max: u32,
    /// The signal that stops commands is `SIGRTMIN` plus this. Nothing else in the process may use
    /// it.
    pub signal_offset: u32,
    /// An interrupt waits this long for the command to stop. After that it goes on in the
    /// background, as [`StepDone::Later`](xsched_core::hal::StepDone::Later).
    pub stop_wait: Duration,
}

impl Default for HostConfig {
    /// One compute unit, 256 entries, `SIGRTMIN + 7`, 5 ms.
    fn default() -> Self {
        Self {
            compute_units: 1,
            entries_max: 256,
            signal_offset: 7,
            stop_wait: Duration::from_millis(5),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) config: HostConfig,
    pub(crate) signal: i32,
    state: Mutex<State>,
}

impl Device {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        let state = Mutex::new(State::new(config.compute_units));
        Ok(Self { device: Arc::new(Device { config, signal, state }) })
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
        if let Err(error) = executor::start(&self.device, index, &queue) {
            self.device.lock().remove(index);
            return Err(HostError::Thread(error));
        }
        let (submit, retire, preempt) = halves::of(Arc::clone(&self.device), index, queue);
        let caps = Caps::up_to(Level::Interrupt, entries_max);
        Ok(Halves { submit, retire, preempt: LevelAdapter(preempt), caps })
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: "host", units: self.device.config.compute_units }
    }
}
