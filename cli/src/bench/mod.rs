//! `xsched bench`: figures of real devices.

mod preempt;
pub(crate) mod spin;
mod threads;

pub(crate) use preempt::preempt;
