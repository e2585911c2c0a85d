//! Completely fair: device time in proportion to weights that come from priorities.
//!
//! On each device the ready queues take turns, so that over a timeslice (5 ms by default) each has
//! used its weight's part of the device time, as measured. A queue of priority 0 weighs 1,024, and
//! each step of priority weighs a fifth more: a step up gives 1.2 times the device time beside a
//! queue one step below. Priorities beyond ±37 count as ±37 (0.0012 to 851 times the part of
//! priority 0). A queue that is new, or has slept, starts where the other queues are: it does not
//! make up for the time before. [`Priority::NO_EXECUTE`] queues never run.

use xsched_core::hint::{HintKind, Priority};
use xsched_core::scheduler::QueueInfo;

use crate::engine::policy;
use crate::share::Share;

/// Steps of priority, up and down, that differ.
const STEPS: usize = 37;

const WEIGHTS: [u32; 2 * STEPS + 1] = weights();

/// 1,024 times 6/5 to the power of -37 to 37, rounded.
const fn weights() -> [u32; 2 * STEPS + 1] {
    let mut weights = [0; 2 * STEPS + 1];
    let (mut step, mut sixes, mut fives) = (0, 1u128, 1u128);
    while step <= STEPS {
        weights[STEPS + step] = ((1_024 * sixes + fives / 2) / fives) as u32;
        weights[STEPS - step] = ((1_024 * fives + sixes / 2) / sixes) as u32;
        (step, sixes, fives) = (step + 1, sixes * 6, fives * 5);
    }
    weights
}

fn weight(info: &QueueInfo) -> u32 {
    let steps = STEPS as i16;
    let step = info.hints.priority.get().clamp(-steps, steps) + steps;
    WEIGHTS[step.unsigned_abs() as usize]
}

policy! {
    /// Completely fair. See the [module](self).
    Cfs(Share) = Share::new(weight, HintKind::Priority), "cfs"
}

const _: () = assert!(WEIGHTS[STEPS] == 1_024 && WEIGHTS[2 * STEPS] <= crate::share::WEIGHT_MAX);
const _: () = assert!(WEIGHTS[0] == 1 && WEIGHTS[STEPS + 1] == 1_229);
const _: () = assert!(Priority::MAX.get() > STEPS as i16);
