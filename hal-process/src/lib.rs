//! Facilities of a library in a program that is not its own.
//!
//! * [`burst`] has launches that need no command of an XQueue.
//! * [`calls`] has calls of the driver that may wait for the device.
//! * [`environment`] has variables, unless the program has more rights than its user.
//! * [`loader`] has the C library's functions for shared libraries, whatever other preloaded
//!   libraries put in front of them.
//! * [`message`] writes to standard error, whatever that is, without an end of the program.
//! * [`start`] starts a program as the process that becomes it was started.
#![expect(unsafe_code, reason = "it calls the C library")]

pub mod burst;
pub mod calls;
mod elf;
pub mod environment;
pub mod loader;
pub mod message;
#[cfg(all(test, loom))]
mod models;
pub mod start;
mod sync;
