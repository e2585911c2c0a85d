//! Tests of a process on a GPU as a whole.

use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order};
use xsched_core::time::{Duration, Instant};

use super::*;

const START: Instant = Instant::ZERO;
const HOLD: Order = Order::Hold { epoch: 7, level: Level::Deactivate };

const fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

fn at(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

/// A process with work.
fn ready() -> SchedEntity {
    let mut entity = SchedEntity::new(0, START);
    assert_eq!(entity.refresh(true, 0, START), GateWrite::Keep);
    entity
}

fn hold(entity: &mut SchedEntity, now: Instant) {
    assert_eq!(entity.obey(HOLD, now), (GateWrite::Close, true));
}

fn release(entity: &mut SchedEntity, now: Instant) {
    assert_eq!(entity.obey(Order::Run { epoch: 8 }, now), (GateWrite::Open, true));
}

#[test]
fn it_is_ready_from_the_first_work_to_the_last() {
    let mut entity = SchedEntity::new(0, START);
    let mut refresh = |has_work, ns| {
        assert_eq!(entity.refresh(has_work, 0, Instant::from_ns(ns)), GateWrite::Keep);
        (entity.is_ready(), entity.take_report().ready_since)
    };
    assert!(!refresh(false, 1).0);
    assert!(refresh(true, 2).0);
    assert_eq!(refresh(true, 3), (true, Instant::from_ns(2)));
    assert!(!refresh(false, 4).0);
}

#[test]
fn a_hold_of_a_user_outlives_that_of_the_scheduler() {
    let mut entity = ready();
    hold(&mut entity, START);
    assert_eq!(entity.suspend(true, START), GateWrite::Keep);
    assert_eq!(entity.obey(Order::Run { epoch: 8 }, START), (GateWrite::Keep, true));
    let report = entity.take_report();
    assert!(entity.is_held() && report.suspended);
    assert_eq!((report.epoch, report.hold), (8, HoldState::Running));
    assert_eq!(entity.suspend(false, START), GateWrite::Open);
    assert!(entity.is_running());
}

#[test]
fn a_hold_of_the_gang_is_none_of_the_scheduler_and_may_claim_nothing() {
    let mut entity = ready();
    let gang = |entity: &mut SchedEntity, state| entity.set_gang(Some(state), START);
    assert_eq!(gang(&mut entity, GangState::Held), GateWrite::Close);
    assert!(!entity.is_held_by(HoldCause::Order) && !entity.take_report().suspended);
    assert_eq!(gang(&mut entity, GangState::Yielding), GateWrite::Keep);
    assert!(entity.take_report().suspended);
    assert_eq!(entity.suspend(true, START), GateWrite::Keep);
    assert_eq!(gang(&mut entity, GangState::Runnable), GateWrite::Keep);
    assert!(entity.is_held() && entity.take_report().suspended);
    assert_eq!(gang(&mut entity, GangState::Yielding), GateWrite::Keep);
    assert_eq!(entity.suspend(false, START), GateWrite::Keep);
    assert!(entity.is_held() && entity.take_report().suspended);
    assert_eq!(entity.set_gang(None, START), GateWrite::Open);
    assert!(entity.is_running() && !entity.take_report().suspended);
}

#[test]
fn progress_is_wanted_after_so_much_device_time() {
    let mut entity = SchedEntity::new(500, START);
    let alone = |time| RunInterval::alone(us(time));
    assert!(
        !entity.account(alone(1_000), 500, at(1_000)).is_report_due,
        "the scheduler has not asked"
    );
    assert_eq!(entity.obey(Order::Progress { every: us(50) }, START), (GateWrite::Keep, false));
    entity.take_report();
    assert!(!entity.account(alone(30), 500, at(1_030)).is_report_due);
    assert_eq!(entity.report_due_in(), us(20));
    assert!(entity.account(alone(30), 500, at(1_060)).is_report_due);
    assert_eq!(entity.take_report().busy, us(1_060));
}

#[test]
fn a_command_that_ends_is_reported_once_if_that_is_wanted() {
    let mut entity = ready();
    let ended = |entity: &mut SchedEntity, ended, us| {
        let said = SelfReport { used_ns: 0, ended, waited_us: None };
        entity.account(RunInterval::NONE, said, at(us)).is_report_due
    };
    assert!(!ended(&mut entity, 5, 1_000), "it is not wanted");
    assert_eq!(entity.obey(Order::Watch { upto: 1 }, at(1_000)), (GateWrite::Keep, false));
    let before = entity.take_report();
    assert!(!ended(&mut entity, 5, 2_000), "none has ended");
    // It is looked at soon, and less often the longer it lasts.
    assert_eq!(entity.next_refresh_in(false, at(2_500)), us(1_500));
    ended(&mut entity, 5, 241_000);
    assert_eq!(entity.next_refresh_in(false, at(241_000)), us(30_000));
    ended(&mut entity, 5, 9_000_000);
    assert_eq!(entity.next_refresh_in(false, at(9_000_000)), us(50_000));
    assert!(ended(&mut entity, 6, 9_000_100));
    let after = entity.take_report();
    assert_eq!((after.retired, after.pending()), (before.retired + 1, true));
    assert!(!ended(&mut entity, 9, 9_000_200), "once");
    assert_eq!(entity.next_refresh_in(false, at(9_000_200)), Duration::MAX);
}

#[test]
fn a_short_pause_is_work_until_it_is_over() {
    let mut entity = SchedEntity::new(0, START);
    let refresh = |entity: &mut SchedEntity, has_work, us| {
        assert_eq!(entity.refresh(has_work, 0, at(us)), GateWrite::Keep);
        entity.state()
    };
    for step in 0..3 {
        refresh(&mut entity, true, step * 2_400);
        refresh(&mut entity, false, step * 2_400 + 2_000);
    }
    assert_eq!(entity.state(), EntityState::Grace);
    assert_eq!(entity.next_refresh_in(false, at(7_000)), us(300));
    let mut other = entity;
    assert!(!entity.account(RunInterval::NONE, 0, at(7_299)).is_grace_over);
    assert!(entity.account(RunInterval::NONE, 0, at(7_300)).is_grace_over);
    assert_eq!(refresh(&mut entity, false, 7_300), EntityState::Idle);
    assert_eq!(entity.next_refresh_in(false, at(7_300)), Duration::MAX);
    // Work during a hold is none: a quarter of 1.4 ms is waited for.
    hold(&mut other, at(7_000));
    assert_eq!(refresh(&mut other, true, 7_100), EntityState::Held);
    release(&mut other, at(9_000));
    assert_eq!(refresh(&mut other, false, 10_400), EntityState::Grace);
    assert_eq!(other.next_refresh_in(false, at(10_400)), us(350));
}

#[test]
fn what_went_on_after_a_hold_had_the_device_until_it_ended() {
    let mut entity = ready();
    let mut ended = 0;
    let mut overrun = |entity: &mut SchedEntity, used_ns, now| {
        ended += 1;
        let said = SelfReport { used_ns, ended, waited_us: None };
        entity.account(RunInterval::NONE, said, at(now)).overrun
    };
    let accounting = entity.account(RunInterval::alone(us(100)), 40_000, at(100));
    assert_eq!(accounting.overrun, Duration::ZERO);
    hold(&mut entity, at(100));
    assert_eq!(entity.probe().last_end(), None);
    let said = SelfReport::from(40_000);
    assert_eq!(entity.account(RunInterval::NONE, said, at(150)).overrun, Duration::ZERO);
    // It ended at about 160, but 60 of its 100 are counted. Another one ended at about 230.
    assert_eq!(overrun(&mut entity, 140_000, 170), us(40));
    assert_eq!(entity.account(RunInterval::NONE, 140_000, at(200)).overrun, Duration::ZERO);
    assert_eq!(overrun(&mut entity, 240_000, 260), us(70));
    assert_eq!(entity.used(), us(210));
    // Others had the device before that one ended, which did not take longer than 20.
    assert_eq!(overrun(&mut entity, 260_000, 900), us(20));
    assert_eq!((entity.probe().begun(), entity.probe().last_end()), (at(100), Some(at(900))));
    release(&mut entity, at(900));
    assert_eq!(overrun(&mut entity, 300_000, 950), Duration::ZERO);
    assert_eq!(entity.probe().last_end(), Some(at(900)), "it was no hold any more");
}

#[test]
fn of_a_command_that_others_interrupted_only_what_was_left_at_the_hold_counts() {
    let mut entity = ready();
    hold(&mut entity, START);
    release(&mut entity, START);
    // Two commands of 1,600 ran for 3,000, and the second one ended much later.
    entity.account(RunInterval::alone(us(3_000)), 1_600_000, at(3_000));
    hold(&mut entity, at(3_000));
    entity.account(RunInterval::NONE, 1_600_000, at(6_000));
    assert_eq!(entity.account(RunInterval::NONE, 3_200_000, at(6_500)).overrun, us(200));
    assert_eq!(entity.used(), us(3_200));
    // Of those of the next turn nothing was left.
    release(&mut entity, at(9_000));
    entity.account(RunInterval::alone(us(1_700)), 3_200_000, at(10_700));
    hold(&mut entity, at(10_700));
    let accounting = entity.account(RunInterval::NONE, 4_800_000, at(11_000));
    assert_eq!(accounting.overrun, Duration::ZERO);
}

#[test]
fn one_that_is_held_cannot_take_the_time_of_others_upon_itself_for_ever() {
    let mut entity = ready();
    hold(&mut entity, START);
    let overrun = |ms: u64| {
        let now = Instant::from_ns(ms * 1_000_000);
        entity.account(RunInterval::NONE, now.as_ns(), now).overrun.as_ns()
    };
    let all: u64 = (1..1_000).map(overrun).sum();
    assert_eq!(all, 10_000_000);
}

#[test]
fn time_in_which_a_held_one_went_on_is_not_that_of_those_that_run() {
    let mut entity = ready();
    entity.charge_overrun(us(150));
    entity.account(RunInterval::alone(us(100)), 0, at(100));
    assert_eq!(entity.used(), Duration::ZERO);
    entity.account(RunInterval::among(2, us(200)), 0, at(300));
    assert_eq!(entity.used(), us(50));
}

#[test]
fn one_that_may_be_bound_by_its_host_is_checked_often() {
    let of = |used_us: u64, steps: u64| {
        let (mut entity, mut now) = (ready(), START);
        for step in 1..=steps {
            now += us(5_000);
            // It waits in each step.
            let (used_ns, waited_us) = (step * used_us * 1_000, Some(step as u32));
            let said = SelfReport { used_ns, ended: step, waited_us };
            entity.account(RunInterval::alone(us(5_000)), said, now);
        }
        assert!(!entity.is_host_bound());
        (entity, now)
    };
    let (entity, now) = of(1_000, 10);
    assert_eq!(entity.next_host_check_in(now), POLL_INTERVAL);
    assert_eq!(entity.next_host_check_in(now + us(1_500)), us(500));
    assert_eq!(of(4_000, 10).0.next_host_check_in(now), Duration::MAX, "it needs the device");
    assert_eq!(of(1_000, 1).0.next_host_check_in(now), Duration::MAX, "nothing is known");
    let (mut entity, now) = of(1_000, 10);
    hold(&mut entity, now);
    assert_eq!(entity.next_host_check_in(now), Duration::MAX);
    let (mut entity, now) = of(1_000, 10);
    entity.run_concurrently();
    assert_eq!(entity.next_host_check_in(now), Duration::MAX);
    let (mut entity, now) = of(1_000, 10);
    let later = now + us(9_000);
    let said = SelfReport { used_ns: 11_000_000, ended: 11, waited_us: Some(10) };
    entity.account(RunInterval::alone(us(9_000)), said, later);
    assert!(entity.is_host_bound());
    assert_eq!(entity.next_host_check_in(later), Duration::MAX, "it is known");
}

#[test]
fn what_ends_after_a_hold_is_looked_at_ever_less_often() {
    let mut entity = ready();
    hold(&mut entity, at(100));
    assert_eq!(
        entity.next_refresh_in(false, at(100)),
        Duration::MAX,
        "the scheduler has not asked"
    );
    let left = [100, 130, 150, 199, 300].map(|us| entity.next_refresh_in(true, at(us)));
    assert_eq!(left.map(|left| left.as_ns() / 1_000), [50, 20, 12, 23, 38]);
    let _ = entity.obey(Order::Progress { every: us(50) }, START);
    entity.account(RunInterval::NONE, 0, at(300));
    assert_eq!(entity.next_refresh_in(false, at(300)).as_ns() / 1_000, 38, "since the hold");
    assert_eq!(entity.next_refresh_in(true, at(10_100)), Duration::MAX);
}
