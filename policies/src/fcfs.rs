//! First come, first served: no scheduling. Every queue runs, and the device shares itself as its
//! hardware does. The baseline that every other policy is compared with.

use xsched_core::hint::HintKinds;
use xsched_core::policy::{Changed, Decisions, MayHold, Needs, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;

/// The policy that never holds a queue. Queues run from the start, so there is nothing to decide.
///
/// ```
/// use xsched_core::policy::Policy;
/// use xsched_policies::fcfs::Fcfs;
///
/// assert_eq!(Fcfs::default().name(), "fcfs");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl Policy for Fcfs {
    fn name(&self) -> &'static str {
        "fcfs"
    }

    fn needs(&self) -> Needs {
        Needs { may_hold: MayHold::Nothing, progress_every: None, hints: HintKinds::NONE }
    }

    fn decide(
        &mut self,
        _now: Instant,
        _changed: Changed<'_>,
        _queues: &QueueTable<'_>,
        _out: &mut Decisions<'_>,
    ) {
    }
}
