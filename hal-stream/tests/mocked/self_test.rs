//! The test of gates on the device.

use super::*;

fn outcome(nature: Nature) -> Option<NoGate> {
    device(nature).no_gate().cloned()
}

#[test]
fn a_device_as_it_should_be_passes() {
    assert_eq!(outcome(Nature::default()), None);
}

#[test]
fn a_device_that_does_not_wait_is_noticed() {
    let nature = Nature { ignores_waits: true, ..Nature::default() };
    assert_eq!(outcome(nature), Some(NoGate::NotHeld));
}

#[test]
fn a_device_that_holds_all_streams_is_noticed() {
    let nature = Nature { one_ring: true, ..Nature::default() };
    assert_eq!(outcome(nature), Some(NoGate::OtherStreamsHeld));
}

#[test]
fn a_device_that_does_not_go_on_is_noticed() {
    let nature = Nature { never_opens: true, ..Nature::default() };
    assert_eq!(outcome(nature), Some(NoGate::NotOpened));
}

#[test]
fn a_device_that_blocks_at_once_is_noticed() {
    let nature = Nature { ring: Some(1), ..Nature::default() };
    assert_eq!(outcome(nature), Some(NoGate::Blocks));
}

#[test]
fn a_thread_that_is_late_again_and_again_is_not_taken_for_blocked() {
    assert_eq!(outcome(Nature { away_ms: 30, ..Nature::default() }), None);
}

#[test]
fn a_device_that_others_keep_for_a_while_passes() {
    assert_eq!(outcome(Nature { kept_ms: 1_200, ..Nature::default() }), None);
}

#[test]
fn the_drivers_words_are_passed_on() {
    let nature = Nature { no_waits: Some("too old".to_owned()), ..Nature::default() };
    let device = device(nature);
    assert_eq!(device.no_gate(), Some(&NoGate::NoWaits("too old".to_owned())));
    assert_eq!(device.level(), Level::Block);
}

#[test]
fn calls_that_fail_are_named() {
    for name in ["flag_memory", "wait_zero", "launch_nothing", "record", "query"] {
        let mock = Mock::new(Nature::default());
        mock.fail_all(Some(name));
        let device = tested(mock, with_entries(Some(64)));
        let Some(NoGate::Failed(why)) = device.no_gate() else { panic!("{name} fails") };
        assert!(why.contains(name), "{why}");
    }
    for name in ["create_stream", "create_event"] {
        let mock = Mock::new(Nature::default());
        mock.fail_all(Some(name));
        let device = tested(mock, with_entries(Some(64)));
        assert!(matches!(device.no_gate(), Some(NoGate::Failed(_))));
        assert_eq!(device.api().alive().0, 0, "a stream is left");
        assert_eq!(device.api().alive().1, 0, "an event is left");
    }
}

/// A quarter of what the hardware queue takes, by trying.
#[test]
fn the_depth_is_measured() {
    let nature = Nature { ring: Some(200), ..Nature::default() };
    let device = tested(Mock::new(nature), with_entries(None));
    assert_eq!(device.no_gate(), None);
    assert!((49..=51).contains(&device.entries_max()), "{}", device.entries_max());
}

/// As on a machine that is busy with other things.
#[test]
fn a_thread_that_is_late_once_is_not_taken_for_blocked() {
    let mock = Mock::new(Nature::default());
    mock.stall("wait_zero", 0);
    let device = tested(mock, with_entries(Some(64)));
    assert_eq!(device.no_gate(), None);
    let mock = Mock::new(Nature { ring: Some(200), ..Nature::default() });
    mock.stall("wait_zero", 10);
    let device = tested(mock, with_entries(None));
    assert!((49..=51).contains(&device.entries_max()), "{}", device.entries_max());
}

#[test]
fn it_runs_when_the_first_gate_is_wanted() {
    let mut device =
        StreamDevice::new(Mock::new(Nature::default()), with_entries(Some(64))).expect("a device");
    let block = StreamConfig::default().level_max(Level::Block);
    let first = device.open(QueueId::new(0, 0), block).expect("a queue");
    assert_eq!(first.caps.level, Level::Block);
    let (streams, _, _) = device.api().alive();
    assert_eq!((streams, device.api().puts().len()), (1, 1), "nothing was tested");
    let second = device.open(QueueId::new(1, 0), StreamConfig::default()).expect("a queue");
    assert_eq!(second.caps.level, Level::Deactivate);
    assert!(device.api().puts().len() > 2, "streams were made for the test");
}

#[test]
fn a_depth_without_end_is_bounded() {
    let mock = Mock::new(Nature::default());
    let device = tested(mock, with_entries(None));
    assert_eq!(device.entries_max(), 1_024);
}
