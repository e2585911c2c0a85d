//! Records runs of the runtime on real threads, replays them, and runs `xsched replay` on them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use xsched::policies::{fcfs::Fcfs, hpf::Hpf};
use xsched::{Error, RecordStats, Runtime, XQueueConfig};
use xsched_core::hal::{Noop, NoopQueue};
use xsched_core::hint::{Hints, Priority};
use xsched_core::level::Level;
use xsched_core::policy::Policy;
use xsched_core::record::{Body, Source};
use xsched_core::window::WindowConfig;
use xsched_hal_host::{HostCommand, HostConfig, HostDevice};
use xsched_sim::replay::{Orders, Record, ReplayError, Workload, orders};

/// A file for a test, gone at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("xsched-{}-{number}.xsr", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }

    fn read(&self) -> Vec<u8> {
        fs::read(&self.0).expect("the record")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn xsched(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(args).stdin(Stdio::null()).output().expect("the program runs")
}

fn config(priority: i32, level: Level) -> XQueueConfig {
    XQueueConfig::default()
        .with_priority(Priority::new(priority).expect("in range"))
        .with_level(level)
        .with_window(WindowConfig::fixed(2, 1))
}

fn spin(until_ns: u64, _: u64) {
    let start = Instant::now();
    while (start.elapsed().as_nanos() as u64) < until_ns {
        std::hint::spin_loop();
    }
}

/// Three threads with a queue each on the host device, under a policy, with everything that can
/// change in between.
fn live_run(file: &Temporary, policy: impl Policy + Send + 'static, rounds: u64) -> RecordStats {
    let runtime = Runtime::new(policy).expect("a runtime");
    let host = HostDevice::new(HostConfig::default().with_signal_offset(9));
    let device = runtime.device(host.expect("a device")).expect("a device of the runtime");
    let recording = runtime.record(File::create(&file.0).expect("a file")).expect("a recording");
    let queues: Vec<_> = [(9, Level::Deactivate), (5, Level::Block), (0, Level::Interrupt)]
        .map(|(priority, level)| device.queue(config(priority, level), ()).expect("a queue"))
        .into();
    std::thread::scope(|scope| {
        for (n, queue) in queues.iter().enumerate() {
            scope.spawn(move || {
                for _ in 0..rounds {
                    let mut last = None;
                    for _ in 0..=n {
                        let command = HostCommand::function(spin, 100_000, 0);
                        last = queue.submit(command).ok();
                    }
                    last.map(|ticket| queue.wait(ticket)).expect("a ticket").expect("it ran");
                    std::thread::sleep(Duration::from_micros(150));
                }
            });
        }
        queues[2].set_hints(Hints::with_priority(Priority::MAX));
        queues[1].set_level(Level::Deactivate);
        runtime.set_policy(Fcfs).expect("a policy");
        queues[2].set_hints(Hints::with_priority(Priority::DEFAULT));
        runtime.set_policy(Hpf::default()).expect("a policy");
    });
    drop(queues);
    recording.finish().expect("a whole record")
}

#[test]
fn a_live_run_replays_exactly() {
    let file = Temporary::new();
    let stats = live_run(&file, Hpf::default(), 60);
    assert_eq!(stats.lost, 0);
    let bytes = file.read();
    assert_eq!(bytes.len() as u64, stats.bytes);
    let record = Record::parse(&bytes).expect("a record");
    assert_eq!(record.entries_count() + 1, stats.entries);
    let Orders::Identical { orders: same, .. } = orders(&record).expect("comparable") else {
        panic!("{:?}", orders(&record));
    };
    assert!(same >= 100, "{same} orders");
    let workload = Workload::extract(&record).expect("a workload");
    let commands: Vec<_> = workload.tasks.iter().map(|task| task.commands.len()).collect();
    assert_eq!(commands, [60, 120, 180]);
    assert!(workload.devices[0].units == 1 && workload.devices[0].name.as_str() == "host");

    let out = xsched(&["replay", file.path(), "--orders"]);
    assert_eq!(out.status.code(), Some(0));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.starts_with("identical: "), "{text}");
    let out = xsched(&["replay", file.path(), "--policy", "fcfs", "--json", "-"]);
    assert_eq!(out.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(json["tasks"][2]["requests"], 60);
    assert_eq!(json["policy"], "fcfs");
    assert!(String::from_utf8_lossy(&out.stderr).contains("policy switches"));
}

#[test]
fn a_changed_byte_of_an_order_is_a_difference() {
    let file = Temporary::new();
    live_run(&file, Hpf::default(), 3);
    let bytes = file.read();
    let record = Record::parse(&bytes).expect("a record");
    // The level of the first hold: behind kind, length, time, queue, order's kind and epoch.
    let mut at = 16;
    let level = record.entries().find_map(|(_, entry)| {
        let here = at;
        at += 18 + usize::from(bytes[at + 1]);
        let hold =
            matches!(entry, Ok(e) if matches!(e.body, Body::Order(_)) && bytes[here + 18] == 2);
        hold.then_some(here + 18 + 8)
    });
    let mut changed = bytes.clone();
    let level = level.expect("a hold");
    changed[level] = 1 + changed[level] % 3;
    fs::write(&file.0, &changed).expect("a file");
    let out = xsched(&["replay", file.path(), "--orders"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1), "{text}");
    assert!(text.starts_with("different: ") && text.matches("Hold").count() == 2, "{text}");
}

static HARDWARE: [NoopQueue; 3] = [const { NoopQueue::new() }; 3];

/// Makes the recording that a release is compared with: `cargo test -p xsched-cli --test replay
/// -- --ignored`.
#[test]
#[ignore = "writes a file of the repository"]
fn write_the_live_recording() {
    let file = Temporary::new();
    live_run(&file, Hpf::default(), 6);
    fs::copy(&file.0, "../sim/tests/recordings/runtime-host.xsr").expect("the repository");
}

#[test]
fn queues_that_come_and_go_are_recorded_on_any_device() {
    let file = Temporary::new();
    let runtime = Runtime::new(Hpf::default()).expect("a runtime");
    let recording = runtime.record(File::create(&file.0).expect("a file")).expect("a recording");
    assert!(matches!(runtime.record(std::io::sink()), Err(Error::AlreadyRecording)));
    let device = runtime.device(Noop::<u64>::new(&HARDWARE)).expect("a device");
    for priority in 0..3 {
        let queue = device.queue(config(priority, Level::Block), ()).expect("a queue");
        for n in 0..5_000 {
            let ticket = queue.submit(n).expect("room");
            if n % 10 == 9 {
                queue.wait(ticket).expect("it ran");
            }
        }
    }
    let stats = recording.finish().expect("a whole record");
    assert_eq!(stats.lost, 0);
    let bytes = file.read();
    let record = Record::parse(&bytes).expect("a record");
    assert!(matches!(orders(&record), Ok(Orders::Identical { .. })), "{:?}", orders(&record));
    let workload = Workload::extract(&record).expect("a workload");
    let requests: Vec<_> = workload.tasks.iter().map(|task| task.requests.len()).collect();
    assert_eq!(requests, [500, 500, 500]);
    // The next one can begin, and says that it begins late.
    let recording = runtime.record(File::create(&file.0).expect("a file")).expect("a recording");
    recording.finish().expect("a whole record");
    let bytes = file.read();
    let record = Record::parse(&bytes).expect("a record");
    assert_eq!(orders(&record), Err(ReplayError::NotFresh));
}

/// A place to write to that takes nothing until the other end is dropped.
struct Stuck(Arc<Mutex<(mpsc::Receiver<()>, Vec<u8>)>>);

impl std::io::Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut inner = self.0.lock().expect("no panic");
        let _ = inner.0.recv();
        inner.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_cannot_keep_up_loses_entries_and_no_thread_waits() {
    static QUEUES: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    let (end, wait) = mpsc::channel();
    let inner = Arc::new(Mutex::new((wait, Vec::new())));
    let runtime = Runtime::new(Fcfs).expect("a runtime");
    let recording = runtime.record(Stuck(Arc::clone(&inner))).expect("a recording");
    let device = runtime.device(Noop::<u64>::new(&QUEUES)).expect("a device");
    let queue = device.queue(config(0, Level::Block), ()).expect("a queue");
    let mut last = None;
    for n in 0..200_000 {
        last = queue.submit(n).ok();
    }
    queue.wait(last.expect("a ticket")).expect("it ran");
    drop(end);
    let stats = recording.finish().expect("written in the end");
    assert!(stats.lost > 0, "{stats:?}");
    let bytes = inner.lock().expect("no panic").1.clone();
    let record = Record::parse(&bytes).expect("a record");
    let gaps = record.entries().filter(|(_, entry)| {
        matches!(entry, Ok(e) if matches!(e.body, Body::Gap { of: Source::Queue, .. }))
    });
    assert!(gaps.count() > 0);
}

#[test]
fn a_place_that_cannot_be_written_to_is_reported() {
    struct Broken;
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let runtime = Runtime::new(Hpf::default()).expect("a runtime");
    let recording = runtime.record(Broken).expect("a recording");
    assert!(recording.finish().is_err());
    // Dropped ones end too, so that the next can begin.
    drop(runtime.record(std::io::sink()).expect("a recording"));
    runtime.record(std::io::sink()).expect("a recording").finish().expect("a whole record");
}

#[test]
fn a_recording_outlives_its_runtime() {
    let file = Temporary::new();
    let runtime = Runtime::new(Hpf::default()).expect("a runtime");
    let recording = runtime.record(File::create(&file.0).expect("a file")).expect("a recording");
    drop(runtime);
    recording.finish().expect("a whole record");
    let bytes = file.read();
    let record = Record::parse(&bytes).expect("a record");
    assert!(matches!(orders(&record), Ok(Orders::Identical { orders: 0, .. })));
    let out = xsched(&["replay", file.path()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("no request"));
}

#[test]
fn what_is_no_record_is_bad_input() {
    let file = Temporary::new();
    let live = live_run(&file, Fcfs, 2);
    let bytes = file.read();
    assert_eq!(live.bytes, bytes.len() as u64);
    let ends_with = |bytes: &[u8], wanted: &str| {
        fs::write(&file.0, bytes).expect("a file");
        let out = xsched(&["replay", file.path()]);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{text}");
        assert!(text.starts_with("error: ") && text.contains(wanted), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    ends_with(b"", "not a record");
    ends_with(b"version = 1\nname = \"small\"\n", "not a record");
    ends_with(&bytes[..bytes.len() - 1], "cut off");
    ends_with(&bytes[..bytes.len() / 2], "cut off");
    let mut newer = bytes.clone();
    newer[8] += 1;
    ends_with(&newer, "version 2");
    fs::write(&file.0, &bytes).expect("a file");
    let unknown = xsched(&["replay", file.path(), "--policy", "none"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert_eq!(xsched(&["replay", "/does/not/exist"]).status.code(), Some(2));
    assert_eq!(xsched(&["replay", file.path(), "--check", "-3"]).status.code(), Some(2));
}

#[test]
fn a_check_that_cannot_be_met_is_a_finding() {
    // A simulated run that is recorded with commands in batches: near, and not the same.
    let file = "../sim/tests/recordings/sim-hpf.xsr";
    assert_eq!(xsched(&["replay", file, "--check", "0"]).status.code(), Some(0));
    let out = xsched(&["replay", file, "--policy", "fcfs", "--check", "1%"]);
    assert_eq!(out.status.code(), Some(1));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("missed: P99 of queue-0"), "{text}");
    assert!(text.contains("policy fcfs (recorded: hpf)"), "{text}");
    // Also by a process that says nothing otherwise.
    let quiet = xsched(&["-q", "replay", file, "--policy", "fcfs", "--check", "1%"]);
    assert_eq!((quiet.status.code(), quiet.stdout), (Some(1), out.stdout));
    assert_eq!(xsched(&["-q", "replay", file]).stdout, b"");
}
