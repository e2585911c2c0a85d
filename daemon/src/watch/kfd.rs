//! AMD's kernel driver, by its folders in sysfs.

use std::collections::BTreeSet;
use std::fs;

use xsched_hal_kfd::topology::{Gpu, Sysfs, Topology, listed_queues};

use super::{Lister, Process, Seen};

/// Number of looks after which the GPUs are read again.
const AGAIN: u32 = 60;
/// Processes that are looked at.
const PROCESSES_MAX: usize = 1_024;

/// The processes with queues on AMD's GPUs, by the driver's folders in sysfs. It does not say how
/// much each uses them.
#[derive(Debug, Default)]
pub struct Kfd {
    sysfs: Sysfs,
    topology: Topology,
    /// Looks until the GPUs are read again.
    wait: u32,
}

impl Kfd {
    /// The driver's folders at another place.
    #[must_use]
    pub fn at(sysfs: Sysfs) -> Self {
        Self { sysfs, ..Self::default() }
    }
}

impl Lister for Kfd {
    fn look(&mut self) -> Seen {
        let mut seen = Seen::default();
        let folder = self.sysfs.kfd.join("proc");
        // Without the driver there is no such folder.
        let Ok(entries) = fs::read_dir(folder) else { return seen };
        if self.wait == 0 {
            self.topology = Topology::read(&self.sysfs).unwrap_or_default();
            self.wait = AGAIN;
        }
        self.wait -= 1;
        seen.gpus.extend(self.topology.gpus.iter().map(|gpu| (gpu.pci(), gpu.name.clone())));
        if self.topology.hidden > 0 {
            let hidden = self.topology.hidden;
            seen.unknown.push(format!("processes of {hidden} nodes of AMD's driver: not readable"));
        }
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for pid in pids.take(PROCESSES_MAX) {
            // One that has gone has none.
            let queues = listed_queues(&self.sysfs, pid).unwrap_or_default();
            let gpus: BTreeSet<_> = queues
                .iter()
                .filter_map(|queue| self.topology.gpu(queue.gpu_id))
                .map(Gpu::pci)
                .collect();
            let on = |device| Process { pid, device, permille: None };
            seen.processes.extend(gpus.into_iter().map(on));
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn queue(root: &Path, pid: u32, id: u32, gpu: u32) {
        for (file, text) in [("gpuid", gpu), ("size", 4_096), ("type", 0)] {
            write(root, &format!("proc/{pid}/queues/{id}/{file}"), &format!("{text}\n"));
        }
    }

    #[test]
    fn processes_with_queues_are_listed_once_for_each_gpu() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let sysfs = Sysfs { kfd: root.to_owned(), module: root.join("module") };
        let mut kfd = Kfd::at(sysfs);
        assert_eq!(kfd.look(), Seen::default());
        write(root, "topology/nodes/0/gpu_id", "0\n");
        for (node, gpu, location) in [(1, 77, 0x3b00), (2, 78, 0x5e00)] {
            write(root, &format!("topology/nodes/{node}/gpu_id"), &format!("{gpu}\n"));
            let properties = format!("simd_count 320\ndomain 0\nlocation_id {location}\n");
            write(root, &format!("topology/nodes/{node}/properties"), &properties);
            write(root, &format!("topology/nodes/{node}/name"), "mi308x\n");
        }
        queue(root, 500, 0, 77);
        queue(root, 500, 1, 77);
        queue(root, 500, 2, 78);
        // No queue, and one on a GPU that is not known.
        fs::create_dir_all(root.join("proc/501/queues")).expect("a folder");
        queue(root, 502, 0, 99);
        let mut seen = kfd.look();
        seen.processes.sort_by(|a, b| (a.pid, &a.device).cmp(&(b.pid, &b.device)));
        let on = |device: &str| Process { pid: 500, device: device.to_owned(), permille: None };
        assert_eq!(seen.processes, [on("0000:3b:00"), on("0000:5e:00")]);
        assert_eq!(seen.gpus["0000:3b:00"], "mi308x");
    }
}
