//! Loom models of what threads of a program and those of a device share. `cargo xtask loom` runs
//! them; `cargo xtask loom --list` lists them.

mod commands;
#[path = "../../../runtime/src/models/harness.rs"]
mod harness;
mod side;
