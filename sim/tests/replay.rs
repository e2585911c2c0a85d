//! Records: exact replay of the scheduler, and what the simulator makes of their workloads.

use std::path::Path;

use xsched_core::hint::{PolicyHint, Priority};
use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_core::message::Order;
use xsched_core::policy::{Changed, Decisions, Policy, Urgency};
use xsched_core::record::{Body, Entry, Header, Name, Source, Start, Tape, VERSION};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};
use xsched_sim::replay::{
    Orders, PredictOptions, Record, ReplayError, Workload, orders, orders_with, predict,
};
use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::{DaemonSpec, Dist, Scenario};

/// Three tasks of different priorities that think, on a device that takes its time for everything
/// that is measured from records.
const SCENARIO: &str = r#"version = 1
name = "three"
policy = "hpf"
level = 3
scheduler_latency_us = 0
[[device]]
name = "one"
max_level = 3
launch_latency_us = 0
host_launch_us = 0
host_sync_us = 0
detect_us = 0
gate_us = 0
gate_close_us = 0
save_fixed_us = 0
save_context_us = 0
restore_fixed_us = 0
restore_context_us = 0
[[task]]
name = "high"
priority = 10
arrival = { kind = "closed", think = { kind = "exponential", mean_us = 900 } }
command = { kind = "lognormal", mean_us = 150, sigma = 0.3 }
commands = 1
requests = 150
[[task]]
name = "middle"
priority = 5
arrival = { kind = "closed", think = { kind = "uniform", min_us = 300, max_us = 900 } }
command = { kind = "lognormal", mean_us = 70, sigma = 0.3 }
commands = 3
threshold = 1
batch = 1
requests = 150
[[task]]
name = "low"
priority = 0
arrival = { kind = "closed", think = { kind = "exponential", mean_us = 400 } }
command = { kind = "lognormal", mean_us = 200, sigma = 0.3 }
commands = 2
threshold = 1
batch = 1
requests = 150
"#;

fn recorded(text: &str) -> (xsched_sim::outcome::Outcome, Vec<u8>) {
    let scenario = Scenario::parse(text, Path::new("test.toml")).unwrap();
    let options = RunOptions { record: true, ..RunOptions::default() };
    let mut outcome = run(&scenario, &options, &mut |_| {}).unwrap();
    let record = outcome.record.take().unwrap();
    (outcome, record)
}

#[test]
fn a_simulated_run_replays_exactly() {
    let (_, bytes) = recorded(SCENARIO);
    let record = Record::parse(&bytes).unwrap();
    let Orders::Identical { orders, rounds } = orders(&record).unwrap() else {
        panic!("{:?}", orders(&record));
    };
    assert!(orders > 100 && rounds > 100, "{orders} orders in {rounds} rounds");
}

/// With commands that each have a completion of their own, the record has everything, and the
/// prediction is the run itself.
#[test]
fn a_simulated_run_predicts_itself() {
    let (outcome, bytes) = recorded(SCENARIO);
    let workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
    assert_eq!(workload.notes, [""; 0]);
    for (task, simulated) in workload.tasks.iter().zip(&outcome.tasks) {
        assert_eq!(task.latencies_ns, simulated.latencies_ns, "{}", task.name);
    }
    let prediction = predict(&workload, &PredictOptions::default(), &mut |_| {}).unwrap();
    for task in &prediction.tasks {
        assert_eq!(task.recorded_ms, task.predicted_ms, "{}", task.name);
        assert!(task.is_within(0.0));
    }
}

/// Waking the thread of a queue whose hold has ended takes as long as a command here, and is
/// measured in the record.
#[test]
fn waking_after_a_hold_is_measured_and_modelled() {
    let wake = 140.0;
    let text = SCENARIO.replace(
        "restore_fixed_us = 0\n",
        "restore_fixed_us = 0\nresume_us = 140\ngate_spacing_us = 0\n",
    );
    // At level 2 what is in flight waits between commands, so that each end of a hold wakes a
    // thread.
    let text = text.replace("level = 3\nscheduler", "level = 2\nscheduler");
    let text =
        text.replace("threshold = 1\n", "threshold = 8\n").replace("= 2\nthresh", "= 6\nthresh");
    let (_, bytes) = recorded(&text);
    let mut workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
    let found = workload.overheads;
    assert!(found.resumes > 20, "{found:?}");
    assert!((found.resume_ns as f64 / 1e3 - wake).abs() < 0.1 * wake, "{found:?}");
    let low = |workload: &Workload| {
        let prediction = predict(workload, &PredictOptions::default(), &mut |_| {}).unwrap();
        prediction.tasks[2].p99_deviation_percent.unwrap()
    };
    let (with, without) = (low(&workload), {
        workload.overheads.resume_ns = 0;
        low(&workload)
    });
    assert!(with.abs() < 5.0 && without < -5.0, "{with} % with, {without} % without");
}

/// Effects that are not modelled show in the bound, under any policy.
#[test]
fn the_bound_is_how_far_off_the_recorded_run_is() {
    let (_, bytes) = recorded(SCENARIO);
    let mut workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
    let bound = |workload: &Workload, policy: Option<&str>| {
        let policy = policy.map(ToOwned::to_owned);
        let options = PredictOptions { policy, ..PredictOptions::default() };
        predict(workload, &options, &mut |_| {}).unwrap().bound_percent.unwrap()
    };
    assert_eq!((bound(&workload, None), bound(&workload, Some("fcfs"))), (0.0, 0.0));
    // As if each request had taken half as long again on the device, for reasons not in the record.
    let lowest = &mut workload.tasks[2];
    lowest.latencies_ns.iter_mut().for_each(|ns| *ns += *ns / 2);
    for policy in [None, Some("fcfs")] {
        let percent = bound(&workload, policy);
        assert!((percent - 33.3).abs() < 1.0, "{percent}");
    }
}

/// Other policies than the recorded one, with the same workload.
#[test]
fn another_policy_or_level_can_be_tried() {
    let (_, bytes) = recorded(SCENARIO);
    let workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
    let with = |policy: &str, level| {
        let policy = Some(policy.to_owned());
        let options = PredictOptions { policy, level, ..PredictOptions::default() };
        predict(&workload, &options, &mut |_| {}).unwrap()
    };
    let high =
        |prediction: &xsched_sim::replay::Prediction| prediction.tasks[0].predicted_ms.p99.unwrap();
    let (fcfs, blocking, deep) = (with("fcfs", None), with("hpf", Some(1)), with("hpf", Some(3)));
    assert!(high(&deep) < high(&blocking), "{deep:?}");
    assert!(high(&blocking) < high(&fcfs), "{fcfs:?}");
    let unknown = PredictOptions { policy: Some("none".to_owned()), ..Default::default() };
    assert!(predict(&workload, &unknown, &mut |_| {}).is_err());
}

#[test]
fn a_daemon_can_schedule_the_processes_of_a_record() {
    let (_, bytes) = recorded(&SCENARIO.replace("commands = 1\n", "commands = 6\n"));
    let workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
    let with = |wake_us: u64, spin_us: u64| {
        let wake = Dist::Constant(wake_us * 1_000);
        let daemon =
            Some(DaemonSpec { wake, decide_ns: 2_000, spin_ns: spin_us * 1_000, idle_ns: 0 });
        let options = PredictOptions { daemon, ..PredictOptions::default() };
        let prediction = predict(&workload, &options, &mut |_| {}).unwrap();
        assert!(prediction.tasks.iter().all(|task| !task.starved), "{prediction:?}");
        prediction.tasks[0].predicted_ms.mean.unwrap()
    };
    // The highest waits for gates that close late, unless the daemon never sleeps.
    let (quick, slow, spinning) = (with(0, 0), with(300, 0), with(300, 1_000_000));
    assert!(slow > quick + 0.03, "{quick} {slow}");
    assert!((spinning - quick).abs() < 0.01, "{quick} {spinning}");
    let daemon = Some(DaemonSpec::default());
    let level = PredictOptions { level: Some(3), daemon, ..PredictOptions::default() };
    assert!(predict(&workload, &level, &mut |_| {}).is_err());
}

/// Three tasks of one priority: two that are always busy, and one with short requests.
const EQUALS: &str = r#"version = 1
name = "equals"
policy = "fcfs"
level = 3
duration_ms = 400
[[device]]
name = "one"
max_level = 3
[[task]]
name = "busy"
count = 2
arrival = { kind = "closed", think = { kind = "constant", us = 1 } }
command = { kind = "constant", us = 500 }
commands = 20
outstanding = 2
[[task]]
name = "short"
arrival = { kind = "closed", think = { kind = "constant", ms = 3 } }
command = { kind = "constant", us = 100 }
"#;

/// Turns are as long as the policy was told, and those that leave room take none.
#[test]
fn a_policy_is_told_in_a_replay_what_it_was_told() {
    let turn = PolicyHint::Timeslice(Duration::from_ms(100));
    let predicted = |text: &str, hints: &[PolicyHint]| {
        let (_, bytes) = recorded(text);
        let workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
        let policy = Some("hpf".to_owned());
        let options = PredictOptions { policy, policy_hints: hints.to_vec(), ..Default::default() };
        let prediction = predict(&workload, &options, &mut |_| {}).unwrap();
        let [busy, _, short] = &prediction.tasks[..] else { panic!("{prediction:?}") };
        [busy.predicted_ms.p50.unwrap(), short.predicted_ms.mean.unwrap()]
    };
    let [together, beside] = predicted(EQUALS, &[]);
    let [alone, waits] = predicted(EQUALS, &[turn]);
    assert!(alone < 0.6 * together, "one at a time: {alone} {together}");
    assert!(waits > 5.0 * beside, "it waits for its turn: {waits} {beside}");
    // As it was recorded, it claims a part, and the policy has turns.
    let told = EQUALS.replace("fcfs\"", "hpf\"\ntimeslice_ms = 100") + "claim = \"part\"\n";
    let [alone, room] = predicted(&told, &[]);
    assert!(alone < 0.6 * together && room < 2.0 * beside, "{alone} {together} {room} {beside}");
}

/// Beside one that claims little the next priority runs, as it did when it was recorded.
#[test]
fn lower_priorities_run_beside_one_that_claims_little() {
    let high = EQUALS.replace("fcfs", "hpf").replace("ms = 3", "us = 50") + "priority = 5\n";
    let completed = |text: &str| {
        let (real, bytes) = recorded(text);
        let workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
        let prediction = predict(&workload, &PredictOptions::default(), &mut |_| {}).unwrap();
        [real.tasks[0].latencies_ns.len(), prediction.tasks[0].completed as usize]
    };
    let [held, _] = completed(&(high.clone() + "commands = 100\n"));
    let [beside, predicted] = completed(&(high + "commands = 100\nclaim = \"little\"\n"));
    assert!(held * 3 < beside, "{held} {beside}");
    assert!(predicted.abs_diff(beside) * 5 < beside, "{predicted} {beside}");
}

/// Predictions of another policy agree with what that policy does.
#[test]
fn a_record_tells_what_another_policy_would_have_done() {
    let endless =
        SCENARIO.replace("requests = 150", "").replace("policy =", "duration_ms = 900\npolicy =");
    let (_, bytes) = recorded(&endless);
    let (other, _) = recorded(&endless.replace("hpf", "fcfs"));
    let workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
    let options = PredictOptions { policy: Some("fcfs".to_owned()), ..Default::default() };
    let prediction = predict(&workload, &options, &mut |_| {}).unwrap();
    for (task, real) in prediction.tasks.iter().zip(&other.tasks) {
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.1;
        let (requests, mean) = (real.latencies_ns.len() as f64, &task.predicted_ms.mean.unwrap());
        let real_mean = real.latencies_ns.iter().sum::<u64>() as f64 / requests / 1e6;
        assert!(near(task.completed as f64, requests), "{task:?}: {requests} requests");
        assert!(near(*mean, real_mean), "{task:?}: {real_mean} ms");
        assert!(!task.starved);
    }
}

/// Highest priority first, except that the highest does not run either.
#[derive(Debug)]
struct TooHigh;

impl Policy for TooHigh {
    fn name(&self) -> &'static str {
        "hpf"
    }

    fn decide(
        &mut self,
        _: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        for device in queues.devices() {
            let floor = queues.top_ready(device).unwrap_or(Priority::MIN);
            // One rank too high, unless nothing is above.
            let higher = Priority::from_rank(floor.rank() + 1);
            out.floor(device, Some(higher), Urgency::NOW);
        }
    }
}

#[test]
fn a_policy_that_decides_otherwise_is_found() {
    let (_, bytes) = recorded(SCENARIO);
    let record = Record::parse(&bytes).unwrap();
    let Orders::Differ(difference) = orders_with(&record, |_| Some(TooHigh)).unwrap() else {
        panic!("not found");
    };
    assert!(difference.replayed.contains("Hold"), "{difference}");
    assert!(difference.same < 10, "{difference}");
}

/// The entries of a record, without its end.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    let record = Record::parse(bytes).unwrap();
    record.entries().map(|(_, entry)| entry.unwrap()).filter(|e| !is_end(e)).collect()
}

fn is_end(entry: &Entry) -> bool {
    matches!(entry.body, Body::End { .. })
}

fn written(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Header::encode().to_vec();
    entries.iter().for_each(|entry| bytes.put(entry));
    let body = Body::End { entries: entries.len() as u64 };
    bytes.put(&Entry { at: Instant::ZERO, queue: QueueId::new(0, 0), body });
    bytes
}

#[test]
fn a_changed_input_or_order_is_found() {
    let (_, bytes) = recorded(SCENARIO);
    let all = entries(&bytes);
    assert_eq!(written(&all), bytes[..].to_vec().tap_end(&all));
    let differs = |changed: &[Entry]| {
        let bytes = written(changed);
        matches!(orders(&Record::parse(&bytes).unwrap()), Ok(Orders::Differ(_)))
    };
    assert!(!differs(&all));
    // Another priority from the start.
    let mut changed = all.clone();
    let attach = changed.iter_mut().find_map(|entry| match &mut entry.body {
        Body::Attach(attach) => Some(attach),
        _ => None,
    });
    attach.unwrap().hints.priority = Priority::MIN;
    assert!(differs(&changed));
    // An order with another level, one that was not given, one that is missing.
    let at = all.iter().position(|e| matches!(e.body, Body::Order(Order::Hold { .. }))).unwrap();
    let mut changed = all.clone();
    changed[at].body = Body::Order(Order::Hold { epoch: 1, level: Level::Block });
    assert!(differs(&changed));
    let mut changed = all.clone();
    changed.insert(at, all[at]);
    assert!(differs(&changed));
    let mut changed = all.clone();
    changed.remove(at);
    assert!(differs(&changed));
}

trait TapEnd {
    fn tap_end(self, entries: &[Entry]) -> Self;
}

impl TapEnd for Vec<u8> {
    /// The end's time is the only thing that [`written`] does not repeat.
    fn tap_end(mut self, entries: &[Entry]) -> Self {
        let again = written(entries);
        let from = self.len() - 26;
        self.truncate(from);
        self.extend_from_slice(&again[again.len() - 26..]);
        self
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let (_, bytes) = recorded(SCENARIO);
    let all = entries(&bytes);
    let result = |entries: &[Entry]| {
        let bytes = written(entries);
        orders(&Record::parse(&bytes).unwrap())
    };
    let mut gap = all.clone();
    let body = Body::Gap { lost: 7, of: Source::Scheduler };
    gap.insert(9, Entry { body, ..all[9] });
    assert_eq!(result(&gap), Err(ReplayError::Gap { entry: 9, lost: 7 }));
    let mut later = all.clone();
    let start = later.iter_mut().find_map(|entry| match &mut entry.body {
        Body::Start(start) => Some(start),
        _ => None,
    });
    let start = start.unwrap();
    start.fresh = false;
    let policy = start.policy;
    assert_eq!(result(&later), Err(ReplayError::NotFresh));
    let mut many = all.clone();
    let huge = Start { queues: u32::MAX, devices: 1, waits: 1, fresh: true, policy };
    many[0].body = Body::Start(huge);
    assert!(matches!(result(&many), Err(ReplayError::TooManySlots { .. })));
    let mut other = all.clone();
    other[0].body = Body::Start(Start { policy: Name::new("mine"), queues: 9, ..huge });
    assert_eq!(result(&other), Err(ReplayError::UnknownPolicy { name: "mine".to_owned() }));
    assert_eq!(result(&all[1..]), Err(ReplayError::Starts { starts: 0 }));
}

#[test]
fn unknown_kinds_are_skipped_unless_they_may_matter() {
    let (_, bytes) = recorded(SCENARIO);
    let all = entries(&bytes);
    let with = |kind: u8| {
        let mut bytes = Header::encode().to_vec();
        all.iter().for_each(|entry| bytes.put(entry));
        bytes.extend([kind, 3]);
        bytes.extend([0; 16 + 3]);
        let body = Body::End { entries: all.len() as u64 + 1 };
        bytes.put(&Entry { at: Instant::ZERO, queue: QueueId::new(0, 0), body });
        orders(&Record::parse(&bytes).unwrap())
    };
    assert!(matches!(with(200), Ok(Orders::Identical { .. })));
    let entry = all.len() as u64;
    assert_eq!(with(100), Err(ReplayError::UnknownInput { entry, kind: 100 }));
}

#[test]
fn what_is_no_whole_record_is_refused() {
    let (_, bytes) = recorded(SCENARIO);
    let parse = |bytes: &[u8]| Record::parse(bytes).map(|record| record.entries_count());
    let text = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert!(parse(&bytes).is_ok());
    for cut in [16, 17, 200, bytes.len() - 26, bytes.len() - 1] {
        assert_eq!(parse(&bytes[..cut]), Err(ReplayError::NoEnd), "cut to {cut}");
    }
    assert!(text(&bytes[..10]).contains("byte 0"));
    assert!(text(b"something else").contains("not a record"));
    let mut newer = bytes.clone();
    newer[8] = VERSION as u8 + 1;
    assert!(text(&newer).contains("record version 2"));
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(text(&longer).contains("follows the end"));
    // An entry cut out between two others.
    let mut shorter = bytes.clone();
    let (_, length) = Entry::decode(&bytes[16..]).unwrap();
    shorter.drain(16..16 + length);
    assert!(text(&shorter).contains("damaged"));
}

/// As of a daemon whose processes had work long before it was asked for a record.
#[test]
fn what_was_ready_before_the_record_began_did_not_wait_for_the_scheduler() {
    let (_, bytes) = recorded(SCENARIO);
    let begun = Instant::ZERO + Duration::from_ms(6_000);
    let notified_ns = |start: Instant| {
        let mut late = entries(&bytes);
        for entry in &mut late {
            entry.at = begun + entry.at.since(Instant::ZERO);
            match &mut entry.body {
                Body::Start(_) => entry.at = start,
                Body::Report(report) => report.ready_since = Instant::from_ns(1),
                _ => {}
            }
        }
        let bytes = written(&late);
        Workload::extract(&Record::parse(&bytes).unwrap()).unwrap().overheads.notify_ns
    };
    assert!(notified_ns(Instant::ZERO) >= 5_999_999_999);
    assert_eq!(notified_ns(begun), 0);
}

#[test]
fn tasks_have_the_names_of_programs() {
    let (_, bytes) = recorded(SCENARIO);
    let mut all = entries(&bytes);
    let programs = ["python3", "python3", "odd\u{1b}[2J\u{202e}name"];
    for (index, program) in programs.into_iter().enumerate() {
        let is_attach = |e: &Entry| matches!(e.body, Body::Attach(_)) && e.queue.index() == index;
        let at = all.iter().position(is_attach).unwrap();
        all.insert(at + 1, Entry { body: Body::Program(Name::new(program)), ..all[at] });
    }
    let bytes = written(&all);
    let record = Record::parse(&bytes).unwrap();
    let workload = Workload::extract(&record).unwrap();
    let names: Vec<_> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["python3", "python3-2", "odd__2J_name"]);
    assert!(matches!(orders(&record), Ok(Orders::Identical { .. })));
}

#[test]
fn losses_of_a_queue_cost_only_the_requests_around_them() {
    let (_, bytes) = recorded(SCENARIO);
    let all = entries(&bytes);
    let of_first = |e: &Entry| e.queue.index() == 0;
    let submit = |e: &Entry| of_first(e) && matches!(e.body, Body::Submit { .. });
    let at = all.iter().enumerate().filter(|(_, e)| submit(e)).nth(40).unwrap().0;
    let mut lossy = all.clone();
    lossy[at].body = Body::Gap { lost: 1, of: Source::Queue };
    let bytes = written(&lossy);
    let workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
    assert_eq!(workload.tasks[0].requests.len(), 149);
    assert_eq!(workload.tasks[1].requests.len(), 150);
    assert!(workload.notes[0].contains("missing"), "{:?}", workload.notes);
}

/// A full queue: what was spent waiting for room is not the application's time.
#[test]
fn waiting_for_room_is_told_from_waiting_for_the_end() {
    let text = SCENARIO.replace("commands = 3\nthreshold", "commands = 9\ncapacity = 4\nthreshold");
    let (outcome, bytes) = recorded(&text);
    let workload = Workload::extract(&Record::parse(&bytes).unwrap()).unwrap();
    assert_eq!(workload.tasks[1].latencies_ns, outcome.tasks[1].latencies_ns);
    assert!(workload.tasks[1].requests.iter().all(|request| request.commands == 9));
    assert!(workload.tasks[1].commands.iter().all(|command| command.gap_ns == 0));
    let prediction = predict(&workload, &PredictOptions::default(), &mut |_| {}).unwrap();
    assert!(prediction.tasks.iter().all(|task| task.is_within(0.0)), "{prediction:?}");
}

/// Writes `recordings/sim-hpf.xsr` anew, after a change of the format or of a scheduling decision
/// that is meant: `cargo test -p xsched-sim --test replay -- --ignored`.
#[test]
#[ignore = "writes a file of the repository"]
fn write_the_simulated_recording() {
    let text = SCENARIO.replace("requests = 150", "requests = 12");
    std::fs::write("tests/recordings/sim-hpf.xsr", recorded(&text).1).unwrap();
}

/// Records of earlier builds: this one must give the same orders.
#[test]
fn kept_recordings_replay_exactly() {
    let mut seen = 0;
    for file in std::fs::read_dir("tests/recordings").unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let result = orders(&Record::parse(&bytes).unwrap()).unwrap();
        let Orders::Identical { orders, .. } = result else { panic!("{path:?}: {result:?}") };
        assert!(orders > 0, "{path:?} has no order");
        seen += 1;
    }
    assert!(seen >= 2, "{seen} recordings");
}
