//! Loom models of what the threads of a device share. `cargo xtask loom` runs them;
//! `cargo xtask loom --list` lists them.

mod gate;
mod gate_closure;
mod gate_events;
mod gate_updates;
#[path = "../../../runtime/src/models/harness.rs"]
mod harness;
mod launches;
mod occupancy;
mod registry;
mod timeline;

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};

/// A word as a device would poll it.
type Flag = Arc<AtomicU32>;

fn flag() -> Flag {
    Arc::new(AtomicU32::new(0))
}

/// Value that the device sees now.
fn seen(flag: &Flag) -> u32 {
    flag.load(Ordering::SeqCst)
}
