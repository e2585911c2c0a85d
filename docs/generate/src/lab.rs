//! Goals of the newest run of the lab on each GPU.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use walkdir::WalkDir;

use crate::records::{list, record, root_of, text};
use crate::table::Table;

/// The summary of a run of the lab.
struct Run {
    folder: String,
    summary: Value,
}

impl Run {
    /// The GPU and the day, such as `H200, 2026-11-29`.
    fn name(&self) -> String {
        let (gpu, day) = self.folder.split_once('-').unwrap_or((&self.folder, ""));
        format!("{}, {}", gpu.to_uppercase(), day.get(..10).unwrap_or(day))
    }

    fn rows(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.summary["rows"].as_object().into_iter().flatten()
    }
}

/// The runs whose rows are kept in full: the newest of each GPU, newer ones first.
fn newest() -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for entry in WalkDir::new(root_of("")).min_depth(2).max_depth(2) {
        let entry = entry.context("cannot list benches/results")?;
        if entry.file_name() == "rows" {
            let folder = entry.path().parent().and_then(|path| path.file_name());
            let folder = folder.context("a folder without a name")?.to_string_lossy().into_owned();
            runs.push(Run { summary: record(&format!("{folder}/summary.json"))?, folder });
        }
    }
    ensure!(!runs.is_empty(), "no run of the lab is kept in full");
    runs.sort_by_key(|run| std::cmp::Reverse(run.name()));
    Ok(runs)
}

/// How many goals of a row were met, of how many.
fn met(row: &Value) -> Result<String> {
    let goals = list(row, "goals")?;
    let met = goals.iter().filter(|goal| goal["met"] == Value::Bool(true)).count();
    Ok(format!("{met} of {}", goals.len()))
}

/// A row for each row of the lab, a column for each GPU, and the goals that the newest run missed.
pub(crate) fn goals() -> Result<String> {
    let runs = newest()?;
    let mut rows: BTreeMap<&str, (&str, Vec<String>)> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        for (id, row) in run.rows() {
            let entry = rows.entry(id).or_insert((text(row, "/name")?, Vec::new()));
            entry.1.resize(at, "-".to_owned());
            entry.1.push(met(row)?);
        }
    }
    let head = ["row".to_owned(), "programs".to_owned()];
    let mut table = Table::new(head.into_iter().chain(runs.iter().map(Run::name)));
    for (id, (name, mut cells)) in rows {
        cells.resize(runs.len(), "-".to_owned());
        table.row([id.to_owned(), name.to_owned()].into_iter().chain(cells));
    }
    let sources = runs.iter().map(source).collect::<Result<Vec<_>>>()?.join("; ");
    Ok(format!("{}\n{sources}.\n{}", table.markdown(), missed(&runs[0])?))
}

/// The builds and the record of a run.
fn source(run: &Run) -> Result<String> {
    let (name, folder) = (run.name(), &run.folder);
    let commit = text(&run.summary, "/commit")?;
    Ok(format!("{name}: commit {commit}, [record](../../../benches/results/{folder}/README.md)"))
}

/// The goals that a run missed, with what it measured, and those without a verdict.
fn missed(run: &Run) -> Result<String> {
    let (mut lines, mut open) = (String::new(), String::new());
    for (id, row) in run.rows() {
        for goal in list(row, "goals")? {
            let what = text(goal, "/goal")?;
            match goal["met"].as_bool() {
                Some(true) => {}
                Some(false) => {
                    lines += &format!("- {id}, {what}: {}\n", text(goal, "/measured")?);
                }
                None => open += &format!("- {id}, {what}: without a verdict\n"),
            }
        }
    }
    Ok(format!("\nMissed on {}:\n\n{lines}{open}", run.name()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_goal_without_a_verdict_is_neither_met_nor_missed() {
        let goal = |met: Value| json!({ "goal": "P99 ≤ 1.1", "measured": "1.2", "met": met });
        let row = json!({ "goals": [goal(json!(true)), goal(json!(false)), goal(json!(null))] });
        assert_eq!(met(&row).expect("goals"), "1 of 3");
        let summary = json!({ "commit": "abc", "rows": { "5.4": row } });
        let run = Run { folder: "h200-2026-11-29-streams".into(), summary };
        assert_eq!(run.name(), "H200, 2026-11-29");
        let text = missed(&run).expect("goals");
        assert_eq!(text.matches("\n- ").count(), 2, "{text}");
        assert!(text.contains("- 5.4, P99 ≤ 1.1: 1.2\n"), "{text}");
        assert!(text.ends_with("- 5.4, P99 ≤ 1.1: without a verdict\n"), "{text}");
    }
}
