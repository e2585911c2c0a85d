//! Runs the `xsched` binary as a user does: what it prints, what it writes and how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A small scenario: a short task and a long one on one device, over in a moment.
const SCENARIO: &str = r#"version = 1
name = "small"
policy = "fcfs"
duration_ms = 200

[[device]]
name = "gpu0"

[[task]]
name = "short"
arrival = { kind = "poisson", rate_per_s = 100 }
command = { kind = "lognormal", mean_us = 50, sigma = 0.3 }
commands = 10
priority = 5

[[task]]
name = "long"
arrival = { kind = "closed", think_ms = 0 }
command = { kind = "constant", us = 200 }
commands = 50
"#;

/// A folder of its own for a test, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("xsched-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a folder for the test");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("a file for the test");
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file that the program wrote")
    }

    /// Names of the files, hidden ones included.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn xsched(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(args).stdin(Stdio::null()).output().expect("the program runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Runs the program, which has to end well, and returns what it printed.
fn good(args: &[&str]) -> String {
    let output = xsched(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "{args:?}");
    stdout(&output)
}

/// Runs the program, which has to refuse its input in one line, and returns the line.
fn refused(args: &[&str]) -> String {
    let output = xsched(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stdout(&output));
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    assert!(text.starts_with("error: ") && text.ends_with('\n'), "{args:?}: {text}");
    assert_eq!(stdout(&output), "", "{args:?}");
    text
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("valid JSON")
}

#[test]
fn a_run_prints_tables_and_a_line_about_checks() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let text = good(&["sim", "run", &file]);
    assert!(text.starts_with("small: policy fcfs, Lv1, seed 1; 0.200 s simulated"), "{text}");
    for word in ["short", "long", "(all)", "P99", "gpu0", "overhead", "no violation"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!(good(&["sim", "run", &file, "--quiet"]), "");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    for (name, seed) in [("a", "5"), ("b", "5"), ("c", "6")] {
        let out = [name, ".json"].concat();
        let svg = [name, ".svg"].concat();
        let (out, svg) = (folder.path(&out), folder.path(&svg));
        good(&["sim", "run", &file, "--seed", seed, "--json", &out, "--svg", &svg]);
    }
    assert_eq!(folder.read("a.json"), folder.read("b.json"));
    assert_eq!(folder.read("a.svg"), folder.read("b.svg"));
    assert_ne!(folder.read("a.json"), folder.read("c.json"));
    let names = ["a.json", "a.svg", "b.json", "b.svg", "c.json", "c.svg", "s.toml"];
    assert_eq!(folder.names(), names, "nothing else is left behind");

    let document = json(&folder.read("a.json"));
    assert_eq!(document["scenario"], "small");
    assert_eq!(document["seed"], 5);
    assert_eq!(document["duration_ms"], 200.0);
    assert_eq!(document["tasks"][1]["name"], "long");
    assert!(document["tasks"][1]["completed"].as_u64().is_some_and(|count| count > 0));
    assert!(document["tasks"][1]["latency_ms"]["p99"].as_f64().is_some_and(|ms| ms > 5.0));
    let checks = document["checks"].as_object().expect("checks");
    assert!(!checks.is_empty());
    assert!(checks.values().all(|check| check["violations"] == 0));
}

#[test]
fn json_goes_to_standard_output_and_the_tables_make_way() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let output = xsched(&["sim", "run", &file, "--json", "-"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(json(&stdout(&output))["policy"], "fcfs");
    assert!(stderr(&output).contains("latency in ms"), "{}", stderr(&output));
    let quiet = xsched(&["sim", "run", &file, "--json", "-", "--quiet"]);
    assert_eq!(stdout(&quiet), stdout(&output));
    assert_eq!(stderr(&quiet), "");
}

#[test]
fn several_seeds_give_bands_and_judge_measured_values() {
    let folder = Folder::new();
    let reference = |value| {
        let reference = "\n[[reference]]\nmetric = \"task.long.mean_ms\"\nwithin_percent = 50\n";
        format!("{SCENARIO}{reference}value = {value}\n")
    };
    // 50 commands of 200 us take 10 ms and a little.
    let near = folder.write("near.toml", &reference(12.0));
    let (a, b) = (folder.path("a.json"), folder.path("b.json"));
    let text = good(&["sim", "run", &near, "--seeds", "5", "--json", &a]);
    assert!(text.contains("over 5 seeds") && text.contains(" … "), "{text}");
    assert!(text.contains("task.long.mean_ms"), "{text}");
    good(&["sim", "run", &near, "--seeds", "5", "--json", &b]);
    assert_eq!(folder.read("a.json"), folder.read("b.json"));
    let document = json(&folder.read("a.json"));
    assert_eq!(document["seeds"], 5);
    assert_eq!(document["bands"]["tasks"][1]["latency_ms"]["mean"]["runs"], 5);
    assert_eq!(document["references"][0]["verdict"], "ok");

    let far = folder.write("far.toml", &reference(900.0));
    assert_eq!(xsched(&["sim", "run", &far]).status.code(), Some(0));
    let output = xsched(&["sim", "run", &far, "--seeds", "3", "--quiet"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("missed: task.long.mean_ms = 900: off by"));
    assert_eq!(stdout(&output).lines().count(), 1);
}

#[test]
fn a_trace_is_a_list_of_events() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    good(&["sim", "run", &file, "--trace", &folder.path("t.json")]);
    let trace = json(&folder.read("t.json"));
    let events = trace["traceEvents"].as_array().expect("events");
    let complete = events.iter().filter(|event| event["ph"] == "X");
    assert!(complete.clone().count() > 100);
    for event in complete {
        assert!(event["ts"].is_f64() && event["dur"].is_f64(), "{event}");
        assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
    }
}

#[test]
fn a_comparison_has_a_line_per_combination_and_task() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let (out, svg) = (folder.path("c.json"), folder.path("c.svg"));
    let other =
        xsched_sim::run::policy_names().iter().find(|name| !xsched_sim::run::never_holds(name));
    let other = other.expect("a policy that holds");
    let policies = format!("fcfs,{other}");
    let args = ["sim", "compare", &file, "--policies", &policies, "--level", "1,2"];
    let text = good(&[&args[..], &["--json", &out, "--svg", &svg, "--seeds", "2"]].concat());
    let lines = |start: &str| text.lines().filter(|line| line.trim().starts_with(start)).count();
    assert_eq!(lines("fcfs "), 2, "levels make no difference to it: {text}");
    assert_eq!(lines(other), 4, "{text}");
    let document = json(&folder.read("c.json"));
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(3));
    assert_eq!(document["runs"][2]["level"], 2);
    assert_eq!(document["runs"][2]["seeds"], 2);
    assert!(folder.read("c.svg").contains("</svg>"));
}

#[test]
fn why_a_policy_misses_deadlines_is_said() {
    let folder = Folder::new();
    let text = SCENARIO.replace("priority = 5", "priority = 5\ndeadline_ms = 2");
    let file = folder.write("a.toml", &text);
    let run = good(&["sim", "run", &file, "--policy", "wfq"]);
    let line = "task short: wfq takes no notice of priority, deadline\n";
    assert!(run.contains(line), "{run}");
    assert!(!good(&["sim", "run", &file, "--policy", "strict_edf"]).contains("takes no notice"));
    // Counts and misses over several seeds and side by side, and none of a task without a deadline.
    let cells = |text: &str, task: &str, at: usize| {
        let line = text.lines().find(|line| line.split_whitespace().any(|word| word == task));
        let line = line.unwrap_or_else(|| panic!("no {task}: {text}")).to_owned();
        line.split_whitespace().nth(at).expect("a cell").to_owned()
    };
    let page = folder.path("a.html");
    let policies = ["--policies", "fcfs,wfq", "--html", &page];
    let compared = good(&[&["sim", "compare", &file], &policies[..]].concat());
    assert!(compared.contains(line) && folder.read("a.html").contains(line.trim_end()));
    assert!(compared.contains("task short: fcfs takes no notice of priority, deadline\n"));
    let number = |text: String| text.parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
    let (count, misses) =
        (number(cells(&compared, "short", 8)), number(cells(&compared, "short", 9)));
    assert!(0 < misses && misses <= count, "{misses} of {count}: {compared}");
    assert_eq!(cells(&compared, "long", 9), "-");
    let picture = folder.read("a.html");
    for words in ["deadline 2 ms, late: fcfs", &format!("n = {count}")] {
        assert!(picture.contains(words), "{words}");
    }
    let seeds = good(&["sim", "run", &file, "--seeds", "3"]);
    let header = seeds.lines().find(|line| line.contains("P99")).expect("a header");
    assert!(header.contains("count") && header.contains("misses"), "{seeds}");
    assert!(seeds.contains("takes no notice of priority, deadline"), "{seeds}");
    // The trace has the deadlines, and says which requests were late.
    let trace = folder.path("a.json");
    good(&["sim", "run", &file, "--trace", &trace]);
    let trace = json(&folder.read("a.json"));
    let events = trace["traceEvents"].as_array().expect("events");
    let with = |words: &str| {
        let name = |event: &&Value| event["name"].as_str().is_some_and(|name| name.contains(words));
        events.iter().filter(name).count() as u64
    };
    assert_eq!(with(", late") - with("unfinished, late"), misses);
    assert!(with("deadline of request") >= count);
}

#[test]
fn levels_are_one_option_whatever_their_number_and_the_earlier_name_works() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let compare = ["sim", "compare", &file, "--policies", "fcfs,hpf"];
    let table = |option: &str| {
        let text = good(&[&compare[..], &[option, "1,2"]].concat());
        text.lines().filter(|line| line.starts_with("  ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(table("--level"), table("--levels"));
    let help = good(&["sim", "compare", "--help"]);
    assert!(help.contains("--level <N,N>") && !help.contains("--levels"), "{help}");
}

#[test]
fn a_comparison_writes_a_page() {
    let folder = Folder::new();
    let device = include_str!("../../sim/devices/mi308x.toml");
    folder.write("gpu <0>.toml", device);
    let with_file = "name = \"gpu0\"\nfile = \"gpu <0>.toml\"";
    let scenario = SCENARIO.replace("name = \"gpu0\"", with_file);
    let file = folder.write("a scenario.toml", &scenario);
    let page = folder.path("c.html");
    let args = ["sim", "compare", &file, "--policies", "fcfs,hpf", "--level", "1,2"];
    let args = [&args[..], &["--seeds", "3", "--html", &page]].concat();
    let text = good(&args);
    let html = folder.read("c.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<svg"), "{html}");
    assert!(!html.contains("src=") && !html.contains("<link"), "it needs no other file");
    // The command as a shell takes it, the files, and each figure of the table.
    let command = format!("sim compare '{file}' --policies fcfs,hpf --level 1,2 --seeds 3 --html");
    assert!(html.contains(&command), "{html}");
    for part in ["mean_us = 50, sigma = 0.3", "gpu &lt;0&gt;.toml", "seeds 1 to 3", "<polygon"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let rows = text.lines().filter(|line| line.starts_with("  fcfs") || line.starts_with("  hpf"));
    assert_eq!(rows.clone().count(), 6, "{text}");
    for figure in rows.flat_map(str::split_whitespace) {
        assert!(html.contains(&format!(">{figure}</td>")), "{figure}: {html}");
    }
    assert!(html.contains("checks: 8 invariants"), "{html}");
    good(&args);
    assert_eq!(folder.read("c.html"), html, "the same bytes again");
    refused(&["sim", "compare", &file, "--policies", "fcfs", "--html", "-"]);
}

#[test]
fn an_overload_after_the_first_seed_is_reported() {
    let folder = Folder::new();
    let text = "version = 1\nname = \"near\"\nduration_ms = 1000\n[[device]]\nname = \"d\"\n\
        [[task]]\nname = \"busy\"\narrival = { kind = \"poisson\", rate_per_s = 90 }\n\
        command = { kind = \"constant\", us = 200 }\ncommands = 50\n";
    let file = folder.write("s.toml", text);
    let from_10 = ["sim", "run", &file, "--policy", "fcfs", "--seed", "10"];
    assert!(!good(&from_10).contains("overload"));
    let line = "overload: 16 of 114 requests of task busy were not complete at the end of seed 11";
    let two = [&from_10[..], &["--seeds", "2"]].concat();
    assert!(good(&two).contains(&format!("{line} and are in no latency\n")), "{}", good(&two));
    assert!(good(&[&["-q"][..], &two].concat()).starts_with(line));
    let four = good(&[&from_10[..], &["--seeds", "4"]].concat());
    let worst = format!("{line}, the worst of 2 seeds in which this was so, and are in no latency");
    assert!(four.contains(&worst), "{four}");
    let compare = ["sim", "compare", &file, "--policies", "fcfs", "--seed", "10", "--seeds", "2"];
    assert!(good(&compare).contains(&format!("fcfs: {line}")), "{}", good(&compare));
}

#[test]
fn a_system_runs_instead_of_a_policy() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let out = folder.path("s.json");
    let text = good(&["sim", "run", &file, "--policy", "mps", "--json", &out]);
    assert!(text.starts_with("small: system mps, seed 1;"), "{text}");
    assert_eq!(json(&folder.read("s.json"))["policy"], "mps");
    let policies = ["--policies", "hpf,native,triton,native", "--level", "1,2"];
    let text = good(&[&["sim", "compare", &file][..], &policies].concat());
    let lines = |start: &str| text.lines().filter(|line| line.trim().starts_with(start)).count();
    assert_eq!([lines("hpf "), lines("native "), lines("triton ")], [4, 2, 2], "{text}");

    let named = SCENARIO.replace("policy = \"fcfs\"", "system = \"vcuda\"");
    let file = folder.write("named.toml", &named);
    assert!(good(&["sim", "run", &file]).starts_with("small: system vcuda, "));
    let text = good(&["sim", "run", &file, "--policy", "hpf"]);
    assert!(text.starts_with("small: policy hpf, Lv1, "), "{text}");
}

#[test]
fn a_swarm_prints_a_summary() {
    let text = good(&["sim", "swarm", "--seeds", "2"]);
    assert!(text.starts_with("swarm: 2 runs from seed 1 on"), "{text}");
    let text = good(&["sim", "swarm", "--seeds", "1", "--seed", "9", "--threads", "1"]);
    let (description, summary) = text.split_once("\n\n").expect("a description first");
    assert!(
        !description.is_empty() && summary.starts_with("swarm: 1 run from seed 9 on"),
        "{text}"
    );
    let text = good(&["sim", "swarm", "--daemon", "--seeds", "1", "--seed", "9"]);
    let start = "seed 9: a daemon with policy ";
    assert!(text.starts_with(start) && text.contains("\nswarm: 1 run from seed 9 on"), "{text}");
}

#[test]
fn an_unknown_policy_is_refused_with_the_known_ones() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let line = refused(&["sim", "run", &file, "--policy", "magic"]);
    assert!(line.contains("magic"), "{line}");
    for name in xsched_sim::run::policy_names() {
        assert!(line.contains(name), "{name}: {line}");
    }
    for system in xsched_sim::scenario::System::ALL {
        assert!(line.contains(system.name()), "{system}: {line}");
    }
    let line = refused(&["sim", "compare", &file, "--policies", "fcfs,magic"]);
    assert!(line.contains("magic"), "{line}");
    refused(&["sim", "run", &file, "--level", "4"]);
    refused(&["sim", "compare", &file, "--policies", "fcfs,hpf", "--level", "0"]);
}

#[test]
fn bad_files_are_refused_in_one_line() {
    let folder = Folder::new();
    assert!(refused(&["sim", "run", &folder.path("none.toml")]).contains("none.toml"));
    assert!(refused(&["sim", "run", "-"]).contains("-"));
    let file = folder.write("bad.toml", "version = 1\nname = \"x\"\nseeds = \"many\"\n");
    assert!(refused(&["sim", "run", &file]).contains("bad.toml:3: seeds: "));
    assert!(refused(&["sim", "compare", &file, "--policies", "fcfs"]).contains("bad.toml:3"));
    let place = folder.0.to_str().expect("a plain path");
    let expected = format!("error: {place}: is a folder; name a file in it\n");
    assert_eq!(refused(&["sim", "run", place]), expected);
    refused(&["sim", "run", &folder.path("line\nbreak.toml")]);
}

#[test]
fn every_malformed_scenario_is_refused_in_one_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/malformed");
    let entries = fs::read_dir(folder).expect("the folder of malformed scenarios");
    let mut count = 0;
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            refused(&["sim", "run", path.to_str().expect("a plain path")]);
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let nowhere = folder.path("none/out.json");
    assert!(refused(&["sim", "run", &file, "--json", &nowhere]).contains(&nowhere));
    refused(&["sim", "run", &file, "--svg", &folder.path("")]);
    refused(&["sim", "run", &file, "--svg", "-"]);
    refused(&["sim", "run", &file, "--trace", "-"]);
    let out = folder.path("out");
    refused(&["sim", "run", &file, "--json", &out, "--svg", &out]);
    assert_eq!(folder.names(), ["s.toml"]);
}

#[test]
fn an_existing_output_is_replaced() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let out = folder.write("out.json", &"x".repeat(1 << 20));
    good(&["sim", "run", &file, "--json", &out]);
    assert_eq!(json(&folder.read("out.json"))["scenario"], "small");
}

#[test]
fn seeds_do_not_wrap_around() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let last = u64::MAX.to_string();
    good(&["sim", "run", &file, "--seed", &last]);
    refused(&["sim", "run", &file, "--seed", &last, "--seeds", "2"]);
    refused(&["sim", "swarm", "--seed", &last, "--seeds", "2"]);
    refused(&["sim", "compare", &file, "--policies", "fcfs", "--seed", &last, "--seeds", "2"]);
}

#[test]
fn mistakes_in_arguments_end_with_2_and_help_with_0() {
    for args in [
        &["sim"][..],
        &["sim", "run"],
        &["sim", "run", "x.toml", "--what"],
        &["sim", "run", "x.toml", "--seeds", "0"],
        &["sim", "run", "x.toml", "--level", "300"],
        &["sim", "compare", "x.toml"],
        &["sim", "swarm", "--threads", "0"],
        &["fly"],
    ] {
        let output = xsched(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!stderr(&output).contains("panicked"), "{args:?}");
    }
    for args in [&["--help"][..], &["--version"], &["sim", "run", "--help"]] {
        assert!(good(args).contains("xsched"), "{args:?}");
    }
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for args in [&["--help"][..], &["--version"], &["sim", "run", "--help"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
        let full = fs::File::options().write(true).open("/dev/full").expect("a full device");
        let output = command.args(args).stdout(full).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.starts_with("error: cannot write standard output: "), "{args:?}: {said}");
    }
}

#[test]
fn little_is_printed_if_wished_and_more_if_wished() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let compare = ["sim", "compare", &file, "--policies", "fcfs,hpf"];
    assert_eq!(good(&[&["-q"][..], &compare].concat()), "");
    assert_eq!(good(&[&compare[..], &["--quiet"]].concat()), "");
    assert!(refused(&["sim", "run", "-q", "none.toml"]).contains("none.toml"));
    let out = folder.path("out.json");
    let output = xsched(&["sim", "run", &file, "-v", "--json", &out]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("latency in ms"), "{}", stdout(&output));
    let said = stderr(&output);
    assert!(said.contains(&format!("xsched: wrote {out}\n")) && said.contains("took "), "{said}");
    assert_eq!(xsched(&["-q", "-v", "devices"]).status.code(), Some(2));
}

#[test]
fn shells_complete_commands_and_each_command_has_a_manual_page() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = good(&["completions", shell]);
        for word in ["doctor", "compare", "seeds"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(xsched(&["completions", "csh"]).status.code(), Some(2));
    let folder = Folder::new();
    good(&["man", "--out", &folder.path("new/man1")]);
    for (page, words) in [
        ("xsched.1", "xsched\\-sim(1)"),
        ("xsched-sim-run.1", "TOML file"),
        ("xsched-ctl-set.1", "\\-\\-share"),
    ] {
        let text = folder.read(&format!("new/man1/{page}"));
        assert!(text.starts_with(".ie") && text.contains(words), "{page}: {text}");
    }
    let file = folder.write("file", "");
    assert!(refused(&["man", "--out", &file]).contains("cannot write"));
}

/// The reader of standard output goes away at once: no message, no panic.
#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = Folder::new();
    let file = folder.write("s.toml", SCENARIO);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(["sim", "run", &file, "--json", "-", "--quiet"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_tables_of_the_docs_are_what_sim_lv3_prints() {
    let folder = Folder::new();
    let out = folder.path("new/lv3");
    let output = xsched(&["sim", "lv3", "--out", &out]);
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8(output.stdout).unwrap();
    let kept = include_str!("../../benches/results/simulated/lv3.md");
    assert_eq!(kept, printed, "run `xsched sim lv3 > benches/results/simulated/lv3.md`");
    assert_eq!(folder.read("new/lv3/lv3.md"), printed);
    let figures: Value = serde_json::from_str(&folder.read("new/lv3/lv3.json")).unwrap();
    assert_eq!(figures["lines"].as_array().unwrap().len(), 12);
    assert_eq!(figures["violations"], 0);
    let output = xsched(&["sim", "lv3", "--requests", "0"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_record_of_gangs_is_what_sim_gangs_writes() {
    let folder = Folder::new();
    let json = folder.path("gangs.json");
    let output = xsched(&["sim", "gangs", "--json", &json]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("urgent requests"), "{}", stdout(&output));
    let kept = include_str!("../../benches/results/simulated-cluster/gangs.json");
    assert_eq!(kept, folder.read("gangs.json"), "run `xsched sim gangs --json` for the record");
}

#[test]
fn days_of_a_cluster_print_their_seeds_and_replay() {
    let folder = Folder::new();
    let published = include_str!("../../sim/clusters/alibaba-2023.toml");
    let file = folder.write("small.toml", &published.replace("nodes = 1000", "nodes = 2"));
    let day = |name: &str, seed: &str| {
        let json = folder.path(name);
        let seeds = ["--seed", seed, "--seeds", "2", "--json", &json];
        let output = xsched(&[&["sim", "cluster", &file][..], &seeds].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (stdout(&output), folder.read(name))
    };
    let (shown, record) = day("one.json", "3");
    assert!(shown.contains("2 nodes of 8 GPUs") && shown.contains("seeds 3 to 4"), "{shown}");
    assert_eq!(record, day("again.json", "3").1);
    assert_ne!(record, day("other.json", "5").1);
    let wrong = folder.write("wrong.toml", &published.replace("gpus = 8\n", "gpus = 9\n"));
    let output = xsched(&["sim", "cluster", &wrong]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("gpus: must be at most 8, is 9"), "{}", stderr(&output));
}

#[test]
fn the_papers_experiments_write_a_page_records_and_figures() {
    let folder = Folder::new();
    let out = folder.path("new/paper");
    let output = xsched(&["sim", "paper", "--small", "--only", "7.3.1,5.3", "--out", &out]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(shown.contains("7.3.1 ") && shown.contains("5.3 ") && !shown.contains("7.4.1 "));
    assert!(shown.contains("0 fail"), "{shown}");
    let html = folder.read("new/paper/index.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<svg"));
    let record: Value = serde_json::from_str(&folder.read("new/paper/7.3.1.json")).unwrap();
    assert_eq!((&record["test_id"], &record["pass"]), (&"7.3.1".into(), &true.into()));
    // 2026-11-21, for instance.
    assert_eq!(record["date"].as_str().map(str::len), Some(10));
    assert!(folder.read("new/paper/7.3.1-cdf.svg").starts_with("<svg"));
    let output = xsched(&["sim", "paper", "--only", "1.1", "--out", &out]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there is no experiment `1.1`"));
}
