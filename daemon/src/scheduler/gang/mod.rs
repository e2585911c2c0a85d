//! Gangs: processes that are held and released together, such as the ranks of a job on several
//! GPUs.
//!
//! A gang runs while the scheduler lets it run on each GPU where it has work. As soon as one GPU is
//! missing, all its members are closed in the same pass; they are opened in the same pass as well.
//! What it could run on while it waits is claimed for it, so that the missing GPUs can come. That
//! ends after [`Gangs::claim_for`], or at once for a gang that waits for longer: the members there
//! yield, which the scheduler takes for suspended, until the missing GPUs are there.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use xsched_core::hint::Priority;
use xsched_core::id::DeviceId;
use xsched_core::time::{Duration, Instant};
use xsched_node::entity::GangState;

/// Claim of a member to its GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The member has no work.
    None,
    /// A user holds it.
    Suspended,
    /// The scheduler lets it run.
    Granted,
    /// The scheduler holds it.
    Refused,
}

/// A process of a gang on a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) key: u32,
    pub(super) device: DeviceId,
    pub(super) claim: Claim,
    pub(super) state: GangState,
}

/// A user, the tenant of its processes, and what they call their gang.
pub(super) type Name = (u32, String, String);

/// Processes that are held and released together.
#[derive(Debug)]
pub(super) struct Gang {
    pub(super) name: Name,
    pub(super) members: Vec<Member>,
    /// The highest of its members.
    pub(super) priority: Priority,
    /// Smaller than that of gangs which came later.
    pub(super) number: u64,
    /// When it ran last.
    pub(super) ran: Instant,
    /// Since when it has claimed GPUs without running.
    pub(super) waiting: Option<Instant>,
    /// In this pass its members were told to come back: what the scheduler makes of it is not known
    /// yet.
    is_back: bool,
}

/// Some GPUs, by their numbers: the places of devices are 64.
type Places = u64;

pub(super) const fn place(device: DeviceId) -> Places {
    1_u64.wrapping_shl(device.0 as u32)
}

/// Where a gang has work.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// Places where the gang may run.
    claims: Places,
    /// Places where the gang may not run.
    missing: Places,
    /// A user holds it there.
    suspended: Places,
}

/// Gangs that have waited for longer come first; of those that never ran, the more urgent ones, and
/// then those that came first.
type Rank = (Instant, Reverse<Priority>, u64);

/// A gang that waits for others.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    rank: Rank,
    needs: Needs,
}

impl Waiting {
    /// Nothing is in its way but the claims of gangs that come after it, which are these.
    const fn keeps_claims(&self, claims_after: Places, busy: Places) -> bool {
        self.needs.suspended == 0 && self.needs.missing & (busy | !claims_after) == 0
    }
}

impl Gang {
    pub(super) const fn new(name: Name, number: u64) -> Self {
        Self {
            name,
            members: Vec::new(),
            priority: Priority::MIN,
            number,
            ran: Instant::ZERO,
            waiting: None,
            is_back: false,
        }
    }

    fn needs(&self) -> Needs {
        let (mut needs, mut not_yet) = (Needs::default(), 0);
        for member in &self.members {
            let place = place(member.device);
            match (member.claim, member.state) {
                (Claim::None, _) => {}
                (Claim::Suspended, _) => needs.suspended |= place,
                (_, GangState::Yielding) => {}
                (Claim::Granted, _) => needs.claims |= place,
                (Claim::Refused, _) => not_yet |= place,
            }
        }
        needs.missing = needs.suspended | not_yet & !needs.claims;
        needs
    }

    fn set(&mut self, from: Option<GangState>, to: GangState) {
        let changed = self.members.iter_mut().filter(|m| from.is_none_or(|from| m.state == from));
        changed.for_each(|member| member.state = to);
    }

    /// Opens or closes it. Answers the GPUs that it runs on.
    fn turn(&mut self, now: Instant) -> Places {
        let needs = self.needs();
        let is_any_yielding = self.members.iter().any(|member| member.state == GangState::Yielding);
        self.is_back = needs.missing == 0 && is_any_yielding;
        if self.is_back {
            self.set(None, GangState::Held);
            self.waiting = Some(now);
            return 0;
        }
        if needs.missing == 0 {
            self.set(None, GangState::Runnable);
            self.waiting = None;
            self.ran = if needs.claims == 0 { self.ran } else { now };
            return needs.claims;
        }
        self.set(Some(GangState::Runnable), GangState::Held);
        let claims = needs.claims != 0;
        self.waiting = if claims { self.waiting.or(Some(now)) } else { None };
        0
    }

    const fn rank(&self) -> Rank {
        (self.ran, Reverse(self.priority), self.number)
    }

    /// Returns the places that the gang waits for, with its rank, if it waits.
    fn wait(&self) -> Option<Waiting> {
        self.waiting.filter(|_| !self.is_back)?;
        Some(Waiting { rank: self.rank(), needs: self.needs() })
    }

    /// Has its members claim nothing: all those on the GPUs that it could run on, so that
    /// several on one GPU come back together.
    fn give_way(&mut self) {
        let claims = self.needs().claims;
        for member in self.members.iter_mut().filter(|member| member.claim != Claim::None) {
            if claims & place(member.device) != 0 {
                member.state = GangState::Yielding;
            }
        }
        self.waiting = None;
    }

    /// Time until it gives way.
    fn gives_way_in(&self, claim_for: Duration, now: Instant) -> Duration {
        self.waiting.map_or(Duration::MAX, |since| claim_for - now.since(since))
    }
}

/// Decides which members run. `busy` are the GPUs that others run on; a gang claims GPUs for
/// `claim_for` while it waits for others.
pub(super) fn settle(gangs: &mut [Gang], mut busy: Places, claim_for: Duration, now: Instant) {
    for gang in &mut *gangs {
        busy |= gang.turn(now);
    }
    let mut waiting: Vec<_> = gangs.iter().filter_map(Gang::wait).collect();
    waiting.sort_unstable_by_key(|gang| gang.rank);
    let (mut claims_after, mut keep) = (0, BTreeSet::new());
    for gang in waiting.iter().rev() {
        if gang.keeps_claims(claims_after, busy) {
            keep.insert(gang.rank);
        }
        claims_after |= gang.needs.claims;
    }
    // What those miss that keep their claims and come before each one that waits.
    let (mut missing, mut missing_before) = (0, BTreeMap::new());
    for Waiting { rank, needs } in waiting {
        missing_before.insert(rank, missing);
        missing |= if keep.contains(&rank) { needs.missing } else { 0 };
    }
    for gang in gangs {
        let Some(Waiting { rank, needs }) = gang.wait() else { continue };
        let missing = missing_before.get(&rank).copied().unwrap_or_default();
        let is_in_way = missing & needs.claims != 0;
        let is_over = || gang.gives_way_in(claim_for, now) == Duration::ZERO;
        if is_in_way || !keep.contains(&rank) && is_over() {
            gang.give_way();
        }
    }
}

/// All gangs.
#[derive(Debug)]
pub(super) struct Gangs {
    /// Gangs that have something to decide, by name.
    pub(super) all: Vec<Gang>,
    /// The processes of each gang that processes have named.
    processes: BTreeMap<Name, BTreeSet<u64>>,
    /// Gangs whose processes have changed.
    stale: BTreeSet<Name>,
    /// Time for which a gang claims GPUs while it waits for others.
    pub(super) claim_for: Duration,
    /// GPUs of the gangs that have something to decide.
    pub(super) places: Places,
    /// Members have changed since the last pass.
    pub(super) has_changed: bool,
    /// The scheduler is to decide again.
    pub(super) is_due: bool,
    /// When the next gang gives way.
    pub(super) gives_way: Option<Instant>,
}

impl Gangs {
    pub(super) const fn new(claim_for: Duration) -> Self {
        Self {
            all: Vec::new(),
            processes: BTreeMap::new(),
            stale: BTreeSet::new(),
            claim_for,
            places: 0,
            has_changed: false,
            is_due: false,
            gives_way: None,
        }
    }

    /// Notes that a process names a gang.
    pub(super) fn join(&mut self, name: Option<Name>, process: u64) {
        let Some(name) = name else { return };
        self.processes.entry(name.clone()).or_default().insert(process);
        self.stale.insert(name);
    }

    /// Notes that a process has left its gang.
    pub(super) fn leave(&mut self, name: Option<&Name>, process: u64) {
        let Some(name) = name else { return };
        if let Some(processes) = self.processes.get_mut(name) {
            processes.remove(&process);
            if processes.is_empty() {
                self.processes.remove(name);
            }
        }
        self.stale.insert(name.clone());
    }

    /// Notes that the GPUs or hints of a process in a gang have changed.
    pub(super) fn note_change(&mut self, name: Option<&Name>) {
        if let Some(name) = name.filter(|name| !self.stale.contains(*name)) {
            self.stale.insert(name.clone());
        }
    }

    /// Gangs whose processes have changed since this was asked last.
    pub(super) fn take_stale(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.stale)
    }

    /// The processes of a gang.
    pub(super) fn processes(&self, name: &Name) -> impl Iterator<Item = u64> {
        self.processes.get(name).into_iter().flatten().copied()
    }

    /// Replaces a gang by what it is now, or by none if there is nothing to decide. Answers its
    /// members so far.
    pub(super) fn replace(&mut self, name: &Name, formed: Option<Gang>) -> Vec<Member> {
        let before = match (self.all.binary_search_by(|gang| gang.name.cmp(name)), formed) {
            (Ok(at), Some(mut formed)) => {
                let known = &mut self.all[at];
                (formed.ran, formed.waiting) = (known.ran, known.waiting);
                Some(std::mem::replace(known, formed))
            }
            (Ok(at), None) => Some(self.all.remove(at)),
            (Err(at), Some(formed)) => {
                self.all.insert(at, formed);
                None
            }
            (Err(_), None) => None,
        };
        let members = self.all.iter().flat_map(|gang| &gang.members);
        self.places = members.fold(0, |places, member| places | place(member.device));
        self.has_changed = true;
        before.map_or(Vec::new(), |gang| gang.members)
    }

    /// Returns whether members are to be held or released, after something has changed on these
    /// GPUs.
    pub(super) fn is_decision_due(&self, touched: Places, now: Instant) -> bool {
        let is_over = self.gives_way.is_some_and(|at| at <= now);
        let has_changed = self.is_due || self.has_changed || touched & self.places != 0;
        !self.all.is_empty() && (has_changed || is_over)
    }

    /// Notes what a pass has found.
    pub(super) fn end_pass(&mut self, has_changed: bool, is_due: bool, now: Instant) {
        (self.has_changed, self.is_due) = (has_changed, is_due);
        let next = self.all.iter().map(|gang| gang.gives_way_in(self.claim_for, now));
        let next = next.filter(|left| *left < Duration::MAX).min();
        self.gives_way = next.map(|left| now + left);
    }

    /// Time until there is something to decide.
    pub(super) fn next_decision_in(&self, now: Instant) -> Duration {
        if self.is_due {
            return Duration::ZERO;
        }
        self.gives_way.map_or(Duration::MAX, |at| at.since(now))
    }

    /// Number of processes for which there is something to decide.
    #[cfg(test)]
    pub(super) fn members(&self) -> usize {
        self.all.iter().map(|gang| gang.members.len()).sum()
    }
}
