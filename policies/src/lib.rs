//! Scheduling policies, one file each. All of them run unchanged in the simulator and in
//! production, without an allocator.
//!
//! _Idle_ is how long a device may stay idle while a queue is ready. _Starves_ is whether a ready
//! queue may wait for ever. _A pause_ is a fiftieth of the timeslice, 1 ms at most.
//!
#![doc = include_str!("table.md")]
//!
//! The strict ones (hpf, hhpf, chpf, lax, awf and strict classes) let low priorities starve, unless
//! [`PolicyHint::Ageing`](xsched_core::hint::PolicyHint::Ageing) gives them a turn now and then: a
//! ready queue that was kept from running for the age has the device to itself until it has used a
//! twentieth of the age of device time (100 µs to 5 ms), the queue that has waited longest first,
//! and after each turn the ordinary order holds for as long as the turn took.
//!
//! The cost of a decision follows what changed, not the number of queues. `lax` looks at all queues
//! when one becomes critical, `strict_up` and `strict_wfq` at those of a priority when it becomes
//! the highest, `pup` and `spup` at those of a process at its turn, and ageing at all of a device
//! now and then.
//!
//! [`Any`] is any of them by its name, and [`Any::NAMES`] is the list. Names are accepted in
//! capitals too, and in full: `highest_priority_first`, say.
//!
//! ```
//! use xsched_core::policy::Policy;
//! use xsched_policies::Any;
//!
//! let policy: Any = "HPF".parse()?;
//! assert_eq!(policy.name(), "hpf");
//! assert_eq!(Any::NAMES.len(), 18);
//! # Ok::<(), xsched_policies::UnknownPolicy>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod ageing;
pub mod any;
pub mod awf;
pub mod cfs;
mod choose;
pub mod chpf;
pub mod edf;
mod engine;
pub mod fcfs;
mod floors;
pub mod hhpf;
pub mod hpf;
pub mod lax;
pub mod mlfq;
mod process;
mod processes;
pub mod pup;
mod ready;
mod share;
pub mod spup;
pub mod strict;
mod turns;
pub mod up;
pub mod wfq;

pub use any::{Any, UnknownPolicy};
