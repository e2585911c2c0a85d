//! What an interrupt is predicted to cost, for the scheduler's choice of a level.

use xsched_core::cost::CostModel;
use xsched_core::time::Duration;

use crate::mechanism::{History, Measured};
use crate::topology::Gpu;

/// What suspending a queue takes until it was measured: what somebody once printed for an MI308X.
/// No log of it was published; others claim 1 to 10 µs and 5 to 10 ms.
pub const ASSUMED_SUSPEND_NS: u64 = 425_000;
/// The same for resuming.
pub const ASSUMED_RESUME_NS: u64 = 387_000;
/// Bandwidth of an MI300's memory, in bytes per microsecond: 5.3 TB/s.
const GFX942_BYTES_PER_US: u64 = 5_300_000;
/// Assumed for GPUs that nothing is known about.
const OTHER_BYTES_PER_US: u64 = 1_000_000;

/// How long moving a whole context through memory takes at least, in nanoseconds, each way.
#[must_use]
pub fn context_ns(gpu: &Gpu) -> u64 {
    let per_us = if gpu.target() == "gfx942" { GFX942_BYTES_PER_US } else { OTHER_BYTES_PER_US };
    let ns = (u128::from(gpu.context_bytes()) * 1_000).div_ceil(u128::from(per_us));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The costs of a GPU's interrupts: the part that grows with the context by its size and the
/// memory's bandwidth, the rest as measured, or as assumed until then.
#[must_use]
pub fn cost_model(gpu: &Gpu, history: &History) -> CostModel {
    let context = context_ns(gpu);
    let fixed = |measured: Measured, assumed| {
        let whole = if measured.count == 0 { assumed } else { measured.mean_ns };
        // Nobody knows how full the contexts were that were measured, so none of it is taken for
        // the memory's part unless it is more than that can be.
        Duration::from_ns(whole.saturating_sub(context.min(whole / 2)))
    };
    CostModel {
        save_fixed: fixed(history.suspend(), ASSUMED_SUSPEND_NS),
        save_context: Duration::from_ns(context),
        restore_fixed: fixed(history.resume(), ASSUMED_RESUME_NS),
        restore_context: Duration::from_ns(context),
        ..CostModel::default()
    }
}
