//! The reaper, which takes completions that no thread waits for.

use std::sync::Arc;
use std::time::Duration;

use super::{DeviceQueue, QueueList, USER_CODE};
use crate::backoff::{Backoff, SPINS};
use crate::panics::contain;

/// The longest rest while there are queues to look at: fences that were lost must be missed in
/// time, whenever they were put.
const REST_MAX: Duration = Duration::from_millis(50);

/// State of the reaper between two rounds.
#[derive(Default)]
pub(crate) struct Reaper {
    queues: Vec<Arc<dyn DeviceQueue>>,
    rounds: u32,
    backoff: Backoff,
}

impl Reaper {
    /// Looks at all queues once, after a rest if there was nothing to see for a while. False when
    /// there will never be anything again.
    pub(crate) fn round(&mut self, list: &QueueList) -> bool {
        let polls = !self.queues.is_empty() && self.backoff.is_spinning();
        list.set_polling(polls);
        let mut span = Duration::ZERO;
        if polls {
            self.backoff.spin();
        } else {
            span = park(&mut self.queues, self.backoff.delay());
        }
        let at_most = (!self.queues.is_empty()).then_some(span);
        let news = list.take(&mut self.queues, at_most);
        if news.end {
            return false;
        }
        self.rounds = self.rounds.wrapping_add(1);
        // A reaper that one queue keeps polling must not forget the rest.
        let all = !polls || self.rounds.is_multiple_of(SPINS);
        let (mut progress, mut eager_progress) = (news.notified, news.notified);
        self.queues.retain(|queue| {
            let eager = queue.is_eager();
            // Their submitters see to these: now and then is enough.
            if !all && !eager {
                return true;
            }
            let found = contain(USER_CODE, || queue.reap()).unwrap_or(true);
            progress |= found;
            eager_progress |= found && eager;
            // At once, as a reaper that other queues keep polling never rests.
            !contain(USER_CODE, || queue.leave()).unwrap_or(false)
        });
        self.backoff.slept(span);
        if eager_progress {
            self.backoff.reset();
        } else if progress {
            self.backoff.shorten();
        }
        true
    }
}

/// Asks the devices to notify the reaper. Lets those queues go that do not need it; says how long
/// the remaining ones can be left alone.
fn park(queues: &mut Vec<Arc<dyn DeviceQueue>>, poll_delay: Duration) -> Duration {
    let mut span = REST_MAX;
    queues.retain(|queue| {
        let rest = contain(USER_CODE, || queue.rest(poll_delay)).flatten();
        span = span.min(rest.unwrap_or(REST_MAX));
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
        fn rest(&self, poll_delay: Duration) -> Option<Duration> {
            Some(poll_delay)
        }
        fn pump(&self) {}
    }

    #[test]
    fn a_reaper_that_one_queue_keeps_polling_looks_at_the_rest() {
        let (list, mut reaper) = (QueueList::new(), Reaper::default());
        let busy = Arc::new(Endless { eager: true, ..Endless::default() });
        let other = Arc::new(Endless::default());
        list.push(Arc::clone(&busy) as _);
        list.push(Arc::clone(&other) as _);
        for _ in 0..10 * SPINS {
            assert!(reaper.round(&list));
        }
        assert_eq!(busy.reaped.load(Ordering::Relaxed), 10 * SPINS);
        assert!((9..=11).contains(&other.reaped.load(Ordering::Relaxed)));
    }

    #[test]
    fn a_queue_that_is_over_leaves_a_reaper_that_never_rests() {
        let (list, mut reaper) = (QueueList::new(), Reaper::default());
        list.push(Arc::new(Endless { eager: true, ..Endless::default() }));
        let over = Arc::new(Endless { over: true, ..Endless::default() });
        list.push(Arc::clone(&over) as _);
        for _ in 0..2 * SPINS {
            assert!(reaper.round(&list));
        }
        assert_eq!(Arc::strong_count(&over), 1);
    }
}
