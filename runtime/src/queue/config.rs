//! How an XQueue is made.

use std::sync::Arc;

use xsched_core::hint::{Hints, Priority};
use xsched_core::id::ProcessId;
use xsched_core::level::{Caps, Level};
use xsched_core::scheduler::LevelChoice;
use xsched_core::window::WindowConfig;

/// How an XQueue is made.
///
/// ```
/// use xsched::prelude::*;
///
/// let config = XQueueConfig::default().with_priority(Priority::MAX).with_level(Level::Block);
/// assert_eq!(config.capacity, 1_024);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct XQueueConfig {
    /// Name of the queue in metrics and reports. Several queues may have the same name.
    pub name: Option<Arc<str>>,
    /// Hints for the policy: priority, share, deadline.
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
    /// A thread of the queue's own launches its commands. A submit then only puts the command into
    /// the ring, which takes about 0.1 µs; without it, the submitter launches, as long as the
    /// window has room. A command reaches the device some microseconds later if that thread sleeps.
    /// Several queues that one thread feeds are launched into in parallel.
    pub launcher_thread: bool,
}

impl XQueueConfig {
    /// The largest capacity of a queue.
    pub const CAPACITY_MAX: usize = 1 << 24;

    /// Sets the [name](Self::name).
    ///
    /// ```
    /// use xsched::prelude::*;
    ///
    /// let config = XQueueConfig::default().with_name("render");
    /// assert_eq!(config.name.as_deref(), Some("render"));
    /// ```
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the [hints](Self::hints).
    #[must_use]
    pub const fn with_hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }

    /// Sets the priority among the [hints](Self::hints), and leaves the other hints.
    #[must_use]
    pub const fn with_priority(mut self, priority: Priority) -> Self {
        self.hints.priority = priority;
        self
    }

    /// Sets the deepest [level](Self::level).
    #[must_use]
    pub const fn with_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Sets the [window](Self::window).
    #[must_use]
    pub const fn with_window(mut self, window: WindowConfig) -> Self {
        self.window = window;
        self
    }

    /// Sets the [capacity](Self::capacity).
    #[must_use]
    pub const fn with_capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }

    /// Sets whether levels are chosen [by cost](Self::by_cost).
    #[must_use]
    pub const fn with_by_cost(mut self, by_cost: bool) -> Self {
        self.by_cost = by_cost;
        self
    }

    /// Sets whether the queue has a [launcher thread](Self::launcher_thread).
    ///
    /// ```
    /// use xsched::hal::{Noop, NoopQueue};
    /// use xsched::prelude::*;
    ///
    /// static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    /// let runtime = Runtime::new(Hpf::default())?;
    /// let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    /// let queue = device.queue(XQueueConfig::default().with_launcher_thread(true), ())?;
    /// let ticket = queue.submit(7)?; // returns before the command is launched
    /// queue.wait(ticket)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn with_launcher_thread(mut self, launcher_thread: bool) -> Self {
        self.launcher_thread = launcher_thread;
        self
    }

    /// Sets the [process](Self::process).
    #[must_use]
    pub const fn with_process(mut self, process: ProcessId) -> Self {
        self.process = process;
        self
    }

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
            name: None,
            hints: Hints::default(),
            level: Level::Interrupt,
            window: WindowConfig::default(),
            capacity: 1_024,
            by_cost: false,
            process: ProcessId(std::process::id()),
            launcher_thread: false,
        }
    }
}
