//! Tables of what the simulator said, from records that it wrote.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use walkdir::WalkDir;

use crate::records::{list, number, record, root_of, source, text, whole};
use crate::table::{Table, percent};
use crate::{read, root};

/// A kept prediction: its path, and what `xsched-lab bench predict` wrote.
struct Kept {
    path: String,
    document: Value,
}

fn predicted() -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    for entry in WalkDir::new(root_of("simulated")).sort_by_file_name() {
        let name = entry.context("cannot list the predictions")?;
        let name = name.file_name().to_string_lossy().into_owned();
        if name.starts_with("predict-") {
            let path = format!("simulated/{name}");
            found.push(Kept { document: record(&path)?, path });
        }
    }
    ensure!(!found.is_empty(), "there are no predictions");
    Ok(found)
}

/// The name of the record that was predicted, with its day.
fn predicted_record(of: &Value) -> Result<String> {
    let record = text(of, "/record")?.trim_start_matches("benches/results/");
    Ok(record.trim_start_matches("h200-").to_owned())
}

/// Predictions of `xsched-lab bench predict RECORD --json` for records of an H200.
pub(crate) fn predictions() -> Result<String> {
    let mut table = Table::new(["record", "of", "cells", "median error", "largest"]);
    let mut paths = Vec::new();
    for Kept { path, document: of } in predicted()? {
        let counts = |cell: &&Value| cell["counts"] == Value::Bool(true);
        let cells = list(&of, "cells")?.iter().filter(counts).count();
        let figures = list(&of, "figures")?.iter().zip(list(&of, "counted")?);
        let figures = figures.filter(|(_, counted)| **counted == Value::Bool(true));
        let figures: Vec<_> = figures.filter_map(|(figure, _)| figure.as_str()).collect();
        table.row([
            format!("`{}`", predicted_record(&of)?),
            figures.join(", "),
            cells.to_string(),
            percent(number(&of, "/median_error")?, 2),
            percent(number(&of, "/largest_error")?, 1),
        ]);
        paths.push(path);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Ok(table.markdown() + &source("xsched-lab bench predict RECORD --json OUT", &paths)?)
}

/// Predictions that are named because they are worst.
const WORST: usize = 5;

/// The median error over the cells of all kept predictions, and the worst of them.
pub(crate) fn prediction_errors() -> Result<String> {
    let mut errors = Vec::new();
    for Kept { document: of, .. } in predicted()? {
        let (header, figures, counted) =
            (list(&of, "header")?, list(&of, "figures")?, list(&of, "counted")?);
        let cells = list(&of, "cells")?.iter().filter(|cell| cell["counts"] == Value::Bool(true));
        for cell in cells {
            let parts = header.iter().zip(list(cell, "name")?).filter_map(|(key, name)| {
                Some(format!("{} {}", key.as_str()?.trim_start_matches('<'), name.as_str()?))
            });
            let name = parts.collect::<Vec<_>>().join(", ");
            let pairs = figures.iter().zip(counted).zip(list(cell, "pairs")?);
            for ((figure, counted), pair) in pairs {
                if *counted == Value::Bool(true) && pair.is_object() {
                    let record = format!("`{}`", predicted_record(&of)?);
                    let what = format!("{name}: {}", figure.as_str().unwrap_or_default());
                    let value = |key: &str| number(pair, &format!("/{key}"));
                    errors.push((
                        value("error")?,
                        [value("measured")?, value("predicted")?],
                        record,
                        what,
                    ));
                }
            }
        }
    }
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = |at: usize| errors.get(at).map_or(f64::NAN, |error| error.0);
    let median = f64::midpoint(middle((errors.len() - 1) / 2), middle(errors.len() / 2));
    let within = errors.iter().filter(|error| error.0 <= 0.1).count();
    let mut table = Table::new(["record", "cell", "measured", "predicted", "error"]);
    for (error, values, record, what) in errors.iter().rev().take(WORST) {
        let [measured, predicted] = values.map(|value| format!("{value:.2}"));
        table.row([record.clone(), what.clone(), measured, predicted, percent(*error, 0)]);
    }
    Ok(format!(
        "Over all {} predicted figures the median error is {}; {within} are within 10 %. The worst \
         {WORST}:\n\n{}",
        errors.len(),
        percent(median, 2),
        table.markdown()
    ))
}

const SCENARIOS: [&str; 4] = ["bert-mi308x", "bert-mi308x-hostlock", "bert-h200", "bert-h200-six"];

/// Measured and simulated figures of the BERT runs.
pub(crate) fn bert_fit() -> Result<String> {
    let head = ["scenario", "figure", "measured", "simulated [5th … 95th percentile]", "verdict"];
    let mut table = Table::new(head);
    let paths = SCENARIOS.map(|name| format!("simulated/{name}.json"));
    for (name, path) in SCENARIOS.iter().zip(&paths) {
        for row in list(&record(path)?, "references")? {
            let band = list(row, "band")?;
            let edge = |at: usize| band.get(at).and_then(Value::as_f64).context("no band");
            let (low, high) = (edge(0)?, edge(1)?);
            let simulated = number(row, "/simulated")?;
            table.row([
                format!("`{name}`"),
                text(row, "/metric")?.to_owned(),
                format!("{:.2}", number(row, "/measured")?),
                format!("{simulated:.2} [{low:.2} … {high:.2}]"),
                text(row, "/verdict")?.to_owned(),
            ]);
        }
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Ok(table.markdown() + &source("xsched sim run sim/scenarios/NAME.toml --json OUT", &paths)?)
}

/// The assumptions and the main tables of what `xsched sim lv3` printed.
pub(crate) fn lv3() -> Result<String> {
    let path = root().join("benches/results/simulated/lv3.md");
    let text = read(&path)?;
    let mut sections = text.split("### ");
    let mut out = sections.next().unwrap_or_default().to_owned();
    let wanted = ["Commands of 0.5 ms", "From which T on", "Several victims at once"];
    for section in sections.filter(|section| wanted.iter().any(|title| section.starts_with(title)))
    {
        out.push_str("### ");
        out.push_str(section);
    }
    ensure!(out.matches("### ").count() == wanted.len(), "a table of lv3.md is missing");
    Ok(out)
}

const PAPER: &str = "simulated/paper.json";

/// The summary of `xsched sim paper`.
pub(crate) fn paper() -> Result<String> {
    let of = record(PAPER)?;
    let mut table = Table::new([
        "a row is",
        "if",
        "values",
        "with a goal, met",
        "beside a number, within 15 %",
    ]);
    let labels = [
        ("sourced", "its parameters are, and the number is the paper's or its artifact's"),
        ("fitted", "a parameter was chosen to meet a published value"),
        ("assumed", "a parameter was never measured on that device"),
        ("own_plan", "its parameters are sourced, and the number is the plan's or measured here"),
    ];
    for (label, when) in labels {
        let count = |key: &str| whole(&of, &format!("/labels/{label}/{key}"));
        table.row([
            label.replace('_', " "),
            when.to_owned(),
            count("values")?.to_string(),
            format!("{} of {}", count("met")?, count("judged")?),
            format!("{} of {}", count("near")?, count("numbers")?),
        ]);
    }
    Ok(table.markdown() + &source("xsched sim paper --out DIR", &[PAPER])?)
}
