//! State of one GPU: the processes on it, sums over its time, and when each of them is due.

use std::collections::{BTreeMap, BTreeSet};

use xsched_core::hint::Priority;
use xsched_core::time::{Duration, Instant};
use xsched_node::NodeRank;

/// Sums over the time of a GPU. A process takes its part from them when it is visited, instead of
/// being visited whenever time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunSums {
    /// Time in which processes ran.
    pub(crate) elapsed: Duration,
    /// The part of one of those that ran.
    pub(crate) share: Duration,
    /// Part of the process in the time for which held processes had the GPU.
    pub(crate) overrun: Duration,
}

impl RunSums {
    /// The sums since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            elapsed: self.elapsed - earlier.elapsed,
            share: self.share - earlier.share,
            overrun: self.overrun - earlier.overrun,
        }
    }
}

/// Place of a process among those on its GPU, by their priorities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) rank: NodeRank,
    /// All others have higher priorities.
    pub(crate) is_lowest: bool,
    /// The generation of the pages that it holds directly; 0 if it may hold none.
    pub(crate) pages_below: u32,
}

/// A page of a process on a GPU: the key of the process, and which of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageOf {
    pub(crate) key: u32,
    pub(crate) page: usize,
}

/// Visits of all members of a set, a few at a time, each time from where the last ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    next: u32,
    left: usize,
}

impl Sweep {
    /// Begins to visit this number of members, all that there are.
    pub(crate) const fn begin(&mut self, count: usize) {
        self.left = count;
    }

    pub(crate) const fn is_over(self) -> bool {
        self.left == 0
    }

    /// Members to visit now, `max` of them at most.
    pub(crate) fn take(&mut self, of: &BTreeSet<u32>, max: usize) -> Vec<u32> {
        let count = self.left.min(max).min(of.len());
        let from_here = of.range(self.next..).chain(of.range(..self.next));
        let keys: Vec<u32> = from_here.take(count).copied().collect();
        self.left = if count == of.len() { 0 } else { self.left - count };
        self.next = keys.last().map_or(self.next, |last| last.wrapping_add(1));
        keys
    }
}

/// The highest or lowest priority on a GPU, and the process that has it if only one does.
type End = Option<(Priority, Option<u32>)>;

/// The processes on a GPU.
#[derive(Debug, Default)]
pub(super) struct OnGpu {
    pub(super) keys: BTreeSet<u32>,
    /// Number of those that say that the GPU runs what several processes launch at the same time.
    pub(super) concurrent: usize,
    /// All say so, and are treated so.
    pub(super) is_concurrent: bool,
    /// Processes with work, and those of them that run.
    pub(super) ready: BTreeSet<u32>,
    pub(super) running: BTreeSet<u32>,
    /// The only one that has work, or had it last. It does not wake the daemon: as long as no other
    /// one does, there is nothing to decide.
    pub(super) sole: Option<u32>,
    /// The only one that runs, as far as processes were told.
    pub(super) lone: Option<u32>,
    pub(super) by_priority: BTreeMap<Priority, BTreeSet<u32>>,
    /// The generation of its processes, their pages and priorities, and whether these have changed
    /// since.
    generation: u32,
    is_changed: bool,
    /// Priorities whose processes may have other ranks.
    ranks: BTreeMap<Priority, Sweep>,
    /// Up to when the sums are counted.
    at: Instant,
    pub(super) sums: RunSums,
    /// When processes are to be visited although nothing happens, and when they are while others
    /// wait for the GPU.
    pub(super) due: BTreeSet<(Instant, u32)>,
    pub(super) host_due: BTreeSet<(Instant, u32)>,
}

impl OnGpu {
    /// Counts the time up to now.
    pub(super) fn pass(&mut self, now: Instant) {
        let passed = now.since(std::mem::replace(&mut self.at, now));
        if !self.running.is_empty() {
            self.sums.elapsed += passed;
            self.sums.share += passed.per(self.running.len() as u64);
        }
    }

    /// Takes off time that a held process had, from those that run.
    pub(super) fn charge_overrun(&mut self, overrun: Duration) {
        if !self.running.is_empty() {
            self.sums.overrun += overrun.per(self.running.len() as u64);
        }
    }

    /// Number of processes with work that are held.
    pub(super) fn waiting(&self) -> usize {
        self.ready.len() - self.running.len()
    }

    /// The one that does not wake the daemon: it has no others on its GPU, or none with work.
    pub(super) fn silent(&self) -> Option<u32> {
        let only = self.keys.first().filter(|_| self.keys.len() == 1);
        only.copied().or(self.sole)
    }

    fn ends(&self) -> [End; 2] {
        let end = |(priority, keys): (&Priority, &BTreeSet<u32>)| {
            (*priority, keys.first().filter(|_| keys.len() == 1).copied())
        };
        [self.by_priority.last_key_value().map(end), self.by_priority.first_key_value().map(end)]
    }

    /// A process has another priority, or comes or goes. Answers those whose ranks change at once;
    /// those of the others are told later, as no hold hangs on them.
    pub(super) fn set_priority(
        &mut self,
        key: u32,
        from: Option<Priority>,
        to: Option<Priority>,
    ) -> Vec<u32> {
        self.note_change();
        let before = self.ends();
        if let Some(from) = from
            && let Some(keys) = self.by_priority.get_mut(&from)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_priority.remove(&from);
            }
        }
        if let Some(to) = to {
            self.by_priority.entry(to).or_default().insert(key);
        }
        for priority in [from, to].into_iter().flatten() {
            if self.ranks.contains_key(&priority) {
                self.rank_all(priority);
            }
        }
        let after = self.ends();
        let mut changed = vec![key];
        if before != after {
            changed.extend(before.into_iter().chain(after).filter_map(|end| end?.1));
        }
        // Of the others, those rank otherwise that had the highest priority, or have it by now.
        let [highest_before, highest] = [before[0], after[0]].map(|end| end.map(|end| end.0));
        if highest_before != highest {
            highest_before.into_iter().chain(highest).for_each(|highest| self.rank_all(highest));
        }
        changed
    }

    /// Has all processes of a priority be told their ranks.
    fn rank_all(&mut self, priority: Priority) {
        if let Some(keys) = self.by_priority.get(&priority) {
            self.ranks.entry(priority).or_default().begin(keys.len());
        }
    }

    /// Notes that the pages that processes may hold directly have changed. They are told with the
    /// next generation.
    pub(super) const fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// Begins a new generation if something has changed, of which all processes are told.
    pub(super) fn begin_generation(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            self.generation = self.generation.wrapping_add(1).max(1);
            self.rank_each();
        }
    }

    /// Has all processes be told their ranks.
    pub(super) fn rank_each(&mut self) {
        for (priority, keys) in &self.by_priority {
            self.ranks.entry(*priority).or_default().begin(keys.len());
        }
    }

    /// Returns whether there are processes to be told their ranks.
    pub(super) fn has_unranked(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// Some processes to be told their ranks, `max` at most.
    pub(super) fn take_unranked(&mut self, max: usize) -> Vec<u32> {
        let Some(mut entry) = self.ranks.first_entry() else { return Vec::new() };
        let Some(keys) = self.by_priority.get(entry.key()) else {
            entry.remove();
            return Vec::new();
        };
        let taken = entry.get_mut().take(keys, max);
        if entry.get().is_over() {
            entry.remove();
        }
        taken
    }

    /// The place of a process. `spares_the_highest`: the only one of the highest priority is held
    /// for no other.
    pub(super) fn standing(&self, priority: Priority, spares_the_highest: bool) -> Standing {
        let [highest, lowest] = self.ends();
        let rank = match highest {
            Some((highest, only)) if spares_the_highest => match only {
                _ if priority < highest => NodeRank::Outranked,
                Some(_) => NodeRank::Highest,
                None => NodeRank::Contended,
            },
            _ => NodeRank::Contended,
        };
        let is_lowest = lowest.is_some_and(|(lowest, only)| lowest == priority && only.is_some());
        let has_lower = lowest.is_some_and(|(lowest, _)| lowest < priority);
        let pages_below = if spares_the_highest && has_lower { self.generation } else { 0 };
        Standing { rank, is_lowest, pages_below }
    }
}

/// Replaces when a process is due.
pub(super) fn set_due(
    all: &mut BTreeSet<(Instant, u32)>,
    key: u32,
    known: &mut Option<Instant>,
    due: Option<Instant>,
) {
    if *known == due {
        return;
    }
    if let Some(known) = known.take() {
        all.remove(&(known, key));
    }
    if let Some(due) = due {
        all.insert((due, key));
    }
    *known = due;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_visits_each_once_and_goes_on_where_it_ended() {
        let all: BTreeSet<u32> = [1, 5, 9, 12, 20].into();
        let mut sweep = Sweep::default();
        assert!(sweep.take(&all, 2).is_empty());
        sweep.begin(all.len());
        assert_eq!(sweep.take(&all, 2), [1, 5]);
        assert_eq!(sweep.take(&all, 2), [9, 12]);
        // One that begins anew goes on with those that have waited for longest.
        sweep.begin(all.len());
        assert_eq!(sweep.take(&all, 3), [20, 1, 5]);
        assert_eq!(sweep.take(&all, 9), [9, 12]);
        assert!(sweep.is_over());
    }

    #[test]
    fn those_that_come_first_or_last_are_known_at_once() {
        let priority = |n| Some(Priority::new(n).expect("a priority"));
        let mut gpu = OnGpu::default();
        assert_eq!(gpu.set_priority(1, None, priority(0)), [1, 1, 1]);
        assert_eq!(gpu.set_priority(2, None, priority(5)), [2, 1, 1, 2, 1]);
        assert_eq!(gpu.set_priority(3, None, priority(3)), [3]);
        assert_eq!(gpu.set_priority(3, priority(3), priority(5)), [3, 2, 1, 1]);
        let rank = |n| gpu.standing(priority(n).expect("a priority"), true).rank;
        assert_eq!([0, 5].map(rank), [NodeRank::Outranked, NodeRank::Contended]);
        assert!(gpu.standing(Priority::default(), true).is_lowest);
    }
}
