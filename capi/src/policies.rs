//! The policies by their numbers. Their names are those of [`Any::NAMES`], as in all interfaces.

use xsched_policies::any::Any;
use xsched_policies::hpf::Hpf;

use crate::refusal::{Answer, Refusal};
use crate::types::{XPolicyType, XPolicyTypeValue};

/// Each policy with its number.
const NUMBERS: [(XPolicyType, &str); 18] = [
    (XPolicyType::kPolicyHighestPriorityFirst, "hpf"),
    (XPolicyType::kPolicyHeterogeneousHighestPriorityFirst, "hhpf"),
    (XPolicyType::kPolicyCPUHighestPriorityFirst, "chpf"),
    (XPolicyType::kPolicyUtilizationPartition, "up"),
    (XPolicyType::kPolicyProcessUtilizationPartition, "pup"),
    (XPolicyType::kPolicyStrictProcessUtilizationPartition, "spup"),
    (XPolicyType::kPolicyKEarliestDeadlineFirst, "kedf"),
    (XPolicyType::kPolicyLaxity, "lax"),
    (XPolicyType::kPolicyActiveWindowFirst, "awf"),
    (XPolicyType::kPolicyCompletelyFairScheduler, "cfs"),
    (XPolicyType::kPolicyMultiLevelFeedbackQueue, "mlfq"),
    (XPolicyType::kPolicyFirstComeFirstServed, "fcfs"),
    (XPolicyType::kPolicyEarliestDeadlineFirst, "edf"),
    (XPolicyType::kPolicyWeightedFairQueueing, "wfq"),
    (XPolicyType::kPolicyStrictEarliestDeadlineFirst, "strict_edf"),
    (XPolicyType::kPolicyStrictKEarliestDeadlineFirst, "strict_kedf"),
    (XPolicyType::kPolicyStrictUtilizationPartition, "strict_up"),
    (XPolicyType::kPolicyStrictWeightedFairQueueing, "strict_wfq"),
];

/// The policy that a program without one has.
pub(crate) const DEFAULT: Any = Any::Hpf(Hpf::without_turns());

/// The policy of this name, as the C++ XSched has it.
pub(crate) fn named(name: &str) -> Option<Any> {
    match name.parse().ok()? {
        Any::Hpf(_) => Some(DEFAULT),
        policy => Some(policy),
    }
}

/// The policy with this number.
pub(crate) fn numbered(number: XPolicyTypeValue) -> Answer<Any> {
    let known = NUMBERS.iter().find(|(policy, _)| *policy as XPolicyTypeValue == number);
    let found = known.and_then(|(_, name)| named(name));
    found.ok_or_else(|| Refusal::invalid("there is no such policy; see XPolicyType"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use xsched_core::hint::PolicyHint;
    use xsched_core::policy::Policy;
    use xsched_core::time::Duration;

    use super::*;

    #[test]
    fn highest_priority_first_has_no_timeslice_as_in_cpp() {
        let slice = PolicyHint::Timeslice(Duration::from_ms(10));
        let by_number = numbered(XPolicyType::kPolicyHighestPriorityFirst as i32).expect("hpf");
        for mut policy in [DEFAULT, by_number, named("highest_priority_first").expect("hpf")] {
            assert_eq!((policy.name(), policy.configure(slice)), ("hpf", false));
        }
        assert!(named("up").expect("up").configure(slice));
    }

    #[test]
    fn each_policy_has_one_number() {
        let named: BTreeSet<_> = NUMBERS.iter().map(|(_, name)| *name).collect();
        assert_eq!(named, Any::NAMES.iter().copied().collect());
        let numbers: BTreeSet<_> = NUMBERS.iter().map(|(number, _)| *number as i32).collect();
        assert_eq!(numbers.len(), NUMBERS.len());
        for (number, name) in NUMBERS {
            assert_eq!(numbered(number as i32).expect("a policy").name(), name);
        }
        for none in [-1, 0, XPolicyType::kPolicyMax as i32, 999, 1_007] {
            assert!(numbered(none).is_err());
        }
    }
}
