//! Pictures of what benches have measured, drawn from what `--json` writes, so that kept records
//! are drawn alike.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use xsched_sim::report::{Bar, Bars, Chart, Line, Plot, charts_svg};

use crate::bench::graphs::{GOAL, GraphMode, Pair};
use crate::bench::{overhead, partition, preempt, priority, threshold};
use crate::device::mode::Mode;
use crate::error::CommandError;
use crate::interrupt::cells as interrupt;
use crate::record::{Head, read};

/// Draws what a bench has just measured. It takes what is written as JSON.
pub(crate) fn document(bench: &str, document: &impl Serialize) -> Result<String, CommandError> {
    let unread = |source| CommandError::BenchRecord { place: bench.to_owned(), source };
    let text = serde_json::to_string(document).map_err(unread)?;
    picture(&text, bench)
}

/// Refuses a bench that is not drawn, before it is run.
pub(crate) fn check(wanted: bool, bench: &str) -> Result<(), CommandError> {
    if wanted && !PICTURES.iter().any(|picture| picture.bench == bench) {
        return Err(CommandError::NotDrawn { place: "--svg".to_owned(), bench: bench.to_owned() });
    }
    Ok(())
}

/// The picture of a record.
pub(crate) fn picture(text: &str, place: &str) -> Result<String, CommandError> {
    let head: Head = read(text, place)?;
    check(true, &head.bench).map_err(|_| CommandError::NotDrawn {
        place: place.to_owned(),
        bench: head.bench.clone(),
    })?;
    let record: Record = read(text, place)?;
    let mut charts = Vec::new();
    for picture in PICTURES.iter().filter(|picture| picture.bench == head.bench) {
        let values = (picture.values)(&record)
            .map_err(|source| CommandError::BenchRecord { place: place.to_owned(), source })?;
        charts.extend(picture.charts(&values, &head.device.device));
    }
    Ok(charts_svg(&charts)?)
}

/// Record that a bench wrote.
type Record = Map<String, Value>;
/// Values of a record that are drawn.
type Values = Result<Vec<Drawn>, serde_json::Error>;

/// A value that is drawn: a bar, or a point of a line.
#[derive(Debug, Default, PartialEq)]
struct Drawn {
    /// Name of its own chart, if not all is in one.
    chart: String,
    /// Name in the legend.
    series: String,
    /// The group of bars, or where the point is.
    group: String,
    x: f64,
    y: Option<f64>,
    /// Place of its way among all, for the colour.
    place: Option<usize>,
    /// Set if the value meets its goal.
    is_met: Option<bool>,
    /// Samples that it is of, where it is of any.
    samples: Option<usize>,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// Bars, with a line through all.
    Bars {
        line: Option<(&'static str, f64)>,
    },
    /// Bars whose heights may be far apart.
    Log {
        line: Option<(&'static str, f64)>,
    },
    /// Bars on each other.
    Stacked,
    Lines,
}

/// A list of a record, as one chart or as one for each value of a key.
struct Picture {
    bench: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    style: Style,
    values: fn(&Record) -> Values,
}

/// Colours before the next shade or pattern.
const COLORS: usize = 7;

const QUIET: &str = "From a hold until the queue is quiet";

const PICTURES: [Picture; 8] = [
    Picture {
        bench: "preempt",
        title: QUIET,
        x: "length of commands",
        y: "quiet after (µs)",
        style: Style::Log { line: None },
        values: of_preempt,
    },
    Picture {
        bench: "fixed-priority",
        title: "P99 of a task beside a background",
        x: "length of the background's commands",
        y: "time / time alone",
        style: Style::Log { line: Some(("as alone", 1.0)) },
        values: of_priority,
    },
    Picture {
        bench: "overhead",
        title: "Overhead of rows of commands",
        x: "length of commands",
        y: "overhead (%)",
        style: Style::Bars { line: None },
        values: |record| Ok(list(record, "rows")?.iter().filter_map(of_overhead).collect()),
    },
    Picture {
        bench: "overhead",
        title: "What is added to the time of a lone tiny command (P50)",
        x: "",
        y: "added (µs)",
        style: Style::Bars { line: None },
        values: of_lone,
    },
    Picture {
        bench: "threshold",
        title: "Overhead of rows of commands",
        x: "commands in flight",
        y: "overhead (%)",
        style: Style::Lines,
        values: of_threshold,
    },
    Picture {
        bench: "partition",
        title: "Parts of two tasks",
        x: "",
        y: "part of what both got (%)",
        style: Style::Stacked,
        values: of_partition,
    },
    Picture {
        bench: "graphs",
        title: "An urgent graph beside another",
        x: "",
        y: "P99 / P99 alone",
        style: Style::Bars { line: Some(("goal", GOAL)) },
        values: of_graphs,
    },
    Picture {
        bench: "interrupt",
        title: "P99 of interrupts (of few trials: maximum)",
        x: "kind and share of kernels, queues",
        y: "from the first call (µs)",
        style: Style::Bars { line: None },
        values: of_interrupt,
    },
];

/// A list of a record; one that is not there is empty.
fn list<T: DeserializeOwned>(record: &Record, key: &str) -> Result<Vec<T>, serde_json::Error> {
    record.get(key).map_or(Ok(Vec::new()), Deserialize::deserialize)
}

/// The P50 and the P99 of each way, over the length of commands.
fn of_preempt(record: &Record) -> Values {
    let rows: Vec<preempt::Row> = list(record, "rows")?;
    let of = |row: &preempt::Row, figure: &str, y: Option<f64>| Drawn {
        chart: figure.to_owned(),
        series: format!("{}, {} in flight", row.mode.label(), row.threshold),
        group: length(row.command_ns),
        y: y.map(|us| us.max(LEAST_US)),
        place: Some(row.mode.place()),
        samples: Some(row.quiet.samples),
        ..Drawn::default()
    };
    let p50 = rows.iter().map(|row| of(row, "P50", Some(row.quiet.p50_us)));
    let p99 = rows.iter().map(|row| {
        let is_met = row.goal.reached;
        Drawn { is_met, ..of(row, "P99", row.quiet.p99_us) }
    });
    Ok(p50.chain(p99).collect())
}

/// The least that is drawn, in microseconds, on an axis that cannot have 0.
const LEAST_US: f64 = 0.1;

fn of_priority(record: &Record) -> Values {
    let cells: Vec<priority::Cell> = list(record, "cells")?;
    let of = |cell: &priority::Cell| Drawn {
        series: cell.mode.label(),
        place: Some(cell.mode.place()),
        group: match cell.waves {
            1 => length(cell.background_ns),
            waves => format!("{} × {waves} waves", length(cell.background_ns)),
        },
        y: cell.p99_over_alone,
        samples: Some(cell.foreground.samples),
        ..Drawn::default()
    };
    Ok(cells.iter().map(of).collect())
}

/// Nothing of plain streams, which the others are compared with.
fn of_overhead(row: &overhead::Row) -> Option<Drawn> {
    (row.mode != Mode::Plain).then(|| Drawn {
        series: row.mode.label(),
        place: Some(row.mode.place()),
        group: length(row.command_ns),
        y: Some(row.overhead * 100.0),
        samples: Some(row.row.samples),
        ..Drawn::default()
    })
}

fn of_lone(record: &Record) -> Values {
    let lone: Vec<overhead::Lone> = list(record, "lone")?;
    let of = |lone: &overhead::Lone| Drawn {
        series: lone.mode.label(),
        place: Some(lone.mode.place()),
        y: Some(lone.added_us),
        samples: Some(lone.time.samples),
        ..Drawn::default()
    };
    Ok(lone.iter().filter(|lone| lone.mode != Mode::Plain).map(of).collect())
}

fn of_threshold(record: &Record) -> Values {
    let mut cells: Vec<threshold::Cell> = list(record, "cells")?;
    cells.sort_by_key(|cell| cell.threshold);
    let rows = cells.iter().flat_map(|cell| cell.rows.iter().map(move |row| (cell.threshold, row)));
    let of = |(threshold, row): (u32, &overhead::Row)| {
        let drawn = of_overhead(row)?;
        let series = format!("{}, {}", drawn.series, drawn.group);
        Some(Drawn { series, x: f64::from(threshold), ..drawn })
    };
    Ok(rows.filter_map(of).collect())
}

fn of_partition(record: &Record) -> Values {
    let cells: Vec<partition::Cell> = list(record, "cells")?;
    let of = |cell: &partition::Cell| {
        let group = cell.level.map_or_else(|| "plain".to_owned(), |level| format!("Lv{level}"));
        let of = |series: &str, percent| Drawn {
            series: series.to_owned(),
            group: group.clone(),
            y: Some(percent),
            ..Drawn::default()
        };
        [of("first task", cell.first_percent), of("second task", 100.0 - cell.first_percent)]
    };
    Ok(cells.iter().flat_map(of).collect())
}

fn of_graphs(record: &Record) -> Values {
    let pairs: Vec<Pair> = list(record, "pairs")?;
    let of = |pair: &Pair| -> Vec<Drawn> {
        let beside = pair.cells.iter().filter(|cell| cell.way != GraphMode::Alone);
        let of = |cell: &crate::bench::graphs::Cell| Drawn {
            series: cell.way.label(),
            group: pair.shape.name.to_string(),
            y: cell.p99_over_alone,
            is_met: cell.p99_over_alone.map(|ratio| ratio <= GOAL),
            samples: Some(cell.urgent.samples),
            ..Drawn::default()
        };
        beside.map(of).collect()
    };
    Ok(pairs.iter().flat_map(of).collect())
}

fn of_interrupt(record: &Record) -> Values {
    let cells: Vec<interrupt::Cell> = list(record, "cells")?;
    let of = |cell: &interrupt::Cell| {
        let interrupt::Combination { mechanism, load, queues, processes } = &cell.combination;
        let queues = if *queues > 1 { format!(" x{queues}") } else { String::new() };
        let beside = if *processes > 0 { format!(" +{processes}") } else { String::new() };
        let group = format!("{} {}{queues}{beside}", load.kind, load.share);
        let times = [
            ("victim quiet", cell.quiet),
            ("hold in effect", cell.hold),
            ("winner starts", cell.start),
            ("end of the hold in effect", cell.resume),
        ];
        let chart = mechanism.clone();
        times.map(move |(series, time)| Drawn {
            chart: chart.clone(),
            series: series.to_owned(),
            group: group.clone(),
            y: time.p99_us.or(Some(time.max_us)),
            samples: Some(time.samples),
            ..Drawn::default()
        })
    };
    Ok(cells.iter().flat_map(of).collect())
}

impl Picture {
    fn charts(&self, values: &[Drawn], device: &str) -> Vec<Chart> {
        let charts = different(values.iter().map(|value| value.chart.as_str()));
        let chart = |chart: &str| {
            let mine: Vec<&Drawn> = values.iter().filter(|value| value.chart == chart).collect();
            let of = if chart.is_empty() { String::new() } else { format!(", {chart}") };
            let n = counted(mine.iter().filter_map(|value| value.samples));
            Chart {
                name: self.bench,
                title: format!("{}{of}, on {device}{n}", self.title),
                x: self.x,
                y: self.y,
                plot: self.plot(&mine),
            }
        };
        charts.into_iter().map(chart).collect()
    }

    fn plot(&self, values: &[&Drawn]) -> Plot {
        let series = different(values.iter().map(|value| value.series.as_str()));
        let of = |series: &str| -> Vec<&Drawn> {
            values.iter().copied().filter(|value| value.series == series).collect()
        };
        let styles = styles(&series.iter().map(|name| of(name)).collect::<Vec<_>>());
        if matches!(self.style, Style::Lines) {
            let line = |(series, style): (&&str, &Option<usize>)| {
                let points = of(series).into_iter().filter_map(|value| Some((value.x, value.y?)));
                let line = Line::new(*series, points.collect()).dotted();
                style.map_or(line.clone(), |style| line.styled(style))
            };
            return Plot::Lines(series.iter().zip(&styles).map(line).collect());
        }
        let groups = different(values.iter().map(|value| value.group.as_str()));
        let bar = |(series, style): (&&str, &Option<usize>)| {
            let mine = of(series);
            let at = |group: &&str| mine.iter().find(|value| value.group == *group);
            let heights = groups.iter().map(|group| at(group)?.y).collect();
            let verdicts = groups.iter().map(|group| at(group)?.is_met).collect();
            let bar = Bar::new(*series, heights, &[]).judged(verdicts);
            style.map_or(bar.clone(), |style| bar.styled(style))
        };
        let bars = series.iter().zip(&styles).map(bar).collect();
        let mut bars = Bars::new(groups.iter().map(|&group| group.to_owned()).collect(), bars);
        bars.stacked = matches!(self.style, Style::Stacked);
        bars.log = matches!(self.style, Style::Log { .. });
        if let Style::Bars { line } | Style::Log { line } = self.style {
            bars.line = line.map(|(name, value)| (format!("{name}, {value:.2}"), value));
        }
        Plot::Bars(bars)
    }
}

/// Numbers of samples, for a title; nothing without any.
pub(crate) fn counted(samples: impl Iterator<Item = usize>) -> String {
    let ends = samples.fold(None, |ends: Option<(usize, usize)>, n| {
        let (least, most) = ends.unwrap_or((n, n));
        Some((least.min(n), most.max(n)))
    });
    match ends {
        None => String::new(),
        Some((least, most)) if least == most => format!(", n = {most}"),
        Some((least, most)) => format!(", n = {least} to {most}"),
    }
}

/// Styles of series by the places of their ways: the same in each picture. Further series of a way
/// have the next shades of its colour.
fn styles(series: &[Vec<&Drawn>]) -> Vec<Option<usize>> {
    let places: Vec<Option<usize>> =
        series.iter().map(|values| values.first().and_then(|value| value.place)).collect();
    let style = |(n, place): (usize, &Option<usize>)| {
        let earlier = places[..n].iter().filter(|other| *other == place).count();
        place.map(|place| place + COLORS * earlier)
    };
    places.iter().enumerate().map(style).collect()
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
    use serde_json::json;

    use super::*;

    /// The picture of a record of a bench with these parts, which has all these words.
    fn drawn(bench: &str, mut parts: Value, words: &[&str]) -> String {
        parts["bench"] = bench.into();
        parts["device"] = json!({ "device": "a device" });
        let svg = picture(&parts.to_string(), "a record").unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(words.iter().chain(&["on a device"]).all(|words| svg.contains(words)), "{svg}");
        svg
    }

    /// Quantiles of 1000 samples.
    fn quantiles(p50_us: f64, p99_us: f64) -> Value {
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
        assert!(error.contains("`bench calibrate`") && error.contains("a.json"), "{error}");
        assert!(check(true, "calibrate").is_err());
        assert!(check(false, "calibrate").is_ok() && check(true, "graphs").is_ok());
    }

    #[test]
    fn lengths_are_short() {
        assert_eq!(length(500_000), "500 µs");
        assert_eq!(length(518_230), "518.23 µs");
        assert_eq!(length(2_000_000), "2 ms");
    }

    fn row(mode: &str, overhead: f64) -> Value {
        json!({
            "mode": mode, "command_ns": 10_000, "commands": 1, "overhead": overhead,
            "processors": 1.0, "row": quantiles(1.0, 2.0)
        })
    }

    #[test]
    fn overheads_of_each_way_are_drawn() {
        let time = quantiles(1.0, 2.0);
        let parts = json!({
            "rows": [row("plain", 0.0), row("lv1", 0.014), row("gate@200", -0.001)],
            "lone": [
                { "mode": "lv1", "added_us": 0.8, "time": time },
                { "mode": "gate", "added_us": 1.2, "time": time }
            ]
        });
        let words = ["Lv1", "gate@200", "gate", "10 µs", "lone tiny"];
        assert!(!drawn("overhead", parts, &words).contains("plain"));
        let cell = |threshold: u32, overhead: f64| {
            let rows = [row("plain", 0.0), row("lv1", overhead), row("gate", -overhead)];
            json!({ "threshold": threshold, "batch": 1, "rows": rows })
        };
        let record = json!({ "cells": [cell(64, 0.01), cell(2, 0.4)] });
        assert!(!drawn("threshold", record, &["Lv1, 10 µs", "gate, 10 µs"]).contains("plain"));
    }

    #[test]
    fn parts_stand_on_each_other() {
        let cell = |level: Option<u8>, first: f64| json!({ "level": level, "first_percent": first, "total": 1.0, "processors": 1.0 });
        let cells = json!({ "cells": [cell(None, 50.1), cell(Some(1), 74.9)] });
        drawn("partition", cells, &["first task", "second task", "plain", "Lv1"]);
    }

    #[test]
    fn each_way_of_two_graphs_is_drawn() {
        let cell = |way: &str, spacing: Option<u64>| {
            json!({
                "way": { "way": way, "spacing_ns": spacing }, "gates": 1,
                "urgent": quantiles(1.0, 2.0), "p99_over_alone": 1.5, "throughput": 0.9,
                "processors": 0.1
            })
        };
        let cells = [cell("alone", None), cell("plain", None), cell("gates", Some(200_000))];
        let shape = json!({
            "name": "a model", "kernels": 2, "p50_ns": 1, "p99_ns": 2, "max_ns": 2, "total_ns": 3
        });
        let pair = json!({ "shape": shape, "alone_per_s": 50.0, "cells": cells });
        let words = ["plain", "gates, every 200 µs", "a model", "goal, 1.10", "✗ misses it"];
        let svg = drawn("graphs", json!({ "pairs": [pair] }), &words);
        assert!(!svg.contains("alone<"), "{svg}");
    }

    #[test]
    fn a_way_has_the_same_colour_whatever_else_is_drawn() {
        let value =
            |series: &str, place| Drawn { series: series.to_owned(), place, ..Drawn::default() };
        let all = [value("a", Some(2)), value("b", Some(3)), value("c", Some(3)), value("d", None)];
        let of = |range: std::ops::Range<usize>| {
            styles(&all[range].iter().map(|value| vec![value]).collect::<Vec<_>>())
        };
        assert_eq!(of(0..4), [Some(2), Some(3), Some(10), None]);
        assert_eq!(of(1..2), [Some(3)]);
    }

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
        let words =
            ["update-queue, on", "debug-trap", "alu full", "lds full x4 +1", "winner starts"];
        drawn("interrupt", json!({ "cells": cells }), &words);
    }

    #[test]
    fn each_way_and_threshold_is_drawn_with_its_median_and_its_tail() {
        let row = |mode: &str, command_ns: u64, threshold: u32| {
            let us = command_ns as f64 / 1e3;
            json!({
                "mode": mode, "level": 2, "command_ns": command_ns, "threshold": threshold,
                "quiet": quantiles(us / 2.0, us), "detect": quantiles(1.0, 1.0),
                "restart": quantiles(1.0, 1.0), "uncertain_us": 0.0, "ran_on": 0,
                "goal": { "what": "P99 at most 20 µs", "reached": true }
            })
        };
        let rows = [10_000, 100_000]
            .map(|ns| [row("gate", ns, 8), row("gate", ns, 64), row("lv1", ns, 8)]);
        let words = [
            "P50, on",
            "P99, on a device, n = 1000",
            "gate, 64 in flight",
            "Lv1, 8 in flight",
            "100 µs",
            "✓",
        ];
        drawn("preempt", json!({ "rows": rows.concat() }), &words);
    }

    #[test]
    fn each_way_beside_a_background_is_drawn() {
        let cell = |mode: &&str| {
            json!({
                "mode": mode, "background_ns": 100_000, "waves": 1,
                "foreground": quantiles(6_000.0, 9_000.0), "p99_over_alone": 1.8,
                "background_share": 0.7, "processors": 1.0
            })
        };
        let modes = ["plain", "gate", "gate@200", "gate@500"];
        let cells: Vec<Value> = modes.iter().map(cell).collect();
        let svg = drawn("fixed-priority", json!({ "cells": cells }), &modes);
        assert!(svg.contains("as alone") && svg.contains("100 µs"), "{svg}");
    }
}
