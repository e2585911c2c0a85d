//! Answers of the vendors' libraries, asked by a process of its own: one that hangs or ends because
//! of a driver takes nothing with it.
//!
//! That process has the interposer in front of CUDA's driver, as a program has that `xsched run`
//! starts, so it finds the driver that such a program finds. It schedules nothing.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempDir;
use xsched_console::output::Stream;
use xsched_hal_hip::HipLibrary;

use super::nvml::{self, Gpu};
use super::place::Place;
use super::problem::Problem;
use crate::devices::{Entry, list};
use crate::error::CliError;

/// Time that a driver may take to start and to try a device's gates.
const PATIENCE: Duration = Duration::from_secs(60);
/// The beginnings of the names of the vendors' libraries.
const LIBRARIES: [&str; 3] = ["libcuda.so", "libamdhip64.so", "libnvidia-ml.so"];
const POLL: Duration = Duration::from_millis(10);
/// Text that the interposer writes before the reason for which it has no driver.
const NO_DRIVER: &str = "xsched: CUDA's driver cannot be used: ";

/// A device, or why a backend has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Device {
    pub(super) backend: String,
    pub(super) device: Option<String>,
    pub(super) driver: Option<String>,
    pub(super) pci: Option<String>,
    pub(super) level: Option<u8>,
    pub(super) mechanism: Option<String>,
    pub(super) why: Option<String>,
}

impl From<Entry> for Device {
    fn from(entry: Entry) -> Self {
        let Entry { backend, device, driver, pci, level, mechanism, why, .. } = entry;
        Self { backend: backend.to_owned(), device, driver, pci, level, mechanism, why }
    }
}

/// Findings of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Findings {
    /// The version of CUDA that the driver has.
    pub(super) cuda: Option<String>,
    /// The version of HIP's runtime.
    pub(super) hip: Option<String>,
    /// HIP's runtime, by the name under which it was found.
    pub(super) hip_library: Option<String>,
    /// Why there is no runtime of HIP's.
    pub(super) no_hip: Option<String>,
    pub(super) devices: Vec<Device>,
    /// NVIDIA's GPUs, as its management library has them.
    pub(super) nvidia: Vec<Gpu>,
    /// Why that says nothing.
    pub(super) no_nvml: Option<String>,
    /// The files of the vendors' libraries that were loaded.
    pub(super) mapped: Vec<String>,
}

/// Findings, and how they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) findings: Findings,
    /// Why CUDA's driver cannot be used, by the interposer's words.
    pub(super) no_cuda: Option<String>,
    /// The driver that the interposer forwards to.
    pub(super) cuda_driver: Option<String>,
    /// Why nothing was found.
    pub(super) failure: Option<String>,
}

/// The probe's process: asks, and prints what it has found as JSON.
pub(super) fn answer() -> Result<(), CliError> {
    let library = HipLibrary::find();
    let no_hip = library.as_ref().err().map(ToString::to_string);
    let library = library.ok();
    let version = library.as_ref().and_then(|library| library.version().ok());
    let (nvidia, no_nvml) = match nvml::gpus() {
        Ok(gpus) => (gpus, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let cuda = xsched_hal_cuda::driver_version().ok();
    let interposers = Place::find().map(|place| place.files().to_vec()).unwrap_or_default();
    let findings = Findings {
        cuda: cuda.map(|version| format!("{}.{}", version / 1_000, version % 1_000 / 10)),
        hip: version.map(hip_version),
        hip_library: library.map(|library| library.name().to_owned()),
        no_hip,
        devices: list().into_iter().map(Device::from).collect(),
        nvidia,
        no_nvml,
        mapped: mapped(&fs::read_to_string("/proc/self/maps").unwrap_or_default(), &interposers),
    };
    let text = serde_json::to_string(&findings).unwrap_or_default();
    Ok(Stream::Stdout.insist(&text)?)
}

fn hip_version(version: u32) -> String {
    format!("{}.{}.{}", version / 10_000_000, version / 100_000 % 100, version % 100_000)
}

/// The files of the vendors' libraries in a process's map of its memory. What lies with one of the
/// interposers is none, also if it has a library's name.
pub(super) fn mapped(maps: &str, interposers: &[PathBuf]) -> Vec<String> {
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let of_vendors = files.filter(|path| {
        let path = Path::new(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_ours = interposers.iter().any(|own| own.parent() == path.parent());
        !is_ours && LIBRARIES.iter().any(|library| name.starts_with(library))
    });
    of_vendors.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Probe {
    /// Runs the process.
    pub(super) fn run(place: Option<&Place>) -> Self {
        Self::try_run(place).unwrap_or_else(|error| Self {
            failure: Some(format!("no process can be started to ask the drivers: {error}")),
            ..Self::default()
        })
    }

    fn try_run(place: Option<&Place>) -> io::Result<Self> {
        let folder = TempDir::new()?;
        let file = |name| folder.path().join(name);
        let own = env::current_exe()?;
        let arguments = ["doctor", "--probe"];
        // The backend then finds the interposer, and that the driver.
        let all = [own.clone().into_os_string()].into_iter().chain(arguments.map(Into::into));
        let interposed = place.and_then(|place| place.command(&all.collect::<Vec<_>>()).ok());
        let mut command = match interposed {
            Some(mut command) => {
                command.env_remove("XSCHED_CUDA_LIB");
                command
            }
            None => {
                let mut command = Command::new(own);
                command.args(arguments);
                command
            }
        };
        command.env("XSCHED_AUTO_XQUEUE", "OFF").env("XSCHED_SHIM_COUNTS", file("counts"));
        command.stdin(Stdio::null());
        command.stdout(File::create(file("out"))?).stderr(File::create(file("err"))?);
        let ended = wait(&mut command)?;
        let text = |name| fs::read_to_string(file(name)).unwrap_or_default();
        Ok(Self::of(ended, &text("out"), &text("err"), &text("counts")))
    }

    /// Lists what keeps all GPUs, or those of a vendor, from being scheduled.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let Findings { devices, nvidia, .. } = &self.findings;
        if let Some(why) = &self.failure {
            let action = "see whether `xsched devices` works, and the kernel's log (`dmesg`)";
            return vec![Problem::new(why.clone(), action)];
        }
        let none = |backend: &str| {
            devices.iter().all(|device| device.backend != backend || device.device.is_none())
        };
        let mut problems = Vec::new();
        if none("cuda") && !nvidia.is_empty() {
            let what = format!("there are NVIDIA GPUs ({}), and CUDA has none", nvidia.len());
            let action = if nvidia.iter().any(|gpu| gpu.mig == Some(true)) {
                "MIG is on: make instances (`nvidia-smi mig -cgi PROFILE -C`), or name one in \
                 CUDA_VISIBLE_DEVICES"
            } else {
                "correct or unset CUDA_VISIBLE_DEVICES, and install libraries of the kernel \
                 module's version"
            };
            problems.push(Problem::new(what, action));
        }
        if ["cuda", "hip", "kfd"].into_iter().all(none) {
            problems.push(Problem::new(
                "no GPU can be scheduled here",
                "install the driver of the GPU that is there; in a container, give it its GPUs; \
                 without any, try the host device (docs/src/start/tour.md)",
            ));
        }
        problems
    }

    /// Says of CUDA's devices why there is no driver, in the place of the error that the interposer
    /// answers without one.
    pub(super) fn explain(&mut self) {
        let Some(why) = &self.no_cuda else { return };
        for device in self.findings.devices.iter_mut().filter(|device| device.backend == "cuda") {
            device.why = Some(why.clone());
        }
    }

    fn of(ended: Option<ExitStatus>, out: &str, err: &str, counts: &str) -> Self {
        let findings = serde_json::from_str::<Findings>(out);
        let last = err.lines().last().map_or_else(String::new, |line| format!(": {line}"));
        let failure = match (ended, &findings) {
            (None, _) => Some(format!(
                "the drivers did not answer within {} s and may hang{last}",
                PATIENCE.as_secs()
            )),
            (Some(_), Ok(_)) => None,
            (Some(status), Err(_)) => Some(format!(
                "the process that asked the drivers ended by {status} and said nothing{last}"
            )),
        };
        let counts: Value = serde_json::from_str(counts).unwrap_or_default();
        let driver = counts["driver"].as_str();
        Self {
            findings: findings.unwrap_or_default(),
            no_cuda: err.lines().find_map(|line| line.strip_prefix(NO_DRIVER)).map(str::to_owned),
            // HIP's interposer, if it is preloaded as well, writes its counts to the same file.
            cuda_driver: driver.filter(|path| !path.contains("hip")).map(str::to_owned),
            failure,
        }
    }
}

/// Waits for a process to end; `None` if it took too long and was ended.
fn wait(command: &mut Command) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut child = command.spawn()?;
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(POLL);
    }
    child.kill()?;
    // A process in a driver's call may not end even so, and is not waited for.
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn libraries_are_found_in_a_map() {
        let maps = "7f0-7f1 r-xp 00000000 08:01 1   /usr/lib/libcuda.so.550.54\n\
                    7f1-7f2 r--p 00000000 08:01 1   /usr/lib/libcuda.so.550.54\n\
                    7f2-7f3 rw-p 00000000 00:00 0 \n\
                    7f3-7f4 r-xp 00000000 08:01 2   /opt/rocm/lib/libamdhip64.so.6.2\n\
                    7f4-7f5 r-xp 00000000 08:01 3   /x/libamdhip64.so.6\n\
                    7f4-7f5 r-xp 00000000 08:01 3   /x/libshimcuda.so\n";
        let found = mapped(maps, &[PathBuf::from("/x/libshimcuda.so")]);
        assert_eq!(found, ["/opt/rocm/lib/libamdhip64.so.6.2", "/usr/lib/libcuda.so.550.54"]);
        assert_eq!(hip_version(60_443_484), "6.4.43484");
    }

    #[test]
    fn gpus_that_cuda_does_not_show_are_a_problem() {
        let mut probe = Probe::default();
        assert_eq!(probe.problems().len(), 1);
        probe.findings.nvidia = vec![Gpu::default()];
        assert!(probe.problems()[0].action.contains("CUDA_VISIBLE_DEVICES, and install"));
        probe.findings.nvidia[0].mig = Some(true);
        assert!(probe.problems()[0].action.contains("MIG is on"));
        let device = Device {
            backend: "cuda".to_owned(),
            device: Some("H200".to_owned()),
            ..Device::default()
        };
        probe.findings.devices = vec![device];
        assert_eq!(probe.problems(), []);
    }

    #[test]
    fn what_goes_wrong_with_the_process_is_said() {
        let ended = Some(ExitStatus::from_raw(11));
        let failed = Probe::of(ended, "", "first\nlast\n", "");
        let why = failed.failure.expect("a failure");
        assert!(why.contains("signal: 11") && why.ends_with(": last"), "{why}");
        let hung = Probe::of(None, "", "", "").failure.expect("a failure");
        assert!(hung.contains("within 60 s"), "{hung}");
        let out = serde_json::to_string(&Findings::default()).expect("JSON");
        let err = format!("{NO_DRIVER}none\n");
        let fine = Probe::of(Some(ExitStatus::from_raw(0)), &out, &err, "{\"driver\": \"/d\"}");
        assert_eq!((fine.failure, fine.no_cuda.as_deref()), (None, Some("none")));
        assert_eq!(fine.cuda_driver.as_deref(), Some("/d"));
    }
}
