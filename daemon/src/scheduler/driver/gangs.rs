//! Gangs of processes, as the scheduler holds and releases them.

use std::collections::BTreeSet;

use xsched_core::id::DeviceId;
use xsched_core::time::Instant;
use xsched_node::entity::{GangState, HoldCause};

use super::super::client::Client;
use super::super::device::DEVICES_MAX;
use super::super::gang::{Claim, Gang, Member, Name, place, settle};
use super::super::gpu_client::GpuClient;
use super::Driver;

impl Member {
    const fn of(gpu_client: &GpuClient) -> Self {
        let claim = match (gpu_client.is_ready(), gpu_client.is_held_by(HoldCause::User)) {
            (false, _) => Claim::None,
            (true, true) => Claim::Suspended,
            (true, false) if gpu_client.is_held_by(HoldCause::Order) => Claim::Refused,
            (true, false) => Claim::Granted,
        };
        let state = match gpu_client.gang() {
            Some(state) => state,
            None => GangState::Runnable,
        };
        Self { key: gpu_client.key(), device: gpu_client.device, claim, state }
    }
}

impl Driver {
    /// Forms the gangs anew whose processes have changed.
    pub(super) fn form_gangs(&mut self, now: Instant) {
        // A gang that forms may have processes be scheduled, and they may be in gangs.
        for _ in 0..2 {
            for id in self.gpu_clients.take_contended() {
                let name = self.clients.get(&id).and_then(Client::gang_name);
                self.gangs.note_change(name.as_ref());
            }
            for name in self.gangs.take_stale() {
                self.form_gang(&name, now);
            }
        }
    }

    fn form_gang(&mut self, name: &Name, now: Instant) {
        let is_contended = |member: &Member| self.gpu_clients.is_contended(member.key);
        let formed = self.formed(name);
        let formed =
            formed.filter(|gang| gang.members.len() > 1 && gang.members.iter().any(is_contended));
        let keys = |members: &[Member]| members.iter().map(|member| member.key).collect();
        let members: BTreeSet<u32> = formed.as_ref().map_or(BTreeSet::new(), |g| keys(&g.members));
        let before: BTreeSet<u32> = keys(&self.gangs.replace(name, formed));
        before.difference(&members).for_each(|key| self.set_in_gang(*key, false, now));
        members.into_iter().for_each(|key| self.set_in_gang(key, true, now));
    }

    /// A gang, whether there is something to decide or not.
    fn formed(&self, name: &Name) -> Option<Gang> {
        let mut gang: Option<Gang> = None;
        for id in self.gangs.processes(name) {
            let Some(client) = self.clients.get(&id) else { continue };
            // The first has the lowest number.
            let gang = gang.get_or_insert_with(|| Gang::new(name.clone(), id));
            gang.priority = gang.priority.max(client.hints.priority);
            let gpu_clients =
                client.gpu_clients.iter().filter_map(|key| self.gpu_clients.get(*key));
            gang.members.extend(gpu_clients.map(Member::of));
        }
        gang
    }

    /// Has a process be held with its gang from now on, or no longer.
    fn set_in_gang(&mut self, key: u32, is_in_gang: bool, now: Instant) {
        let before = self.gpu_clients.get(key).map(GpuClient::gang);
        let Some(before) = before.filter(|gang| gang.is_some() != is_in_gang) else { return };
        let gang = is_in_gang.then(GangState::default);
        if self.gpu_clients.change(key, now, |client| client.set_gang(gang, now)) == Some(true) {
            self.refresh(key, now);
        }
        self.defer_gate_update(key, now);
        if let Some(device) = self.gpu_clients.get(key).map(|client| client.device) {
            self.gpu_clients.note_change(device);
        }
        if before == Some(GangState::Yielding) {
            self.report(key, now);
        }
        self.update_scheduling(key, now);
    }

    /// Holds and releases members of gangs.
    pub(super) fn settle_gangs(&mut self, now: Instant) {
        let touched = self.gpu_clients.take_touched();
        if !self.gangs.is_decision_due(touched, now) {
            return;
        }
        for member in self.gangs.all.iter_mut().flat_map(|gang| &mut gang.members) {
            if let Some(gpu_client) = self.gpu_clients.get(member.key) {
                *member = Member::of(gpu_client);
            }
        }
        let devices = (0..DEVICES_MAX).map(|number| DeviceId(number as u16));
        let ours = devices.filter(|device| self.gangs.places & place(*device) != 0);
        let busy = ours.filter(|device| self.gpu_clients.is_any_else_running(*device));
        let busy = busy.fold(0, |busy, device| busy | place(device));
        settle(&mut self.gangs.all, busy, self.gangs.claim_for, now);
        let mut changed = Vec::new();
        for member in self.gangs.all.iter().flat_map(|gang| &gang.members) {
            let Member { key, state, .. } = *member;
            let Some(before) = self.gpu_clients.get(key).and_then(GpuClient::gang) else {
                continue;
            };
            if before != state {
                self.gpu_clients.change(key, now, |client| client.set_gang(Some(state), now));
                let is_yielding = |state| state == GangState::Yielding;
                changed.push((key, is_yielding(before) != is_yielding(state)));
            }
        }
        let is_due = changed.iter().any(|(_, claims)| *claims);
        self.gangs.end_pass(!changed.is_empty(), is_due, now);
        // After all gates, so that these are as close together as can be.
        for (key, claims) in changed {
            self.defer_gate_update(key, now);
            if claims {
                self.report(key, now);
            }
        }
    }
}
