//! Errors of stream backends, and why a device has no gates.

use std::fmt;

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;

/// An error of a stream's backend. `E` is the driver's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError<E: std::error::Error + 'static> {
    /// The driver refused something.
    #[error("{during}: {source}")]
    Driver {
        /// Operation that failed.
        during: &'static str,
        /// The driver's error.
        source: E,
    },
    /// Memory for the flags of gates is used up.
    #[error("the driver gave no memory for the flags of gates; close queues")]
    NoFlags,
    /// More fences are on their way than the hardware queue can hold.
    #[error("{fences} fences are on their way already; wait for one")]
    FencesFull {
        /// Number of fences.
        fences: usize,
    },
    /// Only the thread of a stream can put a fence into it.
    #[error("the stream is another thread's default stream; its next command has a fence")]
    OtherThread,
    /// A thread launches into the stream just now.
    #[error("a thread launches into the stream just now; put the fence once it has")]
    InBurst,
    /// Words for gates are of no use.
    #[error("gates cannot be used on this device: {0}")]
    NoGate(NoGate),
    /// Another queue is open with the word.
    #[error("the gate's word is in use by another queue; close that first, or take a second word")]
    WordTaken,
    /// The word is that of another device.
    #[error("the gate's word was taken from another device; take one from the queue's own")]
    WordOfOtherDevice,
    /// Page that a scheduler in another process shares cannot be had.
    #[error("no page of gate words from the scheduler: {0}")]
    Page(#[source] std::io::Error),
    /// A thread of the backend could not be started.
    #[error("no thread for the device; raise the process's limit: {0}")]
    Thread(#[source] std::io::Error),
}

impl<E: std::error::Error + 'static> StreamError<E> {
    pub(crate) fn during(during: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Driver { during, source }
    }
}

impl<E: HalError> HalError for StreamError<E> {
    fn kind(&self) -> Fault {
        match self {
            Self::Driver { source, .. } => source.kind(),
            Self::NoFlags | Self::Page(_) | Self::Thread(_) | Self::NoGate(_) => {
                Fault::NotSupported
            }
            Self::FencesFull { .. }
            | Self::OtherThread
            | Self::InBurst
            | Self::WordTaken
            | Self::WordOfOtherDevice => Fault::Launch,
        }
    }
}

/// Why the level of a device's queues is no higher.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoGate {
    /// The configuration says so.
    Configured,
    /// The driver has no waits for memory, in its own words.
    NoWaits(String),
    /// A call failed during the test.
    Failed(String),
    /// A command started behind a closed gate.
    NotHeld,
    /// A gate that was opened held on.
    NotOpened,
    /// Commands of another stream were held as well.
    OtherStreamsHeld,
    /// A launch behind a closed gate blocked the thread at once.
    Blocks,
}

impl fmt::Display for NoGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("the configuration asks for Lv1"),
            Self::NoWaits(why) => f.write_str(why),
            Self::Failed(why) => write!(f, "the self-test of the gate failed: {why}"),
            Self::NotHeld => f.write_str("a closed gate did not hold a command"),
            Self::NotOpened => f.write_str("an opened gate did not let a command pass"),
            Self::OtherStreamsHeld => f.write_str(
                "a closed gate holds other streams too, as all share one connection to the device; \
                 is CUDA_DEVICE_MAX_CONNECTIONS=1 set?",
            ),
            Self::Blocks => f.write_str("launching behind a closed gate blocks the thread"),
        }
    }
}
