//! Scenarios that are accepted: defaults, units, copies, traces and references.

use std::io;
use std::path::{Path, PathBuf};

use xsched_core::cost::Reach;
use xsched_sim::scenario::{
    Arrival, Concurrency, DaemonSpec, Dist, LockOrder, Metric, Scenario, ScenarioError, Stat,
    TaskSpec, TraceRow,
};

const TOP: &str = "version = 1\nname = \"s\"\n";
const DEVICE: &str = "[[device]]\nname = \"gpu0\"\n";
const TASK: &str = "[[task]]\nname = \"a\"\nrequests = 1\n\
                    arrival = { kind = \"closed\", think_ms = 0 }\n\
                    command = { kind = \"constant\", us = 30 }\n";

/// Parses without a file system: every trace file has the given content.
fn parse_with_trace(text: &str, trace: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse_with(text, Path::new("dir/s.toml"), &mut |_| Ok(trace.as_bytes().to_vec()))
}

fn parse(text: &str) -> Scenario {
    parse_with_trace(text, "0\n").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn error(text: &str) -> String {
    parse_with_trace(text, "0\n").expect_err("should be refused").to_string()
}

fn with_task(keys: &str) -> TaskSpec {
    parse(&format!("{TOP}{DEVICE}{TASK}{keys}")).tasks.remove(0)
}

fn with_arrival(arrival: &str) -> Arrival {
    let task = "[[task]]\nname = \"a\"\nrequests = 1\ncommand = { kind = \"constant\", us = 1 }\n";
    parse(&format!("{TOP}{DEVICE}{task}arrival = {arrival}\n")).tasks.remove(0).arrival
}

fn with_command(command: &str) -> Dist {
    let task = "[[task]]\nname = \"a\"\nrequests = 1\n\
                arrival = { kind = \"closed\", think_ms = 0 }\n";
    parse(&format!("{TOP}{DEVICE}{task}command = {command}\n")).tasks.remove(0).command
}

/// The first `toml` block of the documentation.
fn documented_example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference/scenarios.md");
    let page = std::fs::read_to_string(&path).expect("docs/src/reference/scenarios.md");
    let (_, rest) = page.split_once("```toml\n").expect("a toml block");
    let (example, _) = rest.split_once("```").expect("the end of the toml block");
    example.to_owned()
}

#[test]
fn defaults_of_the_scenario() {
    let scenario = parse(&format!("{TOP}{DEVICE}{TASK}"));
    assert_eq!(scenario.name, "s");
    assert_eq!(scenario.description, "");
    assert_eq!((scenario.seed, scenario.seeds), (1, 1));
    assert_eq!((scenario.duration_ns, scenario.warmup_ns), (None, 0));
    assert_eq!((scenario.policy.as_str(), scenario.level), ("fcfs", 1));
    assert_eq!(scenario.scheduler_latency_ns, 2_000);
    assert!(scenario.processes.is_empty());
    assert!(scenario.references.is_empty());
    assert!(scenario.fitted.is_empty());
}

#[test]
fn defaults_of_a_device() {
    let scenario = parse(&format!("{TOP}{DEVICE}{TASK}"));
    let device = &scenario.devices[0];
    assert_eq!(device.name, "gpu0");
    assert_eq!(device.concurrency, Concurrency::RoundRobin);
    assert_eq!((device.launch_latency_ns, device.host_launch_ns), (4_000, 3_000));
    assert_eq!((device.host_sync_ns, device.detect_ns), (5_000, 8_000));
    assert_eq!((device.launch_queue, device.max_level), (1024, 3));
    assert_eq!((device.gate_ns, device.gate_close_ns), (2_200, 1_000));
    assert_eq!(device.gate_spacing_ns, 200_000);
    assert_eq!((device.save_fixed_ns, device.save_context_ns), (10_000, 10_000));
    assert_eq!((device.restore_fixed_ns, device.restore_context_ns), (10_000, 10_000));
}

#[test]
fn whom_an_interrupt_stops() {
    let device = |keys: &str| parse(&format!("{TOP}{DEVICE}{keys}{TASK}")).devices.remove(0);
    let plain = device("");
    assert_eq!((plain.grace_ns, plain.reach, plain.batches), (0, Reach::Queue, false));
    let all = device("grace_ms = 2\ninterrupt_stops = \"device\"\nbatches = true\n");
    assert_eq!((all.grace_ns, all.reach, all.batches), (2_000_000, Reach::Device, true));
    let text = format!("{TOP}{DEVICE}interrupt_stops = \"everything\"\n{TASK}");
    let error = error(&text);
    assert!(error.contains("queue") && error.contains("device"), "{error}");
}

#[test]
fn the_daemon() {
    let parsed = |keys: &str| parse(&format!("{TOP}{keys}{DEVICE}{TASK}"));
    assert_eq!(parsed("").daemon, None);
    let plain = parsed("[daemon]\n");
    assert_eq!(plain.level, 2);
    let wake = Dist::Constant(15_000);
    assert_eq!(
        plain.daemon,
        Some(DaemonSpec { wake, decide_ns: 2_000, spin_ns: 200_000, idle_ns: 0 })
    );
    let keys = "wake = { kind = \"uniform\", min_us = 0, max_ms = 1 }\ndecide_us = 0\n";
    let daemon = parsed(&format!("[daemon]\n{keys}spin_ms = 0.5\nidle_us = 150\n"))
        .daemon
        .expect("a daemon");
    assert_eq!(daemon.wake, Dist::Uniform { min_ns: 0, max_ns: 1_000_000 });
    assert_eq!((daemon.decide_ns, daemon.spin_ns, daemon.idle_ns), (0, 500_000, 150_000));
}

#[test]
fn defaults_of_a_process() {
    let plain = parse(&format!("{TOP}{DEVICE}[[process]]\nname = \"p\"\n{TASK}"));
    let process = &plain.processes[0];
    assert_eq!((process.lock, process.lock_handoff_ns), (None, 0));
    assert!(!process.lock_on_return);
    let process = "[[process]]\nname = \"p\"\nlock = \"unfair\"\n";
    let unfair = parse(&format!("{TOP}{DEVICE}{process}{TASK}"));
    assert_eq!(unfair.processes[0].lock, Some(LockOrder::Unfair { switch_ns: 5_000_000 }));
}

#[test]
fn defaults_of_a_task() {
    // Besides these, as those that are made in code.
    let expected = TaskSpec {
        requests: Some(1),
        commands: 1,
        command: Dist::Constant(30_000),
        capacity: 1024,
        ..TaskSpec::named("a")
    };
    assert_eq!(with_task(""), expected);
}

#[test]
fn batch_and_capacity_follow_the_threshold() {
    let task = with_task("threshold = 1\n");
    assert_eq!((task.threshold, task.batch, task.capacity), (1, 1, 1024));
    let task = with_task("threshold = 4001\n");
    assert_eq!((task.threshold, task.batch, task.capacity), (4001, 2000, 4001));
}

#[test]
fn every_unit_of_a_time_means_the_same() {
    for key in ["host_launch_us = 1500", "host_launch_ms = 1.5", "\"host_launch_ms\" = 1.5"] {
        assert_eq!(with_task(&format!("{key}\n")).host_launch_ns, Some(1_500_000), "{key}");
    }
    for key in ["duration_us = 2_500_000", "duration_ms = 2500.0", "duration_s = 2.5"] {
        let scenario = parse(&format!("{TOP}{key}\n{DEVICE}{TASK}"));
        assert_eq!(scenario.duration_ns, Some(2_500_000_000), "{key}");
    }
    assert_eq!(with_command("{ kind = \"constant\", ms = 0.5 }"), Dist::Constant(500_000));
    let expected = Dist::Empirical { values_ns: [1_000_000, 2_500_000].into(), weights: [].into() };
    assert_eq!(with_command("{ kind = \"empirical\", values_ms = [1, 2.5] }"), expected);
    assert_eq!(with_command("{ kind = \"empirical\", values_us = [1e3, 2500] }"), expected);
}

#[test]
fn times_are_rounded_to_nanoseconds() {
    let laxity = |text: &str| with_task(&format!("laxity_us = {text}\n")).laxity_ns;
    assert_eq!(laxity("2.2"), Some(2_200));
    assert_eq!(laxity("0.0004"), Some(0));
    assert_eq!(laxity("0.0006"), Some(1));
    assert_eq!(laxity("-0.0"), Some(0));
    assert_eq!(laxity("1e12"), Some(1_000_000_000_000_000));
}

#[test]
fn arrivals() {
    let constant = |think, jitter_ns| Arrival::Closed { think: Dist::Constant(think), jitter_ns };
    assert_eq!(
        with_arrival("{ kind = \"closed\", think_ms = 20, jitter_us = 200 }"),
        constant(20_000_000, 200_000)
    );
    assert_eq!(
        with_arrival("{ kind = \"closed\", think = { kind = \"exponential\", mean_ms = 20 } }"),
        Arrival::Closed { think: Dist::Exponential { mean_ns: 20e6 }, jitter_ns: 0 }
    );
    assert_eq!(
        with_arrival("{ kind = \"closed\", think = { kind = \"constant\", us = 0 } }"),
        constant(0, 0)
    );
    assert_eq!(
        with_arrival("{ kind = \"periodic\", period_ms = 20, jitter_ms = 19.9 }"),
        Arrival::Periodic { period_ns: 20_000_000, jitter_ns: 19_900_000 }
    );
    assert_eq!(
        with_arrival("{ kind = \"poisson\", rate_per_s = 100 }"),
        Arrival::Renewal { gap: Dist::Exponential { mean_ns: 10e6 } }
    );
    let gap = Dist::LogNormal { mean_ns: 10e6, sigma: 2.0 };
    assert_eq!(
        with_arrival("{ kind = \"lognormal\", mean_ms = 10, sigma = 2 }"),
        Arrival::Renewal { gap: gap.clone() }
    );
    assert_eq!(
        with_arrival("{ kind = \"lognormal\", rate_per_s = 100, sigma = 2 }"),
        Arrival::Renewal { gap }
    );
}

#[test]
fn distributions() {
    assert_eq!(
        with_command("{ kind = \"exponential\", mean_us = 1.5 }"),
        Dist::Exponential { mean_ns: 1500.0 }
    );
    assert_eq!(
        with_command("{ kind = \"lognormal\", mean_us = 30, sigma = 0 }"),
        Dist::LogNormal { mean_ns: 30_000.0, sigma: 0.0 }
    );
    let Dist::LogNormal { mean_ns, sigma } =
        with_command("{ kind = \"lognormal\", median_us = 30, sigma = 2 }")
    else {
        panic!("not log-normal");
    };
    assert!((mean_ns - 30_000.0 * 2_f64.exp()).abs() < 1e-6, "mean is {mean_ns}");
    assert_eq!(sigma, 2.0);
    assert_eq!(
        with_command("{ kind = \"empirical\", values_us = [1, 2], weights = [0.5, 0] }"),
        Dist::Empirical { values_ns: [1_000, 2_000].into(), weights: [0.5, 0.0].into() }
    );
    assert_eq!(
        with_command("{ kind = \"uniform\", min_us = 1, max_ms = 1 }"),
        Dist::Uniform { min_ns: 1_000, max_ns: 1_000_000 }
    );
}

#[test]
fn numbers_at_the_ends_of_their_ranges() {
    let task = with_task("priority = -256\nshare = 0\nweight = 1_000_000\ncontext = 0\n");
    assert_eq!((task.priority, task.share, task.weight), (-256, Some(0), 1_000_000));
    assert_eq!(task.context, 0.0);
    let task = with_task("threshold = 65536\nbatch = 65536\ncapacity = 65536\noutstanding = 1024");
    assert_eq!((task.threshold, task.batch, task.outstanding), (65_536, 65_536, 1024));
    let top = "seed = 18446744073709551614\n";
    assert_eq!(parse(&format!("{TOP}{top}{DEVICE}{TASK}")).seed, u64::MAX - 1);
    let full = parse(&format!("{TOP}{DEVICE}{TASK}count = 100_000\n"));
    assert_eq!(full.expanded_tasks().len(), 100_000);
}

#[test]
fn devices_and_processes_are_found_by_name() {
    let text = format!(
        "{TOP}{DEVICE}[[device]]\nname = \"gpu1\"\nconcurrency = \"exclusive\"\n\
         [[process]]\nname = \"p\"\n[[process]]\nname = \"q\"\nlock = \"fair\"\n\
         {TASK}device = \"gpu1\"\nprocess = \"q\"\n"
    );
    let scenario = parse(&text);
    assert_eq!((scenario.tasks[0].device, scenario.tasks[0].process), (1, Some(1)));
    assert_eq!(scenario.devices[1].concurrency, Concurrency::Exclusive);
    assert_eq!(scenario.processes[1].lock, Some(LockOrder::Fair));
}

#[test]
fn copies_are_numbered_and_linked() {
    let other = |name: &str, count: u32, after: &str| {
        let task = TASK.replace("\"a\"", &format!("{name:?}"));
        format!("{task}count = {count}\nafter = {after:?}\n")
    };
    let tasks = [other("same", 3, "a"), other("two", 2, "a"), other("one", 1, "two")].concat();
    let scenario = parse(&format!("{TOP}{DEVICE}{TASK}count = 3\n{tasks}"));
    let expanded = scenario.expanded_tasks();
    let names: Vec<_> = expanded.iter().map(|task| task.name.as_str()).collect();
    let expected = ["a-1", "a-2", "a-3", "same-1", "same-2", "same-3", "two-1", "two-2", "one"];
    assert_eq!(names, expected);
    let after: Vec<_> = expanded.iter().map(|task| task.after).collect();
    let expected = [None, None, None, Some(0), Some(1), Some(2), Some(0), Some(0), Some(6)];
    assert_eq!(after, expected);
    assert!(expanded.iter().all(|task| task.count == 1));
}

#[test]
fn after_may_name_a_later_task() {
    let later = TASK.replace("\"a\"", "\"b\"");
    let scenario = parse(&format!("{TOP}{DEVICE}{TASK}after = \"b\"\n{later}"));
    assert_eq!(scenario.tasks[0].after, Some(1));
}

#[test]
fn traces() {
    let text = format!(
        "{TOP}{DEVICE}[[task]]\nname = \"a\"\nrequests = 4\n\
         arrival = {{ kind = \"trace\", file = \"t.csv\" }}\n\
         command = {{ kind = \"constant\", us = 1 }}\n"
    );
    let trace = "\u{feff}# comment\r\n\r\nat_ms, commands, command_us\r\n0\r\n1.5,3 # why\r\n\
                 1.5,,2.5\r\n 2 , 0 , \n";
    let arrival = parse_with_trace(&text, trace).expect("a good trace").tasks.remove(0).arrival;
    let row = |at_ns, commands, command_ns| TraceRow { at_ns, commands, command_ns };
    let rows = [row(0, 0, 0), row(1_500_000, 3, 0), row(1_500_000, 0, 2_500), row(2_000_000, 0, 0)];
    assert_eq!(arrival, Arrival::Trace { rows: rows.into() });
}

#[test]
fn a_trace_is_read_once_from_the_folder_of_the_scenario() {
    let task = |name: &str| {
        format!(
            "[[task]]\nname = {name:?}\nrequests = 1\ncommand = {{ kind = \"constant\", us = 1 }}\n\
             arrival = {{ kind = \"trace\", file = \"sub/t.csv\" }}\n"
        )
    };
    let text = [TOP, DEVICE, &task("a"), &task("b")].concat();
    let mut paths = Vec::new();
    let read = &mut |path: &Path| -> io::Result<Vec<u8>> {
        paths.push(path.to_owned());
        Ok(b"at_ms\n3\n".to_vec())
    };
    Scenario::parse_with(&text, Path::new("dir/s.toml"), read).expect("a good scenario");
    assert_eq!(paths, [PathBuf::from("dir/sub/t.csv")]);
}

#[test]
fn mistakes_in_a_trace_name_the_trace_and_its_line() {
    let text = format!(
        "{TOP}{DEVICE}[[task]]\nname = \"a\"\nrequests = 1\n\
         arrival = {{ kind = \"trace\", file = \"t.csv\" }}\n\
         command = {{ kind = \"constant\", us = 1 }}\n"
    );
    let cases = [
        ("0\n2\n1\n", "3: at_ms: must not be before the row above"),
        ("at_ms\nx\n", "2: at_ms: must be a number, is \"x\""),
        ("at\n", "1: at_ms: must be a number, is \"at\""),
        ("0\nat_ms\n", "2: at_ms: must be a number, is \"at_ms\""),
        ("nan\n", "1: at_ms: must be finite, is NaN"),
        ("0\n\n-1\n", "3: at_ms: must not be negative, is -1.0"),
        ("1e300\n", "1: at_ms: must be at most 1000000000000000 ns"),
        ("0,1.5\n", "1: commands: must be an integer, is \"1.5\""),
        ("0,-1\n", "1: commands: must be at least 0, is -1"),
        ("0,1000001\n", "1: commands: must be at most 1000000, is 1000001"),
        ("0,1,inf\n", "1: command_us: must be finite, is inf"),
        ("0,1,1,1\n", "1: command_us: must be the last column"),
        ("0,1,1,\n", "1: command_us: must be the last column"),
        (",1\n", "1: at_ms: must be a number, is \"\""),
        ("# nothing\n", "1: file: must have at least one row"),
    ];
    for (trace, expected) in cases {
        let error = parse_with_trace(&text, trace).expect_err(trace).to_string();
        let expected = format!("dir/t.csv:{expected}");
        assert!(error.starts_with(&expected), "{error}\nis not\n{expected}");
    }
    let mut not_utf8 = |_: &Path| Ok(b"0\n\xff\n".to_vec());
    let error = Scenario::parse_with(&text, Path::new("s.toml"), &mut not_utf8).expect_err("bytes");
    assert_eq!(error.to_string(), "t.csv:2: file: is not UTF-8 text");
    let mut huge = |_: &Path| Ok("0\n".repeat(1_000_001).into_bytes());
    let error = Scenario::parse_with(&text, Path::new("s.toml"), &mut huge).expect_err("rows");
    assert_eq!((error.file.as_str(), error.line), ("t.csv", 1_000_001));
    let mut large = |_: &Path| Ok(vec![b'\n'; (16 << 20) + 1]);
    let error = Scenario::parse_with(&text, Path::new("s.toml"), &mut large).expect_err("size");
    assert_eq!(error.to_string(), "s.toml:8: task[0].arrival.file: t.csv is larger than 16 MiB");
}

#[test]
fn references() {
    let reference = |metric: &str| {
        let keys = "value = 1.5\nwithin_percent = 10\n";
        let text = format!("{TOP}{DEVICE}{TASK}[[reference]]\nmetric = {metric:?}\n{keys}");
        parse(&text.replace("\"a\"", "\"a.b\"")).references.remove(0)
    };
    let task = || Some("a.b".to_owned());
    let first = reference("task.a.b.mean_ms");
    assert_eq!(first.metric, Metric::Latency { task: task(), stat: Stat::Mean });
    assert_eq!((first.value, first.within_percent), (1.5, 10.0));
    assert!(!first.in_band);
    assert_eq!(first.source, "");
    let stats = [
        ("p50", Stat::P50),
        ("p95", Stat::P95),
        ("p99", Stat::P99),
        ("min", Stat::Min),
        ("max", Stat::Max),
        ("std", Stat::Std),
    ];
    for (word, stat) in stats {
        let metric = reference(&format!("task.a.b.{word}_ms")).metric;
        assert_eq!(metric, Metric::Latency { task: task(), stat });
        let metric = reference(&format!("all.{word}_ms")).metric;
        assert_eq!(metric, Metric::Latency { task: None, stat });
    }
    let rate = reference("task.a.b.throughput_rps").metric;
    assert_eq!(rate, Metric::Throughput { task: task() });
    assert_eq!(reference("all.throughput_rps").metric, Metric::Throughput { task: None });
}

#[test]
fn references_name_copies() {
    let reference = |metric: &str| {
        let keys = "value = 1\nwithin_percent = 10\n";
        format!("{TOP}{DEVICE}{TASK}count = 2\n[[reference]]\nmetric = {metric:?}\n{keys}")
    };
    parse(&reference("task.a-2.mean_ms"));
    let error = error(&reference("task.a.mean_ms"));
    assert!(error.ends_with("no task is called \"a\"; known: a-1, a-2"), "{error}");
}

#[test]
fn unknown_keys_get_a_hint() {
    let error = |key: &str| error(&format!("{TOP}{DEVICE}{TASK}{key} = 1\n"));
    assert!(error("thresold").ends_with("did you mean `threshold`?"));
    assert!(error("host_launch").ends_with("unit: `host_launch_us` or `host_launch_ms`"));
    let list = error("colour");
    assert!(list.contains("known keys are: active_window, after, arrival, batch,"), "{list}");
    assert!(list.contains("deadline_us, ") && !list.contains("deadline_ms"), "{list}");
}

#[test]
fn odd_text_in_keys_and_values_stays_on_one_line() {
    let texts = [
        format!("{TOP}\"a\\nb\\u2028c\" = 1\n{DEVICE}{TASK}"),
        format!("version = 1\nname = \"\"\"a\n\nb\"\"\"\n{DEVICE}{TASK}"),
        format!("{TOP}policy = \"{}\"\n{DEVICE}{TASK}", "x".repeat(100_000)),
        format!("{TOP}{} = 1\n{DEVICE}{TASK}", "x".repeat(100_000)),
        format!("{TOP}level = {:?}\n{DEVICE}{TASK}", "x".repeat(100_000)),
        format!("{TOP}{DEVICE}{TASK}sync = {:?}\n", "x\n".repeat(100_000)),
    ];
    for text in texts {
        let error = error(&text);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.len() < 1_000, "{error}");
    }
}

#[test]
fn deep_nesting_is_no_problem() {
    let dotted = format!("{}a", "a.".repeat(70));
    let tables = format!("{{ {dotted} = ").repeat(70);
    let nested = format!("{TOP}[{dotted}]\n{dotted} = {tables}1{}\n", "}".repeat(70));
    let arrays = format!("{TOP}x = {}\n", "[".repeat(100_000));
    for text in [nested, arrays] {
        assert_eq!(error(&text).lines().count(), 1);
    }
}

#[test]
fn files_that_cannot_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let error = |path: &Path| Scenario::load(path).expect_err("not readable").to_string();
    let none = folder.join("no-such-file.toml");
    let start = format!("{}: cannot be read: No such file", none.display());
    assert!(error(&none).starts_with(&start), "{}", error(&none));
    let is_folder = format!("{}: is a folder; name a file in it", folder.display());
    assert_eq!(error(folder), is_folder);
}

#[test]
fn files_that_are_no_text_or_too_large() {
    let parse = |bytes: &[u8]| {
        let read = &mut |_: &Path| Ok(Vec::new());
        Scenario::parse_bytes(bytes, Path::new("s.toml"), read).expect_err("refused").to_string()
    };
    assert_eq!(parse(b"version = 1\n\nname = \"\xe4\"\n"), "s.toml:3: file: is not UTF-8 text");
    let large = vec![b'\n'; (16 << 20) + 1];
    assert_eq!(parse(&large), "s.toml:1: file: is larger than 16 MiB");
    let full = vec![b'\n'; 16 << 20];
    assert!(parse(&full).contains("s.toml:1: version: missing"));
    let text = "\n".repeat(large.len());
    let error = Scenario::parse(&text, Path::new("s.toml")).expect_err("too large");
    assert_eq!(error.to_string(), parse(&large));
}

#[test]
fn the_documented_example_is_accepted() {
    let example = documented_example();
    let scenario = Scenario::parse(&example, Path::new("example.toml"));
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scenario.tasks.len(), 4);
    assert_eq!(scenario.expanded_tasks().len(), 7);
    assert_eq!(scenario.tasks[3].after, Some(2));
    assert_eq!(scenario.duration_ns, Some(2_000_000_000));
    assert_eq!(scenario.references.len(), 2);
    assert_eq!(scenario.fitted.len(), 1);
}
