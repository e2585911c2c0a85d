//! The HIP device whose queues have Lv3 through the AMD kernel driver.

use std::sync::Arc;

use xsched_core::hal::Backend;
use xsched_core::level::Level;
use xsched_hal_hip::{HipApi, HipConfig};
use xsched_hal_kfd::access::Access;
use xsched_hal_kfd::attribution::{Attribution, NoAttribution};
use xsched_hal_kfd::hip::HipLv3;
use xsched_hal_kfd::mechanism::{Kind as Mechanisms, Mechanism};
use xsched_hal_kfd::probe::ProbeConfig;
use xsched_hal_kfd::topology::{Gpu as GpuFacts, Topology};
use xsched_hal_kfd::{KfdConfig, KfdDevice, KfdQueueConfig};
use xsched_hal_stream::{SharedPage, StreamApi, StreamCommand, StreamDevice};

use crate::device::gpu::Hip;
use crate::device::hip_worker::HipWorker;
use crate::device::interruptible::Interruptible;
use crate::device::interruptible::{SIDE_BYTES, Side};
use crate::device::load::{Kind, Load, Share};
use crate::device::tenants::{self, Tenant, queues};
use crate::device::{BenchDevice, Described, LabError, QueueParams};
use crate::kernels::RawStream;
use crate::kernels::{SideCalls, WorkKernels};

pub(crate) use xsched_hal_kfd::topology::Sysfs;

/// Access below HIP, through the kernel driver.
#[derive(Debug)]
pub(crate) struct DriverAccess {
    /// Tells which of the driver's queues a stream is.
    pub(crate) attribution: Box<dyn Attribution>,
    /// Mechanism that suspends queues, or why nothing does.
    pub(crate) mechanism: Result<Arc<dyn Mechanism>, LabError>,
}

impl DriverAccess {
    /// Nothing, for what is no AMD driver.
    pub(crate) fn nothing() -> Self {
        let why = "only --hal kfd holds by the driver";
        Self { attribution: Box::new(NoAttribution), mechanism: Err(LabError::new(why)) }
    }
}

/// A HIP device, and the driver below it.
#[derive(Debug)]
pub(crate) struct Kfd {
    hip: Hip,
    ordinal: u32,
    lv3: HipLv3,
    /// Queues that were there before this process made any.
    before: Result<Vec<Tenant>, LabError>,
    work: WorkKernels,
}

impl Kfd {
    /// Looks who uses the GPUs, asks the driver for its version, and opens the HIP device with this
    /// number.
    pub(crate) fn open(ordinal: u32) -> Result<Self, LabError> {
        let asked = ProbeConfig::from_environment();
        // Before there are queues of our own, and without a runtime where there is no driver.
        xsched_hal_kfd::probe::probe(&asked).map_err(LabError::new)?;
        let before = queues(&asked.sysfs);
        let hip = Hip::open(ordinal)?;
        let lv3 = HipLv3::open(hip.streams().clone(), asked);
        let work = WorkKernels::load(hip.api()).map_err(LabError::new)?;
        Ok(Self { hip, ordinal, lv3, before, work })
    }

    fn access(&self) -> Result<&Access, LabError> {
        self.lv3.access().map_err(LabError::new)
    }

    /// The GPU or its partitions, as the driver knows them.
    fn places(&self) -> &[GpuFacts] {
        self.access().map_or(&[], Access::places)
    }

    /// Why a mechanism cannot be used, as far as that can be told without using it.
    fn why_not(&self, kind: Mechanisms) -> Option<String> {
        match self.access() {
            Ok(access) => access.why_not(kind),
            Err(why) => Some(why.to_string()),
        }
    }

    /// Why kernels cannot be launched so that all their workgroups are there at once, if so.
    fn not_together(&self) -> Option<&'static str> {
        let call = self.hip.api().library().table().hipModuleLaunchCooperativeKernel;
        match call {
            Some(_) => None,
            None => Some("not at all: the runtime has no hipModuleLaunchCooperativeKernel"),
        }
    }

    /// A device with this mechanism. The careful steps of the benches try it.
    fn with(&self, kind: Mechanisms) -> Result<KfdDevice<Streams>, LabError> {
        let parts = self.lv3.untried_parts(kind).map_err(LabError::new)?;
        let below = self.hip.streams().clone();
        // Where gates are opened because a call is blocked, suspended queues are let go as well.
        let gates_open = Some(below.gates_open());
        let mut config = KfdConfig::default();
        config.gpu = self.places().first().cloned();
        KfdDevice::with_parts(below, parts, gates_open, config).map_err(LabError::new)
    }

    fn choice(&self) -> Result<Mechanisms, LabError> {
        self.access()?.choice().map_err(LabError::new)
    }

    /// The HIP device, and what can be done below it. Nothing is suspended while other
    /// processes have queues on the GPU.
    pub(crate) fn parts(&self) -> (&Hip, DriverAccess) {
        let parts = || {
            tenants::alone(self.tenants())?;
            self.lv3.untried_parts(self.choice()?).map_err(LabError::new)
        };
        // The streams that benches make by themselves are not the device's.
        let rings = self.lv3.rings().map_err(LabError::new);
        let seen =
            rings.and_then(|rings| self.hip.api().observe_rings(rings).map_err(LabError::new));
        let attribution = seen.and_then(|()| self.lv3.attribution().map_err(LabError::new));
        let attribution = attribution.unwrap_or_else(|_| Box::new(NoAttribution));
        let mechanism = parts().map(|parts| parts.mechanism);
        let access = DriverAccess { attribution, mechanism };
        (&self.hip, access)
    }
}

type Streams = StreamDevice<HipApi>;

impl BenchDevice for Kfd {
    type Command = StreamCommand<HipApi>;
    type Backend = KfdDevice<Streams>;
    type Victim = HipWorker;
    type Stream = RawStream<HipApi>;

    fn describe(&self) -> Described {
        let below = self.hip.describe();
        let has = self.choice().is_ok();
        let level = if has { Level::Interrupt.number() } else { below.level };
        Described { hal: "kfd", level, ..below }
    }

    fn device(&self) -> Result<KfdDevice<Streams>, LabError> {
        self.with(self.choice()?)
    }

    fn config(&self, making: QueueParams) -> <Self::Backend as Backend>::Config {
        KfdQueueConfig::new(self.hip.config(making)).level_max(making.level())
    }

    fn config_in_page(
        &self,
        making: QueueParams,
        page: SharedPage,
        word: usize,
    ) -> Result<<Self::Backend as Backend>::Config, LabError> {
        let below = self.hip.config_in_page(making, page, word)?;
        Ok(KfdQueueConfig::new(below).level_max(Level::Deactivate))
    }

    fn command(&self, ns: u64, waves: u32) -> Result<Self::Command, LabError> {
        self.hip.command(ns, waves)
    }

    fn graph(&self, lengths_ns: &[u64]) -> Result<Self::Command, LabError> {
        self.hip.graph(lengths_ns)
    }

    fn nothing(&self) -> Self::Command {
        self.hip.nothing()
    }

    /// Says while it runs that it does, because it may be interrupted anywhere.
    fn victim(&self, ns: u64) -> Result<HipWorker, LabError> {
        self.worker(Load { kind: Kind::Alu, share: Share::Full, ns })
    }

    fn slack_us(&self) -> f64 {
        self.hip.slack_us()
    }

    fn stream(&self, urgent: bool) -> Result<Self::Stream, LabError> {
        self.hip.stream(urgent)
    }
}

impl Interruptible for Kfd {
    type Worker = HipWorker;

    fn mechanisms(&self) -> Vec<String> {
        let can = |kind: &Mechanisms| self.why_not(*kind).is_none();
        Mechanisms::ALL.into_iter().filter(can).map(|kind| kind.name().to_owned()).collect()
    }

    fn refused_mechanisms(&self) -> Vec<(String, String)> {
        let why = |kind: Mechanisms| Some((kind.name().to_owned(), self.why_not(kind)?));
        Mechanisms::ALL.into_iter().filter_map(why).collect()
    }

    fn kinds(&self) -> Vec<Kind> {
        let can = |kind: &Kind| *kind != Kind::Cooperative || self.not_together().is_none();
        Kind::ALL.into_iter().filter(can).collect()
    }

    fn shares(&self) -> Vec<Share> {
        vec![Share::One, Share::Half, Share::Full]
    }

    fn open(&self, mechanism: &str) -> Result<KfdDevice<Streams>, LabError> {
        let kind = Mechanisms::of(mechanism).ok_or_else(|| {
            let all = Mechanisms::ALL.map(Mechanisms::name).join(", ");
            LabError::new(format!("there is no mechanism `{mechanism}`; there are {all}"))
        })?;
        self.with(kind)
    }

    /// Without gates: nothing but the driver's call is wanted.
    fn interruptible(&self) -> <Self::Backend as Backend>::Config {
        KfdQueueConfig::new(self.hip.config(QueueParams::at(Level::Block)))
    }

    fn worker(&self, load: Load) -> Result<HipWorker, LabError> {
        HipWorker::new(self.hip.api(), &self.work, load)
    }

    fn side(&self) -> Result<Box<dyn Side>, LabError> {
        let config = HipConfig { device: self.ordinal, ..HipConfig::default() };
        let library = Arc::clone(self.hip.api().library());
        let api = HipApi::with_library(library, config).map_err(LabError::new)?;
        Ok(Box::new(SideCalls::new(api, SIDE_BYTES).map_err(LabError::new)?))
    }

    fn traits(&self) -> Vec<(String, String)> {
        let api = self.hip.api();
        let gate = match self.hip.streams().no_gate() {
            None => "holds, and holds nothing else".to_owned(),
            Some(why) => format!("cannot be used: {why}"),
        };
        let attribution = match self.access() {
            Ok(access) => access.attribution_text(),
            Err(why) => format!("not at all: {why}"),
        };
        let of_gpu = self.places().first().map(|gpu| {
            let (number, count) = gpu.partition;
            let place = format!("node {}, id {}, {}", gpu.node, gpu.gpu_id, gpu.target());
            let size = format!("{} units on {} dies", gpu.units(), gpu.xccs());
            format!("{place}, {size}, partition {number} of {count}")
        });
        let context = self.places().first().map(|gpu| format!("{} bytes", gpu.context_bytes()));
        let unknown = || "not found in the driver's topology".to_owned();
        let together = self.not_together().unwrap_or("by hipModuleLaunchCooperativeKernel");
        let named = [
            ("a wait for a word", format!("{:?}", api.lowering())),
            ("a gate", gate),
            ("which of the driver's queues a stream is", attribution),
            ("cooperative kernels are launched", together.to_owned()),
            ("GPU", of_gpu.unwrap_or_else(unknown)),
            ("context of a full device", context.unwrap_or_else(unknown)),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Returns the tenants of other processes that were there before this one opened the device.
    fn tenants(&self) -> Result<Vec<Tenant>, LabError> {
        if self.places().is_empty() {
            let pci = &self.hip.api().about().pci;
            return Err(LabError::new(format!("the driver's topology has no GPU at {pci}")));
        }
        let mut tenants = self.before.clone()?;
        tenants.retain(|tenant| self.places().iter().any(|gpu| gpu.gpu_id == tenant.gpu));
        Ok(tenants)
    }
}

/// The time in microseconds that no save of a full context can be faster than, and how it follows,
/// for each GPU of this machine that it is known for.
pub(crate) fn bounds(sysfs: &Sysfs) -> Vec<(f64, String)> {
    let gpus = Topology::read(sysfs).map(|topology| topology.gpus).unwrap_or_default();
    let known = gpus.iter().filter(|gpu| gpu.target() == "gfx942" && gpu.context_bytes() > 0);
    let bound = |gpu: &GpuFacts| {
        let us = xsched_hal_kfd::cost::context_ns(gpu) as f64 / 1e3;
        let mib = gpu.context_bytes() as f64 / f64::from(1 << 20);
        let (node, units, dies) = (gpu.node, gpu.units(), gpu.xccs());
        let how = format!(
            "node {node} (gfx942, {units} compute units on {dies} dies): {mib:.1} MiB of context \
             at 5.3 TB/s are {us:.1} µs, each way"
        );
        (us, how)
    };
    known.map(bound).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_machine_without_the_driver_is_told_so_in_one_line() {
        if Path::new("/dev/kfd").exists() {
            return;
        }
        let error = Kfd::open(0).expect_err("there is no driver").to_string();
        assert!(error.contains("/dev/kfd"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn the_bound_is_that_of_the_mi308x() {
        let root = tempfile::tempdir().unwrap();
        let node = root.path().join("topology/nodes/1");
        fs::create_dir_all(&node).unwrap();
        fs::write(node.join("gpu_id"), "51\n").unwrap();
        let properties = "simd_count 320\nsimd_per_cu 4\nnum_xcc 4\ngfx_target_version 90402\n\
                          array_count 16\nsimd_arrays_per_engine 1\n";
        fs::write(node.join("properties"), properties).unwrap();
        let sysfs = Sysfs { kfd: root.path().to_owned(), ..Sysfs::default() };
        let found = bounds(&sysfs);
        let [(us, how)] = &*found else { panic!("{found:?}") };
        assert!((us - 9.2).abs() < 0.1, "{us}");
        assert!(how.contains("46.6 MiB"), "{how}");
    }
}
