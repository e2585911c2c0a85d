//! Words of gates, and what is given back when queues and devices go.

use super::*;

/// The word of a new queue, which it is held for at once.
fn word(device: &mut StreamDevice<Mock>) -> (Queue, u64) {
    let mut queue = open(device, 0);
    queue.preempt.step(Step::Deactivate).expect("a step");
    launch(&mut queue, 0, 1, US);
    let word = device.api().last_word().expect("there is a gate");
    (queue, word)
}

#[test]
fn queues_have_words_of_their_own_and_get_them_again() {
    let mut device = device(Nature::default());
    let (first, a) = word(&mut device);
    let (second, b) = word(&mut device);
    assert_eq!(a.abs_diff(b), 64);
    // Held when it is dropped: it is given back only after the stream got past its gate.
    drop(second);
    let (third, c) = word(&mut device);
    assert!(c != a && c != b);
    device.api().pass(10 * US);
    let (fourth, d) = word(&mut device);
    assert_eq!(d, b);
    drop((first, third, fourth));
    device.api().pass(10 * US);
    assert_eq!(device.api().alive().2, 1);
}

/// Checks what is left when the device goes, seen through what its drop calls.
#[test]
fn everything_is_given_back() {
    let mut device = device(Nature::default());
    for round in 0..3 {
        let (mut queue, _) = word(&mut device);
        queue.preempt.step(Step::Reactivate).expect("a step");
        launch(&mut queue, 1, 5, US);
        // Without a fence, so that its start event is still to be used.
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(6));
        queue.submit.launch(CmdId(6), &command(US), false).expect("a launch");
        device.api().pass(10 * US);
        drop(queue);
        // The queue's end is seen with the next.
        drop(open(&mut device, 0));
        assert_eq!(device.api().alive(), (0, 0, 1), "round {round}");
    }
}

#[test]
fn halves_may_go_in_any_order() {
    let mut device = device(Nature::default());
    for first in 0..2 {
        let mut queue = open(&mut device, 0);
        launch(&mut queue, 0, 3, US);
        let Queue { submit, mut retire, preempt, .. } = queue;
        if first == 0 {
            drop(submit);
            device.api().pass(10 * US);
            assert!(retire.poll_retired().expect("an answer").is_some());
            drop((retire, preempt));
        } else {
            drop((preempt, retire, submit));
            device.api().pass(10 * US);
        }
        drop(open(&mut device, 0));
        assert_eq!(device.api().alive(), (0, 0, 1), "{first}");
    }
}

#[test]
fn words_may_come_one_at_a_time() {
    let nature = Nature { flags_max: Some(8), ..Nature::default() };
    let mut device = device(nature);
    assert_eq!(device.no_gate(), None);
    let (first, a) = word(&mut device);
    let (second, b) = word(&mut device);
    assert!(a != b);
    assert_eq!(device.api().alive().2, 2, "the first is that of the self-test");
    drop((first, second));
    device.api().pass(10 * US);
    let (_third, c) = word(&mut device);
    assert!(c == a || c == b);
    assert_eq!(device.api().alive().2, 2);
}

/// A gate in the stream whose command was never launched still looks at the word.
#[test]
fn a_word_is_kept_while_a_gate_without_a_command_looks_at_it() {
    let mut device = device(Nature::default());
    let stream = device.api().create_stream(None).expect("a stream");
    // SAFETY: it was just made, and is not destroyed.
    let config = unsafe { StreamConfig::default().on_stream(stream) };
    let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
    // SAFETY: see above. The user launches past the queue.
    unsafe { device.api().launch_native(&(100 * US), stream) }.expect("a launch");
    queue.preempt.step(Step::Deactivate).expect("a step");
    device.api().fail_all(Some("launch_native"));
    assert!(queue.submit.launch(CmdId(0), &command(US), true).is_err());
    device.api().heal();
    let kept = device.api().last_word().expect("there is a gate");
    drop(queue);
    let (_second, word) = word(&mut device);
    assert!(word != kept, "the stream has not got past the gate");
    device.api().pass(200 * US);
    let (_third, word) = self::word(&mut device);
    assert_eq!(word, kept);
}
