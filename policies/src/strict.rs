//! Strict classes with a policy inside each.
//!
//! The priority hint is the class. On each device only ready queues of the highest class that has
//! one may run, and among those the inner policy decides; without ready queues in a class the next
//! one has the device. So the composition with [`edf`](crate::edf) or [`wfq`], say,
//! gives deadlines or shares to urgent queues without any loss to those below, which get what is
//! left. [`Priority::NO_EXECUTE`](xsched_core::hint::Priority::NO_EXECUTE) queues never run. With
//! [`PolicyHint::Ageing`](xsched_core::hint::PolicyHint::Ageing) low classes have a turn now and
//! then. All other hints for the policy go to the inner one.

use xsched_core::hint::HintKind;

use crate::choose::Chooser;
use crate::edf::{EDF, Earliest, KEDF};
use crate::engine::policy;
use crate::share::Share;
use crate::{up, wfq};

policy! {
    /// Strict classes, and the earliest deadline first in each.
    StrictEdf(Chooser<Earliest>) = Chooser::new(EDF).with_classes(), "strict_edf"
}

policy! {
    /// Strict classes, and the K earliest deadlines first in each.
    StrictKedf(Chooser<Earliest>) = Chooser::new(KEDF).with_classes(), "strict_kedf"
}

policy! {
    /// Strict classes, and a utilisation partition in each.
    StrictUp(Share) = Share::new(up::permille, HintKind::Share).with_classes(), "strict_up"
}

policy! {
    /// Strict classes, and weighted fair queueing in each.
    StrictWfq(Share) = Share::new(wfq::weight, HintKind::Weight).with_classes(), "strict_wfq"
}
