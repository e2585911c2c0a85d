//! Tables of what the simulator said, from records that it wrote.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use walkdir::WalkDir;

use crate::records::{link_as, list, made, number, record, root_of, source, text, whole};
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
    let mut table = Table::new(["prediction of", "figure", "median error", "largest"]);
    for Kept { path, document: of } in predicted()? {
        let figures = list(&of, "figures")?.iter().zip(list(&of, "counted")?);
        let figures = figures.filter(|(_, counted)| **counted == Value::Bool(true));
        let figures: Vec<_> = figures.filter_map(|(figure, _)| figure.as_str()).collect();
        table.row([
            link_as(&format!("`{}`", predicted_record(&of)?), &path),
            figures.join(", "),
            percent(number(&of, "/median_error")?, 2),
            percent(number(&of, "/largest_error")?, 1),
        ]);
    }
    Ok(table.markdown() + &made("xsched-lab bench predict RECORD --json OUT", "simulated")? + ".\n")
}

/// The median error over the cells of all kept predictions.
pub(crate) fn prediction_errors() -> Result<String> {
    let mut errors = Vec::new();
    for Kept { document: of, .. } in predicted()? {
        let counted = list(&of, "counted")?;
        let cells = list(&of, "cells")?.iter().filter(|cell| cell["counts"] == Value::Bool(true));
        for cell in cells {
            for (counted, pair) in counted.iter().zip(list(cell, "pairs")?) {
                if *counted == Value::Bool(true) && pair.is_object() {
                    errors.push(number(pair, "/error")?);
                }
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    let middle = |at: usize| errors.get(at).copied().unwrap_or(f64::NAN);
    let median = f64::midpoint(middle((errors.len() - 1) / 2), middle(errors.len() / 2));
    let within = errors.iter().filter(|error| **error <= 0.1).count();
    Ok(format!(
        "Over all {} predicted figures the median error is {}; {within} are within 10 %.",
        errors.len(),
        percent(median, 2),
    ))
}

const SCENARIOS: [&str; 4] = ["bert-mi308x", "bert-mi308x-hostlock", "bert-h200", "bert-h200-six"];

/// For each BERT run, the figures that the scenario explains, and the one that is furthest off.
pub(crate) fn bert_fit() -> Result<String> {
    let simulated = "simulated [5th … 95th percentile]";
    let mut table = Table::new(["scenario", "explained", "furthest off", "measured", simulated]);
    for name in SCENARIOS {
        let path = format!("simulated/{name}.json");
        let of = record(&path)?;
        let rows = list(&of, "references")?;
        let explained = rows.iter().filter(|row| row["verdict"] == "ok").count();
        let mut furthest = (-1.0, Vec::new());
        for row in rows {
            let (measured, simulated) = (number(row, "/measured")?, number(row, "/simulated")?);
            let off = (simulated / measured - 1.0).abs();
            if off > furthest.0 {
                let (low, high) = (number(row, "/band/0")?, number(row, "/band/1")?);
                let figure = format!("`{}`", text(row, "/metric")?);
                let band = format!("{simulated:.2} [{low:.2} … {high:.2}]");
                furthest = (off, vec![figure, format!("{measured:.2}"), band]);
            }
        }
        let first =
            [link_as(&format!("`{name}`"), &path), format!("{explained} of {}", rows.len())];
        table.row(first.into_iter().chain(furthest.1));
    }
    let command = "xsched sim run sim/scenarios/NAME.toml --json OUT";
    Ok(table.markdown() + &made(command, "simulated")? + ".\n")
}

/// The assumptions and the main tables of what `xsched sim lv3` printed.
pub(crate) fn lv3() -> Result<String> {
    let path = root().join("benches/results/simulated/lv3.md");
    let text = read(&path)?;
    let mut sections = text.split("### ");
    let mut out = sections.next().unwrap_or_default().to_owned();
    let wanted = ["Commands of 0.5 ms", "From which T on"];
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
