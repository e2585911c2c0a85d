//! Verdicts on `bench interrupt`.

use serde_json::{Value, json};

use super::{INTERRUPT_US, Judged, all, list};
use crate::device::LabError;
use crate::interrupt::canary::Step;
use crate::interrupt::cells::{Cell, Combination, Storm};
use crate::interrupt::meanwhile::Row;
use crate::stats::P99_SAMPLES;

/// Interrupts after which results have to be right.
const INTERRUPTS: u64 = 100_000;

/// Adds the notes on the whole: why it ended early, and what failed.
fn noted(record: &Value, judged: Judged) -> Result<Judged, LabError> {
    let words = |key: &str| record.get(key).and_then(Value::as_str);
    let failures: Vec<(Combination, String)> = list(record, "failures")?;
    let failures = failures.into_iter().map(|(combination, why)| {
        let Combination { mechanism, load, queues, .. } = combination;
        format!("{mechanism}, {}, {}, {queues} queues: {why}", load.kind, load.share)
    });
    let stopped = words("stopped").map(|why| format!("stopped: {why}"));
    let left_out: Vec<String> = list(record, "left_out")?;
    let left_out = (!left_out.is_empty())
        .then(|| format!("no time was left for {} combinations", left_out.len()));
    let unread = words("log_unread").map(|why| format!("the kernel's log was not watched: {why}"));
    Ok(failures.chain(stopped).chain(unread).chain(left_out).fold(judged, Judged::noting))
}

/// Nothing of what was begun may have failed.
fn is_whole(record: &Value) -> bool {
    let failures = record.get("failures").and_then(Value::as_array);
    record.get("stopped").is_none_or(Value::is_null) && failures.is_none_or(Vec::is_empty)
}

/// The careful steps.
pub(crate) fn canary(record: &Value) -> Result<Judged, LabError> {
    let steps: Vec<Step> = list(record, "canary")?;
    let row = |step: &Step| {
        let Step { mechanism, what, stopped } = step;
        json!({ "mechanism": mechanism, "what": what, "stopped": stopped })
    };
    let rows: Vec<Value> = steps.iter().map(row).collect();
    let pass = all(steps.iter().map(|step| Some(step.stopped.is_none())));
    noted(record, Judged::new(json!({ "steps": rows }), pass))
}

/// Latencies in all combinations.
pub(crate) fn latency(record: &Value) -> Result<Judged, LabError> {
    let cells: Vec<Cell> = list(record, "cells")?;
    let row = |cell: &Cell| {
        let Cell { combination, quiet, hold, start, resume, restart, ran_on, sums, lost, .. } =
            cell;
        let Combination { mechanism, load, queues, processes } = combination;
        json!({
            "mechanism": mechanism, "kind": load.kind, "share": load.share, "queues": queues,
            "processes": processes, "samples": quiet.samples,
            "quiet_p50_us": quiet.p50_us, "quiet_p99_us": quiet.p99_us,
            "quiet_max_us": quiet.max_us, "hold_p50_us": hold.p50_us, "hold_p99_us": hold.p99_us,
            "start_p50_us": start.p50_us, "start_p99_us": start.p99_us,
            "resume_p50_us": resume.p50_us, "resume_p99_us": resume.p99_us,
            "restart_p50_us": restart.p50_us, "restart_p99_us": restart.p99_us, "ran_on": ran_on,
            "wrong": sums.wrong, "lost": lost,
        })
    };
    let rows: Vec<Value> = cells.iter().map(row).collect();
    let verdict = |cell: &Cell| {
        let right = cell.sums.wrong == 0 && cell.lost == 0;
        if !cell.combination.load.kind.is_in_its_ring() {
            return Some(right);
        }
        let soon = cell.quiet.p99_us.map(|p99| p99 < INTERRUPT_US);
        if right && cell.ran_on == 0 { soon } else { Some(false) }
    };
    let whole = if is_whole(record) { None } else { Some(Some(false)) };
    let pass = all(cells.iter().map(verdict).chain(whole));
    let mut judged = noted(record, Judged::new(json!({ "combinations": rows }), pass))?;
    if cells.iter().any(|cell| cell.quiet.samples < P99_SAMPLES) {
        judged = judged.noting("a P99 needs 1000 trials");
    }
    Ok(elsewhere(&cells).into_iter().fold(judged, Judged::noting))
}

/// Returns the note on kernels that are not in the queue's ring.
fn elsewhere(cells: &[Cell]) -> Option<String> {
    let cells = cells.iter().filter(|cell| !cell.combination.load.kind.is_in_its_ring());
    let (ran_on, trials) = cells
        .fold((0, 0), |(ran_on, trials), cell| (ran_on + cell.ran_on, trials + cell.quiet.samples));
    let note = format!(
        "cooperative kernels ran on in {ran_on} of {trials} trials; they are launched into a ring \
         of the device's own, which is not the queue's, so this is not judged"
    );
    (trials > 0).then_some(note)
}

/// Results after many interrupts.
pub(crate) fn results(record: &Value) -> Result<Judged, LabError> {
    let storms: Vec<Storm> = list(record, "storms")?;
    let row = |storm: &Storm| {
        let Storm { combination, interrupts, sums, lost, stopped } = storm;
        json!({
            "mechanism": combination.mechanism, "kind": combination.load.kind,
            "interrupts": interrupts, "commands": sums.finished, "wrong": sums.wrong,
            "lost": lost, "stopped": stopped,
        })
    };
    let rows: Vec<Value> = storms.iter().map(row).collect();
    let total: u64 = storms.iter().map(|storm| u64::from(storm.interrupts)).sum();
    let pass = match storms.iter().all(Storm::is_right) && is_whole(record) {
        false => Some(false),
        true => (total >= INTERRUPTS).then_some(true),
    };
    noted(record, Judged::new(json!({ "interrupts": total, "kinds": rows }), pass))
}

/// Other calls meanwhile.
pub(crate) fn meanwhile(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<Row> = list(record, "meanwhile")?;
    let row = |row: &Row| {
        let Row { call, state, time, blocked, error } = row;
        let some = time.samples > 0;
        json!({
            "call": call, "victims": state, "samples": time.samples,
            "p50_us": some.then_some(time.p50_us), "p95_us": some.then_some(time.p95_us),
            "max_us": some.then_some(time.max_us), "waited_for_the_victims": blocked,
            "error": error,
        })
    };
    let figures: Vec<Value> = rows.iter().map(row).collect();
    let traits = record.get("traits").cloned().unwrap_or_default();
    let judged = Judged::new(json!({ "calls": figures, "how_streams_wait": traits }), None);
    noted(record, judged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(p99: f64, samples: usize) -> Value {
        let tail = (samples >= P99_SAMPLES).then_some(p99);
        json!({
            "samples": samples, "mean_us": p99, "min_us": p99, "p50_us": p99, "p90_us": p99,
            "p95_us": p99, "p99_us": tail, "max_us": p99
        })
    }

    fn combination() -> Value {
        let load = json!({ "kind": "lds", "share": "full", "ns": 1 });
        json!({ "mechanism": "update-queue", "load": load, "queues": 4, "processes": 0 })
    }

    fn cell(p99: f64, samples: usize, ran_on: u64) -> Value {
        let time = quantiles(p99, samples);
        json!({
            "combination": combination(), "quiet": time, "hold": time, "start": time,
            "resume": time, "restart": time, "ran_on": ran_on, "unsure_us": 0.1,
            "sums": { "finished": 9, "wrong": 0 }, "lost": 0
        })
    }

    fn storm(interrupts: u64, wrong: u64, lost: i64) -> Value {
        json!({
            "combination": combination(), "interrupts": interrupts, "lost": lost,
            "sums": { "finished": 9, "wrong": wrong }, "stopped": null
        })
    }

    #[test]
    fn every_step_of_the_canary_has_to_be_passed() {
        let step = |stopped: Option<&str>| json!({ "mechanism": "m", "what": "one interrupt", "stopped": stopped });
        let good = json!({ "canary": [step(None)], "stopped": null });
        assert_eq!(canary(&good).unwrap().pass, Some(true));
        let bad = json!({ "canary": [step(None), step(Some("a line"))], "stopped": "a line" });
        let judged = canary(&bad).unwrap();
        assert_eq!((judged.pass, judged.notes[0].as_str()), (Some(false), "stopped: a line"));
        assert_eq!(canary(&json!({})).unwrap().pass, None, "no step was taken");
    }

    #[test]
    fn interrupts_are_soon_and_nothing_runs_on() {
        let judge = |cell: Value| latency(&json!({ "cells": [cell] })).unwrap().pass;
        assert_eq!(judge(cell(99.0, 1_000, 0)), Some(true));
        assert_eq!(judge(cell(101.0, 1_000, 0)), Some(false));
        assert_eq!(judge(cell(50.0, 1_000, 1)), Some(false));
        assert_eq!(judge(cell(50.0, 10, 0)), None);
        let failures = json!([[combination(), "it hung"]]);
        let failed = json!({ "cells": [cell(50.0, 1_000, 0)], "failures": failures });
        let judged = latency(&failed).unwrap();
        assert_eq!(judged.pass, Some(false));
        assert!(judged.notes[0].contains("lds, full, 4 queues: it hung"), "{:?}", judged.notes);
    }

    #[test]
    fn cooperative_kernels_are_judged_by_their_results_alone() {
        let mut cooperative = cell(5_000.0, 1_000, 9);
        cooperative["combination"]["load"]["kind"] = json!("cooperative");
        let judge = |cell: &Value| latency(&json!({ "cells": [cell] })).unwrap();
        let judged = judge(&cooperative);
        assert_eq!(judged.pass, Some(true));
        assert!(judged.notes[0].contains("ran on in 9 of 1000"), "{:?}", judged.notes);
        cooperative["sums"]["wrong"] = json!(1);
        assert_eq!(judge(&cooperative).pass, Some(false));
    }

    #[test]
    fn a_hundred_thousand_interrupts_change_no_result() {
        let judge = |storms: Value| results(&json!({ "storms": storms })).unwrap().pass;
        assert_eq!(judge(json!([storm(60_000, 0, 0), storm(40_000, 0, 0)])), Some(true));
        assert_eq!(judge(json!([storm(60_000, 0, 0)])), None, "too few to say");
        assert_eq!(judge(json!([storm(100, 1, 0)])), Some(false));
        assert_eq!(judge(json!([storm(100, 0, -1)])), Some(false));
    }

    #[test]
    fn calls_meanwhile_are_listed() {
        let row = json!({
            "call": "copy", "state": "interrupted", "time": quantiles(1.0, 0), "blocked": 3,
            "error": null
        });
        let judged = meanwhile(&json!({ "meanwhile": [row], "log_unread": "no rights" })).unwrap();
        assert_eq!(judged.results["calls"][0]["waited_for_the_victims"], 3);
        assert_eq!(judged.results["calls"][0]["p50_us"], Value::Null);
        assert!(judged.notes[0].contains("not watched: no rights"));
    }
}
