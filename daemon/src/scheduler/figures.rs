//! Figures of metrics, as the thread knows them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xsched_core::id::DeviceId;
use xsched_core::time::Instant;
use xsched_node::{ClientStatus, GpuStatus};

use super::account::Histogram;
use super::gpu_client::GpuClient;

/// Pairs of a GPU and a tenant that totals are kept of. Those of further tenants are counted
/// together, as of the tenant [`OTHERS`].
const TOTALS_MAX: usize = 1_024;
/// Stands for the tenants and GPUs that there is no room for.
const OTHERS: &str = "(others)";

/// Figures of metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) policy: &'static str,
    pub(crate) gpus: Vec<GpuStatus>,
    /// With the numbers of their connections.
    pub(crate) processes: Vec<(u64, ClientStatus)>,
    /// How many processes are connected, and how many processes on GPUs there are.
    pub(crate) clients: u64,
    pub(crate) gpu_clients: u64,
    /// By the names of GPUs and of tenants.
    pub(crate) totals: BTreeMap<(String, String), Total>,
    pub(crate) now: BTreeMap<(String, String), Present>,
    /// Times the policy was asked.
    pub(crate) decisions: u64,
    /// Part that processes below the highest priority keep, slices that they had for it, and
    /// processes that were passed over.
    pub(crate) floor_permille: u16,
    pub(crate) slices: u64,
    pub(crate) passed_over: u64,
    /// Orders to run and to hold.
    pub(crate) orders: u64,
    /// Times the thread woke.
    pub(crate) wakeups: u64,
}

impl Figures {
    /// Counts GPUs as one, [`OTHERS`], that no driver lists, beyond the first `max` of them.
    pub(crate) fn merge_gpus(&mut self, max: usize, is_listed: impl Fn(&str) -> bool) {
        let of_totals = self.totals.keys().map(|(gpu, _)| gpu);
        let of_gpus = self.gpus.iter().map(|gpu| &gpu.device);
        let mut own = BTreeSet::new();
        for gpu in of_gpus.chain(of_totals).filter(|gpu| !is_listed(gpu)) {
            if own.len() < max {
                own.insert(gpu.clone());
            }
        }
        let name = |gpu: String| {
            if is_listed(&gpu) || own.contains(&gpu) { gpu } else { OTHERS.to_owned() }
        };
        let mut gpus = Vec::<GpuStatus>::new();
        for gpu in std::mem::take(&mut self.gpus) {
            let device = name(gpu.device);
            match gpus.iter_mut().find(|known| known.device == device) {
                Some(known) => {
                    known.clients += gpu.clients;
                    known.waiting += gpu.waiting;
                    known.running_others += gpu.running_others + gpu.running.len() as u32;
                }
                None => gpus.push(GpuStatus { device, ..gpu }),
            }
        }
        self.gpus = gpus;
        for ((gpu, tenant), total) in std::mem::take(&mut self.totals) {
            let merged = self.totals.entry((name(gpu), tenant)).or_default();
            merged.combine(&total, u64::saturating_add);
        }
        for ((gpu, tenant), present) in std::mem::take(&mut self.now) {
            self.now.entry((name(gpu), tenant)).or_default().combine(present);
        }
        for (_, process) in &mut self.processes {
            process.device = name(std::mem::take(&mut process.device));
        }
    }
}

/// A tenant's processes on a GPU as they are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) processes: u64,
    /// With work that may run, and with work that is held.
    pub(crate) running: u64,
    pub(crate) held: u64,
    /// Queues with work, as they say.
    pub(crate) queues: u64,
}

impl Present {
    fn combine(&mut self, other: Self) {
        self.processes += other.processes;
        self.running += other.running;
        self.held += other.held;
        self.queues = self.queues.saturating_add(other.queues);
    }

    pub(super) fn add(&mut self, gpu_client: &GpuClient) {
        self.processes += 1;
        self.running += u64::from(gpu_client.is_running());
        self.held += u64::from(gpu_client.is_ready() && gpu_client.is_held());
        self.queues = self.queues.saturating_add(gpu_client.queues().into());
    }
}

/// Totals of a tenant's processes on a GPU, also of those that have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) device_ns: u64,
    pub(crate) holds: u64,
    pub(crate) waited_ns: u64,
    pub(crate) retired: u64,
    pub(crate) past: u64,
    pub(crate) leases_lost: u64,
    /// From the begin of work until it could run.
    pub(crate) wait_times: Histogram,
    /// From a hold of work until it could run again.
    pub(crate) hold_times: Histogram,
    /// From a hold of work until the last of it retired that could not be held back.
    pub(crate) quiet_times: Histogram,
}

impl Total {
    fn of(gpu_client: &GpuClient, now: Instant) -> Self {
        let account = &gpu_client.account;
        let [retired, past] = gpu_client.claims(now);
        Self {
            device_ns: gpu_client.used().as_ns(),
            holds: gpu_client.holds,
            waited_ns: account.waited(now).as_ns(),
            retired,
            past,
            leases_lost: account.leases_lost(),
            wait_times: *account.wait_times(),
            hold_times: *account.hold_times(),
            quiet_times: *account.quiet_times(),
        }
    }

    /// Combines each count with that of another one.
    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        for (count, more) in [
            (&mut self.device_ns, other.device_ns),
            (&mut self.holds, other.holds),
            (&mut self.waited_ns, other.waited_ns),
            (&mut self.retired, other.retired),
            (&mut self.past, other.past),
            (&mut self.leases_lost, other.leases_lost),
        ] {
            *count = with(*count, more);
        }
        self.wait_times.combine(&other.wait_times, with);
        self.hold_times.combine(&other.hold_times, with);
        self.quiet_times.combine(&other.quiet_times, with);
    }
}

/// Totals by GPU and tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(super) by_tenant: BTreeMap<(DeviceId, String), Total>,
    /// By the keys of processes, what is counted as an earlier tenant's.
    told: HashMap<u32, Total>,
}

impl Totals {
    /// Adds what was counted of a process, but for what an earlier tenant of it has.
    pub(super) fn add(&mut self, tenant: &str, gpu_client: &GpuClient, now: Instant) {
        let mut total = Total::of(gpu_client, now);
        if let Some(told) = self.told.get(&gpu_client.key()) {
            total.combine(told, u64::saturating_sub);
        }
        self.entry(tenant, gpu_client.device).combine(&total, u64::saturating_add);
    }

    /// Adds what was counted of a process, which has another tenant from now on.
    pub(super) fn close(&mut self, tenant: &str, gpu_client: &GpuClient, now: Instant) {
        self.add(tenant, gpu_client, now);
        self.told.insert(gpu_client.key(), Total::of(gpu_client, now));
    }

    /// Adds what was counted of a process that has left.
    pub(super) fn end(&mut self, tenant: &str, gpu_client: &GpuClient, now: Instant) {
        self.add(tenant, gpu_client, now);
        self.told.remove(&gpu_client.key());
    }

    /// Forgets a GPU whose number becomes that of another.
    pub(super) fn forget(&mut self, device: DeviceId) {
        self.by_tenant.retain(|(of, _), _| *of != device);
    }

    /// Forgets a tenant that is no more, so that those of jobs do not fill the table.
    pub(super) fn forget_tenant(&mut self, tenant: &str) {
        self.by_tenant.retain(|(_, of), _| of != tenant);
    }

    fn entry(&mut self, tenant: &str, device: DeviceId) -> &mut Total {
        let key = (device, tenant.to_owned());
        let has_room = self.by_tenant.len() < TOTALS_MAX || self.by_tenant.contains_key(&key);
        let key = if has_room { key } else { (device, OTHERS.to_owned()) };
        self.by_tenant.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_is_no_more_makes_room_for_others() {
        let mut totals = Totals::default();
        for job in 0..TOTALS_MAX {
            totals.entry(&format!("job {job}"), DeviceId(0)).holds = 1;
        }
        totals.entry("late", DeviceId(0)).holds = 2;
        assert!(totals.by_tenant.contains_key(&(DeviceId(0), OTHERS.to_owned())));
        totals.forget_tenant("job 7");
        totals.forget_tenant(OTHERS);
        totals.entry("late", DeviceId(0)).holds = 3;
        let late = totals.by_tenant.get(&(DeviceId(0), "late".to_owned()));
        assert_eq!((late.map(|total| total.holds), totals.by_tenant.len()), (Some(3), TOTALS_MAX));
    }

    #[test]
    fn gpus_that_no_driver_lists_are_counted_together_beyond_a_number_of_them() {
        let of = |name: &str| (name.to_owned(), "tenant".to_owned());
        let total = Total { holds: 1, ..Total::default() };
        let present = Present { processes: 2, ..Present::default() };
        let names = ["real", "a", "b", "c", "d"];
        let gpu = |name: &&str| GpuStatus {
            device: (*name).to_owned(),
            clients: 2,
            ..GpuStatus::default()
        };
        let mut figures = Figures {
            gpus: names.iter().map(gpu).collect(),
            totals: names.iter().map(|name| (of(name), total)).collect(),
            now: names.iter().map(|name| (of(name), present)).collect(),
            ..Figures::default()
        };
        figures.merge_gpus(2, |name| name == "real");
        let shown: Vec<_> = figures.gpus.iter().map(|gpu| (&*gpu.device, gpu.clients)).collect();
        assert_eq!(shown, [("real", 2), ("a", 2), ("b", 2), (OTHERS, 4)]);
        assert_eq!((figures.totals.len(), figures.totals[&of(OTHERS)].holds), (4, 2));
        assert_eq!(figures.now[&of(OTHERS)].processes, 4);
    }
}
