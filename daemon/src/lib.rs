//! `xschedd`: schedules the processes of a node that share GPUs.
//!
//! Two threads. The one of [`control`] accepts connections, reads their messages and answers them.
//! The one of `scheduler` runs the scheduler machine of `xsched-core` with a policy, where each
//! process on a GPU is a queue, and opens and closes processes' gates. What a process writes into
//! its pages is read as a count that is zero or not, and as the device time that it has used, which
//! is believed within bounds; so it misleads the daemon about itself alone. Where they are wanted,
//! a third answers scrapes for [`metrics`], and a fourth asks drivers what runs past the daemon
//! ([`watch`]).

mod closer;
pub mod config;
pub mod control;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod grants;
mod listen;
mod liveness;
pub mod log;
pub mod metrics;
mod peer_cred;
mod scheduler;
mod scheduler_client;
mod subordinates;
pub mod systemd;
pub mod tenant;
mod text;
mod users;
mod waker;
pub mod watch;

pub use control::{Daemon, DaemonError, Settings};
pub use grants::{GrantError, cgroup_folders};
pub use listen::ListenError;
pub use liveness::Summary;
pub use text::is_shown;
