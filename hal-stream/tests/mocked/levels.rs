//! Level of a queue, and its reason.

use super::*;

fn level_on(device: &mut StreamDevice<Mock>, stream: u64) -> Level {
    // SAFETY: the device in memory has the stream for as long as it lives.
    let config = unsafe { StreamConfig::default().on_stream(stream) };
    device.open(QueueId::new(0, 0), config).expect("a queue").caps.level
}

#[test]
fn streams_that_cannot_be_held_alone_are_at_lv1() {
    let mut device = device(Nature::default());
    let stream = device.api().create_stream(None).expect("a stream");
    assert_eq!(level_on(&mut device, stream), Level::Deactivate);
    assert_eq!(open(&mut device, 0).caps.level, Level::Deactivate);
    let nature = Nature { blocking: true, ..Nature::default() };
    let mut blocking = self::device(nature);
    let stream = blocking.api().create_stream(None).expect("a stream");
    assert_eq!(level_on(&mut blocking, stream), Level::Block, "a blocking stream of the caller");
    assert_eq!(open(&mut blocking, 0).caps.level, Level::Deactivate, "one of its own");
    let nature = Nature { own_ring: Some(false), ..Nature::default() };
    assert_eq!(open(&mut self::device(nature), 0).caps.level, Level::Block, "a shared ring");
    let nature = Nature { own_ring: Some(true), ..Nature::default() };
    assert_eq!(open(&mut self::device(nature), 0).caps.level, Level::Deactivate);
}

#[test]
fn the_legacy_default_stream_is_at_lv1() {
    let mut device = device(Nature::default());
    // SAFETY: a constant of the driver.
    let config = unsafe { StreamConfig::default().on_stream(LEGACY) };
    let queue = device.open(QueueId::new(0, 0), config).expect("a queue");
    assert_eq!(queue.caps.level, Level::Block);
}

#[test]
fn the_stream_of_each_thread_is_refused() {
    let mut device = device(Nature::default());
    // SAFETY: a constant of the driver.
    let config = unsafe { StreamConfig::default().on_stream(PER_THREAD) };
    let opened = device.open(QueueId::new(0, 0), config);
    assert!(matches!(opened, Err(StreamError::Driver { .. })));
}

#[test]
fn a_queue_is_no_higher_than_asked() {
    let mut device = device(Nature::default());
    let config = StreamConfig::default().level_max(Level::Block);
    let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
    assert_eq!(queue.caps.level, Level::Block);
    launch(&mut queue, 0, 3, US);
    assert!(!puts(&device).iter().any(|put| matches!(put, Put::Wait(_))));
    let mut config = with_entries(Some(64));
    config.level_max = Level::Block;
    let before = tested(Mock::new(Nature::default()), config);
    assert_eq!(before.no_gate(), Some(&NoGate::Configured));
    assert_eq!((before.level(), before.api().puts().len()), (Level::Block, 0));
}

#[test]
fn fences_are_bounded() {
    let config = with_entries(Some(4));
    let mut device = tested(Mock::new(Nature::default()), config);
    let mut queue = open(&mut device, 0);
    assert_eq!(queue.caps.entries_max, 4);
    queue.submit.launch(CmdId(0), &command(US), true).expect("a launch");
    let refused = (0..20).find_map(|_| queue.submit.fence(CmdId(0)).err());
    assert!(matches!(refused, Some(StreamError::FencesFull { fences: 8 })), "{refused:?}");
    device.api().pass(10 * US);
    assert_eq!(poll(&mut queue), Some((1, US)));
    queue.submit.fence(CmdId(0)).expect("there is room again");
}
