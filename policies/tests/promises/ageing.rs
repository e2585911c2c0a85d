//! Ageing against what it promises, on a device that does what it is told at once.

use crate::device::{Load, Rig, STEP};
use proptest::prelude::*;
use xsched_core::hint::{Hints, Laxity, PolicyHint, Priority};
use xsched_core::policy::Policy;
use xsched_core::time::Duration;
use xsched_policies::Any;

const STRICT: [&str; 8] =
    ["hpf", "hhpf", "chpf", "lax", "awf", "strict_edf", "strict_kedf", "strict_wfq"];
fn ageing(age: Duration) -> Option<PolicyHint> {
    Some(PolicyHint::ageing(Some(age)).unwrap())
}

/// Hints of this rank for all policies; 0 is the most urgent.
fn ranked(rank: u8) -> Hints {
    let mut hints = Hints::with_priority(Priority::new(10 - i32::from(rank)).unwrap());
    hints.set_cpu_priority(10 - i16::from(rank)).unwrap();
    hints.active_window = rank == 0;
    let (lax_priority, critical_priority) = (hints.priority, hints.priority);
    let lax = Duration::from_ms(1);
    hints.set_laxity(Laxity { lax, lax_priority, critical_priority }).unwrap();
    hints
}

fn turn_of(age: Duration) -> Duration {
    age.per(20).max(Duration::from_us(100)).min(Duration::from_ms(5))
}

proptest! {
    #[test]
    fn no_queue_waits_longer_than_promised_and_the_urgent_keep_half(
        policy in prop::sample::select(&STRICT[..]),
        age_ms in 2u64..40,
        others in prop::collection::vec((0u8..8, 1u64..30, 0u64..40), 1..8),
    ) {
        let age = Duration::from_ms(age_ms);
        let mut rig = Rig::new(policy, ageing(age));
        rig.attach(ranked(0), Load::Endless);
        for &(rank, work, pause) in &others {
            let (work, pause) = (Duration::from_us(work * 100), Duration::from_us(pause * 100));
            let endless = pause == Duration::ZERO;
            let load = if endless { Load::Endless } else { Load::Pausing(work, pause) };
            rig.attach(ranked(rank + 1), load);
        }
        let span = age.times(12);
        rig.run(span);
        let turn = turn_of(age);
        // A turn ends with the report after it, and decisions fall on steps.
        let turn_and_rest = (turn + turn.per(4) + STEP.times(3)).times(2);
        let bound = age + age.per(16) + turn_and_rest.times(others.len() as u64 + 1);
        for queue in &rig.queues {
            prop_assert!(queue.longest <= bound, "{policy}: {:?} of {bound:?}", queue.longest);
        }
        let urgent = rig.queues[0].used.as_ns() as f64 / span.as_ns() as f64;
        prop_assert!(urgent > 0.45, "{policy}: the most urgent one had {urgent:.2}");
    }
}

/// A check that cannot fail shows nothing.
#[test]
fn without_ageing_a_low_queue_starves() {
    for policy in STRICT {
        let mut rig = Rig::new(policy, None);
        rig.attach(ranked(0), Load::Endless);
        rig.attach(ranked(1), Load::Endless);
        rig.run(Duration::from_ms(50));
        assert!(rig.queues[1].longest > Duration::from_ms(49), "{policy}");
    }
}

/// Both ways, in the middle of everything.
#[test]
fn ageing_can_be_switched_on_and_off() {
    for policy in STRICT {
        let mut rig = Rig::new(policy, ageing(Duration::from_ms(4)));
        rig.attach(ranked(0), Load::Endless);
        rig.attach(ranked(1), Load::Endless);
        rig.attach(ranked(2), Load::Pausing(Duration::from_ms(1), Duration::from_ms(1)));
        for _ in 0..3 {
            rig.run(Duration::from_ms(30));
            let before = rig.queues[1].used;
            assert!(rig.scheduler.hint_policy(PolicyHint::Ageing(None)));
            rig.run(Duration::from_ms(30));
            assert_eq!(rig.queues[1].used, before, "{policy}");
            assert!(rig.scheduler.hint_policy(ageing(Duration::from_ms(4)).unwrap()));
            rig.run(Duration::from_ms(30));
            assert!(rig.queues[1].used > before, "{policy}");
        }
    }
}

/// Only the strict ones have use for it.
#[test]
fn fair_policies_refuse_ageing() {
    for policy in ["fcfs", "wfq", "up", "cfs", "pup", "mlfq", "edf"] {
        let mut policy: Any = policy.parse().unwrap();
        assert!(!policy.configure(PolicyHint::Ageing(Some(Duration::from_ms(4)))));
    }
}
