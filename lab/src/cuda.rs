//! CUDA devices.
#![allow(unsafe_code, reason = "launches into streams past the runtime")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use xsched_hal_cuda::table::{CuEvent, CuStream};
use xsched_hal_cuda::{
    CudaApi, CudaCommand, CudaError, Spacing, SpinRate, StreamCommand, StreamConfig, StreamDevice,
    StreamDeviceConfig,
};
use xsched_hal_stream::StreamApi;

use crate::bench::{Bench, Described, LabError, Making, Plain};

/// Threads of a block of the spin kernels: two blocks fill a multiprocessor.
const THREADS: u32 = 1_024;
const BLOCKS_PER_UNIT: u32 = 2;
/// Between two looks at a full window of a plain stream.
const NAP: Duration = Duration::from_micros(20);

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

impl Bench for Cuda {
    type Command = StreamCommand<CudaApi>;
    type Backend = StreamDevice<CudaApi>;
    type Stream = CudaStream;

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
        // SAFETY: without stamps.
        let kernel = unsafe { self.api.kernels().spin(blocks, THREADS, cycles, 0) };
        let command = CudaCommand::kernel(kernel.map_err(LabError::new)?);
        Ok(StreamCommand::native(command))
    }

    fn nothing(&self) -> StreamCommand<CudaApi> {
        StreamCommand::native(CudaCommand::kernel(self.api.kernels().empty()))
    }

    fn stream(&self, urgent: bool) -> Result<CudaStream, LabError> {
        let api = Arc::clone(&self.api);
        let (least, greatest) = api.about().priorities;
        let entered = api.enter().map_err(LabError::new)?;
        let stream = api.create_stream(Some(if urgent { greatest } else { least }));
        drop(entered);
        let stream = stream.map_err(LabError::new)?;
        Ok(CudaStream { api, stream, in_flight: VecDeque::new(), free: Vec::new() })
    }
}

/// A plain stream.
#[derive(Debug)]
pub struct CudaStream {
    api: Arc<CudaApi>,
    stream: CuStream,
    in_flight: VecDeque<CuEvent>,
    free: Vec<CuEvent>,
}

impl CudaStream {
    fn try_launch(&mut self, command: &StreamCommand<CudaApi>) -> Result<(), CudaError> {
        // As a program would: the device stays current on the thread that uses it.
        let entered = self.api.enter()?;
        // SAFETY: the stream lives as long as this.
        let launched = unsafe { command.launch_into(&self.api, self.stream) };
        drop(entered);
        launched
    }

    fn try_launch_within(
        &mut self,
        command: &StreamCommand<CudaApi>,
        threshold: u32,
    ) -> Result<(), CudaError> {
        while self.in_flight.len() >= threshold as usize {
            let Some(&oldest) = self.in_flight.front() else { break };
            // SAFETY: made below, and not destroyed before this is dropped.
            if unsafe { self.api.query(oldest)? } {
                self.free.extend(self.in_flight.pop_front());
            } else {
                thread::sleep(NAP);
            }
        }
        self.try_launch(command)?;
        let entered = self.api.enter()?;
        let event = match self.free.pop() {
            Some(event) => event,
            None => self.api.create_event()?,
        };
        // SAFETY: both live as long as this.
        unsafe { self.api.record(event, self.stream)? };
        drop(entered);
        self.in_flight.push_back(event);
        Ok(())
    }
}

impl Plain<StreamCommand<CudaApi>> for CudaStream {
    fn launch(&mut self, command: &StreamCommand<CudaApi>) -> Result<(), LabError> {
        self.try_launch(command).map_err(LabError::new)
    }

    fn wait(&mut self) -> Result<(), LabError> {
        // SAFETY: the stream lives as long as this.
        let code = unsafe { (self.api.table().stream_synchronize)(self.stream) };
        if code == 0 { Ok(()) } else { Err(LabError::new(format!("the stream failed ({code})"))) }
    }

    fn launch_within(
        &mut self,
        command: &StreamCommand<CudaApi>,
        threshold: u32,
    ) -> Result<(), LabError> {
        self.try_launch_within(command, threshold).map_err(LabError::new)
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        let Ok(_entered) = self.api.enter() else { return };
        for event in self.in_flight.drain(..).chain(self.free.drain(..)) {
            // SAFETY: made by this.
            unsafe { self.api.destroy_event(event) };
        }
        // SAFETY: made by this, which is gone. Nothing can be done about an error.
        let _ = unsafe { self.api.destroy_stream(self.stream) };
    }
}
