//! Waits that would close a circle are refused before they are submitted.

use super::*;

fn queues(n: usize) -> (Rig, Vec<QueueId>) {
    let mut rig = Rig::new();
    let queues = (0..n).map(|_| rig.attach(0)).collect();
    (rig, queues)
}

fn admit(rig: &mut Rig, waiter: QueueId, cmd: u64, on: EventRef) -> Result<bool, SchedulerError> {
    rig.s.admit_wait(waiter, CmdId(cmd), on)
}

const DEADLOCK: Result<bool, SchedulerError> = Err(SchedulerError::WouldDeadlock);

#[test]
fn two_queues_cannot_wait_for_each_other() {
    let (mut rig, q) = queues(2);
    assert_eq!(admit(&mut rig, q[0], 0, event(q[1], 0)), Ok(true));
    assert_eq!(admit(&mut rig, q[1], 0, event(q[0], 0)), DEADLOCK);
}

#[test]
fn three_queues_cannot_wait_in_a_circle() {
    let (mut rig, q) = queues(3);
    assert_eq!(admit(&mut rig, q[0], 0, event(q[1], 0)), Ok(true));
    assert_eq!(admit(&mut rig, q[1], 0, event(q[2], 0)), Ok(true));
    assert_eq!(admit(&mut rig, q[2], 0, event(q[0], 0)), DEADLOCK);
    assert_eq!(admit(&mut rig, q[2], 0, event(q[1], 0)), DEADLOCK);
}

#[test]
fn circles_through_commands_deep_in_the_queues_are_found() {
    let (mut rig, q) = queues(3);
    // 1 waits at its command 10 for 0's command 5, and 2 at its command 20 for 1's command 15.
    assert_eq!(admit(&mut rig, q[1], 10, event(q[0], 5)), Ok(true));
    assert_eq!(admit(&mut rig, q[2], 20, event(q[1], 15)), Ok(true));
    assert_eq!(admit(&mut rig, q[0], 3, event(q[2], 25)), DEADLOCK);
    assert_eq!(admit(&mut rig, q[0], 5, event(q[2], 20)), DEADLOCK);
    // Before 20, queue 2 waits for nothing; after its own 5, queue 0 blocks no queue.
    assert_eq!(admit(&mut rig, q[0], 3, event(q[2], 19)), Ok(true));
    assert_eq!(admit(&mut rig, q[0], 6, event(q[2], 25)), Ok(true));
}

#[test]
fn what_is_no_circle_is_admitted() {
    let (mut rig, q) = queues(4);
    // A diamond.
    assert_eq!(admit(&mut rig, q[1], 0, event(q[0], 0)), Ok(true));
    assert_eq!(admit(&mut rig, q[2], 0, event(q[0], 0)), Ok(true));
    assert_eq!(admit(&mut rig, q[3], 0, event(q[1], 0)), Ok(true));
    assert_eq!(admit(&mut rig, q[3], 1, event(q[2], 0)), Ok(true));
    // Ping-pong: each waits for what the other did before its own wait.
    let (mut rig, q) = queues(2);
    for round in 0..3 {
        assert_eq!(admit(&mut rig, q[0], 2 * round + 2, event(q[1], 2 * round + 1)), Ok(true));
        assert_eq!(admit(&mut rig, q[1], 2 * round + 2, event(q[0], 2 * round + 1)), Ok(true));
    }
}

#[test]
fn waiting_for_oneself_is_nothing_or_for_ever() {
    let (mut rig, q) = queues(1);
    assert_eq!(admit(&mut rig, q[0], 4, event(q[0], 3)), Ok(false));
    assert_eq!(admit(&mut rig, q[0], 4, event(q[0], 4)), DEADLOCK);
    assert_eq!(admit(&mut rig, q[0], 4, event(q[0], 9)), DEADLOCK);
}

#[test]
fn what_is_reached_needs_no_wait() {
    let (mut rig, q) = queues(2);
    rig.submit(q[1], 3);
    rig.report(q[1], |r| (r.launched, r.retired) = (2, 2));
    assert_eq!(admit(&mut rig, q[0], 0, event(q[1], 1)), Ok(false));
    assert_eq!(admit(&mut rig, q[0], 0, event(q[1], 2)), Ok(true));
}

#[test]
fn waits_that_are_over_block_nothing() {
    let (mut rig, q) = queues(2);
    assert_eq!(admit(&mut rig, q[0], 0, event(q[1], 0)), Ok(true));
    rig.submit(q[1], 1);
    rig.drain(q[1]);
    assert_eq!(admit(&mut rig, q[1], 1, event(q[0], 0)), Ok(true), "its event is reached");

    let (mut rig, q) = queues(2);
    assert_eq!(admit(&mut rig, q[0], 0, event(q[1], 5)), Ok(true));
    rig.submit(q[0], 1);
    rig.drain(q[0]);
    assert_eq!(admit(&mut rig, q[1], 0, event(q[0], 9)), Ok(true), "it was cancelled");

    let (mut rig, q) = queues(3);
    assert_eq!(admit(&mut rig, q[0], 0, event(q[1], 0)), Ok(true));
    assert_eq!(admit(&mut rig, q[1], 0, event(q[2], 0)), Ok(true));
    rig.detach(q[1]);
    let new = rig.attach(0);
    assert_eq!(new.index(), q[1].index());
    assert_eq!(admit(&mut rig, q[2], 0, event(q[0], 0)), Ok(true), "its queue is gone");
    assert_eq!(admit(&mut rig, q[0], 1, event(new, 0)), Ok(true));
}

#[test]
fn a_full_wait_table_says_so_until_a_wait_is_over() {
    let (mut rig, q) = queues(2);
    for cmd in 0..6 {
        assert_eq!(admit(&mut rig, q[0], cmd, event(q[1], cmd)), Ok(true));
    }
    let full = Err(SchedulerError::WaitTableFull);
    assert_eq!(admit(&mut rig, q[0], 6, event(q[1], 6)), full);
    rig.submit(q[1], 1);
    rig.drain(q[1]);
    assert_eq!(admit(&mut rig, q[0], 6, event(q[1], 6)), Ok(true));
    assert_eq!(admit(&mut rig, q[0], 7, event(q[1], 7)), full);
}

#[test]
fn asking_again_for_the_same_command_takes_no_more_room() {
    // A driver asks, finds the ring full, waits, and asks again.
    let (mut rig, q) = queues(2);
    for _ in 0..50 {
        assert_eq!(admit(&mut rig, q[0], 3, event(q[1], 1)), Ok(true));
    }
    // Or gives up, and the next command waits for something else.
    assert_eq!(admit(&mut rig, q[0], 3, event(q[1], 0)), Ok(true));
    assert_eq!(admit(&mut rig, q[1], 1, event(q[0], 9)), Ok(true), "no queue waits for 1 any more");
}

#[test]
fn refused_waits_leave_nothing_behind() {
    let (mut rig, q) = queues(2);
    assert_eq!(admit(&mut rig, q[0], 0, event(q[1], 0)), Ok(true));
    for _ in 0..50 {
        assert_eq!(admit(&mut rig, q[1], 0, event(q[0], 0)), DEADLOCK);
    }
    assert_eq!(admit(&mut rig, q[0], 1, event(q[1], 1)), Ok(true));
}

#[test]
fn commands_at_the_end_of_the_scale_do_not_overflow() {
    let (mut rig, q) = queues(2);
    let last = u64::MAX;
    assert_eq!(admit(&mut rig, q[0], last - 1, event(q[1], last)), Ok(true));
    assert_eq!(admit(&mut rig, q[1], last - 1, event(q[0], last - 1)), DEADLOCK);
}

#[test]
fn a_chain_is_admitted_without_a_look_at_the_whole_of_it() {
    const LENGTH: u32 = 64;
    let mut s = Scheduler::new(Puppet::default(), Inline::<64, 1, 64>::new());
    let queues: Vec<_> =
        (0..LENGTH).map(|_| s.attach(Instant::ZERO, Attach::default()).unwrap()).collect();
    for pair in queues.windows(2) {
        let on = event(pair[0], 0);
        assert_eq!(s.admit_wait(pair[1], CmdId(0), on), Ok(true));
        let report = Report { submitted: 1, waiting: Some(on), ..Report::default() };
        s.handle_report(Instant::ZERO, pair[1], &report).unwrap();
        while s.poll_order(Instant::ZERO).is_some() {}
    }
    let looks = s.stats().waits_looked_at;
    assert!(looks <= u64::from(LENGTH), "{looks} waits were looked at");
}
