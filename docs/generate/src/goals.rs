//! What the records of an H200 say about the goals of the test plan, by the same judges as
//! `xsched bench all`.

use anyhow::{Context, Result};
use serde_json::Value;
use xsched_lab::commands::{Experiment, experiments};

use crate::kept::{Kept, kept};
use crate::records::{link, text};
use crate::table::Table;

/// The records of `xsched bench` on CUDA streams, judged.
pub(crate) fn goals() -> Result<String> {
    let (mut rows, mut open) = (Vec::new(), 0);
    for Kept { path, document } in kept()? {
        let device = text(&document, "/device/hal");
        let (Ok("cuda"), Ok(bench)) = (device, text(&document, "/bench")) else { continue };
        for experiment in experiments(bench) {
            match row(experiment, &path, &document)? {
                Some(row) if row[3] == OPEN => open += 1,
                row => rows.extend(row),
            }
        }
    }
    rows.sort();
    let mut table = Table::new(["row", "goal", "record", "verdict", "why"]);
    rows.into_iter().for_each(|row| table.row(row));
    Ok(format!(
        "{}\n{open} more have no verdict: too few samples, another load than the plan's, or nothing \
         measured at the default.\n",
        table.markdown()
    ))
}

/// How a row without a verdict is marked.
const OPEN: &str = "-";

/// A verdict, unless the record has nothing on which there could be one.
fn row(experiment: &Experiment, path: &str, document: &Value) -> Result<Option<[String; 5]>> {
    let Experiment { id, goal, judge, .. } = experiment;
    let judged = judge(document).map_err(anyhow::Error::from).with_context(|| path.to_owned())?;
    if *goal == "none" || goal.starts_with("none:") || judged.not_run.is_some() {
        return Ok(None);
    }
    let verdict = match judged.pass {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => OPEN,
    };
    let cells = [*id, *goal, &link(path), verdict, &judged.notes.join("; ")];
    Ok(Some(cells.map(str::to_owned)))
}
