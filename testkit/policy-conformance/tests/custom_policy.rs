//! The policy of the example: single decisions, and what it promises.

// The core has these modules by the same names.
extern crate xsched_core as xsched;

#[path = "../../../sim/examples/custom_policy/policy.rs"]
mod policy;

use policy::TakeTurns;
use xsched_core::hint::{Hints, Priority};
use xsched_core::time::Duration;
use xsched_policy_conformance::{Declared, Given, Scans, check};

const SLICE: Duration = Duration::from_ms(1);

#[test]
fn a_turn_ends_after_a_slice() {
    let mut given = Given::new(TakeTurns(SLICE));
    let queues = [(); 3].map(|()| given.queue(Hints::default()).unwrap());
    assert_eq!(
        given.running(),
        queues,
        "no queue has its turn: the first to become ready may start"
    );
    for queue in queues {
        given.ready(queue).unwrap();
    }
    assert_eq!(given.working(), [queues[0]]);
    given.used(queues[0], SLICE.per(2)).unwrap();
    assert_eq!(given.working(), [queues[0]], "half a slice");
    given.used(queues[0], SLICE.per(2)).unwrap();
    assert_eq!(given.working(), [queues[1]]);
    given.idle(queues[1]).unwrap();
    assert_eq!(given.working(), [queues[2]], "idle queues have no turn");
}

#[test]
fn devices_are_apart_and_some_queues_never_run() {
    let mut given = Given::new(TakeTurns(SLICE));
    let never = given.queue(Hints::with_priority(Priority::NO_EXECUTE)).unwrap();
    let here = given.queue(Hints::default()).unwrap();
    let there = given.queue_on(1, Hints::default()).unwrap();
    for queue in [never, here, there] {
        given.ready(queue).unwrap();
    }
    assert_eq!(given.working(), [here, there]);
}

#[test]
fn a_newcomer_does_not_make_up_for_the_past() {
    let mut given = Given::new(TakeTurns(SLICE));
    let old = given.queue(Hints::default()).unwrap();
    given.ready(old).unwrap();
    given.used(old, SLICE.times(100)).unwrap();
    let new = given.queue(Hints::default()).unwrap();
    given.ready(new).unwrap();
    given.used(new, SLICE).unwrap();
    assert_eq!(given.working(), [old]);
    assert_eq!(given.running_after_all(), [old]);
}

#[test]
fn it_keeps_what_it_promises() {
    let declared = Declared { scans: Scans::Always, ..Declared::default() };
    let report = check(|| TakeTurns(SLICE), declared, 1..=5).unwrap();
    assert!(report.longest_gap == Duration::ZERO, "{report}");
}

#[test]
fn the_chapter_shows_this_policy() {
    let chapter = include_str!("../../../docs/src/guides/policies.md");
    let shown = "{{#include ../../../sim/examples/custom_policy/policy.rs}}";
    assert!(chapter.contains(shown), "the chapter shows another policy than the example");
}
