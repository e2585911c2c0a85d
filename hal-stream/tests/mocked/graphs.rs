//! Graphs with gates inside.

use super::*;
use xsched_hal_stream::GateWord;

/// As a graph of kernels with a gate between any two of them.
fn graph(
    device: &StreamDevice<Mock>,
    word: &GateWord<Mock>,
    kernels: u64,
    ns: u64,
) -> StreamCommand<Mock> {
    let (device, word) = (device.clone(), word.clone());
    StreamCommand::new(move |stream| {
        let api = device.api();
        for n in 0..kernels {
            // SAFETY: the stream is the queue's, and the word is kept by this.
            unsafe {
                if n > 0 {
                    api.wait_zero(stream, word.address())?;
                }
                api.launch_native(&ns, stream)?;
            }
        }
        Ok(())
    })
}

fn with_word(device: &mut StreamDevice<Mock>, word: &GateWord<Mock>) -> Queue {
    device.open(QueueId::new(0, 0), StreamConfig::default().with_gate(word)).expect("a queue")
}

#[test]
fn a_hold_stops_a_graph_at_its_next_gate() {
    let mut device = device(Nature::default());
    let word = device.gate_word().expect("a word");
    let mut queue = with_word(&mut device, &word);
    let command = graph(&device, &word, 10, 100 * US);
    queue.submit.launch(CmdId(0), &command, true).expect("a launch");
    device.api().pass(250 * US);
    queue.preempt.step(Step::Deactivate).expect("a hold");
    // The third ends, and nothing else starts.
    device.api().pass(10_000 * US);
    assert_eq!(poll(&mut queue), None);
    queue.preempt.step(Step::Reactivate).expect("the end of it");
    device.api().pass(699 * US);
    assert_eq!(poll(&mut queue), None);
    device.api().pass(1_000 * US);
    assert!(poll(&mut queue).is_some_and(|(upto, _)| upto == 1));
}

/// A graph may wait at a gate of its own, which has no events, or still run.
#[test]
fn a_queue_whose_graph_is_held_is_quiet_or_unknown() {
    let mut device = device(Nature::default());
    let word = device.gate_word().expect("a word");
    let mut queue = with_word(&mut device, &word);
    let command = graph(&device, &word, 10, 100 * US).expected_ns(1_000 * US);
    queue.submit.launch(CmdId(0), &command, true).expect("a launch");
    queue.preempt.step(Step::Deactivate).expect("a hold");
    let quiet = |queue: &mut Queue| queue.preempt.is_quiet().expect("an answer");
    assert_eq!(quiet(&mut queue), Some(false));
    device.api().pass(10_000 * US);
    // For as long as commands of this length may run on.
    thread::sleep(Duration::from_micros(1_100));
    assert_eq!(quiet(&mut queue), None);
    queue.preempt.step(Step::Reactivate).expect("the end of it");
    device.api().pass(10_000 * US);
    assert!(poll(&mut queue).is_some());
    queue.preempt.step(Step::Deactivate).expect("a hold");
    thread::sleep(Duration::from_micros(20));
    assert_eq!(quiet(&mut queue), Some(true));
}

/// Returns whether a queue with this word is known to be quiet some time after a hold, in which a
/// command runs that was predicted to take 10 s.
fn known_of_a_hold(tells: bool, asks: bool) -> Option<bool> {
    let mut device = device(Nature::default());
    let word = device.gate_word().expect("a word");
    let mut queue = with_word(&mut device, &word);
    let (there, api) = (word.clone(), device.clone());
    let command = StreamCommand::new(move |stream| {
        if tells {
            there.has_gates_inside();
        }
        if asks {
            let _ = there.address();
        }
        // SAFETY: the stream is the queue's.
        unsafe { api.api().launch_native(&(10_000_000 * US), stream) }
    });
    let command = command.expected_ns(10_000_000 * US);
    queue.submit.launch(CmdId(0), &command, true).expect("a launch");
    queue.preempt.step(Step::Deactivate).expect("a hold");
    // More than the spacing.
    thread::sleep(Duration::from_micros(1_100));
    queue.preempt.is_quiet().expect("an answer")
}

#[test]
fn a_command_with_gates_of_its_own_runs_on_for_a_spacing() {
    assert_eq!(known_of_a_hold(true, true), None, "it may wait at a gate of its own");
    assert_eq!(known_of_a_hold(false, true), Some(false), "it may run for seconds");
}

#[test]
fn a_queue_whose_word_is_used_by_nothing_else_is_known_to_run() {
    assert_eq!(known_of_a_hold(true, false), Some(false));
}

#[test]
fn a_word_that_no_queue_uses_holds_nothing() {
    let device = device(Nature::default());
    let word = device.gate_word().expect("a word");
    let api = device.api();
    let stream = api.create_stream(None).expect("a stream");
    // SAFETY: it is alive, and so is the word.
    unsafe { graph(&device, &word, 3, US).launch_into(api, stream) }.expect("a launch");
    api.pass(3 * US);
    // SAFETY: it is alive.
    assert!(unsafe { api.is_done(stream) }.expect("an answer"));
}

#[test]
fn a_word_is_kept_by_its_clones_its_queue_and_what_that_was_given() {
    let mut device = device(Nature::default());
    let free = |device: &StreamDevice<Mock>| {
        let word = device.gate_word().expect("a word");
        word.address()
    };
    let word = device.gate_word().expect("a word");
    let address = word.address();
    assert_ne!(free(&device), address, "another clone has it");
    let mut queue = with_word(&mut device, &word);
    let command = graph(&device, &word, 3, 100 * US);
    queue.submit.launch(CmdId(0), &command, true).expect("a launch");
    drop(command);
    drop(word);
    assert_ne!(free(&device), address, "the queue has it");
    drop(queue);
    assert_ne!(free(&device), address, "the device is busy");
    device.api().pass(300 * US);
    // Looked at when the next queue is opened.
    drop(open(&mut device, 200 * US));
    assert_eq!(free(&device), address);
}

#[test]
fn a_word_goes_back_after_an_event() {
    let mut device = device(Nature::default());
    let word = device.gate_word().expect("a word");
    let address = word.address();
    let api = device.api();
    let stream = api.create_stream(None).expect("a stream");
    let event = api.create_event().expect("an event");
    // SAFETY: all is alive, and the event is forgotten.
    unsafe {
        graph(&device, &word, 3, 100 * US).launch_into(api, stream).expect("a launch");
        api.record(event, stream).expect("a record");
        word.give_back_after(Some(event));
    }
    let taken = device.gate_word().expect("a word");
    assert_ne!(taken.address(), address, "the device is busy");
    device.api().pass(300 * US);
    drop(open(&mut device, 200 * US));
    assert_eq!(device.gate_word().expect("a word").address(), address);
}

#[test]
fn a_word_without_an_event_never_goes_back() {
    let device = device(Nature::default());
    let word = device.gate_word().expect("a word");
    let address = word.address();
    // SAFETY: there is no event.
    unsafe { word.give_back_after(None) };
    let words: Vec<_> = (0..200).map(|_| device.gate_word().expect("a word")).collect();
    assert!(words.iter().all(|word| word.address() != address));
}

#[test]
fn a_word_is_for_one_queue_at_a_time_of_its_own_device() {
    let mut first = device(Nature::default());
    let mut second = device(Nature::default());
    let word = first.gate_word().expect("a word");
    let config = || StreamConfig::default().with_gate(&word);
    let queue = first.open(QueueId::new(0, 0), config()).expect("a queue");
    let streams = |device: &StreamDevice<Mock>| device.api().alive().0;
    let before = (streams(&first), streams(&second));
    let again = first.open(QueueId::new(1, 0), config()).map(|_| ());
    assert!(matches!(again, Err(StreamError::WordTaken)), "{again:?}");
    let other = second.open(QueueId::new(0, 0), config()).map(|_| ());
    assert!(matches!(other, Err(StreamError::WordOfOtherDevice)), "{other:?}");
    assert_eq!((streams(&first), streams(&second)), before, "a stream was left");
    drop(queue);
    first.open(QueueId::new(1, 0), config()).expect("a queue");
}

#[test]
fn the_gate_is_open_when_the_queue_has_gone() {
    let mut device = device(Nature::default());
    let word = device.gate_word().expect("a word");
    let mut queue = with_word(&mut device, &word);
    queue.submit.launch(CmdId(0), &graph(&device, &word, 2, US), true).expect("a launch");
    queue.preempt.step(Step::Deactivate).expect("a hold");
    drop(queue);
    device.api().pass(2 * US);
    let mut queue = with_word(&mut device, &word);
    launch(&mut queue, 0, 1, US);
    device.api().pass(US);
    assert!(poll(&mut queue).is_some());
}

#[test]
fn without_gates_there_are_no_words() {
    let nature = Nature { no_waits: Some("none".to_owned()), ..Nature::default() };
    let word = device(nature).gate_word().map(|_| ());
    assert!(matches!(word, Err(StreamError::NoGate(NoGate::NoWaits(_)))), "{word:?}");
}
