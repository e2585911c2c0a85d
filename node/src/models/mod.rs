//! Loom models of what a process and the daemon share. `cargo xtask loom` runs them;
//! `docs/src/reference/models.md` lists them.

mod follow;
#[path = "../../../runtime/src/models/harness.rs"]
mod harness;
mod load;
