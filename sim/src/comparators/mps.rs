//! Spatial sharing like that of NVIDIA's Multi-Process Service: kernels of different processes run
//! at the same time. Each process gets an equal part of the units, but no more than its limit (the
//! active thread percentage); what one cannot use goes to the rest. A kernel runs at the rate of
//! the units it gets, and the kernels of one process divide what that has. Every kernel is taken to
//! be able to fill the device, and processes do not disturb each other otherwise.
//!
//! Source: NVIDIA, "Multi-Process Service" (vendor documentation), the chapter on execution
//! resource provisioning since Volta; a limit of 100 percent is the default documented there.

use super::{Comparators, clients, shares};
use crate::device::{Clients, Sharing, Split};
use crate::scenario::TaskSpec;

pub(super) fn sharing(parameters: &Comparators, tasks: &[TaskSpec], device: usize) -> Sharing {
    let clients = clients(tasks);
    let limit = |share: Option<u8>| f64::from(share.map_or(parameters.mps_percent, u32::from));
    let limits = shares(tasks, &clients, device);
    // A share of 0 would never get anywhere, and MPS has no such limit.
    let limits = limits.into_iter().map(|share| limit(share).max(1.0) / 100.0).collect();
    Sharing::Clients(Clients::new(Split::Shares { limits }, clients))
}
