//! Faults of a device, in a form that fits into a message.

use core::fmt;

/// Why a command, a step or a device failed. Backends map their own errors to these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Fault {
    /// The launch call refused the command; it never reached the device.
    Launch = 1,
    /// The command failed while it ran.
    Execution = 2,
    /// The device or its context is gone; nothing launched later can succeed.
    DeviceLost = 3,
    /// The device cannot do what was asked.
    NotSupported = 4,
    /// The caller may not do what was asked.
    NotPermitted = 5,
    /// The device did not answer in time.
    Timeout = 6,
    /// The driver answered something that makes no sense, such as the completion of a command that
    /// was never launched. The answer was ignored.
    Protocol = 7,
    /// The queue that a command waited for is gone.
    Abandoned = 8,
    /// The command was cancelled or dropped before it was launched.
    Cancelled = 9,
    /// The command's code panicked while it ran.
    Panicked = 10,
}

impl Fault {
    /// The fault with this number.
    #[must_use]
    pub const fn from_number(n: u8) -> Option<Self> {
        Some(match n {
            1 => Self::Launch,
            2 => Self::Execution,
            3 => Self::DeviceLost,
            4 => Self::NotSupported,
            5 => Self::NotPermitted,
            6 => Self::Timeout,
            7 => Self::Protocol,
            8 => Self::Abandoned,
            9 => Self::Cancelled,
            10 => Self::Panicked,
            _ => return None,
        })
    }

    /// Returns whether every later command of the queue fails as well.
    #[must_use]
    pub const fn is_sticky(self) -> bool {
        matches!(self, Self::DeviceLost)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Launch => "the device refused the launch; check its parameters",
            Self::Execution => "the command failed on the device",
            Self::DeviceLost => "the device was lost; reopen it and make new queues",
            Self::NotSupported => "the device cannot do this; ask for a lower level",
            Self::NotPermitted => "not permitted; check the permissions of the device",
            Self::Timeout => "the device did not answer in time",
            Self::Protocol => "the driver gave an answer that makes no sense; it was ignored",
            Self::Abandoned => "the queue that was waited for is gone",
            Self::Cancelled => "the command was cancelled before it was launched",
            Self::Panicked => "the command panicked; what it said is on standard error",
        })
    }
}

impl core::error::Error for Fault {}
