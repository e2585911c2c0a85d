//! The processor as a device.

use std::hint;
use std::sync::Arc;
use std::time::Duration;

use xsched_core::hal::{Backend, Halves, LevelAdapter, Retire, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_hal_host::{
    BusyLoop, HostCommand, HostConfig, HostDevice, HostPreempt, HostRetire, HostSubmit,
};
use xsched_hal_stream::SharedPage;

use crate::device::interruptible::Interruptible;
use crate::device::interruptible::{SIDE_BYTES, Side};
use crate::device::load::{CheckedCounts, Kind, Load, Share, Worker};
use crate::device::tenants::Tenant;
use crate::device::{BenchDevice, Described, LabError, PlainStream, QueueParams, Victim};
use crate::kernels::{CheckCounters, CheckedKind, Witness, checked, witnessed};

/// The only way in which the processor's commands are interrupted.
const SIGNAL: &str = "signal";

/// The host device, with one compute unit.
#[derive(Debug)]
pub(crate) struct Host {
    busy: BusyLoop,
    device: HostDevice,
}

impl Host {
    /// Starts the device.
    pub(crate) fn open() -> Result<Self, LabError> {
        let device = HostDevice::new(HostConfig::default()).map_err(LabError::new)?;
        Ok(Self { busy: BusyLoop::calibrate(), device })
    }
}

impl BenchDevice for Host {
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

    fn config(&self, _: QueueParams) {}

    fn config_in_page(&self, _: QueueParams, _: SharedPage, _: usize) -> Result<(), LabError> {
        Err(LabError::new("the processor as a device has no gates that other processes can close"))
    }

    /// The processor has no waves.
    fn command(&self, ns: u64, _: u32) -> Result<HostCommand, LabError> {
        Ok(self.busy.command(ns))
    }

    fn nothing(&self) -> HostCommand {
        HostCommand::function(|_, _| {}, 0, 0)
    }

    fn victim(&self, ns: u64) -> Result<HostVictim, LabError> {
        let witness = Arc::new(Witness::default());
        let command = witnessed(self.busy, ns, &witness);
        Ok(HostVictim { command, witness, counters: Arc::default(), command_ns: ns })
    }

    fn slack_us(&self) -> f64 {
        100.0
    }

    /// The processor has no priorities.
    fn stream(&self, _: bool) -> Result<HostStream, LabError> {
        let halves = self.device.clone().open(QueueId::new(0, 0), ());
        let halves = halves.map_err(LabError::new)?;
        Ok(HostStream { halves, launched: 0, retired: 0 })
    }
}

/// A command that notes the time once in a microsecond, and may check its results.
#[derive(Debug)]
pub(crate) struct HostVictim {
    command: HostCommand,
    witness: Arc<Witness>,
    counters: Arc<CheckCounters>,
    command_ns: u64,
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

    /// The clock is the host's own.
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

impl Interruptible for Host {
    type Worker = HostVictim;

    fn mechanisms(&self) -> Vec<String> {
        vec![SIGNAL.to_owned()]
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![Kind::Alu, Kind::Memory, Kind::Atomics]
    }

    /// A command has a compute unit or has not.
    fn shares(&self) -> Vec<Share> {
        vec![Share::Full]
    }

    fn open(&self, mechanism: &str) -> Result<HostDevice, LabError> {
        if mechanism == SIGNAL {
            return Ok(self.device.clone());
        }
        Err(LabError::new(format!("there is no mechanism `{mechanism}`; there is {SIGNAL}")))
    }

    fn interruptible(&self) {}

    fn worker(&self, load: Load) -> Result<HostVictim, LabError> {
        let work = match load.kind {
            Kind::Alu => CheckedKind::Registers,
            Kind::Memory => CheckedKind::Memory,
            Kind::Atomics => CheckedKind::Atomics,
            other => {
                return Err(LabError::new(format!("the processor has no kernels of kind {other}")));
            }
        };
        let (witness, counters) = (Arc::default(), Arc::default());
        let command = checked(self.busy, work, load.ns, &witness, &counters);
        Ok(HostVictim { command, witness, counters, command_ns: load.ns })
    }

    fn side(&self) -> Result<Box<dyn Side>, LabError> {
        Ok(Box::new(HostSide { from: vec![1; SIDE_BYTES], to: vec![0; SIDE_BYTES] }))
    }

    /// The device is this process's own.
    fn tenants(&self) -> Result<Vec<Tenant>, LabError> {
        Ok(Vec::new())
    }
}

impl Worker for HostVictim {
    fn sums(&mut self) -> Result<CheckedCounts, LabError> {
        Ok(CheckedCounts { finished: self.counters.finished(), wrong: self.counters.wrong() })
    }

    fn command_ns(&self) -> u64 {
        self.command_ns
    }
}

/// Memory of the processor's.
#[derive(Debug)]
struct HostSide {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Side for HostSide {
    fn allocate(&mut self) -> Result<(), LabError> {
        hint::black_box(vec![1_u8; SIDE_BYTES]);
        Ok(())
    }

    fn copy(&mut self) -> Result<(), LabError> {
        self.to.copy_from_slice(&self.from);
        hint::black_box(&self.to);
        Ok(())
    }
}

/// A hardware queue, past the runtime.
#[derive(Debug)]
pub(crate) struct HostStream {
    halves: Halves<HostSubmit, HostRetire, LevelAdapter<HostPreempt>>,
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

impl PlainStream<HostCommand> for HostStream {
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
