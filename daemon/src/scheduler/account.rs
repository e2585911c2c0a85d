//! Counters of a process on a GPU for people: holds, waits, and the share that it got.

use xsched_core::time::{Duration, Instant};
use xsched_node::entity::{EntityState, SchedEntity};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// The upper ends of a histogram's buckets, in nanoseconds: 10 µs to 10 s.
pub(crate) const BOUNDS_NS: [u64; 19] = [
    10 * US,
    20 * US,
    50 * US,
    100 * US,
    200 * US,
    500 * US,
    MS,
    2 * MS,
    5 * MS,
    10 * MS,
    20 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    500 * MS,
    S,
    2 * S,
    5 * S,
    10 * S,
];

/// Times, by the first of [`BOUNDS_NS`] that is not less; the last count is of the longer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    pub(crate) counts: [u64; BOUNDS_NS.len() + 1],
    pub(crate) sum_ns: u64,
}

impl Histogram {
    fn add(&mut self, time: Duration) {
        let at = BOUNDS_NS.partition_point(|bound| *bound < time.as_ns());
        self.counts[at] += 1;
        self.sum_ns = self.sum_ns.saturating_add(time.as_ns());
    }

    /// Combines each count with that of another one.
    pub(super) fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        let counts = self.counts.iter_mut().zip(other.counts);
        counts.for_each(|(count, more)| *count = with(*count, more));
        self.sum_ns = with(self.sum_ns, other.sum_ns);
    }
}

/// Figures of a process on a GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    state: EntityState,
    /// Since when it is held, and since when it has work besides.
    held_since: Option<Instant>,
    waiting_since: Option<Instant>,
    /// Since when it has had work without having been able to run.
    begun: Option<Instant>,
    /// Begin of the hold that lasts, if it came while it had work.
    stopped: Option<Instant>,
    held: Duration,
    waited: Duration,
    waits: u64,
    leases_lost: u64,
    wait_times: Histogram,
    hold_times: Histogram,
    quiet_times: Histogram,
    /// The last window of [`Account::sample`]: its end, and what had been used by then.
    sampled: Instant,
    used_ns: u64,
    got_permille: u32,
}

impl Account {
    /// Begins now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { sampled: now, ..Self::default() }
    }

    /// Takes note of the state of a process. May be called when nothing changes.
    pub(crate) fn note(&mut self, entity: &SchedEntity, now: Instant) {
        self.turn(entity.state(), entity.probe().last_end(), now);
    }

    /// Notes the state now, and when in its last hold commands were last seen to end.
    fn turn(&mut self, state: EntityState, last_end: Option<Instant>, now: Instant) {
        let before = std::mem::replace(&mut self.state, state);
        let is_waiting = state.is_ready() && state.is_held();
        self.held = plus(self.held, follow(&mut self.held_since, state.is_held(), now));
        let was_waiting = self.waiting_since.is_some();
        self.waited = plus(self.waited, follow(&mut self.waiting_since, is_waiting, now));
        if is_waiting && !was_waiting {
            self.waits += 1;
            self.stopped = before.is_ready().then_some(now);
        }
        if !state.is_ready() {
            self.begun = None;
        } else if !before.is_ready() {
            self.begun = Some(now);
        }
        if state.is_ready()
            && !state.is_held()
            && let Some(begun) = self.begun.take()
        {
            self.wait_times.add(now.since(begun));
        }
        if !is_waiting && let Some(stopped) = self.stopped.take() {
            self.end_stop(stopped, last_end, now);
        }
    }

    /// Counts a hold that has ended, or during which all work did that could not be held back.
    fn end_stop(&mut self, stopped: Instant, last_end: Option<Instant>, now: Instant) {
        let goes_on = self.state.is_ready();
        if goes_on {
            self.hold_times.add(now.since(stopped));
        }
        if let Some(quiet) = if goes_on { last_end } else { Some(now) } {
            self.quiet_times.add(quiet.since(stopped));
        }
    }

    /// The daemon was too late to renew its hold.
    pub(crate) const fn lose_lease(&mut self) {
        self.leases_lost += 1;
    }

    /// Notes the device time used by now. Ends the window over which the share is taken.
    pub(crate) fn sample(&mut self, used: Duration, now: Instant) {
        let passed_ns = now.since(std::mem::replace(&mut self.sampled, now)).as_ns();
        let got_ns = used.as_ns().saturating_sub(self.used_ns);
        self.used_ns = used.as_ns();
        let permille = u128::from(got_ns) * 1_000 / u128::from(passed_ns.max(1));
        self.got_permille = permille.min(1_000) as u32;
    }

    /// The share that it got over the last window, 0 to 1000.
    pub(crate) const fn got_permille(&self) -> u32 {
        self.got_permille
    }

    /// For how long it was held by now.
    pub(crate) fn held(&self, now: Instant) -> Duration {
        plus(self.held, self.held_since.map_or(Duration::ZERO, |since| now.since(since)))
    }

    /// For how long it had work and was held by now.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        plus(self.waited, self.waiting_since.map_or(Duration::ZERO, |since| now.since(since)))
    }

    pub(crate) const fn waits(&self) -> u64 {
        self.waits
    }

    pub(crate) const fn leases_lost(&self) -> u64 {
        self.leases_lost
    }

    /// From the begin of work until it could run.
    pub(crate) const fn wait_times(&self) -> &Histogram {
        &self.wait_times
    }

    /// Of holds that came while it had work, until it could run again.
    pub(crate) const fn hold_times(&self) -> &Histogram {
        &self.hold_times
    }

    /// Of holds during which commands of it retired, until it was seen that the last of them had.
    pub(crate) const fn quiet_times(&self) -> &Histogram {
        &self.quiet_times
    }
}

const fn plus(one: Duration, other: Duration) -> Duration {
    Duration::from_ns(one.as_ns().saturating_add(other.as_ns()))
}

/// Begins or ends a time; answers how long one was that ends now.
fn follow(since: &mut Option<Instant>, is_on: bool, now: Instant) -> Duration {
    match (is_on, *since) {
        (true, None) => *since = Some(now),
        (false, Some(begun)) => {
            *since = None;
            return now.since(begun);
        }
        _ => {}
    }
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use xsched_node::entity::EntityState::{Held, Idle, Parked, Running};

    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_ns(us * US)
    }

    /// Steps through these states at these microseconds.
    fn account(steps: &[(EntityState, u64)]) -> Account {
        let mut account = Account::new(at(0));
        steps.iter().for_each(|(state, us)| account.turn(*state, None, at(*us)));
        account
    }

    #[test]
    fn waits_and_holds_are_told_apart() {
        // Held without work, then work begins, and it may run after 30 µs.
        let mut account = account(&[(Parked, 10), (Held, 20), (Running, 50)]);
        // Held for 300 µs in its work.
        account.turn(Held, None, at(100));
        account.turn(Held, None, at(150));
        assert_eq!(account.waited(at(150)).as_ns(), 80 * US);
        account.turn(Running, None, at(400));
        account.turn(Idle, None, at(500));
        // Work that runs at once.
        account.turn(Running, None, at(600));
        let ns = |time: Duration| time.as_ns() / US;
        assert_eq!([ns(account.held(at(700))), ns(account.waited(at(700)))], [340, 330]);
        assert_eq!(account.waits(), 2);
        let (waits, holds) = (account.wait_times(), account.hold_times());
        assert_eq!((waits.sum_ns, waits.counts[0], waits.counts[2]), (30 * US, 1, 1));
        assert_eq!((holds.sum_ns, holds.counts[5]), (300 * US, 1));
        assert_eq!(waits.counts.iter().sum::<u64>(), 2);
    }

    #[test]
    fn work_that_goes_away_while_it_is_held_never_waited_for_its_turn() {
        let account = account(&[(Held, 10), (Parked, 40), (Idle, 50)]);
        assert_eq!(*account.wait_times(), Histogram::default());
        assert_eq!((account.waits(), account.waited(at(90)).as_ns()), (1, 30 * US));
    }

    #[test]
    fn a_hold_is_quiet_when_the_last_command_retires_that_it_came_too_late_for() {
        let mut account = account(&[(Running, 0), (Held, 100)]);
        account.turn(Running, Some(at(180)), at(900));
        let quiet = account.quiet_times();
        assert_eq!((quiet.sum_ns, quiet.counts[3]), (80 * US, 1));
        assert_eq!(account.hold_times().sum_ns, 800 * US);
        // Nothing retires: it is not known when it was quiet.
        account.turn(Held, None, at(1_000));
        account.turn(Running, None, at(1_100));
        assert_eq!(account.quiet_times().counts.iter().sum::<u64>(), 1);
        // All of it retires, so it never runs again.
        account.turn(Held, None, at(1_200));
        account.turn(Parked, None, at(1_230));
        account.turn(Idle, None, at(1_500));
        let counts = |times: &Histogram| times.counts.iter().sum::<u64>();
        assert_eq!((counts(account.quiet_times()), counts(account.hold_times())), (2, 2));
        assert_eq!(account.quiet_times().sum_ns, 110 * US);
    }

    #[test]
    fn a_bound_belongs_to_its_bucket_and_longer_times_to_the_last() {
        let mut times = Histogram::default();
        for us in [0, 10, 11, 10_000_000, 10_000_001] {
            times.add(Duration::from_us(us));
        }
        assert_eq!((times.counts[0], times.counts[1], times.counts[18]), (2, 1, 1));
        assert_eq!(times.counts[19], 1);
        let mut both = times;
        both.combine(&times, u64::saturating_add);
        assert_eq!(both.counts[0], 4);
    }

    #[test]
    fn the_share_is_that_of_the_last_window() {
        let mut account = Account::new(at(0));
        account.sample(Duration::from_us(300), at(1_000));
        assert_eq!(account.got_permille(), 300);
        account.sample(Duration::from_us(300), at(2_000));
        assert_eq!(account.got_permille(), 0);
        account.sample(Duration::from_us(9_000), at(3_000));
        assert_eq!(account.got_permille(), 1_000);
    }
}
