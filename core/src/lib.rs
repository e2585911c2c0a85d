//! The part of XSched that decides.
//!
//! Two state machines hold all scheduling logic. A [`queue::Queue`] turns submitted commands into
//! launches under an in-flight threshold and can be held at one of three [`level::Level`]s. A
//! [`scheduler::Scheduler`] watches the reports of many queues, asks a [`policy::Policy`] which of
//! them should run, and emits the orders that are needed to get there. Neither has a clock, a
//! thread, memory of its own or any I/O: a driver feeds them events (`handle_*`) and carries out
//! what they ask for (`poll_*`). A simulator, a model checker and a real runtime therefore run the
//! same code.
//!
//! ```text
//! submit ──▶ Queue ──Action::Launch──▶ device          Queue ──Report──▶ Scheduler ──▶ Policy
//!              ▲                          │              ▲                  │
//!              └──Signal::Retired─────────┘              └─────Order────────┘
//! ```
//!
//! The crate is `no_std` and allocates nothing. Tables live in storage that the caller lends
//! ([`scheduler::Slices`], `&mut [CommandSlot]`) or, for small embedded uses, inline in arrays. The
//! feature `alloc` adds heap-backed tables.
//!
//! Times are integers in nanoseconds ([`time::Instant`], [`time::Duration`]) on a monotonic clock
//! that the driver chooses.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod check;
pub mod cost;
pub mod fault;
pub mod hal;
pub mod hint;
pub mod id;
pub mod lease;
pub mod level;
pub mod message;
pub mod policy;
pub mod queue;
pub mod record;
pub mod rng;
pub mod scheduler;
pub mod store;
pub mod table;
pub mod time;
pub mod window;
