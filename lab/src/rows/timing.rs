//! How long phases take: as long as the wanted samples need, within what is left of the row's time.

use std::time::{Duration, Instant};

use super::plan::Hal;
use super::protocol::{Load, Profile};
use super::table::Setting;
use crate::stats::{PAIRS_MIN, SAMPLES_MIN};

/// How much longer requests are taken to be beside others.
const SLOWER: f64 = 1.2;
/// Samples of a role that does not decide, alone.
const FEW: u32 = 100;
/// Samples of a role that does not decide, beside others.
const LEAST: u32 = SAMPLES_MIN as u32;
/// Number of turns of a cell with the reference where all work beside each other.
pub(crate) const LONG_TURNS: usize = PAIRS_MIN;
/// Time to start the programs of a cell before it is known, in seconds.
const START_S: f64 = 20.0;
const START_QUICK_S: f64 = 8.0;
const START_HOST_S: f64 = 0.3;

/// The bounds of phases on a device, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Time at the beginning that does not count.
    pub(crate) settle: f64,
    /// The shortest.
    pub(crate) least: f64,
    /// The longest.
    pub(crate) most: f64,
}

impl Bounds {
    /// Returns the bounds for a setting.
    pub(crate) const fn of(setting: Setting) -> Self {
        match (setting.hal, setting.quick) {
            (Hal::Host, true) => Self { settle: 0.03, least: 0.15, most: 0.3 },
            (Hal::Host, false) => Self { settle: 0.1, least: 0.5, most: 20.0 },
            (_, true) => Self { settle: 0.3, least: 1.0, most: 3.0 },
            (_, false) => Self { settle: 0.5, least: 2.0, most: 120.0 },
        }
    }
}

/// Seconds in which a role with this load makes `samples` requests.
pub(crate) fn wanted_s(load: &Load, profile: &Profile, samples: u32, is_beside: bool) -> f64 {
    let alone_ms = profile.request_ns as f64 / 1e6;
    let request_ms = if is_beside { alone_ms * SLOWER } else { alone_ms };
    let each_ms = match load {
        Load::Closed { pause_ms, .. } => pause_ms + request_ms,
        Load::Periodic { every_ms } => *every_ms,
        Load::Poisson { per_s } | Load::Lognormal { per_s, .. } => 1e3 / per_s.max(1e-3),
        Load::Endless { .. } => request_ms,
    };
    each_ms * f64::from(samples) / 1e3
}

/// Samples of a role alone that does not decide.
pub(crate) fn few(samples: u32) -> u32 {
    samples.min(FEW)
}

/// Samples of a role beside others that does not decide.
pub(crate) fn least(samples: u32) -> u32 {
    samples.min(LEAST)
}

/// Behaviour if time is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limit {
    /// No limit.
    #[default]
    None,
    /// Phases are shorter.
    Shorten(Duration),
    /// Phases are as long as they are to be, and what does not fit is not run.
    Stop(Duration),
}

impl Limit {
    const fn time(self) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Shorten(time) | Self::Stop(time) => Some(time),
        }
    }
}

/// The time of a row.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    began: Instant,
    limit: Limit,
    bounds: Bounds,
    start_s: f64,
}

impl Clock {
    /// Begins now.
    pub(crate) fn new(limit: Limit, setting: Setting) -> Self {
        let start_s = match setting.hal {
            Hal::Host => START_HOST_S,
            Hal::Cuda | Hal::Hip if setting.quick => START_QUICK_S,
            Hal::Cuda | Hal::Hip => START_S,
        };
        Self { began: Instant::now(), limit, bounds: Bounds::of(setting), start_s }
    }

    /// Returns the time at the beginning of a phase that does not count.
    pub(crate) const fn settle_s(&self) -> f64 {
        self.bounds.settle
    }

    /// Notes that starting programs took `seconds`.
    pub(crate) const fn started_in(&mut self, seconds: f64) {
        // Later starts find files that were read before.
        self.start_s = seconds;
    }

    /// Seconds that are left, if the time is limited.
    fn left_s(&self) -> Option<f64> {
        Some(self.limit.time()?.saturating_sub(self.began.elapsed()).as_secs_f64())
    }

    /// Returns whether there is time to start a cell.
    pub(crate) fn has_time(&self) -> bool {
        self.left_s().is_none_or(|left| left > self.start_s + self.bounds.least)
    }

    /// Returns whether phases are shorter than they are to be.
    pub(crate) const fn shortens(&self) -> bool {
        matches!(self.limit, Limit::Shorten(_))
    }

    /// Returns whether there is time for a phase of `seconds`.
    pub(crate) fn has_s(&self, seconds: f64) -> bool {
        !matches!(self.limit, Limit::Stop(_)) || self.left_s().is_none_or(|left| left > seconds)
    }

    /// How long a phase may take that wants `wanted` seconds, if these phases and starts are to
    /// come, this phase among them.
    pub(crate) fn phase_s(&self, wanted: f64, phases: usize, starts: usize) -> f64 {
        let wanted = (wanted + self.bounds.settle).clamp(self.bounds.least, self.bounds.most);
        let Limit::Shorten(_) = self.limit else { return wanted };
        let left = self.left_s().unwrap_or_default();
        let left = (left - starts as f64 * self.start_s).max(0.0);
        // What one phase does not want others may have: it may take two parts.
        let part = 2.0 * left / phases.max(1) as f64;
        wanted.min(part).max(self.bounds.least)
    }

    /// Seconds since the beginning.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The limit, for people.
    pub(crate) fn limit_s(&self) -> f64 {
        self.limit.time().unwrap_or_default().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Setting = Setting { hal: Hal::Cuda, quick: false };

    #[test]
    fn samples_take_as_long_as_the_load_needs_for_them() {
        let profile = Profile { request_ns: 5_000_000, ..Profile::default() };
        let wanted = |load| wanted_s(&load, &profile, 1_000, false);
        assert_eq!(wanted(Load::Closed { pause_ms: 20.0, jitter_ms: 1.0, requests: None }), 25.0);
        assert_eq!(wanted(Load::Poisson { per_s: 10.0 }), 100.0);
        assert_eq!(wanted(Load::Periodic { every_ms: 40.0 }), 40.0);
        assert_eq!(wanted(Load::Endless { in_flight: 2 }), 5.0);
        assert_eq!(wanted_s(&Load::Endless { in_flight: 1 }, &profile, 1_000, true), 6.0);
    }

    #[test]
    fn a_limit_shortens_phases_but_not_below_the_least() {
        let free = Clock::new(Limit::None, FULL);
        assert_eq!(free.phase_s(30.0, 10, 10), 30.5);
        assert_eq!(free.phase_s(1e9, 1, 1), 120.0);
        let clock = Clock::new(Limit::Shorten(Duration::from_secs(200)), FULL);
        let part = clock.phase_s(100.0, 10, 5);
        assert!((part - 20.0).abs() < 0.1, "{part}: two of ten parts of what five starts leave");
        assert_eq!(clock.phase_s(100.0, 10, 50), 2.0);
        assert!(clock.has_time());
        assert!(!Clock::new(Limit::Shorten(Duration::from_secs(21)), FULL).has_time());
    }

    #[test]
    fn a_time_to_stop_shortens_nothing_and_says_what_does_not_fit() {
        let clock = Clock::new(Limit::Stop(Duration::from_secs(60)), FULL);
        assert_eq!(clock.phase_s(100.0, 10, 10), 100.5);
        assert!(clock.has_s(50.0) && !clock.has_s(100.0) && clock.has_time());
        assert!(Clock::new(Limit::Shorten(Duration::from_secs(1)), FULL).has_s(100.0));
    }
}
