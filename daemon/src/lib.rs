//! `xschedd`: schedules the processes of a node that share GPUs.
//!
//! Two threads. The one of [`control`] accepts connections, reads their messages and answers them.
//! The one of `scheduler` runs the scheduler machine of `xsched-core` with a policy, where each
//! process on a GPU is a queue, and opens and closes processes' gates. What a process writes into
//! its pages is read as a count that is zero or not, and as the device time that it has used, which
//! is believed within bounds; so it misleads the daemon about itself alone. Where they are wanted,
//! a third answers scrapes for [`metrics`], and a fourth asks drivers what runs past the daemon
//! ([`watch`]).

pub mod config;
pub mod control;
mod desk;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod liveness;
pub mod metrics;
mod scheduler;
pub mod systemd;
pub mod tenant;
mod text;
mod users;
pub mod watch;
mod who;

pub use control::{Daemon, DaemonError, Settings};
pub use liveness::Summary;
