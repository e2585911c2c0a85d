//! How a device is set up.

use std::time::Duration;

/// How a [`HostDevice`](crate::HostDevice) is set up.
///
/// ```
/// use xsched_hal_host::HostConfig;
///
/// let config = HostConfig::default().with_compute_units(2);
/// assert_eq!(config.entries_max, 256);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostConfig {
    /// Commands that may run at once. At least 1.
    pub compute_units: u32,
    /// Commands that a hardware queue takes before they start. At least 4.
    pub entries_max: u32,
    /// The signal that stops commands is `SIGRTMIN` plus this. Nothing else in the process may use
    /// it.
    pub signal_offset: u32,
    /// An interrupt waits this long for the command to stop. After that it goes on in the
    /// background, as [`StepDone::Later`](xsched_core::hal::StepDone::Later).
    pub stop_wait: Duration,
}

impl HostConfig {
    /// Sets how many commands may run at once, at least 1.
    #[must_use]
    pub const fn with_compute_units(mut self, compute_units: u32) -> Self {
        self.compute_units = compute_units;
        self
    }

    /// Sets how many commands a hardware queue takes before they start, at least 4.
    #[must_use]
    pub const fn with_entries_max(mut self, entries_max: u32) -> Self {
        self.entries_max = entries_max;
        self
    }

    /// Sets which signal stops commands, as an offset to `SIGRTMIN`.
    #[must_use]
    pub const fn with_signal_offset(mut self, signal_offset: u32) -> Self {
        self.signal_offset = signal_offset;
        self
    }

    /// Sets how long an interrupt waits for the command to stop.
    #[must_use]
    pub const fn with_stop_wait(mut self, stop_wait: Duration) -> Self {
        self.stop_wait = stop_wait;
        self
    }
}

impl Default for HostConfig {
    /// One compute unit, 256 entries, `SIGRTMIN + 7`, 5 ms.
    fn default() -> Self {
        Self {
            compute_units: 1,
            entries_max: 256,
            signal_offset: 7,
            stop_wait: Duration::from_millis(5),
        }
    }
}
