//! What the scheduler says of the processes.

use xsched_core::time::{Duration, Instant};
use xsched_node::{ClientStatus, Entry, GpuStatus, Place, SCHEMA, Status};

use super::Driver;
use super::tenancy;
use super::unit::{Client, Unit};
use crate::tenant::Asker;

/// Processes that are named as running on a GPU.
const RUNNING_MAX: usize = 16;
/// Entries that are made at a time: about as many as a message has room for.
const ENTRIES_MAX: usize = 128;

const fn ms(time: Duration) -> u64 {
    time.as_ns() / 1_000_000
}

/// Part of a status: its head, and entries from which to fill it.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) head: Status,
    pub(crate) entries: Vec<Entry>,
    /// Where it goes on.
    pub(crate) next: Option<Place>,
}

impl Driver {
    /// What the asker may see, from a place on; only the first part says something of GPUs.
    pub(super) fn status(&self, asker: &Asker, from: Option<Place>, now: Instant) -> Part {
        let may_see = |client: &Client| asker.may_see(&client.rights.party);
        let head = Status {
            schema: SCHEMA,
            policy: self.policy.to_owned(),
            up_ms: ms(now.since(Instant::ZERO)),
            gpus: if from.is_none() { self.gpus(may_see) } else { Vec::new() },
            ..Status::default()
        };
        let (entries, next) = self.entries(may_see, from.unwrap_or_default(), ENTRIES_MAX, now);
        Part { head, entries, next }
    }

    /// Entries of processes from a place on, in the order in which they connected, and where they
    /// go on.
    pub(super) fn entries(
        &self,
        may_see: impl Fn(&Client) -> bool,
        from: Place,
        max: usize,
        now: Instant,
    ) -> (Vec<Entry>, Option<Place>) {
        let seen = self.clients.iter().filter(|(id, c)| **id >= from.connection && may_see(c));
        let mut seen: Vec<_> = seen.collect();
        seen.sort_unstable_by_key(|(id, _)| **id);
        let mut entries = Vec::new();
        for (id, client) in seen {
            let first = if *id == from.connection { from.entry } else { 0 };
            for entry in first..u32::try_from(client.units.len().max(1)).unwrap_or(u32::MAX) {
                let place = Place { connection: *id, entry };
                if entries.len() == max {
                    return (entries, Some(place));
                }
                let changed = if entry == 0 { tenancy::changed(client) } else { Vec::new() };
                let unit = client.units.get(entry as usize).and_then(|key| self.units.get(*key));
                let client = self.status_of(client, unit, now);
                entries.push(Entry { place, client, changed });
            }
        }
        (entries, None)
    }

    /// The share that a process has on a GPU.
    fn share_of(&self, unit: &Unit) -> Option<u8> {
        self.machine.table().get(unit.queue).and_then(|info| info.hints.utilization)
    }

    fn status_of(&self, client: &Client, unit: Option<&Unit>, now: Instant) -> ClientStatus {
        let of_client = ClientStatus {
            pid: client.pid,
            uid: client.uid,
            name: client.name.clone(),
            state: "idle".to_owned(),
            priority: i32::from(client.hints.priority.get()),
            share: client.hints.utilization,
            held_by_hand: client.by_hand,
            tenant: client.rights.party.tenant.name.clone(),
            is_lowered: client.rights.is_lowered(),
            gang: client.gang.clone(),
            ..ClientStatus::default()
        };
        let Some(unit) = unit else { return of_client };
        ClientStatus {
            device: self.devices.name(unit.device).to_owned(),
            state: unit.state().to_owned(),
            share: self.share_of(unit),
            since_ms: ms(now.since(unit.since)),
            got_permille: unit.account.got_permille(),
            device_ms: ms(unit.used()),
            holds: unit.holds,
            held_ms: ms(unit.account.held(now)),
            waits: unit.account.waits(),
            waited_ms: ms(unit.account.waited(now)),
            retired: unit.retired(),
            past: unit.past(),
            levels: unit.levels(),
            leases_lost: unit.account.leases_lost(),
            queues: unit.queues(),
            host_waited_us: unit.host_waited_us(),
            host_bound: unit.is_host_bound(),
            ..of_client
        }
    }

    /// The GPUs, with the numbers of those processes alone that may be seen.
    pub(super) fn gpus(&self, may_see: impl Fn(&Client) -> bool) -> Vec<GpuStatus> {
        let named = |name: &str| GpuStatus { device: name.to_owned(), ..GpuStatus::default() };
        let mut gpus: Vec<_> = self.devices.names().map(named).collect();
        for client in self.clients.values() {
            for unit in client.units.iter().filter_map(|key| self.units.get(*key)) {
                let Some(gpu) = gpus.get_mut(unit.device.index()) else { continue };
                gpu.clients += 1;
                match (unit.is_loaded(), unit.is_closed(), may_see(client)) {
                    (false, _, _) => {}
                    (true, true, _) => gpu.waiting += 1,
                    (true, false, true) if gpu.running.len() < RUNNING_MAX => {
                        gpu.running.push(client.pid);
                    }
                    (true, false, _) => gpu.running_others += 1,
                }
            }
        }
        gpus.iter_mut().for_each(|gpu| gpu.running.sort_unstable());
        gpus
    }
}
