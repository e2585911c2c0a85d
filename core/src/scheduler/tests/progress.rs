//! Queues that hold others and retire nothing.

use super::*;

/// A low and a high queue with work, the high one alone running.
fn two() -> (Rig, QueueId, QueueId) {
    let mut rig = Rig::hpf();
    let (low, high) = (rig.attach(1), rig.attach(9));
    rig.submit(low, 5);
    rig.submit(high, 5);
    assert_eq!(rig.orders(), "0 hold1");
    (rig, low, high)
}

impl Rig {
    /// Lets time pass until the scheduler wants to be asked, and answers the orders then.
    fn next_check(&mut self) -> String {
        self.now = self.now.max(self.s.poll_timeout().expect("a check is due"));
        self.s.handle_timeout(self.now);
        self.orders()
    }

    /// Lets checks pass until one has orders other than to watch. How long that took, in ms.
    fn until_passed_over(&mut self, queue: QueueId) -> u64 {
        let from = self.now;
        while self.ready(queue) {
            self.next_check();
        }
        self.now.since(from).as_ns() / 1_000_000
    }

    /// Lets this many milliseconds pass, with the checks that are due.
    fn advance(&mut self, ms: u64) {
        let end = self.now + Duration::from_ms(ms);
        while let Some(due) = self.s.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.s.handle_timeout(self.now);
            self.orders();
        }
        self.now = end;
    }

    fn retire(&mut self, queue: QueueId) {
        self.report(queue, |r| {
            r.retired += 1;
            (r.launched, r.submitted) = (r.launched.max(r.retired), r.submitted.max(r.retired + 1));
        });
    }
}

#[test]
fn one_that_retires_nothing_is_passed_over_until_it_does() {
    let (mut rig, low, high) = two();
    assert_eq!(rig.next_check(), "1 watch1");
    assert_eq!(rig.next_check(), "0 run");
    assert_eq!(rig.now, Instant::ZERO + STALL + STALL.per(2));
    assert!(rig.running(low) && rig.running(high) && !rig.ready(high));
    assert_eq!(rig.s.stats().passed_over, 1);
    rig.acknowledge();
    assert_eq!(rig.orders(), "", "a report without progress changes nothing");
    rig.retire(high);
    assert_eq!(rig.orders(), "0 hold1");
    assert!(rig.ready(high));
}

#[test]
fn one_that_goes_on_is_not_passed_over() {
    let (mut rig, low, high) = two();
    for _ in 0..50 {
        let orders = rig.next_check();
        assert!(orders.starts_with("1 watch"), "{orders}");
        // The first may have retired before it was asked.
        rig.retire(high);
        assert!(rig.orders().starts_with("1 watch"));
        rig.retire(high);
        assert!(rig.orders().is_empty() && !rig.running(low));
    }
    assert_eq!(rig.s.stats().passed_over, 0);
}

#[test]
fn without_others_that_are_held_nothing_is_checked() {
    let (mut rig, low, high) = two();
    rig.drain(low);
    assert_eq!(rig.next_check(), "");
    assert_eq!(rig.s.poll_timeout(), None);
    // One that never runs waits for nothing.
    rig.submit(low, 1);
    rig.s.set_hints(rig.now, low, Hints::with_priority(Priority::NO_EXECUTE)).expect("known");
    rig.orders();
    assert_eq!(rig.next_check(), "");
    assert_eq!((rig.s.poll_timeout(), rig.ready(high)), (None, true));
}

#[test]
fn one_that_was_held_meanwhile_has_its_time_anew() {
    let (mut rig, _, high) = two();
    rig.next_check();
    rig.report(high, |r| r.suspended = true);
    assert_eq!(rig.orders(), "0 run");
    rig.report(high, |r| r.suspended = false);
    assert_eq!(rig.orders(), "0 hold1");
    rig.next_check();
    assert!(rig.ready(high));
    assert!(rig.until_passed_over(high) >= 50);
}

/// A control loop has work for 3 ms of 10, as long as another queue holds the low one.
#[test]
fn one_that_is_held_now_and_then_is_passed_over_as_well() {
    let mut rig = Rig::hpf();
    let (low, high, urgent) = (rig.attach(1), rig.attach(5), rig.attach(9));
    rig.submit(low, 5);
    rig.submit(high, 5);
    rig.orders();
    let mut periods = 0;
    while !rig.running(low) {
        periods += 1;
        assert!(periods < 50, "what it waits for never runs");
        rig.submit(urgent, 1);
        rig.orders();
        rig.advance(3);
        rig.drain(urgent);
        rig.orders();
        rig.advance(7);
    }
    assert_eq!((rig.s.stats().passed_over, rig.running(high)), (1, true));
    assert!(periods >= 7, "it ran for less than the stall time");
}

#[test]
fn one_whose_waits_are_known_is_not_in_question() {
    let (mut rig, low, high) = two();
    rig.submit(low, 100);
    rig.wait(high, event(low, 100));
    rig.orders();
    let middle = rig.attach(5);
    rig.submit(middle, 1);
    rig.orders();
    for _ in 0..8 {
        rig.next_check();
        rig.retire(low);
        assert!(!rig.orders().contains("2 run") && rig.ready(high));
    }
}

#[test]
fn one_that_waits_for_those_it_holds_is_passed_over_sooner_each_time() {
    let (mut rig, _, high) = two();
    let mut times = Vec::new();
    for _ in 0..6 {
        times.push(rig.until_passed_over(high));
        // What it waited for runs at once.
        rig.now += Duration::from_ms(1);
        rig.retire(high);
        rig.orders();
    }
    assert_eq!(times[0], 75);
    assert!(times.windows(2).all(|pair| pair[1] <= pair[0]), "{times:?}");
    assert!(*times.last().expect("six") <= 4, "{times:?}");
    // A long command ends by itself, which says nothing.
    rig.until_passed_over(high);
    rig.now += Duration::from_ms(20);
    rig.retire(high);
    rig.orders();
    assert!((50..=100).contains(&rig.until_passed_over(high)));
}

#[test]
fn a_stall_time_without_end_passes_over_none() {
    let (rig, ..) = two();
    assert!(rig.s.poll_timeout().is_some());
    let mut rig = Rig::hpf();
    assert!(!rig.s.hint_policy(PolicyHint::Stall(Some(Duration::from_us(9)))));
    assert!(rig.s.hint_policy(PolicyHint::Stall(None)));
    let (low, high) = (rig.attach(1), rig.attach(9));
    rig.submit(low, 5);
    rig.submit(high, 5);
    rig.orders();
    assert_eq!(rig.s.poll_timeout(), None);
}

#[test]
fn one_that_is_passed_over_goes_on_although_the_policy_would_hold_it() {
    let (mut rig, _, high) = two();
    rig.until_passed_over(high);
    rig.orders();
    rig.say(high, HOLD);
    assert_eq!(rig.orders(), "");
    rig.retire(high);
    rig.orders();
    assert!(!rig.running(high), "from its progress on the policy decides");
}

#[test]
fn one_that_never_runs_is_held_although_it_is_passed_over() {
    let (mut rig, _, high) = two();
    rig.until_passed_over(high);
    rig.orders();
    rig.s.set_hints(rig.now, high, Hints::with_priority(Priority::NO_EXECUTE)).expect("known");
    assert_eq!(rig.orders(), "1 hold1");
}

#[test]
fn what_held_queues_had_in_flight_is_waited_for() {
    let (mut rig, low, high) = two();
    rig.report(low, |r| (r.submitted, r.launched) = (99, 50));
    rig.acknowledge();
    for _ in 0..4 {
        // Of each answer the first part may be from before.
        rig.next_check();
        rig.retire(low);
        rig.orders();
        rig.retire(low);
        assert!(rig.ready(high), "the device has it still");
    }
    assert!((100..=200).contains(&rig.until_passed_over(high)));
    // A hold that is not in effect yet has nothing stop.
    let (mut rig, low, high) = two();
    rig.report(low, |r| (r.launched, r.hold) = (4, HoldState::Holding));
    (0..10).for_each(|_| drop(rig.next_check()));
    assert!(rig.ready(high));
    rig.acknowledge();
    rig.report(low, |r| r.hold = HoldState::Held(Level::Block));
    assert!(rig.until_passed_over(high) >= 50);
}
