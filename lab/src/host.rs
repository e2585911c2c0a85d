//! The processor as a device.

use std::hint;
use std::sync::Arc;
use std::time::Duration;

use xsched::core::hal::{Backend, Halves, Ladder, Retire, Submit};
use xsched::core::id::{CmdId, QueueId};
use xsched_hal_host::{
    Busy, HostCommand, HostConfig, HostDevice, HostPreempt, HostRetire, HostSubmit, Witness,
};
use xsched_hal_stream::SharedPage;

use crate::bench::{Bench, Described, LabError, Making, Plain, Victim};

/// The host device, with one compute unit.
#[derive(Debug)]
pub struct Host {
    busy: Busy,
    device: HostDevice,
}

impl Host {
    /// Starts the device.
    ///
    /// # Errors
    /// If it refuses.
    pub fn open() -> Result<Self, LabError> {
        let device = HostDevice::new(HostConfig::default()).map_err(LabError::new)?;
        Ok(Self { busy: Busy::calibrate(), device })
    }
}

impl Bench for Host {
    type Command = HostCommand;
    type Backend = HostDevice;
    type Victim = HostVictim;
    type Stream = HostStream;

    fn describe(&self) -> Described {
        Described {
            hal: "host",
            device: "the processor, 1 compute unit".to_owned(),
            driver: concat!("xsched-hal-host ", env!("CARGO_PKG_VERSION")).to_owned(),
            pci: String::new(),
            level: 3,
            no_gate: None,
            entries_max: HostConfig::default().entries_max,
        }
    }

    fn device(&self) -> Result<HostDevice, LabError> {
        Ok(self.device.clone())
    }

    fn config(&self, _: Making) {}

    fn config_in_page(&self, _: Making, _: SharedPage, _: usize) -> Result<(), LabError> {
        Err(LabError::new("the processor as a device has no gates that other processes can close"))
    }

    /// It has no waves.
    fn command(&self, ns: u64, _: u32) -> Result<HostCommand, LabError> {
        Ok(self.busy.command(ns))
    }

    fn nothing(&self) -> HostCommand {
        HostCommand::function(|_, _| {}, 0, 0)
    }

    fn victim(&self, ns: u64) -> Result<HostVictim, LabError> {
        let witness = Arc::new(Witness::default());
        Ok(HostVictim { command: self.busy.witnessed(ns, &witness), witness })
    }

    fn slack_us(&self) -> f64 {
        100.0
    }

    /// It has no priorities.
    fn stream(&self, _: bool) -> Result<HostStream, LabError> {
        let halves = self.device.clone().open(QueueId::new(0, 0), ());
        let halves = halves.map_err(LabError::new)?;
        Ok(HostStream { halves, launched: 0, retired: 0 })
    }
}

/// A command that notes the time once in a microsecond.
#[derive(Debug)]
pub struct HostVictim {
    command: HostCommand,
    witness: Arc<Witness>,
}

impl Victim for HostVictim {
    type Command = HostCommand;

    fn next(&mut self) -> HostCommand {
        self.command.clone()
    }

    fn is_longer(&self) -> bool {
        true
    }

    fn marks(&self) -> u64 {
        self.witness.stamps()
    }

    fn is_inside(&self) -> bool {
        self.witness.is_inside()
    }

    fn settled(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now_ns(&self) -> u64 {
        Witness::now_ns()
    }

    /// It is the host's own clock.
    fn last_ns(&mut self) -> Result<(u64, u64), LabError> {
        Ok((self.witness.last_ns(), 0))
    }

    fn arm(&mut self) {
        self.witness.arm();
    }

    fn first_ns(&mut self) -> Option<u64> {
        self.witness.first_ns()
    }
}

/// A hardware queue, past the runtime.
#[derive(Debug)]
pub struct HostStream {
    halves: Halves<HostSubmit, HostRetire, Ladder<HostPreempt>>,
    launched: u64,
    retired: u64,
}

impl HostStream {
    fn wait_for(&mut self, count: u64) -> Result<(), LabError> {
        while self.retired < count {
            match self.halves.retire.poll_retired().map_err(LabError::new)? {
                Some(retired) => self.retired = retired.upto.count(),
                None => hint::spin_loop(),
            }
        }
        Ok(())
    }
}

impl Plain<HostCommand> for HostStream {
    fn launch(&mut self, command: &HostCommand) -> Result<(), LabError> {
        // A driver would block.
        let room = u64::from(HostConfig::default().entries_max);
        self.wait_for((self.launched + 1).saturating_sub(room))?;
        let cmd = CmdId(self.launched);
        self.halves.submit.launch(cmd, command, true).map_err(LabError::new)?;
        self.launched += 1;
        Ok(())
    }

    fn wait(&mut self) -> Result<(), LabError> {
        self.wait_for(self.launched)
    }

    fn launch_within(&mut self, command: &HostCommand, threshold: u32) -> Result<(), LabError> {
        self.wait_for((self.launched + 1).saturating_sub(u64::from(threshold)))?;
        self.launch(command)
    }
}
