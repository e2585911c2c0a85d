//! The predicted cost of interrupts, for the scheduler's choice of a level.

use xsched_core::cost::CostModel;
use xsched_core::time::Duration;

use crate::topology::Gpu;

/// Nanoseconds that a suspension is assumed to take until it was measured. One published figure for
/// an MI308X, without a log. Other sources claim 1 to 10 µs and 5 to 10 ms.
pub const ASSUMED_SUSPEND_NS: u64 = 425_000;
/// Nanoseconds that a resumption is assumed to take until it was measured, from the same source.
pub const ASSUMED_RESUME_NS: u64 = 387_000;
/// Bandwidth of an MI300's memory, in bytes per microsecond: 5.3 TB/s.
const GFX942_BYTES_PER_US: u64 = 5_300_000;
/// The bandwidth that is assumed for other GPUs' memory.
const OTHER_BYTES_PER_US: u64 = 1_000_000;

/// The least time to move a whole context through memory, in nanoseconds for each direction.
#[must_use]
pub fn context_ns(gpu: &Gpu) -> u64 {
    let per_us = if gpu.target() == "gfx942" { GFX942_BYTES_PER_US } else { OTHER_BYTES_PER_US };
    let ns = (u128::from(gpu.context_bytes()) * 1_000).div_ceil(u128::from(per_us));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The costs of a GPU's interrupts before any was measured.
///
/// The part that grows with the context follows from its size and the memory's bandwidth, the rest
/// from [`ASSUMED_SUSPEND_NS`] and [`ASSUMED_RESUME_NS`]. Measured holds correct it where levels
/// are chosen ([`xsched_core::cost::History`]).
#[must_use]
pub fn cost_model(gpu: &Gpu) -> CostModel {
    let context = context_ns(gpu);
    // The memory's part is at most half of the assumed time.
    let fixed = |whole: u64| Duration::from_ns(whole - context.min(whole / 2));
    CostModel {
        save_fixed: fixed(ASSUMED_SUSPEND_NS),
        save_context: Duration::from_ns(context),
        restore_fixed: fixed(ASSUMED_RESUME_NS),
        restore_context: Duration::from_ns(context),
        ..CostModel::default()
    }
}

#[cfg(test)]
mod tests {
    use xsched_core::cost::Measured;
    use xsched_core::cost::{Load, Reach};

    use super::*;
    use crate::topology::Topology;
    use crate::topology::tests::{MI308X, tree};

    #[test]
    fn what_is_assumed_is_corrected_by_what_is_measured() {
        let (_folder, sysfs) = tree(&[MI308X], &[]);
        let gpu = Topology::read(&sysfs).expect("it is there").gpus.remove(0);
        let assumed = CostModel { reach: Reach::Device, ..cost_model(&gpu) };
        // 46.6 MiB at 5.3 TB/s.
        assert_eq!((assumed.save_context.as_ns(), assumed.restore_context.as_ns()), (9_219, 9_219));
        assert_eq!(assumed.save_fixed.as_ns() + 9_219, ASSUMED_SUSPEND_NS);
        assert_eq!(assumed.restore_fixed.as_ns() + 9_219, ASSUMED_RESUME_NS);
        // The measured times of a driver that needs a tenth of it correct the assumption.
        let load = Load { context_permille: 1_000, ..Load::default() };
        let mut measured = Measured::default();
        for _ in 0..60 {
            measured.suspend.note(assumed.suspend(&load), Duration::from_us(40));
            measured.resume.note(assumed.resume(&load), Duration::from_us(40));
        }
        let known = measured.correct(assumed);
        let (suspend, resume) = (known.suspend(&load).as_ns(), known.resume(&load).as_ns());
        assert!((40_000..41_000).contains(&suspend), "{suspend}");
        assert!((40_000..41_000).contains(&resume), "{resume}");
    }
}
