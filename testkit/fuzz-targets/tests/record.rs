//! Records that say anything, damaged ones, and those that the fuzzer begins with.

use proptest::prelude::*;
use xsched_core::cost::CostModel;
use xsched_core::hint::{Hints, PolicyHint, Priority};
use xsched_core::id::{CmdId, DeviceId, EventRef, ProcessId, QueueId};
use xsched_core::level::Level;
use xsched_core::message::{HoldState, Order, Report};
use xsched_core::record::{Body, DeviceNote, Entry, Header, Name, QueueNote, Source, Start, Tape};
use xsched_core::scheduler::{Attach, LevelChoice};
use xsched_core::time::{Duration, Instant};
use xsched_fuzz_targets::{corpus, fuzz_record};

fn written(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Header::encode().to_vec();
    entries.iter().for_each(|entry| bytes.put(entry));
    let body = Body::End { entries: entries.len() as u64 };
    bytes.put(&Entry { at: Instant::ZERO, queue: QueueId::new(0, 0), body });
    bytes
}
fn any_body() -> impl Strategy<Value = Body> {
    let time = || prop_oneof![Just(0u64), 1u64..10_000_000, any::<u64>()];
    let cmd = || prop_oneof![0u64..6, any::<u64>()].prop_map(CmdId);
    let attach = (0u16..3, 0i32..4, 1u8..4).prop_map(|(device, priority, level)| {
        let hints = Hints::with_priority(Priority::new(priority).unwrap());
        let level = LevelChoice::Exactly(Level::from_number(level).unwrap());
        let process = ProcessId(1);
        Body::Attach(Attach {
            device: DeviceId(device),
            process,
            hints,
            level,
            ..Attach::default()
        })
    });
    let report = (any::<[u64; 4]>(), 0u64..4, any::<bool>()).prop_map(|(n, small, few)| {
        let count = |n: u64| if few { n % 4 } else { n };
        let event = EventRef { queue: QueueId::new(small as u32, 1), cmd: CmdId(count(n[0])) };
        Body::Report(Report {
            submitted: count(n[0]).max(count(n[1])).max(count(n[2])),
            launched: count(n[1]).max(count(n[2])),
            retired: count(n[2]),
            busy: Duration::from_ns(n[3]),
            hold: if few { HoldState::Running } else { HoldState::Held(Level::Block) },
            ready_since: Instant::from_ns(n[3]),
            waiting: (small == 3).then_some(event),
            ..Report::default()
        })
    });
    prop_oneof![
        2 => attach,
        4 => report,
        1 => Just(Body::Detach),
        1 => Just(Body::Timeout),
        1 => Just(Body::Reconsider),
        1 => (1u32..4).prop_map(|k| Body::PolicyHint(PolicyHint::K(k))),
        1 => Just(Body::Policy(Name::new("fcfs"))),
        1 => (0u16..4).prop_map(|d| {
            Body::Cost { device: DeviceId(d), cost: CostModel::default() }
        }),
        2 => Just(Body::Rest),
        1 => (0u32..9).prop_map(|epoch| Body::Order(Order::Run { epoch })),
        8 => (cmd(), any::<bool>(), cmd()).prop_map(|(cmd, waits, other)| {
            let event = EventRef { queue: QueueId::new(0, 1), cmd: other };
            Body::Submit { cmd, wait: waits.then_some(event) }
        }),
        6 => (cmd(), any::<bool>()).prop_map(|(cmd, room)| Body::Wait { cmd, room }),
        6 => (cmd(), time()).prop_map(|(upto, ns)| {
            Body::Retired { upto, busy: Duration::from_ns(ns) }
        }),
        1 => any::<[u32; 4]>().prop_map(|[threshold, batch, bits, capacity]| {
            Body::Queue(QueueNote { threshold, batch, adaptive: bits % 2 == 0, capacity })
        }),
        1 => any::<u32>().prop_map(|units| {
            Body::Device(DeviceNote { device: DeviceId(0), units, name: Name::new("x") })
        }),
        1 => "\\PC{0,50}".prop_map(|name| Body::Program(Name::new(&name))),
        1 => any::<u64>().prop_map(|lost| Body::Gap { lost, of: Source::Queue }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_entries_are_replayed_or_refused(
        list in proptest::collection::vec((any_body(), 0u32..3, 0u64..3_000_000), 0..80),
        start_at in 0u64..3,
    ) {
        let policy = Name::new("hpf");
        let start = Start { queues: 4, devices: 2, waits: 4, fresh: true, policy };
        let queue = QueueId::new(0, 0);
        let mut at = start_at;
        let mut all = vec![Entry { at: Instant::ZERO, queue, body: Body::Start(start) }];
        for (body, queue, gap) in list {
            at += gap;
            all.push(Entry { at: Instant::from_ns(at), queue: QueueId::new(queue, 1), body });
        }
        fuzz_record(&written(&all));
    }

    #[test]
    fn damaged_records_are_replayed_or_refused(
        at in any::<prop::sample::Index>(), to in any::<u8>(),
    ) {
        let bytes: &[u8] = include_bytes!("../../../sim/tests/recordings/sim-hpf.xsr");
        let mut damaged = bytes.to_vec();
        let at = at.index(bytes.len());
        damaged[at] = to;
        fuzz_record(&damaged);
    }
}

#[test]
fn the_corpus_is_replayed_or_refused() {
    for (_, bytes) in corpus("record") {
        fuzz_record(&bytes);
    }
}
