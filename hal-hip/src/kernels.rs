//! The kernels of this crate.

use crate::function::HipFunction;

/// The kernels of `kernels/spin.hip`, loaded on a device.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub(crate) nothing: HipFunction,
    pub(crate) spin: HipFunction,
    pub(crate) clock: HipFunction,
}
