//! Highest priority first across devices.
//!
//! As [`Hpf`](crate::hpf::Hpf), with one highest priority for all devices: while a queue is ready
//! on any of them, every queue of lower priority holds on all. For programs whose devices disturb
//! each other, through the memory that they share, say. Ageing, if set, is per device: a turn is on
//! the device of the queue that has waited.

use crate::engine::policy;
use crate::floors::Floors;

policy! {
    /// Highest priority first, across devices. See the [module](self).
    Hhpf(Floors) = Floors::without_turns(true), "hhpf"
}
