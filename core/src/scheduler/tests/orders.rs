//! Verdicts, levels, timers, and the orders that come of them.

use super::*;
use crate::cost::Reach;

#[test]
fn only_differences_become_orders() {
    let mut rig = Rig::new();
    let a = rig.attach(0);
    let b = rig.attach(0);
    assert_eq!(rig.orders(), "");
    rig.say(a, HOLD);
    assert_eq!(rig.orders(), "0 hold1");
    rig.say(a, HOLD);
    rig.say(b, Verdict::Run);
    assert_eq!(rig.orders(), "");
    rig.say(a, Verdict::Run);
    rig.say(a, HOLD);
    rig.say(b, HOLD);
    rig.say(b, Verdict::Run);
    assert_eq!(rig.orders(), "", "what is taken back at once was never said");
}

#[test]
fn deciding_again_orders_nothing() {
    let mut rig = Rig::hpf();
    let queues: Vec<_> = (0..6).map(|n| rig.attach(n % 3)).collect();
    for &queue in &queues {
        rig.submit(queue, 1);
    }
    assert_ne!(rig.orders(), "");
    for _ in 0..3 {
        rig.s.reconsider_all();
        assert_eq!(rig.orders(), "");
        rig.acknowledge();
        assert_eq!(rig.orders(), "");
    }
}

#[test]
fn the_policy_is_asked_once_per_round_and_not_without_need() {
    let mut rig = Rig::new();
    let a = rig.attach(0);
    let b = rig.attach(0);
    rig.submit(a, 1);
    rig.submit(b, 1);
    rig.orders();
    assert_eq!((rig.s.stats().decisions, rig.s.stats().full_decisions), (1, 1));
    assert_eq!(rig.puppet.0.borrow().asked, None, "at first about everything");
    rig.orders();
    rig.submit(a, 1);
    rig.orders();
    assert_eq!(rig.s.stats().decisions, 1, "more of the same work changes nothing");
    rig.drain(b);
    rig.orders();
    assert_eq!((rig.s.stats().decisions, rig.s.stats().full_decisions), (2, 1));
    assert_eq!(rig.puppet.0.borrow().asked.as_deref(), Some(&[b][..]));
    for _ in 0..2 {
        rig.submit(b, 1);
        rig.orders();
        assert_eq!(rig.puppet.0.borrow().asked.as_deref(), Some(&[b][..]));
        assert_eq!(rig.puppet.0.borrow().devices, [DeviceId(0)]);
        rig.drain(b);
        rig.orders();
    }
}

#[test]
fn every_verdict_has_a_new_epoch() {
    let mut rig = Rig::new();
    let a = rig.attach(0);
    for epoch in 1..6 {
        rig.say(a, if epoch % 2 == 1 { HOLD } else { Verdict::Run });
        let (_, order) = rig.s.poll_order(rig.now).unwrap();
        assert_eq!(order.epoch(), Some(epoch));
        assert_eq!(rig.s.poll_order(rig.now), None);
    }
    assert_eq!(rig.s.stats().orders, 5);
}

#[test]
fn verdicts_stay_until_they_are_replaced() {
    let mut rig = Rig::new();
    let a = rig.attach(0);
    rig.say(a, HOLD);
    assert_eq!(rig.orders(), "0 hold1");
    for _ in 0..3 {
        rig.submit(a, 1);
        assert_eq!(rig.orders(), "");
        rig.drain(a);
        assert_eq!(rig.orders(), "");
    }
    assert_eq!(rig.s.table().verdict(a), Some(HOLD));
    assert!(!rig.running(a));
}

#[test]
fn more_changes_than_the_list_has_room_for_are_still_known() {
    let puppet = Puppet::default();
    let mut s = Scheduler::new(puppet.clone(), Inline::<100, 1, 0>::new());
    let now = Instant::ZERO;
    let queues: Vec<_> = (0..100).map(|_| s.attach(now, Attach::default()).unwrap()).collect();
    assert_eq!(s.poll_order(now), None);
    let ready = Report { submitted: 1, ..Report::default() };
    for &queue in &queues[..64] {
        s.handle_report(now, queue, &ready).unwrap();
    }
    assert_eq!(s.poll_order(now), None);
    assert_eq!(puppet.0.borrow().asked.as_ref().map(Vec::len), Some(64));
    let idle = Report { submitted: 1, launched: 1, retired: 1, ..Report::default() };
    for &queue in &queues[..65] {
        let report = if queue.index() < 64 { &idle } else { &ready };
        s.handle_report(now, queue, report).unwrap();
    }
    puppet.0.borrow_mut().say = queues.iter().map(|&queue| (queue, HOLD)).collect();
    let mut held = 0;
    while let Some((_, order)) = s.poll_order(now) {
        assert!(matches!(order, Order::Hold { .. }));
        held += 1;
    }
    assert_eq!(held, 100);
    assert_eq!(puppet.0.borrow().asked.as_deref(), Some(&queues[..65]), "and about no other queue");
    assert_eq!(s.stats().full_decisions, 1, "the first");
    s.handle_report(now, queues[70], &ready).unwrap();
    assert_eq!(s.poll_order(now), None);
    assert_eq!(puppet.0.borrow().asked.as_deref(), Some(&[queues[70]][..]), "and back to the list");
}

#[test]
fn a_hold_is_as_deep_as_configured() {
    let mut rig = Rig::new();
    for level in Level::ALL {
        let level = LevelChoice::Exactly(level);
        let queue = rig.attach_as(Attach { level, ..Attach::default() });
        rig.say(queue, Verdict::Hold(Urgency::WHENEVER));
    }
    assert_eq!(rig.orders(), "2 hold3, 1 hold2, 0 hold1");
}

/// A queue on a device whose Lv2 takes 5 µs and whose Lv3 takes 50 µs, with 8 commands of 100 µs.
fn measured(rig: &mut Rig) -> QueueId {
    let us = Duration::from_us;
    let cost = CostModel { gate_close: us(5), save_fixed: us(50), ..CostModel::default() };
    rig.s.set_cost(DeviceId(0), cost).unwrap();
    let level = LevelChoice::UpTo(Level::Interrupt);
    let queue = rig.attach_as(Attach { level, threshold: 8, ..Attach::default() });
    rig.report(queue, |r| {
        (r.submitted, r.launched, r.retired, r.busy) = (20, 18, 10, us(1_000));
    });
    queue
}

#[test]
fn the_cheapest_level_that_is_fast_enough_is_chosen() {
    for (within_us, level) in [(1_000, 1), (800, 1), (799, 2), (105, 2), (104, 3), (0, 3)] {
        let mut rig = Rig::new();
        let queue = measured(&mut rig);
        rig.say(queue, Verdict::Hold(Urgency::within(Duration::from_us(within_us))));
        assert_eq!(rig.orders(), format!("0 hold{level}"), "within {within_us} µs");
    }
}

/// A device like a partition whose driver needs 60 µs for each call, and a queue on it.
fn partition(rig: &mut Rig, device: u16, mean_us: u64) -> QueueId {
    let us = Duration::from_us;
    let cost = CostModel { save_fixed: us(60), restore_fixed: us(60), ..CostModel::default() };
    let cost = CostModel { reach: Reach::Device, batches: true, gate_close: us(1), ..cost };
    rig.s.set_cost(DeviceId(device), cost).unwrap();
    let level = LevelChoice::UpTo(Level::Interrupt);
    let device = DeviceId(device);
    let queue = rig.attach_as(Attach { level, threshold: 8, device, ..Attach::default() });
    rig.report(queue, |r| {
        (r.submitted, r.launched, r.retired) = (20, 18, 10);
        r.busy = us(10 * mean_us);
    });
    queue
}

#[test]
fn a_victim_that_ends_soon_is_not_interrupted_unless_others_are() {
    let now = Verdict::Hold(Urgency::NOW);
    let mut rig = Rig::new();
    let short = partition(&mut rig, 0, 100);
    rig.say(short, now);
    assert_eq!(rig.orders(), "0 hold2", "for itself");
    let mut rig = Rig::new();
    let (long, short) = (partition(&mut rig, 0, 500), partition(&mut rig, 0, 100));
    // Orders go out last first.
    rig.say(short, now);
    rig.say(long, now);
    assert_eq!(rig.orders(), "0 hold3, 1 hold3", "in the same batch");
}

#[test]
fn how_long_interrupts_take_is_learned() {
    let mut rig = Rig::new();
    let queue = partition(&mut rig, 0, 500);
    let ms = Duration::from_ms;
    for round in 1..=30 {
        rig.say(queue, Verdict::Hold(Urgency::NOW));
        let said = rig.orders();
        if said != "0 hold3" {
            assert_eq!(said, "0 hold2", "five milliseconds are too much for half of one");
            assert!((5..25).contains(&round), "{round}");
            let learned = rig.s.cost(DeviceId(0)).unwrap();
            assert!(learned.save_fixed > Duration::from_us(200), "{learned:?}");
            assert!(learned.restore_fixed > Duration::from_us(200), "{learned:?}");
            return;
        }
        rig.now += ms(5);
        rig.report(queue, |r| {
            r.epoch = 2 * round - 1;
            r.hold = HoldState::Held(Level::Interrupt);
        });
        rig.say(queue, Verdict::Run);
        assert_eq!(rig.orders(), "0 run");
        rig.now += ms(5);
        rig.report(queue, |r| (r.epoch, r.hold) = (2 * round, HoldState::Running));
    }
    panic!("it goes on interrupting at ten times what it costs");
}

#[test]
fn an_idle_queue_teaches_nothing() {
    let mut rig = Rig::new();
    let queue = partition(&mut rig, 0, 500);
    let before = rig.s.cost(DeviceId(0)).unwrap();
    rig.say(queue, Verdict::Hold(Urgency::NOW));
    assert_eq!(rig.orders(), "0 hold3");
    rig.now += Duration::from_ms(5);
    rig.report(queue, |r| {
        (r.epoch, r.retired, r.hold) = (1, r.launched, HoldState::Held(Level::Interrupt));
    });
    assert_eq!(rig.s.cost(DeviceId(0)), Some(before));
    assert_eq!(rig.s.cost(DeviceId(9)), None);
}

#[test]
fn without_a_measurement_the_deepest_level_is_chosen() {
    let mut rig = Rig::new();
    let level = LevelChoice::UpTo(Level::Deactivate);
    let queue = rig.attach_as(Attach { level, ..Attach::default() });
    rig.say(queue, Verdict::Hold(Urgency::WHENEVER));
    assert_eq!(rig.orders(), "0 hold2");
}

#[test]
fn the_urgency_of_a_floor_counts_for_those_below_it() {
    let mut rig = Rig::hpf();
    measured(&mut rig);
    assert_eq!(rig.orders(), "");
    let high = rig.attach(5);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "0 hold3", "now");
}

#[test]
fn a_hold_that_becomes_more_urgent_gets_deeper_and_not_shallower_again() {
    let mut rig = Rig::new();
    let queue = measured(&mut rig);
    let within = |us| Verdict::Hold(Urgency::within(Duration::from_us(us)));
    rig.say(queue, within(900));
    assert_eq!(rig.orders(), "0 hold1");
    rig.say(queue, within(200));
    assert_eq!(rig.orders(), "0 hold2");
    rig.say(queue, within(10));
    assert_eq!(rig.orders(), "0 hold3");
    rig.say(queue, within(900));
    assert_eq!(rig.orders(), "", "what is off the device stays off");
    rig.s.set_level(queue, LevelChoice::UpTo(Level::Deactivate)).unwrap();
    assert_eq!(rig.orders(), "0 hold1", "but the user's word counts");
}

#[test]
fn another_level_is_ordered_again() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.s.set_level(queue, LevelChoice::Exactly(Level::Deactivate)).unwrap();
    assert_eq!(rig.orders(), "", "it is not held");
    rig.say(queue, HOLD);
    assert_eq!(rig.orders(), "0 hold2");
    rig.s.set_level(queue, LevelChoice::Exactly(Level::Deactivate)).unwrap();
    assert_eq!(rig.orders(), "");
    rig.s.set_level(queue, LevelChoice::Exactly(Level::Block)).unwrap();
    assert_eq!(rig.orders(), "0 hold1");
}

#[test]
fn the_earliest_of_all_timers_counts_until_it_has_fired() {
    let mut rig = Rig::new();
    let at = Instant::from_ns;
    assert_eq!(rig.s.poll_timeout(), None);
    rig.puppet.0.borrow_mut().wake = [at(50), at(30), at(70)].into();
    rig.orders();
    assert_eq!(rig.s.poll_timeout(), Some(at(30)));
    let asked = rig.s.stats().decisions;
    rig.s.handle_timeout(at(29));
    rig.orders();
    assert_eq!(rig.s.stats().decisions, asked, "too early is nothing");
    assert_eq!(rig.s.poll_timeout(), Some(at(30)));
    rig.s.handle_timeout(at(30));
    rig.orders();
    assert_eq!(rig.s.stats().decisions, asked + 1);
    assert_eq!(rig.puppet.0.borrow().asked.as_deref(), Some(&[][..]), "nothing changed but time");
    assert_eq!(rig.s.poll_timeout(), None, "the policy asks again if it still needs to");
    rig.s.handle_timeout(at(99));
    rig.orders();
    assert_eq!(rig.s.stats().decisions, asked + 1, "for nothing is nothing");
}

#[test]
fn timers_of_an_old_policy_are_forgotten() {
    let mut rig = Rig::new();
    rig.puppet.0.borrow_mut().wake = [Instant::from_ns(30)].into();
    rig.orders();
    rig.s.set_policy(Puppet::default());
    assert_eq!(rig.s.poll_timeout(), None);
}

#[test]
fn queues_report_progress_as_often_as_the_policy_needs() {
    let mut rig = Rig::new();
    rig.attach(0);
    assert_eq!(rig.orders(), "", "this one does not need any");
    let ms = Duration::from_ms;
    let eager = Puppet::default();
    eager.0.borrow_mut().progress = Some(ms(1));
    rig.s.set_policy(eager);
    let (_, order) = rig.s.poll_order(rig.now).unwrap();
    assert_eq!(order, Order::Progress { every: ms(1) });
    rig.attach(0);
    assert_eq!(rig.orders(), "1 progress", "new queues too");
    assert!(rig.s.hint_policy(PolicyHint::timeslice(ms(2)).unwrap()));
    assert_eq!(rig.orders(), "0 progress, 1 progress", "and all when it changes its mind");
    assert!(rig.s.hint_policy(PolicyHint::timeslice(ms(2)).unwrap()));
    assert!(!rig.s.hint_policy(PolicyHint::K(3)));
    assert!(!rig.s.hint_policy(PolicyHint::Timeslice(Duration::ZERO)), "out of range");
    assert_eq!(rig.orders(), "");
    rig.s.set_policy(Puppet::default());
    let (_, order) = rig.s.poll_order(rig.now).unwrap();
    assert_eq!(order, Order::Progress { every: Duration::MAX }, "never again");
}

#[test]
fn a_hint_for_the_policy_makes_it_look_at_everything() {
    let mut rig = Rig::new();
    rig.orders();
    rig.s.hint_policy(PolicyHint::K(3));
    rig.orders();
    assert_eq!(rig.s.stats().decisions, 1, "it had no use for it");
    rig.s.hint_policy(PolicyHint::timeslice(Duration::from_ms(1)).unwrap());
    rig.orders();
    assert_eq!(rig.s.stats().full_decisions, 2);
}

#[test]
fn errors_say_what_to_do() {
    for error in [
        SchedulerError::TableFull,
        SchedulerError::UnknownDevice,
        SchedulerError::UnknownQueue,
        SchedulerError::BadReport,
        SchedulerError::WouldDeadlock,
        SchedulerError::WaitTableFull,
    ] {
        assert!(error.to_string().len() > 20, "{error}");
    }
}

#[test]
fn devices_take_turns_in_orders() {
    let mut rig = Rig::new();
    let many: Vec<_> = (0..4).map(|_| rig.attach(0)).collect();
    for first in [true, false] {
        let other = rig.attach_as(Attach { device: DeviceId(1), ..Attach::default() });
        rig.orders();
        let others = many.iter().copied();
        let all: Vec<_> = match first {
            true => core::iter::once(other).chain(others).collect(),
            false => others.chain([other]).collect(),
        };
        for verdict in [HOLD, Verdict::Run] {
            all.iter().for_each(|queue| rig.say(*queue, verdict));
            let orders = rig.orders();
            let at = orders.split(", ").position(|order| order.starts_with("4 "));
            assert!(at.is_some_and(|at| at < 2), "{orders}");
            assert_eq!(orders.split(", ").count(), 5, "{orders}");
        }
        rig.detach(other);
    }
}
