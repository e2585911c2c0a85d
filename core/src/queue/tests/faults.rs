//! Faults: of commands, launches, devices, drivers.

use super::*;

fn failed(from: u64, fault: Fault) -> Outcome {
    Outcome::Failed { from: CmdId(from), fault }
}

/// Commands 0 to 3 on the device, 4 and 5 behind the window.
fn busy() -> Rig {
    let mut rig = Rig::new(16, window(4, 4), Level::Interrupt);
    rig.submit(6);
    assert_eq!(rig.act(), "0* 1 2 3");
    rig
}

#[test]
fn a_refused_launch_fails_alone_and_in_its_turn() {
    let mut rig = busy();
    rig.refuse(1);
    assert_eq!(rig.status(1), Status::Failed(Fault::Launch));
    assert_eq!(rig.counts(), (6, 4, 0), "0 is before it");
    assert_eq!(rig.act(), "fence3");
    rig.retire(0);
    assert_eq!(rig.counts(), (6, 4, 2));
    rig.act();
    rig.retire(5);
    assert_eq!(rig.counts(), (6, 6, 6));
    assert_eq!(rig.status(0), Status::Done);
    assert_eq!(rig.status(5), Status::Done);
    assert_eq!(rig.queue.report().failures, 1);
}

#[test]
fn refusing_every_launch_ends() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.submit(16);
    while let Some(action) = rig.queue.poll_action(rig.now) {
        let Action::Launch { cmd, .. } = action else { panic!("nothing to fence: {action:?}") };
        rig.refuse(cmd.0);
    }
    assert_eq!(rig.counts(), (16, 16, 16));
    assert_eq!(rig.queue.report().failures, 16);
    assert_eq!(rig.queue.poll_timeout(), None);
}

#[test]
fn a_refused_launch_takes_its_fence_along() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.submit(3);
    assert_eq!(rig.act(), "0* 1 2");
    rig.refuse(0);
    assert_eq!(rig.counts(), (3, 3, 1));
    assert_eq!(rig.act(), "fence2");
    rig.retire(2);
    assert_eq!(rig.counts(), (3, 3, 3));
}

#[test]
fn a_refused_last_launch_leaves_the_tail_fenced() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.submit(3);
    assert_eq!(rig.act(), "0* 1 2");
    rig.refuse(2);
    assert_eq!(rig.act(), "fence1");
    rig.retire(1);
    assert_eq!(rig.counts(), (3, 3, 3));
    assert_eq!(rig.status(2), Status::Failed(Fault::Launch));
}

#[test]
fn a_range_of_commands_can_fail_and_later_ones_go_on() {
    let mut rig = busy();
    rig.retire_as(3, 1, failed(2, Fault::Execution));
    assert_eq!(rig.status(1), Status::Done);
    assert_eq!(rig.status(2), Status::Failed(Fault::Execution));
    assert_eq!(rig.status(3), Status::Failed(Fault::Execution));
    assert_eq!(rig.queue.report().failures, 2);
    assert_eq!(rig.act(), "4* 5");
    rig.retire(5);
    assert_eq!(rig.status(5), Status::Done);
}

#[test]
fn a_failure_does_not_reach_back_over_what_has_retired() {
    let mut rig = busy();
    rig.retire(1);
    rig.retire_as(3, 1, failed(0, Fault::Execution));
    assert_eq!(rig.status(1), Status::Done);
    assert_eq!(rig.status(2), Status::Failed(Fault::Execution));
}

#[test]
fn a_failure_beyond_what_retired_is_not_passed_over_in_silence() {
    let mut rig = busy();
    rig.retire_as(1, 1, failed(9, Fault::Execution));
    assert_eq!(rig.queue.anomalies().protocol, 1);
    assert_eq!(rig.status(2), Status::InFlight);
}

#[test]
fn a_failed_wait_and_a_failed_launch_keep_their_own_reasons() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.submit(1);
    rig.enqueue_wait(event(0));
    rig.submit(2);
    assert_eq!(rig.act(), "0*");
    rig.queue.handle_order(Order::Reached { event: event(0), ok: false });
    assert_eq!(rig.act(), "2 3", "what follows an abandoned wait runs");
    rig.refuse(2);
    rig.act();
    rig.retire_as(3, 1, failed(0, Fault::Execution));
    assert_eq!(rig.status(0), Status::Failed(Fault::Execution));
    assert_eq!(rig.status(1), Status::Failed(Fault::Abandoned));
    assert_eq!(rig.status(2), Status::Failed(Fault::Launch));
    assert_eq!(rig.queue.report().failures, 4);
}

/// Everything that was submitted has failed, and nothing more is taken or asked for.
fn assert_lost(rig: &mut Rig, done: u64) {
    assert!(rig.queue.is_lost());
    let (submitted, launched, retired) = rig.counts();
    assert_eq!((launched, retired), (submitted, submitted));
    for cmd in done..submitted {
        assert_eq!(rig.status(cmd), Status::Failed(Fault::DeviceLost), "command {cmd}");
    }
    assert_eq!(rig.queue.submit(rig.now), Err(SubmitError::Lost));
    assert_eq!(rig.queue.enqueue_wait(rig.now, event(0)), Err(SubmitError::Lost));
    assert_eq!((rig.act().as_str(), rig.queue.poll_timeout()), ("", None));
    let report = rig.report().expect("the scheduler must know");
    assert!(report.lost && !report.pending());
    assert_eq!(rig.queue.in_flight(), 0);
}

#[test]
fn a_lost_device_fails_everything() {
    let mut rig = busy();
    rig.signal(Signal::Lost);
    rig.signal(Signal::Lost);
    assert_lost(&mut rig, 0);
    assert_eq!(rig.queue.report().failures, 6);
}

#[test]
fn a_sticky_fault_is_a_loss_wherever_it_shows() {
    let mut rig = busy();
    rig.retire_as(1, 1, failed(1, Fault::DeviceLost));
    assert_eq!(rig.status(0), Status::Done);
    assert_lost(&mut rig, 1);

    let mut rig = busy();
    rig.signal(Signal::LaunchFailed { cmd: CmdId(3), fault: Fault::DeviceLost });
    assert_lost(&mut rig, 0);

    let mut rig = busy();
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.answer(Err(Fault::DeviceLost));
    assert_lost(&mut rig, 0);
}

#[test]
fn a_sticky_fault_after_the_last_command_is_a_loss_too() {
    let mut rig = busy();
    rig.retire(3);
    rig.retire_as(3, 0, failed(3, Fault::DeviceLost));
    assert_eq!(rig.status(3), Status::Done, "that had retired");
    assert_lost(&mut rig, 4);
}

#[test]
fn a_loss_while_held_needs_no_release() {
    let mut rig = busy();
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    assert_eq!(rig.act(), "interrupt");
    rig.signal(Signal::Lost);
    assert_lost(&mut rig, 0);
    rig.run();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HoldState::Running));
}

#[test]
fn answers_that_were_on_their_way_when_the_device_was_lost_are_no_nonsense() {
    let mut rig = busy();
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.signal(Signal::Lost);
    rig.done();
    rig.retire(3);
    rig.refuse(3);
    assert_eq!(rig.queue.anomalies().protocol, 0);
    assert_lost(&mut rig, 0);
}

#[test]
fn nonsense_from_the_driver_is_counted_and_ignored() {
    let mut rig = busy();
    let mut expected = 0;
    let mut nonsense = |rig: &mut Rig, signal: Signal| {
        expected += 1;
        let before = (rig.counts(), rig.queue.report(), rig.queue.next_launch());
        rig.signal(signal);
        assert_eq!(rig.queue.anomalies().protocol, expected, "{signal:?}");
        assert_eq!((rig.counts(), rig.queue.report(), rig.queue.next_launch()), before);
        assert_eq!(rig.act(), "");
    };
    let retired = |cmd| {
        let busy = Duration::from_us(1);
        Signal::Retired(Retired { upto: CmdId(cmd), busy, outcome: Outcome::Ok })
    };
    let refused = |cmd| Signal::LaunchFailed { cmd: CmdId(cmd), fault: Fault::Launch };
    let stepped = |seq| Signal::Stepped { seq, result: Ok(None) };
    for cmd in [4, 5, 6, u64::MAX] {
        nonsense(&mut rig, retired(cmd));
        nonsense(&mut rig, refused(cmd));
    }
    nonsense(&mut rig, stepped(0));
    nonsense(&mut rig, stepped(1));
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    let seq = rig.seq;
    nonsense(&mut rig, stepped(seq.wrapping_add(1)));
    nonsense(&mut rig, stepped(seq.wrapping_sub(1)));
    rig.done();
    nonsense(&mut rig, stepped(seq));
    rig.retire(1);
    assert_eq!(rig.act(), "fence3");
    nonsense(&mut rig, refused(1));
}

#[test]
fn the_completion_of_what_was_never_launched_is_nonsense() {
    // 1 is a wait that was reached: past the launch point, but nothing that a device could finish.
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.submit(1);
    rig.enqueue_wait(event(0));
    assert_eq!(rig.act(), "0*");
    rig.queue.handle_order(Order::Reached { event: event(0), ok: true });
    assert_eq!(rig.act(), "");
    rig.retire(1);
    assert_eq!(rig.queue.anomalies().protocol, 1);
    assert_eq!(rig.counts(), (2, 2, 0));
    rig.retire(0);
    assert_eq!(rig.counts(), (2, 2, 2));
}

#[test]
fn hearing_of_a_completion_twice_is_no_nonsense() {
    let mut rig = busy();
    rig.retire(2);
    rig.retire(2);
    rig.retire(1);
    assert_eq!(rig.counts(), (6, 4, 3));
    assert_eq!(rig.queue.anomalies().protocol, 0);
}

#[test]
fn a_refusal_of_what_was_refused_before_is_nonsense() {
    let mut rig = busy();
    rig.refuse(2);
    rig.refuse(2);
    assert_eq!(rig.queue.anomalies().protocol, 1);
    assert_eq!(rig.queue.report().failures, 1);
}
