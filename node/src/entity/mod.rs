//! A process on a GPU, as a scheduler of the node sees it.
//!
//! A [`SchedEntity`] is pure state: it has no clock, does no I/O and shares no memory. The daemon
//! and the simulator drive the same one. [Its states](EntityState) and what leads from one to
//! another are a table. It is held as long as any of [several causes](HoldCause) holds it. It says
//! when a process without work is [waited for](IdleGrace), [how much](HostBoundDetector) of the
//! device the process claims, and what [ended after a hold](HoldProbe).
//!
//! ```
//! use xsched_core::message::Order;
//! use xsched_core::time::Instant;
//! use xsched_node::entity::{EntityState, GateWrite, SchedEntity};
//!
//! let now = Instant::ZERO;
//! let mut entity = SchedEntity::new(0, now);
//! assert_eq!(entity.refresh(true, 0, now), GateWrite::Keep);
//! assert!(entity.take_report().pending(), "the scheduler hears that it has work");
//! let (write, _) = entity.obey(Order::Run { epoch: 1 }, now);
//! assert_eq!((write, entity.state()), (GateWrite::Keep, EntityState::Running));
//! ```

mod device_time;
mod holds;
mod host_bound;
mod idle;
mod probe;
mod sched_entity;
mod state;
#[cfg(all(test, not(loom)))]
mod tests;

pub use device_time::{RunInterval, SelfReport};
pub use holds::{GangState, HoldCause, HoldCauses};
pub use host_bound::{HostBoundDetector, Step, Trial};
pub use idle::IdleGrace;
pub use probe::HoldProbe;
pub use sched_entity::{Accounting, POLL_INTERVAL, SchedEntity};
pub use state::{EntityState, Event, GateWrite};
