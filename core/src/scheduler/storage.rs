//! Where a scheduler's tables live.

use crate::table::{DeviceSlot, Edge, QueueSlot};

/// The tables, borrowed.
#[derive(Debug)]
pub struct Parts<'a> {
    /// One slot per queue.
    pub queues: &'a mut [QueueSlot],
    /// One slot per device.
    pub devices: &'a mut [DeviceSlot],
    /// One slot per wait that is submitted and not over.
    pub edges: &'a mut [Edge],
}

/// Lends a scheduler its tables. The sizes must not change.
pub trait Storage {
    /// The tables.
    fn parts(&mut self) -> Parts<'_>;
    /// The tables, read-only.
    fn view(&self) -> (&[QueueSlot], &[DeviceSlot]);
}

/// Tables in slices that the caller owns.
#[derive(Debug)]
pub struct Slices<'a> {
    /// One slot per queue.
    pub queues: &'a mut [QueueSlot],
    /// One slot per device.
    pub devices: &'a mut [DeviceSlot],
    /// One slot per wait that is submitted and not over.
    pub edges: &'a mut [Edge],
}

impl Storage for Slices<'_> {
    fn parts(&mut self) -> Parts<'_> {
        Parts { queues: self.queues, devices: self.devices, edges: self.edges }
    }
    fn view(&self) -> (&[QueueSlot], &[DeviceSlot]) {
        (self.queues, self.devices)
    }
}

/// Tables in arrays, for small embedded uses: `Q` queues, `D` devices, `E` waits.
#[derive(Debug)]
pub struct Inline<const Q: usize, const D: usize, const E: usize> {
    queues: [QueueSlot; Q],
    devices: [DeviceSlot; D],
    edges: [Edge; E],
}

impl<const Q: usize, const D: usize, const E: usize> Inline<Q, D, E> {
    /// Empty tables.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queues: core::array::from_fn(|_| QueueSlot::default()),
            devices: core::array::from_fn(|_| DeviceSlot::default()),
            edges: [Edge::default(); E],
        }
    }
}

impl<const Q: usize, const D: usize, const E: usize> Default for Inline<Q, D, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const Q: usize, const D: usize, const E: usize> Storage for Inline<Q, D, E> {
    fn parts(&mut self) -> Parts<'_> {
        Parts { queues: &mut self.queues, devices: &mut self.devices, edges: &mut self.edges }
    }
    fn view(&self) -> (&[QueueSlot], &[DeviceSlot]) {
        (&self.queues, &self.devices)
    }
}

/// Tables on the heap, allocated once.
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub struct Heap {
    queues: alloc::boxed::Box<[QueueSlot]>,
    devices: alloc::boxed::Box<[DeviceSlot]>,
    edges: alloc::boxed::Box<[Edge]>,
}

#[cfg(feature = "alloc")]
impl Heap {
    /// Empty tables with places for `queues` queues, `devices` devices and `edges` edges.
    #[must_use]
    pub fn new(queues: usize, devices: usize, edges: usize) -> Self {
        Self {
            queues: alloc::vec![QueueSlot::default(); queues].into(),
            devices: alloc::vec![DeviceSlot::default(); devices].into(),
            edges: alloc::vec![Edge::default(); edges].into(),
        }
    }
}

#[cfg(feature = "alloc")]
impl Storage for Heap {
    fn parts(&mut self) -> Parts<'_> {
        Parts { queues: &mut self.queues, devices: &mut self.devices, edges: &mut self.edges }
    }
    fn view(&self) -> (&[QueueSlot], &[DeviceSlot]) {
        (&self.queues, &self.devices)
    }
}
