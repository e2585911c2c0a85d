//! AMD's kernel driver `amdkfd` as a device for XSched: running waves are interrupted and restored,
//! by a process without privileges, on a stock driver.
//!
//! [`KfdDevice`] adds Lv3 to the queues of another backend, such as HIP's streams:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use xsched_core::hal::Backend;
//! use xsched_hal_hip::{HipApi, HipConfig, StreamConfig, StreamDevice};
//! use xsched_hal_kfd::KfdQueueConfig;
//! use xsched_hal_kfd::hip::HipLv3;
//! use xsched_hal_kfd::probe::ProbeConfig;
//!
//! let api = HipApi::open(HipConfig::default())?;
//! let streams = StreamDevice::new(api, Default::default())?;
//! let lv3 = Arc::new(HipLv3::open(streams.clone(), ProbeConfig::from_environment()));
//! println!("{}", lv3.access()?.report());
//! let mut device = lv3.device(streams);
//! let queue = device.open(Default::default(), KfdQueueConfig::new(StreamConfig::default()))?;
//! if let Some(why) = device.why_not() {
//!     println!("the queue has {} only: {why}", queue.caps.level);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`hip`] | Lv3 for HIP's streams, all of it put together |
//! | [`access`] | the driver below a GPU: its mechanisms, made when they are wanted |
//! | [`mechanism`] | the ways to suspend queues: `update-queue`, `debug-trap`, `preempt-queue` |
//! | [`probe`] | which of them can be used on this machine, and why |
//! | [`topology`] | the GPUs and the module's parameters, from sysfs |
//! | [`attribution`] | which of the driver's queues belongs to a stream |
//! | [`cost`] | the predicted cost of interrupts |
//! | [`guard`], [`log`] | what ends all suspensions: switches, and lines of the driver |
//! | [`preloaded`] | the library that sees a program's calls to the driver |
//! | [`uapi`] | the driver's calls; [`Driver`] makes them, [`Versioned`] checks the version first |
//!
//! The hardware saves and restores waves (compute wave save and restore, CWSR). Every preemption
//! stops all queues of a GPU, or partition of one, of all processes, for as long as the GPU takes
//! to save their contexts and to load those that go on.
//!
//! This crate has not run on an MI308X yet. `docs/src/guides/amd.md` in the repository says what
//! was checked, and how.
#![allow(unsafe_code)]

pub mod access;
pub mod attribution;
mod calls;
pub mod cost;
mod device;
mod driver;
mod error;
pub mod guard;
pub mod hip;
pub mod log;
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
    Counts, DeviceError, GatesOpen, HeldTogether, KfdConfig, KfdDevice, KfdPreempt, KfdQueueConfig,
    KfdRetire, KfdSubmit, Parts, Reason, Source, at_exit,
};
pub use driver::{Driver, KFD_PATH, Kfd};
pub use error::KfdError;
pub use queue::{KfdQueue, PRIORITY_NORMAL, QueueFacts};
pub use version::{Version, Versioned};
pub use watching::{Record, Watcher};
