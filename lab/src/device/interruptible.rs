//! Operations of a device that the experiments with interrupts need.

use xsched_core::hal::Backend;

use super::load::{Kind, Load, Share, Worker};
use super::tenants::Tenant;
use super::{BenchDevice, LabError};

/// A device whose running commands can be interrupted.
pub(crate) trait Interruptible: BenchDevice {
    /// Commands to be interrupted.
    type Worker: Worker<Command = Self::Command>;

    /// The ways to interrupt that can be used here, the default first.
    fn mechanisms(&self) -> Vec<String>;

    /// The ways that cannot be used, each with the reason.
    fn refused_mechanisms(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The kinds of kernels that the device has.
    fn kinds(&self) -> Vec<Kind>;

    /// The shares that make a difference on the device.
    fn shares(&self) -> Vec<Share>;

    /// Opens the device with a mechanism.
    fn open(&self, mechanism: &str) -> Result<Self::Backend, LabError>;

    /// How a queue of the device is opened that can be interrupted.
    fn interruptible(&self) -> <Self::Backend as Backend>::Config;

    /// Commands for one queue.
    fn worker(&self, load: Load) -> Result<Self::Worker, LabError>;

    /// An allocation and its end, as programs make them; and a copy to the device and back.
    fn side(&self) -> Result<Box<dyn Side>, LabError>;

    /// Returns what is known about how the device holds streams: names and values, such as how a
    /// wait for a word is lowered and where the word is.
    fn traits(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The queues of other processes on the device.
    fn tenants(&self) -> Result<Vec<Tenant>, LabError>;
}

/// Bytes of an allocation and of a copy.
pub(crate) const SIDE_BYTES: usize = 1 << 20;

/// Calls of programs that have nothing to do with the victims.
pub(crate) trait Side: Send {
    /// Allocates some of the device's memory and gives it back.
    fn allocate(&mut self) -> Result<(), LabError>;

    /// Copies to the device and back, and waits for that.
    fn copy(&mut self) -> Result<(), LabError>;
}
