//! Drivers that fail.

use super::*;

/// Goes through the life of a queue. Errors are told, and nothing else happens.
fn life(device: &mut StreamDevice<Mock>) -> Result<(), StreamError<mock::MockError>> {
    let config = StreamConfig::default().spacing(Spacing::of_ns(0));
    let mut queue = device.open(QueueId::new(0, 0), config)?;
    let mut worst = Ok(());
    let mut note = |result: Result<(), _>| {
        if worst.is_ok() {
            worst = result;
        }
    };
    for n in 0..6 {
        note(queue.submit.launch(CmdId(n), &command(US), n % 2 == 1));
        if n == 2 {
            assert!(queue.preempt.step(Step::Deactivate).is_ok(), "it is a store");
        }
        device.api().pass(2 * US);
        note(queue.retire.poll_retired().map(|_| ()));
        if n == 4 {
            assert!(queue.preempt.step(Step::Reactivate).is_ok(), "it is a store");
        }
        let _ = queue.retire.forecast(CmdId(n));
    }
    note(queue.submit.fence(CmdId(5)));
    device.api().pass(100 * US);
    note(queue.retire.poll_retired().map(|_| ()));
    worst
}

fn natures() -> [Nature; 3] {
    let plain = Nature::default();
    let ends = Nature { sees_ends: true, ..Nature::default() };
    let words = Nature { flags_max: Some(8), ..Nature::default() };
    [plain, ends, words]
}

/// Any call of a queue fails, alone or with all that come later. What was made is given back,
/// unless destroying is what failed.
#[test]
fn any_call_of_a_queue_may_fail() {
    for nature in natures() {
        let mut sound = device(nature.clone());
        let before = sound.api().calls();
        life(&mut sound).expect("nothing fails");
        drop(open(&mut sound, 0));
        let calls = sound.api().calls() - before;
        assert!(calls > 20, "{calls}");
        for number in 0..calls {
            for for_good in [false, true] {
                let mut device = device(nature.clone());
                device.api().fail(number, for_good);
                let _ = life(&mut device);
                device.api().heal();
                // Another one is as good as ever.
                life(&mut device).expect("it has healed");
                drop(open(&mut device, 0));
                let (_, events, pages) = device.api().alive();
                assert!(pages <= 3, "{pages} pages");
                assert!(for_good || events <= 1, "call {number}: {events} events are left");
            }
        }
    }
}

/// Any call of the self-test fails: there is a device, at Lv1 or Lv2.
#[test]
fn any_call_of_the_self_test_may_fail() {
    for nature in natures() {
        let calls = device(nature.clone()).api().calls();
        // Most ask again and again whether something has completed.
        for number in (0..calls.min(40)).chain([calls - 1]) {
            for for_good in [false, true] {
                let mock = Mock::new(nature.clone());
                mock.fail(number, for_good);
                let device = tested(mock, with_entries(Some(64)));
                device.api().heal();
                life(&mut device.clone()).expect("it has healed");
            }
        }
    }
}

/// A stream that was made for a queue that could not be opened is destroyed.
#[test]
fn a_queue_that_cannot_be_opened_leaves_no_stream() {
    let mut device = device(Nature { flags_max: Some(8), ..Nature::default() });
    let kept = open(&mut device, 0);
    for name in ["stream_kind", "flag_memory"] {
        device.api().fail_all(Some(name));
        let config = StreamConfig::default();
        assert!(device.open(QueueId::new(0, 0), config).is_err(), "{name} fails");
        device.api().heal();
        assert_eq!(device.api().alive().0, 1, "{name}");
    }
    drop(kept);
}
