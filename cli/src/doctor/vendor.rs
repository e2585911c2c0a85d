//! The vendors: their drivers, and the interposers in front of these.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::interposer::{Functions, Interposer};
use super::place::Place;
use super::probe::{Device, Probe};
use super::problem::Problem;

/// A vendor's driver or runtime, and the interposer in front of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Vendor {
    /// `cuda` or `hip`.
    pub(super) name: &'static str,
    /// The library that programs get.
    pub(super) driver: Option<PathBuf>,
    /// The version of the vendor's interface that it has.
    pub(super) version: Option<String>,
    /// Why there is none.
    pub(super) why: Option<String>,
    /// The version of the kernel's module; `None` if it is not loaded.
    pub(super) kernel_module: Option<String>,
    /// The interposer.
    pub(super) interposer: Option<Interposer>,
    /// Problems of the vendor's GPUs.
    pub(super) problems: Vec<Problem>,
}

/// CUDA, with the driver that the interposer finds.
pub(super) fn cuda(probe: &Probe, place: &Result<Place, Problem>, root: &Path) -> Vendor {
    let driver = probe.cuda_driver.as_ref().map(PathBuf::from);
    let driver = driver.or_else(|| loaded(probe, "libcuda.so"));
    let entry = probe.findings.devices.iter().find(|entry| entry.backend == "cuda");
    let why = probe.no_cuda.clone().or_else(|| entry.and_then(|entry| entry.why.clone()));
    let mut vendor = Vendor {
        name: "cuda",
        version: probe.findings.cuda.clone().filter(|_| driver.is_some()),
        why: why.filter(|_| driver.is_none()),
        kernel_module: nvidia_module(root),
        ..Vendor::default()
    };
    match place {
        Ok(place) => vendor.look(place, "cuda", &Functions::cuda(), driver.as_deref()),
        Err(problem) => vendor.problems.push(problem.clone()),
    }
    if entry.is_none_or(|entry| entry.level.is_none()) {
        vendor.problems.extend(mismatch(driver.as_deref(), vendor.kernel_module.as_deref()));
    }
    vendor.driver = driver;
    if let (None, Some(module)) = (&vendor.driver, &vendor.kernel_module) {
        vendor.problems.push(Problem::new(
            format!("the kernel has NVIDIA's module {module}, and there is no libcuda.so.1"),
            "install the driver's libraries of that version; in a container, run it with its GPUs \
             (`--gpus all`)",
        ));
    }
    vendor
}

/// HIP, whose interposer lies with CUDA's.
pub(super) fn hip(probe: &Probe, place: &Result<Place, Problem>, root: &Path) -> Vendor {
    // Or by another name that the environment says; not HIP's interposer, if that is found.
    let named = probe.findings.hip_library.as_ref().map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute() && !file_name(path).contains("shim"));
    let driver = loaded(probe, "amdhip64").or(named);
    let mut vendor = Vendor {
        name: "hip",
        version: probe.findings.hip.clone(),
        why: probe.findings.no_hip.clone(),
        kernel_module: amd_module(root),
        ..Vendor::default()
    };
    if let Ok(place) = place {
        vendor.look(place, "hip", &Functions::hip(), driver.as_deref());
    }
    vendor.driver = driver;
    let works = |device: &Device| device.backend == "hip" && device.level.is_some();
    if probe.findings.devices.iter().any(works) {
        vendor.problems.extend(unscheduled(vendor.interposer.as_ref()));
    }
    if let (None, Some(module)) = (&vendor.driver, &vendor.kernel_module) {
        vendor.problems.push(Problem::new(
            format!("the kernel has AMD's module ({module}), and there is no libamdhip64.so"),
            "install HIP's runtime, or name it in XSCHED_HIP_LIB",
        ));
    }
    vendor
}

impl Vendor {
    /// Looks at the interposer whose name has this in it, if there is one: of those that are
    /// preloaded, or beside them or in the folder above.
    fn look(&mut self, place: &Place, name: &str, functions: &Functions, driver: Option<&Path>) {
        let is_it = |file: &&PathBuf| file_name(file).starts_with(&format!("libshim{name}"));
        let preloaded = place.files().iter().find(is_it);
        let folders = place.files().iter().flat_map(|file| file.ancestors().skip(1).take(2));
        let mut files = folders.map(|folder| folder.join(format!("libshim{name}.so")));
        let file = preloaded.cloned().or_else(|| files.find(|file| file.exists()));
        let Some(path) = file else { return };
        match Interposer::look(&path, preloaded.is_some(), functions, driver) {
            Some((interposer, problems)) => {
                self.interposer = Some(interposer);
                self.problems.extend(problems);
            }
            None => self.problems.push(Problem::new(
                format!("{} cannot be read as a library", path.display()),
                "build or install it anew",
            )),
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The loaded library whose file has this in its name.
fn loaded(probe: &Probe, name: &str) -> Option<PathBuf> {
    let mut files = probe.findings.mapped.iter().map(PathBuf::from);
    files.find(|path| file_name(path).contains(name))
}

/// Returns the problem of HIP's interposer if there are devices for it.
fn unscheduled(interposer: Option<&Interposer>) -> Option<Problem> {
    let Some(found) = interposer else {
        let what = "there is no interposer of HIP's (libshimhip.so), so HIP programs go past";
        return Some(Problem::new(what, "run `cargo xtask install`"));
    };
    (!found.preloaded).then(|| {
        Problem::new(
            "`xsched run` does not preload HIP's interposer, so HIP programs go past",
            format!("set LD_PRELOAD={} and XSCHED_AUTO_XQUEUE=ON for them", found.path.display()),
        )
    })
}

/// The version of NVIDIA's module.
fn nvidia_module(root: &Path) -> Option<String> {
    let version = fs::read_to_string(root.join("sys/module/nvidia/version"));
    let version = version.ok().map(|version| version.trim().to_owned());
    version.or_else(|| {
        let text = fs::read_to_string(root.join("proc/driver/nvidia/version")).ok()?;
        let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
        let is_version = |word: &&str| {
            word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok())
        };
        line.split_whitespace().find(is_version).map(str::to_owned)
    })
}

/// The version of AMD's module: its own, or that of the kernel that it is a part of.
fn amd_module(root: &Path) -> Option<String> {
    let folder = root.join("sys/module/amdgpu");
    if !folder.exists() {
        return None;
    }
    let own = fs::read_to_string(folder.join("version")).ok();
    let own = own.map(|version| format!("amdgpu {}", version.trim()));
    own.or_else(|| {
        let kernel = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        Some(format!("amdgpu of Linux {}", kernel.trim()))
    })
}

/// A library of another version than the kernel's module refuses to work. The version is in the
/// name of its file.
fn mismatch(driver: Option<&Path>, module: Option<&str>) -> Option<Problem> {
    let (driver, module) = (driver?, module?);
    let file = driver.canonicalize().unwrap_or_else(|_| driver.to_owned());
    let name = file_name(&file);
    let version = name.strip_prefix("libcuda.so.").filter(|version| version.contains('.'))?;
    (version != module).then(|| {
        Problem::new(
            format!(
                "{} is of version {version}, and the kernel's module of {module}",
                file.display()
            ),
            "load the module of that version (restart), or use CUDA's compatibility package as its \
             documentation says",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn the_kernel_s_modules_are_known() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!((nvidia_module(root.path()), amd_module(root.path())), (None, None));
        let nvrm = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\n";
        write(root.path(), "proc/driver/nvidia/version", nvrm);
        assert_eq!(nvidia_module(root.path()).as_deref(), Some("550.54.14"));
        write(root.path(), "sys/module/nvidia/version", "551.1.2\n");
        assert_eq!(nvidia_module(root.path()).as_deref(), Some("551.1.2"));
        write(root.path(), "sys/module/amdgpu/parameters/x", "");
        write(root.path(), "proc/sys/kernel/osrelease", "6.12.1\n");
        assert_eq!(amd_module(root.path()).as_deref(), Some("amdgpu of Linux 6.12.1"));
        write(root.path(), "sys/module/amdgpu/version", "6.7.0\n");
        assert_eq!(amd_module(root.path()).as_deref(), Some("amdgpu 6.7.0"));
    }

    #[test]
    fn an_interposer_of_hip_s_that_is_not_preloaded_is_a_problem() {
        assert!(unscheduled(None).is_some_and(|problem| problem.action.contains("install")));
        let mut found = Interposer { path: "/x/libshimhip.so".into(), ..Interposer::default() };
        let problem = unscheduled(Some(&found)).expect("a problem");
        assert!(problem.action.contains("LD_PRELOAD=/x/libshimhip.so"), "{problem}");
        found.preloaded = true;
        assert_eq!(unscheduled(Some(&found)), None);
    }

    #[test]
    fn a_module_without_a_library_and_one_of_another_version_are_problems() {
        let root = tempfile::tempdir().expect("a folder");
        write(root.path(), "sys/module/nvidia/version", "550.54.14\n");
        let none = Err(Problem::new("none", "build one"));
        let vendor = cuda(&Probe::default(), &none, root.path());
        assert!(vendor.problems.iter().any(|problem| problem.what.contains("no libcuda.so.1")));
        let driver = Path::new("/usr/lib/libcuda.so.535.1.2");
        assert!(mismatch(Some(driver), Some("550.54.14")).is_some());
        assert_eq!(mismatch(Some(driver), Some("535.1.2")), None);
        assert_eq!(mismatch(Some(Path::new("/x/libcuda.so.1")), Some("535.1.2")), None);
    }
}
