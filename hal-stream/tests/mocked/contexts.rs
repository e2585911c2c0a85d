//! Queues in several contexts.

use super::*;

#[test]
fn each_has_streams_of_its_own_and_gates_open_together() {
    let mut first = device(Nature::default());
    let mut second = first.in_context(Mock::new(Nature::default()));
    assert_eq!(second.level(), Level::Deactivate);
    let mut queues = [open(&mut first, 0), open(&mut second, 0)];
    for (device, queue) in [&first, &second].into_iter().zip(&mut queues) {
        queue.preempt.step(Step::Deactivate).expect("a step");
        launch(queue, 0, 2, 20 * US);
        device.api().pass(100 * US);
    }
    assert_eq!([first.api().ran(), second.api().ran()], [0; 2]);
    first.with_gates_open(|| {
        assert!(second.gates_open()());
        [&first, &second].into_iter().for_each(|device| device.api().pass(100 * US));
    });
    assert_eq!([first.api().ran(), second.api().ran()], [2; 2]);
}

#[test]
fn one_without_gates_has_queues_at_level_1() {
    let first = device(Nature::default());
    let nature = Nature { ignores_waits: true, ..Nature::default() };
    let mut second = first.in_context(Mock::new(nature));
    assert_eq!((first.no_gate(), second.no_gate()), (None, Some(&NoGate::NotHeld)));
    assert_eq!(open(&mut second, 0).caps.level, Level::Block);
}

#[test]
fn the_end_of_one_waits_for_a_call_of_its_probe() {
    let mut config = with_entries(Some(64));
    config.probe_every = Duration::from_millis(1);
    let mut first = tested(Mock::new(Nature::default()), config);
    let second = first.in_context(Mock::new(Nature::default()));
    assert_eq!(second.level(), Level::Deactivate);
    let mut queue = open(&mut first, 0);
    queue.preempt.step(Step::Deactivate).expect("a step");
    let stalled = Arc::clone(&second.api().stalled);
    second.api().stall("create_event", 0);
    let start = Instant::now();
    while stalled.load(Ordering::SeqCst) == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "no probe");
        thread::yield_now();
    }
    drop(second);
    assert_eq!(stalled.load(Ordering::SeqCst), 0);
}
