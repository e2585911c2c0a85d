//! AMD's kernel driver `amdkfd` as a device for XSched: running waves are interrupted and restored,
//! by a process without privileges, on a stock driver.
//!
//! [`KfdDevice`] adds Lv3 to the queues of another backend, such as HIP's streams:
//!
//! ```no_run
//! use xsched_hal_kfd::probe::{ProbeConfig, assemble, probe};
//! use xsched_hal_kfd::{KfdConfig, KfdDevice, KfdQueueConfig};
//! # use xsched_core::hal::Backend;
//!
//! # fn open<B: Backend>(streams: B, stream: B::Config) -> Result<(), Box<dyn std::error::Error>> {
//! // Initialise HIP first. `streams` is the device below, whose streams have rings of their own.
//! let config = ProbeConfig::from_environment();
//! let (driver, report) = probe(&config)?;
//! println!("{report}");
//! let (mechanism, attribution) = assemble(driver, &report, &config)?;
//! let mut device = KfdDevice::new(streams, mechanism, attribution, None, KfdConfig::default())?;
//! let queue = device.open(Default::default(), KfdQueueConfig::new(stream))?;
//! if let Some(why) = device.why_not() {
//!     println!("the queue has {} only: {why}", queue.caps.level);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`mechanism`] | the ways to suspend queues: `update-queue`, `debug-trap`, `preempt-queue` |
//! | [`probe`] | which of them can be used on this machine, and why |
//! | [`topology`] | the GPUs and the module's parameters, from sysfs |
//! | [`attribution`] | which of the driver's queues belongs to a stream |
//! | [`cost`] | the predicted cost of interrupts |
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
    Counts, DeviceError, GatesOpen, KfdConfig, KfdDevice, KfdPreempt, KfdQueueConfig, KfdRetire,
    KfdSubmit, at_exit,
};
pub use driver::{Driver, KFD_PATH, Kfd};
pub use error::KfdError;
pub use queue::{KfdQueue, PRIORITY_NORMAL, QueueFacts};
pub use version::{Version, Versioned};
pub use watching::{Record, Watcher};
