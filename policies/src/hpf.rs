//! Highest priority first, per device.
//!
//! On each device the ready queues of the highest priority run, all of them; every queue below
//! holds (idle ones too, so that their first command does not slip through). On a device without a
//! ready queue every queue may run.
//! [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run. Unhinted
//! queues have priority 0.
//!
//! With [`PolicyHint::Timeslice`](xsched_core::hint::PolicyHint::Timeslice) those of the ready
//! queues of the highest priority that claim the whole device
//! ([`Claim`](xsched_core::message::Claim)) take turns: one of them runs, first come, first served,
//! and for a timeslice at most while others wait, as with Linux's `SCHED_RR`. A device that changes
//! between programs by time slices of its own would finish all of them late. Queues that claim a
//! part run beside that one. With ageing there are no turns.
//!
//! If all ready queues of the highest priority claim little, those of the next priority run beside
//! them: most of the time the device would have nothing to do otherwise. With ageing they do not.
//!
//! With [`PolicyHint::Ageing`](xsched_core::hint::PolicyHint::Ageing) low priorities have a turn
//! now and then. Queues are looked at one by one then, and an idle queue may launch what fits into
//! its window before it is held.

use crate::engine::policy;
use crate::floors::Floors;

policy! {
    /// Highest priority first, per device. See the [module](self).
    Hpf(Floors) = Floors::with_turns(), "hpf"
}

impl Hpf {
    /// One that takes no timeslice: the queues of the highest priority run all at once, as those of
    /// the C++ XSched do.
    ///
    /// ```
    /// use xsched_core::hint::PolicyHint;
    /// use xsched_core::policy::Policy;
    /// use xsched_core::time::Duration;
    /// use xsched_policies::hpf::Hpf;
    ///
    /// let turn = PolicyHint::Timeslice(Duration::from_ms(10));
    /// assert!(Hpf::default().configure(turn) && !Hpf::without_turns().configure(turn));
    /// ```
    #[must_use]
    pub const fn without_turns() -> Self {
        Self(Floors::without_turns(false))
    }
}
