//! Rules that every policy of a kind has to keep, of this project or not. Each check sets up what
//! broke the C++ library's algorithm, and says in words what is wrong.

use xsched_core::hint::{Hints, Laxity, PolicyHint, Priority};
use xsched_core::policy::Policy;
use xsched_core::time::Duration;

use super::rig::{Driver, Rig, Spell};

/// Result of a check.
pub(crate) type Found = Result<(), String>;
/// A policy that a check is to try.
pub(crate) type Tried = Box<dyn Policy>;

fn require(holds: bool, what: impl FnOnce() -> String) -> Found {
    if holds { Ok(()) } else { Err(what()) }
}

pub(crate) fn priority(value: i32) -> Hints {
    Hints::with_priority(Priority::new(value).expect("in range"))
}

fn share(percent: u8) -> Hints {
    let mut hints = Hints::default();
    hints.set_utilization(percent).expect("in range");
    hints
}

fn deadline(ms: u64) -> Hints {
    let mut hints = Hints::default();
    hints.set_deadline(Duration::from_ms(ms)).expect("in range");
    hints
}

/// Urgent from the start, nearly.
fn urgent() -> Hints {
    let mut hints = Hints::default();
    let (lax, critical_priority) = (Duration::from_us(1), Priority::MAX);
    hints.set_laxity(Laxity { lax, lax_priority: Priority::MAX, critical_priority }).expect("so");
    hints
}

fn active() -> Hints {
    let mut hints = Hints::default();
    hints.active_window = true;
    hints
}

fn has_at_least(spell: &Spell, queue: usize, part: f64, who: &str) -> Found {
    let share = spell.share(queue);
    require(share >= part, || format!("{who} ran {:.1} % of the time", share * 100.0))
}

/// A queue that must not execute does not, even alone on the device.
pub(crate) fn no_execute(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let queue = rig.busy(0, priority(-256));
    let spell = rig.run_ms(10);
    let ran = spell.ran[queue];
    require(ran == 0, || format!("a queue that must not execute ran {ran} of 100 steps"))
}

/// Of two processes, 1 and 2, the first is the more urgent one.
pub(crate) fn first_process_goes_first(mut policy: Tried, hints: [Hints; 2]) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let [urgent, other] = [(1, hints[0]), (2, hints[1])].map(|(process, hints)| {
        let queue = rig.attach_of(process, 0, hints);
        rig.ready(queue);
        queue
    });
    let spell = rig.run_ms(10);
    let ran = spell.ran[other];
    require(ran == 0, || format!("the less urgent process ran for {ran} of 100 steps"))?;
    has_at_least(&spell, urgent, 1.0, "the urgent process")
}

/// A queue without a hint gets its turn beside one with a hint that always has work.
pub(crate) fn unhinted_beside_busy(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    rig.busy(0, share(50));
    let unhinted = rig.busy(0, Hints::default());
    let spell = rig.run_ms(1_000);
    has_at_least(&spell, unhinted, 0.005, "the queue without a hint")
}

/// A queue without a hint has the device while the one with a hint has no work.
pub(crate) fn unhinted_beside_idle(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    rig.attach(0, share(50));
    let unhinted = rig.busy(0, Hints::default());
    let spell = rig.run_ms(1_000);
    has_at_least(&spell, unhinted, 0.95, "the only queue with work")
}

/// Each of two devices works for the only queue that it has.
fn each_device_works(mut policy: Tried, hints: [Hints; 2]) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let [first, second] = hints;
    let queues = [rig.busy(0, first), rig.busy(1, second)];
    let spell = rig.run_ms(200);
    for (device, queue) in queues.into_iter().enumerate() {
        has_at_least(&spell, queue, 0.95, &format!("the only queue of device {device}"))?;
    }
    Ok(())
}

pub(crate) fn shares_are_per_device(policy: Tried) -> Found {
    each_device_works(policy, [share(100), share(100)])
}

pub(crate) fn deadlines_are_per_device(policy: Tried) -> Found {
    each_device_works(policy, [deadline(5), deadline(9)])
}

pub(crate) fn laxity_is_per_device(policy: Tried) -> Found {
    each_device_works(policy, [urgent(), Hints::default()])
}

pub(crate) fn windows_are_per_device(policy: Tried) -> Found {
    each_device_works(policy, [active(), Hints::default()])
}

/// An idle queue does not take the place of one that has work.
pub(crate) fn places_are_for_the_ready(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    rig.attach(0, Hints::default());
    let ready = rig.busy(0, Hints::default());
    let spell = rig.run_ms(100);
    has_at_least(&spell, ready, 0.95, "the only queue with work")
}

/// A process that comes while another has its slice waits for its own.
pub(crate) fn newcomer_waits_for_its_turn(mut policy: Tried) -> Found {
    policy.configure(PolicyHint::Timeslice(Duration::from_ms(40)));
    let mut rig = Rig::new(&mut *policy);
    rig.busy(0, Hints::default());
    rig.run_ms(5);
    rig.busy(0, Hints::default());
    let spell = rig.run_ms(20);
    let together = spell.together;
    require(together == 0, || format!("both processes ran for {together} of 200 steps"))
}

/// A queue that comes after 1.5 s of another one's work does not keep that from going on.
pub(crate) fn newcomer_starves_no_queue(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let old = rig.busy(0, Hints::default());
    rig.run_ms(1_500);
    let new = rig.busy(0, Hints::default());
    let spell = rig.run_ms(1_000);
    has_at_least(&spell, old, 0.4, "the old queue")?;
    has_at_least(&spell, new, 0.4, "the new queue")
}

/// A queue that has worked for 1.5 s may pause without waiting for queues that came in the pause.
pub(crate) fn pause_starves_no_queue(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let old = rig.busy(0, Hints::default());
    rig.run_ms(1_500);
    rig.idle(old);
    let new = rig.busy(0, Hints::default());
    rig.run_ms(1);
    rig.ready(old);
    let spell = rig.run_ms(1_000);
    has_at_least(&spell, old, 0.4, "the old queue")?;
    has_at_least(&spell, new, 0.4, "the new queue")
}

/// A queue that has slept for a second does not get that second back.
pub(crate) fn sleeper_hoards_nothing(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let worker = rig.busy(0, Hints::default());
    let sleeper = rig.busy(0, Hints::default());
    rig.run_ms(200);
    rig.idle(sleeper);
    rig.run_ms(1_000);
    rig.ready(sleeper);
    let spell = rig.run_ms(500);
    has_at_least(&spell, worker, 0.4, "the queue that stayed awake")?;
    has_at_least(&spell, sleeper, 0.4, "the queue that slept")
}

/// Two queues of a level change places when a slice is over, and not whenever anything happens.
pub(crate) fn equals_take_slices(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    rig.busy(0, Hints::default());
    rig.busy(0, Hints::default());
    let elsewhere = rig.attach(1, Hints::default());
    let mut orders = 0;
    for _ in 0..100 {
        rig.ready(elsewhere);
        let first = rig.run_ms(1);
        rig.idle(elsewhere);
        orders += first.orders + rig.run_ms(1).orders;
    }
    // In 200 ms there are at most 20 slices of the shortest kind, with two orders each.
    require(orders <= 60, || format!("{orders} orders for two queues in 200 ms"))
}

/// A queue that wakes and does not get the device at once is held.
pub(crate) fn wakes_held(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let sleeper = rig.busy(0, Hints::default());
    rig.run_ms(60);
    rig.idle(sleeper);
    rig.busy(0, Hints::default());
    rig.run_ms(3);
    rig.ready(sleeper);
    let spell = rig.run_ms(4);
    let together = spell.together;
    require(together == 0, || format!("two queues ran together for {together} of 40 steps"))
}

/// A queue that takes the slot of a queue with a hint does not have that hint.
fn hints_end(mut policy: Tried, old: Hints, rival: Hints) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let first = rig.busy(0, old);
    rig.run_ms(1);
    rig.detach(first);
    let heir = rig.busy(0, Hints::default());
    let rival = rig.busy(0, rival);
    // Enough for the rival to get ahead by its own hint.
    rig.run_ms(2);
    let spell = rig.run_ms(20);
    let (heir, rival) = (spell.ran[heir], spell.ran[rival]);
    require(rival > heir, || format!("the hint of a queue that is gone counts: {heir} to {rival}"))
}

pub(crate) fn priorities_end(policy: Tried) -> Found {
    hints_end(policy, priority(5), priority(1))
}

pub(crate) fn deadlines_end(policy: Tried) -> Found {
    hints_end(policy, deadline(5), deadline(50))
}

pub(crate) fn laxities_end(policy: Tried) -> Found {
    let mut rival = urgent();
    if let Some(laxity) = &mut rival.laxity {
        (laxity.lax_priority, laxity.critical_priority) =
            (Priority::new(1).expect("in range"), Priority::new(1).expect("in range"));
    }
    hints_end(policy, urgent(), rival)
}

/// A process with the number of one that had the active window is not the active one.
pub(crate) fn windows_end(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    let first = rig.attach_of(7, 0, active());
    rig.detach(first);
    let heir = rig.attach_of(7, 0, Hints::default());
    rig.ready(heir);
    let other = rig.busy(0, Hints::default());
    let spell = rig.run_ms(20);
    has_at_least(&spell, other, 0.95, "who is as good as the other one")
}

/// All queues run as soon as a policy that holds no queue is in charge.
pub(crate) fn switch_is_carried_out(driver: Driver, mut policies: [Tried; 2]) -> Found {
    let [holding, lenient] = &mut policies;
    let mut rig = Rig::driven(&mut **holding, driver);
    let low = rig.busy(0, priority(1));
    rig.busy(0, priority(5));
    rig.run_ms(5);
    require(rig.held(low), || "no queue was held before the switch".to_owned())?;
    rig.switch(&mut **lenient);
    let spell = rig.run_ms(1_000);
    has_at_least(&spell, low, 0.99, "a queue that is no longer held")
}

/// Hints from before a switch count after it.
pub(crate) fn switch_keeps_hints(mut policies: [Tried; 2]) -> Found {
    let [lenient, holding] = &mut policies;
    let mut rig = Rig::new(&mut **lenient);
    let low = rig.busy(0, priority(1));
    rig.busy(0, priority(5));
    rig.run_ms(5);
    rig.switch(&mut **holding);
    let ran = rig.run_ms(10).ran[low];
    require(ran == 0, || format!("the lower priority ran for {ran} of 100 steps: hints are lost"))
}

/// After a burst of events the policy is asked as often as before it.
pub(crate) fn timers_do_not_multiply(mut policy: Tried) -> Found {
    let mut rig = Rig::new(&mut *policy);
    rig.busy(0, Hints::default());
    let other = rig.attach(1, Hints::default());
    rig.run_ms(100);
    let before = rig.run_ms(1_000).decisions;
    for _ in 0..300 {
        rig.ready(other);
        rig.run_ms(1);
        rig.idle(other);
        rig.run_ms(1);
    }
    let after = rig.run_ms(1_000).decisions;
    let most = before + before / 10 + 5;
    require(after <= most, || format!("{after} decisions a second, {before} before the events"))
}
