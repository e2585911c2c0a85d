//! Figures for metrics, as the scheduler knows them.

use std::collections::BTreeMap;

use xsched_core::id::DeviceId;
use xsched_core::time::Instant;
use xsched_node::Place;

use super::super::figures::{Figures, Present, Total};
use super::Driver;

/// Entries of processes that metrics have: of those that have been connected for the longest.
const PROCESSES_MAX: usize = 512;

impl Driver {
    /// A process has another tenant from now on: what it did so far stays with this one.
    pub(super) fn close_totals(&mut self, id: u64, tenant: &str, now: Instant) {
        let Some(client) = self.clients.get(&id) else { return };
        for gpu_client in client.gpu_clients.iter().filter_map(|key| self.gpu_clients.get(*key)) {
            self.ended.close(tenant, gpu_client, now);
        }
    }

    /// Returns the figures of metrics.
    pub(super) fn figures(&self, now: Instant) -> Figures {
        let mut totals = self.ended.clone();
        let mut present = BTreeMap::<(String, String), Present>::new();
        for client in self.clients.values() {
            let tenant = &client.rights.party.tenant.name;
            for gpu_client in client.gpu_clients.iter().filter_map(|key| self.gpu_clients.get(*key))
            {
                totals.add(tenant, gpu_client, now);
                let gpu = self.devices.name(gpu_client.device).to_owned();
                present.entry((gpu, tenant.clone())).or_default().add(gpu_client);
            }
        }
        let named = |((device, tenant), total): ((DeviceId, String), Total)| {
            ((self.devices.name(device).to_owned(), tenant), total)
        };
        let stats = self.machine.stats();
        let (entries, _) = self.entries(|_| true, Place::default(), PROCESSES_MAX, now);
        Figures {
            policy: self.policy,
            gpus: self.gpus(|_| true).into_iter().map(|(gpu, _)| gpu).collect(),
            processes: entries.into_iter().map(|e| (e.place.connection, e.client)).collect(),
            clients: self.clients.len() as u64,
            gpu_clients: self.gpu_clients.len() as u64,
            totals: totals.by_tenant.into_iter().map(named).collect(),
            now: present,
            decisions: stats.decisions,
            orders: stats.orders,
            floor_permille: self.machine.floor_permille(),
            slices: stats.slices,
            passed_over: stats.passed_over,
            wakeups: self.wakeups,
        }
    }
}
