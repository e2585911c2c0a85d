//! How an XQueue is made.

use xsched_core::hint::Hints;
use xsched_core::id::ProcessId;
use xsched_core::level::{Caps, Level};
use xsched_core::scheduler::LevelChoice;
use xsched_core::window::WindowConfig;

/// How an XQueue is made.
///
/// ```
/// use xsched::prelude::*;
///
/// let config = XQueueConfig {
///     hints: Hints::with_priority(Priority::MAX),
///     level: Level::Block,
///     ..XQueueConfig::default()
/// };
/// assert_eq!(config.capacity, 1_024);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct XQueueConfig {
    /// What the policy should know: priority, share, deadline.
    pub hints: Hints,
    /// The deepest hold to use, at most what the device can do.
    pub level: Level,
    /// In-flight threshold and batch.
    pub window: WindowConfig,
    /// Commands that may be submitted and not retired, from 1 to [`XQueueConfig::CAPACITY_MAX`].
    pub capacity: usize,
    /// Each hold is at the level that its predicted cost suggests, up to `level`, and not always
    /// just there. That takes a backend that says what holds cost.
    pub by_cost: bool,
    /// The process that the queue counts for, in policies that group by process.
    pub process: ProcessId,
}

impl XQueueConfig {
    /// The largest capacity of a queue.
    pub const CAPACITY_MAX: usize = 1 << 24;

    /// How the level of a hold is chosen, with this as the deepest, once it is known what the queue
    /// can do: what it cannot has no cost to go by.
    pub(crate) fn choice(&self, level: Level, caps: Option<Caps>) -> LevelChoice {
        if !self.by_cost {
            return LevelChoice::Exactly(level);
        }
        LevelChoice::UpTo(caps.map_or(level, |caps| level.min(caps.level)))
    }
}

impl Default for XQueueConfig {
    fn default() -> Self {
        Self {
            hints: Hints::default(),
            level: Level::Interrupt,
            window: WindowConfig::default(),
            capacity: 1_024,
            by_cost: false,
            process: ProcessId(std::process::id()),
        }
    }
}
