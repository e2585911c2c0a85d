//! An interpreter of one gfx942 compute unit, for tests without a GPU.
#![forbid(unsafe_code)]

mod code;
mod decode;
mod error;
mod execution;
mod float;
mod image;
mod inst;
mod lanes;
mod memory;
mod ops;
mod packet;
mod value;
mod wave;

pub use error::{Error, ImageError, Space};
pub use execution::{Config, Execution, PACKET_BYTES, Progress};
pub use image::checksum;
pub use memory::{Clock, Fault, Memory};
