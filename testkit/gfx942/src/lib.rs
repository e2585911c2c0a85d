//! An interpreter of one gfx942 compute unit, for tests without a GPU.
#![forbid(unsafe_code)]

mod error;
mod execution;
mod memory;

pub use error::{Error, ImageError, Space};
pub use execution::{Config, Execution, PACKET_BYTES, Progress};
pub use memory::{Clock, Fault, Memory};
