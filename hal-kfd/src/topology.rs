//! What the driver says in sysfs: its GPUs, or partitions of them, and how the module is set.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of registers that save and restore moves for each compute unit besides vectors' and LDS:
/// scalar registers, LDS and hardware registers (`kfd_queue.c`, Linux 6.12).
const SCALAR_AND_LDS_BYTES: u64 = 0x4000 + 0x1_0000 + 0x1000;
/// A page.
const PAGE: u64 = 4_096;
/// Bytes of the header of a save area.
const HEADER_BYTES: u64 = 40;

/// Where to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysfs {
    /// The driver's folder.
    pub kfd: PathBuf,
    /// The module's folder.
    pub module: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self { kfd: "/sys/class/kfd/kfd".into(), module: "/sys/module/amdgpu".into() }
    }
}

/// The `amdgpu` module that is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its version, which AMD's own packages have and kernels' do not.
    pub version: Option<String>,
    /// A hash of its source.
    pub source_version: Option<String>,
    /// Its parameters that can be read.
    pub parameters: BTreeMap<String, String>,
}

impl Module {
    fn read(folder: &Path) -> Self {
        let mut parameters = BTreeMap::new();
        for name in names(&folder.join("parameters")).unwrap_or_default() {
            // Some may be read by root only.
            if let Some(value) = text(&folder.join("parameters").join(&name)) {
                parameters.insert(name, value);
            }
        }
        let version = text(&folder.join("version"));
        Self { version, source_version: text(&folder.join("srcversion")), parameters }
    }

    /// A parameter that is a number.
    #[must_use]
    pub fn number(&self, parameter: &str) -> Option<i64> {
        self.parameters.get(parameter)?.parse().ok()
    }

    /// Whether the version, or the source's hash, contains a text.
    #[must_use]
    pub fn has_marker(&self, marker: &str) -> bool {
        let texts = [&self.version, &self.source_version];
        texts.into_iter().flatten().any(|text| text.contains(marker))
    }

    /// The version in words.
    #[must_use]
    pub fn version_text(&self) -> String {
        match (&self.version, &self.source_version) {
            (Some(version), _) => version.clone(),
            (None, Some(source)) => format!("srcversion {source}"),
            (None, None) => "unknown".to_owned(),
        }
    }
}

/// How big a queue's save area is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveArea {
    /// Bytes for each XCC.
    pub bytes_per_xcc: u64,
    /// Whether the driver said so (since Linux 6.12). Otherwise it was computed in the same way.
    pub read: bool,
}

/// A GPU, or a partition of one, which is what a preemption stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The number of its node in the topology.
    pub node: u32,
    /// Its id in the driver's calls.
    pub gpu_id: u32,
    /// The driver's name for it.
    pub name: String,
    /// What the driver says about it, by name.
    pub properties: BTreeMap<String, u64>,
    /// Which partition of its GPU it is, from 0, and how many there are.
    pub partition: (u32, u32),
}

impl Gpu {
    fn property(&self, name: &str) -> u64 {
        self.properties.get(name).copied().unwrap_or(0)
    }

    /// The version of its instruction set as `90402` for gfx942.
    #[must_use]
    pub fn target_version(&self) -> u32 {
        u32::try_from(self.property("gfx_target_version")).unwrap_or(0)
    }

    /// The same as compilers write it.
    #[must_use]
    pub fn target(&self) -> String {
        let version = self.target_version();
        format!("gfx{}{}{:x}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Accelerator dies (XCC) of this partition. At least 1.
    #[must_use]
    pub fn xccs(&self) -> u32 {
        u32::try_from(self.property("num_xcc")).unwrap_or(1).max(1)
    }

    /// Compute units.
    #[must_use]
    pub fn units(&self) -> u32 {
        let units = self.property("simd_count") / self.property("simd_per_cu").max(1);
        u32::try_from(units).unwrap_or(0)
    }

    /// The PCI address without the function, as `0000:3b:00`.
    #[must_use]
    pub fn pci(&self) -> String {
        let (domain, location) = (self.property("domain"), self.property("location_id"));
        format!("{domain:04x}:{:02x}:{:02x}", location >> 8 & 0xff, location >> 3 & 0x1f)
    }

    /// The save area of a queue on one XCC, or `None` if this GPU has none.
    #[must_use]
    pub fn save_area(&self) -> Option<SaveArea> {
        if let Some(bytes) = self.properties.get("cwsr_size") {
            let area = SaveArea { bytes_per_xcc: *bytes, read: true };
            return (*bytes > 0).then_some(area);
        }
        let bytes_per_xcc = computed_save_bytes(self)?;
        Some(SaveArea { bytes_per_xcc, read: false })
    }

    /// Bytes that a queue whose waves fill this partition has saved; 0 if it cannot.
    #[must_use]
    pub fn context_bytes(&self) -> u64 {
        let area = self.save_area();
        area.map_or(0, |area| area.bytes_per_xcc.saturating_mul(u64::from(self.xccs())))
    }
}

/// What `kfd_queue_ctx_save_restore_size` computes, for gfx9 as it is used here.
fn computed_save_bytes(gpu: &Gpu) -> Option<u64> {
    let version = gpu.target_version();
    if version < 80_001 || gpu.units() == 0 {
        return None;
    }
    let units = u64::from(gpu.units() / gpu.xccs());
    let vectors: u64 = match version {
        90_400..=90_499 | 90_010 | 90_008 => 0x8_0000,
        110_000 | 110_001 | 110_501 | 120_000 | 120_001 => 0x6_0000,
        _ => 0x4_0000,
    };
    let groups = align(units * (vectors + SCALAR_AND_LDS_BYTES));
    let arrays = gpu.property("array_count") / gpu.property("simd_arrays_per_engine").max(1);
    let is_navi = version >= 100_100;
    let waves = if is_navi { units * 32 } else { (units * 40).min(arrays.saturating_mul(512)) };
    let stack = HEADER_BYTES + 8 + waves * if is_navi { 12 } else { 8 };
    let stack = align(stack);
    let limited = if version / 10_000 == 10 { stack.min(0x7000) } else { stack };
    Some(limited + groups)
}

const fn align(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

/// Everything that sysfs says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The GPUs and partitions that this process may see.
    pub gpus: Vec<Gpu>,
    /// The module.
    pub module: Module,
    /// Nodes that may not be read, as in a container with other devices.
    pub hidden: u32,
}

impl Topology {
    /// Reads it. What is missing is left out.
    ///
    /// # Errors
    /// If there is no folder of nodes.
    pub fn read(sysfs: &Sysfs) -> io::Result<Self> {
        let nodes = sysfs.kfd.join("topology/nodes");
        let mut numbers: Vec<u32> =
            names(&nodes)?.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let mut topology = Self { module: Module::read(&sysfs.module), ..Self::default() };
        for node in numbers {
            match read_node(&nodes.join(node.to_string()), node) {
                Ok(Some(gpu)) => topology.gpus.push(gpu),
                Ok(None) => {}
                Err(_) => topology.hidden += 1,
            }
        }
        topology.number_partitions();
        Ok(topology)
    }

    /// A GPU by its id in the driver's calls.
    #[must_use]
    pub fn gpu(&self, gpu_id: u32) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.gpu_id == gpu_id)
    }

    /// Why waves on a GPU are not saved and restored, in words for the user; `None` if they are.
    #[must_use]
    pub fn why_not_saved(&self, gpu: &Gpu) -> Option<String> {
        if self.module.number("cwsr_enable") == Some(0) {
            return Some(
                "save and restore is off; load amdgpu with cwsr_enable=1, its default".to_owned(),
            );
        }
        if gpu.save_area().is_none() {
            return Some(format!("{} cannot save and restore waves", gpu.target()));
        }
        None
    }

    /// Whether queues are scheduled by hardware. `None` if that cannot be read.
    #[must_use]
    pub fn has_hardware_scheduler(&self) -> Option<bool> {
        self.module.number("sched_policy").map(|policy| policy != 2)
    }

    fn number_partitions(&mut self) {
        let places: Vec<String> = self.gpus.iter().map(Gpu::pci).collect();
        for at in 0..places.len() {
            let same = |place: &&String| **place == places[at];
            let before = places[..at].iter().filter(same).count();
            let all = places.iter().filter(same).count();
            self.gpus[at].partition = (before as u32, all as u32);
        }
    }
}

/// A node, unless it is a processor.
fn read_node(folder: &Path, node: u32) -> io::Result<Option<Gpu>> {
    let gpu_id = fs::read_to_string(folder.join("gpu_id"))?;
    let gpu_id = gpu_id.trim().parse().unwrap_or(0);
    if gpu_id == 0 {
        return Ok(None);
    }
    let mut properties = BTreeMap::new();
    for line in fs::read_to_string(folder.join("properties"))?.lines() {
        if let Some((name, value)) = line.trim().split_once(' ')
            && let Ok(value) = value.trim().parse()
        {
            properties.insert(name.to_owned(), value);
        }
    }
    let name = text(&folder.join("name")).unwrap_or_default();
    Ok(Some(Gpu { node, gpu_id, name, properties, partition: (0, 1) }))
}

/// A queue as sysfs has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedQueue {
    /// Its id.
    pub id: u32,
    /// Its GPU.
    pub gpu_id: u32,
    /// Bytes of its ring.
    pub ring_size: u32,
    /// Its kind, where AQL queues read as 0 like PM4 queues.
    pub kind: u32,
}

/// The queues of a process, by its number outside all containers; inside one, this process is
/// listed under a number that it does not know.
///
/// # Errors
/// If the process is not listed.
pub fn listed_queues(sysfs: &Sysfs, pid: u32) -> io::Result<Vec<ListedQueue>> {
    let folder = sysfs.kfd.join("proc").join(pid.to_string()).join("queues");
    let mut queues = Vec::new();
    for name in names(&folder)? {
        let number = |file: &str| text(&folder.join(&name).join(file))?.parse().ok();
        // One that has just gone is left out.
        let (Ok(id), Some(gpu_id), Some(ring_size), Some(kind)) =
            (name.parse(), number("gpuid"), number("size"), number("type"))
        else {
            continue;
        };
        queues.push(ListedQueue { id, gpu_id, ring_size, kind });
    }
    queues.sort_unstable();
    Ok(queues)
}

/// Processes with queues, by their numbers outside all containers.
///
/// # Errors
/// If there is no such folder.
pub fn listed_processes(sysfs: &Sysfs) -> io::Result<Vec<u32>> {
    let names = names(&sysfs.kfd.join("proc"))?;
    let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.collect())
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Properties of an MI308X as a kernel before 6.12 lists them.
    pub(crate) const MI308X: &str = "simd_count 320\nsimd_per_cu 4\narray_count 16\n\
        simd_arrays_per_engine 1\ngfx_target_version 90402\nnum_xcc 4\nnum_cp_queues 120\n\
        location_id 15104\ndomain 0\n";

    /// A tree with a processor and GPUs with these properties.
    pub(crate) fn tree(gpus: &[&str], parameters: &[(&str, &str)]) -> (tempfile::TempDir, Sysfs) {
        let folder = tempfile::tempdir().expect("there is room");
        let sysfs = Sysfs { kfd: folder.path().join("kfd"), module: folder.path().join("module") };
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("there is room");
            fs::write(path, text).expect("there is room");
        };
        let nodes = sysfs.kfd.join("topology/nodes");
        write(nodes.join("0/gpu_id"), "0\n");
        for (at, properties) in (1..).zip(gpus) {
            let node = nodes.join(at.to_string());
            write(node.join("gpu_id"), &format!("{}\n", 1000 + at));
            write(node.join("name"), "ip discovery\n");
            write(node.join("properties"), properties);
        }
        for (name, value) in parameters {
            write(sysfs.module.join("parameters").join(name), value);
        }
        write(sysfs.module.join("version"), "6.12.12\n");
        for (id, kind) in [(0, 0), (3, 1)] {
            let queue = sysfs.kfd.join(format!("proc/77/queues/{id}"));
            write(queue.join("gpuid"), "1001\n");
            write(queue.join("size"), "16384\n");
            write(queue.join("type"), &format!("{kind}\n"));
        }
        (folder, sysfs)
    }

    #[test]
    fn an_mi308x_is_read() {
        let (_folder, sysfs) = tree(&[MI308X], &[("cwsr_enable", "1\n"), ("sched_policy", "0\n")]);
        let topology = Topology::read(&sysfs).expect("it is there");
        let gpu = topology.gpu(1001).expect("it is there");
        assert_eq!((gpu.target().as_str(), gpu.units(), gpu.xccs()), ("gfx942", 80, 4));
        assert_eq!((gpu.pci().as_str(), gpu.partition), ("0000:3b:00", (0, 1)));
        // What one reports in its queue's descriptor: 0xba4000 + 0x2000.
        let area = gpu.save_area().expect("it saves");
        assert_eq!((area.bytes_per_xcc, area.read), (0xba_6000, false));
        assert_eq!(gpu.context_bytes(), 4 * 0xba_6000);
        assert_eq!(topology.why_not_saved(gpu), None);
        assert_eq!(topology.has_hardware_scheduler(), Some(true));
        assert_eq!(topology.module.version_text(), "6.12.12");
    }

    #[test]
    fn what_the_driver_says_goes_before_what_is_computed() {
        let said = format!("{MI308X}cwsr_size 4096\n");
        let none = format!("{MI308X}cwsr_size 0\n");
        let (_folder, sysfs) = tree(&[&said, &none], &[]);
        let topology = Topology::read(&sysfs).expect("it is there");
        assert_eq!(topology.gpus[0].context_bytes(), 4 * 4096);
        assert_eq!(topology.gpus[1].context_bytes(), 0);
        assert!(topology.why_not_saved(&topology.gpus[1]).is_some());
        assert_eq!(topology.has_hardware_scheduler(), None);
        // Two nodes at one address are partitions.
        assert_eq!(topology.gpus[1].partition, (1, 2));
    }

    #[test]
    fn save_and_restore_that_is_off_is_explained() {
        let (_folder, sysfs) = tree(&[MI308X], &[("cwsr_enable", "0\n"), ("sched_policy", "2\n")]);
        let topology = Topology::read(&sysfs).expect("it is there");
        let why = topology.why_not_saved(&topology.gpus[0]).expect("it is off");
        assert!(why.contains("cwsr_enable=1"), "{why}");
        assert_eq!(topology.has_hardware_scheduler(), Some(false));
    }

    #[test]
    fn nonsense_in_files_is_left_out() {
        let nonsense = "simd_count\nsimd_per_cu zero\ngfx_target_version -1\nnum_xcc \u{fffd}\n";
        let (_folder, sysfs) = tree(&[nonsense], &[]);
        let topology = Topology::read(&sysfs).expect("it is there");
        let gpu = &topology.gpus[0];
        assert_eq!((gpu.units(), gpu.xccs(), gpu.context_bytes()), (0, 1, 0));
        fs::remove_file(sysfs.kfd.join("topology/nodes/1/properties")).expect("it is there");
        let topology = Topology::read(&sysfs).expect("it is there");
        assert_eq!((topology.gpus.len(), topology.hidden), (0, 1));
        let nowhere = Sysfs { kfd: "/nowhere".into(), module: "/nowhere".into() };
        assert!(Topology::read(&nowhere).is_err());
    }

    #[test]
    fn queues_are_listed() {
        let (_folder, sysfs) = tree(&[], &[]);
        let queues = listed_queues(&sysfs, 77).expect("it is there");
        assert_eq!(
            queues.iter().map(|queue| (queue.id, queue.kind)).collect::<Vec<_>>(),
            [(0, 0), (3, 1)]
        );
        assert_eq!(listed_processes(&sysfs).expect("it is there"), [77]);
        assert!(listed_queues(&sysfs, 78).is_err());
    }
}
