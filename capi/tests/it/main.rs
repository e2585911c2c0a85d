//! The C API, by the functions that C programs call. Each test has a process of its own, as
//! programs have, so that schedulers and environments do not meet; one that does not end in time
//! has failed.
#![expect(unsafe_code, reason = "it calls the C API")]

mod common;
mod exports;
mod failures;
mod functions;
mod handles;
mod hip;
mod lenient;
mod lv3;
mod node;
mod policies;
mod processes;
mod queues;
mod random;
mod scheduler;
