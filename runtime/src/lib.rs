//! Queues of accelerators that the host can preempt.
//!
//! Commands go into an [`XQueue`] instead of a hardware queue; a policy decides which XQueues run.
//! This crate puts the state machines of [`xsched_core`] on real threads:
//!
//! * The submitting thread launches, as long as the queue runs and its in-flight window is open.
//!   What cannot be launched now waits in a ring of fixed size, and the device's *pump* thread
//!   launches it later. A queue may have a [pump of its own](XQueueConfig::launcher_thread).
//! * The waiting thread looks for completions. The device's *reaper* thread does when no thread
//!   waits.
//! * One *scheduler* thread asks the policy. If it panics or is silent past its lease, its holds
//!   end (a *watchdog* sees to that without asking it); suspended queues stay suspended.
//!
//! # Quick start
//!
//! With `xsched = { version = "0.2", features = ["host"] }`:
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
//! # Policies and backends of your own
//!
//! This crate is enough for them: [`policy`], [`hal`], [`hint`], [`id`], [`level`], [`time`] and
//! the others are the modules of [`xsched_core`], and times of [`Hints`] are [`time::Duration`]s.
//!
//! ```
//! use xsched::policy::{Changed, Decisions, Policy, QueueTable, Urgency, Verdict};
//! use xsched::prelude::*;
//! use xsched::time::Instant;
//!
//! /// Every queue runs, except those that must not.
//! struct Lenient;
//!
//! impl Policy for Lenient {
//!     fn name(&self) -> &'static str {
//!         "lenient"
//!     }
//!
//!     fn decide(
//!         &mut self,
//!         _now: Instant,
//!         changed: Changed<'_>,
//!         queues: &QueueTable<'_>,
//!         out: &mut Decisions<'_>,
//!     ) {
//!         for info in changed.queues(queues) {
//!             let runs = info.hints.priority != Priority::NO_EXECUTE;
//!             out.set(info.id, if runs { Verdict::Run } else { Verdict::Hold(Urgency::NOW) });
//!         }
//!     }
//! }
//!
//! let runtime = Runtime::new(Lenient)?;
//! # Ok::<(), xsched::Error>(())
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
mod backoff;
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
pub mod record;
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
pub use queue::{Completion, Drain, LaunchToken, Quiet};
pub use queue::{Submission, Ticket, XQueue, XQueueConfig};
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

#[cfg(any(feature = "cuda", feature = "hip", feature = "node"))]
pub use xsched_hal_stream as stream;

// With these, a program that has a policy or a backend of its own needs no other crate.
pub use xsched_core::{cost, fault, hal, hint, id, level, message, policy, time, window};

pub use xsched_core::cost::CostModel;
pub use xsched_core::fault::Fault;
pub use xsched_core::hint::{Hints, PolicyHint, Priority};
pub use xsched_core::id::ProcessId;
pub use xsched_core::level::{Caps, Level};
pub use xsched_core::message::HoldState;
pub use xsched_core::scheduler::SchedulerError;
pub use xsched_core::window::WindowConfig;

/// Names that most programs need: `use xsched::prelude::*`.
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
