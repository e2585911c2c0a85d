//! Each check of policies notices a policy that breaks its promise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_core::hint::{HintKind, HintKinds, Priority};
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, MayHold, Needs, Policy, Urgency, Verdict};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};
use xsched_policy_conformance::{Check, Declared, Scans, check};

const HOLD: Verdict = Verdict::Hold(Urgency::NOW);

/// A policy in one function.
struct Rule<F>(F);

impl<F> Policy for Rule<F>
where
    F: FnMut(Instant, Changed<'_>, &QueueTable<'_>, &mut Decisions<'_>),
{
    fn name(&self) -> &'static str {
        "rule"
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        (self.0)(now, changed, queues, out);
    }
}

/// Says what it may hold, and which hints it looks at.
struct Saying<P>(P, Needs);

impl<P> Saying<P> {
    fn may_hold(policy: P, may_hold: MayHold) -> Self {
        Self(policy, Needs { may_hold, ..Needs::default() })
    }
}

impl<P: Policy> Policy for Saying<P> {
    fn name(&self) -> &'static str {
        "saying"
    }

    fn needs(&self) -> Needs {
        self.1
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

/// Tells the compiler how general the closure is.
fn rule<F>(decide: F) -> Rule<F>
where
    F: FnMut(Instant, Changed<'_>, &QueueTable<'_>, &mut Decisions<'_>),
{
    Rule(decide)
}

fn wants(info: &QueueInfo) -> bool {
    info.ready && info.hints.priority != Priority::NO_EXECUTE
}

/// On each device the ready queue with the lowest key runs, the first of them in the table. Idle
/// ones run.
fn lowest(queues: &QueueTable<'_>, out: &mut Decisions<'_>, key: impl Fn(&QueueInfo) -> i64) {
    for device in queues.devices() {
        let best = queues.on_device(device).filter(|info| wants(info)).min_by_key(|info| key(info));
        for info in queues.on_device(device) {
            let idle = !info.ready && info.hints.priority != Priority::NO_EXECUTE;
            let runs = idle || best.is_some_and(|best| best.id == info.id);
            out.set(info.id, if runs { Verdict::Run } else { HOLD });
        }
    }
}

/// Strict, and looks at everything each time.
fn plain() -> Declared {
    Declared { scans: Scans::Always, ..Declared::strict() }
}

/// Checks that find the policy's defect, in twelve seeds.
fn caught<P: Policy>(make: impl Fn() -> P, declared: Declared) -> Option<Check> {
    let failure = check(&make, declared, 1..=12).err()?;
    // The seed in the message shows it again.
    assert_eq!(check(&make, declared, [failure.seed]), Err(failure.clone()), "{failure}");
    Some(failure.check)
}

#[test]
fn the_sound_one_passes() {
    assert_eq!(caught(|| rule(|_, _, queues, out| lowest(queues, out, |_| 0)), plain()), None);
}

#[test]
fn a_device_left_to_a_queue_that_is_idle() {
    let lazy = || {
        rule(|_, _, queues, out| {
            for device in queues.devices() {
                let runs = |info: &&QueueInfo| info.hints.priority != Priority::NO_EXECUTE;
                let first = queues.on_device(device).find(runs).map(|info| info.id);
                for info in queues.on_device(device) {
                    out.set(info.id, if Some(info.id) == first { Verdict::Run } else { HOLD });
                }
            }
        })
    };
    assert_eq!(caught(lazy, plain()), Some(Check::Conserving));
    let declared = Declared { idle_gap: Some(Duration::from_ms(5)), ..plain() };
    assert_eq!(caught(lazy, declared), Some(Check::Conserving), "longer than declared");
}

#[test]
fn a_gap_that_is_declared_is_none() {
    // Each change of the running queue takes half a millisecond, by a timer.
    let slow = || {
        let mut since = HashMap::new();
        rule(move |now, _, queues, out| {
            for device in queues.devices() {
                let best = queues.on_device(device).find(|info| wants(info)).map(|info| info.id);
                let known = since.entry(device).or_insert((best, now));
                if known.0 != best {
                    *known = (best, now + Duration::from_us(500));
                }
                let due = now >= known.1;
                for info in queues.on_device(device) {
                    let runs = due && Some(info.id) == best;
                    out.set(info.id, if runs { Verdict::Run } else { HOLD });
                }
                if !due {
                    out.wake_at(known.1);
                }
            }
        })
    };
    assert_eq!(caught(slow, plain()), Some(Check::Conserving));
    let declared = |gap| Declared { idle_gap: gap, ..plain() };
    assert_eq!(caught(slow, declared(Some(Duration::from_us(200)))), Some(Check::Conserving));
    assert_eq!(caught(slow, declared(None)), None);
}

#[test]
fn queues_that_starve() {
    let strict = || rule(|_, _, queues, out| lowest(queues, out, |_| 0));
    let declared = Declared { wait_max: Declared::default().wait_max, ..plain() };
    assert_eq!(caught(strict, declared), Some(Check::Starvation));
}

#[test]
fn queues_that_must_not_run() {
    let careless = || {
        rule(|_, _, queues, out| {
            for info in queues.iter() {
                out.set(info.id, Verdict::Run);
            }
        })
    };
    assert_eq!(caught(careless, plain()), Some(Check::NoExecute));
}

#[test]
fn the_highest_is_not_spared() {
    let any = || rule(|_, _, queues, out| lowest(queues, out, |_| 0));
    let first = || Saying::may_hold(any(), MayHold::Peers);
    assert_eq!(caught(first, plain()), Some(Check::Spared));
    let highest = |spared| {
        let by_priority = |info: &QueueInfo| -i64::from(info.hints.priority.get());
        Saying::may_hold(rule(move |_, _, queues, out| lowest(queues, out, by_priority)), spared)
    };
    let caught = |spared| caught(|| highest(spared), plain());
    assert_eq!(caught(MayHold::Peers), None);
    assert_eq!(caught(MayHold::Lower), Some(Check::Spared), "one of several is held");
    assert_eq!(caught(MayHold::Nothing), Some(Check::Spared), "one is held");
}

#[test]
fn hints_that_are_noticed_late() {
    let forgetful = || {
        let mut chosen: HashMap<_, QueueId> = HashMap::new();
        rule(move |_, changed: Changed<'_>, queues, out| {
            let all = matches!(changed, Changed::All);
            for device in queues.devices() {
                let ready = || queues.on_device(device).filter(|info| wants(info));
                let before = chosen.get(&device).filter(|id| ready().any(|info| info.id == **id));
                let best = ready().max_by_key(|info| info.hints.weight).map(|info| info.id);
                let next = before.copied().filter(|_| !all).or(best);
                match next {
                    Some(id) => chosen.insert(device, id),
                    None => chosen.remove(&device),
                };
                for info in queues.on_device(device) {
                    out.set(info.id, if Some(info.id) == next { Verdict::Run } else { HOLD });
                }
            }
        })
    };
    assert_eq!(caught(forgetful, plain()), Some(Check::Full));
}

#[test]
fn hints_that_are_not_named() {
    let weighing = |hints: &[HintKind]| {
        let by_weight = |info: &QueueInfo| -i64::from(info.hints.weight);
        let needs = Needs { hints: HintKinds::of(hints), ..Needs::default() };
        Saying(rule(move |_, _, queues, out| lowest(queues, out, by_weight)), needs)
    };
    let caught = |hints| caught(|| weighing(hints), plain());
    assert_eq!(caught(&[HintKind::Deadline]), Some(Check::Hints));
    assert_eq!(caught(&[HintKind::Weight]), None);
}

#[test]
fn turns_that_end_with_a_question() {
    let flipping = || {
        let mut calls = 0;
        rule(move |_, changed: Changed<'_>, queues, out| {
            calls += i64::from(!matches!(changed, Changed::All));
            let calls = calls;
            lowest(queues, out, |info| (info.id.index() as i64 + calls) % 5);
        })
    };
    assert_eq!(caught(flipping, plain()), Some(Check::Idempotent));
}

#[test]
fn a_policy_that_depends_on_something_else() {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let fickle = || {
        let odd = !MADE.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        rule(move |_, _, queues, out| {
            lowest(queues, out, |info| {
                if odd { info.id.index() as i64 } else { 0 - info.id.index() as i64 }
            });
        })
    };
    let failure = check(fickle, plain(), 1..=12).map_err(|failure| failure.check);
    assert_eq!(failure, Err(Check::Deterministic));
}

#[test]
fn one_queue_for_all_devices() {
    let global = || {
        rule(|_, _, queues, out| {
            let best = queues.iter().filter(|info| wants(info)).last().map(|info| info.id);
            for info in queues.iter() {
                out.set(info.id, if Some(info.id) == best { Verdict::Run } else { HOLD });
            }
        })
    };
    assert_eq!(caught(global, plain()), Some(Check::Conserving));
    let declared = Declared { idle_gap: None, ..plain() };
    assert_eq!(caught(global, declared), Some(Check::Independent));
    assert_eq!(caught(global, Declared { independent: false, ..declared }), None);
}

#[test]
fn hints_that_stay_with_the_slot() {
    let clinging = || {
        let mut first: HashMap<usize, Priority> = HashMap::new();
        rule(move |_, _, queues, out| {
            for info in queues.iter() {
                first.entry(info.id.index()).or_insert(info.hints.priority);
            }
            lowest(queues, out, |info| {
                -i64::from(first.get(&info.id.index()).map_or(0, |priority| priority.get()))
            });
        })
    };
    assert_eq!(caught(clinging, plain()), Some(Check::Reuse));
}

#[test]
fn work_for_idle_queues() {
    let looks = || rule(|_, _, queues, out| lowest(queues, out, |_| 0));
    assert_eq!(caught(looks, Declared::strict()), Some(Check::DecisionCost));
    let declared = Declared { scans: Scans::PerSecond(10), ..Declared::strict() };
    assert_eq!(caught(looks, declared), Some(Check::DecisionCost));
    // Not by iterators, which are counted, but verdict by verdict.
    let sets = || {
        rule(|_, _, queues, out| {
            for info in (0..1_000).filter_map(|index| queues.at(index)) {
                let runs = info.hints.priority != Priority::NO_EXECUTE;
                out.set(info.id, if runs { Verdict::Run } else { HOLD });
            }
        })
    };
    assert_eq!(caught(sets, Declared::strict()), Some(Check::DecisionCost));
    assert_eq!(caught(sets, plain()), None);
}

#[test]
fn timers_without_end() {
    for (after_ns, once_idle) in [(0, true), (1_000, true), (1_000_000, true), (1_000, false)] {
        let storm = || {
            rule(move |now, _, queues, out| {
                lowest(queues, out, |_| 0);
                if once_idle || queues.iter().any(wants) {
                    out.wake_at(now + Duration::from_ns(after_ns));
                }
            })
        };
        assert_eq!(caught(storm, plain()), Some(Check::Timers), "{after_ns} ns, {once_idle}");
    }
}

/// Panics when a queue is gone.
struct Fragile;

impl Policy for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, _: &QueueTable<'_>) {
        assert!(event != Event::Detached, "lost {queue:?}");
    }

    fn decide(
        &mut self,
        _: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        lowest(queues, out, |_| 0);
    }
}

#[test]
fn panics_come_with_their_seed() {
    let failure = check(|| Fragile, plain(), [3]).expect_err("it panics");
    assert_eq!((failure.check, failure.seed), (Check::Panics, 3));
    let message = failure.to_string();
    assert!(message.contains("fragile") && message.contains("lost QueueId"), "{message}");
    assert!(message.contains("check(make, declared, [3])"), "{message}");
}

/// The first part has three processes, the simulator more.
#[test]
fn what_only_the_simulator_shows() {
    let small = || {
        rule(|_, _, queues, out| {
            for info in queues.iter() {
                let runs = info.process.0 < 3 && info.hints.priority != Priority::NO_EXECUTE;
                out.set(info.id, if runs { Verdict::Run } else { HOLD });
            }
        })
    };
    let failure = check(small, plain(), [1]).expect_err("it has room for three processes");
    assert_eq!(failure.check, Check::Conserving);
    assert!(failure.what.ends_with("in the simulator"), "{failure}");
}
