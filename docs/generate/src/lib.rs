//! The generated parts of the book.
//!
//! A page says `<!-- xsched-book NAME -->` where a part begins and `<!-- end -->` where it ends.
//! What stands between them comes from `PARTS`: the reference from the code, tables from the
//! records in `benches/results`.

mod capi_rows;
mod cluster;
mod commands;
mod environment;
mod h200;
mod interfaces;
mod lab;
mod metrics;
mod places;
mod records;
mod runtime;
mod simulated;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use walkdir::WalkDir;

/// A generated part: its name in the pages, and what makes it.
type Part = (&'static str, fn() -> Result<String>);

const START: &str = "<!-- xsched-book ";
const END: &str = "<!-- end -->";

/// Every generated part.
const PARTS: [Part; 26] = [
    ("commands", commands::reference),
    ("policies", policies),
    ("scenario", scenario),
    ("environment", environment::reference),
    ("daemon-config", daemon_config),
    ("metrics", metrics::reference),
    ("daemon-metrics", metrics::daemon),
    ("c-program", interfaces::c_program),
    ("h200-fixed-priority", h200::fixed_priority),
    ("h200-processes", h200::processes),
    ("h200-preempt", h200::preempt),
    ("h200-overhead", h200::overhead),
    ("h200-partition", h200::partition),
    ("h200-graphs", h200::graphs),
    ("h200-capi-rows", capi_rows::table),
    ("lab-goals", lab::goals),
    ("places", places::places),
    ("runtime-path", runtime::path),
    ("host-preempt", h200::host_preempt),
    ("predictions", simulated::predictions),
    ("prediction-errors", simulated::prediction_errors),
    ("bert-fit", simulated::bert_fit),
    ("lv3", simulated::lv3),
    ("paper", simulated::paper),
    ("cluster", cluster::days),
    ("gangs", cluster::gangs),
];

/// The daemon's example of a configuration, which its tests read.
fn daemon_config() -> Result<String> {
    Ok(format!("```toml\n{}```", read(&root().join("daemon/xschedd.example.toml"))?))
}

/// The example of a scenario, which tests of the simulator read from the page.
fn scenario() -> Result<String> {
    Ok(format!("```toml\n{}```", read(&root().join("sim/tests/documented.toml"))?))
}

/// The table in the documentation of `xsched-policies`.
fn policies() -> Result<String> {
    read(&root().join("policies/src/table.md"))
}

/// Writes every generated part, or with `check` only compares; returns the parts that were stale.
///
/// # Errors
/// If a page or a record cannot be read, or a page names a part that does not exist, or a part is
/// on no page.
pub fn run(check: bool) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    let mut used = Vec::new();
    for entry in WalkDir::new(root().join("docs/src")).sort_by_file_name() {
        let entry = entry.context("cannot list docs/src")?;
        if entry.path().extension().is_some_and(|extension| extension == "md") {
            page(entry.path(), check, &mut used, &mut stale)?;
        }
    }
    for (name, _) in PARTS {
        ensure!(used.iter().any(|known| known == name), "no page has the part `{name}`");
    }
    Ok(stale)
}

fn page(path: &Path, check: bool, used: &mut Vec<String>, stale: &mut Vec<String>) -> Result<()> {
    let text = read(path)?;
    let new = fill(&text, used).with_context(|| format!("{}", path.display()))?;
    if new != text {
        stale.push(path.strip_prefix(root()).unwrap_or(path).display().to_string());
        if !check {
            fs::write(path, new).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The page with every part made anew; the names of the parts go to `used`.
fn fill(text: &str, used: &mut Vec<String>) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(START) {
        let head_end = rest[at..].find(" -->\n").context("a part has no name")? + at;
        let name = &rest[at + START.len()..head_end];
        let body_at = head_end + " -->\n".len();
        let length = rest[body_at..].find(END).with_context(|| format!("`{name}` has no end"))?;
        let Some((_, make)) = PARTS.iter().find(|(known, _)| *known == name) else {
            bail!("there is no part `{name}`");
        };
        used.push(name.to_owned());
        out.push_str(&rest[..body_at]);
        out.push_str(make().with_context(|| format!("part `{name}`"))?.trim_end());
        out.push('\n');
        rest = &rest[body_at + length..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().collect()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The README's code, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The code of the chapter on the runtime, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../src/guides/rust.md")]
struct Runtime;

/// The code of the chapter on GPUs, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../src/guides/gpu.md")]
struct Gpu;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_unfinished_parts_are_refused() {
        let mut used = Vec::new();
        assert!(fill("<!-- xsched-book gone -->\n<!-- end -->\n", &mut used).is_err());
        assert!(fill("<!-- xsched-book metrics -->\n", &mut used).is_err());
        assert_eq!(fill("plain\n", &mut used).expect("no parts"), "plain\n");
        assert!(used.is_empty());
    }

    #[test]
    fn a_stale_part_is_made_anew() {
        let mut used = Vec::new();
        let stale = "a\n<!-- xsched-book metrics -->\nout of date\n<!-- end -->\nb\n";
        let new = fill(stale, &mut used).expect("a part");
        assert!(!new.contains("out of date"), "{new}");
        assert!(new.starts_with("a\n") && new.ends_with("<!-- end -->\nb\n"), "{new}");
        assert_eq!(fill(&new, &mut used).expect("a part"), new);
    }

    /// The names of all functions of the workspace.
    fn functions() -> std::collections::BTreeSet<String> {
        let skip = [".git", "target", "node_modules"];
        let walk = WalkDir::new(root()).into_iter().filter_entry(move |entry| {
            !skip.iter().any(|name| entry.file_name().to_string_lossy() == *name)
        });
        let mut found = std::collections::BTreeSet::new();
        for entry in walk.filter_map(Result::ok) {
            if entry.path().extension().is_some_and(|extension| extension == "rs") {
                let text = read(entry.path()).expect("a source file");
                let names = text.split("fn ").skip(1);
                let end = |name: &str| name.find(|c: char| !c.is_alphanumeric() && c != '_');
                found.extend(names.map(|name| name[..end(name).unwrap_or(0)].to_owned()));
            }
        }
        found
    }

    #[test]
    fn the_tests_that_the_list_of_defects_names_exist() {
        let page = read(&root().join("sim/tests/upstream/README.md")).expect("a page");
        let page = page.lines().filter(|line| !line.starts_with("```")).collect::<String>();
        let functions = functions();
        let mut missing = Vec::new();
        for code in page.split('`').skip(1).step_by(2) {
            let test = code.rsplit_once("::").map(|(_, name)| name).filter(|name| *name != "*");
            if let Some(name) = test.filter(|name| !functions.contains(*name)) {
                missing.push(name);
            }
        }
        assert_eq!(missing, [""; 0], "it names tests that do not exist");
    }

    const BACKENDS: &str = "docs/src/guides/backends.md";
    /// Hops from the README to what a reader of the code looks for: a page, and a link on it.
    const HOPS: [(&str, &str); 11] = [
        ("README.md", "docs/src/concepts/command.md"),
        ("docs/src/concepts/command.md", "../../../core/src/queue/launch.rs"),
        ("README.md", "docs/src/guides/policies.md"),
        ("docs/src/guides/policies.md", "../../../core/src/policy.rs"),
        ("docs/src/guides/policies.md", "../../../CONTRIBUTING.md#add-a-policy"),
        ("CONTRIBUTING.md", "policies/src/any.rs"),
        ("README.md", "docs/src/guides/backends.md"),
        (BACKENDS, "../../../testkit/conformance/tests/minimal_backend/main.rs"),
        (BACKENDS, "../../../CONTRIBUTING.md#add-a-backend"),
        ("README.md", "docs/src/guides/gpu.md"),
        ("docs/src/guides/gpu.md", "../../../hal-stream/src/gate_closure.rs"),
    ];

    #[test]
    fn a_reader_gets_from_the_readme_to_a_rule_a_policy_a_backend_and_a_gate() {
        for (page, link) in HOPS {
            let text = read(&root().join(page)).expect("a page");
            assert!(text.contains(&format!("]({link})")), "{page} does not link to {link}");
        }
        let rule = read(&root().join("core/src/queue/launch.rs")).expect("a source file");
        assert!(rule.contains("fn can_launch"), "the launch rule is elsewhere");
    }
}
