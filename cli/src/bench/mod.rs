//! `xsched bench`: figures of real devices.

pub(crate) mod graphs;
mod preempt;
pub(crate) mod spin;
mod threads;

pub(crate) use preempt::preempt;
