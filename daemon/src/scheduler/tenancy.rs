//! What each process has: what it asked for, what was set by hand, and its tenant's limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use xsched_core::hint::{Hints, Priority};
use xsched_core::id::DeviceId;
use xsched_core::time::{Duration, Instant};
use xsched_node::Changed;

use super::op::{Change, Known};
use super::unit::Client;
use super::{Driver, PAGES_MAX};
use crate::tenant::{Asker, Party, Tenant, Unreported, counted, scaled};

/// The highest priority in the lower class: that of `--class batch`.
const LOWERED: Priority = match Priority::new(-100) {
    Ok(priority) => priority,
    Err(_) => Priority::MIN,
};
/// For how long a process stays in the lower class after it was seen last that it uses more than it
/// reports.
const LOWERED_FOR: Duration = Duration::from_ns(60_000_000_000);

/// Who changed something by hand, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct By {
    pub(crate) uid: u32,
    pub(crate) at_unix_ms: u64,
}

impl By {
    /// A user, now.
    pub(crate) fn now(uid: u32) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { uid, at_unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }

    /// That it is so by hand, where it would be otherwise.
    pub(crate) fn changed(
        self,
        what: &str,
        pid: Option<i32>,
        file: String,
        live: String,
    ) -> Changed {
        let Self { uid, at_unix_ms } = self;
        Changed { what: what.to_owned(), pid, file, live, uid, at_unix_ms }
    }
}

/// What was set by hand of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Hands {
    priority: Option<(Priority, By)>,
    share: Option<(u8, By)>,
    active: Option<(bool, By)>,
    hold: By,
}

/// What a process has a right to.
#[derive(Debug)]
pub(crate) struct Rights {
    pub(crate) party: Party,
    /// What it asked for.
    asked: Hints,
    hands: Hands,
    /// Until then it has a lower class, since it uses more than it reports.
    lowered_until: Option<Instant>,
}

impl Rights {
    pub(crate) fn new(party: Party, asked: Hints) -> Self {
        Self { party, asked, hands: Hands::default(), lowered_until: None }
    }

    /// It has a lower class, since it uses more than it reports.
    pub(crate) const fn is_lowered(&self) -> bool {
        self.lowered_until.is_some()
    }

    /// The hints, in a lower class if the process has one.
    fn lowered(&self, mut hints: Hints) -> Hints {
        if self.is_lowered() {
            hints.priority = hints.priority.min(LOWERED);
        }
        hints
    }

    /// Its hints: by hand, or else what it asked for, and never above its tenant's limits.
    pub(crate) fn hints(&self) -> Hints {
        let mut hints = self.party.tenant.granted(self.asked);
        let Hands { priority, share, active, .. } = self.hands;
        hints.priority = priority.map_or(hints.priority, |(priority, _)| priority);
        hints.utilization = share.map(|(share, _)| share).or(hints.utilization);
        hints.active_window = active.map_or(hints.active_window, |(active, _)| active);
        self.lowered(self.party.tenant.capped(hints))
    }

    pub(crate) fn pages_max(&self) -> usize {
        self.party.tenant.pages_max(PAGES_MAX)
    }
}

impl Change {
    /// Makes the change, but for its effect on gates and the scheduler.
    fn apply(self, client: &mut Client) {
        let hands = &mut client.rights.hands;
        if self.is_reset {
            (hands.priority, hands.share, hands.active) = (None, None, None);
        }
        hands.priority = self.priority.map(|priority| (priority, self.by)).or(hands.priority);
        hands.share = self.share.map(|share| (share, self.by)).or(hands.share);
        hands.active = self.active.map(|active| (active, self.by)).or(hands.active);
        if let Some(hold) = self.hold {
            client.by_hand = hold;
            hands.hold = self.by;
        }
    }
}

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
        let is_meant =
            |client: &Client| client.pid == pid && asker.may_change(&client.rights.party);
        let meant = self.clients.iter().filter(|(_, client)| is_meant(client));
        let meant: Vec<u64> = meant.map(|(id, _)| *id).collect();
        for client in meant.iter().filter_map(|id| self.clients.get(id)) {
            let tenant = &client.rights.party.tenant;
            if let Some(refusal) = tenant.refusal(change.priority, change.share) {
                return Err(refusal.to_string());
            }
        }
        for id in &meant {
            let Some(client) = self.clients.get_mut(id) else { continue };
            change.apply(client);
            let units = client.units.clone();
            self.settle(*id, now);
            for (key, hold) in units.into_iter().zip(change.hold.iter().cycle()) {
                self.hold_by_hand(key, *hold, now);
            }
        }
        Ok(meant.len())
    }

    /// A process asks for something else from now on.
    pub(super) fn ask_for(&mut self, id: u64, asked: Hints, now: Instant) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.rights.asked = asked;
            self.settle(id, now);
        }
    }

    /// Tenants have other limits now, and processes may have other tenants.
    pub(super) fn configure(&mut self, tenants: Vec<(u64, Arc<Tenant>)>, now: Instant) {
        let mut all = HashMap::new();
        for (id, tenant) in tenants {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            let before = std::mem::replace(&mut client.rights.party.tenant, Arc::clone(&tenant));
            if before.name != tenant.name {
                self.close_totals(id, &before.name, now);
            }
            let Some(client) = self.clients.get_mut(&id) else { continue };
            if tenant.unreported != Unreported::Lower {
                client.rights.lowered_until = None;
            }
            client.hints = client.rights.hints();
            all.insert(tenant.name.clone(), tenant);
        }
        all.values().for_each(|tenant| self.share_out(tenant, now));
        self.gangs.note_change();
    }

    /// Has a process's hints be what they should be, and those of others that share with it.
    fn settle(&mut self, id: u64, now: Instant) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.hints = client.rights.hints();
            self.gangs.note_change();
            let tenant = Arc::clone(&client.rights.party.tenant);
            let (units, hints) = (client.units.clone(), client.hints);
            for key in &units {
                self.units.change(*key, |unit| unit.note_hints(&hints));
                self.update_shared(*key, now);
            }
            if tenant.share_max.is_some() {
                return self.share_out(&tenant, now);
            }
            for unit in units.iter().filter_map(|key| self.units.get(*key)) {
                // It is known.
                let _ = self.machine.set_hints(now, unit.queue, hints);
            }
        }
    }

    /// Which processes there are.
    pub(super) fn known(&self) -> Vec<Known> {
        let of = |client: &Client| {
            let units = client.units.iter().filter_map(|key| self.units.get(*key));
            let known = units.map(|unit| Known {
                pid: client.pid,
                device: self.devices.name(unit.device).to_owned(),
                got_permille: unit.account.got_permille(),
                is_alone: unit.is_alone(),
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

    /// These processes use more than they report: what their tenants say follows.
    pub(super) fn note_understated(&mut self, pids: &[i32], now: Instant) {
        let is_meant = |client: &Client| {
            client.rights.party.tenant.unreported == Unreported::Lower && pids.contains(&client.pid)
        };
        let meant = self.clients.iter().filter(|(_, client)| is_meant(client));
        for id in meant.map(|(id, _)| *id).collect::<Vec<_>>() {
            let until = Some(now + LOWERED_FOR);
            let Some(client) = self.clients.get_mut(&id) else { continue };
            if std::mem::replace(&mut client.rights.lowered_until, until).is_none() {
                self.settle(id, now);
            }
        }
    }

    /// Ends the lower classes whose time is over.
    pub(super) fn end_lowered(&mut self, now: Instant) {
        let is_over =
            |client: &Client| client.rights.lowered_until.is_some_and(|until| until <= now);
        let over = self.clients.iter().filter(|(_, client)| is_over(client));
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(client) = self.clients.get_mut(&id) {
                client.rights.lowered_until = None;
                self.settle(id, now);
            }
        }
    }

    /// A process of this tenant has begun or ended to use a GPU.
    pub(super) fn share_anew(&mut self, tenant: &Tenant, now: Instant) {
        if tenant.share_max.is_some() {
            self.share_out(tenant, now);
        }
    }

    /// Tells the scheduler what the processes of a tenant want, no more together on each GPU than
    /// the tenant's share.
    fn share_out(&mut self, tenant: &Tenant, now: Instant) {
        let of_tenant = |client: &&Client| client.rights.party.tenant.name == tenant.name;
        let clients = || self.clients.values().filter(of_tenant);
        let with_units = clients().flat_map(|client| {
            let units = client.units.iter().filter_map(|key| self.units.get(*key));
            units.map(|unit| (unit.device, unit.queue, client.hints))
        });
        let wanted: Vec<_> = with_units.collect();
        let mut sums = HashMap::<DeviceId, u32>::new();
        for (device, _, hints) in &wanted {
            *sums.entry(*device).or_default() += counted(hints.utilization);
        }
        for (device, queue, mut hints) in wanted {
            let sum = sums.get(&device).copied().unwrap_or(0);
            hints.utilization = scaled(hints.utilization, sum, tenant.share_max);
            if self.machine.table().get(queue).is_some_and(|info| info.hints != hints) {
                // It is known.
                let _ = self.machine.set_hints(now, queue, hints);
            }
        }
    }
}

/// What of a process is as it is by hand alone.
pub(super) fn changed(client: &Client) -> Vec<Changed> {
    let (rights, pid) = (&client.rights, Some(client.pid));
    let without = rights.lowered(rights.party.tenant.granted(rights.asked));
    let hints = rights.hints();
    let mut changed = Vec::new();
    let mut compare = |by: Option<By>, what: &str, file: String, live: String| {
        if let Some(by) = by.filter(|_| file != live) {
            changed.push(by.changed(what, pid, file, live));
        }
    };
    let share = |hints: Hints| hints.utilization.map_or("none".to_owned(), |s| s.to_string());
    let priority = |hints: Hints| hints.priority.get().to_string();
    let active = |hints: Hints| hints.active_window.to_string();
    let Hands { priority: of_priority, share: of_share, active: of_active, hold } = rights.hands;
    compare(of_priority.map(|(_, by)| by), "priority", priority(without), priority(hints));
    compare(of_share.map(|(_, by)| by), "share", share(without), share(hints));
    compare(of_active.map(|(_, by)| by), "active", active(without), active(hints));
    compare(Some(hold), "hold", "false".to_owned(), client.by_hand.to_string());
    changed
}
