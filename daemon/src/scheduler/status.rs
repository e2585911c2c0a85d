//! What the scheduler says of the processes.

use xsched_core::time::Instant;
use xsched_node::{ClientStatus, Status};

use super::Driver;
use super::unit::{Client, Unit};

impl Driver {
    /// What a user may see; everything if there is none.
    pub(super) fn status(&self, uid: Option<u32>, now: Instant) -> Status {
        let mut clients: Vec<_> = self
            .clients
            .values()
            .filter(|client| uid.is_none_or(|uid| uid == client.uid))
            .flat_map(|client| self.status_of(client, now))
            .collect();
        clients.sort_by(|a, b| (a.pid, &a.device).cmp(&(b.pid, &b.device)));
        Status { schema: 1, policy: self.policy.to_owned(), clients }
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
            share: client.hints.utilization,
            device_ms: unit.map_or(0, |unit| unit.used().as_ns() / 1_000_000),
            holds: unit.map_or(0, |unit| unit.holds),
            held_by_hand: client.by_hand,
        };
        let units: Vec<_> = client.units.iter().filter_map(|key| self.units.get(*key)).collect();
        if units.is_empty() {
            vec![of(None)]
        } else {
            units.into_iter().map(|u| of(Some(u))).collect()
        }
    }
}
