//! `xsched-lab` on the processor: documents, what a second call does, and programs that do not do
//! what they are told. How fast anything was is not asserted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn lab(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
    command.args(args).args(["--hal", "host", "--quick", "--report"]).arg(folder);
    command.stdin(Stdio::null()).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn document(folder: &Path, name: &str) -> Value {
    let text = fs::read_to_string(folder.join(name));
    serde_json::from_str(&text.unwrap_or_else(|error| panic!("{name}: {error}"))).expect("JSON")
}

fn cell<'a>(row: &'a Value, name: &str) -> &'a Value {
    let cells = row["cells"].as_array().expect("a list");
    cells.iter().find(|cell| cell["name"] == name).unwrap_or_else(|| panic!("no {name}: {row}"))
}

#[test]
fn a_row_leaves_its_documents_and_is_not_run_again() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let folder = folder.path();
    let output = lab(&["run", "7.2.1"], folder);
    let printed = text(&output.stdout);
    assert_eq!(text(&output.stderr), "", "{printed}");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{printed}");

    let row = document(folder, "rows/7.2.1.json");
    assert_eq!(
        (&row["status"], &row["hal"], &row["quick"]),
        (&"measured".into(), &"host".into(), &true.into())
    );
    let xsched = cell(&row, "eager, processes, xsched");
    assert_eq!(xsched["status"], "measured", "{xsched}");
    for role in ["foreground", "background"] {
        let roles = xsched["roles"].as_array().expect("a list");
        let role = roles.iter().find(|one| one["name"] == role).expect("the role");
        for phase in ["alone", "beside"] {
            assert!(role[phase]["latency"]["samples"].as_u64() > Some(0), "{phase}: {role}");
            assert!(role[phase]["rate_per_s"].as_f64() > Some(0.0), "{phase}: {role}");
        }
    }
    let mps = cell(&row, "eager, processes, mps");
    assert_eq!((&mps["status"], &mps["reason"]), (&"not_run".into(), &"needs a GPU".into()));
    let verdicts = row["verdicts"].as_array().expect("a list");
    let is_judged = |verdict: &Value| verdict["interval"].is_array() || !verdict["open"].is_null();
    assert!(!verdicts.is_empty() && verdicts.iter().all(is_judged), "{verdicts:?}");
    assert!(xsched["counts"]["scheduled"].as_u64() > Some(0), "{xsched}");
    assert!(xsched["counts"]["holds"].as_u64() > Some(0), "{xsched}");
    for part in ["build", "machine"] {
        assert!(row["identity"][part].as_str().is_some_and(|text| !text.is_empty()), "{part}");
    }
    let figures = row["figures"].as_array().expect("a list");
    assert!(figures.iter().any(|figure| figure["quantity"] == "p50_over_alone"), "{figures:?}");

    assert_eq!(document(folder, "predictions/7.2.1.json")["id"], "7.2.1");
    let plan = document(folder, "test_results/7.2.1_fixed_priority.json");
    assert_eq!(plan["test_id"], "7.2.1");
    assert!(plan["results"]["background_throughput_xsched"].as_f64() > Some(0.0), "{plan}");

    let again = lab(&["all", "--only", "7.2.1", "--resume"], folder);
    assert!(text(&again.stdout).contains("done before"), "{}", text(&again.stdout));
    assert_eq!(document(folder, "rows/7.2.1.json"), row);
}

#[test]
fn cells_that_were_left_out_are_measured_later() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let folder = folder.path();
    let some = lab(&["run", "7.2.1", "--cells", "graph"], folder);
    assert!(matches!(some.status.code(), Some(0 | 1)), "{}", text(&some.stderr));
    let [eager, graph] = ["eager", "graph"].map(|mode| format!("{mode}, processes, xsched"));
    let row = document(folder, "rows/7.2.1.json");
    assert_eq!(cell(&row, &graph)["status"], "measured", "{row}");
    let left = cell(&row, &eager);
    let why = left["reason"].as_str().unwrap_or_default();
    assert!(left["status"] == "not_run" && why.contains("--cells graph"), "{left}");

    let rest = lab(&["all", "--only", "7.2.1", "--resume"], folder);
    assert!(matches!(rest.status.code(), Some(0 | 1)), "{}", text(&rest.stderr));
    let all = document(folder, "rows/7.2.1.json");
    assert_eq!(cell(&all, &eager)["status"], "measured", "{all}");
    assert_eq!(cell(&all, &graph), cell(&row, &graph));

    let none = lab(&["run", "7.2.1", "--cells", "colour"], folder);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("`colour`"), "{}", text(&none.stderr));
}

#[test]
fn rows_are_listed_with_their_goals_and_unknown_ones_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched-lab"));
    let output = command.args(["list", "--json"]).output().expect("the program runs");
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = list.as_array().expect("a list");
    assert_eq!(list.len(), 18);
    let fixed = list.iter().find(|row| row["id"] == "7.2.1").expect("the row");
    assert!(fixed["ways"].as_array().is_some_and(|ways| ways.contains(&"mps".into())), "{fixed}");
    assert!(fixed["goals"][0].as_str().is_some_and(|goal| goal.contains("≤ 1.3")), "{fixed}");

    let folder = tempfile::tempdir().expect("a folder for the test");
    let place = folder.path().join("none");
    let unknown = lab(&["run", "9.9"], &place);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("there is no experiment `9.9`"));
    assert!(!place.exists(), "nothing is written");
}

/// A program that stands for those of the lab.
fn fake(folder: &Path, script: &str) -> PathBuf {
    let place = folder.join("fake");
    fs::write(&place, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    place
}

/// How the cells of a row ended whose programs are this one, and the exit code.
fn with(script: &str) -> (Value, Option<i32>) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let program = fake(folder.path(), script);
    let place = folder.path().join("report");
    let program = program.to_str().expect("UTF-8");
    let output = lab(&["run", "5.3", "--program", program], &place);
    (document(&place, "rows/5.3.json"), output.status.code())
}

#[test]
fn a_program_that_lacks_something_is_not_run_and_one_that_fails_is_a_finding() {
    let (row, code) = with(r#"echo '{"missing":"Transformers is not installed"}'"#);
    let lacks = (&"not_run".into(), &"Transformers is not installed".into());
    assert_eq!((&row["status"], &row["reason"]), lacks, "{row}");
    assert_eq!(code, Some(0));

    let (row, code) = with("echo out of memory >&2; exit 3");
    let reason = row["reason"].as_str().expect("a text");
    assert!(row["status"] == "failed" && reason.contains("out of memory"), "{row}");
    assert_eq!(code, Some(1));

    let (row, code) = with(r#"echo '{"ready":true,"roles":{}}'; cat > /dev/null"#);
    let reason = row["reason"].as_str().expect("a text");
    assert!(reason.contains("role first is missing"), "{row}");
    assert_eq!(code, Some(1));

    let (row, code) = with("echo '{'");
    assert!(row["status"] == "failed", "{row}");
    assert_eq!(code, Some(1));
}
