//! Devices that can be scheduled here, and their levels.

use serde::Serialize;
use xsched_hal_cuda::{CudaApi, StreamDevice, StreamDeviceConfig};
use xsched_hal_hip::{HipApi, HipConfig, HipLibrary, Rings};
use xsched_hal_host::{HostConfig, HostDevice};
use xsched_hal_kfd::mechanism::Kind;
use xsched_hal_kfd::probe::{ProbeConfig, ProbeReport, probe};
use xsched_hal_kfd::topology::Gpu;
use xsched_hal_stream::StreamApi;

/// A device, or why a backend has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    /// The backend: `host`, `cuda`, `hip`, `kfd`.
    pub(crate) backend: &'static str,
    /// The device's name.
    pub(crate) device: Option<String>,
    /// Driver of the device.
    pub(crate) driver: Option<String>,
    /// Where it is.
    pub(crate) pci: Option<String>,
    /// Multiprocessors or compute units.
    pub(crate) units: Option<u32>,
    /// The highest level of its queues.
    pub(crate) level: Option<u8>,
    /// Commands, gates and fences that a queue keeps in flight.
    pub(crate) entries_max: Option<u32>,
    /// How running commands are interrupted, and why in that way.
    pub(crate) mechanism: Option<String>,
    /// Why the level is no higher, or why there is no device.
    pub(crate) why: Option<String>,
}

impl Entry {
    fn none(backend: &'static str, why: String) -> Self {
        Self { backend, why: Some(why), ..Self::default() }
    }
}

/// All devices of all backends, and a line for each backend without one. Tries the gate on each
/// GPU.
pub(crate) fn list() -> Vec<Entry> {
    let mut devices = host();
    devices.extend(cuda());
    devices.extend(hip());
    devices.extend(kfd());
    devices
}

fn host() -> Vec<Entry> {
    let config = HostConfig::default();
    let entries_max = Some(config.entries_max);
    vec![match HostDevice::new(config) {
        Ok(_) => Entry {
            backend: "host",
            device: Some("the processor, 1 compute unit".to_owned()),
            driver: Some(concat!("xsched-hal-host ", env!("CARGO_PKG_VERSION")).to_owned()),
            units: Some(1),
            level: Some(3),
            entries_max,
            ..Entry::default()
        },
        Err(error) => Entry::none("host", error.to_string()),
    }]
}

fn cuda() -> Vec<Entry> {
    let count = match xsched_hal_cuda::device_count() {
        Ok(0) => return vec![Entry::none("cuda", "the driver has no devices".to_owned())],
        Ok(count) => count,
        Err(error) => return vec![Entry::none("cuda", error.to_string())],
    };
    let open = |ordinal| {
        let device = CudaApi::open(ordinal).map_err(|error| error.to_string());
        entry("cuda", device)
    };
    (0..count).map(open).collect()
}

fn hip() -> Vec<Entry> {
    let found = HipLibrary::find().and_then(|library| Ok((library.devices()?, library)));
    let (count, library) = match found {
        Ok((0, _)) => return vec![Entry::none("hip", "the runtime has no devices".to_owned())],
        Ok(found) => found,
        Err(error) => return vec![Entry::none("hip", error.to_string())],
    };
    let open = |device| {
        let config = HipConfig { device, rings: Rings::Own };
        let api = HipApi::with_library(library.clone(), config).map_err(|error| error.to_string());
        entry("hip", api)
    };
    (0..count).map(open).collect()
}

/// Lists the GPUs of AMD's kernel driver, with the mechanism by which their waves can be
/// interrupted. Opens no GPU.
fn kfd() -> Vec<Entry> {
    let found = match probe(&ProbeConfig::from_environment()) {
        Ok((_, found)) => found,
        Err(error) => return vec![Entry::none("kfd", error.to_string())],
    };
    let version = found.version.to_string();
    let gpus = &found.topology.gpus;
    if gpus.is_empty() {
        return vec![Entry::none("kfd", found.to_string())];
    }
    gpus.iter().map(|gpu| kfd_entry(gpu, &found, &version)).collect()
}

fn kfd_entry(gpu: &Gpu, found: &ProbeReport, version: &str) -> Entry {
    let (part, parts) = gpu.partition;
    let partition =
        if parts > 1 { format!(", partition {part} of {parts}") } else { String::new() };
    let context = gpu.context_bytes().div_ceil(1 << 20);
    let name = format!("{} with {} XCC{partition}", gpu.target(), gpu.xccs());
    let why_not = found.why_no_lv3(gpu);
    let unwatched = found.not_watched().map(|what| format!("; {what}")).unwrap_or_default();
    let chosen = format!(
        "{}, {}; a full context is {context} MiB{unwatched}",
        found.choice.map_or("", Kind::name),
        found.because
    );
    Entry {
        backend: "kfd",
        device: Some(name),
        driver: Some(version.to_owned()),
        pci: Some(gpu.pci()),
        units: Some(gpu.units()),
        level: Some(if why_not.is_none() { 3 } else { 2 }),
        mechanism: why_not.is_none().then_some(chosen),
        why: why_not,
        ..Entry::default()
    }
}

/// A device with streams.
fn entry<A: StreamApi>(backend: &'static str, api: Result<A, String>) -> Entry {
    let opened = api.and_then(|api| {
        StreamDevice::new(api, StreamDeviceConfig::default()).map_err(|error| error.to_string())
    });
    let device = match opened {
        Ok(device) => device,
        Err(why) => return Entry::none(backend, why),
    };
    let about = device.about();
    Entry {
        backend,
        device: Some(about.device.clone()),
        driver: Some(format!("{} ({})", about.driver, about.library)),
        pci: Some(about.pci.clone()),
        units: Some(about.units),
        level: Some(device.level().number()),
        entries_max: Some(device.entries_max()),
        mechanism: None,
        why: device.no_gate().map(ToString::to_string),
    }
}
