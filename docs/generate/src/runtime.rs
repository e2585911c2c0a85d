//! The figures of the bench of the runtime's hot paths, from what it printed.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::records::{record, source};
use crate::table::Table;

const SUMMARY: &str = "host-2026-11-21/summary.json";

/// A line of the bench's output.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    work: &'a str,
    median: f64,
    goal: Option<f64>,
}

/// A line with a median, and a goal where the work has one.
fn line(text: &str) -> Option<Line<'_>> {
    let (rest, last) = text.trim_end().rsplit_once("  ")?;
    let last = last.trim().parse().ok()?;
    let (work, before) = rest.trim_end().rsplit_once("  ").unwrap_or((rest, ""));
    let (work, median, goal) = match before.trim().parse() {
        Ok(median) => (work, median, Some(last)),
        Err(_) => (rest, last, None),
    };
    let work = work.trim().split(';').next().unwrap_or(work);
    // An older record says the same with a word that names no subject.
    let work = if work.ends_with("else active") { "submit, no other thread active" } else { work };
    Some(Line { work, median, goal })
}

/// The lines of the last run in an output.
fn last_run<'a>(summary: &'a Value, name: &str) -> Result<Vec<Line<'a>>> {
    let lines = summary["outputs"][name].as_array().with_context(|| format!("no {name}"))?;
    let texts: Vec<_> = lines.iter().filter_map(Value::as_str).collect();
    let start = texts.iter().rposition(|text| text.starts_with("work")).context("no table")?;
    let found: Vec<_> = texts[start..].iter().filter_map(|text| line(text)).collect();
    ensure!(!found.is_empty(), "{name} has no figures");
    Ok(found)
}

/// A row for each figure, with its goal, on 2 and on 16 cores.
pub(crate) fn path() -> Result<String> {
    let summary = record(SUMMARY)?;
    let few = last_run(&summary, "runtime-path-2-cores.txt")?;
    let many = last_run(&summary, "runtime-path-16-cores.txt")?;
    let mut table = Table::new(["work", "goal", "2 cores", "16 cores"]);
    for of in many.iter().filter(|of| of.goal.is_some()) {
        let same = few.iter().find(|other| other.work == of.work);
        table.row([
            of.work.to_owned(),
            of.goal.map_or_else(String::new, |goal| format!("{goal}")),
            same.map_or_else(|| "-".to_owned(), |same| format!("{}", same.median)),
            format!("{}", of.median),
        ]);
    }
    let command = "cargo bench -p xsched-benches --bench runtime_path -- --figures";
    Ok(table.markdown() + &source(command, &[SUMMARY])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_with_and_without_a_goal() {
        let goal = "submit, 4 queues; goal 1.5 times        57.5       250";
        let expected = Line { work: "submit, 4 queues", median: 57.5, goal: Some(250.0) };
        assert_eq!(line(goal), Some(expected));
        let plain = "a lone tiny command, straight           4260";
        let expected = Line { work: "a lone tiny command, straight", median: 4260.0, goal: None };
        assert_eq!(line(plain), Some(expected));
        assert_eq!(line("0 allocations for 20064 commands"), None);
    }
}
