//! Facts that figures depend on beside this program: the system, the driver, firmware, clocks.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::device::kfd::{self, Sysfs};

/// Kernel modules that matter, where they are loaded.
const MODULES: [&str; 6] = ["amdgpu", "amdkfd", "amdkcl", "nvidia", "nvidia_uvm", "xsched_preempt"];
/// Files of a graphics card's folder that matter. Clocks are lists, with a star behind the present.
const CARD: [&str; 9] = [
    "vendor",
    "device",
    "vbios_version",
    "current_compute_partition",
    "current_memory_partition",
    "power_dpm_force_performance_level",
    "pp_dpm_sclk",
    "pp_dpm_mclk",
    "pp_dpm_fclk",
];
/// Variables of the environment that change what is measured begin like this.
const VARIABLES: [&str; 9] =
    ["HSA_", "HIP_", "ROCR_", "ROC_", "GPU_", "AMD_", "DEBUG_", "CUDA_", "XSCHED_"];
/// Parameters of the kernel that change what is measured begin like this. Others, such as where the
/// root is, say where a machine is and not how it works.
const PARAMETERS: [&str; 14] = [
    "amdgpu",
    "amdkfd",
    "amd_iommu",
    "iommu",
    "intel_iommu",
    "pci",
    "mitigations",
    "hugepages",
    "transparent_hugepage",
    "isolcpus",
    "nohz",
    "numa_balancing",
    "preempt",
    "processor.",
];
/// Properties of a node of the topology that say which one of its kind it is.
const WHICH: [&str; 2] = ["unique_id", "hive_id"];
/// Files that are longer are not kept.
const LONGEST: usize = 4_096;

/// Names and values.
type Values = BTreeMap<String, String>;

/// Facts that were found. Those that a system does not tell are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Parameters that the kernel was started with, as far as they change what is measured.
    pub(super) command_line: Option<String>,
    /// Signs that this is a container; empty if there are none.
    pub(super) container: Vec<String>,
    /// ROCm's version, of its own file.
    pub(super) rocm: Option<String>,
    /// NVIDIA's driver, in its own words.
    pub(super) nvidia: Option<String>,
    /// Each module's version, source version and parameters.
    pub(super) modules: BTreeMap<String, Values>,
    /// Each graphics card's identity, firmware, partition and clocks.
    pub(super) cards: BTreeMap<String, Values>,
    /// Each node of the AMD driver's topology.
    pub(super) nodes: BTreeMap<String, Values>,
    /// Result of opening the driver's device file.
    pub(super) dev_kfd: String,
    /// The variables of the environment that matter.
    pub(super) environment: Values,
    /// The physical bounds that follow for each GPU, in words.
    #[serde(default)]
    pub(super) bounds: Vec<String>,
}

impl Facts {
    /// Reads the facts of this system.
    pub(super) fn here() -> Self {
        let chosen = |name: &String| VARIABLES.iter().any(|start| name.starts_with(start));
        let environment = env::vars().filter(|(name, _)| chosen(name)).collect();
        let bounds = kfd::bounds(&Sysfs::default()).into_iter().map(|(_, how)| how).collect();
        Self { environment, bounds, ..Self::of(Path::new("/")) }
    }

    /// Reads the facts from the files below a root folder.
    fn of(root: &Path) -> Self {
        Self {
            command_line: text(&root.join("proc/cmdline")).map(|line| parameters(&line)),
            container: container(root),
            rocm: text(&root.join("opt/rocm/.info/version")),
            nvidia: text(&root.join("proc/driver/nvidia/version")),
            modules: modules(&root.join("sys/module")),
            cards: cards(&root.join("sys/class/drm")),
            nodes: nodes(&root.join("sys/class/kfd/kfd/topology/nodes")),
            dev_kfd: match fs::File::open(root.join("dev/kfd")) {
                Ok(_) => "can be opened".to_owned(),
                Err(error) => error.to_string(),
            },
            environment: Values::new(),
            bounds: Vec::new(),
        }
    }
}

/// Returns the parameters of the kernel's command line that change what is measured.
fn parameters(line: &str) -> String {
    let matters = |word: &&str| PARAMETERS.iter().any(|start| word.starts_with(start));
    line.split_whitespace().filter(matters).collect::<Vec<_>>().join(" ")
}

/// A short file's text, without what is around it.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim().to_owned();
    (!text.is_empty() && text.len() <= LONGEST).then_some(text)
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Reads the files of a folder, among these, that are there.
fn values<'a>(folder: &Path, files: impl IntoIterator<Item = &'a str>) -> Values {
    let value = |file: &str| Some((file.to_owned(), text(&folder.join(file))?));
    files.into_iter().filter_map(value).collect()
}

fn container(root: &Path) -> Vec<String> {
    let files = [".dockerenv", "run/.containerenv"];
    let there = files.into_iter().filter(|file| root.join(file).exists());
    let mut signs: Vec<String> = there.map(|file| format!("/{file} is there")).collect();
    let group = text(&root.join("proc/1/cgroup")).unwrap_or_default();
    let known = ["docker", "kubepods", "containerd", "libpod", "lxc"];
    signs.extend(
        known
            .iter()
            .filter(|name| group.contains(**name))
            .map(|name| format!("the first process is in a control group of {name}")),
    );
    signs
}

fn modules(folder: &Path) -> BTreeMap<String, Values> {
    let module = |name: &&str| {
        let folder = folder.join(name);
        let mut found = values(&folder, ["version", "srcversion"]);
        let parameters = folder.join("parameters");
        for parameter in names(&parameters) {
            let value = text(&parameters.join(&parameter));
            found.extend(value.map(|value| (format!("parameters/{parameter}"), value)));
        }
        folder.is_dir().then(|| ((*name).to_owned(), found))
    };
    MODULES.iter().filter_map(module).collect()
}

fn cards(folder: &Path) -> BTreeMap<String, Values> {
    let is_card = |name: &String| {
        let number = name.strip_prefix("card").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let card = |name: String| {
        let device = folder.join(&name).join("device");
        let mut found = values(&device, CARD);
        for firmware in names(&device.join("fw_version")) {
            let value = text(&device.join("fw_version").join(&firmware));
            found.extend(value.map(|value| (format!("fw_version/{firmware}"), value)));
        }
        (name, found)
    };
    names(folder).into_iter().filter(is_card).map(card).collect()
}

/// The properties of each node, a name and a value in a line.
fn nodes(folder: &Path) -> BTreeMap<String, Values> {
    let node = |name: String| {
        let mut found = values(&folder.join(&name), ["gpu_id", "name"]);
        let properties = text(&folder.join(&name).join("properties")).unwrap_or_default();
        let pairs = properties.lines().filter_map(|line| line.split_once(' '));
        let pairs = pairs.filter(|(key, _)| !WHICH.contains(key));
        found.extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
        (name, found)
    };
    names(folder).into_iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system with one AMD GPU, as far as files go.
    fn system() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let line = "root=UUID=1234 amdgpu.cwsr_enable=1 ip=10.1.2.3 iommu=pt quiet\n";
        put("proc/cmdline", line);
        put("proc/1/cgroup", "0::/docker/abc\n");
        put("opt/rocm/.info/version", "6.4.3\n");
        put("sys/module/amdgpu/version", "6.12.12\n");
        put("sys/module/amdgpu/parameters/cwsr_enable", "1\n");
        put("sys/class/drm/card0/device/fw_version/mec_fw_version", "0x000000b4\n");
        put("sys/class/drm/card0/device/pp_dpm_sclk", "0: 132Mhz *\n1: 2100Mhz\n");
        put("sys/class/drm/card0-DP-1/device/vendor", "0x1\n");
        put("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 4\nsimd_count 0\n");
        let gpu = "simd_count 320\nsimd_per_cu 4\nnum_xcc 4\ngfx_target_version 90402\n\
                   unique_id 1234567890123456789\n";
        put("sys/class/kfd/kfd/topology/nodes/1/properties", gpu);
        put("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "1234\n");
        put("dev/kfd", "");
        root
    }

    #[test]
    fn all_that_files_tell_is_found() {
        let root = system();
        let facts = Facts::of(root.path());
        assert_eq!(facts.rocm.as_deref(), Some("6.4.3"));
        assert!(facts.container[0].contains("docker"), "{:?}", facts.container);
        assert_eq!(facts.modules["amdgpu"]["parameters/cwsr_enable"], "1");
        assert_eq!(facts.cards.len(), 1, "a connector is no card");
        assert_eq!(facts.cards["card0"]["fw_version/mec_fw_version"], "0x000000b4");
        assert_eq!(facts.nodes["1"]["gpu_id"], "1234");
        assert_eq!(facts.command_line.as_deref(), Some("amdgpu.cwsr_enable=1 iommu=pt"));
        assert!(!facts.nodes["1"].contains_key("unique_id"), "that says which one it is");
        assert_eq!(facts.dev_kfd, "can be opened");
    }

    #[test]
    fn a_system_that_tells_nothing_has_no_facts() {
        let root = tempfile::tempdir().unwrap();
        let facts = Facts::of(root.path());
        assert!(facts.modules.is_empty() && facts.nodes.is_empty() && facts.container.is_empty());
        assert!(facts.dev_kfd.contains("No such file"), "{}", facts.dev_kfd);
    }
}
