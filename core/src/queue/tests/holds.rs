//! Holding and releasing, at each level.

use super::*;

/// A queue with commands 0 to 3 on the device and 4 behind a full window.
fn busy(level: Level) -> Rig {
    let mut rig = Rig::new(16, window(4, 4), level);
    rig.submit(5);
    assert_eq!(rig.act(), "0* 1 2 3");
    rig
}

#[test]
fn lv1_stops_launching_and_nothing_else() {
    let mut rig = busy(Level::Block);
    rig.hold(Level::Block);
    assert_eq!(rig.act(), "");
    assert_eq!(rig.state(), HELD_1);
    rig.retire(0);
    assert_eq!(rig.act(), "fence3", "what is in flight is still seen to retire");
    rig.retire(3);
    assert_eq!(rig.act(), "");
    rig.run();
    assert_eq!(rig.act(), "4*");
    assert_eq!(rig.state(), HoldState::Running);
}

#[test]
fn lv2_deactivates_and_reactivates() {
    let mut rig = busy(Level::Deactivate);
    rig.hold(Level::Deactivate);
    assert_eq!(rig.state(), HoldState::Holding);
    assert_eq!(rig.act(), "deactivate");
    assert_eq!(rig.state(), HoldState::Holding, "asked for is not done");
    rig.done();
    assert_eq!(rig.act(), "");
    assert_eq!(rig.state(), HELD_2);
    rig.run();
    assert_eq!(rig.state(), HoldState::Resuming);
    assert_eq!(rig.act(), "reactivate");
    rig.retire(0);
    assert_eq!(rig.act(), "fence3", "no launch before the device is told");
    rig.done();
    assert_eq!(rig.act(), "4");
    assert_eq!(rig.state(), HoldState::Running);
}

#[test]
fn lv3_goes_through_lv2_both_ways() {
    let mut rig = busy(Level::Interrupt);
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    assert_eq!(rig.state(), HoldState::Holding);
    assert_eq!(rig.act(), "interrupt");
    rig.done();
    assert_eq!(rig.act(), "");
    assert_eq!(rig.state(), HELD_3);
    rig.run();
    assert_eq!(rig.act(), "restore");
    rig.done();
    assert_eq!(rig.act(), "reactivate");
    assert_eq!(rig.state(), HoldState::Resuming);
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HoldState::Running));
}

#[test]
fn lv3_alone_where_no_gate_is_needed() {
    let mut caps = Caps::up_to(Level::Interrupt, 4_096);
    caps.deactivate = None;
    let mut rig = Rig::on(16, window(4, 4), caps);
    rig.submit(2);
    assert_eq!(rig.act(), "0* 1");
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "interrupt");
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_3));
    rig.run();
    assert_eq!(rig.act(), "restore");
    rig.done();
    assert_eq!(rig.state(), HoldState::Running);
}

#[test]
fn an_idle_queue_is_held_without_a_step_at_any_level() {
    for level in Level::ALL {
        let mut rig = Rig::new(16, window(4, 4), Level::Interrupt);
        rig.hold(level);
        assert_eq!(rig.act(), "");
        assert_eq!(rig.state(), HoldState::Held(level));
        rig.submit(2);
        assert_eq!(rig.act(), "", "{level}: its first command does not slip through");
        assert_eq!(rig.state(), HoldState::Held(level));
        rig.run();
        assert_eq!(rig.act(), "0* 1");
    }
}

#[test]
fn a_queue_that_drains_while_the_step_is_under_way_is_released_all_the_same() {
    let mut rig = busy(Level::Deactivate);
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.retire(3);
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2));
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!(rig.act(), "4*");
}

#[test]
fn no_deeper_than_asked_configured_or_possible() {
    let mut rig = busy(Level::Interrupt);
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2));

    let mut rig = busy(Level::Interrupt);
    rig.queue.set_level(Level::Block);
    rig.hold(Level::Interrupt);
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1));

    let mut rig = busy(Level::Block);
    rig.queue.set_level(Level::Interrupt);
    rig.hold(Level::Interrupt);
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1));
}

#[test]
fn the_level_can_change_while_held() {
    let mut rig = busy(Level::Interrupt);
    rig.queue.set_level(Level::Block);
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "");
    rig.queue.set_level(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    assert_eq!(rig.act(), "interrupt");
    rig.done();
    assert_eq!(rig.state(), HELD_3);
    rig.queue.set_level(Level::Deactivate);
    assert_eq!(rig.state(), HoldState::Holding);
    assert_eq!(rig.act(), "restore");
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2));
    rig.queue.set_level(Level::Block);
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1), "held all the same");
}

#[test]
fn a_newer_order_can_change_the_depth() {
    let mut rig = busy(Level::Interrupt);
    rig.hold(Level::Block);
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1));
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    rig.hold(Level::Block);
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1));
}

#[test]
fn flipping_orders_while_a_step_is_under_way() {
    let mut rig = busy(Level::Interrupt);
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.run();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HoldState::Resuming), "one step at a time");
    rig.hold(Level::Interrupt);
    rig.run();
    rig.hold(Level::Interrupt);
    assert_eq!((rig.act().as_str(), rig.state()), ("", HoldState::Holding));
    rig.done();
    assert_eq!(rig.act(), "interrupt", "it is deactivated already");
    rig.run();
    rig.done();
    assert_eq!(rig.act(), "restore");
    rig.hold(Level::Deactivate);
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2), "and stays deactivated");
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.hold(Level::Deactivate);
    rig.done();
    assert_eq!(rig.act(), "deactivate", "from the start");
    rig.done();
    assert_eq!(rig.state(), HELD_2);
}

#[test]
fn stale_orders_are_counted_and_ignored() {
    let mut rig = busy(Level::Block);
    rig.queue.handle_order(Order::Hold { epoch: 5, level: Level::Block });
    rig.queue.handle_order(Order::Run { epoch: 5 });
    rig.queue.handle_order(Order::Run { epoch: 4 });
    rig.queue.handle_order(Order::Run { epoch: 0 });
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1));
    assert_eq!(rig.queue.anomalies().stale_orders, 3);
    rig.queue.handle_order(Order::Run { epoch: 9 });
    assert_eq!(rig.state(), HoldState::Running, "epochs may skip");
    assert_eq!(rig.queue.report().epoch, 9);
}

#[test]
fn epochs_wrap_around() {
    let mut rig = busy(Level::Block);
    for epoch in [0x7fff_ffff, 0xffff_fffe] {
        rig.queue.handle_order(Order::Run { epoch });
    }
    rig.queue.handle_order(Order::Hold { epoch: 2, level: Level::Block });
    assert_eq!((rig.state(), rig.queue.report().epoch), (HELD_1, 2));
    rig.queue.handle_order(Order::Run { epoch: u32::MAX });
    assert_eq!(rig.state(), HELD_1, "from before the wrap");
    assert_eq!(rig.queue.anomalies().stale_orders, 1);
}

#[test]
fn a_failed_step_degrades_the_level_for_good() {
    let mut rig = busy(Level::Interrupt);
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    assert_eq!(rig.act(), "interrupt");
    rig.answer(Err(Fault::Timeout));
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2));
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2), "not tried again");
    assert_eq!(rig.queue.anomalies().failed_steps, 1);
}

#[test]
fn without_the_gate_an_interrupt_would_hold_nothing() {
    // Stopping the running command while the next may start is no hold at Lv3, nor at Lv2.
    let mut rig = busy(Level::Interrupt);
    rig.hold(Level::Interrupt);
    assert_eq!(rig.act(), "deactivate");
    rig.answer(Err(Fault::NotSupported));
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1));
}

#[test]
fn a_release_is_tried_three_times_before_the_device_counts_as_lost() {
    let mut rig = busy(Level::Deactivate);
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    rig.run();
    for _ in 0..2 {
        assert_eq!(rig.act(), "reactivate");
        rig.answer(Err(Fault::Timeout));
        assert!(!rig.queue.is_lost());
    }
    assert_eq!(rig.act(), "reactivate");
    rig.answer(Err(Fault::Timeout));
    assert!(rig.queue.is_lost());
    assert_eq!(rig.status(0), Status::Failed(Fault::DeviceLost));
    assert_eq!(rig.act(), "");
}

#[test]
fn a_release_that_works_in_the_end_resets_the_count() {
    let mut rig = busy(Level::Interrupt);
    for _ in 0..3 {
        rig.hold(Level::Interrupt);
        assert_eq!(rig.act(), "deactivate");
        rig.done();
        assert_eq!(rig.act(), "interrupt");
        rig.done();
        rig.run();
        for step in ["restore", "reactivate"] {
            for _ in 0..2 {
                assert_eq!(rig.act(), step);
                rig.answer(Err(Fault::Timeout));
            }
            assert_eq!(rig.act(), step);
            rig.done();
        }
    }
    assert!(!rig.queue.is_lost());
    assert_eq!(rig.queue.anomalies().failed_steps, 12);
}

#[test]
fn a_user_hold_beats_orders_to_run() {
    let mut rig = busy(Level::Deactivate);
    rig.queue.suspend(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    rig.run();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2));
    assert!(rig.queue.report().suspended);
    rig.hold(Level::Block);
    rig.run();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_2));
    rig.queue.resume(false);
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert!(!rig.queue.report().suspended);
    rig.retire(0);
    assert_eq!(rig.act(), "4*");
}

#[test]
fn a_thread_that_holds_the_queue_launches_behind_the_hold() {
    for (level, steps, ends) in [
        (Level::Deactivate, &["deactivate"][..], &["reactivate"][..]),
        (Level::Interrupt, &["deactivate", "interrupt"], &["restore", "reactivate"]),
    ] {
        let mut rig = Rig::new(16, window(4, 4), level);
        rig.queue.suspend(Level::Interrupt);
        assert_eq!((rig.act().as_str(), rig.state()), ("", HoldState::Held(level)));
        assert!(rig.queue.launch_behind_hold(CmdId(0)));
        rig.submit(1);
        for step in steps {
            assert_eq!(rig.queue.can_launch(), Err(LaunchBlock::Held), "{level}: it would run");
            assert_eq!(rig.act(), *step);
            rig.done();
        }
        assert_eq!(rig.act(), "0*");
        assert_eq!(rig.state(), HoldState::Held(level));
        rig.submit(1);
        assert_eq!(rig.act(), "", "{level}: the next one was not let through");
        rig.queue.resume(false);
        for step in ends {
            assert_eq!(rig.act(), *step);
            rig.done();
        }
        assert_eq!((rig.act().as_str(), rig.state()), ("1", HoldState::Running));
    }
}

#[test]
fn what_a_hold_would_not_keep_from_running_is_not_launched_behind_it() {
    let mut rig = busy(Level::Deactivate);
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    assert!(!rig.queue.launch_behind_hold(CmdId(4)), "no user holds it");
    rig.queue.suspend(Level::Deactivate);
    assert!(!rig.queue.launch_behind_hold(CmdId(4)), "the window is full");
    rig.retire(0);
    assert!(!rig.queue.launch_behind_hold(CmdId(5)), "another command is the next");
    rig.answer(Err(Fault::NotSupported));
    assert!(!rig.queue.launch_behind_hold(CmdId(4)), "there are no gates");
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.queue.suspend(Level::Interrupt);
    assert!(!rig.queue.launch_behind_hold(CmdId(0)), "level 1");
    let mut rig = Rig::replaying(16, window(4, 4));
    rig.queue.suspend(Level::Interrupt);
    assert!(!rig.queue.launch_behind_hold(CmdId(0)), "the device forgets it");
    let mut rig = Rig::new(16, window(4, 4), Level::Deactivate);
    rig.queue.suspend(Level::Interrupt);
    rig.signal(Signal::Lost);
    assert!(!rig.queue.launch_behind_hold(CmdId(0)), "lost");
}

#[test]
fn the_deeper_of_two_holds_counts_and_each_ends_by_itself() {
    let mut rig = busy(Level::Interrupt);
    rig.hold(Level::Deactivate);
    rig.queue.suspend(Level::Block);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    assert_eq!(rig.state(), HELD_2);
    rig.run();
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    assert_eq!(rig.state(), HELD_1, "by hand");
    rig.hold(Level::Block);
    rig.queue.resume(false);
    rig.queue.resume(false);
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1), "by order");
    rig.queue.suspend(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate", "by hand, the other way round");
    rig.done();
    assert_eq!(rig.state(), HELD_2);
}

#[test]
fn a_hold_from_above_is_as_deep_as_the_queue_can_and_ends_by_itself() {
    for (level, steps, ends, held) in [
        (Level::Block, "", "", HELD_1),
        (Level::Deactivate, "deactivate", "reactivate", HELD_2),
        (Level::Interrupt, "deactivate interrupt", "restore reactivate", HELD_3),
    ] {
        let mut rig = busy(level);
        rig.queue.hold_from_above(true);
        assert_eq!((all_steps(&mut rig).as_str(), rig.state()), (steps, held), "{level}");
        assert!(!rig.report().expect("news").suspended, "the user has no part in it");
        // Neither of these ends it.
        rig.run();
        rig.queue.resume(false);
        rig.signal(Signal::FailOpen);
        rig.submit(1);
        assert_eq!((all_steps(&mut rig).as_str(), rig.state()), ("", held), "{level}");
        assert_eq!(rig.queue.can_launch(), Err(LaunchBlock::Held));
        rig.queue.hold_from_above(false);
        assert_eq!(all_steps(&mut rig), ends, "{level}");
        assert_eq!(rig.state(), HoldState::Running);
    }
}

/// Carries out each step that the queue asks for, and lists them. Launches are left alone.
fn all_steps(rig: &mut Rig) -> String {
    let mut steps = Vec::new();
    while let Some(Action::Step { step, seq }) = rig.queue.poll_step() {
        rig.seq = seq;
        steps.push(format!("{step:?}").to_lowercase());
        rig.done();
    }
    steps.join(" ")
}

#[test]
fn a_hold_from_above_closes_no_gate_that_another_process_closes() {
    for (level, held, steps, ends) in [
        (Level::Block, HoldState::Running, "", ""),
        (Level::Deactivate, HoldState::Running, "", ""),
        (Level::Interrupt, HELD_3, "interrupt", "restore"),
    ] {
        let mut rig = Rig::on(8, window(2, 1), Caps::up_to(level, 64).with_unit(true));
        rig.submit(4);
        rig.act();
        rig.queue.hold_from_above(true);
        assert_eq!((all_steps(&mut rig).as_str(), rig.state()), (steps, held), "{level}");
        // An order of its own scheduler closes one, and is undone alone.
        rig.hold(Level::Deactivate);
        let own = if level == Level::Block { "" } else { "deactivate" };
        assert_eq!(all_steps(&mut rig), own, "{level}");
        rig.queue.hold_from_above(false);
        assert_eq!(all_steps(&mut rig), ends, "{level}");
        rig.run();
        assert_eq!(all_steps(&mut rig), own.replace("de", "re"), "{level}");
    }
}

#[test]
fn a_level_that_is_raised_in_a_hold_from_above_counts_at_once() {
    let caps = Caps::up_to(Level::Interrupt, 64).with_unit(true);
    let mut rig = Rig::on(8, window(2, 1), caps);
    rig.queue.set_level(Level::Deactivate);
    rig.submit(4);
    rig.act();
    rig.queue.hold_from_above(true);
    assert_eq!((all_steps(&mut rig).as_str(), rig.state()), ("", HoldState::Running));
    rig.queue.set_level(Level::Interrupt);
    assert_eq!((all_steps(&mut rig).as_str(), rig.state()), ("interrupt", HELD_3));
    rig.queue.set_level(Level::Deactivate);
    assert_eq!((all_steps(&mut rig).as_str(), rig.state()), ("restore", HoldState::Running));
}

#[test]
fn failing_open_ends_the_schedulers_hold_until_its_next_word() {
    let mut rig = busy(Level::Deactivate);
    rig.hold(Level::Deactivate);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    rig.signal(Signal::FailOpen);
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    let report = rig.report().unwrap();
    assert!(report.failed_open);
    assert_eq!((report.hold, report.epoch), (HoldState::Running, 1));
    rig.queue.handle_order(Order::Hold { epoch: 1, level: Level::Block });
    assert_eq!(rig.state(), HoldState::Running, "that order is from before");
    rig.hold(Level::Block);
    assert_eq!(rig.state(), HELD_1);
    assert!(!rig.queue.report().failed_open);
}

#[test]
fn failing_open_without_a_hold_is_nothing() {
    let mut rig = busy(Level::Block);
    rig.signal(Signal::FailOpen);
    assert!(!rig.queue.report().failed_open);
    rig.run();
    rig.signal(Signal::FailOpen);
    assert!(!rig.queue.report().failed_open);
}

#[test]
fn a_user_hold_survives_failing_open() {
    let mut rig = busy(Level::Deactivate);
    rig.hold(Level::Deactivate);
    rig.queue.suspend(Level::Block);
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    rig.signal(Signal::FailOpen);
    assert_eq!(rig.act(), "reactivate", "only as deep as asked by hand");
    rig.done();
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1));
    rig.queue.resume(false);
    assert_eq!(rig.state(), HoldState::Running);
}

#[test]
fn steps_and_launches_can_be_polled_apart() {
    let mut rig = busy(Level::Deactivate);
    rig.hold(Level::Deactivate);
    assert_eq!(rig.queue.poll_launch(rig.now), None);
    let Some(Action::Step { step: Step::Deactivate, seq }) = rig.queue.poll_step() else {
        panic!("a step is due");
    };
    assert_eq!(rig.queue.poll_step(), None);
    rig.signal(Signal::Stepped { seq, result: Ok(None) });
    rig.run();
    rig.retire(0);
    assert_eq!(
        rig.queue.poll_launch(rig.now),
        Some(Action::Fence { upto: CmdId(3) }),
        "no launch before the device is released, whatever asks for it"
    );
}

#[test]
fn the_launch_rule_gives_the_reason() {
    let mut rig = Rig::new(16, window(2, 2), Level::Deactivate);
    let rule = |rig: &Rig| rig.queue.can_launch();
    assert_eq!(rule(&rig), Err(LaunchBlock::Empty));
    rig.submit(1);
    assert_eq!(rule(&rig), Ok(()));
    rig.submit(2);
    assert_eq!(rig.act(), "0* 1");
    assert_eq!(rule(&rig), Err(LaunchBlock::WindowFull));
    rig.hold(Level::Deactivate);
    assert_eq!(rule(&rig), Err(LaunchBlock::Held));
    assert_eq!(rig.act(), "deactivate");
    rig.done();
    rig.run();
    assert_eq!(rule(&rig), Err(LaunchBlock::Resuming));
    assert_eq!(rig.act(), "reactivate");
    rig.done();
    rig.retire(0);
    assert_eq!(rig.act(), "2*");
    rig.retire(2);
    let event = EventRef { queue: QueueId::new(1, 1), cmd: CmdId(0) };
    rig.enqueue_wait(event);
    assert_eq!(rule(&rig), Ok(()), "the queue has not come to the wait");
    assert_eq!(rig.act(), "");
    assert_eq!(rule(&rig), Err(LaunchBlock::Waiting(event)));
    rig.queue.handle_signal(rig.now, Signal::Lost);
    assert_eq!(rule(&rig), Err(LaunchBlock::Lost));
}
