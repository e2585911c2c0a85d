//! `xsched bench`: figures of real devices.

pub(crate) mod all;
pub(crate) mod calibrate;
pub(crate) mod draw;
pub(crate) mod graphs;
pub(crate) mod interrupt;
mod on;
pub(crate) mod placement;
pub(crate) mod predict;
mod preempt;
pub(crate) mod requests;
pub(crate) mod spin;
mod threads;

pub(crate) use preempt::preempt;
