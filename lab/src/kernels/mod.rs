//! Kernels, streams and words that only experiments need.
#![allow(unsafe_code, reason = "calls drivers directly")]

mod checked;
mod hip_stream;
mod hip_word;
mod hip_work;
mod raw_stream;
mod witness;

pub(crate) use checked::{CheckCounters, CheckedKind, checked};
pub(crate) use hip_stream::begin_anew;
pub use hip_stream::{BareStream, Ring};
pub use hip_word::{Place, PlacedWord};
pub(crate) use hip_work::{SideCalls, WorkKernels, WorkMemory};
pub use raw_stream::RawStream;
pub(crate) use witness::{Witness, witnessed};
