//! Facilities of a library in a program that is not its own.
//!
//! * [`loader`] has the C library's functions for shared libraries, whatever other preloaded
//!   libraries put in front of them.
//! * [`message`] writes to standard error, whatever that is, without an end of the program.
//! * [`start`] starts a program as the process that becomes it was started.
#![expect(unsafe_code, reason = "it calls the C library")]

mod elf;
pub mod loader;
pub mod message;
pub mod start;
