//! A row: its cells in all ways, its goals, and the prediction beside the measurement.

use super::super::document::{Cell as Measured, Progress, Role, Row, Status};
use super::Input;
use super::compare::Pair;
use super::summary::{OURS, goal_of, judgement, outcome};
use crate::report::{Block, Cell, Table, Tone, count, number, percent, text, words};

/// Returns the section of a row.
pub(super) fn blocks(row: &Row, input: &Input) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, format!("{} {}", row.id, row.title()))];
    let outcome = outcome(row);
    blocks.push(Block::Text(outcome.text, outcome.tone));
    blocks.push(text(format!(
        "`{}` on {} ({}), begun {}, {:.0} s{}.",
        row.command,
        match row.hardware.as_str() {
            "" => "a device that was not reached",
            hardware => hardware,
        },
        row.hal,
        row.date,
        row.seconds,
        if row.quick { ", with few samples" } else { "" },
    )));
    if !row.verdicts.is_empty() {
        blocks.push(Block::Table(goals(row)));
    }
    if !row.cells.is_empty() {
        blocks.push(Block::Heading(3, format!("{}: cells", row.id)));
        blocks.push(Block::Table(cells(row)));
    }
    blocks.extend(others(row));
    blocks.extend(predicted(row, input));
    blocks.extend(row.notes.iter().map(text));
    blocks
}

fn goals(row: &Row) -> Table {
    let line = |verdict: &super::super::document::Verdict| {
        vec![
            words(goal_of("plan", verdict)),
            words(goal_of(OURS, verdict)),
            words(verdict.value()),
            judgement(verdict),
        ]
    };
    let header = ["goal of the plan", "our own", "measured", "verdict"];
    Table::new(header, row.verdicts.iter().map(line))
}

/// Each role of each cell that was measured.
fn cells(row: &Row) -> Table {
    let measured = row.cells.iter().filter(|cell| cell.status == Status::Measured);
    let lines = measured.flat_map(|cell| cell.roles.iter().map(move |role| line(row, cell, role)));
    let header = [
        "cell",
        "way",
        "role",
        "work",
        "load",
        "alone P50 ms",
        "P99",
        "beside P50 ms",
        "P99",
        "P50 over alone",
        "P99 over alone",
        "rate /s",
        "kept",
        "samples",
    ];
    Table::new(header, lines)
}

fn line(row: &Row, cell: &Measured, role: &Role) -> Vec<Cell> {
    let (alone, beside) = (role.alone.as_ref(), role.beside.as_ref());
    let p50 = |progress: Option<&Progress>| {
        let has_any = progress.filter(|one| one.latency.samples > 0);
        has_any.map(|one| one.latency.p50_us / 1e3)
    };
    let p99 = |progress: Option<&Progress>| {
        progress.and_then(|one| one.latency.p99_us).map(|us| us / 1e3)
    };
    let rate = |progress: Option<&Progress>| progress.map(|one| one.rate_per_s);
    let over = |of: &dyn Fn(Option<&Progress>) -> Option<f64>| {
        let (here, alone) = of(beside).zip(of(alone).filter(|&alone| alone > 0.0))?;
        Some(here / alone)
    };
    let samples = beside.or(alone).map(|progress| progress.latency.samples.to_string());
    let mut line: Vec<Cell> =
        [&cell.name, &cell.way, &role.name, &row.named(&role.work), &role.load].map(words).into();
    line.extend([p50(alone), p99(alone), p50(beside), p99(beside)].map(number));
    line.extend([over(&p50), over(&p99), rate(beside.or(alone)), over(&rate)].map(number));
    line.push(count(samples.unwrap_or_default()));
    line
}

/// Cells without a measurement, and why.
fn others(row: &Row) -> Option<Block> {
    let line = |cell: &Measured| {
        let (how, tone) = match &cell.status {
            Status::Measured => return None,
            Status::NotRun(why) => (format!("not run: {why}"), Tone::Faint),
            Status::Failed(why) => (format!("failed: {why}"), Tone::Bad),
        };
        Some(vec![words(&cell.name), words(&cell.way), words(how).toned(tone)])
    };
    let rows: Vec<Vec<Cell>> = row.cells.iter().filter_map(line).collect();
    let header = ["cell", "way", "not measured"];
    (!rows.is_empty()).then_some(Block::Table(Table::new(header, rows)))
}

/// The prediction beside the measurement.
fn predicted(row: &Row, input: &Input) -> Vec<Block> {
    let Some(prediction) = input.prediction(&row.id) else {
        return vec![text("There is no prediction of this row.")];
    };
    let mut blocks = vec![Block::Heading(3, format!("{}: prediction and measurement", row.id))];
    blocks.push(text(format!(
        "Simulated with the description {}, written {}.",
        prediction.device, prediction.date
    )));
    let line = |pair: &Pair| {
        let tone = if pair.counts() { Tone::Plain } else { Tone::Faint };
        let key = &pair.key;
        let mut line: Vec<Cell> =
            [&key.cell, &key.role, &key.quantity].map(|text| words(text).toned(tone)).into();
        line.extend([pair.predicted, pair.measured].map(|value| number(Some(value))));
        line.push(percent(Some(pair.error())));
        line
    };
    let rows: Vec<Vec<Cell>> = input.pairs_of(&row.id).map(line).collect();
    if !rows.is_empty() {
        let header = ["cell", "role", "quantity", "predicted", "measured", "error"];
        blocks.push(Block::Table(Table::new(header, rows)));
    }
    if !prediction.left_out.is_empty() {
        let line = |(cell, why): (&String, &String)| vec![words(cell), words(why)];
        let rows = prediction.left_out.iter().map(line);
        blocks.push(Block::Table(Table::new(["not predicted", "why"], rows)));
    }
    blocks
}
