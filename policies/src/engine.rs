//! Conversion of an engine into a [`Policy`](xsched_core::policy::Policy), and the common part of
//! engines.

use xsched_core::hint::Priority;
use xsched_core::policy::{Changed, Urgency, Verdict};
use xsched_core::scheduler::{QueueInfo, QueueTable};

pub(crate) const HOLD: Verdict = Verdict::Hold(Urgency::NOW);

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

/// Implements [`Policy`](xsched_core::policy::Policy) by another one, or by an engine with methods
/// of the same names.
macro_rules! forward {
    ($policy:ty, |$this:ident| $name:expr, $inner:expr, $inner_mut:expr) => {
        impl ::xsched_core::policy::Policy for $policy {
            fn name(&self) -> &'static str {
                let $this = self;
                let _ = $this;
                $name
            }

            fn needs(&self) -> ::xsched_core::policy::Needs {
                let $this = self;
                $inner.needs()
            }

            fn configure(&mut self, hint: ::xsched_core::hint::PolicyHint) -> bool {
                let $this = self;
                $inner_mut.configure(hint)
            }

            fn observe(
                &mut self,
                now: ::xsched_core::time::Instant,
                queue: ::xsched_core::id::QueueId,
                event: ::xsched_core::policy::Event,
                queues: &::xsched_core::scheduler::QueueTable<'_>,
            ) {
                let $this = self;
                $inner_mut.observe(now, queue, event, queues);
            }

            fn decide(
                &mut self,
                now: ::xsched_core::time::Instant,
                changed: ::xsched_core::policy::Changed<'_>,
                queues: &::xsched_core::scheduler::QueueTable<'_>,
                out: &mut ::xsched_core::policy::Decisions<'_>,
            ) {
                let $this = self;
                $inner_mut.decide(now, changed, queues, out);
            }
        }
    };
}

/// Declares a policy that leaves everything to an engine, and what engine that is by default.
/// Policies are types of their own, so that the engines can change.
macro_rules! policy {
    ($(#[$doc:meta])* $policy:ident($engine:ty) = $default:expr, $name:literal) => {
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

        impl Default for $policy {
            fn default() -> Self {
                Self($default)
            }
        }

        $crate::engine::forward!($policy, |this| $name, this.0, this.0);
    };
}

pub(crate) use {forward, policy};
