//! What makes a [`Policy`](xsched_core::policy::Policy) of an engine, and what engines have in
//! common.

use xsched_core::hint::Priority;
use xsched_core::policy::Changed;
use xsched_core::scheduler::{QueueInfo, QueueTable};

/// Looks at each queue that may have changed and is still there, and if everything may have, at all
/// but those that are idle and may run when they want.
pub(crate) fn each_changed(
    changed: Changed<'_>,
    queues: &QueueTable<'_>,
    mut follow: impl FnMut(&QueueInfo),
) {
    if matches!(changed, Changed::All) {
        // Verdicts may be back to what they are at first.
        for device in queues.devices() {
            queues.with_priority(device, Priority::NO_EXECUTE).for_each(&mut follow);
        }
    }
    changed.queues(queues).for_each(follow);
}

/// Declares a policy that leaves everything to an engine with methods of the same names. Policies
/// are types of their own, so that the engines can change.
macro_rules! policy {
    ($(#[$doc:meta])* $policy:ident($engine:ty), $name:literal) => {
        $(#[$doc])*
        ///
        /// ```
        /// use xsched_core::policy::Policy;
        #[doc = concat!("use ", module_path!(), "::", stringify!($policy), ";")]
        ///
        #[doc = concat!("let policy = ", stringify!($policy), "::default();")]
        #[doc = concat!("assert_eq!(policy.name(), \"", $name, "\");")]
        /// ```
        #[derive(Clone, Copy, Debug)]
        pub struct $policy($engine);

        impl ::xsched_core::policy::Policy for $policy {
            fn name(&self) -> &'static str {
                $name
            }

            fn holds(&self) -> bool {
                self.0.holds()
            }

            fn progress_every(&self) -> Option<::xsched_core::time::Duration> {
                self.0.progress_every()
            }

            fn reads_cpu_priority(&self) -> bool {
                self.0.reads_cpu_priority()
            }

            fn spares_the_highest(&self) -> bool {
                self.0.spares_the_highest()
            }

            fn spares_equals(&self) -> bool {
                self.0.spares_equals()
            }

            fn is_quick(&self) -> bool {
                true
            }

            fn configure(&mut self, hint: ::xsched_core::hint::PolicyHint) -> bool {
                self.0.configure(hint)
            }

            fn observe(
                &mut self,
                now: ::xsched_core::time::Instant,
                queue: ::xsched_core::id::QueueId,
                event: ::xsched_core::policy::Event,
                queues: &::xsched_core::scheduler::QueueTable<'_>,
            ) {
                self.0.observe(now, queue, event, queues);
            }

            fn decide(
                &mut self,
                now: ::xsched_core::time::Instant,
                changed: ::xsched_core::policy::Changed<'_>,
                queues: &::xsched_core::scheduler::QueueTable<'_>,
                out: &mut ::xsched_core::policy::Decisions<'_>,
            ) {
                self.0.decide(now, changed, queues, out);
            }
        }
    };
}

pub(crate) use policy;
