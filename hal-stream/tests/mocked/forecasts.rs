//! Forecasts of the rest of a running command.

use super::*;

const S: u64 = 1_000_000_000;

#[test]
fn what_is_left_is_what_was_predicted_less_what_has_gone() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    assert_eq!(queue.retire.forecast(CmdId(0)), None);
    let start = Instant::now();
    for n in 0..3 {
        let long = command(S).expected_ns(S);
        queue.submit.launch(CmdId(n), &long, true).expect("a launch");
    }
    for n in 0..3 {
        let forecast = queue.retire.forecast(CmdId(n)).expect("all is predicted");
        let gone = u64::try_from(start.elapsed().as_nanos()).expect("it is short");
        let total = (n + 1) * S;
        assert!((total.saturating_sub(gone)..=total).contains(&forecast.left.as_ns()));
        assert_eq!(forecast.overdue.as_ns(), 0);
    }
}

#[test]
fn what_should_have_ended_is_overdue() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    let short = command(S).expected_ns(1);
    queue.submit.launch(CmdId(0), &short, true).expect("a launch");
    thread::sleep(Duration::from_millis(2));
    let forecast = queue.retire.forecast(CmdId(0)).expect("it is predicted");
    assert_eq!(forecast.left.as_ns(), 0);
    assert!(forecast.overdue.as_ns() >= 1_999 * US, "{forecast:?}");
}

#[test]
fn what_was_not_measured_is_overdue_from_the_start() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    launch(&mut queue, 0, 1, 10 * US);
    let forecast = queue.retire.forecast(CmdId(0)).expect("something is in flight");
    assert_eq!(forecast.left.as_ns(), 0);
    assert!(forecast.overdue.as_ns() > 0);
    device.api().pass(100 * US);
    assert_eq!(poll(&mut queue), Some((1, 10 * US)));
    launch(&mut queue, 1, 1, 10 * US);
    assert!(queue.retire.forecast(CmdId(1)).is_some());
}

#[test]
fn a_queue_that_is_held_has_nothing_to_report_soon() {
    let mut device = device(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    queue.preempt.step(Step::Deactivate).expect("a step");
    let short = command(1).expected_ns(1);
    queue.submit.launch(CmdId(0), &short, true).expect("a launch");
    // What ran before the hold may go on to the next gate.
    thread::sleep(Duration::from_micros(250));
    let forecast = queue.retire.forecast(CmdId(0)).expect("it is predicted");
    assert!(forecast.left.as_ns() >= 1_000 * US, "{forecast:?}");
}
