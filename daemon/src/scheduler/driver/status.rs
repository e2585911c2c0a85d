//! Status of the processes, as the scheduler knows it.

use xsched_core::id::DeviceId;
use xsched_core::time::{Duration, Instant};
use xsched_node::{ClientStatus, Entry, GpuStatus, Place, SCHEMA, Status};

use super::super::client::Client;
use super::super::gpu_client::GpuClient;
use super::super::on_gpu::OnGpu;
use super::super::op::Part;
use super::Driver;
use crate::tenant::Asker;

/// Processes that are named as running on a GPU.
const RUNNING_MAX: usize = 16;
/// Entries that are made at a time: about as many as a message has room for.
const ENTRIES_MAX: usize = 128;

const fn ms(time: Duration) -> u64 {
    time.as_ns() / 1_000_000
}

impl Driver {
    /// Returns the status from a place on, as far as the asker may see it; only the first part has
    /// GPUs.
    pub(super) fn status(&self, asker: &Asker, from: Option<Place>, now: Instant) -> Part {
        let may_see = |client: &Client| asker.may_see(&client.rights.party);
        let gpus = if from.is_none() { self.gpus(may_see) } else { Vec::new() };
        let (gpus, is_seen): (Vec<_>, Vec<_>) = gpus.into_iter().unzip();
        let seen = (0..gpus.len()).filter(|number| is_seen[*number]).collect();
        let head = Status {
            schema: SCHEMA,
            policy: self.policy.to_owned(),
            floor_permille: self.machine.floor_permille(),
            up_ms: ms(now.since(Instant::ZERO)),
            gpus,
            ..Status::default()
        };
        let (entries, next) = self.entries(may_see, from.unwrap_or_default(), ENTRIES_MAX, now);
        Part { head, seen, entries, next }
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
        let seen = self.clients.range(from.connection..).filter(|(_, client)| may_see(client));
        let mut entries = Vec::new();
        for (id, client) in seen {
            let first = if *id == from.connection { from.entry } else { 0 };
            for entry in first..u32::try_from(client.gpu_clients.len().max(1)).unwrap_or(u32::MAX) {
                let place = Place { connection: *id, entry };
                if entries.len() == max {
                    return (entries, Some(place));
                }
                let changed = if entry == 0 {
                    client.rights.changed(client.pid, client.is_suspended)
                } else {
                    Vec::new()
                };
                let gpu_client = client
                    .gpu_clients
                    .get(entry as usize)
                    .and_then(|key| self.gpu_clients.get(*key));
                let client = self.status_of(client, gpu_client, now);
                entries.push(Entry { place, client, changed });
            }
        }
        (entries, None)
    }

    /// The share that a process has on a GPU.
    fn share_of(&self, gpu_client: &GpuClient) -> Option<u8> {
        self.machine.table().get(gpu_client.queue).and_then(|info| info.hints.utilization)
    }

    fn status_of(
        &self,
        client: &Client,
        gpu_client: Option<&GpuClient>,
        now: Instant,
    ) -> ClientStatus {
        let of_client = ClientStatus {
            pid: client.pid,
            uid: client.uid,
            name: client.name.clone(),
            state: "idle".to_owned(),
            priority: i32::from(client.hints.priority.get()),
            share: client.hints.utilization,
            held_by_hand: client.is_suspended,
            tenant: client.rights.party.tenant.name.clone(),
            is_lowered: client.rights.is_lowered(),
            gang: client.gang.clone(),
            ..ClientStatus::default()
        };
        let Some(gpu_client) = gpu_client else { return of_client };
        ClientStatus {
            device: self.devices.name(gpu_client.device).to_owned(),
            state: gpu_client.state().to_owned(),
            share: self.share_of(gpu_client),
            since_ms: ms(now.since(gpu_client.since)),
            got_permille: gpu_client.account.got_permille(),
            device_ms: ms(gpu_client.used()),
            holds: gpu_client.holds,
            held_ms: ms(gpu_client.account.held(now)),
            waits: gpu_client.account.waits(),
            waited_ms: ms(gpu_client.account.waited(now)),
            retired: gpu_client.claims(now)[0],
            past: gpu_client.past(),
            levels: gpu_client.levels(),
            leases_lost: gpu_client.account.leases_lost(),
            direct_holds: gpu_client.direct_holds(),
            queues: gpu_client.queues(),
            host_waited_us: gpu_client.host_waited_us(),
            host_bound: gpu_client.is_host_bound(),
            ..of_client
        }
    }

    /// The GPUs on which processes are, with the numbers of those processes alone that may be seen,
    /// and whether any may.
    pub(super) fn gpus(&self, may_see: impl Fn(&Client) -> bool) -> Vec<(GpuStatus, bool)> {
        let sees = |key: &u32| {
            let client = self.gpu_clients.get(*key).map(|gpu_client| gpu_client.connection);
            client.and_then(|id| self.clients.get(&id)).filter(|client| may_see(client))
        };
        let known = self.devices.names().enumerate().filter_map(|(number, name)| {
            let gpu = self.gpu_clients.on(DeviceId(number as u16))?;
            (!gpu.keys.is_empty()).then_some((name, gpu))
        });
        let status = |(name, gpu): (&str, &OnGpu)| {
            let seen = gpu.running.iter().filter_map(sees).map(|client| client.pid);
            let mut running: Vec<_> = seen.take(RUNNING_MAX).collect();
            running.sort_unstable();
            let is_seen = gpu.keys.iter().any(|key| sees(key).is_some());
            let status = GpuStatus {
                device: name.to_owned(),
                clients: gpu.keys.len() as u32,
                waiting: gpu.waiting() as u32,
                running_others: (gpu.running.len() - running.len()) as u32,
                running,
                ..GpuStatus::default()
            };
            (status, is_seen)
        };
        known.map(status).collect()
    }
}
