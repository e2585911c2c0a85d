//! The first pages: what was run on what, what came out, and how good the predictions are.

use std::collections::{BTreeMap, BTreeSet};

use super::super::document::{Row, Status, Verdict};
use super::super::identity;
use super::super::table;
use super::compare::{Pair, median, worst};
use super::{Input, chapters};
use crate::report::{Block, Cell, Table, Tone, count, number, percent, text, words};

/// Origin of goals that are not the plan's.
pub(super) const OURS: &str = "ours";
/// Predictions within this are near.
const NEAR: f64 = 0.1;
/// Predictions that are named because they are the furthest off.
const WORST: usize = 5;

/// The summary.
pub(super) fn blocks(input: &Input) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(1, title(&input.rows))];
    let identities = identity::all(&input.rows);
    if identities.len() > 1 {
        let several = format!(
            "These rows are of {} builds or machines and are no single run; totals are of each.",
            identities.len()
        );
        blocks.push(Block::Text(several, Tone::Bad));
    }
    for (identity, hardware) in &identities {
        let is_of = |row: &&Row| row.identity == *identity && row.hardware == *hardware;
        let rows: Vec<&Row> = input.rows.iter().filter(is_of).collect();
        blocks.push(text(format!("{}: {}", identity.with(hardware), counts(&rows))));
    }
    blocks.push(Block::Table(rows(input)));
    blocks.extend(absent(input));
    blocks.push(Block::Heading(2, "The machine".to_owned()));
    blocks.extend(about(&input.rows));
    let goals = goals(&input.rows);
    if !goals.rows.is_empty() {
        blocks.push(Block::Heading(2, "Goals".to_owned()));
        blocks.push(Block::Table(goals));
    }
    blocks.push(Block::Heading(2, "Predictions".to_owned()));
    blocks.extend(predictions(input));
    blocks
}

/// The title of the report; where no program is a real one it says so.
pub(super) fn title(rows: &[Row]) -> String {
    let is_all_stand_ins = !rows.is_empty() && rows.iter().all(Row::has_stand_ins);
    let what = if is_all_stand_ins { "stand-ins on the processor" } else { "real programs" };
    format!("The plan's experiments with {what}")
}

/// The machine, the versions and the time.
fn about(rows: &[Row]) -> Vec<Block> {
    if rows.is_empty() {
        return vec![text("No row has been measured: `rows` has no documents.")];
    }
    let different = |of: &dyn Fn(&Row) -> String| -> String {
        let all: BTreeSet<String> = rows.iter().map(of).filter(|text| !text.is_empty()).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in rows.iter().flat_map(|row| &row.software) {
        versions.entry(name).or_default().insert(version);
    }
    let first = rows.iter().map(|row| row.date.as_str()).min().unwrap_or_default();
    let last = rows.iter().map(|row| row.date.as_str()).max().unwrap_or_default();
    let mut facts = vec![
        vec![words("device"), words(different(&|row| row.hardware.clone()))],
        vec![words("reached by"), words(different(&|row| row.hal.clone()))],
        vec![words("rows begun"), words(format!("{first} to {last}"))],
    ];
    for (name, versions) in versions {
        let versions: Vec<&str> = versions.into_iter().collect();
        facts.push(vec![words(name), words(versions.join(", "))]);
    }
    let mut blocks = vec![Block::Table(Table::new(["what", "is"], facts))];
    if rows.iter().any(|row| row.quick) {
        let quick = "Made with --quick: too few samples for a P99, and wide intervals.";
        blocks.push(Block::Text(quick.to_owned(), Tone::Bad));
    }
    blocks
}

/// How a verdict is said.
pub(super) fn judgement(verdict: &Verdict) -> Cell {
    match verdict.met {
        Some(true) => words("met").toned(Tone::Good),
        Some(false) => words("missed").toned(Tone::Bad),
        None => {
            let why = verdict.open.iter().map(|why| format!(": {why}"));
            words(format!("open{}", why.collect::<String>())).toned(Tone::Faint)
        }
    }
}

/// How many goals of the plan, and of ours, were met.
fn counts(rows: &[&Row]) -> String {
    let of = |whose: &str| {
        let all = || rows.iter().flat_map(|row| &row.verdicts).filter(|one| one.whose == whose);
        let met = |met| all().filter(|verdict| verdict.met == met).count();
        let (is, is_not, open) = (met(Some(true)), met(Some(false)), met(None));
        format!("{} goals ({is} met, {is_not} missed, {open} open)", all().count())
    };
    format!("{} rows; the plan has {}, we have {} more.", rows.len(), of("plan"), of(OURS))
}

/// Returns the outcome of a row.
pub(super) fn outcome(row: &Row) -> Cell {
    let missed = row.verdicts.iter().filter(|verdict| verdict.met == Some(false)).count();
    let met = row.verdicts.iter().filter(|verdict| verdict.met == Some(true)).count();
    match &row.status {
        Status::NotRun(why) => words(format!("not run: {why}")).toned(Tone::Faint),
        Status::Failed(why) => words(format!("failed: {why}")).toned(Tone::Bad),
        Status::Measured if missed > 0 => {
            words(format!("{missed} of {} goals missed", row.verdicts.len())).toned(Tone::Bad)
        }
        Status::Measured if met == 0 => words("no verdict").toned(Tone::Faint),
        Status::Measured if met < row.verdicts.len() => {
            words(format!("{met} of {} goals met, others without a verdict", row.verdicts.len()))
        }
        Status::Measured => words("met").toned(Tone::Good),
    }
}

/// The first goal with the value that was measured, if there is one.
fn headline(row: &Row) -> String {
    let verdict = row.verdicts.iter().find(|verdict| !verdict.measured.is_empty());
    verdict.map_or_else(String::new, |one| format!("{}: {}", one.goal, one.value()))
}

fn rows(input: &Input) -> Table {
    let mut rows = Vec::new();
    for row in &input.rows {
        let done = row.cells.iter().filter(|cell| cell.status == Status::Measured).count();
        let pairs: Vec<&Pair> = input.pairs_of(&row.id).filter(|pair| pair.counts()).collect();
        rows.push(vec![
            words(&row.id),
            words(row.title()),
            outcome(row),
            words(headline(row)),
            count(format!("{done} of {}", row.cells.len())),
            count(pairs.len().to_string()),
            percent(median(pairs)),
            count(format!("{:.0}", row.seconds)),
        ]);
    }
    // What was predicted and never measured is not forgotten.
    let known: BTreeSet<&str> = input.rows.iter().map(|row| row.id.as_str()).collect();
    for prediction in input.predictions.iter().filter(|one| !known.contains(one.id.as_str())) {
        let mut row = vec![words(&prediction.id), words(""), words("not measured yet")];
        row.resize(8, words(""));
        rows.push(row);
    }
    let header =
        ["row", "about", "outcome", "first goal", "cells", "predicted", "median error", "seconds"];
    Table::new(header, rows)
}

/// Rows of which the folder has nothing.
fn absent(input: &Input) -> Option<Block> {
    let has = |id: &&str| {
        let row = input.rows.iter().any(|row| row.id == *id);
        row || input.predictions.iter().any(|prediction| prediction.id == *id)
    };
    let mut ids: Vec<&str> = table::ids().into_iter().filter(|id| !has(id)).collect();
    ids.sort_by_key(|id| chapters(id));
    let said = format!("Nothing of these rows is in this folder: {}.", ids.join(", "));
    (!ids.is_empty()).then_some(Block::Text(said, Tone::Faint))
}

/// The goal, if it is theirs.
pub(super) fn goal_of<'a>(whose: &str, verdict: &'a Verdict) -> &'a str {
    if verdict.whose == whose { &verdict.goal } else { "" }
}

fn goals(rows: &[Row]) -> Table {
    let line = |row: &Row, verdict: &Verdict| {
        vec![
            words(&row.id),
            words(goal_of("plan", verdict)),
            words(goal_of(OURS, verdict)),
            words(verdict.value()),
            judgement(verdict),
        ]
    };
    let lines = rows.iter().flat_map(|row| row.verdicts.iter().map(move |one| line(row, one)));
    let header = ["row", "goal of the plan", "our own", "measured", "verdict"];
    Table::new(header, lines)
}

fn predictions(input: &Input) -> Vec<Block> {
    let pairs: Vec<&Pair> = input.pairs.iter().filter(|pair| pair.counts()).collect();
    let Some(middle) = median(pairs.iter().copied()) else {
        return vec![text("Nothing was both predicted and measured.")];
    };
    let near = pairs.iter().filter(|pair| pair.error() <= NEAR).count();
    let alone: Vec<&Pair> = input.pairs.iter().filter(|pair| !pair.counts()).collect();
    let mut said = format!(
        "Each prediction was written before its cell was measured. Over all {} predicted values of \
         programs beside each other or scheduled, the median error is {:.1} %; {near} are within \
         10 %.",
        pairs.len(),
        middle * 100.0
    );
    if let Some(middle) = median(alone.iter().copied()) {
        said += &format!(
            " Not counted are {} values of lone programs, whose lone requests the simulator was \
             told of (median error {:.1} %).",
            alone.len(),
            middle * 100.0
        );
    }
    let left_out: usize = input.predictions.iter().map(|one| one.left_out.len()).sum();
    if left_out > 0 {
        said +=
            &format!(" {left_out} cells or parts of them have no prediction; their rows say why.");
    }
    let line = |pair: &&Pair| {
        let mut line = vec![words(&pair.id), words(pair.name())];
        line.extend([pair.predicted, pair.measured].map(|value| number(Some(value))));
        line.push(percent(Some(pair.error())));
        line
    };
    let furthest = worst(pairs.iter().copied(), WORST);
    let header = ["row", "cell", "predicted", "measured", "error"];
    vec![
        text(said),
        Block::Table(by_quantity(&pairs)),
        text("The furthest off:"),
        Block::Table(Table::new(header, furthest.iter().map(line))),
    ]
}

/// The errors of each quantity.
fn by_quantity(pairs: &[&Pair]) -> Table {
    let mut quantities: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
    for pair in pairs {
        quantities.entry(&pair.key.quantity).or_default().push(pair);
    }
    let line = |(quantity, pairs): (&str, Vec<&Pair>)| {
        let largest = pairs.iter().map(|pair| pair.error()).fold(0.0, f64::max);
        let values = count(pairs.len().to_string());
        vec![words(quantity), values, percent(median(pairs)), percent(Some(largest))]
    };
    let header = ["quantity", "values", "median error", "largest"];
    Table::new(header, quantities.into_iter().map(line))
}
