//! Information for the scheduler and the user: reports, statuses, counters, the ring.

use proptest::prelude::*;

use super::*;

#[test]
fn going_to_work_and_going_idle_are_reported_and_nothing_between() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    assert_eq!(rig.report(), None, "nothing happened");
    rig.now = Instant::from_ns(70);
    rig.submit(3);
    let report = rig.report().unwrap();
    assert!(report.pending());
    assert_eq!((report.submitted, report.ready_since), (1, Instant::from_ns(70)).max((3, rig.now)));
    assert_eq!(rig.act(), "0* 1 2");
    rig.submit(1);
    assert_eq!(rig.act(), "3");
    rig.retire(1);
    assert_eq!(rig.report(), None, "still at work");
    rig.retire(3);
    let report = rig.report().unwrap();
    assert!(!report.pending());
    assert_eq!((report.submitted, report.launched, report.retired), (4, 4, 4));
    rig.now = Instant::from_ns(90);
    rig.submit(1);
    assert_eq!(rig.report().unwrap().ready_since, Instant::from_ns(90));
}

#[test]
fn every_change_of_the_hold_is_reported() {
    let mut rig = Rig::new(16, window(4, 4), Level::Deactivate);
    rig.submit(2);
    rig.act();
    rig.report();
    rig.hold(Level::Deactivate);
    rig.act();
    assert_eq!(rig.report().unwrap().hold, HoldState::Holding);
    rig.done();
    rig.act();
    assert_eq!(rig.report().unwrap().hold, HELD_2);
    rig.run();
    rig.act();
    assert_eq!(rig.report().unwrap().hold, HoldState::Resuming);
    rig.done();
    rig.act();
    assert_eq!(rig.report().unwrap().hold, HoldState::Running);
    assert_eq!(rig.report(), None);
}

#[test]
fn an_order_that_changes_nothing_is_acknowledged_all_the_same() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.run();
    let report = rig.report().unwrap();
    assert_eq!((report.epoch, report.hold), (1, HoldState::Running));
}

#[test]
fn user_holds_are_reported() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.queue.suspend(Level::Block);
    assert!(rig.report().unwrap().suspended);
    rig.queue.resume(false);
    assert!(!rig.report().unwrap().suspended);
    rig.queue.resume(false);
    assert_eq!(rig.report(), None, "there was none to end");
}

#[test]
fn waiting_is_reported_when_it_begins_and_when_it_ends() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.submit(1);
    rig.enqueue_wait(event(4));
    rig.submit(1);
    assert_eq!(rig.act(), "0*");
    assert_eq!(rig.report().unwrap().waiting, Some(event(4)));
    assert_eq!(rig.queue.waiting(), Some(event(4)));
    rig.queue.handle_order(Order::Reached { event: event(5), ok: true });
    rig.queue.handle_order(Order::Reached {
        event: EventRef { queue: QueueId::new(7, 2), cmd: CmdId(4) },
        ok: true,
    });
    assert_eq!(rig.act(), "", "other events do not count");
    rig.queue.handle_order(Order::Reached { event: event(4), ok: true });
    assert_eq!(rig.act(), "2");
    assert_eq!(rig.report().unwrap().waiting, None);
    rig.queue.handle_order(Order::Reached { event: event(4), ok: false });
    rig.retire(2);
    assert_eq!(rig.status(1), Status::Done, "told once, told for good");
}

#[test]
fn waits_one_after_the_other() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.enqueue_wait(event(1));
    rig.enqueue_wait(event(1));
    rig.enqueue_wait(event(2));
    assert_eq!(rig.act(), "");
    for at in [1, 1, 2] {
        assert_eq!(rig.queue.waiting(), Some(event(at)));
        rig.queue.handle_order(Order::Reached { event: event(at), ok: true });
        rig.act();
    }
    assert_eq!(rig.counts(), (3, 3, 3));
    assert!(!rig.report().unwrap().pending());
}

#[test]
fn a_watch_is_answered_at_once_when_submitted_and_when_retired() {
    let mut rig = Rig::new(16, window(4, 4), Level::Block);
    rig.submit(1);
    rig.act();
    rig.report();
    rig.queue.handle_order(Order::Watch { upto: 3 });
    assert_eq!(rig.report().unwrap().submitted, 1, "this is how much there is");
    rig.submit(1);
    assert_eq!(rig.act(), "1");
    assert_eq!(rig.report(), None);
    rig.submit(1);
    assert_eq!(rig.act(), "2*", "watched: its completion must be seen");
    assert_eq!(rig.report().unwrap().submitted, 3);
    rig.submit(1);
    rig.act();
    rig.retire(0);
    assert_eq!(rig.report(), None);
    rig.retire(2);
    assert_eq!(rig.report().unwrap().retired, 3);
    rig.retire(3);
    assert!(rig.report().is_some(), "idle");
    rig.submit(1);
    rig.report();
    rig.retire(4);
    assert_eq!(rig.report(), None, "the watch is over, and 4 is not launched yet");
}

#[test]
fn watching_what_is_on_the_device_fences_it() {
    let mut rig = Rig::new(16, window(8, 8), Level::Block);
    rig.submit(4);
    assert_eq!(rig.act(), "0* 1 2 3");
    rig.queue.handle_order(Order::Watch { upto: 2 });
    assert_eq!(rig.act(), "fence3");
}

#[test]
fn progress_is_reported_as_often_as_asked() {
    let mut rig = Rig::new(32, window(16, 1), Level::Block);
    rig.submit(20);
    rig.act();
    rig.report();
    rig.retire_as(0, 900, Outcome::Ok);
    assert_eq!(rig.report(), None, "no watch was ordered");
    rig.queue.handle_order(Order::Progress { every: Duration::from_us(500) });
    rig.retire_as(1, 100, Outcome::Ok);
    assert_eq!(rig.report().unwrap().busy, Duration::from_us(1_000));
    rig.retire_as(2, 499, Outcome::Ok);
    assert_eq!(rig.report(), None);
    rig.retire_as(3, 1, Outcome::Ok);
    assert_eq!(rig.report().unwrap().busy, Duration::from_us(1_500));
    rig.queue.handle_order(Order::Progress { every: Duration::MAX });
    rig.retire_as(4, 900, Outcome::Ok);
    assert_eq!(rig.report(), None);
    assert_eq!(rig.queue.busy(), Duration::from_us(2_400));
}

#[test]
fn device_time_is_counted_once() {
    let mut rig = Rig::new(8, window(4, 1), Level::Block);
    rig.submit(2);
    rig.act();
    rig.retire_as(0, 7, Outcome::Ok);
    rig.retire_as(0, 7, Outcome::Ok);
    rig.retire_as(9, 7, Outcome::Ok);
    assert_eq!(rig.queue.busy(), Duration::from_us(7));
}

#[test]
fn a_ring_without_slots_takes_nothing() {
    let mut rig = Rig::new(0, window(4, 4), Level::Block);
    assert!(rig.queue.is_full());
    assert_eq!(rig.queue.submit(rig.now), Err(SubmitError::Full));
    assert_eq!(rig.queue.enqueue_wait(rig.now, event(0)), Err(SubmitError::Full));
    assert_eq!(rig.status(0), Status::Unknown);
    assert!(!rig.queue.cancel(CmdId(0)));
    rig.queue.request_completion(CmdId(0));
    rig.queue.drop_pending();
    rig.hold(Level::Block);
    rig.retire(0);
    assert_eq!((rig.act().as_str(), rig.state()), ("", HELD_1));
    rig.signal(Signal::Lost);
    assert_eq!(rig.queue.submit(rig.now), Err(SubmitError::Lost));
}

#[test]
fn rings_of_any_size_work_and_remember_as_much_as_they_hold() {
    for slots in [1, 2, 3, 5, 7, 8, 12] {
        let mut rig = Rig::new(slots, window(16, 4), Level::Block);
        let n = slots as u64;
        for round in 0..5 {
            let first = round * n;
            rig.submit(n);
            assert_eq!(rig.queue.submit(rig.now), Err(SubmitError::Full), "{slots} slots");
            rig.act();
            let middle = first + n / 2;
            let outcome = Outcome::Failed { from: CmdId(middle), fault: Fault::Execution };
            rig.retire_as(first + n - 1, 1, outcome);
            assert!(!rig.queue.is_full());
            for cmd in 0..first {
                assert_eq!(rig.status(cmd), Status::Forgotten, "{slots} slots");
            }
            for cmd in first..first + n {
                let failed = Status::Failed(Fault::Execution);
                let expected = if cmd < middle { Status::Done } else { failed };
                assert_eq!(rig.status(cmd), expected, "{slots} slots, command {cmd}");
            }
            assert_eq!(rig.status(first + n), Status::Unknown);
        }
    }
}

#[test]
fn a_ring_smaller_than_the_window_never_wedges() {
    let mut rig = Rig::new(1, window(16, 8), Level::Block);
    for cmd in 0..10 {
        rig.submit(1);
        assert_eq!(rig.act(), format!("{cmd}*"));
        rig.retire(cmd);
    }
}

#[test]
fn statuses_follow_a_command_through_its_life() {
    let mut rig = Rig::new(4, window(1, 1), Level::Block);
    assert_eq!(rig.status(1), Status::Unknown);
    rig.submit(2);
    assert_eq!((rig.status(0), rig.status(1)), (Status::Queued, Status::Queued));
    rig.act();
    assert_eq!((rig.status(0), rig.status(1)), (Status::InFlight, Status::Queued));
    rig.retire(0);
    rig.act();
    assert_eq!((rig.status(0), rig.status(1)), (Status::Done, Status::InFlight));
    assert_eq!(rig.status(u64::MAX), Status::Unknown);
    for (status, is_final) in [
        (Status::Unknown, false),
        (Status::Queued, false),
        (Status::InFlight, false),
        (Status::Done, true),
        (Status::Failed(Fault::Launch), true),
        (Status::Forgotten, true),
    ] {
        assert_eq!(status.is_final(), is_final);
    }
}

#[test]
fn errors_say_what_to_do() {
    assert!(SubmitError::Full.to_string().contains("wait"));
    assert!(SubmitError::Lost.to_string().contains("reopen"));
}

/// Does whatever the bytes say, sense or nonsense.
fn poke(rig: &mut Rig, what: u8, with: u8) {
    let n = u64::from(with);
    match what % 12 {
        0 | 1 => drop(rig.queue.submit(rig.now)),
        2 => drop(rig.queue.enqueue_wait(rig.now, event(n % 4))),
        3 | 4 => rig.retire_as(n, 1, Outcome::Ok),
        5 => rig.refuse(n),
        6 => rig.hold(Level::ALL[usize::from(with % 3)]),
        7 => rig.run(),
        8 => rig.answer(if with.is_multiple_of(4) { Err(Fault::Timeout) } else { Ok(Some(n)) }),
        9 => rig.queue.handle_order(Order::Reached { event: event(n % 4), ok: with > 9 }),
        10 if with.is_multiple_of(2) => drop(rig.queue.cancel(CmdId(n))),
        10 => rig.queue.resume(with % 4 == 1),
        _ if with == 0 => rig.signal(Signal::Lost),
        _ => rig.pass(Duration::from_ms(n)),
    }
}

proptest! {
    #[test]
    fn counters_never_go_back_whatever_happens(
        slots in 0usize..20, threshold in 1u32..8, replay in any::<bool>(),
        moves in proptest::collection::vec(any::<(u8, u8)>(), 0..200),
    ) {
        let mut caps = Caps::up_to(Level::Interrupt, 64);
        if replay {
            caps = caps.with_recovery(Recovery::Replay);
            caps.interrupt = Some(Recovery::Replay);
        }
        let mut rig = Rig::on(slots, window(threshold, 2), caps);
        let mut before = (rig.counts(), rig.queue.busy(), rig.queue.report().failures);
        for (what, with) in moves {
            poke(&mut rig, what, with);
            rig.act();
            let after = (rig.counts(), rig.queue.busy(), rig.queue.report().failures);
            let ((s, l, r), busy, failures) = after;
            let ((s0, l0, r0), busy0, failures0) = before;
            prop_assert!(s >= s0 && l >= l0 && r >= r0 && busy >= busy0 && failures >= failures0);
            prop_assert!(s >= l && l >= r && s - r <= slots as u64);
            prop_assert!(rig.queue.in_flight() <= u64::from(threshold).max(l - r));
            before = after;
        }
    }
}
