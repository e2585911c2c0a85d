//! Common code of the interposers of vendors' libraries.
//!
//! An interposer is a shared library that a program has preloaded, and that takes the place of its
//! vendor's library. Each has a crate of its own, with the list of the vendor's functions and a
//! [`Vendor`]; the macros here make the exported functions from the list.
//!
//! **How it forwards.** Each function of the list is exported as a stub that jumps to the address
//! in its slot. Until a program calls one of them every slot holds the address of a function that
//! calls [`stubs::resolve`], and the interposer has done nothing: it links no library of the vendor
//! and opens none, starts no thread and reads no file. The first call looks for the vendor's
//! library as [`driver`] says, and fills all slots.
//!
//! **How it schedules.** If `XSCHED_AUTO_XQUEUE` is `ON`, launches go through `libpreempt.so`,
//! which the first of them opens: [`engine`] says how, which bypass it, and [`direct`] which are
//! made at once.
//!
//! **Locks.** There are none in forwarding: what two threads do at once they both do, and the first
//! counts. So a library whose initialisation calls its own functions does not wait for itself, nor
//! does the child of a fork wait for a thread that it does not have. Scheduling has locks; what a
//! thread calls of the vendor's library meanwhile, and what the child of a fork calls, takes none.
#![expect(unsafe_code, reason = "it takes the place of C functions")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the stubs are for x86_64 Linux; for aarch64, write those of src/stubs.rs first");

mod activity;
mod cache;
pub mod captures;
mod counts;
pub mod direct;
pub mod driver;
pub mod engine;
pub mod errors;
pub mod events;
pub mod exchange;
pub mod hooks;
pub mod kind;
pub mod opened;
mod preempt;
mod search;
pub mod streams;
pub mod stubs;
pub mod vendor;
pub mod waits;

use std::ffi::{c_int, c_void};

pub use engine::Stream;
pub use kind::{Kind, Part, Reach};
pub use vendor::{Class, Tells, Vendor};

/// The address of a function, whatever its signature, or a handle of the vendor's.
pub type Address = *mut c_void;
/// Result of a vendor's function: 0 is success.
pub type Code = c_int;
