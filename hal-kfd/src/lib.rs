//! AMD's kernel driver (`amdkfd`): running waves are interrupted and restored.
#![allow(unsafe_code)]

mod driver;
mod error;
#[cfg(test)]
mod scripted;
pub mod uapi;
mod version;

pub use driver::{Driver, KFD_PATH, Kfd};
pub use error::KfdError;
pub use version::{Version, Versioned};
