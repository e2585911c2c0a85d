//! What queues used of a device that they had at the same time.
//!
//! A device that is shared runs the commands of its queues in turn, so that the time between two
//! events of one stream contains commands of the others. A queue that was measured while it had the
//! device for itself is known to have used what was predicted. What is left of the time belongs to
//! the queues of which that is not known, in proportion to what was measured of each.

/// What came before so much shared time, in nanoseconds, counts half.
const MEMORY_NS: u64 = 50_000_000;
/// No queue is taken to have used less than one part in so many of what was measured.
const PARTS_MAX: u64 = 64;

/// A measurement of a queue's commands, all in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Between the events.
    pub(crate) elapsed_ns: u64,
    /// Of that, while the device was shared.
    pub(crate) shared_ns: u64,
    /// What was predicted.
    pub(crate) expected_ns: Option<u64>,
    /// The prediction was measured while the device was not shared.
    pub(crate) is_certain: bool,
}

impl Measured {
    /// What the queue used of the shared time as far as it is known, or else all of it. What others
    /// used lies in the shared time.
    fn used_ns(&self) -> u64 {
        let expected = self.expected_ns.filter(|_| self.is_certain).unwrap_or(self.elapsed_ns);
        self.shared_ns.saturating_sub(self.elapsed_ns.saturating_sub(expected))
    }
}

/// Sums over the last of the time in which a device was shared, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// How long that was.
    wall_ns: u64,
    /// Between events of queues with a certain prediction, and what they used.
    elapsed_ns: u64,
    used_ns: u64,
    /// Between events of the other queues.
    uncertain_ns: u64,
    /// What counts as predicted, without a measurement.
    counted_ns: u64,
}

impl Shares {
    /// The device was shared for so long.
    pub(crate) fn passed(&mut self, ns: u64) {
        let Self { wall_ns, elapsed_ns, used_ns, uncertain_ns, counted_ns } = self;
        for sum in [wall_ns, elapsed_ns, used_ns, uncertain_ns, counted_ns] {
            let kept = u128::from(*sum) * u128::from(MEMORY_NS);
            *sum = (kept / (u128::from(MEMORY_NS) + u128::from(ns))) as u64;
        }
        self.wall_ns = self.wall_ns.saturating_add(ns);
    }

    /// Commands that were not measured count as so much, as predicted.
    pub(crate) const fn counted(&mut self, ns: u64) {
        self.counted_ns = self.counted_ns.saturating_add(ns);
    }

    /// What the queue used in the time that was measured.
    pub(crate) fn used_ns(&mut self, measured: Measured) -> u64 {
        let used = measured.used_ns();
        let alone = measured.elapsed_ns.saturating_sub(measured.shared_ns);
        if measured.is_certain && measured.expected_ns.is_some() {
            self.elapsed_ns = self.elapsed_ns.saturating_add(measured.shared_ns);
            self.used_ns = self.used_ns.saturating_add(used);
            return measured.elapsed_ns.min(measured.expected_ns.unwrap_or(u64::MAX));
        }
        self.uncertain_ns = self.uncertain_ns.saturating_add(used);
        alone.saturating_add(self.part_of(used))
    }

    /// The part of an uncertain queue's time that it used.
    fn part_of(&self, ns: u64) -> u64 {
        // Else commands run beside each other and none takes the device from another, as far as is
        // known.
        let stretched = self.elapsed_ns.saturating_mul(10) > self.used_ns.saturating_mul(11);
        if self.used_ns == 0 || !stretched {
            return ns;
        }
        let left = self.wall_ns.saturating_sub(self.used_ns).saturating_sub(self.counted_ns);
        let left = u128::from(left);
        let part = (u128::from(ns) * left).checked_div(u128::from(self.uncertain_ns));
        part.map_or(ns, |part| part as u64).clamp(ns / PARTS_MAX, ns)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn shared(elapsed_us: u64, certain_us: Option<u64>) -> Measured {
        Measured {
            elapsed_ns: elapsed_us * US,
            shared_ns: elapsed_us * US,
            expected_ns: certain_us.map(|us| us * US),
            is_certain: certain_us.is_some(),
        }
    }

    /// In steps of 20 µs, which is as exact as it has to be.
    const fn round(ns: u64) -> u64 {
        ns.saturating_add(10 * US) / (20 * US) * 20
    }

    /// What the queues used in a turn of each, in microseconds, once that has settled: each turn
    /// takes so long, and each queue is measured so.
    fn settled(turn_us: u64, queues: &[Measured]) -> Vec<u64> {
        let mut shares = Shares::default();
        let mut used = Vec::new();
        for _ in 0..100 {
            shares.passed(turn_us * US);
            used = queues.iter().map(|queue| round(shares.used_ns(*queue))).collect();
        }
        used
    }

    #[test]
    fn what_is_left_belongs_to_the_queue_of_which_nothing_is_known() {
        assert_eq!(settled(1_000, &[shared(1_000, Some(500)), shared(1_000, None)]), [500, 500]);
        assert_eq!(settled(600, &[shared(600, Some(100)), shared(600, None)]), [100, 500]);
        assert_eq!(settled(600, &[shared(600, Some(500)), shared(600, None)]), [500, 100]);
    }

    #[test]
    fn what_is_left_is_parted_among_queues_of_which_nothing_is_known() {
        let three = [shared(900, Some(300)), shared(900, None), shared(900, None)];
        assert_eq!(settled(900, &three), [300, 300, 300]);
    }

    #[test]
    fn nothing_is_told_apart_if_nothing_is_known_of_any_queue() {
        assert_eq!(settled(1_000, &[shared(1_000, None), shared(1_000, None)]), [1_000, 1_000]);
    }

    #[test]
    fn what_counts_as_predicted_is_not_left() {
        let mut shares = Shares::default();
        let mut expected_us = 1_000;
        for _ in 0..100 {
            // Two commands of each in turns, and one of the second queue's is not measured.
            shares.passed(2_000 * US);
            shares.counted(expected_us * US);
            let certain = [shared(1_000, Some(500)); 2];
            let used: u64 = certain.into_iter().map(|measured| shares.used_ns(measured)).sum();
            assert_eq!(used, 1_000 * US);
            expected_us = shares.used_ns(shared(1_000, None)) / US;
        }
        assert_eq!(round(expected_us * US), 500);
    }

    #[test]
    fn commands_that_run_beside_each_other_take_what_was_measured() {
        assert_eq!(settled(500, &[shared(500, Some(500)), shared(500, None)]), [500, 500]);
        assert_eq!(settled(500, &[shared(510, Some(500)), shared(500, None)]), [500, 500]);
    }

    #[test]
    fn time_in_which_the_device_was_not_shared_counts_in_full() {
        let mut measured = shared(1_000, None);
        measured.shared_ns = 400 * US;
        assert_eq!(settled(400, &[measured, shared(400, Some(200))]), [800, 200]);
    }

    #[test]
    fn nonsense_is_bounded_by_what_was_measured() {
        let none = Measured { elapsed_ns: 0, shared_ns: 0, expected_ns: None, is_certain: true };
        assert_eq!(settled(0, &[none, shared(1_000, None)]), [0, 1_000]);
        let most = Measured { elapsed_ns: u64::MAX, shared_ns: u64::MAX, ..none };
        let used = settled(u64::MAX / US, &[most, most]);
        assert!(used[0] <= used[1], "{used:?}");
    }
}
