//! All processes on GPUs, and which of them run.

use std::cmp::Ordering;
use std::collections::HashMap;

use xsched_core::hint::Priority;
use xsched_core::id::DeviceId;
use xsched_core::time::{Duration, Instant};
use xsched_node::Others;

use super::device::DEVICES_MAX;
use super::unit::Unit;

/// All processes on GPUs, by the index of their queues, with lists that save a look at each.
#[derive(Debug, Default)]
pub(crate) struct Units {
    all: HashMap<u32, Unit>,
    /// Those with work: the only ones whose device time changes.
    loaded: Vec<u32>,
    /// How many have closed gates.
    closed: usize,
    /// Those on each GPU.
    on: HashMap<DeviceId, On>,
    /// All are scheduled and wake the daemon, also where there is nothing to decide.
    watches_all: bool,
    /// Which come first on their GPUs may have changed.
    may_rank_anew: bool,
}

/// The highest and the lowest priority on a GPU, and how many have each.
#[derive(Clone, Copy, Debug)]
struct Ends((Priority, u32), (Priority, u32));

impl Ends {
    const NONE: Self = Self((Priority::NO_EXECUTE, 0), (Priority::MAX, 0));

    fn note(&mut self, priority: Priority) {
        let Self(highest, lowest) = self;
        for (end, passes) in [(highest, Ordering::Greater), (lowest, Ordering::Less)] {
            match priority.cmp(&end.0) {
                Ordering::Equal => end.1 += 1,
                order if order == passes => *end = (priority, 1),
                _ => {}
            }
        }
    }
}

/// The processes on a GPU.
#[derive(Debug, Default)]
struct On {
    keys: Vec<u32>,
    /// The only one that has work, or had it last. It does not wake the daemon: as long as no other
    /// one does, there is nothing to decide.
    last: Option<u32>,
}

impl Units {
    pub(crate) fn get(&self, key: u32) -> Option<&Unit> {
        self.all.get(&key)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Unit> {
        self.all.values()
    }

    /// All, to change nothing that [`Units::change`] is there for.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Unit> {
        self.all.values_mut()
    }

    pub(crate) fn keys(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    /// Those with work.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = &Unit> {
        self.loaded.iter().filter_map(|key| self.all.get(key))
    }

    pub(crate) fn loaded_keys(&self, into: &mut Vec<u32>) {
        into.clear();
        into.extend_from_slice(&self.loaded);
    }

    pub(crate) const fn is_any_closed(&self) -> bool {
        self.closed > 0
    }

    pub(crate) fn is_any_on(&self, device: DeviceId) -> bool {
        self.on.get(&device).is_some_and(|on| !on.keys.is_empty())
    }

    /// Whether it may be held: it is not alone on its GPU, or is held whatever others do.
    pub(crate) fn is_contended(&self, key: u32) -> bool {
        let is_contended = |unit: &Unit| {
            let others = self.on.get(&unit.device).is_some_and(|on| on.keys.len() > 1);
            others || unit.may_be_held()
        };
        self.all.get(&key).is_some_and(is_contended)
    }

    /// How many run on each GPU.
    pub(crate) fn running(&self) -> [u64; DEVICES_MAX] {
        let mut running = [0; DEVICES_MAX];
        let runs = self.loaded().filter(|unit| unit.runs());
        runs.for_each(|unit| running[unit.device.index()] += 1);
        running
    }

    /// Tells those that have work whether others run at the same time.
    pub(crate) fn tell_beside(&mut self) {
        let running = self.running();
        for key in &self.loaded {
            if let Some(unit) = self.all.get_mut(key) {
                unit.tell_beside(running[unit.device.index()]);
            }
        }
    }

    /// A process that was held went on for so long on a GPU, which those that run there did not
    /// have.
    pub(crate) fn owe(&mut self, device: DeviceId, late: Duration) {
        let running = self.running()[device.index()];
        for key in &self.loaded {
            if let Some(unit) = self.all.get_mut(key).filter(|u| u.device == device && u.runs()) {
                unit.owe(late.per(running));
            }
        }
    }

    /// Adds a process.
    pub(crate) fn add(&mut self, unit: Unit) {
        let (key, device) = (unit.key(), unit.device);
        self.closed += usize::from(unit.is_closed());
        self.all.insert(key, unit);
        self.on.entry(device).or_default().keys.push(key);
    }

    /// Looks anew whether a process's launches have to be scheduled, and those of the only other
    /// one on its GPU. Answers those that are scheduled from now on: with one process on a GPU
    /// there is nothing to decide.
    pub(crate) fn update_shared(&mut self, key: u32) -> Vec<u32> {
        self.rank_anew();
        let Some(unit) = self.all.get(&key) else { return Vec::new() };
        let on = self.on.get(&unit.device).map_or(&[][..], |on| &on.keys);
        let has_others = on.len() > 1 || self.watches_all;
        let changed = if on.len() == 2 { on } else { &[key] };
        let all = &mut self.all;
        let is_new = |key: &&u32| all.get_mut(key).is_some_and(|u| u.update_shared(has_others));
        changed.iter().filter(is_new).copied().collect()
    }

    /// Which processes come first on their GPUs may have changed, or what that means.
    pub(crate) const fn rank_anew(&mut self) {
        self.may_rank_anew = true;
    }

    /// Tells each process whether it may be held for others, if that may have changed: all may but
    /// the only one of the highest priority on its GPU, if the policy spares it. One of several
    /// that have the highest may be held as well: a user is more likely to hold it by hand, or to
    /// put it below the others. Those of lower priorities are told so.
    pub(crate) fn rank(&mut self, spares_the_highest: bool) {
        if !std::mem::take(&mut self.may_rank_anew) {
            return;
        }
        let mut ends = [Ends::NONE; DEVICES_MAX];
        for unit in self.all.values() {
            ends[unit.device.index()].note(unit.priority());
        }
        for unit in self.all.values_mut() {
            let Ends(highest, lowest) = ends[unit.device.index()];
            let others = match unit.priority().cmp(&highest.0) {
                _ if !spares_the_highest => Others::Before,
                Ordering::Less => Others::Above,
                _ if highest.1 == 1 => Others::Behind,
                _ => Others::Before,
            };
            unit.rank(others, lowest == (unit.priority(), 1));
        }
    }

    /// Has the only process of a GPU that has work be silent, and all others wake the daemon. To be
    /// called when work has begun or ended. Answers the one that was silent before, which has to be
    /// looked at.
    pub(crate) fn update_last(&mut self, device: DeviceId) -> Option<u32> {
        let on = self.on.get_mut(&device)?;
        let all = &self.all;
        let is_here = |key: &&u32| all.get(key).is_some_and(|unit| unit.device == device);
        let mut loaded = self.loaded.iter().filter(is_here);
        let (first, second) = (loaded.next().copied(), loaded.next());
        let last = match (first, second) {
            _ if self.watches_all => None,
            // Who had work last may begin again.
            (None, _) => return None,
            (first, None) => first,
            _ => None,
        };
        let before = std::mem::replace(&mut on.last, last);
        if let Some(unit) = last.and_then(|key| self.all.get_mut(&key)) {
            unit.set_rings(false);
        }
        let before = before.filter(|before| last != Some(*before))?;
        self.all.get_mut(&before)?.set_rings(true).then_some(before)
    }

    /// Has all processes be scheduled and wake the daemon, or only those where there is something
    /// to decide. Answers those that do so from now on, which have to be looked at.
    pub(crate) fn watch_all(&mut self, watches_all: bool) -> Vec<u32> {
        self.watches_all = watches_all;
        self.rank_anew();
        let mut begin = Vec::new();
        for on in self.on.values_mut() {
            let has_others = on.keys.len() > 1 || watches_all;
            on.last = None;
            for key in &on.keys {
                let Some(unit) = self.all.get_mut(key) else { continue };
                if unit.update_shared(has_others) || unit.set_rings(true) {
                    begin.push(*key);
                }
            }
        }
        begin
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<Unit> {
        let unit = self.all.remove(&key)?;
        self.rank_anew();
        self.closed -= usize::from(unit.is_closed());
        self.loaded.retain(|loaded| *loaded != key);
        if let Some(on) = self.on.get_mut(&unit.device) {
            on.keys.retain(|other| *other != key);
            on.last = on.last.filter(|last| *last != key);
            if let [only] = on.keys[..]
                && let Some(only) = self.all.get_mut(&only)
            {
                only.update_shared(self.watches_all);
            }
        }
        Some(unit)
    }

    /// Changes a process, and keeps the lists right.
    pub(crate) fn change<T>(&mut self, key: u32, change: impl FnOnce(&mut Unit) -> T) -> Option<T> {
        let unit = self.all.get_mut(&key)?;
        let before = (unit.is_loaded(), unit.is_closed());
        let changed = change(unit);
        let after = (unit.is_loaded(), unit.is_closed());
        self.closed = self.closed + usize::from(after.1) - usize::from(before.1);
        match (before.0, after.0) {
            (false, true) => self.loaded.push(key),
            (true, false) => self.loaded.retain(|loaded| *loaded != key),
            _ => {}
        }
        Some(changed)
    }

    /// The time until one that runs has used so much that the scheduler wants to know.
    pub(crate) fn left_to_report(&self) -> Duration {
        // Of one that is silent it is not known whether it still has work.
        let running = self.loaded().filter(|unit| unit.runs() && unit.rings());
        running.map(Unit::left_to_report).min().unwrap_or(Duration::MAX)
    }

    /// Whether all wake the daemon, also where there is nothing to decide.
    pub(crate) const fn watches_all(&self) -> bool {
        self.watches_all
    }

    /// The time until it is to be looked whether one that others are held for is bound by its host.
    pub(crate) fn left_to_see(&self, now: Instant) -> Duration {
        let mut closed = [false; DEVICES_MAX];
        self.loaded().for_each(|unit| closed[unit.device.index()] |= unit.is_closed());
        let first = self.loaded().filter(|unit| closed[unit.device.index()]);
        first.map(|unit| unit.left_to_see(now)).min().unwrap_or(Duration::MAX)
    }

    /// The time until it is to be looked what has retired of one that is held, or that a pause is
    /// no longer short. `is_measured`: for people as well.
    pub(crate) fn left_to_look(&self, now: Instant, is_measured: bool) -> Duration {
        let left = self.loaded().map(|unit| {
            let left = unit.left_to_look(now);
            let is_measured = is_measured && unit.is_closed();
            if is_measured { left.min(unit.account.left_to_look(now)) } else { left }
        });
        left.min().unwrap_or(Duration::MAX)
    }
}
