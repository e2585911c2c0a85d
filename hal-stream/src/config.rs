//! How a device is set up.

use std::time::Duration;

use xsched_core::level::Level;

/// How a [`crate::StreamDevice`] is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamDeviceConfig {
    /// The highest level of its queues: [`Level::Block`] for no gates at all.
    pub level_max: Level,
    /// Commands, gates and fences in flight together, per queue. `None` is a quarter of what the
    /// self-test finds that a hardware queue takes before a launch blocks.
    pub entries_max: Option<u32>,
    /// A launch under way for longer, while a gate is closed, opens all gates until it has ended.
    /// Time for which its thread waits for a processor does not count, where the system tells of
    /// it; but a hundred times as long does.
    pub blocked_after: Duration,
    /// Interval at which a thread makes an event while a gate is closed, to see whether calls into
    /// the driver return. Zero is never: then only the scheduler's lease ends a hold for which a
    /// call of the program blocks all calls.
    pub probe_every: Duration,
    /// The hold of another process, by a word in shared memory, ends when that process has not
    /// renewed it for longer ([`crate::SharedPage::renew`]). A hold by a process that wakes none
    /// ([`crate::SharedPage::wake_follower`]) is noticed after this or 0.1 s, and the lease begins
    /// then.
    pub hold_lease: Duration,
    /// Everything that the process launches into streams of the device goes through queues, each
    /// opened before the first launch into its stream. So streams that are in one hardware ring can
    /// be held together, where the driver tells which are ([`crate::StreamApi::ring_of`]).
    pub sees_all_launches: bool,
    /// One of this many commands of a queue is timed by itself, at least one, and one of 16 times
    /// as many while no scheduler has a use for when they end. Events around the others take no
    /// time, and what cannot be measured counts as predicted. Not a number in which commands often
    /// repeat.
    pub sample_every: u32,
}

impl Default for StreamDeviceConfig {
    /// Lv2, entries as measured, 200 µs, 1.5 ms, 1 s, not all launches, one command in 31: with
    /// that, what processes reported was 75.0 and 30.0 % where it was to be 75 and 30
    /// (`benches/results/h200-2026-11-27-node`).
    fn default() -> Self {
        Self {
            level_max: Level::Deactivate,
            entries_max: None,
            blocked_after: Duration::from_micros(200),
            probe_every: Duration::from_micros(1_500),
            hold_lease: Duration::from_secs(1),
            sees_all_launches: false,
            sample_every: 31,
        }
    }
}
