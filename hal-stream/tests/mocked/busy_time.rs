//! The device time that a queue tells of its commands.

use super::*;

#[test]
fn it_adds_up_and_idle_time_is_none() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    let (mut sum, mut n) = (0, 0);
    for round in 1..=20 {
        launch(&mut queue, n, round, 100 * US);
        n += round;
        // Looks at odd times.
        while let Some(told) = {
            device.api().pass(70 * US);
            let told = poll(&mut queue);
            let over = told.is_some_and(|(upto, _)| upto == n);
            sum += told.map_or(0, |(_, busy)| busy);
            (!over).then_some(told)
        } {
            assert!(told.is_none_or(|(upto, _)| upto < n));
        }
        assert_eq!(sum, n * 100 * US, "after {round} rounds");
        device.api().pass(5_000 * US);
        assert_eq!(poll(&mut queue), None);
    }
}

#[test]
fn it_counts_from_the_start_of_the_first_after_idleness() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    launch(&mut queue, 0, 1, 300 * US);
    device.api().pass(299 * US);
    assert_eq!(poll(&mut queue), None);
    device.api().pass(10_000 * US);
    assert_eq!(poll(&mut queue), Some((1, 300 * US)));
    // What was not looked at in time is not idle time: the stream was empty meanwhile.
    launch(&mut queue, 1, 2, 50 * US);
    device.api().pass(10_000 * US);
    assert_eq!(poll(&mut queue), Some((3, 100 * US)));
}

#[test]
fn one_fence_may_cover_many_commands() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    for n in 0..8 {
        queue.submit.launch(CmdId(n), &command(20 * US), n % 4 == 3).expect("a launch");
    }
    device.api().pass(100 * US);
    let first = poll(&mut queue).expect("four have retired");
    device.api().pass(60 * US);
    let second = poll(&mut queue).expect("all have retired");
    assert_eq!((first.0, second.0, first.1 + second.1), (4, 8, 160 * US));
}

#[test]
fn commands_without_a_fence_are_covered_by_one_that_is_put_later() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    for n in 0..3 {
        queue.submit.launch(CmdId(n), &command(20 * US), false).expect("a launch");
    }
    device.api().pass(1_000 * US);
    assert_eq!(poll(&mut queue), None);
    queue.submit.fence(CmdId(2)).expect("a fence");
    // Each was timed by itself, as nothing was known of its kind.
    assert_eq!(poll(&mut queue), Some((3, 60 * US)));
    for n in 3..6 {
        queue.submit.launch(CmdId(n), &command(20 * US), false).expect("a launch");
    }
    device.api().pass(1_000 * US);
    queue.submit.fence(CmdId(5)).expect("a fence");
    // Counted to the fence, since nothing tells when they ended.
    assert_eq!(poll(&mut queue), Some((6, 1_000 * US)));
}

/// A launch that fails leaves no time behind that would count for the next.
#[test]
fn time_after_a_launch_that_failed_is_not_counted() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    device.api().fail_all(Some("launch_native"));
    let failed = queue.submit.launch(CmdId(0), &command(20 * US), true);
    assert!(matches!(failed, Err(StreamError::Driver { .. })), "{failed:?}");
    device.api().heal();
    device.api().pass(10_000 * US);
    launch(&mut queue, 1, 1, 20 * US);
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((2, 20 * US)));
}

#[test]
fn time_behind_a_closed_gate_is_not_counted() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 0);
    let told = command(100 * US).expected_ns(100 * US);
    queue.submit.launch(CmdId(0), &told, true).expect("a launch");
    queue.preempt.step(Step::Deactivate).expect("a step");
    queue.submit.launch(CmdId(1), &told, true).expect("a launch");
    let held = Instant::now();
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((1, 100 * US)));
    thread::sleep(Duration::from_millis(3));
    // The device's clock as far as the host's, and no further.
    device.api().pass(2_000 * US);
    assert_eq!(poll(&mut queue), None);
    queue.preempt.step(Step::Reactivate).expect("a step");
    assert!(held.elapsed() >= Duration::from_millis(3));
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((2, 100 * US)));
}

/// Bursts of commands looks, fences and pauses in any order, on devices of both sorts.
#[test]
fn device_time_adds_up_whatever_happens() {
    for seed in 0..400_u64 {
        let mut draws = seed;
        let mut draw = |below: u64| {
            draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (draws >> 33) % below
        };
        let sees_ends = seed % 2 == 0;
        let mut device = device(Nature { sees_ends, ..Nature::default() });
        // Shorter than what the host takes, so that by its clock everything may have ended.
        let mut queue = open(&mut device, 1_000);
        let (mut n, mut ran, mut told, mut upto) = (0, 0, 0, 0);
        for _ in 0..80 {
            let choice = draw(4);
            let look = choice == 0 || !sees_ends;
            while look && let Some((to, busy)) = poll(&mut queue) {
                told += busy;
                assert!(to > upto, "seed {seed}: {to} after {upto}");
                upto = to;
            }
            match choice {
                1 | 2 => {
                    let burst = 1 + draw(4) * draw(2);
                    for left in (0..burst).rev() {
                        let kind = draw(3);
                        let command = command(100 * (kind + 1)).of_kind(kind as u32);
                        // Nothing comes later without a fence.
                        let fence = left == 0 || draw(2) == 0;
                        queue.submit.launch(CmdId(n), &command, fence).expect("a launch");
                        n += 1;
                        ran += 100 * (kind + 1);
                    }
                }
                3 => device.api().pass(draw(1_500)),
                _ if n > upto && draw(3) == 0 => {
                    queue.submit.fence(CmdId(n - 1)).expect("a fence");
                }
                _ => {}
            }
        }
        device.api().pass(1_000 * US);
        while let Some((to, busy)) = poll(&mut queue) {
            (told, upto) = (told + busy, to);
        }
        assert_eq!((upto, told), (n, ran), "seed {seed}");
        drop(queue);
        drop(open(&mut device, 0));
        assert_eq!(device.api().alive(), (0, 0, 1), "seed {seed}");
    }
}

/// Commands of two queues that run in turn, each of which had the device for itself once.
#[test]
fn time_that_two_queues_share_is_told_apart() {
    let mut device = device(Nature::default());
    let mut queues = [open(&mut device, 200 * US), open(&mut device, 200 * US)];
    for queue in &mut queues {
        launch(queue, 0, 1, 100 * US);
        device.api().pass(100 * US);
        assert_eq!(poll(queue), Some((1, 100 * US)));
    }
    let mut told = 0;
    for n in 1..100 {
        // As if each took 100 µs, in turn with the other's.
        queues.iter_mut().for_each(|queue| launch(queue, n, 1, 200 * US));
        device.api().pass(200 * US);
        told += queues.iter_mut().filter_map(poll).map(|(_, busy)| busy).sum::<u64>();
    }
    assert_eq!(told, 99 * 200 * US);
}

/// A hold that no poll saw while it lasted: the command behind it waited for its end.
#[test]
fn what_was_held_between_two_polls_counts_as_predicted() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 0);
    launch(&mut queue, 0, 1, 100 * US);
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((1, 100 * US)));
    for n in (1..100).step_by(2) {
        launch(&mut queue, n, 2, 100 * US);
        queue.preempt.step(Step::Deactivate).expect("a step");
        device.api().pass(1_000 * US);
        queue.preempt.step(Step::Reactivate).expect("a step");
        device.api().pass(1_000 * US);
        let told = poll(&mut queue).expect("both have retired");
        assert_eq!(told, (n + 2, 200 * US));
    }
}
