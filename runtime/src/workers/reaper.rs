//! The reaper, which takes completions that no thread waits for.

use std::sync::Arc;
use std::time::Duration;

use super::{DeviceQueue, QueueList, USERS};
use crate::panics::contain;
use crate::sync::bound;

/// Rounds without a completion for which the reaper goes on polling.
const POLL_ROUNDS: u32 = bound(64, 1);
/// Spin hints between two rounds of a reaper that polls: about a microsecond. More looks would take
/// the queue's memory away from the submitter, all the time.
const SPIN_HINTS: u32 = bound(20, 0);
/// The reaper's delays between looks at a device that cannot notify it, in microseconds: the first,
/// and the longest.
const POLL_DELAY_US: (u64, u64) = (20, 500);
/// The longest rest while there are queues to look at: fences that were lost must be missed in
/// time, whenever they were put.
const REST: Duration = Duration::from_millis(50);
/// Every so many rests, queues with nothing in flight are let go. It costs a wake-up to come back,
/// so a queue that is used again and again stays for a while.
const EVICT_EVERY: u32 = bound(8, 2);

/// What the reaper knows from one round to the next.
pub(crate) struct Reaper {
    queues: Vec<Arc<dyn DeviceQueue>>,
    rounds: u32,
    quiet_rounds: u32,
    rests: u32,
    poll_delay: Duration,
}

impl Default for Reaper {
    fn default() -> Self {
        let poll_delay = Duration::from_micros(POLL_DELAY_US.0);
        Self { queues: Vec::new(), rounds: 0, quiet_rounds: 0, rests: 0, poll_delay }
    }
}

impl Reaper {
    /// Looks at all queues once, after a rest if there was nothing to see for a while. False when
    /// there will never be anything again.
    pub(crate) fn round(&mut self, list: &QueueList) -> bool {
        let polls = !self.queues.is_empty() && self.quiet_rounds < POLL_ROUNDS;
        list.set_polling(polls);
        let mut span = Duration::ZERO;
        if polls {
            (0..SPIN_HINTS).for_each(|_| std::hint::spin_loop());
        } else {
            self.rests = (self.rests + 1) % EVICT_EVERY;
            span = park(&mut self.queues, self.poll_delay, self.rests == 0);
        }
        let at_most = (!self.queues.is_empty()).then_some(span);
        let news = list.take(&mut self.queues, at_most);
        if news.end {
            return false;
        }
        self.rounds = self.rounds.wrapping_add(1);
        // A reaper that one queue keeps polling must not forget the rest.
        let all = !polls || self.rounds.is_multiple_of(POLL_ROUNDS);
        let (mut progress, mut eager_progress) = (false, news.notified);
        self.queues.retain(|queue| {
            let eager = queue.is_eager();
            // Their submitters see to these: now and then is enough.
            if !all && !eager {
                return true;
            }
            let found = contain(USERS, || queue.reap()).unwrap_or(true);
            progress |= found;
            eager_progress |= found && eager;
            // At once, as a reaper that other queues keep polling never rests.
            !contain(USERS, || queue.leave()).unwrap_or(false)
        });
        self.quiet_rounds = if eager_progress { 0 } else { self.quiet_rounds.saturating_add(1) };
        if progress || news.notified {
            self.poll_delay = Duration::from_micros(POLL_DELAY_US.0);
        } else if !polls {
            self.poll_delay = (self.poll_delay * 2).min(Duration::from_micros(POLL_DELAY_US.1));
        }
        true
    }
}

/// Asks the devices to notify the reaper. Lets those queues go that do not need it; says how long
/// the remaining ones can be left alone.
fn park(
    queues: &mut Vec<Arc<dyn DeviceQueue>>,
    poll_delay: Duration,
    evict_idle: bool,
) -> Duration {
    let mut span = REST;
    queues.retain(|queue| {
        let rest = contain(USERS, || queue.rest(poll_delay, evict_idle)).flatten();
        span = span.min(rest.unwrap_or(REST));
        rest.is_some()
    });
    span
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use xsched_core::fault::Fault;

    use super::*;

    /// A queue that always has a completion to take.
    #[derive(Default)]
    struct Endless {
        eager: bool,
        over: bool,
        reaped: AtomicU32,
    }

    impl DeviceQueue for Endless {
        fn committed(&self, _: Option<Fault>) {}
        fn is_eager(&self) -> bool {
            self.eager
        }
        fn reap(&self) -> bool {
            self.reaped.fetch_add(1, Ordering::Relaxed);
            true
        }
        fn leave(&self) -> bool {
            self.over
        }
        fn rest(&self, poll_delay: Duration, _: bool) -> Option<Duration> {
            Some(poll_delay)
        }
        fn pump(&self) {}
        fn launch_handed_over(&self) -> u32 {
            0
        }
    }

    #[test]
    fn a_reaper_that_one_queue_keeps_polling_looks_at_the_rest() {
        let (list, mut reaper) = (QueueList::new(), Reaper::default());
        let busy = Arc::new(Endless { eager: true, ..Endless::default() });
        let other = Arc::new(Endless::default());
        list.push(Arc::clone(&busy) as _);
        list.push(Arc::clone(&other) as _);
        for _ in 0..10 * POLL_ROUNDS {
            assert!(reaper.round(&list));
        }
        assert_eq!(busy.reaped.load(Ordering::Relaxed), 10 * POLL_ROUNDS);
        assert!((9..=11).contains(&other.reaped.load(Ordering::Relaxed)));
    }

    #[test]
    fn a_queue_that_is_over_leaves_a_reaper_that_never_rests() {
        let (list, mut reaper) = (QueueList::new(), Reaper::default());
        list.push(Arc::new(Endless { eager: true, ..Endless::default() }));
        let over = Arc::new(Endless { over: true, ..Endless::default() });
        list.push(Arc::clone(&over) as _);
        for _ in 0..2 * POLL_ROUNDS {
            assert!(reaper.round(&list));
        }
        assert_eq!(Arc::strong_count(&over), 1);
    }
}
