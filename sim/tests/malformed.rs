//! Every scenario in `malformed/` is refused with the error that its first line announces:
//! `# expect: LINE: KEY: part of the message`. A mistake in a trace file is announced with the
//! trace's name in front: `# expect: bad.csv:LINE: COLUMN: part of the message`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use xsched_sim::scenario::Scenario;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/malformed")
}

fn scenarios() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the folder of malformed scenarios");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths
}

/// The announced file, line and key with a colon and a space after them, and the announced part
/// of the message.
fn expectation(path: &Path) -> (String, String) {
    // One of the files is not UTF-8.
    let bytes = std::fs::read(path).expect("a scenario");
    let text = String::from_utf8_lossy(&bytes);
    let first = text.lines().next().unwrap_or_default();
    let expect = first.strip_prefix("# expect: ");
    let expect = expect.unwrap_or_else(|| panic!("{}: no expectation", path.display()));
    let mut parts = expect.splitn(3, ": ");
    let (line, key) = (parts.next().expect("a line"), parts.next().expect("a key"));
    let place = match line.split_once(':') {
        Some((trace, line)) => format!("{}:{line}", folder().join(trace).display()),
        None => format!("{}:{line}", path.display()),
    };
    (format!("{place}: {key}: "), parts.next().expect("a message").to_owned())
}

#[test]
fn every_malformed_scenario_is_refused_in_one_line() {
    let paths = scenarios();
    assert!(paths.len() >= 45, "only {} scenarios", paths.len());
    let mut problems = Vec::new();
    for path in &paths {
        let (start, part) = expectation(path);
        let error = match Scenario::load(path) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        let good = error.strip_prefix(&start).is_some_and(|message| message.contains(&part));
        if !good || error.contains('\n') {
            problems.push(format!("got:      {error}\nexpected: {start}{part}\n"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn fields_of_an_error_agree_with_its_text() {
    for path in scenarios() {
        let error = Scenario::load(&path).expect_err("refused");
        let text = format!("{}:{}: {}: {}", error.file, error.line, error.key, error.message);
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn the_malformed_scenarios_cover_all_sections() {
    let expected = ["device[", "process[", "task[", "reference[", "syntax", "file", "version"];
    let keys: BTreeSet<String> =
        scenarios().iter().map(|path| Scenario::load(path).expect_err("refused").key).collect();
    for section in expected {
        assert!(keys.iter().any(|key| key.starts_with(section)), "nothing about {section}");
    }
}
