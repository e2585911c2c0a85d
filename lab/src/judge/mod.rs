//! From what a bench wrote to the figures and verdicts that the test plan asks for. Each takes the
//! JSON that the bench has written, fails if that is not of this bench, and gives no verdict where
//! there are too few samples for one.

mod interrupt;
mod wait_placement;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::bench::{graphs as graph, overhead, partition, preempt, priority, requests, threshold};
use crate::device::LabError;
use crate::device::mode::{Mode, SPACING_US};
use crate::stats::{FASTER_THAN_ALONE, P99_SAMPLES, is_faster_than_alone};

pub(crate) use interrupt::{
    canary, latency as interrupt_latency, meanwhile as interrupt_meanwhile,
    results as interrupt_results,
};
pub(crate) use wait_placement::{firsts, rings, words};

/// The plan's limit for an interrupt, in microseconds (rows 7.3.1 and 4.1.1).
pub(crate) const INTERRUPT_US: f64 = 100.0;
/// How many times sooner than Lv1 an interrupt is to be (row 4.1.1).
const SOONER: f64 = 40.0;
/// Ratio of two medians up to which an interrupt does not depend on the commands' length.
const FLAT: f64 = 2.0;
/// The length of commands in row 7.3.1, in nanoseconds, and how much longer they may have become
/// by writing down the time.
const COMMAND_NS: std::ops::RangeInclusive<u64> = 500_000..=562_500;
/// Upper limit of the foreground's P99 over its P99 alone (row 7.2.1), and least part of the device
/// that the foreground leaves which the background gets.
const BESIDE: (f64, f64) = (1.30, 0.5);
/// The foreground's share of the device if it were alone in row 7.2.1, and how far from it a run
/// may be to be judged.
const LOAD: (f64, f64) = (0.20, 0.02);
/// How far parts may be from what was wanted, in percent, and what may be lost (row 7.2.2).
const PARTS: (f64, f64) = (5.0, 0.015);
/// A partition that was measured for less long, in milliseconds, is not judged.
const MEASURED_MS: u64 = 4_000;
/// Longest extra time of a row of commands at Lv1 (row 7.4.1), and what is little (row 7.3.3).
const OVERHEAD: (f64, f64) = (0.034, 0.01);
/// Processor time that may be added (row 7.4.2).
const PROCESSOR: f64 = 0.05;
/// Rounds from which a median is worth a verdict.
const ROUNDS: usize = 11;
/// Commands in flight from which on the overhead is to be little (row 7.3.3).
const FROM: u32 = 10;

/// Verdict on an experiment.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Judged {
    /// The figures, by name; times say their unit in it.
    pub(crate) results: Map<String, Value>,
    /// Set if the goal was reached; `None` where there were too few samples to tell.
    pub(crate) pass: Option<bool>,
    /// Notes that a reader needs beside the figures.
    pub(crate) notes: Vec<String>,
    /// Why the device cannot show it at all.
    pub(crate) not_run: Option<String>,
}

impl Judged {
    /// Figures with a verdict; what is no object becomes the figure `value`.
    pub(crate) fn new(results: Value, pass: Option<bool>) -> Self {
        let results = match results {
            Value::Object(results) => results,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Self { results, pass, ..Self::default() }
    }

    /// With one more note.
    pub(crate) fn noting(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// For what the device cannot show, with the reason.
    pub(crate) fn not_run(why: &str) -> Self {
        Self { not_run: Some(why.to_owned()), ..Self::default() }
    }
}

/// A list in a record.
fn list<T: DeserializeOwned>(record: &Value, key: &str) -> Result<Vec<T>, LabError> {
    let found = record.get(key).cloned().unwrap_or(Value::Array(Vec::new()));
    serde_json::from_value(found)
        .map_err(|error| LabError::new(format!("`{key}` is not as expected: {error}")))
}

/// All of these, unless one of them cannot be said.
fn all(verdicts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let verdicts: Vec<_> = verdicts.into_iter().collect();
    if verdicts.contains(&Some(false)) {
        return Some(false);
    }
    (!verdicts.is_empty() && !verdicts.contains(&None)).then_some(true)
}

/// Returns whether a time over that alone is below a limit; `None` if it is faster than alone.
fn is_within(over_alone: f64, limit: f64) -> Option<bool> {
    (!is_faster_than_alone(over_alone, limit)).then_some(over_alone < limit)
}

/// Returns the note for a time over that alone that has no verdict.
fn disturbed(over_alone: f64, limit: f64) -> String {
    if is_faster_than_alone(over_alone, limit) {
        return format!(" ({FASTER_THAN_ALONE})");
    }
    String::new()
}

fn latency(row: &preempt::Row) -> Value {
    json!({
        "mode": row.mode, "command_us": row.command_ns as f64 / 1e3, "in_flight": row.threshold,
        "samples": row.quiet.samples, "quiet_p50_us": row.quiet.p50_us,
        "quiet_p99_us": row.quiet.p99_us, "quiet_max_us": row.quiet.max_us,
        "detect_p50_us": row.detect.p50_us, "detect_p99_us": row.detect.p99_us,
        "restart_p50_us": row.restart.p50_us, "restart_p99_us": row.restart.p99_us,
        "ran_on": row.ran_on,
        "goal": row.goal.what, "reached": row.goal.reached,
    })
}

/// Returns whether the P99 of an interrupt is below the plan's limit.
fn below_limit(row: &preempt::Row) -> Option<bool> {
    row.quiet.p99_us.map(|p99| p99 < INTERRUPT_US)
}

/// Row 7.3.1: latency per level with commands of 0.5 ms.
pub(crate) fn per_level(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<preempt::Row> = list(record, "rows")?;
    let of_length =
        |row: &&preempt::Row| COMMAND_NS.contains(&row.command_ns) && row.threshold == 8;
    let rows: Vec<_> = rows.iter().filter(of_length).collect();
    let mut verdicts: Vec<_> = rows.iter().map(|row| row.goal.reached).collect();
    let interrupts = rows.iter().filter(|row| row.level == 3);
    verdicts.extend(interrupts.map(|row| below_limit(row)));
    let figures: Vec<_> = rows.iter().map(|row| latency(row)).collect();
    let judged = Judged::new(json!({ "levels": figures }), all(verdicts));
    if rows.iter().any(|row| row.level == 3) {
        return Ok(judged);
    }
    Ok(judged.noting("the device has no Lv3, so only the bounds of Lv1 and Lv2 were judged"))
}

/// Row 7.3.2: latency over the length of commands.
pub(crate) fn per_length(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<preempt::Row> = list(record, "rows")?;
    let goals = rows.iter().map(|row| row.goal.reached);
    let interrupts = rows.iter().filter(|row| row.level == 3).map(below_limit);
    let figures: Vec<_> = rows.iter().map(latency).collect();
    Ok(Judged::new(json!({ "lengths": figures }), all(goals.chain(interrupts))))
}

/// Row 4.1.1: Lv3 against Lv1.
pub(crate) fn interrupt(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<preempt::Row> = list(record, "rows")?;
    let interrupts: Vec<_> = rows.iter().filter(|row| row.level == 3).collect();
    if interrupts.is_empty() {
        return Ok(Judged::not_run("the device has no Lv3"));
    }
    let p99_at = |level: u8| {
        let mut found = rows.iter().filter(|row| row.level == level && row.threshold == 8);
        found.find(|row| COMMAND_NS.contains(&row.command_ns))?.quiet.p99_us
    };
    let ratio = p99_at(1).zip(p99_at(3)).map(|(lv1, lv3)| lv1 / lv3.max(f64::MIN_POSITIVE));
    let medians = interrupts.iter().map(|row| row.quiet.p50_us);
    let (least, most) = (medians.clone().fold(f64::MAX, f64::min), medians.fold(0.0, f64::max));
    let spread = most / least.max(f64::MIN_POSITIVE);
    let enough = interrupts.iter().all(|row| row.quiet.samples >= P99_SAMPLES);
    let verdicts = [
        ratio.map(|ratio| ratio >= SOONER),
        all(interrupts.iter().map(|row| below_limit(row))),
        enough.then_some(spread <= FLAT),
    ];
    let figures: Vec<_> = interrupts.iter().map(|row| latency(row)).collect();
    let results = json!({
        "lv1_over_lv3_p99_at_500_us": ratio, "longest_over_shortest_p50": spread, "lv3": figures
    });
    Ok(Judged::new(results, all(verdicts)))
}

/// Returns the mode that a user of the device that a record is of gets by default.
fn default_mode(record: &Value) -> Result<Mode, LabError> {
    let hal = record.pointer("/device/hal").and_then(Value::as_str);
    let level = record.pointer("/device/level").and_then(Value::as_u64);
    let (hal, level) = hal.zip(level).ok_or_else(|| LabError::new("`device` has no level"))?;
    Ok(Mode::by_default(hal, u8::try_from(level).unwrap_or(u8::MAX)))
}

/// Figures of all modes, with the verdict on the default one's, of which the words say what it is.
fn by_default(
    results: Value,
    default: &str,
    ours: Vec<(Option<bool>, String)>,
    others: Vec<String>,
) -> Judged {
    let (verdicts, words): (Vec<_>, Vec<_>) = ours.into_iter().unzip();
    let judged = Judged::new(results, all(verdicts));
    let judged = if words.is_empty() {
        judged.noting(format!("not judged: nothing was measured at the default, {default}"))
    } else {
        judged.noting(format!("judged: the default, {default}: {}", words.join(", ")))
    };
    if others.is_empty() {
        return judged;
    }
    judged.noting(format!("missed by others than the default: {}", others.join(", ")))
}

/// The foreground's share of the device if it were alone.
fn load(record: &Value) -> Result<f64, LabError> {
    let of = |key: &str| record.pointer(&format!("/plan/foreground/{key}")).and_then(Value::as_f64);
    let task = of("commands").zip(of("command_ns")).map(|(count, ns)| count * ns);
    let pause = of("pause_ns/0").zip(of("pause_ns/1")).map(|(least, most)| (least + most) / 2.0);
    let (task, pause) = task.zip(pause).ok_or_else(|| LabError::new("`plan` has no foreground"))?;
    Ok(task / (task + pause))
}

/// Row 7.2.1: a task beside a background that is always busy.
pub(crate) fn fixed_priority(record: &Value) -> Result<Judged, LabError> {
    let cells: Vec<priority::Cell> = list(record, "cells")?;
    let (default, load) = (default_mode(record)?, load(record)?);
    let least = (1.0 - load) * BESIDE.1;
    let reached = |cell: &priority::Cell| {
        let is_soon = is_within(cell.p99_over_alone?, BESIDE.0);
        if cell.background_share >= least { is_soon } else { Some(false) }
    };
    let figure = |cell: &priority::Cell| {
        json!({
            "mode": cell.mode, "background_us": cell.background_ns as f64 / 1e3,
            "waves": cell.waves, "p50_us": cell.foreground.p50_us, "p99_us": cell.foreground.p99_us,
            "max_us": cell.foreground.max_us, "p99_over_alone": cell.p99_over_alone,
            "background_share": cell.background_share, "cores": cell.processors,
            "reached": reached(cell),
        })
    };
    let figures: Vec<_> = cells.iter().map(figure).collect();
    let ours = cells.iter().filter(|cell| cell.mode == default);
    let missed = cells.iter().filter(|cell| {
        !cell.mode.is_plain() && cell.mode != default && reached(cell) == Some(false)
    });
    let name =
        |cell: &priority::Cell| format!("{} at {} µs", cell.mode, cell.background_ns / 1_000);
    let mut missed: Vec<String> = missed.map(name).collect();
    missed.sort();
    missed.dedup();
    let p99 = |key: &str| record.pointer(&format!("/{key}/p99_us")).cloned();
    let results = json!({
        "load_percent": load * 100.0, "default": default, "alone_p99_us": p99("alone"),
        "alone_queue_p99_us": p99("alone_queue"), "cells": figures,
    });
    let ours = ours.map(|cell| {
        let ratio = cell.p99_over_alone.map(|p99| format!("{p99:.3}{}", disturbed(p99, BESIDE.0)));
        let ratio = ratio.unwrap_or_else(|| "too few samples".to_owned());
        let (us, share) = (cell.background_ns / 1_000, cell.background_share * 100.0);
        (reached(cell), format!("{ratio} beside {us} µs, which have {share:.0} %"))
    });
    let judged = by_default(results, &default.to_string(), ours.collect(), missed);
    if (load - LOAD.0).abs() <= LOAD.1 {
        return Ok(judged);
    }
    let (is, plan) = (load * 100.0, LOAD.0 * 100.0);
    let note = format!("no verdict: the task's load is {is:.0} %, and the plan's {plan:.0} %");
    Ok(Judged { pass: None, ..judged }.noting(note))
}

/// Row 7.2.2: parts of two busy tasks.
pub(crate) fn parts(record: &Value) -> Result<Judged, LabError> {
    let cells: Vec<partition::Cell> = list(record, "cells")?;
    let wanted = record.pointer("/plan/shares/0").and_then(Value::as_f64);
    let wanted = wanted.ok_or_else(|| LabError::new("`plan` has no shares"))?;
    let long = record.pointer("/plan/measured_ms").and_then(Value::as_u64) >= Some(MEASURED_MS);
    let default = default_mode(record)?.level();
    let (near, lost) = PARTS;
    let reached = |cell: &partition::Cell| {
        let met = (cell.first_percent - wanted).abs() <= near && cell.total >= 1.0 - lost;
        let is_faster = is_faster_than_alone(cell.total.recip(), (1.0 - lost).recip());
        (long && !(met && is_faster)).then_some(met)
    };
    let figure = |cell: &partition::Cell| {
        json!({
            "level": cell.level, "first_percent": cell.first_percent,
            "total_over_alone": cell.total, "cores": cell.processors, "reached": reached(cell),
        })
    };
    let figures: Vec<_> = cells.iter().map(figure).collect();
    let ours = cells.iter().filter(|cell| cell.level == Some(default));
    let missed = cells.iter().filter_map(|cell| {
        let level = cell.level.filter(|level| *level != default)?;
        (reached(cell) == Some(false)).then(|| format!("Lv{level} ({:.1} %)", cell.first_percent))
    });
    let missed = missed.collect();
    let results = json!({ "wanted_percent": wanted, "default": default, "levels": figures });
    let ours = ours.map(|cell| {
        let disturbed = disturbed(cell.total.recip(), (1.0 - lost).recip());
        let (percent, total) = (cell.first_percent, cell.total);
        let words = format!("{percent:.2} % of {total:.3} of one alone{disturbed}");
        (reached(cell), words)
    });
    Ok(by_default(results, &format!("Lv{default}"), ours.collect(), missed))
}

/// Row 7.3.3: what few commands in flight cost.
pub(crate) fn thresholds(record: &Value) -> Result<Judged, LabError> {
    let cells: Vec<threshold::Cell> = list(record, "cells")?;
    let least: Vec<threshold::Least> = list(record, "least")?;
    let rows = cells.iter().flat_map(|cell| cell.rows.iter().map(move |row| (cell.threshold, row)));
    let verdict = |(_, row): (u32, &overhead::Row)| {
        is_within(1.0 + row.overhead, 1.0 + OVERHEAD.1).filter(|_| row.row.samples >= ROUNDS)
    };
    let far = rows.clone().filter(|(count, row)| *count >= FROM && row.mode == Mode::Lv1);
    let figures: Vec<_> = rows
        .map(|(count, row)| {
            json!({
                "in_flight": count, "mode": row.mode, "command_us": row.command_ns as f64 / 1e3,
                "overhead_percent": row.overhead * 100.0
            })
        })
        .collect();
    let smallest = serde_json::to_value(&least).map_err(LabError::new)?;
    let results = json!({ "smallest_below_3_percent": smallest, "rows": figures });
    Ok(Judged::new(results, all(far.map(verdict))))
}

/// Row 7.4.1: what the runtime costs in time.
pub(crate) fn in_time(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<overhead::Row> = list(record, "rows")?;
    let lones: Vec<overhead::Lone> = list(record, "lone")?;
    let verdict = |row: &overhead::Row| {
        is_within(1.0 + row.overhead, 1.0 + OVERHEAD.0).filter(|_| row.row.samples >= ROUNDS)
    };
    let figures: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "mode": row.mode, "command_us": row.command_ns as f64 / 1e3,
                "row_p50_us": row.row.p50_us, "overhead_percent": row.overhead * 100.0
            })
        })
        .collect();
    let lone = |lone: &overhead::Lone| {
        let (time, added_us) = (&lone.time, lone.added_us);
        json!({
            "mode": lone.mode, "p50_us": time.p50_us, "p99_us": time.p99_us, "added_us": added_us
        })
    };
    let lone: Vec<_> = lones.iter().map(lone).collect();
    let judged = rows.iter().filter(|row| row.mode == Mode::Lv1).map(verdict);
    Ok(Judged::new(json!({ "rows": figures, "lone_command": lone }), all(judged)))
}

/// Row 7.4.2: what the runtime costs of the processor, over a plain stream, whose thread waits as
/// the driver has it wait.
pub(crate) fn in_processor(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<overhead::Row> = list(record, "rows")?;
    let default = default_mode(record)?;
    let plain = |row: &overhead::Row| {
        let same = |other: &&overhead::Row| {
            other.mode == Mode::Plain && other.command_ns == row.command_ns
        };
        let found = rows.iter().find(same).map(|plain| plain.processors);
        found.ok_or_else(|| LabError::new("there is no row of plain streams"))
    };
    let (mut figures, mut ours, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| row.mode != Mode::Plain) {
        let without = plain(row)?;
        let added = row.processors - without;
        let reached = (row.row.samples >= ROUNDS).then_some(added < PROCESSOR);
        let us = row.command_ns as f64 / 1e3;
        figures.push(json!({
            "mode": row.mode, "command_us": us, "without": without, "with": row.processors,
            "added": added, "reached": reached,
        }));
        if row.mode == default {
            ours.push((reached, format!("{added:+.3} of a core with {us} µs")));
        } else if reached == Some(false) {
            missed.push(format!("{} at {us} µs", row.mode));
        }
    }
    let idle = record.get("idle_processors").cloned().unwrap_or_default();
    let results = json!({ "default": default, "idle": idle, "rows": figures });
    Ok(by_default(results, &default.to_string(), ours, missed))
}

/// Row 8.3.1 with graphs in the shape of BERT: an urgent graph beside another, with gates at the
/// default spacing, or the next smaller one that was measured.
pub(crate) fn graphs(record: &Value) -> Result<Judged, LabError> {
    let pairs: Vec<graph::Pair> = list(record, "pairs")?;
    let (mut figures, mut verdicts, mut judged_at) = (Vec::new(), Vec::new(), Vec::new());
    let spacing = |way| match way {
        graph::GraphMode::Gates { spacing_ns } => Some(spacing_ns),
        _ => None,
    };
    for pair in &pairs {
        let default = u64::from(SPACING_US) * 1_000;
        let near =
            pair.cells.iter().filter_map(|cell| spacing(cell.way)).filter(|ns| *ns <= default);
        let near = near.max();
        for cell in &pair.cells {
            let reached = cell.p99_over_alone.and_then(|ratio| {
                (!is_faster_than_alone(ratio, graph::GOAL)).then_some(ratio <= graph::GOAL)
            });
            figures.push(json!({
                "model": pair.shape.name, "mode": cell.way.label(),
                "p99_over_alone": cell.p99_over_alone, "throughput": cell.throughput,
                "reached": reached,
            }));
            if near.is_some() && spacing(cell.way) == near {
                let ratio = cell.p99_over_alone.unwrap_or(f64::NAN);
                let disturbed = disturbed(ratio, graph::GOAL);
                let (name, label) = (&pair.shape.name, cell.way.label());
                judged_at.push(format!("{name}, {label}: {ratio:.3}{disturbed}"));
                verdicts.push(reached);
            }
        }
    }
    let held = record.pointer("/held/rows").and_then(Value::as_array);
    let held: Vec<Value> = held.into_iter().flatten().map(held_graph).collect();
    let judged = Judged::new(json!({ "pairs": figures, "held": held }), all(verdicts));
    let judged = judged.noting(format!("judged: {}", judged_at.join(", ")));
    let errors: Vec<String> = list(record, "errors")?;
    Ok(errors.into_iter().fold(judged, Judged::noting))
}

/// A graph that was held at random moments.
fn held_graph(row: &Value) -> Value {
    let of = |pointer: &str| row.pointer(pointer).cloned().unwrap_or_default();
    let number = |pointer: &str| of(pointer).as_f64().unwrap_or(f64::NAN);
    json!({
        "gates_in_the_graph": graph::spacing_label(of("/spacing_ns").as_u64()),
        "gates": of("/gates"), "holds": of("/quiet/samples"), "quiet_p50_us": of("/quiet/p50_us"),
        "quiet_p99_us": of("/quiet/p99_us"), "quiet_max_us": of("/quiet/max_us"),
        "bound_us": number("/bound_ns") / 1e3, "started": of("/started_most"), "idle": of("/idle"),
        "ran_on": of("/ran_on"), "graph_p50_us": of("/alone/p50_us"),
        "cost_percent": (number("/over_none") - 1.0) * 100.0,
    })
}

/// Rows 5.1 and 5.2 with kernels in the shape of BERT-base: what of a request is the host's.
pub(crate) fn requests(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<requests::Row> = list(record, "rows")?;
    let ms = |us: f64| us / 1e3;
    let row = |row: &requests::Row| {
        let (whole, submit) = (&row.whole, &row.submit);
        json!({
            "mode": row.mode, "launched_as": row.form, "threads": row.threads,
            "processes": row.processes.max(1), "samples": whole.samples,
            "mean_ms": ms(whole.mean_us), "p50_ms": ms(whole.p50_us), "p95_ms": ms(whole.p95_us),
            "p99_ms": whole.p99_us.map(ms), "max_ms": ms(whole.max_us),
            "launches_mean_ms": ms(submit.mean_us), "launches_max_ms": ms(submit.max_us),
            "rest_mean_ms": ms(row.rest.mean_us), "requests_per_s": row.per_second,
        })
    };
    let figures: Vec<_> = rows.iter().map(row).collect();
    let left_out: Vec<(String, String)> = list(record, "left_out")?;
    let left_out = left_out.into_iter().map(|(what, why)| format!("left out: {what}: {why}"));
    let judged = Judged::new(json!({ "threads": figures }), None);
    Ok(left_out.fold(judged, Judged::noting).noting(
        "beside it, measured on an MI308X with PyTorch: one thread 6.37 ms; three 12.34, 13.63 \
         and 13.63 ms (means), 88.8 requests/s. These kernels are shaped as on an H200",
    ))
}

/// The device file, which has no goal.
pub(crate) fn calibration(record: &Value) -> Result<Judged, LabError> {
    let keys = [
        "launch",
        "submit",
        "lone",
        "lone_queue",
        "row",
        "row_queue",
        "row_gates",
        "task",
        "task_queue",
        "oversleep",
    ];
    let mut figures = Map::new();
    let mut times = Vec::new();
    for (key, time) in keys.into_iter().filter_map(|key| Some((key, record.get(key)?))) {
        figures.insert(format!("{key}_p50_us"), time["p50_us"].clone());
        times.push(with_name(key, time));
    }
    for held in record.get("holds").and_then(Value::as_array).into_iter().flatten() {
        for what in ["detect", "resume"] {
            times.push(with_name(&format!("Lv{}, {what}", held["level"]), &held[what]));
        }
    }
    figures.insert("one_queue_at_a_time".to_owned(), times.into());
    let judged = Judged::new(Value::Object(figures), None);
    Ok(judged.noting("raw/calibrate.toml describes the device to the simulator"))
}

/// Quantiles with a name.
fn with_name(what: &str, time: &Value) -> Value {
    let mut row = time.as_object().cloned().unwrap_or_default();
    row.insert("what".to_owned(), what.into());
    row.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(p50: f64, p99: f64, samples: usize) -> Value {
        let tail = (samples >= P99_SAMPLES).then_some(p99);
        json!({
            "samples": samples, "mean_us": p50, "min_us": p50, "p50_us": p50, "p90_us": p50,
            "p95_us": p99, "p99_us": tail, "max_us": p99
        })
    }

    fn row(mode: &str, level: u8, command_ns: u64, p99: f64, samples: usize) -> Value {
        let reached = (samples >= P99_SAMPLES).then_some(true);
        json!({
            "mode": mode, "level": level, "command_ns": command_ns, "threshold": 8,
            "quiet": quantiles(p99 / 2.0, p99, samples), "detect": quantiles(1.0, 2.0, samples),
            "restart": quantiles(1.0, 2.0, samples), "uncertain_us": 0.0, "ran_on": 0,
            "goal": { "what": "short", "reached": reached }
        })
    }

    fn rows(lv3: f64, samples: usize) -> Value {
        json!({ "rows": [
            row("lv1", 1, 500_000, 4_000.0, samples), row("lv3", 3, 500_000, lv3, samples),
            row("lv3", 3, 2_000_000, lv3, samples)
        ]})
    }

    #[test]
    fn an_interrupt_has_to_be_below_100_us_and_40_times_sooner() {
        for (lv3, pass) in [(50.0, true), (99.0, true), (101.0, false)] {
            assert_eq!(per_level(&rows(lv3, 1_000)).unwrap().pass, Some(pass), "{lv3}");
            assert_eq!(per_length(&rows(lv3, 1_000)).unwrap().pass, Some(pass), "{lv3}");
            assert_eq!(interrupt(&rows(lv3, 1_000)).unwrap().pass, Some(pass), "{lv3}");
        }
        let near = json!({ "rows": [
            row("lv1", 1, 500_000, 3_000.0, 1_000), row("lv3", 3, 500_000, 90.0, 1_000)
        ]});
        assert_eq!(interrupt(&near).unwrap().pass, Some(false), "33 times");
        let steep = json!({ "rows": [
            row("lv1", 1, 500_000, 4_000.0, 1_000), row("lv3", 3, 500_000, 20.0, 1_000),
            row("lv3", 3, 2_000_000, 60.0, 1_000)
        ]});
        assert_eq!(interrupt(&steep).unwrap().pass, Some(false), "it depends on the length");
    }

    #[test]
    fn few_samples_give_no_verdict_and_no_lv3_is_said() {
        assert_eq!(per_level(&rows(50.0, 100)).unwrap().pass, None);
        assert_eq!(interrupt(&rows(50.0, 100)).unwrap().pass, None);
        let without = json!({ "rows": [row("lv1", 1, 500_000, 4_000.0, 1_000)] });
        assert!(per_level(&without).unwrap().notes[0].contains("no Lv3"));
        assert_eq!(interrupt(&without).unwrap(), Judged::not_run("the device has no Lv3"));
        assert_eq!(per_level(&json!({})).unwrap().pass, None, "nothing is no success");
        assert!(per_level(&json!({ "rows": [1] })).is_err());
    }

    fn cuda() -> Value {
        json!({ "hal": "cuda", "level": 2 })
    }

    #[test]
    fn what_a_user_gets_by_default_counts_at_the_plans_load() {
        let cell = |mode: &str, ratio: f64, share: f64| {
            json!({
                "mode": mode, "background_ns": 1_000, "waves": 1, "p99_over_alone": ratio,
                "foreground": quantiles(1.0, 1.0, 1_000), "background_share": share,
                "processors": 1.0
            })
        };
        let record = |pause_ns: u64, cells: &[Value]| {
            let foreground = json!({
                "commands": 50, "command_ns": 100_000, "pause_ns": [pause_ns, pause_ns],
                "samples": 1_000
            });
            json!({ "device": cuda(), "plan": { "foreground": foreground }, "cells": cells })
        };
        let judge = |ratio, share| {
            let others = [cell("plain", 2.0, 0.8), cell("lv1", 1.5, 0.8), cell("gate", 1.01, 0.7)];
            let cells = [&others[..], &[cell("gate@300", ratio, share)]].concat();
            fixed_priority(&record(20_000_000, &cells)).unwrap()
        };
        let good = judge(1.1, 0.78);
        assert_eq!(good.pass, Some(true));
        assert_eq!(good.results["cells"].as_array().unwrap().len(), 4, "all are printed");
        assert!(good.notes[1].contains("lv1 at 1 µs"), "{:?}", good.notes);
        assert_eq!(judge(1.31, 0.78).pass, Some(false), "that another mode is better is no excuse");
        assert_eq!(judge(1.1, 0.39).pass, Some(false), "the background hardly runs");
        let faster = judge(0.54, 0.78);
        assert_eq!(faster.pass, None, "the run alone was disturbed");
        assert!(faster.notes[0].contains("faster than alone"), "{:?}", faster.notes);
        assert_eq!(judge(0.54, 0.39).pass, Some(false), "the background hardly runs");
        let busy = record(5_000_000, &[cell("gate@300", 1.1, 0.5)]);
        let busy = fixed_priority(&busy).unwrap();
        assert_eq!(busy.pass, None);
        assert!(busy.notes[1].contains("50 %"), "{:?}", busy.notes);
        let without = fixed_priority(&record(20_000_000, &[cell("gate", 1.1, 0.7)])).unwrap();
        assert_eq!(without.pass, None, "{:?}", without.notes);
    }

    #[test]
    fn parts_are_near_and_little_is_lost_at_the_level_that_is_the_default() {
        let record = |first: f64, total: f64, ms: u64| {
            let cell = |level: u8, first: f64| {
                json!({
                    "level": level, "first_percent": first, "total": total,
                    "counted": [0.0, 0.0], "processors": 1.0
                })
            };
            json!({
                "device": cuda(), "plan": { "shares": [75, 25], "measured_ms": ms },
                "cells": [cell(1, 84.2), cell(2, first)]
            })
        };
        let good = parts(&record(79.9, 0.99, 4_000)).unwrap();
        assert_eq!(good.pass, Some(true));
        assert!(good.notes[1].contains("Lv1 (84.2 %)"), "{:?}", good.notes);
        assert_eq!(parts(&record(80.1, 0.99, 4_000)).unwrap().pass, Some(false));
        assert_eq!(parts(&record(75.0, 0.98, 4_000)).unwrap().pass, Some(false));
        assert_eq!(parts(&record(75.0, 0.99, 1_000)).unwrap().pass, None);
        let faster = parts(&record(75.0, 1.2, 4_000)).unwrap();
        assert_eq!(faster.pass, None, "the run alone was disturbed");
        assert!(faster.notes[0].contains("faster than alone"), "{:?}", faster.notes);
    }

    #[test]
    fn overheads_have_their_limits() {
        let row = |mode: &str, overhead: f64, processors: f64| {
            json!({
                "mode": mode, "command_ns": 10_000, "commands": 1, "overhead": overhead,
                "row": quantiles(1.0, 1.0, 21), "processors": processors
            })
        };
        let record = |overhead: f64, processors: f64| {
            let mut short = row("gate@300", overhead, processors);
            short["command_ns"] = json!(1_000);
            let mut plain = row("plain", 0.0, 1.0);
            plain["command_ns"] = json!(1_000);
            let rows = [
                row("plain", 0.0, 1.0),
                row("lv1", overhead, 1.2),
                row("gate@300", 0.0, 0.1),
                plain,
                short,
            ];
            json!({ "device": cuda(), "rows": rows })
        };
        assert_eq!(in_time(&record(0.03, 1.0)).unwrap().pass, Some(true));
        assert_eq!(in_time(&record(0.04, 1.0)).unwrap().pass, Some(false));
        assert_eq!(in_time(&record(-0.04, 1.0)).unwrap().pass, None, "faster than a plain stream");
        assert_eq!(in_processor(&record(0.0, 1.04)).unwrap().pass, Some(true));
        assert_eq!(in_processor(&record(0.0, 1.06)).unwrap().pass, Some(false));
        let cells = |overhead: f64| {
            json!({ "cells": [
                { "threshold": 4, "batch": 1, "rows": [row("lv1", 0.5, 1.0)] },
                { "threshold": 10, "batch": 1, "rows": [row("lv1", overhead, 1.0)] }
            ]})
        };
        assert_eq!(thresholds(&cells(0.009)).unwrap().pass, Some(true));
        assert_eq!(thresholds(&cells(0.011)).unwrap().pass, Some(false));
        assert_eq!(thresholds(&cells(-0.02)).unwrap().pass, None, "faster than a plain stream");
    }

    #[test]
    fn graphs_are_judged_by_the_default_spacing() {
        let cell = |way: &str, us: u64, ratio: f64| {
            json!({
                "way": { "way": way, "spacing_ns": us * 1_000 }, "gates": 0,
                "p99_over_alone": ratio,
                "urgent": quantiles(1.0, 1.0, 1_000), "throughput": 1.0, "processors": 0.1
            })
        };
        let shape = json!({
            "name": "bert", "kernels": 1, "p50_ns": 1, "p99_ns": 1, "max_ns": 1, "total_ns": 1
        });
        let record = |gates: f64| {
            json!({ "pairs": [{
                "shape": shape, "alone_per_s": 1.0,
                "cells": [
                    cell("plain", 0, 1.9), cell("gates", 0, 1.0), cell("gates", 200, gates),
                    cell("gates", 400, 3.0)
                ]
            }]})
        };
        assert_eq!(graphs(&record(1.05)).unwrap().pass, Some(true));
        assert_eq!(graphs(&record(1.15)).unwrap().pass, Some(false));
        let faster = graphs(&record(0.54)).unwrap();
        assert_eq!(faster.pass, None);
        assert!(faster.notes[0].contains("faster than alone"), "{:?}", faster.notes);
    }
}
