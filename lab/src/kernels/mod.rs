//! Kernels, streams and words that only experiments need.
#![allow(unsafe_code, reason = "calls drivers directly")]

mod checked;
mod hip_stream;
mod hip_word;
mod hip_work;
mod raw_stream;
mod witness;

pub use checked::{CheckCounters, CheckedKind, checked};
pub use hip_stream::{BareStream, Ring, begin_anew};
pub use hip_word::{Place, PlacedWord};
pub use hip_work::{SideCalls, WORK_KINDS, WORK_THREADS, WORK_VARIABLE, WorkKernels, WorkMemory};
pub use raw_stream::RawStream;
pub use witness::{Witness, witnessed};
