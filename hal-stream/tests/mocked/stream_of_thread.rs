//! The default stream of each thread.

use super::*;

fn open(device: &mut StreamDevice<Mock>) -> Queue {
    let stream = device.api().create_stream(None).expect("a stream");
    // SAFETY: it is alive, and this thread alone launches.
    let config = unsafe { StreamConfig::default().on_stream_of_thread(stream) };
    device.open(QueueId::new(0, 0), config).expect("a queue")
}

#[test]
fn each_command_has_a_fence_and_other_threads_put_none() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device);
    assert_eq!(queue.caps.level, Level::Block);
    for n in 0..3 {
        queue.submit.launch(CmdId(n), &command(20 * US), false).expect("a launch");
        device.api().pass(20 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(n + 1));
    }
    queue.submit.launch(CmdId(3), &command(20 * US), false).expect("a launch");
    let before = puts(&device);
    queue.submit.fence(CmdId(3)).expect("there is one");
    assert_eq!(puts(&device), before);
    device.api().pass(20 * US);
    assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(4));
}

#[test]
fn a_fence_that_was_missed_comes_with_the_next_command() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device);
    launch(&mut queue, 0, 1, 20 * US);
    device.api().fail_all(Some("record"));
    launch(&mut queue, 1, 1, 20 * US);
    device.api().heal();
    let missed = queue.submit.fence(CmdId(1));
    assert!(matches!(missed, Err(StreamError::OtherThread)), "{missed:?}");
    launch(&mut queue, 2, 1, 20 * US);
    device.api().pass(60 * US);
    assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(3));
}

#[test]
fn a_queue_that_closes_leaves_the_stream_alone() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device);
    launch(&mut queue, 0, 2, 20 * US);
    let before = puts(&device);
    drop(queue);
    assert_eq!(puts(&device), before);
}
