//! `bench interrupt`: how long an interrupt and its end take, in each combination.

use serde::Deserialize;
use xsched_sim::report::{Bar, Bars, Chart, Plot};

use crate::error::CommandError;
use crate::interrupt::cells::{Cell, Combination};
use crate::record::read;
use crate::stats::Quantiles;

#[derive(Debug, Deserialize)]
struct Record {
    cells: Vec<Cell>,
}

fn name(combination: &Combination) -> String {
    let Combination { load, queues, processes, .. } = combination;
    let queues = if *queues > 1 { format!(" x{queues}") } else { String::new() };
    let beside = if *processes > 0 { format!(" +{processes}") } else { String::new() };
    format!("{} {}{queues}{beside}", load.kind, load.share)
}

/// What is drawn of a cell.
type Figure = fn(&Cell) -> &Quantiles;

const FIGURES: [(&str, Figure); 4] = [
    ("victim quiet", |cell| &cell.quiet),
    ("hold in effect", |cell| &cell.hold),
    ("winner starts", |cell| &cell.start),
    ("end of the hold in effect", |cell| &cell.resume),
];

/// The figures of a record: one for each mechanism.
pub(crate) fn charts(text: &str, device: &str, place: &str) -> Result<Vec<Chart>, CommandError> {
    let Record { cells } = read(text, place)?;
    let mechanisms = super::different(cells.iter().map(|cell| cell.combination.mechanism.clone()));
    let chart = |mechanism: String| {
        let is_ours = |cell: &&Cell| cell.combination.mechanism == mechanism;
        let ours: Vec<&Cell> = cells.iter().filter(is_ours).collect();
        let bar = |(name, figure): (&str, Figure)| {
            let tail = |cell: &&Cell| figure(cell).p99_us.or(Some(figure(cell).max_us));
            Bar::new(name, ours.iter().map(tail).collect(), &[])
        };
        let groups = ours.iter().map(|cell| name(&cell.combination)).collect();
        Chart {
            name: "interrupt",
            title: format!("P99 of interrupts by {mechanism} on {device} (of few trials: maximum)"),
            x: "kind and share of kernels, queues",
            y: "from the first call (µs)",
            plot: Plot::Bars(Bars::new(groups, FIGURES.into_iter().map(bar).collect())),
        }
    };
    Ok(mechanisms.into_iter().map(chart).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{drawn, has, quantiles};

    #[test]
    fn each_mechanism_has_its_figure() {
        let cell = |mechanism: &str, kind: &str, queues: u32| {
            let load = json!({ "kind": kind, "share": "full", "ns": 1 });
            let combination = json!({
                "mechanism": mechanism, "load": load, "queues": queues, "processes": queues / 4
            });
            let time = quantiles(20.0, 40.0);
            json!({
                "combination": combination, "quiet": time, "hold": time, "start": time,
                "resume": time, "restart": time, "ran_on": 0, "unsure_us": 0.1,
                "sums": { "finished": 1, "wrong": 0 }, "lost": 0
            })
        };
        let cells = [cell("update-queue", "alu", 1), cell("debug-trap", "lds", 4)];
        let svg = drawn("interrupt", "a device", json!({ "cells": cells }));
        has(&svg, &["update-queue on a device", "debug-trap", "alu full", "lds full x4 +1"]);
        has(&svg, &["victim quiet", "winner starts"]);
    }
}
