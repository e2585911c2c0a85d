//! Native time slicing: one process has the device at a time. Its slice ends when the time is up
//! and another process has work, or when it has no work left; kernels are stopped in the middle and
//! go on in the next slice. Changing the process costs device time. Streams of one process take
//! turns, command by command.
//!
//! Source: NVIDIA's description of compute preemption and time-sliced sharing of processes without
//! MPS (CUDA documentation, "Multi-Process Service", background chapter). Neither the length of a
//! slice nor the cost of a change is documented: 2 ms is assumed, and 40 µs is the order of what
//! interrupting a kernel of a GV100 takes in the artifact of the XSched paper (34 to 41 µs).

use super::{Comparators, clients};
use crate::device::{Clients, Sharing, Split};
use crate::scenario::TaskSpec;

pub(super) fn sharing(parameters: &Comparators, tasks: &[TaskSpec]) -> Sharing {
    let &Comparators { slice_ns, switch_ns, .. } = parameters;
    Sharing::Clients(Clients::new(Split::Slices { slice_ns, switch_ns }, clients(tasks)))
}
