//! A CPU as a device: a command processor on threads, with true preemption at all three levels.
//!
//! A [`HostDevice`] has *compute units* and any number of hardware queues. Every hardware queue has
//! a thread of its own that runs its commands ([`HostCommand`]) in order, each only while the queue
//! has a compute unit. Queues with commands to run share the units round-robin, one command at a
//! time.
//!
//! * Lv1 is not launching.
//! * Lv2, `deactivate`: what is launched and has not started does not start.
//! * Lv3, `interrupt`: the running command is stopped at whatever instruction it is at, and its
//!   compute unit goes to another queue. `restore` lets it continue there when a unit is free. Only
//!   commands that are [`HostCommand::interruptible`] are stopped; all other commands run to their
//!   end.
//!
//! ```
//! use xsched_core::hal::{Backend, Retire, Submit};
//! use xsched_core::id::{CmdId, QueueId};
//! use xsched_hal_host::{HostCommand, HostConfig, HostDevice};
//!
//! let mut device = HostDevice::new(HostConfig::default())?;
//! let mut queue = device.open(QueueId::new(0, 0), ())?;
//! let hello = HostCommand::new(|| println!("hello from the device"));
//! queue.submit.launch(CmdId(0), &hello, true)?;
//! while queue.retire.poll_retired()?.is_none() {
//!     std::thread::yield_now();
//! }
//! # Ok::<(), xsched_hal_host::HostError>(())
//! ```
//!
//! # How a command is stopped
//!
//! The interrupting thread sets a request in an atomic word of the queue (`gate.rs`), sends a
//! real-time signal to the queue's thread, and waits until the word says that the command is
//! stopped or has ended.
//! The signal's handler acts only if the word asks for it, so a signal that comes late does
//! nothing. It then sleeps in the handler, on a futex, and touches nothing else: the
//! interrupting thread takes its compute unit away, and a later one gives it a unit again
//! (`arbiter.rs`).
//!
//! The handler is installed once per process. A queue's thread blocks all other signals, so an
//! application's handlers never run there.
#![allow(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "xsched-hal-host stops commands with Linux signals and futexes; leave this crate out on other \
     systems and use another backend"
);

mod arbiter;
mod busy_loop;
mod command;
mod config;
mod device;
mod error;
mod executor;
mod gate;
mod halves;
mod inner;
#[cfg(all(test, loom))]
mod models;
mod once;
mod queue;
mod signal;
mod sync;
mod sys;

pub use busy_loop::BusyLoop;
pub use command::HostCommand;
pub use config::HostConfig;
pub use device::HostDevice;
pub use error::HostError;
pub use halves::{HostPreempt, HostRetire, HostSubmit};
pub use once::{HostValue, HostValueError};
