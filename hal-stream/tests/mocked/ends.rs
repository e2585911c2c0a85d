//! Drivers that see when each command has ended.

use super::*;

fn sees_ends() -> Nature {
    Nature { sees_ends: true, ..Nature::default() }
}

fn events(device: &StreamDevice<Mock>) -> usize {
    puts(device).iter().filter(|put| **put == Put::Event).count()
}

#[test]
fn lone_commands_are_seen_without_events() {
    let mut device = device(sees_ends());
    let mut queue = open(&mut device, 200 * US);
    let mut sum = 0;
    for n in 0..155 {
        launch(&mut queue, n, 1, 30 * US);
        device.api().pass(29 * US);
        assert_eq!(poll(&mut queue), None);
        device.api().pass(1_000 * US);
        let (upto, busy) = poll(&mut queue).expect("it has retired");
        assert_eq!(upto, n + 1);
        sum += busy;
    }
    assert_eq!(sum, 155 * 30 * US);
    // One in 31 is measured, from one event to another.
    assert_eq!(events(&device), 2 * 155 / 31);
}

#[test]
fn the_prediction_follows_what_is_measured_now_and_then() {
    let mut device = device(sees_ends());
    let mut queue = open(&mut device, 200 * US);
    let mut last = 0;
    for n in 0..1_000 {
        launch(&mut queue, n, 1, if n == 0 { 30 * US } else { 60 * US });
        device.api().pass(1_000 * US);
        last = poll(&mut queue).expect("it has retired").1;
    }
    assert!((59 * US..=60 * US).contains(&last), "{last}");
}

/// The fence gets its event when something follows, and both are told apart.
#[test]
fn a_fence_is_recorded_late_when_something_follows() {
    let mut device = device(sees_ends());
    let mut queue = open(&mut device, 200 * US);
    launch(&mut queue, 0, 1, 60 * US);
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((1, 60 * US)));
    let before = events(&device);
    launch(&mut queue, 1, 1, 60 * US);
    assert_eq!(events(&device), before);
    device.api().pass(10 * US);
    launch(&mut queue, 2, 1, 100 * US);
    assert_eq!(events(&device), before + 2);
    device.api().pass(55 * US);
    assert_eq!(poll(&mut queue), Some((2, 60 * US)));
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((3, 100 * US)));
}

/// Both have ended before the first poll: the first is seen by the end, and the second is
/// measured all the same, though it is of a kind that is not known.
#[test]
fn a_fence_that_comes_again_is_where_the_next_is_measured_from() {
    let mut device = device(sees_ends());
    let mut queue = open(&mut device, 200 * US);
    launch(&mut queue, 0, 1, 30 * US);
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((1, 30 * US)));
    launch(&mut queue, 1, 1, 30 * US);
    let other = command(50 * US).of_kind(1);
    queue.submit.launch(CmdId(2), &other, true).expect("a launch");
    device.api().pass(1_000 * US);
    assert_eq!(poll(&mut queue), Some((3, 80 * US)));
    assert_eq!(poll(&mut queue), None);
}

/// A thread that launches now and then and never looks: the stream was empty in between.
#[test]
fn idle_time_between_two_polls_is_not_counted() {
    for kinds in [1, 3] {
        let mut device = device(sees_ends());
        let mut queue = open(&mut device, 200 * US);
        let mut sum = 0;
        for n in 0..90 {
            let command = command(20 * US).of_kind(n as u32 % kinds);
            queue.submit.launch(CmdId(n), &command, true).expect("a launch");
            // On the host's clock as well, by which it is predicted when the stream ends.
            thread::sleep(Duration::from_micros(30));
            device.api().pass(100 * US);
            if n % 10 == 9 {
                let (upto, busy) = poll(&mut queue).expect("all have retired");
                assert_eq!(upto, n + 1);
                sum += busy;
            }
        }
        assert_eq!(sum, 90 * 20 * US, "{kinds} kinds");
    }
}

/// As the runtime does for a missed fence. It stands for the same command, whose time is from
/// its launch.
#[test]
fn a_fence_that_is_put_again_says_the_same() {
    let mut device = device(sees_ends());
    let mut queue = open(&mut device, 200 * US);
    launch(&mut queue, 0, 1, 30 * US);
    device.api().pass(10_000 * US);
    assert_eq!(poll(&mut queue), Some((1, 30 * US)));
    launch(&mut queue, 1, 1, 30 * US);
    device.api().pass(10 * US);
    device.api().fail_all(Some("record"));
    assert!(queue.submit.fence(CmdId(1)).is_err());
    device.api().heal();
    queue.submit.fence(CmdId(1)).expect("a fence");
    assert_eq!(poll(&mut queue), None);
    queue.submit.fence(CmdId(1)).expect("a fence");
    device.api().pass(1_000 * US);
    assert_eq!(poll(&mut queue), Some((2, 30 * US)));
    launch(&mut queue, 2, 1, 30 * US);
    device.api().pass(1_000 * US);
    assert_eq!(poll(&mut queue), Some((3, 30 * US)));
}

#[test]
fn a_late_fence_that_cannot_be_recorded_is_put_again() {
    let mut device = device(sees_ends());
    let mut queue = open(&mut device, 200 * US);
    launch(&mut queue, 0, 1, 30 * US);
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((1, 30 * US)));
    launch(&mut queue, 1, 1, 30 * US);
    device.api().fail_all(Some("record"));
    launch(&mut queue, 2, 1, 30 * US);
    device.api().heal();
    device.api().pass(40 * US);
    assert_eq!(poll(&mut queue), None);
    queue.submit.fence(CmdId(2)).expect("a fence");
    device.api().pass(40 * US);
    assert_eq!(poll(&mut queue).expect("both have retired").0, 3);
}
