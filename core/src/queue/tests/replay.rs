//! Devices that forget what a hold stopped, and what is dropped or cancelled on the way.

use super::*;

/// Commands 0 to `n - 1` on the device.
fn launched(n: u64) -> Rig {
    let mut rig = Rig::replaying(32, window(16, 8));
    rig.submit(n);
    rig.act();
    assert_eq!(rig.queue.launched(), n);
    rig
}

/// Holds, and says that the device forgot everything from `first` on.
fn forget(rig: &mut Rig, first: Option<u64>) {
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.answer(Ok(first));
}

/// Releases and returns what is launched then.
fn release(rig: &mut Rig) -> String {
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    rig.act()
}

#[test]
fn exactly_the_forgotten_commands_are_launched_again() {
    let mut rig = launched(5);
    rig.retire(0);
    assert_eq!(rig.act(), "fence4");
    forget(&mut rig, Some(2));
    assert_eq!(rig.act(), "fence1");
    assert_eq!(release(&mut rig), "2 3 4");
    assert_eq!(rig.counts(), (5, 5, 1), "counters do not go back");
    rig.retire(1);
    assert_eq!(rig.act(), "fence4");
    rig.retire(4);
    assert_eq!(rig.counts(), (5, 5, 5));
}

#[test]
fn nothing_is_launched_again_if_nothing_was_forgotten() {
    let mut rig = launched(3);
    forget(&mut rig, None);
    assert_eq!(release(&mut rig), "");
    rig.retire(2);
    assert_eq!(rig.counts(), (3, 3, 3));
}

/// A launch that was on its way when the device was held comes too late to be named by the hold.
#[test]
fn the_release_may_tell_of_a_launch_that_came_too_late() {
    let mut rig = launched(3);
    forget(&mut rig, None);
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.answer(Ok(Some(2)));
    assert_eq!(rig.act(), "2");
    rig.retire(2);
    assert_eq!(rig.counts(), (3, 3, 3));
}

#[test]
fn the_counter_of_the_next_launch_goes_back_and_the_window_with_it() {
    let mut rig = launched(5);
    rig.submit(20);
    rig.act();
    assert_eq!(rig.queue.in_flight(), 16);
    forget(&mut rig, Some(3));
    rig.act();
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!((rig.queue.next_launch(), rig.queue.in_flight()), (CmdId(3), 3));
    assert_eq!(rig.queue.launched(), 16);
    rig.act();
    assert_eq!(rig.queue.in_flight(), 16);
}

#[test]
fn a_forgotten_command_that_retired_after_all_is_not_launched_again() {
    let mut rig = launched(4);
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.retire(2);
    rig.answer(Ok(Some(1)));
    assert_eq!(rig.act(), "");
    assert_eq!(release(&mut rig), "3*");
}

#[test]
fn nonsense_about_what_was_forgotten_is_brought_into_range() {
    let mut rig = launched(4);
    forget(&mut rig, Some(99));
    rig.act();
    assert_eq!(release(&mut rig), "", "never launched, so not forgotten");
    assert_eq!(rig.queue.next_launch(), CmdId(4));
}

#[test]
fn commands_before_the_forgotten_ones_are_fenced_anew() {
    // The only fence to come was behind a command that the device forgot.
    let mut rig = launched(6);
    rig.retire(0);
    assert_eq!(rig.act(), "fence5");
    forget(&mut rig, Some(3));
    assert_eq!(rig.act(), "fence2", "1 and 2 still run and must be seen to retire");
    rig.retire(2);
    assert_eq!(rig.act(), "");
    assert_eq!(release(&mut rig), "3* 4 5");
}

#[test]
fn released_before_it_was_fenced_anew() {
    let mut rig = launched(6);
    rig.retire(0);
    assert_eq!(rig.act(), "fence5");
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.run();
    rig.answer(Ok(Some(3)));
    assert_eq!(rig.act(), "reactivate fence2");
    rig.done();
    assert_eq!(rig.act(), "3 4 5", "the fence behind 2 is still to come");
    rig.retire(2);
    assert_eq!(rig.act(), "fence5");
}

#[test]
fn each_of_several_waiters_is_served_in_a_replay() {
    let mut rig = launched(7);
    rig.queue.request_completion(CmdId(3));
    rig.queue.request_completion(CmdId(5));
    assert_eq!(rig.act(), "fence6");
    forget(&mut rig, Some(2));
    assert_eq!(rig.act(), "fence1");
    assert_eq!(release(&mut rig), "2 3* 4 5* 6");
}

#[test]
fn waits_in_between_do_not_wait_again() {
    let mut rig = Rig::replaying(32, window(16, 8));
    rig.submit(2);
    rig.enqueue_wait(event(5));
    rig.submit(2);
    assert_eq!(rig.act(), "0* 1");
    rig.queue.handle_order(Order::Reached { event: event(5), ok: true });
    assert_eq!(rig.act(), "3 4");
    forget(&mut rig, Some(1));
    rig.act();
    assert_eq!(release(&mut rig), "1 3 4");
    assert_eq!(rig.queue.waiting(), None);
    rig.retire(4);
    assert_eq!(rig.counts(), (5, 5, 5));
    assert_eq!(rig.status(2), Status::Done);
}

#[test]
fn refused_commands_in_between_are_not_launched_again() {
    let mut rig = launched(4);
    rig.refuse(2);
    rig.act();
    forget(&mut rig, Some(1));
    rig.act();
    assert_eq!(release(&mut rig), "1 3");
    assert_eq!(rig.queue.in_flight(), 4);
    rig.retire(3);
    assert_eq!(rig.counts(), (4, 4, 4));
    assert_eq!(rig.status(2), Status::Failed(Fault::Launch));
}

#[test]
fn cancelled_commands_behind_the_launch_point_stay_cancelled() {
    let mut rig = Rig::replaying(32, window(2, 2));
    rig.submit(5);
    assert_eq!(rig.act(), "0* 1");
    assert!(rig.queue.cancel(CmdId(3)));
    forget(&mut rig, Some(1));
    rig.act();
    assert_eq!(release(&mut rig), "1");
    assert!(!rig.queue.cancel(CmdId(1)), "it is launched");
    rig.retire(1);
    assert_eq!(rig.act(), "2*");
    rig.retire(2);
    assert_eq!(rig.act(), "4*");
    assert_eq!(rig.status(3), Status::Failed(Fault::Cancelled));
}

#[test]
fn a_reached_event_during_a_replay_settles_the_wait_and_nothing_else() {
    let mut rig = Rig::replaying(32, window(16, 8));
    rig.submit(3);
    let wait = rig.enqueue_wait(event(9));
    rig.submit(1);
    assert_eq!(rig.act(), "0* 1 2");
    assert_eq!(rig.queue.waiting(), Some(event(9)));
    forget(&mut rig, Some(1));
    rig.act();
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    // The launch point is at 1 again; the answer for the wait behind it comes now.
    rig.queue.handle_order(Order::Reached { event: event(9), ok: true });
    let launches = rig.act();
    assert!(launches.starts_with("1 2"), "1 must run: {launches}");
    if rig.queue.waiting().is_some() {
        rig.queue.handle_order(Order::Reached { event: event(9), ok: true });
        rig.act();
    }
    assert_eq!(rig.queue.next_launch(), CmdId(5));
    rig.retire(4);
    assert_eq!(rig.status(wait.0), Status::Done);
    assert_eq!(rig.counts(), (5, 5, 5));
}

#[test]
fn replaying_twice_and_deeper_each_time() {
    let mut rig = launched(6);
    forget(&mut rig, Some(4));
    rig.act();
    assert_eq!(release(&mut rig), "4 5");
    forget(&mut rig, Some(2));
    rig.act();
    assert_eq!(release(&mut rig), "2 3 4 5");
    rig.retire(5);
    assert_eq!(rig.counts(), (6, 6, 6));
}

#[test]
fn an_interrupt_can_forget_more_than_the_gate_did() {
    let mut caps = Caps::up_to(Level::Interrupt, 4_096).with_recovery(Recovery::Replay);
    caps.interrupt = Some(Recovery::Replay);
    let mut rig = Rig::on(16, window(8, 8), caps);
    rig.submit(5);
    assert_eq!(rig.act(), "0* 1 2 3 4");
    rig.queue.request_completion(CmdId(4));
    assert_eq!(rig.act(), "fence4");
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.answer(Ok(Some(2)));
    assert_eq!(rig.act(), "interrupt fence1");
    rig.answer(Ok(Some(1)));
    assert_eq!(rig.act(), "fence0");
    assert_eq!(rig.state(), HELD_3);
    rig.run();
    assert_eq!(rig.act(), "restore");
    rig.done();
    assert_eq!(rig.act(), "reactivate", "nothing is launched between the two");
    rig.done();
    assert_eq!(rig.act(), "1 2 3 4*", "4 is still waited for");
}

#[test]
fn what_the_gate_forgot_stays_forgotten_when_the_interrupt_forgets_less() {
    let mut caps = Caps::up_to(Level::Interrupt, 4_096).with_recovery(Recovery::Replay);
    caps.interrupt = Some(Recovery::Replay);
    let mut rig = Rig::on(16, window(8, 8), caps);
    rig.submit(5);
    rig.act();
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.answer(Ok(Some(1)));
    assert_eq!(rig.act(), "interrupt");
    rig.answer(Ok(None));
    rig.act();
    rig.run();
    assert_eq!(rig.act(), "restore");
    rig.done();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!(rig.act(), "1 2 3 4");
}

#[test]
fn a_device_that_forgot_everything_has_nothing_to_hold() {
    let mut rig = launched(4);
    forget(&mut rig, Some(0));
    assert_eq!(rig.act(), "");
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.hold(Level::Deactivate);
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2), "no step: nothing is on it");
    assert_eq!(rig.queue.poll_timeout(), None);
    assert!(!rig.queue.cancel(CmdId(2)), "it was launched once");
    assert_eq!(rig.status(2), Status::InFlight);
    rig.run();
    assert_eq!(rig.act(), "0* 1 2 3");
}

#[test]
fn under_continue_what_is_said_to_be_forgotten_is_not_believed() {
    let mut rig = Rig::new(16, window(8, 8), Level::Deactivate);
    rig.submit(3);
    assert_eq!(rig.act(), "0* 1 2");
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.answer(Ok(Some(1)));
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!(rig.act(), "", "they continue by themselves");
}

#[test]
fn dropping_on_resume_at_lv1_drops_what_is_not_launched() {
    let mut rig = Rig::new(16, window(2, 2), Level::Block);
    rig.submit(5);
    assert_eq!(rig.act(), "0* 1");
    rig.queue.suspend(Level::Block);
    rig.queue.resume(true);
    assert_eq!(rig.act(), "");
    rig.retire(0);
    assert_eq!(rig.act(), "fence1", "the launched ones run to their end");
    rig.retire(1);
    assert_eq!(rig.act(), "");
    assert_eq!(rig.counts(), (5, 5, 5));
    assert_eq!(rig.status(1), Status::Done);
    for cmd in 2..5 {
        assert_eq!(rig.status(cmd), Status::Failed(Fault::Cancelled));
    }
    rig.submit(1);
    assert_eq!(rig.act(), "5*", "what comes later runs");
}

#[test]
fn dropping_under_replay_drops_the_forgotten_too() {
    let mut rig = launched(5);
    rig.retire(0);
    rig.act();
    rig.queue.suspend(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.answer(Ok(Some(2)));
    assert_eq!(rig.act(), "fence1");
    rig.queue.resume(true);
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!(rig.act(), "", "2 to 4 are not launched again");
    rig.retire(1);
    assert_eq!(rig.counts(), (5, 5, 5));
    for cmd in 2..5 {
        assert_eq!(rig.status(cmd), Status::Failed(Fault::Cancelled));
    }
}

#[test]
fn dropping_everything_of_a_queue_with_nothing_on_the_device() {
    let mut rig = Rig::new(8, window(2, 2), Level::Block);
    rig.hold(Level::Block);
    rig.submit(3);
    rig.enqueue_wait(event(1));
    rig.submit(4);
    assert!(rig.queue.is_full());
    rig.queue.drop_pending();
    assert_eq!(rig.act(), "", "held: nothing passes the launch point");
    rig.run();
    assert_eq!(rig.act(), "");
    assert_eq!(rig.counts(), (8, 8, 8), "one after the other, although the window is 2");
    assert_eq!(rig.status(3), Status::Failed(Fault::Cancelled));
    assert!(!rig.queue.is_full());
}

#[test]
fn cancelling_needs_a_command_that_is_not_launched() {
    let mut rig = Rig::new(16, window(2, 2), Level::Block);
    rig.submit(4);
    assert_eq!(rig.act(), "0* 1");
    assert!(!rig.queue.cancel(CmdId(0)), "launched");
    assert!(!rig.queue.cancel(CmdId(4)), "never submitted");
    assert!(!rig.queue.cancel(CmdId(u64::MAX)));
    assert!(rig.queue.cancel(CmdId(2)));
    assert!(!rig.queue.cancel(CmdId(2)), "twice");
    assert_eq!(rig.status(2), Status::Failed(Fault::Cancelled));
    rig.retire(1);
    assert_eq!(rig.act(), "3*");
    assert_eq!(rig.counts(), (4, 4, 3), "retired in its turn");
    rig.retire(3);
    assert_eq!(rig.counts(), (4, 4, 4));
    assert!(!rig.queue.cancel(CmdId(2)), "retired");
}

#[test]
fn the_scheduler_learns_that_a_cancelled_wait_is_over() {
    for drop in [false, true] {
        let mut rig = Rig::new(16, window(4, 4), Level::Block);
        let wait = rig.enqueue_wait(event(3));
        rig.submit(1);
        assert_eq!(rig.act(), "");
        assert_eq!(rig.report().unwrap().waiting, Some(event(3)));
        if drop {
            rig.queue.drop_pending();
        } else {
            assert!(rig.queue.cancel(wait));
        }
        rig.act();
        let report = rig.report().expect("the scheduler still believes that the queue waits");
        assert_eq!(report.waiting, None);
    }
}

#[test]
fn a_wait_that_is_over_while_held_is_reported_at_once() {
    for drop in [false, true] {
        let mut rig = Rig::new(16, window(4, 4), Level::Block);
        let wait = rig.enqueue_wait(event(3));
        assert_eq!(rig.act(), "");
        rig.hold(Level::Block);
        rig.report();
        if drop {
            rig.queue.drop_pending();
        } else {
            assert!(rig.queue.cancel(wait));
        }
        assert_eq!(rig.act(), "");
        assert_eq!(rig.report().expect("it has work that it could run").waiting, None);
    }
}

#[test]
fn a_cancelled_wait_keeps_its_outcome_when_its_event_is_abandoned() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    let wait = rig.enqueue_wait(event(3));
    assert_eq!(rig.act(), "");
    rig.hold(Level::Block);
    assert!(rig.queue.cancel(wait));
    rig.queue.handle_order(Order::Reached { event: event(3), ok: false });
    assert_eq!(rig.status(wait.0), Status::Failed(Fault::Cancelled));
    assert_eq!(rig.queue.report().failures, 1, "counted once");
}
