//! What the scheduler says of the processes.

use xsched_core::time::Instant;
use xsched_node::{ClientStatus, Status};

use super::Driver;
use super::tenancy;
use super::unit::{Client, Unit};
use crate::tenant::Asker;

impl Driver {
    /// What the asker may see.
    pub(super) fn status(&self, asker: &Asker, now: Instant) -> Status {
        let seen = || self.clients.values().filter(|client| asker.may_see(&client.rights.party));
        let mut clients: Vec<_> = seen().flat_map(|client| self.status_of(client, now)).collect();
        let mut changed: Vec<_> = seen().flat_map(tenancy::changed).collect();
        changed.sort_by(|a, b| (a.pid, &a.what).cmp(&(b.pid, &b.what)));
        clients.sort_by(|a, b| (a.pid, &a.device).cmp(&(b.pid, &b.device)));
        Status { schema: 1, policy: self.policy.to_owned(), clients, changed }
    }

    /// The share that a process has on a GPU.
    fn share_of(&self, unit: &Unit) -> Option<u8> {
        self.machine.table().get(unit.queue).and_then(|info| info.hints.utilization)
    }

    fn status_of(&self, client: &Client, now: Instant) -> Vec<ClientStatus> {
        let of = |unit: Option<&Unit>| ClientStatus {
            pid: client.pid,
            uid: client.uid,
            name: client.name.clone(),
            device: unit.map_or("", |unit| self.devices.name(unit.device)).to_owned(),
            state: unit.map_or("idle", Unit::state).to_owned(),
            since_ms: unit.map_or(0, |unit| now.since(unit.since).as_ns() / 1_000_000),
            priority: i32::from(client.hints.priority.get()),
            share: unit.map_or(client.hints.utilization, |unit| self.share_of(unit)),
            device_ms: unit.map_or(0, |unit| unit.used().as_ns() / 1_000_000),
            holds: unit.map_or(0, |unit| unit.holds),
            held_by_hand: client.by_hand,
            tenant: client.rights.party.tenant.name.clone(),
        };
        let units: Vec<_> = client.units.iter().filter_map(|key| self.units.get(*key)).collect();
        if units.is_empty() {
            vec![of(None)]
        } else {
            units.into_iter().map(|u| of(Some(u))).collect()
        }
    }
}
