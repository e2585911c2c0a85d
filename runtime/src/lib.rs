//! Queues of accelerators that the host can preempt.
//!
//! Commands go into an [`XQueue`] instead of a hardware queue; a policy decides which XQueues run.
//! This crate puts the state machines of [`xsched_core`] on real threads:
//!
//! * The submitting thread launches, as long as the queue runs and its in-flight window is open.
//!   What cannot be launched now waits in a ring of fixed size, and the device's *pump* thread
//!   launches it later. For a thread that feeds several queues in turn, the device's
//!   [launcher threads](RuntimeConfig::launcher_threads) launch.
//! * The waiting thread looks for completions. The device's *reaper* thread does when no thread
//!   waits.
//! * One *scheduler* thread asks the policy. If it panics or is silent past its lease, its holds
//!   end (a *watchdog* sees to that without asking it); suspended queues stay suspended.
//!
//! # Quick start
//!
//! With `xsched = { version = "0.1", features = ["host"] }`:
//!
#![cfg_attr(feature = "host", doc = "```")]
#![cfg_attr(not(feature = "host"), doc = "```ignore")]
//! use xsched::prelude::*;
//!
//! let runtime = Runtime::new(Hpf::default())?;
//! let device = runtime.device(HostDevice::new(HostConfig::default())?)?;
//! let queue = device.queue(XQueueConfig::default().with_priority(Priority::MAX), ())?;
//! let ticket = queue.submit(HostCommand::new(|| println!("urgent")))?;
//! queue.wait(ticket)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The end
//!
//! Dropping handles waits for nothing, and returning from `main` ends the process with whatever is
//! still submitted. [`XQueue::close`] waits until a queue has drained, [`Runtime::shutdown`] until
//! all have.
//!
//! The child of a fork has none of the threads, and a lock may be taken for ever: it may `exec` or
//! `_exit`, and must neither use nor drop handles.
//!
//! # Features
//!
//! * `host`, `cuda`, `hip`, `kfd`: the backends, as the modules of these names.
//! * `metrics`: figures of the queues for Prometheus, see `Metrics`.
//! * `node`: the scheduler of the node, `xschedd`, as the module of this name.
#![forbid(unsafe_code)]

mod activity;
mod clock;
mod completion;
mod device;
mod error;
mod holder;
mod latency;
mod lock;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(all(test, loom))]
mod models;
#[cfg(feature = "node")]
pub mod node;
mod panics;
mod queue;
mod record;
mod runtime;
mod scheduler;
mod shutdown;
mod stats;
mod sync;
mod urgency;
mod workers;

pub use activity::Activity;
pub use device::{CommandOf, Device};
pub use error::{Error, SubmitError, WaitError};
pub use holder::Holder;
pub use latency::Latencies;
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use queue::{Completion, Drain, Quiet, Submission, Ticket, XQueue, XQueueConfig};
pub use record::{RecordStats, RecordingError};
pub use runtime::{Runtime, RuntimeConfig};
pub use scheduler::Recording;
pub use shutdown::{ShutdownError, UnfinishedQueue};
pub use stats::Stats;
#[cfg(feature = "cuda")]
pub use xsched_hal_cuda as cuda;
#[cfg(feature = "hip")]
pub use xsched_hal_hip as hip;
#[cfg(feature = "host")]
pub use xsched_hal_host as host;
#[cfg(feature = "kfd")]
pub use xsched_hal_kfd as kfd;
pub use xsched_policies as policies;

pub use xsched_core::cost::CostModel;
pub use xsched_core::fault::Fault;
pub use xsched_core::hint::{Hints, PolicyHint, Priority};
pub use xsched_core::id::ProcessId;
pub use xsched_core::level::{Caps, Level};
pub use xsched_core::message::HoldState;
pub use xsched_core::scheduler::SchedulerError;
pub use xsched_core::window::WindowConfig;

/// What a backend implements, and a device that does nothing.
pub mod hal {
    pub use xsched_core::hal::*;
}

/// What most programs need: `use xsched::prelude::*`.
///
/// With the feature of a backend, the types to open its device and to make its commands are here
/// too.
pub mod prelude {
    pub use crate::{
        Completion, Device, Drain, Error, Hints, Level, Priority, Runtime, RuntimeConfig,
        ShutdownError, Stats, SubmitError, Ticket, WaitError, WindowConfig, XQueue, XQueueConfig,
    };
    pub use xsched_policies::any::Any;
    pub use xsched_policies::hpf::Hpf;

    #[cfg(feature = "cuda")]
    pub use crate::cuda::{CudaApi, CudaCommand, CudaKernel};
    #[cfg(feature = "cuda")]
    pub use crate::cuda::{StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig};
    #[cfg(feature = "hip")]
    pub use crate::hip::{HipApi, HipConfig, HipNative};
    // The same types as in `cuda`.
    #[cfg(all(feature = "hip", not(feature = "cuda")))]
    pub use crate::hip::{StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig};
    #[cfg(feature = "host")]
    pub use crate::host::{HostCommand, HostConfig, HostDevice, HostValue};
}
