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
//! A queue under a scheduler, on a device that completes everything at once:
//!
//! ```
//! use xsched_core::hal::{Backend, Noop, NoopQueue, Retire, Submit};
//! use xsched_core::policy::{Changed, Decisions, Policy, QueueTable, Urgency, Verdict};
//! use xsched_core::queue::{Action, CommandSlot, Queue, QueueConfig, Signal};
//! use xsched_core::scheduler::{Attach, Inline, Scheduler};
//! use xsched_core::time::Instant;
//!
//! /// Only the first ready queue of the table runs.
//! struct First;
//!
//! impl Policy for First {
//!     fn name(&self) -> &'static str {
//!         "first"
//!     }
//!
//!     fn decide(
//!         &mut self,
//!         _: Instant,
//!         _: Changed<'_>,
//!         queues: &QueueTable<'_>,
//!         out: &mut Decisions<'_>,
//!     ) {
//!         let first = queues.ready().next().map(|info| info.id);
//!         for info in queues.iter() {
//!             let runs = first.is_none_or(|first| first == info.id);
//!             out.set(info.id, if runs { Verdict::Run } else { Verdict::Hold(Urgency::NOW) });
//!         }
//!     }
//! }
//!
//! let now = Instant::ZERO;
//! let mut scheduler = Scheduler::new(First, Inline::<4, 1, 4>::new());
//! let id = scheduler.attach(now, Attach::default())?;
//!
//! let hardware = [NoopQueue::default()];
//! let mut device = Noop::<()>::new(&hardware).open(id, ()).expect("a hardware queue");
//! let ring = [CommandSlot::default(); 8];
//! let mut queue = Queue::new(ring, QueueConfig::default(), device.caps);
//!
//! let cmd = queue.submit(now)?;
//! while let Some(action) = queue.poll_action(now) {
//!     if let Action::Launch { cmd, fence } = action {
//!         device.submit.launch(cmd, &(), fence).expect("the device takes it");
//!     }
//! }
//! if let Some(report) = queue.poll_report() {
//!     scheduler.handle_report(now, id, &report)?;
//! }
//! while let Some((_, order)) = scheduler.poll_order(now) {
//!     queue.handle_order(order);
//! }
//! let retired = device.retire.poll_retired().expect("the device answers").expect("a completion");
//! queue.handle_signal(now, Signal::Retired(retired));
//! assert!(queue.status(cmd).is_final());
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
