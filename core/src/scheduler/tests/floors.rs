//! Highest priority first, through the floor that a policy sets per device.

use super::*;

#[test]
fn the_highest_ready_priority_runs_and_ties_run_together() {
    let mut rig = Rig::hpf();
    let low = rig.attach(1);
    let high = rig.attach(5);
    let other_high = rig.attach(5);
    for queue in [low, high, other_high] {
        rig.submit(queue, 1);
    }
    assert_eq!(rig.orders(), "0 hold1");
    rig.drain(high);
    assert_eq!(rig.orders(), "", "the tie still has work");
    rig.drain(other_high);
    assert_eq!(rig.orders(), "0 run");
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "0 hold1");
}

#[test]
fn an_idle_device_lets_every_queue_run() {
    let mut rig = Rig::hpf();
    let queues: Vec<_> = [-255, 0, 255].map(|p| rig.attach(p)).into();
    assert_eq!(rig.orders(), "");
    rig.submit(queues[2], 1);
    assert_eq!(rig.orders().split(", ").count(), 2);
    rig.drain(queues[2]);
    assert_eq!(rig.orders().split(", ").count(), 2);
    assert!(queues.iter().all(|&q| rig.running(q)));
}

#[test]
fn no_execute_never_runs_and_never_holds_others() {
    let mut rig = Rig::hpf();
    let never = rig.attach(-256);
    let low = rig.attach(-255);
    assert_eq!(rig.orders(), "0 hold1", "not even on an idle device");
    rig.submit(never, 1);
    rig.submit(low, 1);
    assert_eq!(rig.orders(), "");
    rig.drain(low);
    assert_eq!(rig.orders(), "");
    rig.s.set_hints(rig.now, never, hints(-255)).unwrap();
    assert_eq!(rig.orders(), "0 run");
    rig.s.set_hints(rig.now, never, hints(-256)).unwrap();
    assert_eq!(rig.orders(), "0 hold1");
}

#[test]
fn devices_do_not_disturb_each_other() {
    let mut rig = Rig::hpf();
    let on = |device, priority| Attach {
        device: DeviceId(device),
        hints: hints(priority),
        ..Attach::default()
    };
    let high_0 = rig.attach_as(on(0, 9));
    let low_0 = rig.attach_as(on(0, 1));
    let low_1 = rig.attach_as(on(1, 1));
    let high_1 = rig.attach_as(on(1, 9));
    rig.submit(high_0, 1);
    assert_eq!(rig.orders(), "1 hold1");
    rig.submit(high_1, 1);
    rig.submit(low_0, 1);
    rig.submit(low_1, 1);
    assert_eq!(rig.orders(), "2 hold1");
    rig.drain(high_0);
    assert_eq!(rig.orders(), "1 run");
}

#[test]
fn idle_queues_are_held_too_and_stay_held_while_they_come_and_go() {
    let mut rig = Rig::hpf();
    let low = rig.attach(1);
    let high = rig.attach(5);
    rig.submit(high, 10);
    assert_eq!(rig.orders(), "0 hold1", "so that its first command does not slip through");
    for _ in 0..3 {
        rig.submit(low, 1);
        assert_eq!(rig.orders(), "", "the verdict is in force already");
        rig.drain(low);
        assert_eq!(rig.orders(), "");
    }
}

#[test]
fn a_new_queue_is_held_before_its_first_command() {
    let mut rig = Rig::hpf();
    let high = rig.attach(5);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "");
    let low = rig.attach(1);
    assert!(!rig.running(low), "at once");
    assert_eq!(rig.orders(), "1 hold1");
    let higher = rig.attach(9);
    assert_eq!(rig.orders(), "", "an idle queue takes nothing from other queues");
    rig.submit(higher, 1);
    assert_eq!(rig.orders(), "0 hold1");
}

#[test]
fn hints_take_effect_at_the_next_poll() {
    let mut rig = Rig::hpf();
    let a = rig.attach(1);
    let b = rig.attach(2);
    rig.submit(a, 1);
    rig.submit(b, 1);
    assert_eq!(rig.orders(), "0 hold1");
    rig.s.set_hints(rig.now, a, hints(3)).unwrap();
    let mut orders: Vec<_> = rig.orders().split(", ").map(String::from).collect();
    orders.sort();
    assert_eq!(orders, ["0 run", "1 hold1"]);
    rig.s.set_hints(rig.now, b, hints(3)).unwrap();
    assert_eq!(rig.orders(), "1 run", "a tie");
    rig.s.set_hints(rig.now, b, hints(3)).unwrap();
    assert_eq!(rig.orders(), "");
}

#[test]
fn what_is_suspended_or_lost_claims_nothing() {
    let mut rig = Rig::hpf();
    let low = rig.attach(1);
    let high = rig.attach(5);
    rig.submit(low, 1);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "0 hold1");
    rig.report(high, |r| r.suspended = true);
    assert_eq!(rig.orders(), "0 run");
    rig.report(high, |r| r.suspended = false);
    assert_eq!(rig.orders(), "0 hold1");
    rig.report(high, |r| r.lost = true);
    assert_eq!(rig.orders(), "0 run");
    assert!(!rig.ready(high));
}

#[test]
fn a_policy_switch_takes_effect_at_the_next_poll_and_keeps_hints() {
    let mut rig = Rig::new();
    let low = rig.attach(1);
    let high = rig.attach(5);
    rig.submit(low, 1);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "");
    rig.s.table().state(low).unwrap().set(FULL);
    let hpf = Puppet::default();
    hpf.0.borrow_mut().hpf = true;
    rig.s.set_policy(hpf.clone());
    assert_eq!(rig.s.table().state::<Full>(low).unwrap().get(), EMPTY, "the state is a policy's");
    assert_eq!(rig.orders(), "0 hold1");
    assert_eq!(rig.s.table().get(high).unwrap().hints, hints(5));
    let old = rig.s.set_policy(Puppet::default());
    assert!(old.0.borrow().hpf);
    assert_eq!(rig.orders(), "0 run");
}

#[test]
fn a_policy_switch_takes_back_the_verdicts_of_the_old_one() {
    let mut rig = Rig::new();
    let queue = rig.attach(0);
    rig.say(queue, HOLD);
    assert_eq!(rig.orders(), "0 hold1");
    rig.s.set_policy(Puppet::default());
    assert_eq!(rig.s.table().verdict(queue), Some(Verdict::Run));
    assert_eq!(rig.orders(), "0 run");
}

#[test]
fn neighbouring_priorities_are_all_held_and_released() {
    let mut rig = Rig::hpf();
    for priority in [1, 2, 3, 4, 4, 5] {
        rig.attach(priority);
    }
    let high = rig.attach(6);
    rig.submit(high, 1);
    assert_eq!(rig.orders().matches("hold1").count(), 6);
    rig.drain(high);
    assert_eq!(rig.orders().matches("run").count(), 6);
}

#[test]
fn queues_of_one_priority_can_leave_in_any_order() {
    for first in 0..3 {
        for second in 0..2 {
            let mut rig = Rig::hpf();
            let mut low: Vec<_> = (0..3).map(|_| rig.attach(1)).collect();
            let high = rig.attach(2);
            rig.detach(low.remove(first));
            rig.s.set_hints(rig.now, low.remove(second), hints(0)).unwrap();
            rig.submit(high, 1);
            rig.orders();
            assert!(!rig.running(low[0]));
            rig.drain(high);
            rig.orders();
            assert!(rig.running(low[0]));
        }
    }
}

#[test]
fn switching_to_a_policy_that_decides_the_same_orders_nothing() {
    let mut rig = Rig::hpf();
    let low = rig.attach(1);
    let high = rig.attach(5);
    rig.submit(low, 1);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "0 hold1");
    let again = Puppet::default();
    again.0.borrow_mut().hpf = true;
    rig.s.set_policy(again);
    assert_eq!(rig.orders(), "");
}

#[test]
fn a_floor_can_be_lifted() {
    let mut rig = Rig::hpf();
    let low = rig.attach(1);
    let high = rig.attach(5);
    let never = rig.attach(-256);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "2 hold1, 0 hold1");
    rig.s.set_policy(Puppet::default());
    assert!(rig.running(low) && rig.running(never));
    let mut orders: Vec<_> = rig.orders().split(", ").map(String::from).collect();
    orders.sort();
    assert_eq!(orders, ["0 run", "2 run"]);
}

#[test]
fn those_that_have_work_are_told_first() {
    let mut rig = Rig::hpf();
    for _ in 0..3 {
        rig.attach(0);
    }
    let [low, other_low, high] = [-1, -2, 5].map(|priority| rig.attach(priority));
    [low, other_low].into_iter().for_each(|queue| rig.submit(queue, 1));
    assert_eq!(rig.orders(), "4 hold1");
    rig.submit(high, 1);
    let orders = rig.orders();
    assert!(orders.starts_with("3 hold1, "), "{orders}");
    assert_eq!(orders.split(", ").count(), 4, "{orders}");
    rig.drain(high);
    let orders = rig.orders();
    assert!(orders.starts_with("3 run, "), "{orders}");
    assert_eq!(orders.split(", ").count(), 4, "and the idle ones: {orders}");
    rig.drain(low);
    assert_eq!(rig.orders(), "4 run");
    rig.submit(high, 1);
    rig.submit(low, 1);
    let orders = rig.orders();
    let [first, second] = [0, 1].map(|at| orders.split(", ").nth(at).expect("an order"));
    assert!(first.starts_with(['3', '4']) && second.starts_with(['3', '4']), "{orders}");
}
