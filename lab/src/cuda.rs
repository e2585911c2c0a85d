//! CUDA devices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched::core::level::Level;
use xsched_hal_cuda::{
    ClockProbe, CudaApi, CudaCommand, PlainStream, SharedPage, Spacing, SpinRate, Stamps,
    StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig,
};
use xsched_hal_stream::StreamApi;

use crate::bench::{Bench, Described, LabError, Making, Plain, Victim};
use crate::clocks::DeviceClock;

/// Threads of a block of the spin kernels: two blocks fill a multiprocessor.
const THREADS: u32 = 1_024;
const BLOCKS_PER_UNIT: u32 = 2;
/// Places where a victim's commands write down the time: more than are in flight together.
const PLACES: usize = 256;

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
    type Victim = CudaVictim;
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

    fn config_in_page(
        &self,
        making: Making,
        page: SharedPage,
        word: usize,
    ) -> Result<StreamConfig<CudaApi>, LabError> {
        if self.device.level() < Level::Deactivate {
            return Err(LabError::new("the device's queues have no gates"));
        }
        let gates = self.device.share(page).map_err(LabError::new)?;
        let gate = gates.take(word).ok_or_else(|| LabError::new("the page has no such word"))?;
        Ok(self.config(making).in_page(gate))
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

    fn victim(&self, ns: u64) -> Result<CudaVictim, LabError> {
        let stamps = Stamps::new(Arc::clone(&self.api), PLACES).map_err(LabError::new)?;
        let cycles = self.rate.cycles(ns);
        let command = |place| {
            let kernel = stamps.kernel(place, (self.blocks, THREADS), cycles);
            Ok(StreamCommand::native(CudaCommand::kernel(kernel.map_err(LabError::new)?)))
        };
        let commands: Result<_, LabError> = (0..PLACES).map(command).collect();
        let probe = ClockProbe::new(Arc::clone(&self.api)).map_err(LabError::new)?;
        let (origin, next) = (Instant::now(), 0);
        let (clock, armed_ns) = (None, 0);
        Ok(CudaVictim { commands: commands?, stamps, probe, origin, next, clock, armed_ns })
    }

    fn slack_us(&self) -> f64 {
        20.0
    }

    fn stream(&self, urgent: bool) -> Result<PlainStream<CudaApi>, LabError> {
        let (least, greatest) = self.api.about().priorities;
        let priority = if urgent { greatest } else { least };
        PlainStream::new(Arc::clone(&self.api), Some(priority)).map_err(LabError::new)
    }
}

/// Kernels whose first thread writes down the device's clock when it starts and ends, each to a
/// place of its own, so that none overwrites what another in flight has written.
#[derive(Debug)]
pub struct CudaVictim {
    commands: Vec<StreamCommand<CudaApi>>,
    stamps: Stamps,
    probe: ClockProbe,
    origin: Instant,
    next: usize,
    /// As read when the victim was last quiet.
    clock: Option<DeviceClock>,
    armed_ns: u64,
}

impl CudaVictim {
    fn host_ns(clock: &DeviceClock, device_ns: u64) -> u64 {
        u64::try_from(clock.host_ns(device_ns)).unwrap_or(0)
    }
}

impl Victim for CudaVictim {
    type Command = StreamCommand<CudaApi>;

    fn next(&mut self) -> StreamCommand<CudaApi> {
        let command = self.commands[self.next % self.commands.len()].clone();
        self.next += 1;
        command
    }

    fn marks(&self) -> u64 {
        self.stamps.last_ns()
    }

    fn is_inside(&self) -> bool {
        let mut places = 0..self.stamps.count();
        places.any(|place| self.stamps.start_ns(place) > self.stamps.end_ns(place))
    }

    /// What kernels write is seen microseconds later.
    fn settled(&self) -> Duration {
        Duration::from_micros(200)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn last_ns(&mut self) -> Result<(u64, u64), LabError> {
        let last = self.stamps.last_ns();
        let clock = DeviceClock::estimate(&mut self.probe, self.origin)?;
        self.clock = Some(clock);
        Ok((Self::host_ns(&clock, last), clock.uncertain_ns))
    }

    fn arm(&mut self) {
        self.armed_ns = self.stamps.last_ns();
    }

    fn first_ns(&mut self) -> Option<u64> {
        let places = 0..self.stamps.count();
        let starts = places.map(|place| self.stamps.start_ns(place));
        let first = starts.filter(|&start| start > self.armed_ns).min()?;
        self.clock.map(|clock| Self::host_ns(&clock, first))
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
