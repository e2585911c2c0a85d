//! Kept records: each run says what it is in few bytes, and no file is kept twice.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Finding;
use super::tree::{Entry, RECORDS, Tree};

const FILE_BYTES_MAX: usize = 200_000;
const SUMMARY_BYTES_MAX: usize = 50_000;
const ALL_BYTES_MAX: usize = 3_000_000;
/// Folders of full rows, which only the newest run of a GPU has.
const FULL: [&str; 2] = ["rows", "predictions"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files: Vec<(&str, &Entry)> = tree.below(RECORDS).collect();
    let mut findings = sizes(&files);
    findings.extend(equal(&files));
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, _) in &files {
        match path.split_once('/') {
            Some((folder, rest)) => folders.entry(folder).or_default().push(rest),
            None => findings.push(finding(path, "put it into the folder of its run")),
        }
    }
    for (folder, names) in &folders {
        findings.extend(incomplete(tree, folder));
        findings.extend(made_by_command(folder, names));
    }
    findings.extend(old_rows(&folders));
    findings
}

fn finding(path: &str, message: impl Into<String>) -> Finding {
    Finding::new(&format!("{RECORDS}/{path}"), 1, "record", message)
}

fn sizes(files: &[(&str, &Entry)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, entry) in files {
        let is_summary = path.ends_with("/summary.json");
        let max = if is_summary { SUMMARY_BYTES_MAX } else { FILE_BYTES_MAX };
        let bytes = entry.record.len();
        if bytes > max {
            findings.push(finding(path, format!("{bytes} bytes; {max} is the limit")));
        }
    }
    let all: usize = files.iter().map(|(_, entry)| entry.record.len()).sum();
    if all > ALL_BYTES_MAX {
        let message = format!("{all} bytes of records; {ALL_BYTES_MAX} is the limit");
        findings.push(finding("", message));
    }
    findings
}

/// Files with the content of an earlier one.
fn equal(files: &[(&str, &Entry)]) -> Vec<Finding> {
    let mut first: BTreeMap<&[u8], &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, entry) in files {
        match first.get(&entry.record[..]) {
            Some(other) => findings.push(finding(path, format!("the same bytes as {other}"))),
            None => drop(first.insert(&entry.record, path)),
        }
    }
    findings
}

/// Required facts that a run does not state.
fn incomplete(tree: &Tree, folder: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = format!("{folder}/README.md");
    if !tree.exists(&format!("{RECORDS}/{path}")) {
        findings.push(finding(&path, "missing; say what ran on what, by which command"));
    }
    let path = format!("{folder}/summary.json");
    let Some(summary) = tree.files.get(&format!("{RECORDS}/{path}")) else {
        findings.push(finding(&path, "missing; CONTRIBUTING.md has the format"));
        return findings;
    };
    let summary: Value = serde_json::from_slice(&summary.record).unwrap_or_default();
    for key in ["date", "machine", "commit"] {
        let text = summary.get(key).and_then(Value::as_str);
        if text.is_none_or(str::is_empty) {
            findings.push(finding(&path, format!("the text `{key}` is missing")));
        }
    }
    findings
}

/// Reports, which a command makes of the rows.
fn made_by_command(folder: &str, names: &[&str]) -> Vec<Finding> {
    let file = |name: &str| name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let reports = names.iter().filter(|name| file(name).starts_with("report"));
    reports
        .map(|name| finding(&format!("{folder}/{name}"), "a report is made, not committed"))
        .collect()
}

/// Full rows of a run that is not the newest of its GPU, or that are not compressed.
fn old_rows(folders: &BTreeMap<&str, Vec<&str>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut newest: BTreeMap<&str, &str> = BTreeMap::new();
    let is_full = |name: &&&str| FULL.contains(&name.split('/').next().unwrap_or_default());
    // Folders of a GPU are in the order of their dates, as these stand behind its name.
    for (folder, names) in folders {
        let full: Vec<_> = names.iter().filter(is_full).collect();
        if full.is_empty() {
            continue;
        }
        for name in full.iter().filter(|name| !name.ends_with(".gz")) {
            findings.push(finding(&format!("{folder}/{name}"), "compress it with gzip"));
        }
        let gpu = folder.split('-').next().unwrap_or(folder);
        if let Some(old) = newest.insert(gpu, folder) {
            let message = format!("full rows; {folder} has newer ones, so keep the summary alone");
            findings.push(finding(old, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = r#"{"date": "2026-11-29", "machine": "H200", "commit": "97e27741"}"#;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("{RECORDS}/{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let findings = check(&Tree::of(&files));
        findings.iter().map(|finding| format!("{}: {}", finding.path, finding.message)).collect()
    }

    fn run(more: &[(&str, &str)]) -> Vec<String> {
        found(&[&[("h200-1/README.md", "a"), ("h200-1/summary.json", SUMMARY)], more].concat())
    }

    #[test]
    fn a_run_that_says_what_it_is_is_fine() {
        assert_eq!(run(&[("h200-1/rows/5.4.json.gz", "x")]), [""; 0]);
    }

    #[test]
    fn what_a_run_must_say_is_found_missing() {
        let messages = found(&[("h200-1/summary.json", r#"{"date": "", "machine": "H200"}"#)]);
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert!(messages[0].contains("README.md: missing"), "{messages:?}");
        assert!(messages[1].contains("`date`") && messages[2].contains("`commit`"));
        assert!(found(&[("h200-1/README.md", "a")])[0].contains("summary.json: missing"));
        assert!(found(&[("loose.json", "{}")])[0].contains("folder of its run"));
    }

    #[test]
    fn large_equal_and_generated_files_are_found() {
        let large = "a".repeat(FILE_BYTES_MAX + 1);
        assert!(run(&[("h200-1/a.json", &large)])[0].contains("200000 is the limit"));
        let summary = format!("{SUMMARY}{}", " ".repeat(SUMMARY_BYTES_MAX));
        let messages = found(&[("h200-1/README.md", "a"), ("h200-1/summary.json", &summary)]);
        assert!(messages[0].contains("50000 is the limit"), "{messages:?}");
        assert!(run(&[("h200-1/a.json", "a")])[0].contains("the same bytes as h200-1/README.md"));
        assert!(run(&[("h200-1/REPORT.md", "b")])[0].contains("is made, not committed"));
    }

    #[test]
    fn too_many_bytes_in_all_are_found() {
        let texts: Vec<_> = (0..16).map(|n| format!("{n:02}{}", "a".repeat(199_998))).collect();
        let names: Vec<_> = (0..16).map(|n| format!("h200-1/{n}.json")).collect();
        let files: Vec<_> =
            names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(run(&files[..14]), [""; 0]);
        assert!(run(&files)[0].contains("3000000 is the limit"));
    }

    #[test]
    fn full_rows_of_an_older_run_or_uncompressed_are_found() {
        assert!(run(&[("h200-1/rows/5.4.json", "x")])[0].contains("gzip"));
        let other = r#"{"date": "2026-11-30", "machine": "H200", "commit": "97e27742"}"#;
        let newer = [
            ("h200-1/predictions/5.4.json.gz", "x"),
            ("h200-2/README.md", "b"),
            ("h200-2/summary.json", other),
            ("h200-2/rows/5.4.json.gz", "y"),
        ];
        let messages = run(&newer);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with("benches/results/h200-1:"), "{messages:?}");
    }
}
