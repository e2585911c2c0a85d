//! How long suspending and resuming took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Of the mean, a new measurement counts for one part in so many.
const WEIGHT: u64 = 8;

/// How long calls took that cost a preemption.
#[derive(Debug, Default)]
pub struct History {
    suspend: Series,
    resume: Series,
}

#[derive(Debug, Default)]
struct Series {
    count: AtomicU64,
    mean_ns: AtomicU64,
    max_ns: AtomicU64,
}

/// What was measured of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Calls.
    pub count: u64,
    /// Their mean, in nanoseconds, in which later ones weigh more.
    pub mean_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl History {
    /// What suspending took, from the call to its answer.
    #[must_use]
    pub fn suspend(&self) -> Measured {
        self.suspend.measured()
    }

    /// What resuming took, from the call to its answer.
    #[must_use]
    pub fn resume(&self) -> Measured {
        self.resume.measured()
    }

    /// Notes what suspending took.
    pub fn note_suspend(&self, since: Instant) {
        self.suspend.note(nanoseconds(since));
    }

    /// Notes what resuming took.
    pub fn note_resume(&self, since: Instant) {
        self.resume.note(nanoseconds(since));
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Series {
    fn note(&self, ns: u64) {
        // Calls are made one at a time; if two met, a measurement would be lost and no more.
        let before = self.mean_ns.load(Ordering::Relaxed);
        let first = self.count.fetch_add(1, Ordering::Relaxed) == 0;
        let mean = if first { ns } else { before - before / WEIGHT + ns / WEIGHT };
        self.mean_ns.store(mean, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
    }

    fn measured(&self) -> Measured {
        Measured {
            count: self.count.load(Ordering::Relaxed),
            mean_ns: self.mean_ns.load(Ordering::Relaxed),
            max_ns: self.max_ns.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_what_is_measured() {
        let series = Series::default();
        series.note(800);
        assert_eq!(series.measured(), Measured { count: 1, mean_ns: 800, max_ns: 800 });
        (0..200).for_each(|_| series.note(80_000));
        let later = series.measured();
        assert!((79_000..=80_000).contains(&later.mean_ns), "{later:?}");
        assert_eq!((later.count, later.max_ns), (201, 80_000));
        series.note(u64::MAX);
        series.note(u64::MAX);
        assert_eq!(series.measured().max_ns, u64::MAX);
    }
}
