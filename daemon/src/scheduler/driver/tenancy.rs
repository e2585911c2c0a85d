//! Rights of processes and their tenants, as the scheduler enforces them.

use std::sync::Arc;

use xsched_core::hint::Hints;
use xsched_core::time::{Duration, Instant};

use super::super::client::Client;
use super::super::op::Known;
use super::super::rights::Change;
use super::Driver;
use crate::tenant::{Asker, Tenant, Unreported, weight};

/// Time for which a process stays in the lower class after it was last seen to use more than it
/// reports.
const LOWERED_FOR: Duration = Duration::from_ms(60_000);

impl Driver {
    /// Changes the processes with this number that the asker may change, and answers how many those
    /// are; or none of them and why.
    pub(super) fn set(
        &mut self,
        pid: i32,
        asker: &Asker,
        change: Change,
        now: Instant,
    ) -> Result<usize, String> {
        let of_pid = self.pids.range((pid, 0)..=(pid, u64::MAX)).map(|(_, id)| *id);
        let may_change = |client: &Client| asker.may_change(&client.rights.party);
        let meant = of_pid.filter(|id| self.clients.get(id).is_some_and(may_change));
        let meant: Vec<u64> = meant.collect();
        for client in meant.iter().filter_map(|id| self.clients.get(id)) {
            let tenant = &client.rights.party.tenant;
            if let Some(refusal) = tenant.refusal(change.priority, change.share) {
                return Err(refusal.to_string());
            }
        }
        for id in &meant {
            let Some(client) = self.clients.get_mut(id) else { continue };
            client.rights.apply(&change);
            client.is_suspended = change.hold.unwrap_or(client.is_suspended);
            let gpu_clients = client.gpu_clients.clone();
            self.update_hints(*id, now);
            for (key, hold) in gpu_clients.into_iter().zip(change.hold.iter().cycle()) {
                self.suspend(key, *hold, now);
            }
        }
        self.update_ranks(now);
        Ok(meant.len())
    }

    /// A process asks for something else from now on. Answers what it has.
    pub(super) fn ask_for(&mut self, id: u64, asked: Hints, now: Instant) -> Hints {
        if let Some(client) = self.clients.get_mut(&id) {
            client.rights.asked = asked;
            self.update_hints(id, now);
            self.update_ranks(now);
        }
        self.clients.get(&id).map_or(asked, |client| client.hints)
    }

    /// Tenants have other limits now, and processes may have other tenants.
    pub(super) fn configure(&mut self, tenants: Vec<(u64, Arc<Tenant>)>, now: Instant) {
        for (id, tenant) in tenants {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            let gang = client.gang_name();
            let before = std::mem::replace(&mut client.rights.party.tenant, Arc::clone(&tenant));
            if tenant.unreported != Unreported::Lower {
                client.rights.lowered_until = None;
                self.lowered.remove(&id);
            }
            if before.name != tenant.name {
                let name = client.gang_name();
                self.gangs.leave(gang.as_ref(), id);
                self.gangs.join(name, id);
                self.close_totals(id, &before.name, now);
            }
            self.update_hints(id, now);
        }
        self.update_ranks(now);
    }

    /// Has a process's hints be what they should be wherever they are known: in pages, in its gang,
    /// in the scheduler machine, and as far as others share with it. All changes of hints, tenants
    /// and limits come here.
    pub(super) fn update_hints(&mut self, id: u64, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.hints = client.rights.hints();
        let (gpu_clients, hints) = (client.gpu_clients.clone(), client.hints);
        let tenant = Arc::clone(&client.rights.party.tenant);
        self.gangs.note_change(client.gang_name().as_ref());
        for key in gpu_clients {
            let Some(device) = self.gpu_clients.get(key).map(|client| client.device) else {
                continue;
            };
            self.gpu_clients.set_priority(key, hints.priority);
            self.update_scheduling(key, now);
            match tenant.share_max {
                Some(max) => {
                    self.shares.set(key, (tenant.name.clone(), device), hints.utilization, max);
                }
                None => self.shares.remove(key),
            }
            self.tell_hints(key, now);
        }
    }

    /// Tells the scheduler machine what a process wants, with its part of what its tenant may have.
    fn tell_hints(&mut self, key: u32, now: Instant) {
        let Some(gpu_client) = self.gpu_clients.get(key) else { return };
        let Some(client) = self.clients.get(&gpu_client.connection) else { return };
        let mut hints = client.hints;
        if client.rights.party.tenant.share_max.is_some() {
            hints.utilization = self.shares.scaled(key);
        }
        // Shares are all that processes say of weights.
        hints.weight = weight(hints.utilization);
        let queue = gpu_client.queue;
        if self.machine.table().get(queue).is_some_and(|info| info.hints != hints) {
            // It is known.
            let _ = self.machine.set_hints(now, queue, hints);
        }
    }

    /// Tells the scheduler machine what some processes want whose tenants' processes have changed:
    /// no more together on each GPU than the tenant's share.
    pub(super) fn share_out(&mut self, now: Instant) {
        self.shares.take_stale().into_iter().for_each(|key| self.tell_hints(key, now));
    }

    /// Lists the processes on GPUs.
    pub(super) fn known(&self) -> Vec<Known> {
        let of = |client: &Client| {
            let gpu_clients =
                client.gpu_clients.iter().filter_map(|key| self.gpu_clients.get(*key));
            let known = gpu_clients.map(|gpu_client| Known {
                pid: client.pid,
                device: self.devices.name(gpu_client.device).to_owned(),
                got_permille: gpu_client.account.got_permille(),
                is_alone: gpu_client.is_alone(),
                tenant: Arc::clone(&client.rights.party.tenant),
            });
            let mut known: Vec<_> = known.collect();
            if known.is_empty() {
                let tenant = Arc::clone(&client.rights.party.tenant);
                known.push(Known { pid: client.pid, tenant, ..Known::default() });
            }
            known
        };
        self.clients.values().flat_map(of).collect()
    }

    /// Notes which processes use more than they report, and does what their tenants say.
    pub(super) fn note_understated(&mut self, pids: &[i32], now: Instant) {
        let is_meant = |client: &Client| {
            client.rights.party.tenant.unreported == Unreported::Lower && pids.contains(&client.pid)
        };
        let meant = self.clients.iter().filter(|(_, client)| is_meant(client));
        for id in meant.map(|(id, _)| *id).collect::<Vec<_>>() {
            let until = Some(now + LOWERED_FOR);
            let Some(client) = self.clients.get_mut(&id) else { continue };
            if std::mem::replace(&mut client.rights.lowered_until, until).is_none() {
                self.lowered.insert(id);
                self.update_hints(id, now);
            }
        }
    }

    /// Ends the lower classes whose time is over.
    pub(super) fn end_lowered(&mut self, now: Instant) {
        for id in self.lowered.clone() {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            if client.rights.lowered_until.is_some_and(|until| until <= now) {
                client.rights.lowered_until = None;
                self.lowered.remove(&id);
                self.update_hints(id, now);
            }
        }
    }
}
