//! CUDA devices.

use std::sync::Arc;

use xsched_hal_cuda::{
    CudaApi, CudaCommand, PlainStream, Spacing, SpinRate, StreamCommand, StreamConfig,
    StreamDevice, StreamDeviceConfig,
};
use xsched_hal_stream::StreamApi;

use crate::bench::{Bench, Described, LabError, Making, Plain};

/// Threads of a block of the spin kernels: two blocks fill a multiprocessor.
const THREADS: u32 = 1_024;
const BLOCKS_PER_UNIT: u32 = 2;

/// A CUDA device.
#[derive(Debug)]
pub struct Cuda {
    api: Arc<CudaApi>,
    device: StreamDevice<CudaApi>,
    rate: SpinRate,
    blocks: u32,
}

impl Cuda {
    /// Opens the device with this number and measures how fast its kernels spin.
    ///
    /// # Errors
    /// If there is none, or it refuses.
    pub fn open(ordinal: u32) -> Result<Self, LabError> {
        let api = CudaApi::open(ordinal).map_err(LabError::new)?;
        let blocks = api.about().units * BLOCKS_PER_UNIT;
        let rate = api.spin_rate(blocks, THREADS).map_err(LabError::new)?;
        let backend = CudaApi::open(ordinal).map_err(LabError::new)?;
        let device = StreamDevice::new(backend, StreamDeviceConfig::default());
        Ok(Self { api: Arc::new(api), device: device.map_err(LabError::new)?, rate, blocks })
    }
}

impl Cuda {
    pub(crate) fn api(&self) -> &Arc<CudaApi> {
        &self.api
    }

    pub(crate) fn streams(&self) -> &StreamDevice<CudaApi> {
        &self.device
    }

    /// Blocks and threads of a kernel that fills the device, and its cycles for so many nanoseconds
    /// in a row of such kernels.
    pub(crate) fn full(&self, ns: u64) -> ((u32, u32), u64) {
        ((self.blocks, THREADS), self.rate.cycles(ns))
    }
}

impl Bench for Cuda {
    type Command = StreamCommand<CudaApi>;
    type Backend = StreamDevice<CudaApi>;
    type Stream = PlainStream<CudaApi>;

    fn describe(&self) -> Described {
        let about = self.api.about();
        Described {
            hal: "cuda",
            device: about.device.clone(),
            driver: about.driver.clone(),
            pci: about.pci.clone(),
            level: self.device.level().number(),
            no_gate: self.device.no_gate().map(ToString::to_string),
            entries_max: self.device.entries_max(),
        }
    }

    fn device(&self) -> Result<StreamDevice<CudaApi>, LabError> {
        Ok(self.device.clone())
    }

    fn config(&self, making: Making) -> StreamConfig<CudaApi> {
        let (least, greatest) = self.api.about().priorities;
        StreamConfig::default()
            .level_max(making.level())
            .spacing(Spacing::of_ns(making.spacing_ns))
            .priority(if making.urgent { greatest } else { least })
    }

    fn command(&self, ns: u64, waves: u32) -> Result<StreamCommand<CudaApi>, LabError> {
        let (blocks, cycles) = (self.blocks * waves, self.rate.cycles(ns) / u64::from(waves));
        let kernel = self.api.kernels().spin_unseen(blocks, THREADS, cycles);
        let command = CudaCommand::kernel(kernel.map_err(LabError::new)?);
        Ok(StreamCommand::native(command))
    }

    fn nothing(&self) -> StreamCommand<CudaApi> {
        StreamCommand::native(CudaCommand::kernel(self.api.kernels().empty()))
    }

    fn stream(&self, urgent: bool) -> Result<PlainStream<CudaApi>, LabError> {
        let (least, greatest) = self.api.about().priorities;
        let priority = if urgent { greatest } else { least };
        PlainStream::new(Arc::clone(&self.api), Some(priority)).map_err(LabError::new)
    }
}

impl Plain<StreamCommand<CudaApi>> for PlainStream<CudaApi> {
    fn launch(&mut self, command: &StreamCommand<CudaApi>) -> Result<(), LabError> {
        Self::launch(self, command).map_err(LabError::new)
    }

    fn wait(&mut self) -> Result<(), LabError> {
        Self::wait(self).map_err(LabError::new)
    }

    fn launch_within(
        &mut self,
        command: &StreamCommand<CudaApi>,
        threshold: u32,
    ) -> Result<(), LabError> {
        Self::launch_within(self, command, threshold).map_err(LabError::new)
    }
}
