//! Active window first.
//!
//! On each device the ready queues of the active window run, and all other queues hold. Without a
//! ready queue of the active window, every queue runs. A queue belongs to the active window while
//! its hint says so. [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never
//! run. With [`PolicyHint::Ageing`](xsched_core::hint::PolicyHint::Ageing) the other queues have a
//! turn now and then.

use xsched_core::hint::HintKind;
use xsched_core::scheduler::QueueInfo;
use xsched_core::time::Instant;

use crate::choose::{Chooser, Rules};
use crate::engine::policy;

#[derive(Clone, Copy, Debug)]
struct Active;

impl Rules for Active {
    const STRICT: bool = true;
    const HINTS: &[HintKind] = &[HintKind::ActiveWindow];

    fn key(&self, _now: Instant, info: &QueueInfo) -> Option<u64> {
        Some(u64::from(!info.hints.active_window))
    }
}

policy! {
    /// Active window first. It has no state of its own.
    Awf(Chooser<Active>) = Chooser::new(Active), "awf"
}
