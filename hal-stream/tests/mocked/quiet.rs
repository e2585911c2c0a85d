//! When nothing of a held queue runs.

use super::*;

/// Returns whether the queue is quiet, a moment after what came before.
fn is_quiet(queue: &mut Queue) -> Option<bool> {
    // By the host's clock: events are seen a little late.
    thread::sleep(Duration::from_micros(20));
    queue.preempt.is_quiet().expect("an answer")
}

fn hold(queue: &mut Queue) {
    queue.preempt.step(Step::Deactivate).expect("a step");
}

fn release(queue: &mut Queue) {
    queue.preempt.step(Step::Reactivate).expect("a step");
}

fn launch_told(queue: &mut Queue, first: u64, count: u64, ns: u64) {
    for n in first..first + count {
        queue.submit.launch(CmdId(n), &command(ns).expected_ns(ns), true).expect("a launch");
    }
}

#[test]
fn it_is_when_what_is_in_front_of_the_next_gate_has_run() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    launch_told(&mut queue, 0, 4, 70 * US);
    assert_eq!(is_quiet(&mut queue), Some(false), "it is not held");
    hold(&mut queue);
    assert_eq!(is_quiet(&mut queue), Some(false));
    device.api().pass(209 * US);
    assert_eq!(is_quiet(&mut queue), Some(false), "the third runs");
    device.api().pass(US);
    assert_eq!(is_quiet(&mut queue), Some(true));
    // What is launched now is behind the gate, and behind one of its own.
    launch_told(&mut queue, 4, 1, 70 * US);
    device.api().pass(10_000 * US);
    assert_eq!((is_quiet(&mut queue), device.api().ran()), (Some(true), 3));
    release(&mut queue);
    assert_eq!(is_quiet(&mut queue), Some(false));
    device.api().pass(10 * US);
    hold(&mut queue);
    assert_eq!(is_quiet(&mut queue), Some(false), "it has passed the gate");
    device.api().pass(60 * US);
    assert_eq!((is_quiet(&mut queue), device.api().ran()), (Some(true), 4));
}

#[test]
fn with_no_gate_in_front_it_is_when_all_has_retired() {
    for sees_ends in [false, true] {
        let mut device = device(Nature { sees_ends, ..Nature::default() });
        let mut queue = open(&mut device, 200 * US);
        launch_told(&mut queue, 0, 1, 70 * US);
        hold(&mut queue);
        device.api().pass(69 * US);
        assert_eq!((poll(&mut queue), is_quiet(&mut queue)), (None, Some(false)));
        device.api().pass(US);
        // By the end of the stream, or else only once it has been seen to retire.
        assert_eq!(is_quiet(&mut queue), Some(sees_ends));
        assert!(poll(&mut queue).is_some());
        assert_eq!(is_quiet(&mut queue), Some(true));
    }
}

#[test]
fn it_is_not_while_a_launch_is_under_way_that_began_before_the_hold() {
    let mut device = device(Nature::default());
    let Queue { mut submit, mut preempt, .. } = open(&mut device, 200 * US);
    let barrier = Arc::new(Barrier::new(2));
    let (api, there) = (device.clone(), Arc::clone(&barrier));
    let slow = StreamCommand::new(move |stream| {
        there.wait();
        there.wait();
        // SAFETY: the stream is the queue's.
        unsafe { api.api().launch_native(&(70 * US), stream) }
    });
    thread::scope(|scope| {
        let launching = scope.spawn(move || submit.launch(CmdId(0), &slow, true));
        // It has found the gate open, and has not put the command into the stream.
        barrier.wait();
        preempt.step(Step::Deactivate).expect("a step");
        thread::sleep(Duration::from_micros(50));
        let quiet = preempt.is_quiet().expect("an answer");
        // Asserted later, so that the launch ends in any case.
        barrier.wait();
        launching.join().expect("no panic").expect("a launch");
        assert_eq!(quiet, Some(false), "the launch is under way");
    });
    assert_eq!(preempt.is_quiet().expect("an answer"), Some(false), "the command runs");
}

#[test]
fn it_is_not_while_gates_are_forced_open() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 0);
    launch_told(&mut queue, 0, 3, 70 * US);
    hold(&mut queue);
    device.api().pass(70 * US);
    assert_eq!(is_quiet(&mut queue), Some(true));
    device.with_gates_open(|| {
        assert_eq!(is_quiet(&mut queue), Some(false));
        device.api().pass(10 * US);
    });
    assert_eq!(is_quiet(&mut queue), Some(false), "the second passed its gate");
    device.api().pass(60 * US);
    assert_eq!((is_quiet(&mut queue), device.api().ran()), (Some(true), 2));
}

#[test]
fn a_gate_without_events_makes_it_unknown() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 0);
    launch_told(&mut queue, 0, 2, 70 * US);
    device.api().fail_all(Some("record"));
    let told = command(70 * US).expected_ns(70 * US);
    queue.submit.launch(CmdId(2), &told, false).expect("a launch");
    device.api().heal();
    queue.submit.launch(CmdId(3), &told, true).expect("a launch");
    device.api().pass(100 * US);
    hold(&mut queue);
    device.api().pass(40 * US);
    assert_eq!(is_quiet(&mut queue), None, "it waits at the third gate, or runs what follows");
    release(&mut queue);
    device.api().pass(10 * US);
    hold(&mut queue);
    assert_eq!(is_quiet(&mut queue), None);
    device.api().pass(60 * US);
    assert_eq!((is_quiet(&mut queue), device.api().ran()), (Some(true), 3));
}

#[test]
fn a_driver_that_cannot_be_asked_is_an_error() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 0);
    launch_told(&mut queue, 0, 2, 70 * US);
    hold(&mut queue);
    thread::sleep(Duration::from_micros(20));
    device.api().fail_all(Some("query"));
    assert!(queue.preempt.is_quiet().is_err());
}

#[test]
fn a_queue_without_gates_cannot_tell() {
    let mut device = device(Nature::default());
    let config = StreamConfig::default().level_max(Level::Block);
    let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
    assert_eq!(queue.preempt.is_quiet().expect("an answer"), None);
}

/// Events beside gates are recorded again and again.
#[test]
fn gates_make_few_events() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 0);
    let mut most = 0;
    for round in 0..100 {
        launch_told(&mut queue, 8 * round, 8, US);
        device.api().pass(100 * US);
        assert!(poll(&mut queue).is_some());
        let events = device.api().alive().1;
        most = if round < 2 { events } else { most };
        assert!(events <= most, "{events} after {most}");
    }
    drop(queue);
    drop(open(&mut device, 0));
    assert_eq!(device.api().alive(), (0, 0, 1));
}

/// Holds at any time, with commands launched meanwhile.
#[test]
fn nothing_runs_in_a_quiet_queue_whatever_happens() {
    for seed in 0..200_u64 {
        let mut draws = seed;
        let mut draw = |below: u64| {
            draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (draws >> 33) % below
        };
        let mut device = device(Nature { sees_ends: draw(2) == 0, ..Nature::default() });
        let mut queue = open(&mut device, 150 * US * draw(3));
        let (mut n, mut upto) = (0, 0);
        for _ in 0..12 {
            let mut launch = |queue: &mut Queue, most: u64, fences: u64| {
                for _ in 0..most.min(24 + upto - n) {
                    let ns = US + 1_000 * (n % 7) * (n % 11);
                    let told = command(ns).expected_ns(ns);
                    queue.submit.launch(CmdId(n), &told, n % fences == 0).expect("a launch");
                    n += 1;
                }
            };
            launch(&mut queue, draw(24), 3);
            device.api().pass(draw(400) * US);
            hold(&mut queue);
            launch(&mut queue, draw(2) * draw(4), 1);
            if n > upto {
                // As a waiter asks for it: commands that no gate follows are seen by a fence.
                queue.submit.fence(CmdId(n - 1)).expect("a fence");
            }
            let mut looks = 0;
            while is_quiet(&mut queue) != Some(true) {
                device.api().pass(1 + draw(30) * US);
                upto = poll(&mut queue).map_or(upto, |(upto, _)| upto);
                looks += 1;
                assert!(looks < 1_000, "seed {seed}: it is never quiet");
            }
            let ran = device.api().ran();
            device.api().pass(50_000 * US);
            assert_eq!(device.api().ran(), ran, "seed {seed}: commands of a quiet queue");
            release(&mut queue);
        }
    }
}
