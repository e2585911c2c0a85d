//! Points in time and spans of time, both whole nanoseconds.
//!
//! The crate never reads a clock. Drivers pass `now` in; any monotonic origin will do, as long as
//! all callers of one scheduler share it.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in time: nanoseconds since the driver's origin. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A span of time in nanoseconds. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Instant {
    /// The driver's origin.
    pub const ZERO: Self = Self(0);
    /// The end of time; used for "never".
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// A point `ns` nanoseconds after the origin.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span; used for "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// A span of `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// A span of `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// The span in nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The span times `n`.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// The span divided by `n`; the span itself if `n` is 0.
    #[must_use]
    pub const fn per(self, n: u64) -> Self {
        match self.0.checked_div(n) {
            Some(ns) => Self(ns),
            None => self,
        }
    }
}

impl From<core::time::Duration> for Duration {
    /// Converts the span; one that is too long becomes the longest there is (584 years).
    fn from(span: core::time::Duration) -> Self {
        Self::from_ns(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for core::time::Duration {
    fn from(span: Duration) -> Self {
        Self::from_nanos(span.as_ns())
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 10_000 => write!(f, "{ns} ns"),
            ns if ns < 10_000_000 => write!(f, "{} µs", ns / 1_000),
            ns => write!(f, "{} ms", ns / 1_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::FAR_FUTURE + Duration::from_ns(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO.since(Instant::from_ns(5)), Duration::ZERO);
        assert_eq!(Duration::from_ns(3) - Duration::from_ns(5), Duration::ZERO);
        assert_eq!(Duration::from_ms(u64::MAX), Duration::MAX);
        assert_eq!(Duration::from_us(3).per(0), Duration::from_us(3));
    }
}
