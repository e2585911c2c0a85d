//! How a device is set up.

use std::time::Duration;

/// How a [`HostDevice`](crate::HostDevice) is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
