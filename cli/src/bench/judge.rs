//! Quantiles, and whether they are good enough.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::preempt::{THRESHOLD, Times};

/// Samples that a P99 needs, and with it a verdict.
pub(super) const P99_SAMPLES: u64 = 1_000;
/// How much longer than its command or its window a hold at Lv1 or Lv2 may take, in microseconds.
const SLACK_US: f64 = 100.0;
/// The 99th percentile of a hold at Lv3 is below this, in microseconds.
const INTERRUPT_US: f64 = 200.0;

/// Longer times than this, in nanoseconds, count as this; a hold that takes as long is a hang.
const LONGEST_NS: u64 = 100_000_000_000;

/// Quantiles in microseconds, each the smallest sample that so many samples do not exceed (nearest
/// rank), to three significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Quantiles {
    /// Smallest.
    pub(super) min: Option<f64>,
    /// 50th percentile.
    pub(super) p50: Option<f64>,
    /// 90th percentile.
    pub(super) p90: Option<f64>,
    /// 99th percentile; `None` with fewer than [`P99_SAMPLES`].
    pub(super) p99: Option<f64>,
    /// Largest.
    pub(super) max: Option<f64>,
}

impl Quantiles {
    /// The quantiles of these samples in nanoseconds.
    fn of(samples_ns: &[u64]) -> Self {
        // These are valid bounds and a valid precision, so this does not fail.
        let histogram = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3);
        let Ok(mut histogram) = histogram else { return Self::default() };
        for &sample in samples_ns {
            histogram.saturating_record(sample);
        }
        let us = |ns: u64| (!histogram.is_empty()).then(|| ns as f64 / 1e3);
        let at = |quantile| us(histogram.value_at_quantile(quantile));
        let enough = histogram.len() >= P99_SAMPLES;
        Self {
            min: us(histogram.min()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99).filter(|_| enough),
            max: us(histogram.max()),
        }
    }
}

/// What is asked of a level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Goal {
    /// In words.
    pub(super) what: String,
    /// Whether it was reached; `None` with too few samples to say.
    pub(super) reached: Option<bool>,
}

/// A level and its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// Number of the level, 1 to 3.
    pub(super) level: u8,
    /// Holds.
    pub(super) samples: u64,
    /// From the hold to the victim's last instruction.
    pub(super) quiet_us: Quantiles,
    /// From the hold until the runtime says that it is in effect.
    pub(super) detect_us: Quantiles,
    /// From the end of the hold to the victim's next instruction.
    pub(super) restart_us: Quantiles,
    /// Holds at Lv3 after which the victim ran though the runtime said that it did not.
    pub(super) ran_on: u64,
    /// What is asked.
    pub(super) goal: Goal,
}

impl Row {
    /// The figures of a level whose commands take `command_ns` nanoseconds each.
    pub(super) fn of(times: &Times, command_ns: u64) -> Self {
        let samples = times.quiet_ns.len() as u64;
        let quiet_us = Quantiles::of(&times.quiet_ns);
        let ran_on = match times.level {
            3 => times.quiet_ns.iter().zip(&times.detect_ns).filter(|(q, d)| q > d).count() as u64,
            _ => 0,
        };
        let (what, reached) = goal(times.level, command_ns as f64 / 1e3, &quiet_us);
        let reached = (samples >= P99_SAMPLES).then_some(reached && ran_on == 0);
        Self {
            level: times.level,
            samples,
            quiet_us,
            detect_us: Quantiles::of(&times.detect_ns),
            restart_us: Quantiles::of(&times.restart_ns),
            ran_on,
            goal: Goal { what, reached },
        }
    }
}

/// The goal of a level in words, and whether it is reached.
fn goal(level: u8, command_us: f64, quiet: &Quantiles) -> (String, bool) {
    let within = |value: Option<f64>, least: f64, most: f64| {
        value.is_some_and(|value| least <= value && value <= most)
    };
    match level {
        // What is in flight: between 7 and 8 commands if the window is full, as it should be.
        1 => {
            let window_us = command_us * f64::from(THRESHOLD);
            let (least, most) = (window_us * 0.75, window_us + SLACK_US);
            (format!("P50 {least:.0} to {most:.0} µs"), within(quiet.p50, least, most))
        }
        2 => {
            let most = command_us + SLACK_US;
            (format!("P99 at most {most:.0} µs"), within(quiet.p99, 0.0, most))
        }
        _ => {
            let reached = quiet.p99.is_some_and(|value| value < INTERRUPT_US);
            (format!("P99 below {INTERRUPT_US:.0} µs"), reached)
        }
    }
}

/// Whether one processor is left beside the busy threads, for everything that must not wait.
pub(super) const fn busy_enough(busy_threads: usize, cores: usize) -> bool {
    busy_threads < cores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(level: u8, quiet_ns: u64, count: usize) -> Times {
        Times {
            level,
            quiet_ns: vec![quiet_ns; count],
            detect_ns: vec![quiet_ns; count],
            restart_ns: vec![1; count],
        }
    }

    fn reached(level: u8, quiet_ns: u64) -> Option<bool> {
        Row::of(&times(level, quiet_ns, 1_000), 500_000).goal.reached
    }

    #[test]
    fn each_level_has_its_goal() {
        assert_eq!(reached(1, 3_900_000), Some(true));
        assert_eq!(reached(1, 2_900_000), Some(false), "the window was not full");
        assert_eq!(reached(1, 4_200_000), Some(false));
        assert_eq!(reached(2, 599_000), Some(true));
        assert_eq!(reached(2, 602_000), Some(false));
        assert_eq!(reached(3, 199_000), Some(true));
        assert_eq!(reached(3, 201_000), Some(false));
    }

    #[test]
    fn few_samples_give_neither_a_p99_nor_a_verdict() {
        let row = Row::of(&times(3, 10, 999), 500_000);
        assert_eq!((row.quiet_us.p99, row.goal.reached), (None, None));
        assert!(row.quiet_us.p90.is_some());
        assert_eq!(Row::of(&times(3, 10, 0), 1).quiet_us, Quantiles::default());
    }

    #[test]
    fn running_on_under_an_interrupt_is_a_failure() {
        let mut times = times(3, 10_000, 1_000);
        times.quiet_ns[500] = 10_001;
        let row = Row::of(&times, 500_000);
        assert_eq!((row.ran_on, row.goal.reached), (1, Some(false)));
        times.level = 2;
        assert_eq!(Row::of(&times, 500_000).goal.reached, Some(true));
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let samples: Vec<u64> = (1..=1_000).map(|n| n * 1_000).collect();
        let quantiles = Quantiles::of(&samples);
        let close = |value: Option<f64>, wanted: f64| (value.unwrap() / wanted - 1.0).abs() < 0.002;
        assert!(close(quantiles.min, 1.0) && close(quantiles.p50, 500.0), "{quantiles:?}");
        assert!(close(quantiles.p90, 900.0) && close(quantiles.p99, 990.0), "{quantiles:?}");
        assert!(close(quantiles.max, 1_000.0), "{quantiles:?}");
    }

    #[test]
    fn one_processor_is_left_free() {
        assert!(busy_enough(1, 2));
        assert!(!busy_enough(2, 2));
        assert!(!busy_enough(1, 1));
    }
}
