//! AMD's kernel driver (`amdkfd`): running waves are interrupted and restored.
#![allow(unsafe_code)]

pub mod attribution;
mod calls;
mod controls;
pub mod cost;
mod driver;
mod error;
pub mod mechanism;
pub mod preloaded;
mod queue;
#[cfg(test)]
mod scripted;
pub mod topology;
mod tracing;
pub mod uapi;
mod version;
mod watching;

pub use controls::{Controls, Sharing};
pub use driver::{Driver, KFD_PATH, Kfd};
pub use error::KfdError;
pub use queue::{KfdQueue, NORMAL, QueueFacts};
pub use version::{Version, Versioned};
pub use watching::{Record, Watcher};
