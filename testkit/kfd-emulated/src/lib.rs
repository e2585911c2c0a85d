//! `/dev/kfd` and its sysfs without a GPU, for tests.
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | the state of the driver for all processes, without time, threads or system calls |
//! | [`InProcess`] | the driver as an object: implements the trait that `hal-kfd` calls |
//! | [`system`] | the driver behind real system calls, for whole programs: `kfd-emulate COMMAND` |
//! | [`answers`] | a script of calls, and what the real driver of Linux 6.12 answers to it |
//! | [`wire`] | the numbers and layouts of `/dev/kfd`, written down a second time |
//! | [`control`] | how a program on the emulated driver makes it fail |
//!
//! What was compared with the real driver and what was only read in its source is in
//! `docs/kfd-vm.md`. Nothing here shows that a GPU can be preempted.
#![allow(unsafe_code)]

pub mod answers;
mod config;
pub mod control;
mod in_process;
mod memory;
pub mod model;
pub mod page;
pub mod system;
mod tree;
pub mod wire;

pub use config::{Config, Gpu, Latency, Private};
pub use in_process::InProcess;
pub use tree::Tree;
