//! The window, and where fences go.

use super::*;

#[test]
fn the_window_limits_what_is_in_flight() {
    let mut rig = Rig::new(16, window(3, 3), Level::Block);
    rig.submit(5);
    assert_eq!(rig.act(), "0* 1 2");
    assert_eq!(rig.counts(), (5, 3, 0));
    rig.retire(0);
    assert_eq!(rig.act(), "3*", "one retired, one may follow");
    rig.retire(3);
    assert_eq!(rig.act(), "4*");
    assert_eq!(rig.queue.in_flight(), 1);
}

#[test]
fn a_device_may_have_room_for_fewer() {
    let mut rig = Rig::on(64, window(40, 4), Caps::up_to(Level::Block, 8).with_unit(true));
    assert_eq!(rig.queue.window().threshold(), 40, "the device says how many fit");
    rig.submit(50);
    rig.queue.set_room(2);
    assert_eq!(rig.act(), "0* 1");
    assert_eq!(rig.queue.can_launch(), Err(LaunchBlock::WindowFull));
    rig.retire(0);
    assert_eq!(rig.act(), "fence1", "the device has not said that there is more");
    rig.queue.set_room(3);
    assert_eq!(rig.act(), "2 3 4");
    rig.queue.set_room(0);
    rig.queue.set_room(u32::MAX);
    assert_eq!(rig.act().split(' ').count(), 36, "as many as the window allows");
}

#[test]
fn a_window_in_which_nothing_retires_is_widened_until_something_does() {
    let mut rig = Rig::on(64, window(4, 2), Caps::up_to(Level::Block, 1_000).with_unit(true));
    rig.submit(40);
    rig.queue.set_room(4);
    assert_eq!(rig.act(), "0* 1 2* 3");
    rig.queue.widen_window();
    assert_eq!(rig.act(), "4* 5 6* 7", "whatever room there is");
    rig.queue.hold_window(true);
    assert_eq!(rig.queue.can_launch(), Err(LaunchBlock::WindowFull), "not while it is held");
    rig.queue.hold_window(false);
    rig.queue.widen_window();
    assert_eq!(rig.act().split(' ').count(), 8);
    (0..40).for_each(|_| rig.queue.widen_window());
    assert_eq!(rig.act().split(' ').count(), 24, "all there are");
    rig.submit(4);
    rig.retire(39);
    rig.queue.set_room(100);
    assert_eq!(rig.queue.window().threshold(), 4);
}

#[test]
fn what_would_be_launched_is_known_before() {
    let mut rig = Rig::new(16, window(2, 2), Level::Block);
    assert_eq!(rig.queue.peek_launch(), None, "nothing was submitted");
    rig.submit(3);
    assert!(rig.queue.cancel(CmdId(0)));
    assert_eq!(rig.queue.peek_launch(), Some(CmdId(1)), "the first needs no device");
    assert_eq!(rig.act(), "1* 2");
    rig.enqueue_wait(EventRef { queue: QueueId::new(7, 1), cmd: CmdId(0) });
    rig.submit(1);
    assert_eq!(rig.queue.peek_launch(), None, "the window is full");
    rig.retire(2);
    assert_eq!(rig.queue.peek_launch(), None, "the other queue's command comes first");
    rig.queue.suspend(Level::Block);
    assert_eq!(rig.queue.peek_launch(), None, "it is held");
    rig.queue.resume(true);
    assert_eq!(rig.queue.peek_launch(), None, "everything is dropped");
}

#[test]
fn the_first_launch_into_an_idle_queue_carries_a_fence() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    for cmd in 0..3 {
        rig.submit(1);
        assert_eq!(rig.act(), format!("{cmd}*"));
        rig.retire(cmd);
        assert_eq!(rig.act(), "");
    }
}

#[test]
fn every_batch_carries_one_fence() {
    let mut rig = Rig::new(32, window(16, 4), Level::Block);
    rig.submit(14);
    assert_eq!(rig.act(), "0* 1 2 3 4* 5 6 7 8* 9 10 11 12* 13");
}

#[test]
fn the_tail_is_fenced_when_the_last_fence_retired() {
    let mut rig = Rig::new(16, window(16, 8), Level::Block);
    rig.submit(4);
    assert_eq!(rig.act(), "0* 1 2 3");
    assert!(!rig.queue.lacks_fence());
    rig.retire(0);
    assert!(rig.queue.lacks_fence());
    assert_eq!(rig.act(), "fence3", "the tail would not be seen otherwise");
    assert!(!rig.queue.lacks_fence());
    rig.retire(3);
    assert_eq!(rig.act(), "");
    assert_eq!(rig.counts(), (4, 4, 4));
}

#[test]
fn what_is_waited_for_is_fenced_on_demand_and_once() {
    let mut rig = Rig::new(16, window(16, 8), Level::Block);
    rig.submit(4);
    assert_eq!(rig.act(), "0* 1 2 3");
    rig.queue.request_completion(CmdId(2));
    assert_eq!(rig.act(), "fence3", "behind everything that is launched");
    rig.queue.request_completion(CmdId(2));
    rig.queue.request_completion(CmdId(3));
    assert_eq!(rig.act(), "", "covered already");
    rig.retire(3);
    rig.queue.request_completion(CmdId(3));
    assert_eq!(rig.act(), "", "retired already");
}

#[test]
fn wanting_a_far_command_does_not_fence_the_way_there() {
    let mut rig = Rig::new(32, window(16, 8), Level::Block);
    let last = rig.submit(12);
    rig.queue.request_completion(last);
    assert_eq!(rig.act(), "0* 1 2 3 4 5 6 7 8* 9 10 11*");
}

#[test]
fn two_waiters_each_get_their_fence() {
    let mut rig = Rig::new(32, window(4, 4), Level::Block);
    rig.submit(12);
    assert_eq!(rig.act(), "0* 1 2 3");
    rig.queue.request_completion(CmdId(5));
    rig.queue.request_completion(CmdId(10));
    rig.retire(0);
    assert_eq!(rig.act(), "4*");
    rig.retire(4);
    assert_eq!(rig.act(), "5* 6 7 8", "the nearer one is not forgotten for the farther one");
    rig.retire(5);
    assert_eq!(rig.act(), "9*");
    rig.retire(9);
    assert_eq!(rig.act(), "10* 11");
}

#[test]
fn wants_between_two_polls_are_all_served() {
    let mut rig = Rig::new(32, window(3, 3), Level::Block);
    rig.submit(8);
    assert_eq!(rig.act(), "0* 1 2");
    rig.queue.request_completion(CmdId(1));
    rig.queue.request_completion(CmdId(6));
    assert_eq!(rig.act(), "fence2");
}

#[test]
fn a_watch_is_fenced_although_something_farther_is_wanted() {
    let mut rig = Rig::new(32, window(3, 3), Level::Block);
    rig.submit(8);
    assert_eq!(rig.act(), "0* 1 2");
    rig.queue.request_completion(CmdId(7));
    rig.queue.handle_order(Order::Watch { upto: 2 });
    assert_eq!(rig.act(), "fence2");
}

#[test]
fn a_want_is_fenced_although_something_farther_is_watched() {
    let mut rig = Rig::new(32, window(3, 3), Level::Block);
    rig.submit(8);
    assert_eq!(rig.act(), "0* 1 2");
    rig.queue.handle_order(Order::Watch { upto: 20 });
    rig.queue.request_completion(CmdId(1));
    assert_eq!(rig.act(), "fence2");
}

#[test]
fn wanting_a_wait_fences_what_precedes_it() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.submit(3);
    let wait = rig.enqueue_wait(event(0));
    assert_eq!(rig.act(), "0* 1 2");
    rig.queue.request_completion(wait);
    assert_eq!(rig.act(), "");
    rig.queue.handle_order(Order::Reached { event: event(0), ok: true });
    assert_eq!(rig.act(), "fence2", "the wait retires with the command before it");
    rig.retire(2);
    assert_eq!(rig.status(wait.0), Status::Done);
}

#[test]
fn wanting_what_does_not_exist_is_harmless() {
    let mut rig = Rig::new(4, window(4, 4), Level::Block);
    rig.queue.request_completion(CmdId(u64::MAX));
    assert_eq!(rig.act(), "");
    rig.submit(2);
    rig.queue.request_completion(CmdId(u64::MAX));
    assert_eq!(rig.act(), "0* 1*", "as for the last command");
}

#[test]
fn a_lost_fence_is_put_again_with_growing_patience() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    assert_eq!(rig.queue.poll_timeout(), None);
    rig.submit(2);
    assert_eq!(rig.act(), "0* 1");
    let ms = Duration::from_ms;
    assert_eq!(rig.queue.poll_timeout(), Some(Instant::ZERO + ms(100)));
    rig.pass(ms(99));
    assert_eq!(rig.act(), "", "too early");
    rig.pass(ms(1));
    assert_eq!(rig.act(), "fence1");
    assert_eq!(rig.queue.poll_timeout(), Some(Instant::ZERO + ms(300)), "twice as long");
    rig.pass(ms(200));
    assert_eq!(rig.act(), "fence1");
    assert_eq!(rig.queue.poll_timeout(), Some(Instant::ZERO + ms(700)));
    assert_eq!(rig.queue.anomalies().repeated_fences, 2);
    rig.retire(1);
    assert_eq!(rig.queue.poll_timeout(), None, "nothing to wait for");
    rig.submit(1);
    assert_eq!(rig.act(), "2*");
    assert_eq!(rig.queue.poll_timeout(), Some(rig.now + ms(100)), "patience is fresh");
}

#[test]
fn a_lost_fence_is_recovered() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.submit(6);
    assert_eq!(rig.act(), "0* 1 2 3");
    // The completion of 0 is never seen.
    rig.pass(Duration::from_ms(100));
    assert_eq!(rig.act(), "fence3");
    rig.retire(3);
    assert_eq!(rig.act(), "4* 5");
    assert_eq!(rig.counts(), (6, 6, 4));
}

#[test]
fn time_spent_without_work_on_the_device_is_not_a_lost_fence() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.hold(Level::Block);
    rig.submit(1);
    assert_eq!(rig.act(), "");
    rig.pass(Duration::from_ms(5_000));
    rig.run();
    assert_eq!(rig.act(), "0*");
    rig.pass(Duration::from_ms(1));
    assert_eq!(rig.act(), "", "it was launched a moment ago");
    assert_eq!(rig.queue.anomalies().repeated_fences, 0);

    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.enqueue_wait(event(0));
    rig.submit(1);
    assert_eq!(rig.act(), "");
    rig.pass(Duration::from_ms(5_000));
    rig.queue.handle_order(Order::Reached { event: event(0), ok: true });
    assert_eq!(rig.act(), "1*");
    assert_eq!(rig.queue.poll_timeout(), Some(rig.now + Duration::from_ms(100)));
}

#[test]
fn time_held_on_the_device_does_not_count() {
    let mut rig = Rig::new(16, window(8, 8), Level::Deactivate);
    rig.submit(2);
    assert_eq!(rig.act(), "0* 1");
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    assert_eq!(rig.queue.poll_timeout(), None);
    rig.done();
    rig.pass(Duration::from_ms(5_000));
    assert_eq!(rig.act(), "");
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!(rig.queue.poll_timeout(), Some(rig.now + Duration::from_ms(100)));
}

#[test]
fn time_before_a_hold_counts_after_it() {
    let mut rig = Rig::new(16, window(8, 8), Level::Deactivate);
    rig.submit(2);
    assert_eq!(rig.act(), "0* 1");
    let ms = Duration::from_ms;
    // Turns of 30 ms: the fence is put again in the fourth.
    for turn in 0..3 {
        rig.pass(ms(30));
        rig.hold(Level::Deactivate);
        assert_eq!(rig.act(), "deactivate", "turn {turn}");
        rig.done();
        rig.pass(ms(500));
        rig.run();
        assert_eq!(rig.act(), "reactivate");
        rig.done();
    }
    assert_eq!(rig.queue.poll_timeout(), Some(rig.now + ms(10)));
    rig.pass(ms(10));
    assert_eq!(rig.act(), "fence1");
}

#[test]
fn a_refused_fence_is_tried_again_but_not_in_a_circle() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.submit(3);
    assert_eq!(rig.act(), "0* 1 2");
    rig.retire(0);
    let mut tries = 0;
    while let Some(action) = rig.queue.poll_action(rig.now) {
        assert_eq!(action, Action::Fence { upto: CmdId(2) });
        tries += 1;
        assert!(tries < 10, "a device that refuses fences must not keep the driver in a circle");
        rig.signal(Signal::FenceFailed);
    }
    let due = rig.queue.poll_timeout().expect("there is a timer to try again");
    rig.now = due;
    rig.queue.handle_timeout(due);
    assert_eq!(rig.act(), "fence2");
    rig.retire(2);
    assert_eq!(rig.counts(), (3, 3, 3));
}

#[test]
fn after_a_refused_fence_the_next_launch_carries_one() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.submit(3);
    assert_eq!(rig.act(), "0* 1 2");
    rig.retire(0);
    assert_eq!(rig.act(), "fence2");
    rig.signal(Signal::FenceFailed);
    rig.submit(1);
    assert_eq!(rig.act(), "3*");
}

#[test]
fn widening_and_narrowing_need_no_drain() {
    let mut rig = Rig::new(64, window(2, 1), Level::Block);
    rig.submit(20);
    assert_eq!(rig.act(), "0* 1*");
    rig.queue.set_window(window(4, 4));
    assert_eq!(rig.act(), "2 3", "at once");
    rig.queue.set_window(window(2, 2));
    assert_eq!(rig.act(), "");
    rig.retire(1);
    assert_eq!(rig.act(), "fence3", "still two in flight, which is all there may be");
    rig.retire(2);
    assert_eq!(rig.act(), "4");
    assert_eq!(rig.queue.in_flight(), 2);
}

#[test]
fn a_window_changed_while_held_counts_after_the_hold() {
    let mut rig = Rig::new(64, window(2, 2), Level::Block);
    rig.submit(20);
    assert_eq!(rig.act(), "0* 1");
    rig.hold(Level::Block);
    rig.queue.set_window(window(5, 5));
    assert_eq!(rig.act(), "");
    rig.run();
    assert_eq!(rig.act(), "2 3 4");
}

#[test]
fn the_device_is_never_given_more_than_it_has_room_for() {
    // A program that submits and waits puts a fence behind every command.
    for level in Level::ALL {
        let caps = Caps::up_to(level, 32);
        let mut rig = Rig::on(64, window(64, 32), caps);
        let mut entries = 0;
        for _ in 0..64 {
            let cmd = rig.submit(1);
            rig.queue.request_completion(cmd);
            for word in rig.act().split_whitespace() {
                entries += u32::from(!word.starts_with("fence"));
                entries += u32::from(word.ends_with('*') || word.starts_with("fence"));
                entries += u32::from(level > Level::Block && !word.starts_with("fence"));
            }
        }
        assert!(entries <= caps.entries_max, "{level}: {entries} entries");
    }
}

#[test]
fn a_lower_level_does_not_overfill_the_device() {
    // Seven commands with a gate and a fence each leave no room, whatever later ones go without.
    let mut rig = Rig::on(64, window(20, 1), Caps::up_to(Level::Deactivate, 24));
    rig.submit(30);
    assert_eq!(rig.act(), "0* 1* 2* 3* 4* 5* 6*");
    rig.queue.set_level(Level::Block);
    assert_eq!(rig.act(), "");
}

#[test]
fn an_adaptive_window_learns_from_lone_commands() {
    let mut rig = Rig::new(64, WindowConfig::adaptive(32), Level::Block);
    assert_eq!(rig.queue.window().threshold(), 32);
    for cmd in 0..4 {
        rig.submit(1);
        assert_eq!(rig.act(), format!("{cmd}*"));
        rig.now += Duration::from_us(120);
        rig.retire_as(cmd, 100, Outcome::Ok);
    }
    assert_eq!(rig.queue.window().command_ns(), 100_000);
    assert_eq!(rig.queue.window().threshold(), 2, "20 µs of latency hide behind one command");
}

#[test]
fn where_no_one_waits_for_the_end_a_lone_launch_has_no_fence_of_its_own() {
    let mut rig = Rig::new(32, window(16, 4), Level::Block);
    rig.queue.leave_unattended(true);
    rig.submit(3);
    assert_eq!(rig.act(), "0 1 2 fence2", "asked for its end, it has one");
    rig.retire(2);
    rig.submit(6);
    assert_eq!(rig.act(), "3 4 5 6* 7 8", "each batch has one");
    rig.retire(6);
    rig.queue.leave_unattended(false);
    assert_eq!(rig.act(), "fence8");
    rig.retire(8);
    rig.submit(1);
    assert_eq!(rig.act(), "9*");
}
