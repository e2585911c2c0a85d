//! AMD's kernel driver, `amdkfd`: running waves are interrupted and restored, by a process without
//! privileges, on a stock driver.
//!
//! * [`KfdDevice`] adds Lv3 to another backend's queues, such as HIP's streams.
//! * [`mechanism`] has the ways to suspend queues: `update-queue`, `debug-trap`, `preempt-queue`.
//! * [`probe`] says which of them can be used here, and why.
//! * [`topology`] reads the GPUs and the module's parameters from sysfs.
//! * [`attribution`] tells which of the driver's queues a stream is.
//! * [`uapi`] declares the driver's calls; [`Driver`] is what makes them, and [`Versioned`] a
//!   driver whose version is known, without which nothing is sent.
//!
//! Waves are saved and restored by the hardware (compute wave save and restore, CWSR). Every
//! preemption stops all queues of a GPU, or partition of one, of all processes, for as long as
//! their contexts take to be saved and those that go on to be loaded.
//!
//! Nothing of this has run on an MI308X yet. `docs/src/guides/amd.md` says what was checked, and
//! how.
#![allow(unsafe_code)]

pub mod attribution;
mod calls;
pub mod cost;
mod device;
mod driver;
mod error;
pub mod mechanism;
pub mod preloaded;
pub mod probe;
mod queue;
#[cfg(test)]
mod scripted;
pub mod topology;
mod traced;
pub mod uapi;
mod version;
mod watching;

pub use device::{
    Counts, DeviceError, KfdConfig, KfdDevice, KfdPreempt, KfdQueueConfig, KfdRetire, KfdSubmit,
    Lifted, at_exit,
};
pub use driver::{Driver, KFD_PATH, Kfd};
pub use error::KfdError;
pub use queue::{KfdQueue, NORMAL, QueueFacts};
pub use version::{Version, Versioned};
pub use watching::{Record, Watcher};
