//! Device time of commands: how long the next ones will take, and what those that have ended used.
//!
//! One command in [`sample_every`](crate::StreamDeviceConfig::sample_every), and each of a kind
//! without an estimate, is a *sample*: events in front of it and behind it time it by itself. Only
//! samples teach. Everything else is charged by *intervals* between two timed events of a stream.
//!
//! An interval is *disturbed* if it may contain a hold, a switch of processes, work of another
//! stream or a pause of the host. It is then charged as predicted; its length bounds an estimate
//! from above and says nothing else. One that may contain a hold by the scheduler of the node
//! bounds nothing, as it is not known how long that was.

mod estimate;
mod interval;
mod occupancy;
mod progress;

pub(crate) use estimate::{Estimates, Quality};
pub(crate) use interval::{Begin, Interval, Work};
pub(crate) use occupancy::{Occupancy, Occupant};
pub(crate) use progress::Progress;

/// Predicted work that is worth reading the time between two events, in nanoseconds: the reading
/// takes the host about a microsecond, 2 % of that.
pub(crate) const LEAST_INTERVAL_NS: u64 = 50_000;

/// Tells whether work is known to be less than that.
pub(crate) fn is_little(expected_ns: Option<u64>) -> bool {
    expected_ns.is_some_and(|ns| ns < LEAST_INTERVAL_NS)
}
