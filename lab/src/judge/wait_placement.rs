//! Verdicts on `bench placement`.

use serde_json::{Value, json};

use super::{Judged, all, list};
use crate::device::LabError;
use crate::wait_placement::{First, Rings, Row};

/// Adds the notes on the whole.
fn noted(record: &Value, judged: Judged) -> Result<Judged, LabError> {
    let left_out: Vec<(String, String)> = list(record, "left_out")?;
    let left_out = left_out.into_iter().map(|(what, why)| format!("left out: {what}: {why}"));
    let stopped = record.get("stopped").and_then(Value::as_str);
    let stopped = stopped.map(|why| format!("stopped: {why}"));
    Ok(left_out.chain(stopped).fold(judged, Judged::noting))
}

/// Waits for words in all places: nothing may pass one that is not 0, and nothing may be stuck.
pub(crate) fn words(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<Row> = list(record, "words")?;
    let figure = |row: &Row| {
        let some = row.latency.samples > 0;
        json!({
            "place": row.place, "written_by": row.written_by, "samples": row.latency.samples,
            "p50_us": some.then_some(row.latency.p50_us), "p99_us": row.latency.p99_us,
            "max_us": some.then_some(row.latency.max_us), "unsure_us": row.unsure_us,
            "host_sees_p50_us": some.then_some(row.seen.p50_us),
            "ran_while_closed": row.passed, "error": row.error,
        })
    };
    let figures: Vec<Value> = rows.iter().map(figure).collect();
    let used = rows.iter().filter(|row| !row.trials.is_empty());
    let held = used.map(|row| Some(row.passed == 0));
    let stopped = record.get("stopped").filter(|why| !why.is_null());
    let pass = all(held.chain(stopped.map(|_| Some(false))));
    let lowering = record.get("lowering").cloned().unwrap_or_default();
    let results = json!({ "places": figures, "a_wait_becomes": lowering });
    noted(record, Judged::new(results, pass))
}

/// Calls while a stream is held at its gate, which has no goal.
pub(crate) fn firsts(record: &Value) -> Result<Judged, LabError> {
    let rows: Vec<First> = list(record, "firsts")?;
    let figure = |row: &First| {
        let some = row.time.samples > 0;
        json!({
            "call": row.call, "a_stream_is_held": row.held, "samples": row.time.samples,
            "p50_us": some.then_some(row.time.p50_us), "p95_us": some.then_some(row.time.p95_us),
            "max_us": some.then_some(row.time.max_us), "waited_for_the_stream": row.blocked,
            "error": row.error,
        })
    };
    let figures: Vec<Value> = rows.iter().map(figure).collect();
    noted(record, Judged::new(json!({ "calls": figures }), None))
}

/// Judges which stream stops which: those with rings of their own neither stop others nor are
/// stopped.
pub(crate) fn rings(record: &Value) -> Result<Judged, LabError> {
    let found = record.get("rings").filter(|rings| !rings.is_null()).cloned();
    let Some(found) = found else {
        let judged = Judged::new(json!({ "streams": [] }), None);
        return noted(record, judged);
    };
    let rings: Rings = serde_json::from_value(found)
        .map_err(|error| LabError::new(format!("`rings` is not as expected: {error}")))?;
    let stopped = rings.stopped();
    let figure = |stream: &crate::wait_placement::Stream| {
        let by = |gate: bool| -> Vec<&str> {
            let mine = stopped.iter().filter(|(held, ..)| *held == stream.name);
            mine.filter(|(.., how)| (*how == "gate") == gate).map(|(_, other, _)| *other).collect()
        };
        json!({
            "stream": stream.name, "queue": stream.queue, "no_queue": stream.no_queue,
            "stops_at_its_gate": by(true).join(", "), "stops_by_the_driver": by(false).join(", "),
        })
    };
    let figures: Vec<Value> = rings.streams.iter().map(figure).collect();
    let loose = rings.pairs.iter().filter(|pair| !pair.was_held).count();
    let results = json!({ "streams": figures, "pairs": rings.pairs.len(), "not_held": loose });
    noted(record, Judged::new(results, rings.own_is_own()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles() -> Value {
        json!({
            "samples": 1, "mean_us": 1.0, "min_us": 1.0, "p50_us": 1.0, "p90_us": 1.0,
            "p95_us": 1.0, "p99_us": null, "max_us": 1.0
        })
    }

    fn word(passed: u32) -> Value {
        let trial = json!({
            "launched_ns": 0, "open_ns": 1, "opened_ns": 2, "first_ns": 3, "unsure_ns": 0,
            "seen_ns": 4, "passed": passed > 0
        });
        json!({
            "place": "host", "written_by": "the host", "latency": quantiles(),
            "seen": quantiles(), "unsure_us": 0.1, "passed": passed, "trials": [trial],
            "error": null
        })
    }

    #[test]
    fn nothing_may_pass_a_closed_gate() {
        let judge = |rows: Value, stopped: Value| {
            words(&json!({ "words": rows, "stopped": stopped })).unwrap()
        };
        assert_eq!(judge(json!([word(0)]), Value::Null).pass, Some(true));
        assert_eq!(judge(json!([word(0), word(1)]), Value::Null).pass, Some(false));
        assert_eq!(judge(json!([]), Value::Null).pass, None);
        let stuck = judge(json!([word(0)]), json!("it is stuck"));
        assert_eq!((stuck.pass, stuck.notes[0].as_str()), (Some(false), "stopped: it is stuck"));
        assert_eq!(stuck.results["places"][0]["p50_us"], 1.0);
    }

    #[test]
    fn calls_that_waited_are_listed() {
        let call = json!({
            "call": "copy", "held": true, "time": quantiles(), "series_ns": [1], "blocked": 2,
            "error": null
        });
        let left_out = json!([["holding", "no driver"]]);
        let judged = firsts(&json!({ "firsts": [call], "left_out": left_out })).unwrap();
        assert_eq!(judged.results["calls"][0]["waited_for_the_stream"], 2);
        assert_eq!(
            (judged.pass, &*judged.notes),
            (None, &["left out: holding: no driver".into()][..])
        );
    }

    #[test]
    fn a_ring_that_is_shared_by_a_stream_with_its_own_is_a_finding() {
        let stream = |name: &str, ring: &str| json!({ "name": name, "ring": ring, "queue": 1, "no_queue": null });
        let judge = |took: Value| {
            let pair = |held: u32, took: &Value| {
                json!({
                    "by": "gate", "held": held, "other": 1 - held, "took_ns": took,
                    "was_held": true
                })
            };
            let streams = [stream("own 0", "own"), stream("shared 0", "shared")];
            let pairs = [pair(0, &took), pair(1, &json!(5))];
            let rings = json!({ "streams": streams, "pairs": pairs, "not_by_the_driver": null });
            rings_of(rings)
        };
        assert_eq!(judge(json!(7)).pass, Some(true));
        let bad = judge(Value::Null);
        assert_eq!(bad.pass, Some(false));
        assert_eq!(bad.results["streams"][0]["stops_at_its_gate"], "shared 0");
        assert_eq!(rings(&json!({ "rings": null })).unwrap().pass, None);
    }

    fn rings_of(found: Value) -> Judged {
        rings(&json!({ "rings": found })).unwrap()
    }
}
