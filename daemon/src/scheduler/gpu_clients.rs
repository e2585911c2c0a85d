//! All processes on GPUs, and which of them run.
//!
//! Work is done for a process when something happens to it or it is due, and never because
//! something happens to another one on another GPU. Device time is taken from
//! [sums](super::on_gpu::RunSums) of its GPU when it is visited. What has to be done for many
//! processes at a time is done for a few of them in a pass, so that a user with many delays
//! decisions for no other.

use std::collections::{BTreeSet, HashMap};

use xsched_core::hint::Priority;
use xsched_core::id::DeviceId;
use xsched_core::time::{Duration, Instant};
use xsched_node::entity::{HoldCause, POLL_INTERVAL, Trial};

use super::device::DEVICES_MAX;
use super::gpu_client::GpuClient;
use super::on_gpu::{OnGpu, PageOf, Sweep, set_due};

/// Processes that are visited in a pass although nothing has happened to them: one for each GPU
/// that there can be, at least. A visit takes less than a microsecond.
pub(super) const VISITS_MAX: usize = DEVICES_MAX;
/// Processes that are told their ranks in a pass, one of each GPU at least, beside those for which
/// that matters at once. They are told in few passes where there are no more than on most nodes.
const RANKS_PER_PASS: usize = 8;
/// Processes in a pass of those that are all to be visited within some time, such as to renew their
/// holds: a decision waits for them, a microsecond or less for each.
const SWEPT_PER_PASS: usize = 16;
/// Pause after a pass that leaves processes due: visits take a tenth of a processor at most.
const VISITS_PAUSE: Duration = Duration::from_us(500);

/// Properties by which a process is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lists {
    is_ready: bool,
    is_held: bool,
    /// By the scheduler and by a user, which gangs look at.
    causes: (bool, bool),
}

impl Lists {
    const fn of(client: &GpuClient) -> Self {
        Self {
            is_ready: client.is_ready(),
            is_held: client.is_held(),
            causes: (client.is_held_by(HoldCause::Order), client.is_held_by(HoldCause::User)),
        }
    }

    const fn runs(self) -> bool {
        self.is_ready && !self.is_held
    }
}

/// Settings of the daemon on which it depends when a process is visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Visiting {
    /// Processes that nothing hangs on need not wake the thread while they run.
    pub(super) may_poll: bool,
    /// Metrics are wanted: it is looked at how long holds take.
    pub(super) is_measured: bool,
}

/// All processes on GPUs, by the index of their queues.
#[derive(Debug, Default)]
pub(crate) struct GpuClients {
    all: HashMap<u32, GpuClient>,
    keys: BTreeSet<u32>,
    held: BTreeSet<u32>,
    gpus: Vec<OnGpu>,
    /// All are scheduled and wake the daemon, also where there is nothing to decide.
    watches_all: bool,
    /// The policy never holds the only process of the highest priority on a GPU.
    spares_the_highest: bool,
    visiting: Visiting,
    /// The policy makes use of whether hosts wait.
    waits_matter: bool,
    /// Processes whose ranks change at once.
    unranked: Vec<u32>,
    /// Processes of which the scheduler wants reports.
    reports: Vec<u32>,
    /// Processes that began or ceased to run since concurrency was told.
    started: Vec<(u32, DeviceId)>,
    /// GPUs on which something has changed that gangs look at, by their numbers.
    touched: u64,
    /// Connections whose processes may be held from now on, or no longer.
    contended: Vec<u64>,
    /// When those that are due are visited again, at the earliest.
    visits_from: Instant,
    renewals: Sweep,
    samples: Sweep,
    looks: Sweep,
    /// How often a process was visited.
    visits: u64,
}

fn list(in_all: &mut BTreeSet<u32>, key: u32, is_in: bool) {
    if is_in {
        in_all.insert(key);
    } else {
        in_all.remove(&key);
    }
}

impl GpuClients {
    pub(crate) fn get(&self, key: u32) -> Option<&GpuClient> {
        self.all.get(&key)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &GpuClient> {
        self.all.values()
    }

    /// All, to change nothing that [`GpuClients::change`] is there for.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut GpuClient> {
        self.all.values_mut()
    }

    pub(crate) fn keys(&self) -> Vec<u32> {
        self.keys.iter().copied().collect()
    }

    /// Number of processes.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Processes with work.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn ready(&self) -> impl Iterator<Item = &GpuClient> {
        let keys = self.gpus.iter().flat_map(|gpu| &gpu.ready);
        keys.filter_map(|key| self.all.get(key))
    }

    pub(crate) fn is_any_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn is_any_on(&self, device: DeviceId) -> bool {
        self.on(device).is_some_and(|gpu| !gpu.keys.is_empty())
    }

    pub(super) fn on(&self, device: DeviceId) -> Option<&OnGpu> {
        self.gpus.get(device.index())
    }

    /// Processes that do not wake the daemon, one on each GPU at most.
    pub(crate) fn silent(&self) -> Vec<u32> {
        self.gpus.iter().filter_map(OnGpu::silent).collect()
    }

    /// Returns whether the process may be held: not alone on its GPU, or held whatever others do.
    pub(crate) fn is_contended(&self, key: u32) -> bool {
        let is_contended = |gpu_client: &GpuClient| {
            let others = self.on(gpu_client.device).is_some_and(|gpu| gpu.keys.len() > 1);
            others || gpu_client.may_be_held_alone()
        };
        self.all.get(&key).is_some_and(is_contended)
    }

    /// Connections whose processes may be held since this was asked last, or no longer.
    pub(crate) fn take_contended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.contended)
    }

    /// GPUs on which something has changed since this was asked last, by their numbers.
    pub(crate) const fn take_touched(&mut self) -> u64 {
        std::mem::replace(&mut self.touched, 0)
    }

    /// Returns whether a process runs on a GPU that is in no gang.
    pub(crate) fn is_any_else_running(&self, device: DeviceId) -> bool {
        let is_in_no_gang =
            |key: &u32| self.all.get(key).is_some_and(|client| client.gang().is_none());
        self.on(device).is_some_and(|gpu| gpu.running.iter().any(is_in_no_gang))
    }

    /// Tells those that began or ceased to run whether others run at the same time, and those for
    /// which that makes a difference.
    pub(crate) fn tell_concurrency(&mut self) {
        for (key, device) in std::mem::take(&mut self.started) {
            let Some(gpu) = self.gpus.get_mut(device.index()) else { continue };
            let running = gpu.running.len() as u64;
            let lone = gpu.running.first().filter(|_| running == 1).copied();
            let before = std::mem::replace(&mut gpu.lone, lone);
            for key in [Some(key), before, lone].into_iter().flatten() {
                if let Some(client) = self.all.get_mut(&key) {
                    client.tell_concurrency(running);
                }
            }
        }
    }

    /// Adds a process.
    pub(crate) fn add(&mut self, gpu_client: GpuClient, now: Instant) {
        let (key, device) = (gpu_client.key(), gpu_client.device);
        let (lists, priority) = (Lists::of(&gpu_client), gpu_client.priority());
        let says_concurrent = gpu_client.says_concurrent;
        self.all.insert(key, gpu_client);
        self.keys.insert(key);
        if self.gpus.len() <= device.index() {
            self.gpus.resize_with(device.index() + 1, OnGpu::default);
        }
        let Some(gpu) = self.gpus.get_mut(device.index()) else { return };
        gpu.keys.insert(key);
        gpu.concurrent += usize::from(says_concurrent);
        let changed = gpu.set_priority(key, None, Some(priority));
        self.unranked.extend(changed);
        self.settle(key, now);
        self.list(key, device, Lists::default(), lists, now);
        self.update_concurrency(key, device, now);
    }

    /// A GPU runs what several processes launch at the same time if all of them say so: one alone
    /// would otherwise take no turns, and run in those of others.
    fn update_concurrency(&mut self, key: u32, device: DeviceId, now: Instant) {
        let Some(gpu) = self.gpus.get_mut(device.index()) else { return };
        let is_concurrent = gpu.concurrent > 0 && gpu.concurrent == gpu.keys.len();
        let has_changed = std::mem::replace(&mut gpu.is_concurrent, is_concurrent) != is_concurrent;
        let keys = if has_changed { gpu.keys.iter().copied().collect() } else { vec![key] };
        for key in keys {
            self.change(key, now, |client| client.set_concurrent(is_concurrent));
            // Notes what that makes of its claim.
            self.settle(key, now);
        }
    }

    /// Updates whether a process's launches have to be scheduled, and those of the only other one
    /// on its GPU. Answers those that are scheduled from now on: with one process on a GPU
    /// there is nothing to decide.
    pub(crate) fn update_scheduling(&mut self, key: u32, now: Instant) -> Vec<u32> {
        let Some(device) = self.all.get(&key).map(|client| client.device) else {
            return Vec::new();
        };
        let Some(gpu) = self.on(device) else { return Vec::new() };
        let has_others = gpu.keys.len() > 1 || self.watches_all;
        let changed: Vec<u32> =
            if gpu.keys.len() == 2 { gpu.keys.iter().copied().collect() } else { vec![key] };
        changed.into_iter().filter(|key| self.schedule(*key, has_others, now)).collect()
    }

    /// True if a process's launches have to be scheduled from now on.
    fn schedule(&mut self, key: u32, has_others: bool, now: Instant) -> bool {
        self.unranked.push(key);
        self.contended.extend(self.all.get(&key).map(|client| client.connection));
        self.change(key, now, |client| client.update_scheduling(has_others)) == Some(true)
    }

    /// A process has another priority from now on.
    pub(crate) fn set_priority(&mut self, key: u32, priority: Priority) {
        let Some(client) = self.all.get_mut(&key) else { return };
        let before = client.priority();
        client.set_priority(priority);
        if let Some(gpu) = self.gpus.get_mut(client.device.index()) {
            self.unranked.extend(gpu.set_priority(key, Some(before), Some(priority)));
        }
    }

    /// Tells processes whether they may be held for others, where that may have changed: all may
    /// but the only one of the highest priority on its GPU, if the policy spares it. One of several
    /// that have the highest may be held as well: a user is more likely to suspend it, or to
    /// put it below the others. Those of lower priorities are told so.
    ///
    /// Where many are to be told, some are in each call.
    pub(crate) fn update_ranks(&mut self, spares_the_highest: bool, now: Instant) {
        if std::mem::replace(&mut self.spares_the_highest, spares_the_highest) != spares_the_highest
        {
            self.gpus.iter_mut().for_each(OnGpu::rank_each);
        }
        let mut keys = std::mem::take(&mut self.unranked);
        let unranked = self.gpus.iter().filter(|gpu| gpu.has_unranked()).count();
        let each = (RANKS_PER_PASS / unranked.max(1)).max(1);
        for gpu in self.gpus.iter_mut().filter(|gpu| gpu.has_unranked()) {
            keys.extend(gpu.take_unranked(each));
        }
        for key in keys {
            let Some(client) = self.all.get_mut(&key) else { continue };
            let Some(gpu) = self.gpus.get(client.device.index()) else { continue };
            client.set_standing(gpu.standing(client.priority(), spares_the_highest));
            self.visits += 1;
            self.set_timers(key, now);
        }
    }

    /// Has the only process of a GPU that has work be silent, and all others wake the daemon. To be
    /// called when work has begun or ended. Answers the one that was silent before, which has to be
    /// looked at.
    pub(crate) fn update_sole(&mut self, device: DeviceId, now: Instant) -> Option<u32> {
        let gpu = self.gpus.get_mut(device.index())?;
        let mut ready = gpu.ready.iter().copied();
        let (first, second) = (ready.next(), ready.next());
        let sole = match (first, second) {
            _ if self.watches_all => None,
            // Who had work last may begin again.
            (None, _) => return None,
            (first, None) => first,
            _ => None,
        };
        let before = std::mem::replace(&mut gpu.sole, sole);
        if let Some(sole) = sole {
            self.change(sole, now, |client| client.set_wanted(false));
        }
        let before = before.filter(|before| sole != Some(*before))?;
        self.change(before, now, |client| client.set_wanted(true))?.then_some(before)
    }

    /// Has all processes be scheduled and wake the daemon, or only those where there is something
    /// to decide. Answers those that do so from now on, which have to be looked at.
    pub(crate) fn watch_all(&mut self, watches_all: bool, now: Instant) -> Vec<u32> {
        self.watches_all = watches_all;
        let mut begin = Vec::new();
        for key in self.keys() {
            let Some(device) = self.all.get(&key).map(|client| client.device) else { continue };
            let Some(gpu) = self.gpus.get_mut(device.index()) else { continue };
            gpu.sole = None;
            let has_others = gpu.keys.len() > 1 || watches_all;
            let is_new = self.schedule(key, has_others, now);
            if self.change(key, now, |client| client.set_wanted(true)) == Some(true) || is_new {
                begin.push(key);
            }
        }
        begin
    }

    pub(crate) fn remove(&mut self, key: u32, now: Instant) -> Option<GpuClient> {
        self.settle(key, now);
        let client = self.all.get(&key)?;
        let (device, lists, priority) = (client.device, Lists::of(client), client.priority());
        self.list(key, device, lists, Lists::default(), now);
        let mut client = self.all.remove(&key)?;
        self.keys.remove(&key);
        let gpu = self.gpus.get_mut(device.index())?;
        set_due(&mut gpu.due, key, &mut client.due, None);
        set_due(&mut gpu.host_due, key, &mut client.host_due, None);
        gpu.keys.remove(&key);
        gpu.concurrent -= usize::from(client.says_concurrent);
        gpu.sole = gpu.sole.filter(|sole| *sole != key);
        gpu.lone = gpu.lone.filter(|lone| *lone != key);
        let only = gpu.keys.first().copied().filter(|_| gpu.keys.len() == 1);
        let changed = gpu.set_priority(key, Some(priority), None);
        self.unranked.extend(changed);
        if let Some(only) = only {
            self.schedule(only, self.watches_all, now);
        }
        self.update_concurrency(key, device, now);
        Some(client)
    }

    /// Changes a process, and keeps the lists right.
    pub(crate) fn change<T>(
        &mut self,
        key: u32,
        now: Instant,
        change: impl FnOnce(&mut GpuClient) -> T,
    ) -> Option<T> {
        self.settle(key, now);
        let client = self.all.get_mut(&key)?;
        let before = Lists::of(client);
        let changed = change(client);
        let (after, device) = (Lists::of(client), client.device);
        self.list(key, device, before, after, now);
        self.set_timers(key, now);
        Some(changed)
    }

    /// Lists a process where it belongs.
    fn list(&mut self, key: u32, device: DeviceId, before: Lists, after: Lists, now: Instant) {
        if before == after {
            return;
        }
        self.touched |= 1_u64.wrapping_shl(u32::from(device.0));
        list(&mut self.held, key, after.is_held);
        if before.runs() != after.runs() {
            self.started.push((key, device));
            // One that ran alone, or does from now on, is charged for the time up to now.
            let others = usize::from(!after.runs());
            let lone = self.on(device).filter(|gpu| gpu.running.len() == 1 + others);
            let lone = lone.and_then(|gpu| gpu.running.iter().find(|other| **other != key));
            if let Some(lone) = lone.copied() {
                self.settle(lone, now);
                self.set_timers(lone, now);
            }
        }
        let Some(gpu) = self.gpus.get_mut(device.index()) else { return };
        list(&mut gpu.ready, key, after.is_ready);
        list(&mut gpu.running, key, after.runs());
    }

    /// Charges a process for the time up to now. True if a pause of it is no longer short.
    fn settle(&mut self, key: u32, now: Instant) -> bool {
        let Some(client) = self.all.get_mut(&key) else { return false };
        let Some(gpu) = self.gpus.get_mut(client.device.index()) else { return false };
        self.visits += 1;
        gpu.pass(now);
        let accounting = client.account_time(gpu.sums, self.waits_matter, now);
        if accounting.overrun > Duration::ZERO {
            gpu.charge_overrun(accounting.overrun);
        }
        if accounting.is_report_due && !std::mem::replace(&mut client.is_report_due, true) {
            self.reports.push(key);
        }
        accounting.is_grace_over
    }

    /// Sets when a process is to be visited although nothing happens.
    fn set_timers(&mut self, key: u32, now: Instant) {
        let Some(client) = self.all.get_mut(&key) else { return };
        let Some(gpu) = self.gpus.get_mut(client.device.index()) else { return };
        let Visiting { may_poll, is_measured } = self.visiting;
        let mut left = client.next_visit_in(is_measured, now);
        if client.is_wrongly_polled(may_poll) {
            left = Duration::ZERO;
        } else if client.is_polled() {
            // All of them at the same time.
            let passed = Duration::from_ns(now.as_ns() % POLL_INTERVAL.as_ns());
            left = left.min(POLL_INTERVAL - passed);
        }
        let at = |left: Duration| (left < Duration::MAX).then(|| now + left);
        let host = at(client.next_host_check_in(now));
        set_due(&mut gpu.due, key, &mut client.due, at(left));
        set_due(&mut gpu.host_due, key, &mut client.host_due, host);
    }

    /// Has these settings from now on.
    pub(super) fn set_visiting(&mut self, visiting: Visiting, now: Instant) {
        if std::mem::replace(&mut self.visiting, visiting) != visiting {
            self.keys().into_iter().for_each(|key| self.set_timers(key, now));
        }
    }

    /// Has lower priorities be tried like this beside those that are bound by their hosts, or not.
    pub(crate) fn set_trial(&mut self, fill_pauses: Option<Trial>) {
        self.waits_matter = fill_pauses.is_some();
        let trial = fill_pauses.unwrap_or_default();
        self.all.values_mut().for_each(|client| client.set_trial(trial));
    }

    /// Processes that are due, and have to be [visited](Self::visit). Each GPU has its part of the
    /// visits. `checks_hosts`: others are tried beside processes that are bound by their hosts.
    pub(crate) fn take_due(&mut self, checks_hosts: bool, now: Instant) -> Vec<u32> {
        let is_paused = now < self.visits_from && self.visits_from.since(now) <= VISITS_PAUSE;
        let is_due = |gpu: &&OnGpu| gpu.due_at(checks_hosts).is_some_and(|due| due <= now);
        let gpus = self.gpus.iter().filter(is_due).count();
        if is_paused || gpus == 0 {
            return Vec::new();
        }
        let (each, mut keys) = ((VISITS_MAX / gpus).max(1), Vec::new());
        for gpu in self.gpus.iter().filter(is_due) {
            let hosts = gpu.host_due.iter().filter(|_| gpu.checks_hosts(checks_hosts));
            let is_due = |entry: &&(Instant, u32)| entry.0 <= now;
            let due = gpu.due.iter().take_while(is_due).chain(hosts.take_while(is_due));
            let mut due = due.map(|(_, key)| *key);
            keys.extend(due.by_ref().take(each));
            if due.next().is_some() {
                self.visits_from = now + VISITS_PAUSE;
            }
        }
        keys
    }

    /// Charges a process that is due for the time up to now. True if it has to be refreshed.
    pub(crate) fn visit(&mut self, key: u32, now: Instant) -> bool {
        let is_grace_over = self.settle(key, now);
        self.set_timers(key, now);
        is_grace_over || self.all.get(&key).is_some_and(GpuClient::is_polled)
    }

    /// Time until processes are due.
    pub(crate) fn next_due_in(&self, checks_hosts: bool, now: Instant) -> Duration {
        let due = self.gpus.iter().filter_map(|gpu| gpu.due_at(checks_hosts)).min();
        let pause = self.visits_from.since(now);
        let pause = if pause > VISITS_PAUSE { Duration::ZERO } else { pause };
        due.map_or(Duration::MAX, |due| due.since(now).max(pause))
    }

    /// One of those of which the scheduler wants a report.
    pub(crate) fn take_report_due(&mut self) -> Option<u32> {
        self.reports.pop()
    }

    /// Begins to renew the leases of all holds.
    pub(crate) fn begin_renewal(&mut self) {
        self.renewals.begin(self.held.len());
    }

    /// Renews the leases of some holds.
    pub(crate) fn renew_some(&mut self) {
        if self.renewals.is_over() {
            return;
        }
        for key in self.renewals.take(&self.held, SWEPT_PER_PASS) {
            self.visits += 1;
            if let Some(client) = self.all.get_mut(&key) {
                client.renew();
            }
        }
    }

    /// Begins to end the windows over which shares are taken, and to tell processes what they may
    /// hold directly where that has changed.
    pub(crate) fn begin_sample(&mut self) {
        self.samples.begin(self.keys.len());
        self.gpus.iter_mut().for_each(OnGpu::begin_generation);
    }

    /// Tells a process that these direct holds by it have ended.
    pub(crate) fn tell_direct_holds_ended(&mut self, key: u32, holds: u32) {
        if let Some(client) = self.all.get_mut(&key) {
            client.tell_direct_holds_ended(holds);
        }
    }

    /// Notes which pages a process was given to hold directly.
    pub(crate) fn set_below(&mut self, key: u32, below: Vec<PageOf>) {
        if let Some(client) = self.all.get_mut(&key) {
            client.below = below;
        }
    }

    /// Notes that the pages that processes may hold directly have changed on all GPUs.
    pub(crate) fn note_change_of_each(&mut self) {
        self.gpus.iter_mut().for_each(OnGpu::note_change);
    }

    /// Notes that the pages that processes may hold directly on a GPU have changed.
    pub(crate) fn note_change(&mut self, device: DeviceId) {
        self.gpus.get_mut(device.index()).into_iter().for_each(OnGpu::note_change);
    }

    /// Ends the windows of some processes over which their shares are taken.
    pub(crate) fn sample_some(&mut self, now: Instant) {
        if self.samples.is_over() {
            return;
        }
        for key in self.samples.take(&self.keys, SWEPT_PER_PASS) {
            self.change(key, now, |client| client.sample(now));
        }
    }

    /// Begins to look at all processes, also those that have not rung.
    pub(crate) fn begin_look(&mut self) {
        self.looks.begin(self.keys.len());
    }

    /// Some processes to look at.
    pub(crate) fn take_looks(&mut self) -> Vec<u32> {
        if self.looks.is_over() { Vec::new() } else { self.looks.take(&self.keys, SWEPT_PER_PASS) }
    }

    /// Time until the next pass is due for what is done for some processes in each.
    pub(crate) fn next_sweep_in(&self) -> Duration {
        if self.is_telling_ranks() || !self.renewals.is_over() || !self.reports.is_empty() {
            Duration::ZERO
        } else if !self.samples.is_over() || !self.looks.is_over() {
            VISITS_PAUSE
        } else {
            Duration::MAX
        }
    }

    /// Returns whether processes are still to be told their ranks.
    pub(crate) fn is_telling_ranks(&self) -> bool {
        !self.unranked.is_empty() || self.gpus.iter().any(OnGpu::has_unranked)
    }

    /// Returns whether all wake the daemon, also where there is nothing to decide.
    pub(crate) const fn watches_all(&self) -> bool {
        self.watches_all
    }

    /// How often a process was visited.
    #[cfg(test)]
    pub(crate) const fn visits(&self) -> u64 {
        self.visits
    }
}

impl OnGpu {
    /// Returns whether processes are visited because others wait for the GPU.
    fn checks_hosts(&self, checks_hosts: bool) -> bool {
        checks_hosts && self.waiting() > 0
    }

    /// When a process is due.
    fn due_at(&self, checks_hosts: bool) -> Option<Instant> {
        let hosts = self.host_due.first().filter(|_| self.checks_hosts(checks_hosts));
        let due = self.due.first().into_iter().chain(hosts);
        due.map(|(due, _)| *due).min()
    }
}
