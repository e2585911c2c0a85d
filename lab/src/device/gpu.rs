//! GPUs: any driver whose streams run kernels that spin.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::level::Level;
use xsched_hal_cuda::{CudaApi, CudaGraph};
use xsched_hal_hip::{HipApi, HipConfig, HipGraph, HipLibrary, HipNative};
use xsched_hal_stream::{
    ClockProbe, SharedPage, Spacing, SpinApi, SpinRate, Stamps, StreamApi, StreamCommand,
    StreamConfig, StreamDevice, StreamDeviceConfig,
};

use crate::device::clocks::DeviceClock;
use crate::device::{BenchDevice, Described, LabError, PlainStream, QueueParams, Victim};
use crate::kernels::RawStream;

/// Threads of a block of the spin kernels: two blocks fill a multiprocessor of NVIDIA's, and a
/// compute unit of AMD's, which has room for 32 waves of 64.
const THREADS: u32 = 1_024;
const BLOCKS_PER_UNIT: u32 = 2;
/// Places where a victim's commands write down the time: more than are in flight together.
const PLACES: usize = 256;
/// Time for which a device's clock is compared with the host's.
const COMPARED: Duration = Duration::from_millis(40);
/// A device's clock that goes wrong by more than one part in this does not count nanoseconds.
const RIGHT: i64 = 100;

/// A driver that launches rows of kernels as one.
pub(crate) trait RowApi: SpinApi + Sized {
    /// Kernels one after the other as one command.
    fn row(
        api: &Arc<Self>,
        device: &StreamDevice<Self>,
        kernels: &[Self::Kernel],
    ) -> Result<Self::Native, Self::Error>;
}

impl RowApi for CudaApi {
    fn row(
        _: &Arc<Self>,
        device: &StreamDevice<Self>,
        kernels: &[Self::Kernel],
    ) -> Result<Self::Native, Self::Error> {
        Ok(CudaGraph::captured_row(device, kernels, None)?.instantiate()?.command())
    }
}

impl RowApi for HipApi {
    fn row(
        api: &Arc<Self>,
        _: &StreamDevice<Self>,
        kernels: &[HipNative],
    ) -> Result<HipNative, Self::Error> {
        HipGraph::captured_row(api, kernels).map(HipNative::graph)
    }
}

/// A GPU.
#[derive(Debug)]
pub(crate) struct Gpu<A: SpinApi> {
    api: Arc<A>,
    device: StreamDevice<A>,
    rate: SpinRate,
    blocks: u32,
    empty: A::Native,
    /// The priority of queues that are not urgent.
    calm: Option<i32>,
}

/// A CUDA device.
pub(crate) type Cuda = Gpu<CudaApi>;
/// A HIP device.
pub(crate) type Hip = Gpu<HipApi>;

impl Gpu<CudaApi> {
    /// Opens the device with this number and measures how fast its kernels spin.
    pub(crate) fn open(ordinal: u32) -> Result<Self, LabError> {
        let api = CudaApi::open(ordinal).map_err(LabError::new)?;
        let backend = CudaApi::open(ordinal).map_err(LabError::new)?;
        let (least, _) = api.about().priorities;
        Self::over(api, backend, Some(least))
    }
}

impl Gpu<HipApi> {
    /// Opens the device with this number, loads the kernels
    /// ([`HipApi::load_spin_kernels`]), measures how fast they spin, and checks that the clock
    /// they write down counts nanoseconds, which takes 0.2 s. Queues have hardware rings of their
    /// own unless they are urgent.
    pub(crate) fn open(ordinal: u32) -> Result<Self, LabError> {
        let library = HipLibrary::find().map_err(LabError::new)?;
        let config = HipConfig { device: ordinal, ..HipConfig::default() };
        let api = HipApi::with_library(Arc::clone(&library), config).map_err(LabError::new)?;
        api.load_spin_kernels().map_err(LabError::new)?;
        let backend = HipApi::with_library(library, config).map_err(LabError::new)?;
        // With a priority it would have a ring that it shares, and no gates.
        let gpu = Self::over(api, backend, None)?;
        gpu.check_clock()?;
        Ok(gpu)
    }
}

impl<A: SpinApi> Gpu<A> {
    fn over(api: A, backend: A, calm: Option<i32>) -> Result<Self, LabError> {
        let blocks = api.about().units * BLOCKS_PER_UNIT;
        let rate = SpinRate::measure(&api, blocks, THREADS).map_err(LabError::new)?;
        let empty = A::native(api.empty_kernel().map_err(LabError::new)?);
        let device = StreamDevice::new(backend, StreamDeviceConfig::default());
        let device = device.map_err(LabError::new)?;
        Ok(Self { api: Arc::new(api), device, rate, blocks, empty, calm })
    }

    pub(crate) fn api(&self) -> &Arc<A> {
        &self.api
    }

    pub(crate) fn streams(&self) -> &StreamDevice<A> {
        &self.device
    }

    /// Blocks and threads of a kernel that fills the device, and its cycles for `ns` nanoseconds
    /// in a row of such kernels.
    pub(crate) fn full(&self, ns: u64) -> ((u32, u32), u64) {
        ((self.blocks, THREADS), self.rate.cycles(ns))
    }

    /// Fails if the clock that kernels write down does not count nanoseconds: how long its ticks
    /// are is compiled into them.
    fn check_clock(&self) -> Result<(), LabError> {
        let mut probe = ClockProbe::new(Arc::clone(&self.api)).map_err(LabError::new)?;
        let origin = Instant::now();
        let before = DeviceClock::estimate(&mut probe, origin)?;
        thread::sleep(COMPARED);
        let after = DeviceClock::estimate(&mut probe, origin)?;
        let drift = before.host_ns(0).saturating_sub(after.host_ns(0));
        let passed = i64::try_from(origin.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let unsure = i64::try_from(before.uncertain_ns + after.uncertain_ns).unwrap_or(i64::MAX);
        if drift.saturating_abs() <= (passed / RIGHT).saturating_add(unsure) {
            return Ok(());
        }
        Err(LabError::new(format!(
            "the device's clock counted {} ns in {passed} ns; build hal-hip/kernels/spin.hip with \
             -DXS_TICK_NS for the length of its ticks, and name the result in XSCHED_HIP_KERNELS",
            passed.saturating_add(drift)
        )))
    }

    /// The priority of plain streams: the one that programs have which do not ask for any.
    fn plain_priority(&self, urgent: bool) -> i32 {
        let (least, greatest) = self.api.about().priorities;
        if urgent { greatest } else { 0.clamp(least.min(greatest), least.max(greatest)) }
    }
}

impl<A: RowApi> BenchDevice for Gpu<A> {
    type Command = StreamCommand<A>;
    type Backend = StreamDevice<A>;
    type Victim = GpuVictim<A>;
    type Stream = RawStream<A>;

    fn describe(&self) -> Described {
        let about = self.api.about();
        Described {
            hal: self.api.name(),
            device: about.device.clone(),
            driver: about.driver.clone(),
            pci: about.pci.clone(),
            level: self.device.level().number(),
            no_gate: self.device.no_gate().map(ToString::to_string),
            entries_max: self.device.entries_max(),
        }
    }

    fn device(&self) -> Result<StreamDevice<A>, LabError> {
        Ok(self.device.clone())
    }

    fn config(&self, making: QueueParams) -> StreamConfig<A> {
        let config = StreamConfig::default()
            .level_max(making.level())
            .spacing(Spacing::of_ns(making.spacing_ns));
        let (_, greatest) = self.api.about().priorities;
        let priority = if making.urgent { Some(greatest) } else { self.calm };
        match priority {
            Some(priority) => config.priority(priority),
            None => config,
        }
    }

    fn config_in_page(
        &self,
        making: QueueParams,
        page: SharedPage,
        word: usize,
    ) -> Result<StreamConfig<A>, LabError> {
        if self.device.level() < Level::Deactivate {
            return Err(LabError::new("the device's queues have no gates"));
        }
        let gates = self.device.share(page).map_err(LabError::new)?;
        let gate = gates.take(word).ok_or_else(|| LabError::new("the page has no such word"))?;
        Ok(self.config(making).in_page(gate))
    }

    fn command(&self, ns: u64, waves: u32) -> Result<StreamCommand<A>, LabError> {
        let (blocks, cycles) = (self.blocks * waves, self.rate.cycles(ns) / u64::from(waves));
        let kernel = self.api.unseen_kernel(blocks, THREADS, cycles).map_err(LabError::new)?;
        Ok(StreamCommand::native(A::native(kernel)))
    }

    fn graph(&self, lengths_ns: &[u64]) -> Result<StreamCommand<A>, LabError> {
        let kernel = |&ns| self.api.unseen_kernel(self.blocks, THREADS, self.rate.cycles(ns));
        let kernels: Result<Vec<_>, A::Error> = lengths_ns.iter().map(kernel).collect();
        let row = A::row(&self.api, &self.device, &kernels.map_err(LabError::new)?);
        let total_ns = lengths_ns.iter().sum();
        Ok(StreamCommand::native(row.map_err(LabError::new)?).expected_ns(total_ns))
    }

    fn nothing(&self) -> StreamCommand<A> {
        StreamCommand::native(self.empty.clone())
    }

    fn victim(&self, ns: u64) -> Result<GpuVictim<A>, LabError> {
        let stamps = Stamps::new(Arc::clone(&self.api), PLACES).map_err(LabError::new)?;
        let cycles = self.rate.cycles(ns);
        let command = |place| {
            let kernel = stamps.kernel(place, (self.blocks, THREADS), cycles);
            Ok(StreamCommand::native(A::native(kernel.map_err(LabError::new)?)))
        };
        let commands: Result<_, LabError> = (0..PLACES).map(command).collect();
        let probe = ClockProbe::new(Arc::clone(&self.api)).map_err(LabError::new)?;
        let (origin, next) = (Instant::now(), 0);
        let (clock, armed_ns) = (None, 0);
        Ok(GpuVictim { commands: commands?, stamps, probe, origin, next, clock, armed_ns })
    }

    fn slack_us(&self) -> f64 {
        20.0
    }

    fn stream(&self, urgent: bool) -> Result<RawStream<A>, LabError> {
        let priority = self.plain_priority(urgent);
        RawStream::new(Arc::clone(&self.api), Some(priority)).map_err(LabError::new)
    }
}

/// Kernels whose first thread writes down the device's clock when it starts and ends, each to a
/// place of its own, so that none overwrites what another in flight has written.
#[derive(Debug)]
pub(crate) struct GpuVictim<A: SpinApi> {
    commands: Vec<StreamCommand<A>>,
    stamps: Stamps<A>,
    probe: ClockProbe<A>,
    origin: Instant,
    next: usize,
    /// As read when the victim was last quiet.
    clock: Option<DeviceClock>,
    armed_ns: u64,
}

impl<A: SpinApi> GpuVictim<A> {
    fn host_ns(clock: &DeviceClock, device_ns: u64) -> u64 {
        u64::try_from(clock.host_ns(device_ns)).unwrap_or(0)
    }
}

impl<A: SpinApi> Victim for GpuVictim<A> {
    type Command = StreamCommand<A>;

    fn next(&mut self) -> StreamCommand<A> {
        let command = self.commands[self.next % self.commands.len()].clone();
        self.next += 1;
        command
    }

    fn is_longer(&self) -> bool {
        false
    }

    fn marks(&self) -> u64 {
        self.stamps.last_ns()
    }

    fn is_inside(&self) -> bool {
        let mut places = 0..self.stamps.count();
        places.any(|place| self.stamps.start_ns(place) > self.stamps.end_ns(place))
    }

    /// Writes of kernels are seen microseconds later.
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

impl<A: SpinApi> PlainStream<StreamCommand<A>> for RawStream<A> {
    fn launch(&mut self, command: &StreamCommand<A>) -> Result<(), LabError> {
        Self::launch(self, command).map_err(LabError::new)
    }

    fn wait(&mut self) -> Result<(), LabError> {
        Self::wait(self).map_err(LabError::new)
    }

    fn launch_within(
        &mut self,
        command: &StreamCommand<A>,
        threshold: u32,
    ) -> Result<(), LabError> {
        Self::launch_within(self, command, threshold).map_err(LabError::new)
    }
}
