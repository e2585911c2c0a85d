//! The driver's GPUs or partitions, queues and module parameters, from sysfs.

mod gpu;
mod module;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use gpu::{Gpu, SaveArea};
pub use module::Module;

/// The driver's folders in sysfs.
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

/// The driver's GPUs and module, as sysfs lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The GPUs and partitions that this process may see.
    pub gpus: Vec<Gpu>,
    /// The module.
    pub module: Module,
    /// The number of nodes that may not be read, as in a container with other devices.
    pub hidden: u32,
}

impl Topology {
    /// Reads the topology. Missing files are left out.
    ///
    /// # Errors
    /// The system's error, if there is no folder of nodes.
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

    /// Why waves on a GPU are not saved and restored, as text for the user; `None` if they are.
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

    /// True if queues are scheduled by hardware. `None` if that cannot be read.
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

/// A queue in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedQueue {
    /// Id.
    pub id: u32,
    /// GPU.
    pub gpu_id: u32,
    /// Bytes of its ring.
    pub ring_size: u32,
    /// Kind. AQL queues read as 0, like PM4 queues.
    pub kind: u32,
}

/// The queues of a process, by its number outside all containers. A process inside a container is
/// listed under a number that it does not know.
///
/// # Errors
/// The system's error, if the process is not listed.
pub fn listed_queues(sysfs: &Sysfs, pid: u32) -> io::Result<Vec<ListedQueue>> {
    let folder = sysfs.kfd.join("proc").join(pid.to_string()).join("queues");
    let mut queues = Vec::new();
    for name in names(&folder)? {
        let number = |file: &str| text(&folder.join(&name).join(file))?.parse().ok();
        // A queue that was just destroyed is left out.
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

/// The processes with queues, by their numbers outside all containers.
///
/// # Errors
/// The system's error, if there is no such folder.
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
        // An MI308X reports this in its queue's descriptor: 0xba4000 + 0x2000.
        let area = gpu.save_area().expect("it saves");
        assert_eq!((area.bytes_per_xcc, area.read), (0xba_6000, false));
        assert_eq!(gpu.context_bytes(), 4 * 0xba_6000);
        assert_eq!(topology.why_not_saved(gpu), None);
        assert_eq!(topology.has_hardware_scheduler(), Some(true));
        assert_eq!(topology.module.version_text(), "6.12.12");
    }

    #[test]
    fn a_listed_save_area_overrides_the_computed_one() {
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
    fn unreadable_properties_are_left_out() {
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
