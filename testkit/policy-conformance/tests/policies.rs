//! All policies by name, held against what they promise.

use xsched_core::hint::PolicyHint;
use xsched_core::policy::Policy as _;
use xsched_core::time::Duration;
use xsched_policies::Any;
use xsched_policy_conformance::{Declared, Scans, check, noticed_hints};

fn make(name: &str) -> Any {
    name.parse().expect("a listed name")
}

#[test]
fn all_policies_keep_what_they_promise() {
    let mut failures = Vec::new();
    for name in Any::NAMES {
        match check(|| make(name), Declared::of(name), 1..=8) {
            Err(failure) => failures.push(failure.to_string()),
            Ok(report) => {
                println!("{name}: {report}");
                assert!(report.decisions > 1_000, "{name}: {report}");
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn policies_name_the_hints_that_they_take_notice_of() {
    for name in Any::NAMES {
        let noticed = noticed_hints(|| make(name), Declared::of(name), 1..=8);
        assert_eq!(noticed, Ok(make(name).needs().hints), "{name}");
    }
}

/// With turns, and with ageing as well, which ends them.
#[test]
fn highest_priority_first_keeps_its_promises_with_turns() {
    let with = |hints: &[PolicyHint]| {
        let mut policy = make("hpf");
        assert!(hints.iter().all(|hint| policy.configure(*hint)));
        policy
    };
    let turns = PolicyHint::Timeslice(Duration::from_ms(1));
    let report = check(|| with(&[turns]), Declared::strict(), 1..=16);
    assert!(report.is_ok(), "{report:?}");
    let ageing = PolicyHint::Ageing(Some(Duration::from_ms(20)));
    for hints in [[turns, ageing], [ageing, turns]] {
        let declared = Declared { scans: Scans::Always, ..Declared::strict() };
        let report = check(|| with(&hints), declared, 1..=4);
        assert!(report.is_ok(), "{report:?}");
    }
}

/// Defects that were found like this stay found.
#[test]
fn seeds_with_a_past() {
    // A parked queue whose hints became better was held for longer than others of its kind; the
    // wait for a queue in its turn began anew with each change of its hints; a turn that had ended
    // began again if the policy was asked before the queue had reported what it used; a queue that
    // was waited for in its turn kept the device when its priority fell.
    let lax = [("lax", 36), ("lax", 7)];
    let sharing = [("wfq", 1), ("cfs", 1), ("wfq", 3), ("pup", 1), ("strict_up", 1)];
    for (name, seed) in lax.into_iter().chain(sharing) {
        let report = check(|| make(name), Declared::of(name), [seed]);
        assert!(report.is_ok(), "{report:?}");
    }
}
