//! The latency axis of a picture: its range, whether it is logarithmic, and its ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis for latencies in milliseconds. A logarithmic axis places the decimal logarithm of a
/// value where a linear one places the value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    log: bool,
    /// Where the axis begins and ends: a latency or its logarithm.
    low: f64,
    high: f64,
    /// Labelled ticks in milliseconds, in ascending order.
    ticks: Vec<f64>,
    /// Ticks without a label.
    minor: Vec<f64>,
    /// Digits after the point of the labels of a linear axis.
    decimals: usize,
}

/// Largest over smallest latency above which an axis is logarithmic.
const LOG_ABOVE: f64 = 20.0;
/// Largest over smallest latency from which on an axis may be logarithmic: it has labels then.
const LOG_FROM: f64 = 5.0;
/// How much further than most lines one reaches that may be cut.
const CUT_FROM: f64 = 10.0;
/// The part of an axis that lines have to take together to be readable.
const READABLE: f64 = 0.25;
/// The most labels that a linear axis has, about; a round distance between them may halve it.
const LABELS: f64 = 8.0;

impl Axis {
    /// An axis on which values from `min` to `max` milliseconds fit, 0 <= `min` <= `max`.
    pub(crate) fn new(min: f64, max: f64) -> Self {
        if min > 0.0 && max / min > LOG_ABOVE {
            Self::log(min, max)
        } else {
            Self::linear(min, max)
        }
    }

    /// An axis on which lines can be read that reach from the first to the second value of `ends`,
    /// in milliseconds. It is logarithmic if the half of them which ends first would be narrow
    /// otherwise. If it `may_cut`, it ends before those of the last third do that reach ten times
    /// as far as the others, if the others would be narrow otherwise.
    pub(crate) fn readable(ends: &[(f64, f64)], may_cut: bool) -> Self {
        let mut ends = ends.to_vec();
        ends.sort_unstable_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
        // Lines that coincide count once.
        ends.dedup();
        let min = ends.iter().map(|end| end.0).fold(f64::INFINITY, f64::min);
        let most = (ends.len() * 2).div_ceil(3);
        let mut kept = ends.len();
        loop {
            let Some(&(_, max)) = kept.checked_sub(1).and_then(|last| ends.get(last)) else {
                return Self::new(0.0, 0.0);
            };
            let mut axis = Self::new(min, max);
            let has_log = min > 0.0 && max / min >= LOG_FROM;
            if has_log && axis.part(&ends[..kept.div_ceil(2)]) < READABLE {
                axis = Self::log(min, max);
            }
            let is_far = may_cut && kept > most && max >= ends[most - 1].1 * CUT_FROM;
            if !is_far || axis.part(&ends[..most]) >= READABLE {
                return axis;
            }
            kept -= 1;
        }
    }

    /// The part of the axis, 0 to 1, that lines with these ends take together.
    fn part(&self, ends: &[(f64, f64)]) -> f64 {
        let low = ends.iter().map(|end| end.0).fold(f64::INFINITY, f64::min);
        let high = ends.iter().map(|end| end.1).fold(0.0, f64::max);
        self.distance(low, high)
    }

    /// How far apart two values are, as a part of the axis.
    pub(crate) fn distance(&self, one: f64, other: f64) -> f64 {
        if one == other {
            return 0.0;
        }
        (self.place(other) - self.place(one)).abs() / (self.high - self.low)
    }

    /// True if a value lies beyond the end of the axis.
    pub(crate) fn is_cut(&self, ms: f64) -> bool {
        self.place(ms) > self.high
    }

    /// The last value on the axis, in milliseconds.
    pub(crate) fn end(&self) -> f64 {
        self.range().end
    }

    fn linear(min: f64, max: f64) -> Self {
        let margin = if max > min { (max - min) * 0.04 } else { (max * 0.1).max(1e-3) };
        let (low, high) = ((min - margin).max(0.0), max + margin);
        let step = nice_step((high - low) / LABELS);
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let count = ((high - low) / step) as usize + 1;
        let first = (low / step).ceil();
        let ticks = (0..=count).map(|n| (first + n as f64) * step);
        let ticks = ticks.filter(|&tick| tick <= high).collect();
        Self { log: false, low, high, ticks, minor: Vec::new(), decimals }
    }

    /// A logarithmic axis for the same, with 0 < `min` < `max`.
    pub(crate) fn log(min: f64, max: f64) -> Self {
        let margin = (max / min).log10() * 0.04;
        let (low, high) = (min.log10() - margin, max.log10() + margin);
        // Up to two and a half decades have room for labels at 1, 2 and 5; many decades only for
        // some of the powers of ten.
        let labelled: &[u32] = if high - low < 2.5 { &[1, 2, 5] } else { &[1] };
        let every = ((high - low) / 8.0).ceil().max(1.0) as i32;
        let (mut ticks, mut minor) = (Vec::new(), Vec::new());
        for decade in low.floor() as i32..=high.ceil() as i32 {
            for digit in 1..10 {
                let tick = f64::from(digit) * 10f64.powi(decade);
                if tick.log10() < low || tick.log10() > high {
                    continue;
                }
                let label = labelled.contains(&digit) && decade.rem_euclid(every) == 0;
                (if label { &mut ticks } else { &mut minor }).push(tick);
            }
        }
        Self { log: true, low, high, ticks, minor, decimals: 0 }
    }

    /// A label with what kind of axis it is.
    pub(crate) fn labelled(&self, label: &str) -> String {
        format!("{label}, {}", if self.log { "logarithmic" } else { "linear" })
    }

    /// A label that says it if the axis is logarithmic.
    pub(crate) fn marked(&self, label: &str) -> String {
        if self.log && !label.is_empty() { self.labelled(label) } else { label.to_owned() }
    }

    /// Where a latency in milliseconds goes.
    fn place(&self, ms: f64) -> f64 {
        if self.log { ms.log10() } else { ms }
    }

    /// The label of a tick at this latency.
    fn label(&self, ms: f64) -> String {
        let decimals =
            if self.log { (-ms.log10().floor()).clamp(0.0, 9.0) as usize } else { self.decimals };
        format!("{ms:.decimals$}")
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, ms: &f64, (first, last): (i32, i32)) -> i32 {
        let part = (self.place(*ms) - self.low) / (self.high - self.low);
        (f64::from(first) + part * f64::from(last - first)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        if hint.weight().allow_light_points() { self.minor.clone() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        if self.log { 10f64.powf(self.low)..10f64.powf(self.high) } else { self.low..self.high }
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, ms: &f64) -> String {
        self.label(*ms)
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(min: f64, max: f64) -> Vec<String> {
        let axis = Axis::new(min, max);
        axis.ticks.iter().map(|&tick| axis.label(tick)).collect()
    }

    #[test]
    fn a_small_spread_is_linear() {
        assert_eq!(labels(0.0, 10.0), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(1.0, 2.0), ["1.0", "1.2", "1.4", "1.6", "1.8", "2.0"]);
        assert_eq!(labels(0.011, 0.013), ["0.0110", "0.0115", "0.0120", "0.0125", "0.0130"]);
        assert!(!Axis::new(1.0, 20.0).log);
        assert_eq!(Axis::new(1.0, 20.0).labelled("latency (ms)"), "latency (ms), linear");
        assert_eq!(Axis::new(1.0, 21.0).labelled("P99"), "P99, logarithmic");
    }

    #[test]
    fn a_wide_spread_is_logarithmic() {
        assert_eq!(labels(1.0, 100.0), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(0.01, 100.0), ["0.01", "0.1", "1", "10", "100"].map(String::from));
        let axis = Axis::new(1e-6, 1e12);
        assert!(axis.ticks.len() < 10 && axis.ticks.len() > 3);
        // Each decade takes the same space.
        let axis = Axis::log(1.0, 100.0);
        let at = |ms: f64| axis.map(&ms, (0, 1000));
        assert!((at(10.0) - at(1.0)).abs_diff(at(100.0) - at(10.0)) <= 1);
    }

    #[test]
    fn lines_are_wide_enough() {
        let slow = (900.0, 1_000.0);
        let fast = [(10.0, 11.0), (10.5, 12.0), (10.0, 14.0)];
        let all = [&fast[..], &[slow]].concat();
        let axis = Axis::readable(&all, true);
        assert!(axis.is_cut(slow.0) && !axis.is_cut(14.0) && !axis.log, "{axis:?}");
        assert!(axis.part(&fast) >= READABLE, "{axis:?}");
        // Where nothing may be cut, and where each line is one of two, all is shown.
        for axis in [Axis::readable(&all, false), Axis::readable(&[fast[0], slow], true)] {
            assert!(axis.log && !axis.is_cut(slow.1), "{axis:?}");
        }
        // Neither do many lines that coincide make the other one a slow one.
        let axis = Axis::readable(&[fast[0], fast[0], fast[0], slow], true);
        assert!(!axis.is_cut(slow.1), "{axis:?}");
        // A logarithmic axis comes before a cut: these have a ratio of 15.
        let axis = Axis::readable(&[(1.0, 3.0), (1.0, 3.5), (1.2, 3.2), (12.0, 15.0)], true);
        assert!(axis.log && !axis.is_cut(15.0), "{axis:?}");
        // A line that is not much longer than the others is not cut, and without room for labels
        // the axis is not logarithmic.
        let axis = Axis::readable(&[(6.37, 6.4), (6.45, 6.5), (6.4, 18.9)], true);
        assert!(!axis.is_cut(18.9) && !axis.log, "{axis:?}");
        // And an axis that is wide enough as it is stays linear.
        assert!(!Axis::readable(&[(1.0, 4.0), (2.0, 8.0)], true).log);
        assert_eq!(Axis::readable(&[], true), Axis::new(0.0, 0.0));
        assert!(!Axis::readable(&[(0.0, 1.0), (900.0, 1_000.0)], true).log);
    }

    #[test]
    fn degenerate_spreads_have_a_range() {
        for (min, max) in [(0.0, 0.0), (5.0, 5.0), (0.0, 1e9), (1e-6, 1e-6), (1e13, 1e13)] {
            let axis = Axis::new(min, max);
            assert!(axis.low < axis.high, "{min} {max}");
            assert!(axis.map(&min, (0, 1000)) >= 0 && axis.map(&max, (0, 1000)) <= 1000);
            assert!(!axis.ticks.is_empty(), "{min} {max}");
        }
    }
}
