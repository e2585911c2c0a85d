//! NVIDIA's management library, which is loaded if it is there.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::{Lister, Process, Seen};

/// The name that comes with the driver.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Number of looks after a failure until the next attempt.
const AGAIN: u32 = 60;

/// The processes of NVIDIA's GPUs, by NVIDIA's management library.
#[derive(Debug)]
pub struct Nvml {
    library: OsString,
    nvml: Option<nvml_wrapper::Nvml>,
    /// Looks until it is tried to be opened again.
    wait: u32,
    was_said: bool,
    /// By GPU: the time of the last sample that was taken, in the driver's microseconds.
    last_us: HashMap<String, u64>,
}

impl Default for Nvml {
    fn default() -> Self {
        Self::at(LIBRARY.into())
    }
}

impl Nvml {
    /// The library of this name or path.
    #[must_use]
    pub fn at(library: OsString) -> Self {
        Self { library, nvml: None, wait: 0, was_said: false, last_us: HashMap::new() }
    }

    /// Opens the library, now and then. Says once why not.
    fn open(&mut self) {
        if self.nvml.is_some() {
            return;
        }
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        self.wait = AGAIN;
        match nvml_wrapper::Nvml::builder().lib_path(&self.library).init() {
            Ok(nvml) => self.nvml = Some(nvml),
            Err(error) if !self.was_said => {
                tracing::info!(%error, "NVIDIA's management library is not there");
                self.was_said = true;
            }
            Err(_) => {}
        }
    }
}

impl Lister for Nvml {
    fn look(&mut self) -> Seen {
        self.open();
        let Some(nvml) = &self.nvml else { return Seen::default() };
        let mut seen = Seen::default();
        for index in 0..nvml.device_count().unwrap_or(0) {
            let looked = nvml.device_by_index(index).and_then(|device| {
                let (gpu, name) = (pci(&device)?, device.name()?);
                let last_us = self.last_us.entry(gpu.clone()).or_default();
                look_at(&device, gpu, name, last_us, &mut seen)
            });
            if let Err(error) = looked {
                seen.unknown.push(format!("processes on NVIDIA's GPU {index}: {error}"));
            }
        }
        seen
    }
}

/// Where a GPU is, without the function.
fn pci(device: &Device<'_>) -> Result<String, NvmlError> {
    let pci = device.pci_info()?;
    Ok(format!("{:04x}:{:02x}:{:02x}", pci.domain, pci.bus, pci.device))
}

fn look_at(
    device: &Device<'_>,
    gpu: String,
    name: String,
    last_us: &mut u64,
    seen: &mut Seen,
) -> Result<(), NvmlError> {
    let running = device.running_compute_processes()?;
    let used = match used(device, last_us) {
        Ok(used) => Some(used),
        Err(error) => {
            seen.unknown.push(format!("how much processes use {gpu}: {error}"));
            None
        }
    };
    for process in running {
        // One that has no sample has not used it.
        let permille = used.as_ref().map(|used| used.get(&process.pid).copied().unwrap_or(0));
        seen.processes.push(Process { pid: process.pid, device: gpu.clone(), permille });
    }
    seen.gpus.insert(gpu, name);
    Ok(())
}

/// How much of the time since the last sample each process used a GPU, in permille: the mean of
/// its samples.
fn used(device: &Device<'_>, last_us: &mut u64) -> Result<BTreeMap<u32, u32>, NvmlError> {
    let samples = match device.process_utilization_stats(*last_us) {
        // No process has used it since.
        Err(NvmlError::NotFound) => Vec::new(),
        other => other?,
    };
    let mut sums: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.timestamp > *last_us) {
        let (sum, count) = sums.entry(sample.pid).or_default();
        *sum += sample.sm_util.min(100) * 10;
        *count += 1;
    }
    *last_us = samples.iter().map(|sample| sample.timestamp).max().unwrap_or(0).max(*last_us);
    Ok(sums.into_iter().map(|(pid, (sum, count))| (pid, sum / count.max(1))).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// A library in the place of NVIDIA's.
    fn library(folder: &Path) -> OsString {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/programs/nvml.c");
        let library = folder.join("libnvidia-ml.so.1");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut compile = Command::new(compiler);
        compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        assert!(compile.status().expect("a C compiler").success());
        library.into()
    }

    #[test]
    fn the_library_lists_processes_and_what_they_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut nvml = Nvml::at(library(folder.path()));
        let process = |pid, permille| Process {
            pid,
            device: "0000:01:00".to_owned(),
            permille: Some(permille),
        };
        let seen = nvml.look();
        assert_eq!(seen.gpus["0000:01:00"], "Emulated H200");
        // The mean of 40 % and 20 %, and nothing.
        assert_eq!(seen.processes, [process(7, 300), process(8, 0)], "{seen:?}");
        // Samples are taken once.
        assert_eq!(nvml.look().processes[0], process(7, 0));
    }

    #[test]
    fn without_the_library_nothing_is_known() {
        let mut nvml = Nvml::at("/nowhere/libnvidia-ml.so.1".into());
        assert_eq!(nvml.look(), Seen::default());
        assert_eq!((nvml.was_said, nvml.wait), (true, AGAIN));
    }
}
