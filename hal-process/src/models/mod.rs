//! Loom models of what two libraries of a process share. `cargo xtask loom` runs them;
//! `cargo xtask loom --list` lists them.

mod burst;
#[path = "../../../runtime/src/models/harness.rs"]
mod harness;
