//! Strict classes with a policy inside each.
//!
//! The priority hint is the class. On each device only ready queues of the highest class that has
//! one may run, and among those the inner policy decides; without ready queues in a class the next
//! one has the device. So the composition of the inner policies [`Edf`] and [`Wfq`], say, gives
//! deadlines or shares to urgent queues without any loss to those below, which get what is left.
//! [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run. With
//! [`PolicyHint::Ageing`] low classes have a turn now and then. All other hints for the policy go
//! to the inner one.

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

use crate::edf::{Edf, Kedf};
use crate::up::Up;
use crate::wfq::Wfq;

/// A policy that can be inside of classes. Only policies of this crate are: they have to keep the
/// classes of a device apart in the state that the table keeps for them.
pub trait Classed: Policy + sealed::Classed {}

impl<P: Policy + sealed::Classed> Classed for P {}

mod sealed {
    /// See [`super::Classed`].
    pub trait Classed: Sized {
        /// Name of the composition.
        const STRICT: &'static str;
        /// The policy with strict classes.
        fn with_classes(self) -> Self;
    }
}

macro_rules! classed {
    ($($policy:ident = $name:literal),*) => {
        $(impl sealed::Classed for $policy {
            const STRICT: &'static str = $name;

            fn with_classes(self) -> Self {
                $policy::with_classes(self)
            }
        })*
    };
}

classed!(Edf = "strict_edf", Kedf = "strict_kedf", Up = "strict_up", Wfq = "strict_wfq");

/// Strict classes by priority, with the policy `P` inside each. See the [module](self).
///
/// ```
/// use xsched_core::policy::Policy;
/// use xsched_policies::edf::Edf;
/// use xsched_policies::strict::Strict;
///
/// let policy = Strict::new(Edf::default());
/// assert_eq!(policy.name(), "strict_edf");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Strict<P>(P);

impl<P: Classed> Strict<P> {
    /// With this policy inside each class.
    #[must_use]
    pub fn new(inner: P) -> Self {
        Self(inner.with_classes())
    }
}

impl<P: Classed + Default> Default for Strict<P> {
    fn default() -> Self {
        Self::new(P::default())
    }
}

impl<P: Classed> Policy for Strict<P> {
    fn name(&self) -> &'static str {
        P::STRICT
    }

    fn progress_every(&self) -> Option<Duration> {
        self.0.progress_every()
    }

    fn spares_the_highest(&self) -> bool {
        self.0.spares_the_highest()
    }

    fn is_quick(&self) -> bool {
        true
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        self.0.configure(hint)
    }

    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.0.observe(now, queue, event, queues);
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        self.0.decide(now, changed, queues, out);
    }
}
