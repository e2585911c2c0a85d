use super::*;
use crate::cost::{CostModel, Reach};
use crate::hint::{Hints, Laxity, PolicyHint, Priority};
use crate::id::{CmdId, DeviceId, EventRef, ProcessId};
use crate::level::Level;
use crate::message::{Order, Report};
use crate::policy::{Changed, Decisions, Policy};
use crate::scheduler::{Attach, Heap, LevelChoice, QueueTable, Scheduler};
use crate::time::Duration;
use proptest::prelude::*;
use std::vec::Vec;

fn round_trip(body: Body) {
    let entry = Entry { at: Instant::from_ns(7), queue: QueueId::new(3, 4), body };
    let mut bytes = [0; ENTRY_BYTES_MAX];
    let length = entry.encode(&mut bytes);
    assert!(length <= ENTRY_BYTES_MAX, "{body:?}");
    assert_eq!(Entry::decode(&bytes[..length]), Ok((Some(entry), length)));
    for cut in 0..length {
        assert_eq!(Entry::decode(&bytes[..cut]), Err(RecordError::Truncated));
    }
}

fn hints() -> Hints {
    let mut hints = Hints::with_priority(Priority::MIN);
    hints.utilization = Some(75);
    hints.cpu_priority = -20;
    hints.laxity = Some(Laxity {
        lax: Duration::from_ms(3),
        lax_priority: Priority::NO_EXECUTE,
        critical_priority: Priority::MAX,
    });
    hints
}

const EVENT: EventRef = EventRef { queue: QueueId::new(9, 1), cmd: CmdId(5) };

#[test]
fn what_the_scheduler_is_fed_survives_and_truncation_is_noticed() {
    let level = LevelChoice::UpTo(Level::Interrupt);
    round_trip(Body::Attach(Attach {
        device: DeviceId(1),
        process: ProcessId(2),
        hints: hints(),
        level,
        threshold: 16,
        context_permille: 300,
    }));
    round_trip(Body::Detach);
    round_trip(Body::Report(Report { submitted: 3, waiting: Some(EVENT), ..Report::default() }));
    round_trip(Body::Order(Order::Run { epoch: 3 }));
    round_trip(Body::Hint(hints()));
    let policy = Name::new("hpf");
    round_trip(Body::Start(Start { queues: 1, devices: 2, waits: 3, fresh: true, policy }));
    round_trip(Body::Level(level));
    round_trip(Body::Policy(policy));
    round_trip(Body::PolicyHint(PolicyHint::K(3)));
    round_trip(Body::PolicyHint(PolicyHint::Timeslice(Duration::from_ms(3))));
    round_trip(Body::PolicyHint(PolicyHint::Ageing(Some(Duration::from_ms(500)))));
    round_trip(Body::PolicyHint(PolicyHint::Ageing(None)));
    round_trip(Body::PolicyHint(PolicyHint::Floor(500)));
    let body = Body::PolicyHint(PolicyHint::Ageing(Some(Duration::ZERO)));
    let entry = Entry { at: Instant::ZERO, queue: QueueId::new(0, 0), body };
    let mut bytes = [0; ENTRY_BYTES_MAX];
    let length = entry.encode(&mut bytes);
    assert!(Entry::decode(&bytes[..length]).is_err(), "out of range");
    round_trip(Body::Timeout);
    round_trip(Body::Rest);
    round_trip(Body::Admit { cmd: CmdId(3), event: EVENT });
    let cost = CostModel { restore_context: Duration::from_us(3), ..CostModel::default() };
    round_trip(Body::Cost { device: DeviceId(4), cost });
    let entry = Entry { at: Instant::ZERO, queue: QueueId::new(0, 0), body: Body::Rest };
    let entry = Entry { body: Body::Cost { device: DeviceId(4), cost }, ..entry };
    assert_eq!(entry.encode(&mut [0; ENTRY_BYTES_MAX]), PREFIX_BYTES + 72, "as it was at first");
    let grace = Duration::from_us(7);
    for (reach, batches) in [(Reach::Device, false), (Reach::Queue, true), (Reach::Device, true)] {
        round_trip(Body::Cost { device: DeviceId(4), cost: CostModel { reach, batches, ..cost } });
    }
    round_trip(Body::Cost { device: DeviceId(4), cost: CostModel { grace, ..cost } });
    round_trip(Body::Reconsider);
}

#[test]
fn what_the_workload_does_survives_and_truncation_is_noticed() {
    round_trip(Body::Submit { cmd: CmdId(1), wait: None });
    round_trip(Body::Submit { cmd: CmdId(1), wait: Some(EVENT) });
    round_trip(Body::Wait { cmd: CmdId(1), room: true });
    round_trip(Body::Retired { upto: CmdId(1), busy: Duration::from_us(3) });
    let name = Name::new("host");
    round_trip(Body::Device(DeviceNote { device: DeviceId(1), units: 2, name }));
    round_trip(Body::Queue(QueueNote { threshold: 4, batch: 2, adaptive: true, capacity: 9 }));
    round_trip(Body::Program(name));
    round_trip(Body::Gap { lost: 4, of: Source::Queue });
    round_trip(Body::Gap { lost: 4, of: Source::Scheduler });
    round_trip(Body::End { entries: 5 });
}

#[test]
fn headers_are_checked() {
    assert_eq!(Header::decode(&Header::encode()), Ok(Header { version: VERSION }));
    assert_eq!(Header::decode(b"something else!!"), Err(RecordError::NotARecord));
    let mut newer = Header::encode();
    newer[8] = 2;
    assert_eq!(Header::decode(&newer), Err(RecordError::Version(2)));
    assert_eq!(Header::decode(&newer[..10]), Err(RecordError::Truncated));
}

#[test]
fn long_names_are_cut_between_characters() {
    let long = "é".repeat(30);
    assert_eq!(Name::new(&long).as_str(), "é".repeat(Name::BYTES_MAX / 2));
    assert_eq!(Name::new("").as_str(), "");
}

#[derive(Debug)]
struct Runs;

impl Policy for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }
    fn decide(&mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, _: &mut Decisions<'_>) {}
}

fn bodies(bytes: &[u8]) -> Vec<Body> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (entry, length) = Entry::decode(&bytes[at..]).unwrap();
        found.extend(entry.map(|entry| entry.body));
        at += length;
    }
    found
}

#[test]
fn a_record_that_starts_later_says_so_and_names_the_queues() {
    let mut scheduler = Recorded::new(Scheduler::new(Runs, Heap::new(4, 1, 2)));
    let now = Instant::from_ns(1);
    assert!(scheduler.start(now, Vec::new()).is_none());
    let start = Start { queues: 4, devices: 1, waits: 2, fresh: true, policy: Name::new("runs") };
    let attach = Attach { hints: hints(), ..Attach::default() };
    scheduler.attach(now, attach).unwrap();
    assert_eq!(scheduler.poll_order(now), None);
    scheduler.handle_timeout(now);
    let first = scheduler.start(now, Vec::new()).unwrap();
    assert_eq!(bodies(&first), [Body::Start(start), Body::Attach(attach), Body::Rest]);
    let second = scheduler.stop().unwrap();
    let later = Start { fresh: false, ..start };
    assert_eq!(bodies(&second), [Body::Start(later), Body::Attach(attach)]);
    scheduler.reconsider_all(now);
    assert!(scheduler.stop().is_none());
}

#[test]
fn what_holds_cost_is_in_every_record() {
    let mut scheduler = Recorded::new(Scheduler::new(Runs, Heap::new(4, 3, 2)));
    let now = Instant::from_ns(1);
    let cost = CostModel { save_fixed: Duration::from_us(3), ..CostModel::default() };
    // Said when the device was opened, before recording began.
    scheduler.set_cost(now, DeviceId(1), cost).unwrap();
    assert!(scheduler.set_cost(now, DeviceId(3), cost).is_err());
    assert!(scheduler.start(now, Vec::new()).is_none());
    let dearer = CostModel { reach: Reach::Device, ..cost };
    scheduler.set_cost(now, DeviceId(2), dearer).unwrap();
    let written = bodies(&scheduler.stop().unwrap());
    assert!(matches!(written[0], Body::Start(Start { fresh: true, .. })), "{written:?}");
    let plain = CostModel { reach: Reach::Queue, ..dearer };
    let cost = |device, cost| Body::Cost { device: DeviceId(device), cost };
    assert_eq!(written[1..], [cost(1, plain), cost(2, dearer)]);
    assert_eq!(scheduler.cost(DeviceId(2)), Some(dearer));
}

proptest! {
    #[test]
    fn decoding_any_bytes_never_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..128),
        kind in prop_oneof![0u8..16, 126u8..137],
    ) {
        let mut bytes = bytes;
        for first in [None, Some(kind)] {
            if let (Some(kind), Some(byte)) = (first, bytes.first_mut()) {
                *byte = kind;
            }
            if let Ok((_, length)) = Entry::decode(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }
    }

    #[test]
    fn unknown_kinds_are_skipped(
        kind in prop_oneof![Just(0u8), 15u8..128, 136u8..],
        body in proptest::collection::vec(any::<u8>(), 0..255),
    ) {
        let mut bytes = std::vec![kind, body.len() as u8];
        bytes.extend([0; 16]);
        bytes.extend(&body);
        prop_assert_eq!(Entry::decode(&bytes), Ok((None, bytes.len())));
    }
}
