//! Gangs: processes that are held and released together, such as the ranks of a job on several
//! GPUs.
//!
//! A gang runs while the scheduler lets it run on each GPU where it has work. As soon as one GPU is
//! missing, all its members are closed in the same pass; they are opened in the same pass as well.
//! What it could run on while it waits is claimed for it, so that the missing GPUs can come. That
//! ends after [`PATIENCE`], or at once for a gang that waits for longer: the members there are
//! away, which the scheduler takes for suspended, until the missing GPUs are there.

mod form;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use xsched_core::hint::Priority;
use xsched_core::id::DeviceId;
use xsched_core::time::{Duration, Instant};

/// For how long a gang claims GPUs while it waits for others.
pub(crate) const PATIENCE: Duration = Duration::from_ms(10);

/// What a gang makes of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stance {
    /// It runs if the scheduler lets it.
    #[default]
    Open,
    /// It is held until the gang runs.
    Closed,
    /// It is held as well, and claims nothing.
    Away,
}

/// A process of a gang on a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) key: u32,
    pub(super) device: DeviceId,
    pub(super) is_loaded: bool,
    /// The scheduler lets it run.
    pub(super) is_ordered: bool,
    pub(super) is_by_hand: bool,
    pub(super) stance: Stance,
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

const fn place(device: DeviceId) -> Places {
    1_u64.wrapping_shl(device.0 as u32)
}

/// Where a gang has work.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// It may run there.
    claims: Places,
    /// It may not.
    missing: Places,
    /// A user holds it there.
    by_hand: Places,
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
    /// Nothing is in its way but the claims of gangs that come after it.
    fn keeps_claims(&self, all: &[Self], busy: Places) -> bool {
        let after = all.iter().filter(|other| other.rank > self.rank);
        let theirs = after.fold(0, |places, other| places | other.needs.claims);
        self.needs.by_hand == 0 && self.needs.missing & (busy | !theirs) == 0
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
        for member in self.members.iter().filter(|member| member.is_loaded) {
            let place = place(member.device);
            match (member.is_by_hand, member.stance, member.is_ordered) {
                (true, _, _) => needs.by_hand |= place,
                (_, Stance::Away, _) => {}
                (_, _, true) => needs.claims |= place,
                (_, _, false) => not_yet |= place,
            }
        }
        needs.missing = needs.by_hand | not_yet & !needs.claims;
        needs
    }

    fn set(&mut self, from: Option<Stance>, to: Stance) {
        let changed = self.members.iter_mut().filter(|m| from.is_none_or(|from| m.stance == from));
        changed.for_each(|member| member.stance = to);
    }

    /// Opens or closes it. Answers the GPUs that it runs on.
    fn turn(&mut self, now: Instant) -> Places {
        let needs = self.needs();
        let is_any_away = self.members.iter().any(|member| member.stance == Stance::Away);
        self.is_back = needs.missing == 0 && is_any_away;
        if self.is_back {
            self.set(None, Stance::Closed);
            self.waiting = Some(now);
            return 0;
        }
        if needs.missing == 0 {
            self.set(None, Stance::Open);
            self.waiting = None;
            self.ran = if needs.claims == 0 { self.ran } else { now };
            return needs.claims;
        }
        self.set(Some(Stance::Open), Stance::Closed);
        let claims = needs.claims != 0;
        self.waiting = if claims { self.waiting.or(Some(now)) } else { None };
        0
    }

    const fn rank(&self) -> Rank {
        (self.ran, Reverse(self.priority), self.number)
    }

    /// What it waits for, if it does.
    fn wait(&self) -> Option<Waiting> {
        self.waiting.filter(|_| !self.is_back)?;
        Some(Waiting { rank: self.rank(), needs: self.needs() })
    }

    /// Has its members claim nothing: all those on the GPUs that it could run on, so that
    /// several on one GPU come back together.
    fn give_way(&mut self) {
        let claims = self.needs().claims;
        for member in self.members.iter_mut().filter(|member| member.is_loaded) {
            if claims & place(member.device) != 0 {
                member.stance = Stance::Away;
            }
        }
        self.waiting = None;
    }

    /// The time until it gives way.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let left = |since: Instant| PATIENCE.as_ns().saturating_sub(now.since(since).as_ns());
        self.waiting.map_or(Duration::MAX, |since| Duration::from_ns(left(since)))
    }
}

/// Decides which members are open. `busy` are the GPUs that others run on.
pub(super) fn settle(gangs: &mut [Gang], mut busy: Places, now: Instant) {
    for gang in &mut *gangs {
        busy |= gang.turn(now);
    }
    let waiting: Vec<_> = gangs.iter().filter_map(Gang::wait).collect();
    let keep = waiting.iter().filter(|one| one.keeps_claims(&waiting, busy));
    let keep: Vec<_> = keep.copied().collect();
    for gang in gangs {
        let Some(Waiting { rank, needs }) = gang.wait() else { continue };
        let is_in_way =
            keep.iter().any(|other| other.rank < rank && other.needs.missing & needs.claims != 0);
        let keeps = keep.iter().any(|other| other.rank == rank);
        if is_in_way || !keeps && gang.left(now) == Duration::ZERO {
            gang.give_way();
        }
    }
}

/// All gangs.
#[derive(Debug, Default)]
pub(super) struct Gangs {
    /// Those that have something to decide.
    all: Vec<Gang>,
    /// Some process has named a gang.
    is_any: bool,
    is_stale: bool,
    /// The scheduler is to decide again.
    is_due: bool,
}

impl Gangs {
    /// A process has come to a GPU.
    pub(super) const fn note_unit(&mut self, has_gang: bool) {
        self.is_any |= has_gang;
        self.note_change();
    }

    /// Processes, their tenants or hints have changed.
    pub(super) const fn note_change(&mut self) {
        self.is_stale = self.is_any;
    }

    /// The time until there is something to decide.
    pub(super) fn left(&self, now: Instant) -> Duration {
        if self.is_due {
            return Duration::ZERO;
        }
        self.all.iter().map(|gang| gang.left(now)).min().unwrap_or(Duration::MAX)
    }

    /// For how many processes there is something to decide.
    #[cfg(test)]
    pub(super) fn members(&self) -> usize {
        self.all.iter().map(|gang| gang.members.len()).sum()
    }
}
