//! Primitives that threads wait for in `side` and `commands`: the standard library's, or, with
//! `--cfg loom`, loom's, for the models in `models`. See `xtask/src/loom/mod.rs`.
//!
//! No wait of loom's ends by its time limit, so nothing that a model shows relies on one.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
