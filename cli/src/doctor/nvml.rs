//! GPUs as NVIDIA's management library lists them, by its documented functions.

use std::ffi::OsStr;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::{Deserialize, Serialize};

/// The name that comes with the driver.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gpu {
    /// Name of the GPU.
    pub(super) name: String,
    /// Where it is, without the function, as in `0000:1b:00`.
    pub(super) pci: String,
    /// True if the GPU is divided into instances (MIG); `None` if it cannot be.
    pub(super) mig: Option<bool>,
    /// Mode that says which processes may use the GPU: `Default`, `ExclusiveProcess`, `Prohibited`.
    pub(super) compute_mode: Option<String>,
    /// The processes that compute on it and that this one may see.
    pub(super) processes: Vec<u32>,
    /// Processes among them that are clients of MPS.
    pub(super) mps_processes: Vec<u32>,
}

/// All GPUs.
pub(super) fn gpus() -> Result<Vec<Gpu>, NvmlError> {
    let nvml = Nvml::builder().lib_path(OsStr::new(LIBRARY)).init()?;
    let count = nvml.device_count()?;
    (0..count).map(|index| gpu(&nvml.device_by_index(index)?)).collect()
}

/// Reads a GPU's properties; those that it cannot tell are left out.
fn gpu(device: &Device<'_>) -> Result<Gpu, NvmlError> {
    let pci = device.pci_info()?;
    let pids = |list: Result<Vec<_>, NvmlError>| {
        let list: Vec<nvml_wrapper::struct_wrappers::device::ProcessInfo> =
            list.unwrap_or_default();
        list.into_iter().map(|process| process.pid).collect()
    };
    Ok(Gpu {
        name: device.name()?,
        pci: format!("{:04x}:{:02x}:{:02x}", pci.domain, pci.bus, pci.device),
        mig: device.mig_mode().ok().map(|mode| mode.current != 0),
        compute_mode: device.compute_mode().ok().map(|mode| format!("{mode:?}")),
        processes: pids(device.running_compute_processes()),
        mps_processes: pids(device.mps_running_compute_processes()),
    })
}
