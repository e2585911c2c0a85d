//! Loom models of what the device's threads share without its lock. `cargo xtask loom` runs them;
//! `cargo xtask loom --list` lists them.

mod gate;
#[path = "../../../runtime/src/models/harness.rs"]
mod harness;
