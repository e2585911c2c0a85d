//! Promises of policies, for random workloads on a device that does what it is told at once.

use crate::device::{Load, Rig, STEP};
use proptest::prelude::*;
use xsched_core::hint::{Hints, Priority};
use xsched_core::time::Duration;

const TIMESLICE: Duration = Duration::from_ms(5);

/// The hints that give a queue this weight, 1 to 20 as far as there are such, and the weight.
fn weighted(policy: &str, weight: u8) -> (Hints, f64) {
    let mut hints = Hints::default();
    match policy {
        "wfq" | "strict_wfq" => hints.set_weight(u32::from(weight)).unwrap(),
        "cfs" => {
            let steps = i32::from(weight % 12) - 5;
            hints.priority = Priority::new(steps).unwrap();
            return (hints, 1.2f64.powi(steps));
        }
        _ => hints.set_utilization(weight).unwrap(),
    }
    (hints, f64::from(weight))
}

/// A pausing queue: weight, work and pause in tenths of a millisecond.
fn pausing() -> impl Strategy<Value = (u8, u64, u64)> {
    (1u8..=20, 1u64..100, 1u64..100)
}

fn pauses(work: u64, pause: u64) -> Load {
    Load::Pausing(Duration::from_us(work * 100), Duration::from_us(pause * 100))
}

proptest! {
    /// Two queues that are always ready get device time in proportion to their weights, whatever
    /// the others do: what each had, by weight, never differs by more than two rounds.
    #[test]
    fn shares_are_in_proportion_whatever_others_do(
        policy in prop::sample::select(&["wfq", "up", "cfs", "pup", "strict_wfq", "strict_up"][..]),
        endless in prop::collection::vec(1u8..=20, 2..5),
        others in prop::collection::vec(pausing(), 0..4),
    ) {
        let mut rig = Rig::new(policy, None);
        let mut whole = 0.0;
        let mut weights = Vec::new();
        for &weight in &endless {
            let (hints, weight) = weighted(policy, weight);
            rig.attach(hints, Load::Endless);
            weights.push(weight);
            whole += weight;
        }
        for &(weight, work, pause) in &others {
            let (hints, weight) = weighted(policy, weight);
            rig.attach(hints, pauses(work, pause));
            whole += weight;
        }
        for _ in 0..10 {
            rig.run(TIMESLICE.times(6));
            let by_weight: Vec<f64> =
                weights.iter().zip(&rig.queues).map(|(w, q)| q.used.as_ns() as f64 / w).collect();
            let most = by_weight.iter().copied().fold(0.0, f64::max);
            let least = by_weight.iter().copied().fold(f64::MAX, f64::min);
            // A turn is a twentieth of a timeslice at least, and ends with a step.
            let lightest = weights.iter().copied().fold(f64::MAX, f64::min);
            let shortest = (TIMESLICE.per(20) + STEP.times(2)).as_ns() as f64 / lightest;
            let rounds = 2.0 * TIMESLICE.as_ns() as f64 / whole + 2.0 * shortest;
            prop_assert!(most - least <= rounds, "{policy}: {by_weight:?}, {rounds}");
        }
    }

    /// Percentages are bounds under the strict partition.
    #[test]
    fn no_process_exceeds_a_strict_percentage(
        queues in prop::collection::vec((1u8..=60, prop::option::of((1u64..100, 1u64..100))), 1..5),
    ) {
        let mut rig = Rig::new("spup", None);
        for &(percent, load) in &queues {
            let load = load.map_or(Load::Endless, |(work, pause)| pauses(work, pause));
            rig.attach(weighted("spup", percent).0, load);
        }
        let span = TIMESLICE.times(60);
        rig.run(span);
        for ((percent, load), queue) in queues.iter().zip(&rig.queues) {
            let part = f64::from(*percent) / 100.0;
            let most = (span + TIMESLICE).as_ns() as f64 * part
                + (TIMESLICE.per(20) + STEP.times(2)).as_ns() as f64;
            let used = queue.used.as_ns() as f64;
            prop_assert!(used <= most, "{percent} %: {used} of {most}");
            if load.is_none() && queues.iter().map(|q| u32::from(q.0)).sum::<u32>() <= 90 {
                let least = span.as_ns() as f64 * part * 0.9 - 2.0 * TIMESLICE.as_ns() as f64;
                prop_assert!(used >= least, "{percent} %: {used} of at least {least}");
            }
        }
    }

    /// No hint is no bound: what processes with one leave is there for the others.
    #[test]
    fn a_process_without_a_hint_has_no_strict_percentage(
        bounded in prop::collection::vec(1u8..=30, 0..3),
        others in 1usize..4,
    ) {
        let mut rig = Rig::new("spup", None);
        bounded.iter().for_each(|percent| rig.attach(weighted("spup", *percent).0, Load::Endless));
        (0..others).for_each(|_| rig.attach(Hints::default(), Load::Endless));
        let span = TIMESLICE.times(60);
        rig.run(span);
        let used: u64 = rig.queues.iter().map(|queue| queue.used.as_ns()).sum();
        prop_assert!(used * 100 >= span.as_ns() * 97, "{used} of {}", span.as_ns());
        for (percent, queue) in bounded.iter().zip(&rig.queues) {
            let most = (span + TIMESLICE).as_ns() as f64 * f64::from(*percent) / 100.0
                + (TIMESLICE.per(20) + STEP.times(2)).as_ns() as f64;
            prop_assert!(queue.used.as_ns() as f64 <= most, "{percent} %: {}", queue.used.as_ns());
        }
    }

    /// Deadlines are met if any policy could meet them.
    #[test]
    fn edf_meets_the_deadlines_of_a_load_that_can_be_scheduled(
        policy in prop::sample::select(&["edf", "kedf", "strict_edf"][..]),
        tasks in prop::collection::vec((1u64..=100, 10u64..400), 1..8),
    ) {
        let mut rig = Rig::new(policy, None);
        let whole: u64 = tasks.iter().map(|task| task.0).sum();
        let mut deadlines = Vec::new();
        for &(part, period) in &tasks {
            // All tasks together use nine tenths of the device.
            let period = Duration::from_us(period * 100);
            let work = Duration::from_ns(period.as_ns() * part * 9 / (whole * 10));
            let mut hints = Hints::default();
            hints.set_deadline(period).unwrap();
            rig.attach(hints, Load::Periodic(work, period));
            deadlines.push(period);
        }
        rig.run(Duration::from_ms(300));
        // Requests come and go on steps.
        let late = STEP.times(2 * tasks.len() as u64 + 4);
        for (deadline, queue) in deadlines.iter().zip(&rig.queues) {
            prop_assert!(queue.response <= *deadline + late, "{policy}: {:?}", queue.response);
        }
    }
}

/// Shows that the load under a policy that does not look at deadlines misses some.
#[test]
fn the_load_is_one_that_can_be_missed() {
    let mut rig = Rig::new("hpf", None);
    let ms = Duration::from_ms;
    for (priority, work, period) in [(1, 18, 40), (0, 4, 10)] {
        let hints = Hints::with_priority(Priority::new(priority).unwrap());
        rig.attach(hints, Load::Periodic(ms(work), ms(period)));
    }
    rig.run(ms(300));
    assert!(rig.queues[1].response > ms(10));
}
