//! What can go wrong with streams of any vendor.

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;

use crate::selftest::NoGate;

/// An error of a stream's backend. `E` is the driver's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError<E: std::error::Error + 'static> {
    /// The driver refused something.
    #[error("{during}: {source}")]
    Driver {
        /// What was being done.
        during: &'static str,
        /// The driver's error.
        source: E,
    },
    /// There is no memory left for the flags of gates.
    #[error("the driver gave no memory for the flags of gates; close queues")]
    NoFlags,
    /// More fences are on their way than the hardware queue can hold.
    #[error("{fences} fences are on their way already; wait for one")]
    FencesFull {
        /// So many.
        fences: usize,
    },
    /// Words for gates are of no use.
    #[error("gates cannot be used on this device: {0}")]
    NoGate(NoGate),
    /// Another queue is open with the word.
    #[error("the gate's word is in use by another queue; close that first, or take a second word")]
    WordTaken,
    /// The word is that of another device.
    #[error("the gate's word was taken from another device; take one from the queue's own")]
    WordOfAnother,
    /// A thread of the backend could not be started.
    #[error("no thread for the device; raise the process's limit: {0}")]
    Thread(#[source] std::io::Error),
}

impl<E: std::error::Error + 'static> StreamError<E> {
    pub(crate) fn during(during: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Driver { during, source }
    }
}

impl<E: HalError + std::error::Error + 'static> HalError for StreamError<E> {
    fn kind(&self) -> Fault {
        match self {
            Self::Driver { source, .. } => source.kind(),
            Self::NoFlags | Self::Thread(_) | Self::NoGate(_) => Fault::NotSupported,
            Self::FencesFull { .. } | Self::WordTaken | Self::WordOfAnother => Fault::Launch,
        }
    }
}
