//! Errors of the CUDA driver.

use std::ffi::{CStr, c_char};

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;
use xsched_hal_stream::GraphError;

use crate::table::{CuResult, LoadError, SUCCESS, Table};

/// An error of the CUDA driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No driver was found.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There are fewer devices.
    #[error("there is no CUDA device {ordinal}; {count} can be used (see CUDA_VISIBLE_DEVICES)")]
    NoSuchDevice {
        /// The number that was asked for.
        ordinal: u32,
        /// Devices there are.
        count: u32,
    },
    /// A call failed.
    #[error("{call}: {name} ({code}): {text}")]
    Call {
        /// The function.
        call: &'static str,
        /// Answer of the call, a `CUresult`.
        code: CuResult,
        /// The answer's name.
        name: String,
        /// The driver's words for it.
        text: String,
    },
    /// The driver lacks an optional function.
    #[error("this CUDA driver lacks {symbol}; update it")]
    Missing {
        /// The function.
        symbol: &'static str,
    },
    /// Nothing says whose a default stream is.
    #[error("no context is current on this thread; make the stream's current")]
    NoContext,
    /// The per-thread default stream.
    #[error(
        "the per-thread default stream is another one on each thread, and commands are launched \
         from several; make a stream with cuStreamCreate"
    )]
    PerThreadStream,
    /// Commands of the queue would be captured.
    #[error("the stream is being captured; make the queue when the capture has ended")]
    Capturing,
    /// Parameters of a kernel take too much room.
    #[error("parameters of {bytes} bytes are too many; {max} fit, use a closure for more")]
    LongParameters {
        /// Bytes that they take.
        bytes: usize,
        /// Bytes that fit.
        max: usize,
    },
    /// The edges of a graph, or the numbers of its nodes.
    #[error("the graph: {0}")]
    Graph(#[from] GraphError),
    /// Times for another number of nodes.
    #[error("{given} times for a graph of {nodes} nodes; give one for each node")]
    NodeTimes {
        /// Times given.
        given: usize,
        /// Nodes there are.
        nodes: usize,
    },
    /// The graph has gates already.
    #[error("the graph has gates already; add all nodes first, and gates once")]
    HasGates,
    /// The word is that of another device.
    #[error("the gate's word was taken from another device; take one from the graph's own")]
    WordOfOtherDevice,
    /// A program's graph cannot have gates, and stays as the program made it.
    #[error("the graph gets no gates: {why}")]
    Unsupported {
        /// The reason.
        why: &'static str,
    },
    /// The device's clock was not read in time.
    #[error("the device's clock was not read within {ms} ms; end what else keeps the device busy")]
    ClockSilent {
        /// How long was waited.
        ms: u64,
    },
}

impl CudaError {
    /// The error of a call, with the driver's words for it.
    pub(crate) fn of(table: &Table, call: &'static str, code: CuResult) -> Self {
        let words = |ask: unsafe extern "C" fn(CuResult, *mut *const c_char) -> CuResult| {
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: it writes a pointer to a constant string, or null.
            let known = unsafe { ask(code, &raw mut text) } == SUCCESS && !text.is_null();
            // SAFETY: see above.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = words(table.error_name).unwrap_or_else(|| "unknown error".to_owned());
        let text = words(table.error_text).unwrap_or_default();
        Self::Call { call, code, name, text }
    }
}

impl HalError for CudaError {
    /// By the meaning of the codes in `cuda.h`: those after which the context is of no use are
    /// [`Fault::DeviceLost`].
    fn kind(&self) -> Fault {
        let Self::Call { code, .. } = self else { return Fault::NotSupported };
        match code {
            // Illegal address, time-out, faults of a kernel or of the hardware, launch failure; the
            // context or the device is gone.
            4 | 46 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 999 => {
                Fault::DeviceLost
            }
            800 => Fault::NotPermitted,
            // A newer driver is needed, no code for this device, not supported.
            36 | 209 | 801 => Fault::NotSupported,
            _ => Fault::Launch,
        }
    }
}
