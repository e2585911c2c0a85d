//! Loom models of what a process and the daemon share. `cargo xtask loom` runs them;
//! `docs/src/reference/models.md` lists them.

#[path = "../../../runtime/src/models/harness.rs"]
mod harness;
mod load;
