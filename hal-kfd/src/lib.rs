//! AMD's kernel driver (`amdkfd`): running waves are interrupted and restored.
#![allow(unsafe_code)]

pub mod attribution;
mod calls;
mod controls;
pub mod cost;
mod device;
mod driver;
mod error;
pub mod mechanism;
pub mod preloaded;
mod queue;
#[cfg(test)]
mod scripted;
pub mod topology;
mod traced;
pub mod uapi;
mod version;
mod watching;

pub use controls::{Controls, Sharing};
pub use device::{
    Counts, DeviceError, KfdConfig, KfdDevice, KfdPreempt, KfdQueueConfig, KfdRetire, KfdSubmit,
    Lifted, at_exit,
};
pub use driver::{Driver, KFD_PATH, Kfd};
pub use error::KfdError;
pub use queue::{KfdQueue, NORMAL, QueueFacts};
pub use version::{Version, Versioned};
pub use watching::{Record, Watcher};
