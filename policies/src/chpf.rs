//! Highest priority first, by the priority of the CPU thread that submits.
//!
//! On each device the ready queues run whose submitting threads the operating system ranks highest
//! ([`Hints::cpu_priority`](xsched_core::hint::Hints::cpu_priority)), all of them; all other queues
//! hold. So programs that renice their threads need no hints for their queues. The priority hint
//! does not count, except that [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE)
//! queues never run. A queue whose thread is not known counts as one of an ordinary thread, nice 0.
//! With [`PolicyHint::Ageing`](xsched_core::hint::PolicyHint::Ageing) low priorities have a turn
//! now and then.

use xsched_core::hint::HintKind;
use xsched_core::scheduler::QueueInfo;
use xsched_core::time::Instant;

use crate::choose::{Chooser, Rules};
use crate::engine::policy;

#[derive(Clone, Copy, Debug)]
struct HighestThread;

impl Rules for HighestThread {
    const STRICT: bool = true;
    const HINTS: &[HintKind] = &[HintKind::CpuPriority];

    fn key(&self, _now: Instant, info: &QueueInfo) -> Option<u64> {
        Some(i16::MAX.abs_diff(info.hints.cpu_priority).into())
    }
}

policy! {
    /// Highest CPU priority first. See the [module](self).
    Chpf(Chooser<HighestThread>) = Chooser::new(HighestThread), "chpf"
}
