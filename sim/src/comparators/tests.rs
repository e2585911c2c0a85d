use super::*;
use crate::report::samples::task_spec;

const MS: u64 = 1_000_000;

fn task(name: &str, share: Option<u8>, priority: i16) -> TaskSpec {
    TaskSpec { share, priority, device: 0, process: None, ..task_spec(name) }
}

#[test]
fn processes_are_counted_and_tasks_without_one_are_their_own() {
    let named = |process| TaskSpec { process, share: Some(30), ..task("t", None, 0) };
    let tasks = [named(Some(1)), named(None), named(Some(1)), named(None)];
    assert_eq!(clients(&tasks), [1, 3, 1, 5]);
    let shares = shares(&tasks, &clients(&tasks), 0);
    assert_eq!(shares, [None, Some(30), None, Some(30), None, Some(30)]);
}

#[test]
fn a_quota_is_renewed_but_not_saved_up_and_overdrafts_are_paid() {
    let parameters = Comparators { vcuda_window_ns: 10 * MS, ..Comparators::default() };
    let tasks = [task("a", Some(50), 0), task("b", Some(0), 0)];
    let mut gate = vcuda::Quotas::new(&parameters, &tasks);
    // Ten windows of nothing leave one quota of 5 ms.
    assert_eq!(gate.admit(100 * MS, 0, 1), Admit::Now);
    gate.launched(100 * MS, 0, 5 * MS);
    assert_eq!(gate.admit(101 * MS, 0, 1), Admit::At(110 * MS));
    assert_eq!(gate.admit(110 * MS, 0, 1), Admit::Now);
    gate.launched(110 * MS, 0, 20 * MS);
    // 15 ms too much: three windows pay for it, and only the fourth has something left.
    assert_eq!(gate.admit(111 * MS, 0, 1), Admit::At(150 * MS));
    assert_eq!(gate.admit(140 * MS, 0, 1), Admit::At(150 * MS));
    assert_eq!(gate.admit(150 * MS, 0, 1), Admit::Now);
    gate.launched(150 * MS, 1, 1);
    assert_eq!(gate.admit(150 * MS, 1, 1), Admit::Later, "a share of 0 is never renewed");
}

#[test]
fn rate_control_learns_grows_and_cuts() {
    let parameters =
        Comparators { tgs_interval_ns: 100 * MS, tgs_window_ns: 10 * MS, ..Comparators::default() };
    let tasks = [task("production", None, 1), task("opportunistic", None, 0)];
    let mut gate = tgs::RateControl::new(&parameters, &tasks);
    assert_eq!(gate.admit(0, 1, 1), Admit::Now, "nobody else is there");
    gate.launched(0, 0, 50 * MS);
    assert_eq!(gate.admit(MS, 1, 1), Admit::At(100 * MS), "the rate is being learnt");
    gate.launched(150 * MS, 0, 50 * MS);
    // From 200 ms on a hundredth of each window is allowed: 0.1 ms of 10 ms.
    assert_eq!(gate.admit(200 * MS, 1, 1), Admit::Now);
    gate.launched(200 * MS, 1, MS / 10);
    assert_eq!(gate.admit(201 * MS, 1, 1), Admit::At(210 * MS));
    // The production rate stays, so it becomes 0.15 ms.
    gate.launched(250 * MS, 0, 50 * MS);
    for at_ms in [210, 220, 230] {
        gate.launched(at_ms * MS, 1, MS / 2);
    }
    assert_eq!(gate.admit(300 * MS, 1, 1), Admit::Now);
    gate.launched(300 * MS, 1, MS / 8);
    assert_eq!(gate.admit(300 * MS, 1, 1), Admit::Now, "0.125 of 0.15 ms are used");
    gate.launched(300 * MS, 1, MS / 8);
    assert_eq!(gate.admit(301 * MS, 1, 1), Admit::At(310 * MS));
    // It drops by a tenth: back to 0.1 ms.
    gate.launched(350 * MS, 0, 45 * MS);
    assert_eq!(gate.admit(400 * MS, 1, 1), Admit::Now);
    gate.launched(400 * MS, 1, MS / 8);
    assert_eq!(gate.admit(400 * MS, 1, 1), Admit::At(410 * MS));
    // Nothing for a whole interval: the device is free.
    assert_eq!(gate.admit(500 * MS, 1, 1), Admit::Now);
    assert_eq!(gate.admit(500 * MS, 0, 1), Admit::Now, "production always may");
}

#[test]
fn paella_dispatches_the_shortest_of_those_that_wait() {
    let parameters = Comparators { paella_in_flight: 1, ..Comparators::default() };
    let tasks = [task("a", None, 0), task("b", None, 0), task("c", None, 0)];
    let mut gate = paella::Dispatcher::new(&parameters, &tasks);
    assert_eq!(gate.admit(0, 0, 9), Admit::Now);
    gate.launched(0, 0, 100);
    assert_eq!(gate.admit(0, 0, 8), Admit::Later);
    assert_eq!(gate.admit(0, 1, 5), Admit::Later);
    assert_eq!(gate.admit(0, 2, 7), Admit::Later);
    assert_eq!(gate.woken(), None, "no room");
    gate.retired(0, 1);
    assert_eq!(gate.woken(), Some(1));
    assert_eq!(gate.admit(0, 1, 5), Admit::Now);
    gate.launched(0, 1, 100);
    gate.retired(1, 1);
    assert_eq!(gate.woken(), Some(2), "the next is not asked for twice");
}

#[test]
fn requests_go_by_priority_and_then_by_arrival() {
    let tasks = [task("a", None, 0), task("b", None, 0), task("c", None, 0), task("d", None, 7)];
    let mut gate = triton::Requests::new(&Comparators::default(), &tasks);
    assert!(gate.admit_request(0, 0));
    assert!(!gate.admit_request(2, 1));
    assert!(!gate.admit_request(1, 2));
    assert!(!gate.admit_request(3, 3));
    assert_eq!(gate.next_request(), None);
    gate.request_over(0);
    assert!(!gate.admit_request(0, 4), "others are before it");
    assert_eq!(gate.next_request(), Some(3));
    assert!(gate.admit_request(3, 3));
    gate.request_over(3);
    assert_eq!(gate.next_request(), Some(2), "it came first");
}

#[test]
fn a_task_catches_up_when_it_has_the_device_to_itself() {
    let parameters =
        Comparators { paella_in_flight: 1, paella_deficit_ns: 90, ..Comparators::default() };
    let tasks = [task("long", None, 0), task("short", None, 0)];
    let mut gate = paella::Dispatcher::new(&parameters, &tasks);
    gate.launched(0, 1, 100);
    // Both want to go on when the kernel of one is over: who may?
    let contend = |gate: &mut paella::Dispatcher, over| {
        gate.admit(0, 0, 1_000);
        gate.admit(0, 1, 1);
        gate.retired(over, 1);
        let next = gate.woken().expect("there is room and somebody waits");
        gate.launched(0, next, 100);
        next
    };
    assert_eq!(contend(&mut gate, 1), 1, "it is shorter; the other is behind by 50 now");
    assert_eq!(contend(&mut gate, 1), 1, "which is not too much, but 100 is");
    assert_eq!(contend(&mut gate, 1), 0);
    assert_eq!(contend(&mut gate, 0), 1, "behind by 50 it waits again, for 50 more");
    // Only the long one wants to go on.
    gate.retired(1, 1);
    assert_eq!(gate.woken(), Some(0));
    gate.launched(0, 0, 100);
    assert_eq!(contend(&mut gate, 0), 1);
    assert_eq!(contend(&mut gate, 1), 1, "it is behind by no more than 50");
}
