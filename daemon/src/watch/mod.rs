//! Work that runs past the daemon: processes on GPUs that it does not know, and processes that use
//! more of a GPU than they report, by the lists and the accounting of drivers.
//!
//! A thread of its own looks once a second. It asks drivers, which may take long; the scheduler's
//! thread gives it its figures and waits for nothing.

mod compare;
mod kfd;
mod nvml;
mod processes;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use xsched_node::{ClientStatus, GpuStatus, Outsider, Status};

use crate::scheduler::Op;
use crate::scheduler_client::SchedulerClient;
use crate::tenant::{Party, Tenant};
use crate::waker::new_eventfd;
use compare::Comparer;
pub use kfd::Kfd;
pub use nvml::Nvml;
pub use xsched_hal_kfd::topology::Sysfs;

/// How often drivers are asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// A process on a GPU, as a driver lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process number outside all containers.
    pub pid: u32,
    /// The GPU's PCI id without the function, as `0000:1b:00`.
    pub device: String,
    /// For how much of the last second it used the GPU, 0 to 1000, if the driver counts that.
    pub permille: Option<u32>,
}

/// Answer of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The GPUs whose processes it lists, by their PCI ids, with their names.
    pub gpus: BTreeMap<String, String>,
    /// The processes on them.
    pub processes: Vec<Process>,
    /// Facts that the driver cannot tell, and why.
    pub unknown: Vec<String>,
}

/// A driver that lists the processes on its GPUs.
pub trait Lister: Send {
    /// Returns what the driver says now.
    fn look(&mut self) -> Seen;
}

/// Drivers that are asked who uses GPUs.
pub struct Drivers {
    /// The drivers.
    pub listers: Vec<Box<dyn Lister>>,
    /// Has the folder `proc` of processes.
    pub root: PathBuf,
    /// How often they are asked.
    pub interval: Duration,
}

impl Drivers {
    /// The drivers of this machine.
    #[must_use]
    pub fn here() -> Self {
        let listers: Vec<Box<dyn Lister>> =
            vec![Box::new(Nvml::default()), Box::new(Kfd::default())];
        Self { listers, root: "/".into(), interval: INTERVAL }
    }
}

impl std::fmt::Debug for Drivers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} drivers", self.listers.len())
    }
}

/// Findings about what runs past the daemon.
#[derive(Clone, Debug, Default)]
struct Findings {
    /// The names of GPUs whose processes are known.
    names: BTreeMap<String, String>,
    /// Processes that the daemon does not know, with whom they belong to if that can be read.
    outsiders: Vec<(Outsider, Option<Party>)>,
    /// By process and GPU: how much the driver says, and whether that is clearly more than the
    /// process reports.
    clients: BTreeMap<(i32, String), (u32, bool)>,
    unknown: Vec<String>,
    /// Warnings that are to be written into the log.
    warnings: Vec<String>,
    /// Set after the first look.
    is_known: bool,
}

/// Findings of the thread's last look, for those who tell others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    findings: Arc<Mutex<Findings>>,
    tenants: Arc<Mutex<Vec<Arc<Tenant>>>>,
}

impl Watched {
    fn findings(&self) -> MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the tenants from now on.
    pub(crate) fn set_tenants(&self, tenants: &[Arc<Tenant>]) {
        *self.tenants.lock().unwrap_or_else(PoisonError::into_inner) = tenants.to_vec();
    }

    pub(crate) fn tenants(&self) -> Vec<Arc<Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// No thread looks any more.
    pub(crate) fn forget(&self) {
        *self.findings() = Findings::default();
    }

    /// Adds to a process what a driver says of it.
    pub(crate) fn tell_client(&self, client: &mut ClientStatus) {
        let found = self.findings().clients.get(&(client.pid, client.device.clone())).copied();
        client.driver_permille = found.map(|(permille, _)| permille);
        client.is_understated = found.is_some_and(|(_, is_more)| is_more);
    }

    /// Returns whether a driver has this GPU.
    pub(crate) fn has_gpu(&self, device: &str) -> bool {
        self.findings().names.contains_key(device)
    }

    /// Adds the GPUs' names, and GPUs that no process of the daemon has named.
    pub(crate) fn tell_gpus(&self, gpus: &mut Vec<GpuStatus>) {
        for (device, name) in &self.findings().names {
            match gpus.iter_mut().find(|gpu| gpu.device == *device) {
                Some(gpu) => gpu.name.clone_from(name),
                None => gpus.push(GpuStatus {
                    device: device.clone(),
                    name: name.clone(),
                    ..GpuStatus::default()
                }),
            }
        }
    }

    /// The processes that the daemon does not know, as far as they may be seen, and what cannot be
    /// said of them. Those of whom it is not known who they are see administrators alone.
    pub(crate) fn outsiders(
        &self,
        may_see: impl Fn(Option<&Party>) -> bool,
    ) -> (Vec<Outsider>, Vec<String>) {
        let findings = self.findings();
        let seen = findings.outsiders.iter().filter(|(_, party)| may_see(party.as_ref()));
        (seen.map(|(outsider, _)| outsider.clone()).collect(), findings.unknown.clone())
    }

    /// Adds to a status what is not about the daemon's processes.
    pub(crate) fn tell(&self, status: &mut Status, may_see: impl Fn(Option<&Party>) -> bool) {
        if !self.findings().is_known {
            return;
        }
        self.tell_gpus(&mut status.gpus);
        (status.outsiders, status.outsiders_unknown) = self.outsiders(may_see);
        let findings = self.findings();
        let unlisted = status.gpus.iter().filter(|gpu| !findings.names.contains_key(&gpu.device));
        status.outsiders_unknown.extend(unlisted.map(|gpu| {
            format!("processes on {} past the daemon: no driver lists them", gpu.device)
        }));
    }
}

/// The thread that looks. Dropped, it ends after at most one look, which is not waited for.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<OwnedFd>,
}

impl Watch {
    /// Starts to ask drivers.
    ///
    /// # Errors
    /// If the system gives no thread or file descriptor.
    pub(crate) fn start(
        scheduler: SchedulerClient,
        watched: Watched,
        drivers: Drivers,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(new_eventfd()?);
        let stopped = Arc::clone(&stop);
        let run = move || watch(&scheduler, &watched, drivers, &stopped);
        thread::Builder::new().name("watch".to_owned()).spawn(run)?;
        Ok(Self { stop })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }
}

fn watch(scheduler: &SchedulerClient, watched: &Watched, mut drivers: Drivers, stop: &OwnedFd) {
    let mut comparer = Comparer::new(drivers.root);
    loop {
        let mut seen = Seen::default();
        for driver in &mut drivers.listers {
            let more = driver.look();
            seen.gpus.extend(more.gpus);
            seen.processes.extend(more.processes);
            seen.unknown.extend(more.unknown);
        }
        // Without processes there is nothing to compare.
        let known = if seen.processes.is_empty() { Some(Vec::new()) } else { scheduler.known() };
        // Without an answer, the next look may have one.
        if let Some(known) = known {
            let mut findings = comparer.compare(seen, &known, &watched.tenants());
            findings.warnings.drain(..).for_each(|warning| tracing::warn!("{warning}"));
            let more = findings.clients.iter().filter(|(_, (_, is_more))| *is_more);
            let more: Vec<_> = more.map(|((pid, _), _)| *pid).collect();
            if !more.is_empty() {
                scheduler.send(Op::Understated(more));
            }
            let mut last = watched.findings();
            // What ends this thread has them forgotten after that.
            if is_told_to_stop(stop, Duration::ZERO) {
                return;
            }
            *last = findings;
        }
        if is_told_to_stop(stop, drivers.interval) {
            return;
        }
    }
}

/// Waits until told to stop, for `wait` at most.
fn is_told_to_stop(stop: &OwnedFd, wait: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
    let time = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
}
