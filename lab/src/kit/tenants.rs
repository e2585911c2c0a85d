//! Whose queues are on an AMD GPU.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::bench::LabError;

/// Where the AMD kernel driver says what it has.
pub const KFD: &str = "/sys/class/kfd/kfd";

/// A process with a queue on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Tenant {
    /// The process, in the first namespace of process numbers, whatever namespace this is.
    pub process: u32,
    /// The queue.
    pub queue: u32,
    /// The driver's number of the GPU.
    pub gpu: u32,
}

/// All queues of all processes, in order.
///
/// # Errors
/// If the driver's folder cannot be read.
pub fn queues(kfd: &Path) -> Result<Vec<Tenant>, LabError> {
    let processes = kfd.join("proc");
    let unread = |error| {
        LabError::new(format!(
            "{} cannot be read, so nobody knows who else uses the GPU: {error}",
            processes.display()
        ))
    };
    let mut found = Vec::new();
    for process in fs::read_dir(&processes).map_err(unread)?.flatten() {
        let Some(number) = number(&process.file_name().to_string_lossy()) else { continue };
        // A process may have ended meanwhile.
        let queues = fs::read_dir(process.path().join("queues")).into_iter().flatten().flatten();
        for queue in queues {
            let Some(id) = self::number(&queue.file_name().to_string_lossy()) else { continue };
            let gpu = fs::read_to_string(queue.path().join("gpuid")).ok();
            let Some(gpu) = gpu.and_then(|text| self::number(text.trim())) else { continue };
            found.push(Tenant { process: number, queue: id, gpu });
        }
    }
    found.sort();
    Ok(found)
}

/// The driver's number of the GPU at this PCI address, `0000:c1:00.0`.
///
/// # Errors
/// If the driver has none there.
pub fn gpu_at(kfd: &Path, pci: &str) -> Result<u32, LabError> {
    let nodes = fs::read_dir(kfd.join("topology/nodes")).into_iter().flatten().flatten();
    let wanted = address(pci);
    for node in nodes {
        let properties = fs::read_to_string(node.path().join("properties")).unwrap_or_default();
        let property = |name: &str| {
            let mut lines = properties.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(key, _)| *key == name)?.1.trim().parse::<u32>().ok()
        };
        let here = property("location_id").map(|at| (property("domain").unwrap_or(0), at));
        if wanted.is_some() && here == wanted {
            let id = fs::read_to_string(node.path().join("gpu_id")).ok();
            // The processor is a node as well, with number 0.
            if let Some(id) = id.and_then(|text| number(text.trim())).filter(|&id| id != 0) {
                return Ok(id);
            }
        }
    }
    Err(LabError::new(format!("{} has no GPU at {pci}", kfd.display())))
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// Domain and location, as the driver counts them: bus, device and function in one number.
fn address(pci: &str) -> Option<(u32, u32)> {
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let mut parts = pci.split([':', '.']);
    let [domain, bus, device, function] =
        [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    Some((hex(domain)?, hex(bus)? << 8 | hex(device)? << 3 | hex(function)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn queues_of_all_processes_are_found() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/17/queues/0/gpuid", "1234\n");
        put(root.path(), "proc/17/queues/3/gpuid", "99\n");
        put(root.path(), "proc/4/queues/1/gpuid", "1234\n");
        put(root.path(), "proc/4/pasid", "1\n");
        put(root.path(), "proc/5/queues/1/type", "0\n");
        let found = queues(root.path()).unwrap();
        let found: Vec<_> = found.iter().map(|t| (t.process, t.queue, t.gpu)).collect();
        assert_eq!(found, [(4, 1, 1234), (17, 0, 1234), (17, 3, 99)]);
    }

    #[test]
    fn a_driver_that_is_not_there_is_an_error() {
        let error = queues(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("nobody knows who else"), "{error}");
        assert!(gpu_at(Path::new("/nowhere"), "0000:01:00.0").is_err());
    }

    #[test]
    fn a_gpu_is_found_by_its_address() {
        let root = tempfile::tempdir().unwrap();
        let node = |name: &str, id: &str, properties: &str| {
            put(root.path(), &format!("topology/nodes/{name}/gpu_id"), id);
            put(root.path(), &format!("topology/nodes/{name}/properties"), properties);
        };
        node("0", "0\n", "location_id 0\ndomain 0\n");
        node("1", "51\n", "simd_count 320\nlocation_id 49408\ndomain 0\n");
        node("2", "52\n", "location_id 49408\ndomain 1\n");
        assert_eq!(gpu_at(root.path(), "0000:c1:00.0"), Ok(51));
        assert_eq!(gpu_at(root.path(), "0001:C1:00.0"), Ok(52));
        assert!(gpu_at(root.path(), "0000:c2:00.0").is_err());
        assert!(gpu_at(root.path(), "nonsense").is_err());
    }
}
