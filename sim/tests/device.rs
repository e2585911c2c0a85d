//! Small timelines of the device model and of host threads, computed by hand.

#[path = "theory/build.rs"]
mod build;

use build::{
    MS, US, at, device, exclusive, locked, once, periodic, prioritised, run_checked, runs,
    scenario, sharing, slow_device, spans, task, us,
};
use xsched_core::cost::Reach;
use xsched_sim::outcome::SpanKind;
use xsched_sim::scenario::{
    DeviceSpec, Dist, LockOrder, ProcessSpec, Scenario, SyncScope, TaskSpec,
};

#[test]
fn streams_take_turns_command_by_command() {
    let tasks = vec![once("a", 3, 10 * US), once("b", 3, 7 * US)];
    let outcome = run_checked(&scenario(device(), tasks), 1);
    assert_eq!(us(runs(&outcome, 0)), [(0, 10), (17, 27), (34, 44)]);
    assert_eq!(us(runs(&outcome, 1)), [(10, 17), (27, 34), (44, 51)]);
    assert_eq!(outcome.tasks[0].latencies_ns, [44 * US]);
    assert_eq!(outcome.tasks[1].latencies_ns, [51 * US]);
    assert_eq!((outcome.devices[0].busy_ns, outcome.devices[0].overhead_ns), (51 * US, 0));
}

#[test]
fn a_stream_that_comes_later_waits_for_its_turn() {
    let late = TaskSpec { start_ns: 5 * US, ..once("c", 2, 2 * US) };
    let tasks = vec![once("a", 2, 10 * US), once("b", 2, 7 * US), late];
    let outcome = run_checked(&scenario(device(), tasks), 1);
    assert_eq!(us(runs(&outcome, 0)), [(0, 10), (19, 29)]);
    assert_eq!(us(runs(&outcome, 1)), [(10, 17), (29, 36)]);
    assert_eq!(us(runs(&outcome, 2)), [(17, 19), (36, 38)]);
}

#[test]
fn an_exclusive_device_belongs_to_a_stream_until_it_has_drained() {
    let tasks = vec![once("a", 3, 10 * US), once("b", 3, 7 * US)];
    let outcome = run_checked(&scenario(exclusive(), tasks), 1);
    assert_eq!(us(runs(&outcome, 0)), [(0, 10), (10, 20), (20, 30)]);
    assert_eq!(us(runs(&outcome, 1)), [(30, 37), (37, 44), (44, 51)]);
}

#[test]
fn an_exclusive_device_goes_on_with_the_stream_that_it_was_taken_from() {
    let urgent = TaskSpec { priority: 1, start_ns: 5 * US, ..once("h", 1, 3 * US) };
    let tasks = vec![once("a", 2, 10 * US), once("b", 2, 7 * US), urgent];
    let outcome = run_checked(&prioritised(exclusive(), 3, tasks), 1);
    assert_eq!(us(runs(&outcome, 2)), [(5, 8)]);
    assert_eq!(us(runs(&outcome, 0)), [(0, 5), (8, 13), (13, 23)]);
    assert_eq!(us(runs(&outcome, 1)), [(23, 30), (30, 37)]);
}

#[test]
fn two_commands_together_run_at_half_speed() {
    let tasks =
        vec![once("a", 1, 100 * US), TaskSpec { start_ns: 50 * US, ..once("b", 1, 100 * US) }];
    let outcome = run_checked(&scenario(sharing(1.0), tasks), 1);
    assert_eq!(us(runs(&outcome, 0)), [(0, 150)]);
    assert_eq!(us(runs(&outcome, 1)), [(50, 200)]);
    assert_eq!(outcome.devices[0].busy_ns, 200 * US);
    assert_eq!(outcome.tasks[0].device_time_ns, 100 * US);
}

#[test]
fn contention_is_what_others_cost() {
    // Together each runs at 1 / 1.5: from 40 on, the 60 that are left take 90. Of the other, 60 are
    // done by then, and the last 40 run alone.
    let tasks =
        vec![once("a", 1, 100 * US), TaskSpec { start_ns: 40 * US, ..once("b", 1, 100 * US) }];
    let outcome = run_checked(&scenario(sharing(0.5), tasks), 1);
    assert_eq!(us(runs(&outcome, 0)), [(0, 130)]);
    assert_eq!(us(runs(&outcome, 1)), [(40, 170)]);
}

#[test]
fn contention_above_one_makes_all_slower_than_one_after_the_other() {
    let tasks = vec![once("a", 1, 100 * US), once("b", 1, 100 * US), once("c", 1, 100 * US)];
    let outcome = run_checked(&scenario(sharing(2.0), tasks), 1);
    for task in 0..3 {
        assert_eq!(us(runs(&outcome, task)), [(0, 500)]);
    }
}

#[test]
fn without_contention_no_task_notices_the_others() {
    let tasks = vec![once("a", 3, 100 * US), once("b", 2, 70 * US)];
    let outcome = run_checked(&scenario(sharing(0.0), tasks), 1);
    assert_eq!(us(runs(&outcome, 0)), [(0, 100), (100, 200), (200, 300)]);
    assert_eq!(us(runs(&outcome, 1)), [(0, 70), (70, 140)]);
}

#[test]
fn gates_cost_device_time_where_they_are_passed() {
    let gated = DeviceSpec { gate_ns: 2 * US, ..device() };
    let tasks = vec![once("a", 3, 10 * US)];
    let outcome = run_checked(&prioritised(gated.clone(), 2, tasks.clone()), 1);
    // There is none in front of a command that is launched into an empty stream.
    assert_eq!(us(runs(&outcome, 0)), [(0, 10), (10, 22), (22, 34)]);
    assert_eq!(outcome.devices[0].overhead_ns, 4 * US);
    assert_eq!(outcome.tasks[0].device_time_ns, 30 * US);
    // Neither level 1 nor a policy that never holds needs any.
    for plain in [prioritised(gated.clone(), 1, tasks.clone()), scenario(gated, tasks)] {
        assert_eq!(run_checked(&plain, 1).devices[0].overhead_ns, 0);
    }
}

#[test]
fn a_gate_follows_after_the_spacing_of_predicted_work() {
    let gated = DeviceSpec { gate_ns: 2 * US, gate_spacing_ns: 25 * US, ..device() };
    let commands = Dist::Constant(10 * US);
    let tasks = vec![TaskSpec { requests: Some(2), commands: 5, command: commands, ..task("a") }];
    let outcome = run_checked(&prioritised(gated, 2, tasks), 1);
    // Before the first command has finished nothing can be predicted: a gate each. After that, two
    // commands of 10 fit into 25.
    let first = [(0, 10), (10, 22), (22, 34), (34, 46), (46, 58)];
    let second = [(58, 68), (68, 78), (78, 90), (90, 100), (100, 112)];
    assert_eq!(us(runs(&outcome, 0)), [first, second].concat());
    assert_eq!(outcome.devices[0].overhead_ns, 12 * US);
}

#[test]
fn a_closed_gate_stops_what_has_not_started() {
    let gated = DeviceSpec { gate_close_ns: 3 * US, ..device() };
    let urgent = TaskSpec { priority: 1, start_ns: 15 * US, ..once("h", 1, 50 * US) };
    let tasks = vec![once("l", 5, 10 * US), urgent];
    let outcome = run_checked(&prioritised(gated, 2, tasks), 1);
    // Closed at 18, while the second command runs; open at 73.
    assert_eq!(us(runs(&outcome, 1)), [(20, 70)]);
    assert_eq!(us(runs(&outcome, 0)), [(0, 10), (10, 20), (73, 83), (83, 93), (93, 103)]);
    assert_eq!(outcome.devices[0].quiet_latency_ns, [5 * US]);
    assert_eq!(outcome.devices[0].preempt_latency_ns, [5 * US]);
}

#[test]
fn a_blocked_queue_finishes_what_is_in_flight() {
    let urgent = TaskSpec { priority: 1, start_ns: 15 * US, ..once("h", 1, 50 * US) };
    let victim = TaskSpec { threshold: 3, batch: 1, ..once("l", 6, 10 * US) };
    let outcome = run_checked(&prioritised(sharing(0.0), 1, vec![victim, urgent]), 1);
    // The second of its commands runs, and two more are in flight; the others wait for 65.
    let parts = [(0, 10), (10, 20), (20, 30), (30, 40), (65, 75), (75, 85)];
    assert_eq!(us(runs(&outcome, 0)), parts);
    assert_eq!(outcome.devices[0].quiet_latency_ns, [25 * US]);
}

#[test]
fn an_interrupted_command_continues_after_saving_and_restoring() {
    let urgent = TaskSpec { priority: 1, start_ns: 100 * US, ..once("h", 1, 20 * US) };
    let tasks = vec![once("l", 1, 1_000 * US), urgent];
    let outcome = run_checked(&prioritised(slow_device(), 3, tasks), 1);
    // Launching takes 3 and 4. The hold closes the gate by 101 and saves until 131; the urgent
    // command is seen to have finished at 159. Then 906 of the victim are left, and a restore of
    // 70.
    assert_eq!(us(runs(&outcome, 1)), [(131, 151)]);
    assert_eq!(us(runs(&outcome, 0)), [(7, 101), (229, 1_135)]);
    assert_eq!(us(spans(&outcome, 0, SpanKind::Save)), [(101, 131)]);
    assert_eq!(us(spans(&outcome, 0, SpanKind::Restore)), [(159, 229)]);
    assert_eq!(outcome.tasks[0].latencies_ns, [(1_135 + 8 + 5) * US]);
    assert_eq!(outcome.tasks[1].latencies_ns, [(151 + 8 + 5 - 100) * US]);
    assert_eq!(outcome.devices[0].overhead_ns, 100 * US);
    assert_eq!(outcome.devices[0].quiet_latency_ns, [31 * US]);
}

#[test]
fn saving_takes_as_long_as_the_context_is_large() {
    let urgent = TaskSpec { priority: 1, start_ns: 100 * US, ..once("h", 1, 20 * US) };
    let tasks = vec![TaskSpec { context: 0.25, ..once("l", 1, 1_000 * US) }, urgent];
    let outcome = run_checked(&prioritised(slow_device(), 3, tasks), 1);
    assert_eq!(us(spans(&outcome, 0, SpanKind::Save)), [(101, 116)]);
    assert_eq!(us(spans(&outcome, 0, SpanKind::Restore)), [(144, 184)]);
    assert_eq!(us(runs(&outcome, 0)), [(7, 101), (184, 184 + 906)]);
}

#[test]
fn a_command_that_never_got_its_turn_back_is_restored_only_once() {
    let low = |name| once(name, 1, 100 * US);
    let rows: Vec<_> = (0..6).map(|i| ((10 + 20 * i) * US, US)).collect();
    let urgent = TaskSpec { priority: 1, requests: Some(6), arrival: at(&rows), ..task("h") };
    let costly = DeviceSpec { save_fixed_ns: 2 * US, restore_fixed_ns: 3 * US, ..device() };
    let outcome = run_checked(&prioritised(costly, 3, vec![low("a"), low("b"), urgent]), 1);
    let parts = |task| runs(&outcome, task).len() as u64 - 1;
    let stops = parts(0) + parts(1);
    assert!(stops >= 6, "{stops}");
    assert_eq!(outcome.devices[0].overhead_ns, stops * 5 * US);
    assert_eq!(outcome.devices[0].busy_ns, (200 + 6) * US + stops * 3 * US);
}

/// A device whose driver stops all queues for each interrupt and each restore.
fn partition(batches: bool) -> DeviceSpec {
    let (save_fixed_ns, restore_fixed_ns) = (10 * US, 20 * US);
    DeviceSpec { save_fixed_ns, restore_fixed_ns, reach: Reach::Device, batches, ..sharing(0.0) }
}

#[test]
fn on_a_partition_the_winner_waits_for_the_whole_call() {
    let context = DeviceSpec {
        save_context_ns: 4 * US,
        restore_context_ns: 2 * US,
        grace_ns: US,
        ..partition(true)
    };
    for (device, suspend, resume) in [(partition(true), 10, 20), (context, 10 + 1 + 4 + 1, 21)] {
        let half = |spec| TaskSpec { context: 0.5, ..spec };
        let urgent = TaskSpec { priority: 1, start_ns: 30 * US, ..half(once("h", 1, 100 * US)) };
        let tasks = vec![half(once("l", 1, 100 * US)), urgent];
        let outcome = run_checked(&prioritised(device, 3, tasks), 1);
        // It has just started when it is taken off with the other one, and is put back.
        assert_eq!(outcome.tasks[1].latencies_ns, [(suspend + 100) * US]);
        assert_eq!(outcome.tasks[0].latencies_ns, [(30 + suspend + 100 + resume + 70) * US]);
        assert_eq!(outcome.devices[0].switch_ns, (suspend + resume) * US);
        assert_eq!(outcome.devices[0].switches, 2);
    }
}

#[test]
fn what_is_held_together_is_one_call_where_the_device_can() {
    for (batches, calls) in [(true, 1), (false, 3)] {
        let urgent = TaskSpec { priority: 1, start_ns: 30 * US, ..once("h", 1, 100 * US) };
        let mut tasks: Vec<_> = ["a", "b", "c"].map(|name| once(name, 1, 100 * US)).into();
        tasks.push(urgent);
        let outcome = run_checked(&prioritised(partition(batches), 3, tasks), 1);
        assert_eq!(outcome.devices[0].switches, 2 * calls, "holds and their ends");
        assert_eq!(outcome.tasks[3].latencies_ns, [(10 * calls + 100) * US]);
        assert_eq!(outcome.devices[0].switch_ns, 30 * calls * US);
    }
}

#[test]
fn saving_stalls_all_queues_of_the_device() {
    let costly = DeviceSpec { save_fixed_ns: 10 * US, ..sharing(1.0) };
    let steady = TaskSpec { priority: 1, start_ns: 30 * US, ..once("s", 1, 100 * US) };
    let urgent = TaskSpec { priority: 1, start_ns: 60 * US, ..once("h", 1, 20 * US) };
    let tasks = vec![once("l", 1, 100 * US), steady, urgent];
    let outcome = run_checked(&prioritised(costly, 3, tasks), 1);
    // 30 of the low one are done when the steady one comes; saving keeps that one from doing
    // anything until 40. It does 20 until 60, shares with the urgent one until 100, and then has 60
    // left.
    assert_eq!(us(runs(&outcome, 0)), [(0, 30), (160, 230)]);
    assert_eq!(us(runs(&outcome, 1)), [(30, 160)]);
    assert_eq!(us(runs(&outcome, 2)), [(60, 100)]);
    assert_eq!(outcome.devices[0].busy_ns, 220 * US);
    assert_eq!(outcome.devices[0].overhead_ns, 10 * US);
}

#[test]
fn equal_queues_share_what_an_urgent_one_leaves_them() {
    // The queue that is let go first must not always be the same one.
    for level in [1, 2, 3] {
        for device in [device(), exclusive()] {
            let endless = Dist::Constant(10 * MS);
            let low = TaskSpec { count: 8, commands: 4, command: endless, ..task("l") };
            let short = Dist::Constant(US);
            let urgent = TaskSpec {
                priority: 1,
                start_ns: 5 * MS,
                arrival: periodic(12 * MS),
                command: short,
                ..task("h")
            };
            let scenario = prioritised(device, level, vec![low, urgent]);
            let scenario = Scenario { duration_ns: Some(8_000 * MS), ..scenario };
            let outcome = run_checked(&scenario, 1);
            for task in &outcome.tasks[..8] {
                let ms = task.device_time_ns / MS;
                assert!((600..1_400).contains(&ms), "level {level}: {} got {ms} ms", task.name);
            }
        }
    }
}

#[test]
fn no_launch_enters_a_full_launch_queue() {
    // A quarter of 64 entries: seven commands with a fence each, one fence more, and one entry
    // that stays free. The others wait in the ring, whatever the threshold.
    let short = DeviceSpec { launch_queue: 64, ..sharing(0.0) };
    let urgent = TaskSpec { priority: 1, start_ns: 5 * US, ..once("h", 1, 500 * US) };
    let victim = TaskSpec { threshold: 64, batch: 8, ..once("l", 20, 10 * US) };
    let outcome = run_checked(&prioritised(short, 1, vec![victim, urgent]), 1);
    assert_eq!(outcome.devices[0].quiet_latency_ns, [65 * US]);
    assert_eq!(runs(&outcome, 0)[7], (505 * US, 515 * US));
}

#[test]
fn a_completion_that_is_seen_late_delays_the_next_launch() {
    let late = DeviceSpec { detect_ns: 100 * US, ..slow_device() };
    let narrow = TaskSpec { threshold: 1, batch: 1, ..once("a", 3, 10 * US) };
    let outcome = run_checked(&scenario(late, vec![narrow]), 1);
    // Launched within 3, there after 4, runs for 10 and is seen after 100.
    assert_eq!(us(runs(&outcome, 0)), [(7, 17), (124, 134), (241, 251)]);
    assert_eq!(outcome.tasks[0].latencies_ns, [(251 + 100 + 5) * US]);
}

#[test]
fn launching_goes_on_while_the_device_works() {
    let outcome = run_checked(&scenario(slow_device(), vec![once("a", 4, 5 * US)]), 1);
    assert_eq!(us(runs(&outcome, 0)), [(7, 12), (12, 17), (17, 22), (22, 27)]);
    // A device that is faster than the host waits for each launch.
    let outcome = run_checked(&scenario(slow_device(), vec![once("a", 4, US)]), 1);
    assert_eq!(us(runs(&outcome, 0)), [(7, 8), (10, 11), (13, 14), (16, 17)]);
}

#[test]
fn dispatching_delays_each_launch() {
    let slow = TaskSpec { dispatch_ns: 2 * US, ..once("a", 3, US) };
    let outcome = run_checked(&scenario(slow_device(), vec![slow]), 1);
    assert_eq!(us(runs(&outcome, 0)), [(9, 10), (14, 15), (19, 20)]);
    assert_eq!(outcome.tasks[0].latencies_ns, [(20 + 8 + 5) * US]);
}

/// Two threads that launch two commands each, within 3, under one lock.
fn under_a_lock(process: ProcessSpec) -> [Vec<(u64, u64)>; 2] {
    let host = DeviceSpec { host_launch_ns: 3 * US, ..sharing(0.0) };
    let thread = |name| TaskSpec { process: Some(0), ..once(name, 2, US) };
    let tasks = vec![thread("a"), thread("b")];
    let scenario = Scenario { processes: vec![process], ..scenario(host, tasks) };
    let outcome = run_checked(&scenario, 1);
    [us(runs(&outcome, 0)), us(runs(&outcome, 1))]
}

#[test]
fn a_fair_lock_goes_round_after_every_launch() {
    let [a, b] = under_a_lock(locked(LockOrder::Fair));
    assert_eq!(a, [(3, 4), (9, 10)]);
    assert_eq!(b, [(6, 7), (12, 13)]);
    let handed = ProcessSpec { lock_handoff_ns: US, ..locked(LockOrder::Fair) };
    let [a, b] = under_a_lock(handed);
    assert_eq!(a, [(3, 4), (11, 12)]);
    assert_eq!(b, [(7, 8), (15, 16)]);
}

#[test]
fn an_unfair_lock_stays_until_a_thread_has_waited_long_enough() {
    let [a, b] = under_a_lock(locked(LockOrder::Unfair { switch_ns: 100 * US }));
    assert_eq!(a, [(3, 4), (6, 7)]);
    assert_eq!(b, [(9, 10), (12, 13)]);
    let [a, b] = under_a_lock(locked(LockOrder::Unfair { switch_ns: 2 * US }));
    assert_eq!(a, [(3, 4), (9, 10)]);
    assert_eq!(b, [(6, 7), (12, 13)]);
}

#[test]
fn a_thread_that_returns_may_need_the_lock() {
    let host = DeviceSpec { host_launch_ns: 3 * US, host_sync_ns: 5 * US, ..sharing(0.0) };
    let returning = TaskSpec { process: Some(0), ..once("a", 1, US) };
    let busy = TaskSpec { process: Some(0), start_ns: US, ..once("b", 10, US) };
    for (on_return, latency_us) in [(false, 9), (true, 33)] {
        let order = LockOrder::Unfair { switch_ns: 100 * US };
        let process = ProcessSpec { lock_on_return: on_return, ..locked(order) };
        let tasks = vec![returning.clone(), busy.clone()];
        let scenario = Scenario { processes: vec![process], ..scenario(host.clone(), tasks) };
        // The other one launches from 3 to 33 without giving way.
        assert_eq!(run_checked(&scenario, 1).tasks[0].latencies_ns, [latency_us * US]);
    }
}

#[test]
fn a_thread_may_need_the_lock_for_a_part_of_its_host_time() {
    let host = DeviceSpec { host_launch_ns: 10 * US, ..sharing(0.0) };
    let thread = |name| TaskSpec { process: Some(0), ..once(name, 10, US) };
    for (lock_percent, latency_us) in [(100, 201), (50, 106), (25, 103)] {
        let process = ProcessSpec { lock_percent, ..locked(LockOrder::Fair) };
        let tasks = vec![thread("a"), thread("b")];
        let scenario = Scenario { processes: vec![process], ..scenario(host.clone(), tasks) };
        let outcome = run_checked(&scenario, 1);
        let longest_ns = outcome.tasks.iter().flat_map(|task| &task.latencies_ns).max();
        // Ten launches of 10 µs each; the second thread waits for the first one's lock once.
        assert!(
            longest_ns.unwrap().abs_diff(latency_us * US) < 6 * US,
            "{lock_percent} {longest_ns:?}"
        );
    }
}

#[test]
fn threads_with_several_requests_on_their_way_return_under_a_lock() {
    for order in [LockOrder::Fair, LockOrder::Unfair { switch_ns: 50 * US }] {
        for outstanding in [1, 2, 5] {
            let thread = |name| TaskSpec {
                process: Some(0),
                outstanding,
                requests: Some(20),
                commands: 10,
                command: Dist::Constant(20 * US),
                ..task(name)
            };
            let process =
                ProcessSpec { lock_handoff_ns: 10 * US, lock_on_return: true, ..locked(order) };
            let tasks = vec![thread("a"), thread("b"), thread("c")];
            let scenario = Scenario { processes: vec![process], ..scenario(slow_device(), tasks) };
            let outcome = run_checked(&scenario, 1);
            for task in &outcome.tasks {
                assert_eq!(task.latencies_ns.len(), 20, "{order:?} {outstanding} {}", task.name);
            }
        }
    }
}

#[test]
fn a_device_wide_wait_is_for_everything_of_the_process() {
    let process = ProcessSpec { lock: None, ..locked(LockOrder::Fair) };
    let waiting = |sync| TaskSpec { process: Some(0), sync, ..once("d", 1, 10 * US) };
    let other = |process, sync| TaskSpec { process, sync, ..once("s", 4, 20 * US) };
    let latency = |tasks| {
        let processes = vec![process.clone()];
        let scenario = Scenario { processes, ..scenario(sharing(0.0), tasks) };
        run_checked(&scenario, 1).tasks[0].latencies_ns.clone()
    };
    let (stream, device) = (SyncScope::Stream, SyncScope::Device);
    assert_eq!(latency(vec![waiting(stream), other(Some(0), stream)]), [10 * US]);
    assert_eq!(latency(vec![waiting(device), other(Some(0), stream)]), [80 * US]);
    assert_eq!(latency(vec![waiting(device), other(Some(0), device)]), [80 * US]);
    assert_eq!(latency(vec![waiting(device), other(None, stream)]), [10 * US]);
}

#[test]
fn a_request_waits_for_what_another_task_has_submitted() {
    let consumer = TaskSpec { after: Some(0), start_ns: 5 * US, ..once("c", 2, 10 * US) };
    let tasks = vec![once("p", 3, 20 * US), consumer];
    let scenario = Scenario { scheduler_latency_ns: 2 * US, ..scenario(slow_device(), tasks) };
    let outcome = run_checked(&scenario, 1);
    // At 5 the producer has submitted two commands. When the scheduler asks for the second, at 9,
    // the third is launched, so the fence goes behind that: it is seen at 75. The report and the
    // order take 2 each, launching 7.
    assert_eq!(us(runs(&outcome, 0)), [(7, 27), (27, 47), (47, 67)]);
    assert_eq!(us(runs(&outcome, 1)), [(86, 96), (96, 106)]);
    assert_eq!(outcome.tasks[1].latencies_ns, [(106 + 8 + 5 - 5) * US]);
}

#[test]
fn every_request_waits_however_many_there_are_and_however_full_the_queue() {
    // The producer submits a command of 100 every 10: what the latest one is keeps changing.
    let rows: Vec<_> = (0..50).map(|i| (i * 10 * US, 100 * US)).collect();
    let producer =
        TaskSpec { requests: Some(50), outstanding: 50, arrival: at(&rows), ..task("p") };
    let rows: Vec<_> = (0..49).map(|i| ((i * 10 + 5) * US, US)).collect();
    for capacity in [2, 3, 1024] {
        let consumer = TaskSpec {
            requests: Some(49),
            outstanding: 49,
            arrival: at(&rows),
            after: Some(0),
            threshold: 1,
            batch: 1,
            capacity,
            ..task("c")
        };
        let outcome = run_checked(&scenario(sharing(0.0), vec![producer.clone(), consumer]), 1);
        let done: Vec<u64> = spans(&outcome, 1, SpanKind::Request).iter().map(|s| s.1).collect();
        // With room for all, request number i waits for command i, which ends at 100 * (i + 1).
        // With less room it comes to wait later, for a later command.
        for (i, &done_ns) in done.iter().enumerate() {
            let earliest_ns = 100 * US * (i as u64 + 1) + US;
            assert!(done_ns >= earliest_ns, "capacity {capacity}: request {i} at {done_ns}");
            assert!(capacity < 1024 || done_ns == earliest_ns, "request {i} at {done_ns}");
        }
        assert_eq!(done.len(), 49);
    }
}

/// When a consumer of high priority is through that waits for a producer of low priority, while
/// a third task always has work.
fn inherited(level: u8, after: Option<usize>) -> u64 {
    let producer = once("p", 4, 10 * US);
    let consumer = TaskSpec { priority: 2, after, start_ns: 5 * US, ..once("c", 1, 10 * US) };
    let hog = TaskSpec { priority: 1, start_ns: US, ..once("hog", 1_000, 10 * US) };
    let tasks = vec![producer, consumer, hog];
    let outcome = run_checked(&prioritised(device(), level, tasks), 1);
    outcome.tasks[1].latencies_ns[0]
}

#[test]
fn what_a_high_priority_waits_for_inherits_it() {
    for level in [1, 2, 3] {
        // What the hog has in flight still runs at level 1; then the four commands of the producer.
        let latency_ns = inherited(level, Some(0));
        assert!(latency_ns <= (16 + 4 + 2) * 10 * US, "level {level}: {latency_ns}");
        assert!(inherited(level, None) < latency_ns, "level {level}: waiting takes time");
    }
}
