//! Queues that wait for each other.

use super::*;

/// Low, middle and high priority, all with work, the high one alone running.
fn three() -> (Rig, QueueId, QueueId, QueueId) {
    let mut rig = Rig::hpf();
    let (low, middle, high) = (rig.attach(1), rig.attach(5), rig.attach(9));
    for queue in [low, middle, high] {
        rig.submit(queue, 5);
    }
    assert_eq!(rig.orders(), "0 hold1, 1 hold1");
    (rig, low, middle, high)
}

fn sorted(orders: &str) -> Vec<&str> {
    let mut orders: Vec<_> = orders.split(", ").collect();
    orders.sort_unstable();
    orders
}

#[test]
fn a_held_queue_inherits_from_who_waits_for_it_and_gives_it_back() {
    let (mut rig, low, middle, high) = three();
    rig.wait(high, event(low, 2));
    assert!(rig.running(low) && !rig.running(middle) && rig.running(high));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 run", "0 watch3"]);
    rig.report(low, |r| (r.launched, r.retired) = (3, 3));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 hold1", "2 reached"]);
    rig.report(high, |r| r.waiting = None);
    assert_eq!(rig.orders(), "");
}

#[test]
fn inheritance_passes_along_a_chain() {
    let (mut rig, low, middle, high) = three();
    rig.wait(middle, event(low, 0));
    assert_eq!(rig.orders(), "0 watch1", "whoever waits is held itself");
    rig.wait(high, event(middle, 1));
    assert!(rig.running(low) && rig.running(middle));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 run", "1 run", "1 watch2"]);
    rig.report(low, |r| (r.launched, r.retired) = (1, 1));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 hold1", "1 reached"]);
    assert!(rig.running(middle), "still waited for");
    rig.report(middle, |r| (r.launched, r.retired, r.waiting) = (2, 2, None));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["1 hold1", "2 reached"]);
}

#[test]
fn inheritance_ends_when_the_waiter_gives_up_or_is_held() {
    let (mut rig, low, _, high) = three();
    rig.wait(high, event(low, 2));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 run", "0 watch3"]);
    rig.report(high, |r| r.waiting = None);
    assert_eq!(rig.orders(), "0 hold1", "the wait was cancelled");
    rig.wait(high, event(low, 2));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 run", "0 watch3"]);
    rig.report(high, |r| r.suspended = true);
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 hold1", "1 run"], "whoever is suspended lends nothing");
    rig.report(high, |r| r.suspended = false);
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 run", "1 hold1"]);
}

#[test]
fn a_user_hold_beats_inheritance() {
    let (mut rig, low, middle, high) = three();
    rig.report(low, |r| r.suspended = true);
    rig.wait(high, event(low, 2));
    rig.orders();
    assert!(rig.running(low), "as far as the scheduler is concerned");
    assert!(!rig.ready(high), "but nothing will come of it for now");
    assert!(rig.running(middle), "so others may use the device");
    rig.report(low, |r| r.suspended = false);
    assert!(rig.ready(high));
    rig.orders();
    assert!(!rig.running(middle));
}

#[test]
fn waiting_for_a_command_that_nobody_has_submitted_claims_nothing() {
    let (mut rig, low, middle, high) = three();
    rig.wait(high, event(low, 7));
    assert!(!rig.ready(high));
    rig.orders();
    assert!(rig.running(middle), "the middle one may be what the submission depends on");
    assert!(rig.running(low), "inherited all the same");
    rig.submit(low, 3);
    assert!(rig.ready(high), "now there is something to wait for");
    assert_eq!(rig.orders(), "1 hold1");
}

#[test]
fn readiness_follows_a_chain() {
    let mut rig = Rig::hpf();
    let (a, b, c) = (rig.attach(1), rig.attach(2), rig.attach(3));
    rig.submit(b, 1);
    rig.submit(c, 1);
    rig.wait(c, event(b, 0));
    rig.wait(b, event(a, 0));
    rig.orders();
    assert!(!rig.ready(b) && !rig.ready(c), "nobody has submitted what all wait for");
    rig.submit(a, 1);
    assert!(rig.ready(a) && rig.ready(b) && rig.ready(c));
    rig.report(a, |r| r.suspended = true);
    assert!(!rig.ready(a) && !rig.ready(b) && !rig.ready(c));
    rig.report(a, |r| (r.suspended, r.launched, r.retired) = (false, 1, 1));
    assert!(!rig.ready(a) && rig.ready(b) && rig.ready(c));
}

#[test]
fn one_watch_for_many_waiters_the_nearest_first() {
    let mut rig = Rig::new();
    let target = rig.attach(0);
    let waiters: Vec<_> = (0..3).map(|_| rig.attach(0)).collect();
    rig.submit(target, 20);
    rig.wait(waiters[0], event(target, 9));
    assert_eq!(rig.orders(), "0 watch10");
    rig.wait(waiters[1], event(target, 4));
    assert_eq!(rig.orders(), "0 watch5");
    rig.wait(waiters[2], event(target, 4));
    assert_eq!(rig.orders(), "");
    rig.report(target, |r| (r.launched, r.retired) = (6, 5));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 watch10", "2 reached", "3 reached"]);
    rig.report(target, |r| (r.launched, r.retired) = (20, 20));
    assert_eq!(rig.orders(), "1 reached");
    rig.report(waiters[0], |r| r.waiting = Some(event(target, 12)));
    assert_eq!(rig.orders(), "1 reached", "reached before it was waited for");
}

#[test]
fn a_wait_that_is_reported_again_is_answered_again() {
    let mut rig = Rig::new();
    let target = rig.attach(0);
    let waiter = rig.attach(0);
    rig.submit(target, 1);
    rig.drain(target);
    rig.wait(waiter, event(target, 0));
    assert_eq!(rig.orders(), "1 reached");
    rig.report(waiter, |r| r.failures += 1);
    assert_eq!(rig.orders(), "1 reached", "the answer may have been lost");
    rig.report(waiter, |r| r.waiting = None);
    assert_eq!(rig.orders(), "");
}

#[test]
fn waiting_for_a_queue_that_goes_ends_with_an_error() {
    let mut rig = Rig::new();
    let target = rig.attach(0);
    let waiter = rig.attach(0);
    let other = rig.attach(0);
    rig.submit(target, 3);
    rig.wait(waiter, event(target, 1));
    rig.wait(other, event(waiter, 5));
    rig.orders();
    rig.detach(target);
    assert_eq!(rig.orders(), "1 gone");
    rig.report(waiter, |r| r.waiting = None);
    rig.wait(waiter, event(target, 2));
    assert_eq!(rig.orders(), "1 gone", "and does not begin again");
    rig.attach(0);
    rig.report(waiter, |r| r.waiting = None);
    rig.wait(waiter, event(target, 0));
    assert_eq!(rig.orders(), "1 gone", "nor for whoever has its place now");
}

#[test]
fn a_waiter_that_goes_lends_nothing_more() {
    let (mut rig, low, middle, high) = three();
    rig.wait(high, event(low, 2));
    rig.orders();
    rig.detach(high);
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 hold1", "1 run"]);
    assert!(rig.running(middle) && !rig.running(low));
    rig.report(low, |r| (r.launched, r.retired) = (5, 5));
    assert_eq!(rig.orders(), "");
}

#[test]
fn of_several_waiters_each_can_leave_the_line() {
    for leaver in 0..3 {
        let mut rig = Rig::new();
        let target = rig.attach(0);
        let waiters: Vec<_> = (0..3).map(|_| rig.attach(0)).collect();
        rig.submit(target, 20);
        for &waiter in &waiters {
            rig.wait(waiter, event(target, 9));
        }
        rig.report(waiters[leaver], |r| r.waiting = None);
        rig.orders();
        rig.drain(target);
        let orders = rig.orders();
        assert_eq!(sorted(&orders).len(), 2);
        assert!(!orders.contains(&format!("{} reached", waiters[leaver].index())));
    }
}

#[test]
fn waiting_for_a_lost_queue_ends() {
    let mut rig = Rig::new();
    let target = rig.attach(0);
    let (near, far) = (rig.attach(0), rig.attach(0));
    rig.submit(target, 3);
    rig.wait(near, event(target, 1));
    rig.wait(far, event(target, 7));
    rig.orders();
    rig.report(target, |r| (r.lost, r.launched, r.retired) = (true, 3, 3));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["1 reached", "2 gone"], "7 will never be submitted");
    rig.report(near, |r| r.waiting = Some(event(target, 9)));
    assert_eq!(rig.orders(), "1 gone");
}

#[test]
fn circles_that_nobody_asked_about_are_broken() {
    let mut rig = Rig::new();
    let queues: Vec<_> = (0..3).map(|_| rig.attach(0)).collect();
    for &queue in &queues {
        rig.submit(queue, 2);
    }
    rig.wait(queues[0], event(queues[1], 1));
    rig.wait(queues[1], event(queues[2], 1));
    rig.orders();
    rig.wait(queues[2], event(queues[0], 1));
    assert_eq!(rig.orders(), "2 gone");
    assert_eq!(rig.s.stats().circles, 1);
    let own = rig.attach(0);
    rig.wait(own, event(own, 4));
    assert_eq!(rig.orders(), "3 gone");
    assert_eq!(rig.s.stats().circles, 2);
}

/// `a` waits at its command 9 for `b`, which waits at its command 3 for something of `a`.
fn crossed(rig: &mut Rig, on: u64) -> (QueueId, QueueId) {
    let (a, b) = (rig.attach(1), rig.attach(1));
    rig.report(a, |r| (r.submitted, r.launched, r.retired) = (20, 9, 4));
    rig.report(b, |r| (r.submitted, r.launched, r.retired) = (20, 3, 3));
    rig.wait(a, event(b, 3));
    rig.wait(b, event(a, on));
    (a, b)
}

#[test]
fn waiting_for_what_is_launched_is_no_circle() {
    let mut rig = Rig::hpf();
    let (a, b) = crossed(&mut rig, 8);
    assert_eq!(rig.s.stats().circles, 0, "8 is before the wait at 9");
    assert!(rig.ready(a) && rig.ready(b));
    let orders = rig.orders();
    assert_eq!(sorted(&orders), ["0 watch9", "1 watch4"]);
    rig.report(b, |r| r.suspended = true);
    assert!(!rig.ready(a) && !rig.ready(b));
    rig.report(b, |r| r.suspended = false);
    assert!(rig.ready(a) && rig.ready(b), "neither waits for the other to become ready");
    rig.report(a, |r| r.retired = 9);
    let orders = rig.orders();
    assert!(orders.contains("1 reached"), "{orders}");

    let mut rig = Rig::hpf();
    crossed(&mut rig, 9);
    assert_eq!(rig.s.stats().circles, 1, "9 is the wait itself");
}

#[test]
fn a_floor_that_moves_takes_inheritance_along() {
    let mut rig = Rig::hpf();
    let on_1 = Attach { device: DeviceId(1), hints: hints(1), ..Attach::default() };
    let (target, waiter) = (rig.attach_as(on_1), rig.attach(5));
    let top_1 = rig.attach_as(Attach { device: DeviceId(1), hints: hints(9), ..Attach::default() });
    let top_0 = rig.attach(9);
    rig.submit(top_1, 1);
    rig.submit(target, 1);
    rig.wait(waiter, event(target, 0));
    rig.orders();
    assert!(rig.running(target), "the waiter runs on its own device");
    rig.submit(top_0, 1);
    rig.orders();
    assert!(!rig.running(waiter) && !rig.running(target));
    rig.drain(top_0);
    rig.orders();
    assert!(rig.running(waiter) && rig.running(target));
}
