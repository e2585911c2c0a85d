//! Errors of the host device.

use std::io;

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;

/// An error of the host device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A device without compute units runs nothing.
    #[error("a device needs a compute unit; set `compute_units` to 1 or more")]
    NoComputeUnits,
    /// Too small a ring.
    #[error("a ring of {entries_max} entries is too small; set `entries_max` to 4 or more")]
    FewEntries {
        /// Value asked for.
        entries_max: u32,
    },
    /// No real-time signal with this offset.
    #[error("there is no signal SIGRTMIN+{offset}; set `signal_offset` to 0..={max}")]
    NoSuchSignal {
        /// Value asked for.
        offset: u32,
        /// The highest offset.
        max: u32,
    },
    /// Other code in this process handles or ignores the signal.
    #[error(
        "signal {signal} (SIGRTMIN+{offset}) has a handler already; set `signal_offset` to one that \
         nothing else in this process uses"
    )]
    SignalTaken {
        /// The number of the signal.
        signal: i32,
        /// Offset from `SIGRTMIN`.
        offset: u32,
    },
    /// The system refused the handler.
    #[error("the system did not take the signal handler: {0}")]
    Handler(#[source] io::Error),
    /// The system refused a thread for a queue.
    #[error("no thread for the queue; close queues or raise the process's limit: {0}")]
    Thread(#[source] io::Error),
    /// The queue's ring is full. The command was not launched.
    #[error("{entries_max} commands are in the queue; wait for one, or raise `entries_max`")]
    Full {
        /// The ring's capacity.
        entries_max: u32,
    },
    /// The signal that stops a command could not be sent. The command goes on.
    #[error("the stop signal was not sent; raise the limit of pending signals (ulimit -i): {0}")]
    NotSent(#[source] io::Error),
}

impl HalError for HostError {
    fn kind(&self) -> Fault {
        match self {
            Self::Full { .. } => Fault::Launch,
            Self::NotSent(_) => Fault::NotPermitted,
            Self::NoComputeUnits
            | Self::FewEntries { .. }
            | Self::NoSuchSignal { .. }
            | Self::SignalTaken { .. }
            | Self::Handler(_)
            | Self::Thread(_) => Fault::NotSupported,
        }
    }
}
