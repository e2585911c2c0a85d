//! Reports: what the scheduler makes of them, and of those that make no sense.

use super::*;

#[test]
fn counters_that_contradict_each_other_are_refused() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.submit(queue, 2);
    let before = *rig.s.table().get(queue).unwrap();
    for (submitted, launched, retired) in [(1, 2, 0), (2, 1, 2), (0, 0, 1), (1, 5, 5)] {
        let bad = Report { submitted, launched, retired, suspended: true, ..Report::default() };
        let answer = rig.s.handle_report(rig.now, queue, &bad);
        assert_eq!(answer, Err(SchedulerError::BadReport));
    }
    let after = *rig.s.table().get(queue).unwrap();
    assert_eq!((after.report, after.ready), (before.report, before.ready), "ignored");
}

#[test]
fn work_that_comes_and_goes_is_observed() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.submit(queue, 1);
    rig.submit(queue, 1);
    rig.drain(queue);
    rig.submit(queue, 1);
    let events = rig.events();
    assert_eq!(events[1..], [(0, Event::Ready), (0, Event::Idle), (0, Event::Ready)]);
}

#[test]
fn idle_and_ready_again_between_two_reports_is_ready_again() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.submit(queue, 1);
    rig.events();
    rig.report(queue, |r| {
        (r.submitted, r.launched, r.retired) = (5, 4, 3);
        r.ready_since = Instant::from_ns(50);
    });
    assert_eq!(rig.events(), [(0, Event::Ready)]);
    assert_eq!(rig.s.table().ready_since(queue), Some(Instant::from_ns(50)));
}

#[test]
fn device_time_is_passed_on_to_the_policy() {
    let mut rig = Rig::new();
    rig.puppet.0.borrow_mut().progress = Some(Duration::from_us(10));
    let queue = rig.attach(0);
    rig.submit(queue, 9);
    rig.orders();
    rig.events();
    let decisions = rig.s.stats().decisions;
    rig.report(queue, |r| r.busy = Duration::from_us(25));
    assert_eq!(rig.events(), [(0, Event::Progress { busy: Duration::from_us(25) })]);
    rig.orders();
    assert_eq!(rig.s.stats().decisions, decisions + 1);
    rig.report(queue, |_| {});
    assert_eq!(rig.events(), [], "told once");
}

#[test]
fn a_hold_is_observed_when_it_is_acknowledged() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.say(queue, HOLD);
    rig.orders();
    rig.events();
    assert_eq!(rig.s.table().get(queue).unwrap().held, None);
    rig.acknowledge();
    assert_eq!(rig.events(), [(0, Event::Held(Level::Block))]);
    assert_eq!(rig.s.table().get(queue).unwrap().held, Some(Level::Block));
    rig.acknowledge();
    assert_eq!(rig.events(), []);
    rig.say(queue, Verdict::Run);
    rig.orders();
    assert_eq!(rig.s.table().get(queue).unwrap().held, Some(Level::Block), "until it says so");
    rig.acknowledge();
    assert_eq!(rig.events(), [(0, Event::Resumed)]);
}

#[test]
fn going_deeper_is_no_resuming() {
    let mut rig = Rig::new();
    let level = LevelChoice::Exactly(Level::Block);
    let queue = rig.attach_as(Attach { level, ..Attach::default() });
    rig.say(queue, HOLD);
    rig.orders();
    rig.acknowledge();
    rig.s.set_level(queue, LevelChoice::Exactly(Level::Interrupt)).unwrap();
    assert_eq!(rig.orders(), "0 hold3");
    rig.events();
    rig.report(queue, |r| r.hold = HoldState::Holding);
    assert_eq!(rig.events(), [], "it does not run");
    rig.report(queue, |r| r.hold = HoldState::Held(Level::Interrupt));
    assert_eq!(rig.events(), [(0, Event::Held(Level::Interrupt))]);
    rig.say(queue, Verdict::Run);
    rig.orders();
    rig.report(queue, |r| r.hold = HoldState::Resuming);
    rig.report(queue, |r| r.hold = HoldState::Running);
    assert_eq!(rig.events(), [(0, Event::Resumed)], "once");
}

#[test]
fn acknowledgements_of_replaced_orders_are_counted_and_ignored() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.say(queue, HOLD);
    rig.orders();
    let late = rig.reports[0].1;
    rig.say(queue, Verdict::Run);
    rig.orders();
    rig.s.handle_report(rig.now, queue, &late).unwrap();
    assert_eq!(rig.s.stats().stale_acks, 1);
    assert_eq!(rig.s.table().get(queue).unwrap().held, None);
    assert_eq!(rig.orders(), "");
}

#[test]
fn a_queue_that_failed_open_is_told_again() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.say(queue, HOLD);
    assert_eq!(rig.orders(), "0 hold1");
    rig.acknowledge();
    rig.events();
    rig.report(queue, |r| (r.failed_open, r.hold) = (true, HoldState::Running));
    assert_eq!(rig.events(), [(0, Event::FailedOpen)]);
    rig.report(queue, |_| {});
    assert_eq!(rig.s.stats().failed_open, 1, "counted once");
    let (_, order) = rig.s.poll_order(rig.now).unwrap();
    assert_eq!(order, Order::Hold { epoch: 2, level: Level::Block }, "with a new epoch");
    assert_eq!(rig.s.poll_order(rig.now), None);
    rig.report(queue, |_| {});
    assert_eq!(rig.orders(), "", "that was on its way before the new order");
    rig.report(queue, |r| {
        (r.epoch, r.failed_open, r.hold) = (2, false, HoldState::Held(Level::Block));
    });
    assert_eq!(rig.orders(), "");
    assert_eq!(rig.s.table().get(queue).unwrap().held, Some(Level::Block));
}

#[test]
fn a_queue_that_failed_open_and_may_run_needs_no_order() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.say(queue, HOLD);
    rig.orders();
    rig.report(queue, |r| (r.failed_open, r.hold) = (true, HoldState::Running));
    rig.say(queue, Verdict::Run);
    assert_eq!(rig.orders(), "");
    rig.report(queue, |_| {});
    assert_eq!(rig.orders(), "");
    rig.say(queue, HOLD);
    assert_eq!(rig.orders(), "0 hold1");
}

#[test]
fn a_user_hold_is_known_after_failing_open_too() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.say(queue, HOLD);
    rig.orders();
    rig.events();
    // The hold was never acknowledged; what is in effect is the one by hand.
    let held = HoldState::Held(Level::Block);
    rig.report(queue, |r| (r.suspended, r.failed_open, r.hold) = (true, true, held));
    assert_eq!(rig.events(), [(0, Event::FailedOpen), (0, Event::Held(Level::Block))]);
    assert_eq!(rig.s.table().get(queue).unwrap().held, Some(Level::Block));
}

#[test]
fn losing_the_device_is_observed_once() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.submit(queue, 3);
    rig.events();
    rig.report(queue, |r| (r.lost, r.launched, r.retired) = (true, 3, 3));
    rig.report(queue, |_| {});
    let events = rig.events();
    assert_eq!(events, [(0, Event::Lost), (0, Event::Idle)]);
}

#[test]
fn hints_are_observed() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.events();
    rig.s.set_hints(rig.now, queue, hints(4)).unwrap();
    assert_eq!(rig.events(), [(0, Event::Hinted)]);
    assert_eq!(rig.s.table().get(queue).unwrap().hints, hints(4));
}

#[test]
fn lost_reports_do_no_harm() {
    let mut rig = Rig::hpf();
    let low = rig.attach(1);
    let high = rig.attach(5);
    rig.submit(low, 1);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "0 hold1");
    // The reports of its going idle and ready many times are lost; the last one counts.
    rig.report(high, |r| (r.submitted, r.launched, r.retired) = (90, 90, 90));
    assert_eq!(rig.orders(), "0 run");
    rig.report(high, |r| (r.submitted, r.launched, r.retired) = (200, 150, 140));
    rig.acknowledge();
    rig.acknowledge();
    assert_eq!(rig.orders(), "0 hold1");
}
