//! What metrics say, as the thread knows it.

use std::collections::BTreeMap;

use xsched_core::id::DeviceId;
use xsched_core::time::Instant;
use xsched_node::{ClientStatus, GpuStatus, Place};

use super::Driver;
use super::account::Histogram;
use super::unit::Unit;

/// Pairs of a GPU and a tenant that totals are kept of. Those of further tenants are counted
/// together, as of the tenant [`OTHERS`].
const TOTALS_MAX: usize = 1_024;
/// Stands for the tenants that there is no room for.
const OTHERS: &str = "(others)";
/// Entries of processes that metrics have: of those that have been connected for the longest.
const PROCESSES_MAX: usize = 512;

/// What metrics say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) policy: &'static str,
    pub(crate) gpus: Vec<GpuStatus>,
    /// With the numbers of their connections.
    pub(crate) processes: Vec<(u64, ClientStatus)>,
    /// How many processes are connected, and how many processes on GPUs there are.
    pub(crate) clients: u64,
    pub(crate) units: u64,
    /// By the names of GPUs and of tenants.
    pub(crate) totals: BTreeMap<(String, String), Total>,
    pub(crate) now: BTreeMap<(String, String), Present>,
    /// Times the policy was asked.
    pub(crate) decisions: u64,
    /// Orders to run and to hold.
    pub(crate) orders: u64,
    /// Times the thread woke.
    pub(crate) wakeups: u64,
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
    fn add(&mut self, unit: &Unit) {
        self.processes += 1;
        self.running += u64::from(unit.runs());
        self.held += u64::from(unit.is_loaded() && unit.is_closed());
        self.queues = self.queues.saturating_add(unit.queues().into());
    }
}

/// What a tenant's processes on a GPU come to, also those that have left.
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
    fn of(unit: &Unit, now: Instant) -> Self {
        let account = &unit.account;
        Self {
            device_ns: unit.used().as_ns(),
            holds: unit.holds,
            waited_ns: account.waited(now).as_ns(),
            retired: unit.retired(),
            past: unit.past_since(),
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
pub(crate) struct Totals(BTreeMap<(DeviceId, String), Total>);

impl Totals {
    /// Adds what was counted of a process, but for what an earlier tenant of it has.
    pub(super) fn add(&mut self, tenant: &str, unit: &Unit, now: Instant) {
        let mut total = Total::of(unit, now);
        if let Some(told) = &unit.told {
            // What a process says may be any number.
            total.combine(told, u64::saturating_sub);
        }
        self.entry(tenant, unit.device).combine(&total, u64::saturating_add);
    }

    /// The number of a GPU becomes that of another.
    pub(super) fn forget(&mut self, device: DeviceId) {
        self.0.retain(|(of, _), _| *of != device);
    }

    fn entry(&mut self, tenant: &str, device: DeviceId) -> &mut Total {
        let key = (device, tenant.to_owned());
        let has_room = self.0.len() < TOTALS_MAX || self.0.contains_key(&key);
        let key = if has_room { key } else { (device, OTHERS.to_owned()) };
        self.0.entry(key).or_default()
    }
}

impl Driver {
    /// A process has another tenant from now on: what it did so far stays with this one.
    pub(super) fn close_totals(&mut self, id: u64, tenant: &str, now: Instant) {
        let Some(client) = self.clients.get(&id) else { return };
        for key in &client.units {
            let Some(unit) = self.units.get(*key) else { continue };
            self.ended.add(tenant, unit, now);
            let told = Total::of(unit, now);
            self.units.change(*key, |unit| unit.told = Some(Box::new(told)));
        }
    }

    /// What metrics say.
    pub(super) fn figures(&self, now: Instant) -> Figures {
        let mut totals = self.ended.clone();
        let mut present = BTreeMap::<(String, String), Present>::new();
        for client in self.clients.values() {
            let tenant = &client.rights.party.tenant.name;
            for unit in client.units.iter().filter_map(|key| self.units.get(*key)) {
                totals.add(tenant, unit, now);
                let gpu = self.devices.name(unit.device).to_owned();
                present.entry((gpu, tenant.clone())).or_default().add(unit);
            }
        }
        let named = |((device, tenant), total): ((DeviceId, String), Total)| {
            ((self.devices.name(device).to_owned(), tenant), total)
        };
        let stats = self.machine.stats();
        let (entries, _) = self.entries(|_| true, Place::default(), PROCESSES_MAX, now);
        Figures {
            policy: self.policy,
            gpus: self.gpus(|_| true),
            processes: entries.into_iter().map(|e| (e.place.connection, e.client)).collect(),
            clients: self.clients.len() as u64,
            units: self.units.all().count() as u64,
            totals: totals.0.into_iter().map(named).collect(),
            now: present,
            decisions: stats.decisions,
            orders: stats.orders,
            wakeups: self.wakeups,
        }
    }
}
