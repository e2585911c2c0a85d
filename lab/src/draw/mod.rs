//! Pictures of what benches have measured, drawn from what `--json` writes: so a record that was
//! written before is drawn in the same way.

mod bars;
mod interrupt;
mod preempt;
mod priority;
mod threshold;

use serde::Serialize;
use xsched_sim::report::{Chart, charts_svg};

use crate::error::CommandError;
use crate::record::{Head, read};

/// Draws what a bench has just measured. It takes what is written as JSON.
pub(crate) fn document(bench: &str, document: &impl Serialize) -> Result<String, CommandError> {
    let unread = |source| CommandError::BenchRecord { place: bench.to_owned(), source };
    let text = serde_json::to_string(document).map_err(unread)?;
    picture(&text, bench)
}

/// Refuses a bench that is not drawn, before it is run.
pub(crate) fn check(wanted: bool, bench: &str) -> Result<(), CommandError> {
    if wanted && !DRAWN.iter().any(|(name, _)| *name == bench) {
        return Err(CommandError::NotDrawn { place: "--svg".to_owned(), bench: bench.to_owned() });
    }
    Ok(())
}

/// Makes the figures of a record, given its text, the device's name and the record's place.
type Draw = fn(&str, &str, &str) -> Result<Vec<Chart>, CommandError>;

/// The benches that are drawn.
const DRAWN: [(&str, Draw); 7] = [
    ("interrupt", interrupt::charts),
    ("fixed-priority", priority::charts),
    ("preempt", preempt::charts),
    ("overhead", bars::overhead),
    ("partition", bars::partition),
    ("graphs", bars::graphs),
    ("threshold", threshold::charts),
];

/// The picture of a record.
pub(crate) fn picture(text: &str, place: &str) -> Result<String, CommandError> {
    let head: Head = read(text, place)?;
    let drawn = DRAWN.iter().find(|(name, _)| *name == head.bench);
    let refused = || CommandError::NotDrawn { place: place.to_owned(), bench: head.bench.clone() };
    let (_, charts) = drawn.ok_or_else(refused)?;
    Ok(charts_svg(&charts(text, &head.device.device, place)?)?)
}

/// All different values, in the order in which they come first.
fn different<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// A time for people: microseconds, or milliseconds where those are round.
fn length(ns: u64) -> String {
    match ns {
        1_000_000.. if ns.is_multiple_of(1_000_000) => format!("{} ms", ns / 1_000_000),
        _ => format!("{} µs", ns as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The record of a bench with these parts, drawn.
    pub(crate) fn drawn(bench: &str, device: &str, mut parts: Value) -> String {
        parts["bench"] = bench.into();
        parts["device"] = json!({ "device": device });
        let svg = picture(&parts.to_string(), "a record").unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        svg
    }

    pub(crate) fn has(svg: &str, all: &[&str]) {
        for words in all {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }

    /// Quantiles of 1000 samples.
    pub(crate) fn quantiles(p50_us: f64, p99_us: f64) -> Value {
        json!({
            "samples": 1000, "mean_us": p50_us, "min_us": p50_us, "p50_us": p50_us,
            "p90_us": p50_us, "p95_us": p99_us, "p99_us": p99_us, "max_us": p99_us
        })
    }

    #[test]
    fn what_is_no_record_or_not_drawn_is_refused() {
        let error = picture("{}", "a.json").unwrap_err().to_string();
        assert!(error.contains("a.json: not a record of a bench"), "{error}");
        let other = json!({ "bench": "calibrate", "device": { "device": "a" } }).to_string();
        let error = picture(&other, "a.json").unwrap_err().to_string();
        assert!(error.contains("`bench calibrate`") && error.contains("threshold"), "{error}");
        assert!(check(true, "calibrate").is_err());
        assert!(check(false, "calibrate").is_ok() && check(true, "graphs").is_ok());
    }

    #[test]
    fn lengths_are_short() {
        assert_eq!(length(500_000), "500 µs");
        assert_eq!(length(518_230), "518.23 µs");
        assert_eq!(length(2_000_000), "2 ms");
    }
}
