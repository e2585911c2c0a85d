//! The C API: what programs written for the C++ XSched 1.2 link, under the same names, with the
//! same numbers. `docs/src/guides/c.md` says how to install it, and what differs.
//!
//! This is `libpreempt.so`. All backends are in it and load their drivers when they are used;
//! `libhalhip.so`, `libhalcuda.so` and `libhalhost.so` are thin and call [`private`] functions of
//! this, so that all of them share the one runtime of the process.
//!
//! No call ends the process, whatever handles and numbers it is given. Pointers are checked for
//! null and cannot be checked for more.
//!
//! | file | what is in it |
//! |---|---|
//! | [`types`], [`xqueue`], [`hint`], [`private`] | what is exported |
//! | `process` | what the process has, and forks and exits |
//! | `handle`, `commands` | handles that are checked |
//! | `queue`, `hwqueue` | what the calls do |
//! | `contention` | whether streams are scheduled one by one |
//! | `backend`, `side`, `platform` | the devices, with the C API's commands |
//! | `graphs` | copies with gates of the program's graphs |
//! | `policies` | the policies by their numbers |
//! | `lenient` | calls that the C++ XSched takes though it cannot do what they say |
//! | `sync`, `thread` | locks and conditions, or forms of them for models; numbers of threads |
//! | `env`, `log`, `refusal` | the environment, the log, and texts of errors |
#![expect(unsafe_code, reason = "it is called from C")]

mod backend;
mod bypassed;
mod command;
mod commands;
mod contention;
mod env;
mod graphs;
mod handle;
pub mod hint;
mod hwqueue;
mod interposer;
mod lenient;
mod lifecycle;
mod log;
#[cfg(all(loom, test))]
mod models;
mod platform;
mod policies;
pub mod private;
mod process;
mod queue;
mod refusal;
mod side;
mod sync;
mod thread;
#[expect(non_camel_case_types, non_upper_case_globals, reason = "the C API's names")]
pub mod types;
pub mod xqueue;
