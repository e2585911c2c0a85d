//! The policies of this crate, in a real scheduler, and how they are named.

use xsched_core::hint::{Hints, PolicyHint, Priority};
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::message::{Order, Report};
use xsched_core::policy::Policy;
use xsched_core::scheduler::{Attach, Heap, Scheduler};
use xsched_core::time::{Duration, Instant};
use xsched_policies::{Any, UnknownPolicy};

const NOW: Instant = Instant::ZERO;

fn scheduler(name: &str) -> Scheduler<Any, Heap> {
    Scheduler::new(name.parse().expect("a known name"), Heap::new(4, 2, 0))
}

fn attach(s: &mut Scheduler<Any, Heap>, device: u16, priority: i32) -> QueueId {
    let hints = Hints::with_priority(Priority::new(priority).unwrap());
    s.attach(NOW, Attach { device: DeviceId(device), hints, ..Attach::default() }).unwrap()
}

fn ready(s: &mut Scheduler<Any, Heap>, queue: QueueId) {
    let report = Report { submitted: 1, ..Report::default() };
    s.handle_report(NOW, queue, &report).unwrap();
}

fn orders(s: &mut Scheduler<Any, Heap>) -> usize {
    std::iter::from_fn(|| s.poll_order(NOW)).count()
}

#[test]
fn every_name_is_a_policy_in_any_case() {
    for name in Any::NAMES {
        let policy: Any = name.parse().unwrap();
        assert_eq!(policy.name(), *name);
        assert_eq!(name.to_uppercase().parse::<Any>().unwrap().name(), *name);
        assert!(UnknownPolicy.to_string().contains(name));
    }
    assert_eq!("nonsense".parse::<Any>().unwrap_err(), UnknownPolicy);
    assert!("".parse::<Any>().is_err());
}

#[test]
fn first_come_first_served_orders_nothing() {
    let mut s = scheduler("fcfs");
    for priority in [-256, 0, 9] {
        let queue = attach(&mut s, 0, priority);
        ready(&mut s, queue);
    }
    assert_eq!(orders(&mut s), 0);
    assert!(!s.policy().holds());
    assert!(!s.hint_policy(PolicyHint::K(1)));
}

#[test]
fn highest_priority_first_holds_the_others_of_its_device() {
    let mut s = scheduler("hpf");
    assert!(s.policy().holds());
    assert_eq!(s.policy().progress_every(), None);
    let low = attach(&mut s, 0, 1);
    let high = attach(&mut s, 0, 5);
    let elsewhere = attach(&mut s, 1, 0);
    for queue in [low, high, elsewhere] {
        ready(&mut s, queue);
    }
    let (queue, order) = s.poll_order(NOW).unwrap();
    assert_eq!(queue, low);
    assert!(matches!(order, Order::Hold { .. }));
    assert_eq!(orders(&mut s), 0);
    s.detach(NOW, high).unwrap();
    assert!(matches!(s.poll_order(NOW), Some((queue, Order::Run { .. })) if queue == low));
}

#[test]
fn one_that_is_bound_by_its_host_takes_no_turns_with_those_beside_it() {
    let mut s = scheduler("hpf");
    assert!(s.hint_policy(PolicyHint::Timeslice(Duration::from_ms(10))));
    let [high, low, other] = [5, 1, 1].map(|priority| attach(&mut s, 0, priority));
    let report = Report { submitted: 1, host_bound: true, ..Report::default() };
    s.handle_report(NOW, high, &report).unwrap();
    ready(&mut s, low);
    ready(&mut s, other);
    for ms in 0..50 {
        let now = NOW + Duration::from_ms(ms);
        s.handle_timeout(now);
        while s.poll_order(now).is_some() {}
        let runs = [high, low, other].map(|queue| s.table().get(queue).unwrap().running);
        assert!(runs[0] && (runs[1] ^ runs[2]), "{runs:?} after {ms} ms");
    }
}

#[test]
fn policies_can_be_switched_while_they_work() {
    let mut s = scheduler("fcfs");
    let low = attach(&mut s, 0, 1);
    let high = attach(&mut s, 0, 5);
    ready(&mut s, low);
    ready(&mut s, high);
    assert_eq!(orders(&mut s), 0);
    assert_eq!(s.set_policy("hpf".parse().unwrap()).name(), "fcfs");
    assert!(s.table().get(low).unwrap().running, "at the next poll");
    assert_eq!(orders(&mut s), 1);
    assert!(!s.table().get(low).unwrap().running);
    s.set_policy("fcfs".parse().unwrap());
    assert_eq!(orders(&mut s), 1);
    assert!(s.table().get(low).unwrap().running);
}
