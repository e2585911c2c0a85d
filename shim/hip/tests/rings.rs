//! Programs whose streams share hardware rings, on the emulated runtime and driver: gates hold what
//! is held, and nothing else. As in AMD's runtime, streams of a priority share four rings.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;
use tempfile::TempDir;
use xsched_kfd_emulated::Config;
use xsched_kfd_emulated::system::{Options, run};

// It is built with these tests.
use xsched_hip_emulated as _;

use common::{beside, compile, names, with_interposer};

fn built() -> &'static TempDir {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        names(&folder.path().join("names"));
        compile("rings.c", &folder.path().join("rings"), &["-ldl"]);
        folder
    })
}

/// Emulated devices keep processors busy, and one that does not answer for too long is given up.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the program in this mode, with rings that are queues of the driver or not, and answers what
/// it finds wrong.
fn wrong(mode: &str, by_driver: bool) -> String {
    wrong_with(mode, by_driver, &[("XSCHED_AUTO_XQUEUE_LEVEL", "2")])
}

/// Messages where the machine is so busy that a call takes long, and all is let go meanwhile.
const BUSY: [&str; 2] = [
    "a launch did not return while queues were suspended",
    "calls into the driver did not return while queues were held",
];
/// Runs of which one has to be without that.
const TIMES_MAX: usize = 8;

/// Runs a mode with these variables, until a run in which no call took long.
fn wrong_with(mode: &str, by_driver: bool, variables: &[(&str, &str)]) -> String {
    let runs = (0..TIMES_MAX).map(|_| run_once(mode, by_driver, variables));
    let mut judged = runs.filter(|wrong| !BUSY.iter().any(|busy| wrong.contains(busy)));
    judged.next().unwrap_or_else(|| panic!("{mode}: calls took long in {TIMES_MAX} runs"))
}

fn run_once(mode: &str, by_driver: bool, variables: &[(&str, &str)]) -> String {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = built().path();
    let mut command = with_interposer(folder.join("rings"), &folder.join("names"));
    command.arg(mode).env("XSCHED_AUTO_XQUEUE", "ON").env("XSCHED_AUTO_XQUEUE_UNIT", "streams");
    command.env("XSCHED_AUTO_XQUEUE_THRESHOLD", "128").env("XSCHED_EMULATED_UNITS", "8");
    command.env("XSCHED_HIP_RUNTIME", beside("libxsched_hip_emulated.so"));
    command.env("PREEMPT", beside("libpreempt.so"));
    let file = |end| folder.join(format!("{mode}-{by_driver}.{end}"));
    let create = |path: &Path| fs::File::create(path).expect("a file");
    command.stdout(create(&file("out"))).stderr(create(&file("err")));
    command.env("XSCHED_SHIM_COUNTS", counts_file(mode, by_driver));
    command.envs(variables.iter().copied());
    if by_driver {
        command.env("XSCHED_EMULATED_KFD", "1");
    }
    let options = Options { config: Config::mi308x(), ..Options::default() };
    let report = run(&options, &mut command).expect("the emulated driver");
    let [out, err] = ["out", "err"].map(|end| fs::read_to_string(file(end)).expect("text"));
    assert!(report.status.success(), "{:?}: {out}{err}", report.status);
    let wrong = out.strip_suffix(&format!("{mode}\n"));
    wrong.unwrap_or_else(|| panic!("it did not end: {out}{err}")).to_owned() + err.trim_end()
}

fn counts_file(mode: &str, by_driver: bool) -> PathBuf {
    built().path().join(format!("{mode}-{by_driver}.json"))
}

/// The streams of the program that ran last in this mode: how many are at which level, and why at
/// no higher one.
fn levels(mode: &str, by_driver: bool) -> Vec<(u64, u64, String)> {
    let text = fs::read_to_string(counts_file(mode, by_driver)).expect("counts");
    let counts: Value = serde_json::from_str(&text).expect("JSON");
    let level = |row: &Value| {
        let number = |key: &str| row[key].as_u64().expect("a number");
        (number("streams"), number("level"), row["why"].as_str().expect("a text").to_owned())
    };
    counts["streams"].as_array().expect("a list").iter().map(level).collect()
}

/// Limit of streams that share a ring.
const IN_RING: &str = "its gates are closed while all streams in its hardware queue are held";

#[test]
fn a_ring_is_held_while_all_its_streams_are() {
    assert_eq!(wrong("shared", true), "");
    let why = format!("none was asked for; {IN_RING}");
    assert_eq!(levels("shared", true), [(6, 2, why)]);
}

#[test]
fn a_stream_that_comes_into_a_held_ring_goes_on() {
    assert_eq!(wrong("alone", true), "");
}

#[test]
fn blocking_streams_are_held_but_not_for_the_legacy_default_stream() {
    assert_eq!(wrong("blocking", true), "");
    let legacy = "it is the legacy default stream, which all blocking streams wait for".to_owned();
    let shared = format!("none was asked for; {IN_RING}");
    assert_eq!(levels("blocking", true), [(1, 1, legacy), (2, 2, shared)]);
}

#[test]
fn what_another_stream_waits_for_goes_on() {
    assert_eq!(wrong("awaited", true), "");
}

/// Further limit of those that had launches into several rings.
const SPREAD: &str = "or another launch into several hardware queues";

#[test]
fn branches_of_graphs_wait_for_nothing_that_is_held_and_hold_nothing() {
    assert_eq!(wrong("graphs", true), "");
    let levels = levels("graphs", true);
    let spread = levels.iter().filter(|(_, level, why)| *level == 2 && why.contains(SPREAD));
    let counts = |rows: &[(u64, u64, String)]| rows.iter().map(|row| row.0).sum::<u64>();
    assert_eq!(counts(&levels), 4, "{levels:?}");
    assert_eq!(counts(&spread.cloned().collect::<Vec<_>>()), 2, "{levels:?}");
}

#[test]
fn cooperative_kernels_wait_for_none_that_is_held() {
    assert_eq!(wrong("cooperative", true), "");
}

/// Runs the program in this mode at level 3, by each mechanism, and answers the levels.
fn interrupted(mode: &str) -> Vec<(u64, u64, String)> {
    for mechanism in ["update-queue", "debug-trap"] {
        let variables = [
            ("XSCHED_AUTO_XQUEUE_LEVEL", "3"),
            ("XSCHED_KFD_MECHANISM", mechanism),
            ("XSCHED_EMULATED_UNITS", "1"),
        ];
        assert_eq!(wrong_with(mode, true, &variables), "", "{mechanism}");
    }
    levels(mode, true)
}

#[test]
fn kernels_are_interrupted_in_streams_with_rings_of_their_own() {
    let (own, shared) = ("there is none".to_owned(), format!("there is none; {IN_RING}"));
    // Four of those that were used came when 16 had rings of their own.
    assert_eq!(interrupted("interrupted"), [(10, 3, own), (4, 3, shared)]);
}

#[test]
fn kernels_are_interrupted_in_rings_that_are_held_as_a_whole() {
    assert_eq!(interrupted("together"), [(6, 3, format!("there is none; {IN_RING}"))]);
}

#[test]
fn without_the_driver_no_gate_is_closed() {
    // What stands still with the driver goes on, and nothing else is wrong.
    let wrong = wrong("shared", false);
    let lines: Vec<_> = wrong.lines().collect();
    assert!(levels("shared", false)[0].2.contains("which hardware queue it is in is not known"));
    assert_eq!(lines.len(), 2, "{wrong}");
    assert!(lines.iter().all(|line| line.contains("stands(at[0])")), "{wrong}");
}
