//! Loom models of what a process and the daemon share. `cargo xtask loom` runs them;
//! `cargo xtask loom --list` lists them.

mod handshake;
#[path = "../../../runtime/src/models/harness.rs"]
mod harness;
mod wakeup;
