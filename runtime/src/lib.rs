//! Queues of accelerators that the host can preempt.
//!
//! Commands go into an [`XQueue`] instead of a hardware queue; a policy decides which XQueues run.
//! This crate puts the state machines of [`xsched_core`] on real threads:
//!
//! * Whoever submits launches, as long as the queue runs and its in-flight window is open. What
//!   cannot be launched now waits in a ring of fixed size, and the device's *pump* thread launches
//!   it later.
//! * Whoever waits looks for completions. The device's *reaper* thread does when nobody waits.
//! * One *scheduler* thread asks the policy. If it panics or is silent past its lease, its holds
//!   end (a *watchdog* sees to that without asking it); holds by hand stay.
//!
//! ```
//! use xsched::core::hal::{Noop, NoopQueue};
//! use xsched::core::hint::{Hints, Priority};
//! use xsched::{Runtime, XQueueConfig};
//!
//! // A device that does nothing; a real one comes from a backend crate.
//! static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
//! let runtime = Runtime::new(xsched::policies::hpf::Hpf::default())?;
//! let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
//! let urgent = Hints::with_priority(Priority::MAX);
//! let queue = device.queue(XQueueConfig { hints: urgent, ..Default::default() }, ())?;
//!
//! let ticket = queue.submit(7)?;
//! queue.wait(ticket)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alarm;
mod clock;
mod commit;
mod device;
mod error;
mod hub;
mod lock;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod nap;
mod parker;
mod policy;
mod queue;
mod recorder;
mod runtime;
mod scheduler;
mod shared;
mod stats;
mod sync;
mod urgency;
mod waiting;

pub use error::{Error, SubmitError, WaitError};
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use queue::{Drain, Ticket, XQueue};
pub use recorder::{RecordStats, Recording, RecordingError};
pub use runtime::{CommandOf, Device, Runtime, RuntimeConfig, XQueueConfig};
pub use stats::Stats;
pub use waiting::{Completion, Submission};
pub use xsched_core as core;
pub use xsched_policies as policies;
