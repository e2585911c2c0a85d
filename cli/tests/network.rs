//! A program of the shape of PyTorch's, unmodified, under `xsched run` on AMD's own runtime, on a
//! GPU for gfx942 or an emulated one: `cargo xtask rocm` says which, and builds what this needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use serde_json::{Value, json};
use tempfile::TempDir;
use xsched_node::{ClientStatus, Status};

/// Names HIP's own runtime.
const REAL: &str = "XSCHED_REAL_HIP";
/// Options of the linker for programs that are to run on it.
const LINK: &str = "XSCHED_REAL_LINK";
/// Steps of training of a program that is compared with another.
const STEPS: &str = "4";
/// Launches that it captures.
const CAPTURED: u64 = 3;
/// For how long a process may take to do something.
const PATIENCE: Duration = Duration::from_secs(60);

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn cc() -> Command {
    Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn compile(command: &mut Command) {
    let status = command.status().expect("a C compiler; install one, or set CC");
    assert!(status.success(), "{command:?}");
}

/// The program, linked with the runtime.
struct Network {
    folder: TempDir,
}

impl Network {
    fn new() -> Self {
        let network = Self { folder: tempfile::tempdir().expect("a folder") };
        let runtime = env::var_os(REAL).expect("the runtime's path");
        let mut command = cc();
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-o"]);
        command.arg(network.path("network")).arg(source("network.c")).arg(runtime);
        command.args(["-Wl,--allow-shlib-undefined", "-pthread", "-lm"]);
        command.args(env::var(LINK).unwrap_or_default().split_whitespace());
        compile(&mut command);
        network
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that is started by these words, without what would schedule it otherwise.
    fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut words = words.into_iter();
        let program = words.next().map_or_else(|| self.path("network"), PathBuf::from);
        let mut command = Command::new(program);
        command.args(words).env_remove("XSCHED_HIP_LIB").stdin(Stdio::null());
        // Where the daemon is, if there is one.
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        command
    }

    fn plain(&self) -> Command {
        let mut command = self.command([]);
        command.arg(source("network.gfx942.hsaco"));
        command
    }

    /// Under `xsched run` at this level, with these options.
    fn run(&self, level: &str, options: &[&str]) -> Command {
        let mut command = self.command([env!("CARGO_BIN_EXE_xsched"), "run", "--level", level]);
        command.args(options).arg("--").arg(self.path("network"));
        command.arg(source("network.gfx942.hsaco"));
        command
    }

    /// Output that the program computes by itself.
    fn expected(&self) -> String {
        let output = self.plain().arg(STEPS).output().expect("it runs");
        let said = text(&output.stdout);
        assert!(output.status.success() && said.contains("\nweights "), "{output:?}");
        said
    }
}

fn check(command: &mut Command, expected: &str) -> Output {
    let output = command.output().expect("it runs");
    assert_eq!(text(&output.stdout), expected, "{command:?}: {}", text(&output.stderr));
    assert!(output.status.success(), "{output:?}");
    output
}

/// Launches that went through queues: all but those that are captured.
fn check_counts(file: &Path) {
    let counts = fs::read_to_string(file).expect("counts");
    let counts: Value = serde_json::from_str(&counts).expect("JSON");
    let sum = |of: &str| {
        let all = counts[of].as_object().expect("a table").values();
        all.filter_map(Value::as_u64).sum::<u64>()
    };
    assert_eq!(counts["past"], json!({"while a stream was being captured": CAPTURED}), "{counts}");
    assert_eq!(sum("launches"), sum("scheduled") + CAPTURED, "{counts}");
    let scheduled = counts["scheduled"].as_object().expect("a table");
    for name in ["hipExtModuleLaunchKernel", "hipGraphLaunch", "hipMallocAsync"] {
        assert!(scheduled.keys().any(|key| key.contains(name)), "{name}: {counts}");
    }
}

/// Checks what the log and the counts say of the streams: the default one is at level 1, the six
/// others at the level that is asked for, once something tells them apart.
fn check_levels((level, are_apart): (&str, bool), said: &str, counts: &Path) {
    let counts = fs::read_to_string(counts).expect("counts");
    let counts: Value = serde_json::from_str(&counts).expect("JSON");
    let at = |number: u64| -> u64 {
        let rows = counts["streams"].as_array().expect("a list").iter();
        let rows = rows.filter(|row| row["level"] == number);
        rows.filter_map(|row| row["streams"].as_u64()).sum()
    };
    // One is like the default stream, and so gets its XQueue later.
    let later = counts["later"].as_u64().unwrap_or_default();
    assert_eq!(later, u64::from(!are_apart), "{counts:#}");
    let expected = match level {
        "1" => [7 - later, 0, 0],
        "2" => [1, 6 - later, 0],
        _ => [1, 0, 6 - later],
    };
    assert_eq!([at(1), at(2), at(3)], expected, "{counts:#}");
    let count = |part| said.matches(part).count();
    match level {
        "1" => assert_eq!(count("the stream's queue is at"), 0, "{said}"),
        "2" => {
            assert_eq!(
                count("the stream's queue is at Lv1: it is the legacy default"),
                1,
                "{said}"
            );
            assert_eq!(count("the stream's queue is at Lv2") as u64, 6 - later, "{said}");
        }
        _ => {
            assert_eq!(count("an idle queue was tried"), 1, "{said}");
            assert_eq!(count("a queue has Lv1 and not Lv3"), 1, "{said}");
            assert_eq!(count("a queue has Lv2 and not Lv3"), 0, "{said}");
        }
    }
}

#[test]
#[ignore = "needs AMD's runtime: cargo xtask rocm"]
fn it_computes_the_same_at_each_level() {
    let network = Network::new();
    let expected = network.expected();
    for (level, streams) in [("1", false), ("2", false), ("3", false), ("2", true), ("3", true)] {
        let counts = network.path("counts.json");
        let mut command = network.run(level, if streams { &["--streams"] } else { &[] });
        command.arg(STEPS).env("XSCHED_SHIM_COUNTS", &counts).env("XLOG_LEVEL", "INFO");
        let output = check(&mut command, &expected);
        check_counts(&counts);
        check_levels((level, streams), &text(&output.stderr), &counts);
    }
}

/// A process, ended at the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

impl Network {
    /// `xschedd --user`, once it answers.
    fn daemon(&self) -> Running {
        let program = Path::new(env!("CARGO_BIN_EXE_xsched")).with_file_name("xschedd");
        let mut command = self.command([program.to_str().expect("text"), "--user"]);
        // It has no GPU.
        let daemon = command.env_remove("LD_PRELOAD").spawn().expect("cargo builds it");
        let daemon = Running(daemon);
        until("no daemon", || self.clients().is_some());
        daemon
    }

    /// The processes that the daemon knows.
    fn clients(&self) -> Option<Vec<ClientStatus>> {
        let mut command = self.command([env!("CARGO_BIN_EXE_xsched"), "ps", "--json"]);
        let output = command.env_remove("LD_PRELOAD").output().expect("it runs");
        let status: Option<Status> = serde_json::from_slice(&output.stdout).ok();
        Some(status?.clients)
    }
}

#[test]
#[ignore = "needs AMD's runtime: cargo xtask rocm"]
fn it_computes_the_same_beside_another_process() {
    let network = Network::new();
    let expected = network.expected();
    let _daemon = network.daemon();
    for level in ["1", "2", "3"] {
        let steps = network.path("steps");
        fs::write(&steps, "0\n").expect("a file");
        let count = || fs::read_to_string(&steps).ok()?.trim().parse::<u32>().ok();
        let goes_on = || {
            let before = count();
            until("it does not go on", || count() > before);
        };
        let mut batch = network.run(level, &["--class", "batch"]);
        batch.arg("0").arg(&steps).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut batch = Running(batch.spawn().expect("it runs"));
        until("it does not begin", || count() > Some(0));
        let of_batch = || {
            let clients = network.clients().unwrap_or_default();
            clients.into_iter().find(|client| client.priority < 0).expect("it is connected")
        };
        let holds = of_batch().holds;
        let mut urgent = network.run(level, &["--class", "interactive"]);
        check(urgent.arg(STEPS), &expected);
        let client = of_batch();
        assert!(client.holds > holds, "{level}: {client:?}");
        goes_on();
        fs::remove_file(&steps).expect("the file");
        until("it does not end", || batch.0.try_wait().expect("its state").is_some());
        let ended = batch.0.try_wait().expect("its state").expect("it has ended");
        assert!(ended.success(), "{ended}");
    }
}
