//! Queues of other processes on an AMD GPU.

use serde::Serialize;
use xsched_hal_kfd::topology::{ListedQueue, Sysfs, listed_processes, listed_queues};

use crate::device::LabError;

/// A process with a queue on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Tenant {
    /// The process, in the first namespace of process numbers, whatever namespace this is.
    pub(crate) process: u32,
    /// The queue.
    pub(crate) queue: u32,
    /// The driver's number of the GPU.
    pub(crate) gpu: u32,
}

/// All queues of all processes, in order.
pub(crate) fn queues(sysfs: &Sysfs) -> Result<Vec<Tenant>, LabError> {
    let unread = |error| {
        LabError::new(format!(
            "{} cannot be read, so other users of the GPU are unknown: {error}",
            sysfs.kfd.join("proc").display()
        ))
    };
    let mut found = Vec::new();
    for process in listed_processes(sysfs).map_err(unread)? {
        // A process may have ended meanwhile.
        let queues = listed_queues(sysfs, process).unwrap_or_default();
        let tenant = |queue: ListedQueue| Tenant { process, queue: queue.id, gpu: queue.gpu_id };
        found.extend(queues.into_iter().map(tenant));
    }
    found.sort();
    Ok(found)
}

/// Fails if other processes have queues on the device.
pub(crate) fn alone(tenants: Result<Vec<Tenant>, LabError>) -> Result<(), LabError> {
    let tenants = tenants?;
    let mut processes: Vec<u32> = tenants.iter().map(|tenant| tenant.process).collect();
    processes.dedup();
    if processes.is_empty() {
        return Ok(());
    }
    Err(LabError::new(format!(
        "{} queues of other processes are on this GPU (process numbers of the host {processes:?}); \
         an interrupt stops them as well, so end them or use another GPU",
        tenants.len()
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn at(root: &Path) -> Sysfs {
        Sysfs { kfd: root.to_owned(), ..Sysfs::default() }
    }

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn queues_of_all_processes_are_found() {
        let root = tempfile::tempdir().unwrap();
        for (queue, gpu) in [("17/queues/0", "1234"), ("17/queues/3", "99"), ("4/queues/1", "1234")]
        {
            for (file, text) in [("gpuid", gpu), ("size", "4096"), ("type", "0")] {
                put(root.path(), &format!("proc/{queue}/{file}"), text);
            }
        }
        put(root.path(), "proc/5/pasid", "1\n");
        let found = queues(&at(root.path())).unwrap();
        let found: Vec<_> = found.iter().map(|t| (t.process, t.queue, t.gpu)).collect();
        assert_eq!(found, [(4, 1, 1234), (17, 0, 1234), (17, 3, 99)]);
    }

    #[test]
    fn a_driver_that_is_not_there_is_an_error() {
        let error = queues(&at(Path::new("/nowhere"))).unwrap_err().to_string();
        assert!(error.contains("other users of the GPU are unknown"), "{error}");
    }
    #[test]
    fn queues_of_other_processes_are_refused() {
        assert_eq!(alone(Ok(Vec::new())), Ok(()));
        let tenant = |process, queue| Tenant { process, queue, gpu: 1 };
        let error = alone(Ok(vec![tenant(7, 0), tenant(7, 1), tenant(9, 0)])).unwrap_err();
        assert!(error.to_string().contains("3 queues") && error.to_string().contains("[7, 9]"));
        assert!(alone(Err(LabError::new("unread"))).is_err());
    }
}
