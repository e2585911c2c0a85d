//! Loom models of what the device's threads share without its lock. `cargo xtask loom` runs them;
//! `docs/src/reference/models.md` lists them.

mod gate;
#[path = "../../../runtime/src/models/harness.rs"]
mod harness;
