//! `bench fixed-priority`: how much longer the task takes, by the background and the way; and with
//! several spacings of gates what that costs the background.

use serde::Deserialize;
use xsched_sim::report::{Bar, Bars, Chart, Line, Plot};

use super::{different, length};
use crate::bench::priority;
use crate::device::mode::Mode;
use crate::error::CommandError;
use crate::record::read;
use crate::stats::Quantiles;

#[derive(Debug, Deserialize)]
struct Record {
    plan: priority::Plan,
    alone: Quantiles,
    cells: Vec<priority::Cell>,
}

/// What the C++ XSched reaches at its best level on an H200, for one length of the background's
/// commands.
struct Upstream {
    background_ns: u64,
    /// P99 over that alone, and the background's share in percent.
    best: (f64, f64),
    /// P99 over that alone on plain streams.
    plain: f64,
}

/// Measured on an H200 with the task of [`is_like_upstream`], one wave, 8 in flight.
const UPSTREAM: [Upstream; 2] = [
    Upstream { background_ns: 100_000, best: (1.20, 78.0), plain: 1.94 },
    Upstream { background_ns: 500_000, best: (1.80, 78.0), plain: 5.86 },
];
const UPSTREAM_NAME: &str = "C++ XSched 1.2.0 (measured on an H200)";
const UPSTREAM_PLAIN: &str = "plain, beside C++ XSched (H200)";

/// The background's commands: their length and their waves.
type Group = (u64, u32);

/// What makes the task like that for which the C++ XSched was measured: 50 commands of 100 µs, 20 %
/// load, on the same device.
fn is_like_upstream(plan: &priority::Plan, device: &str) -> bool {
    let task = plan.foreground;
    let (least, most) = task.pause_ns;
    let run_ns = u64::from(task.commands) * task.command_ns;
    device.contains("H200")
        && (task.commands, task.command_ns) == (50, 100_000)
        && u64::midpoint(least, most) == run_ns * 4
}

impl Record {
    fn groups(&self) -> Vec<Group> {
        different(self.cells.iter().map(|cell| (cell.background_ns, cell.waves)))
    }

    fn modes(&self) -> Vec<Mode> {
        different(self.cells.iter().map(|cell| cell.mode))
    }

    fn cell(&self, mode: Mode, group: Group) -> Option<&priority::Cell> {
        self.cells
            .iter()
            .find(|cell| cell.mode == mode && (cell.background_ns, cell.waves) == group)
    }

    /// Spacings of gates, from small to large.
    fn spacings(&self) -> Vec<u32> {
        let spacing = |mode| match mode {
            Mode::Gate { spacing_us } => Some(spacing_us),
            _ => None,
        };
        let mut spacings: Vec<u32> = self.modes().into_iter().filter_map(spacing).collect();
        spacings.sort_unstable();
        spacings
    }

    /// The bars of a way, P50 beside P99.
    fn bar(&self, mode: Mode) -> Bar {
        let cells = self.groups().into_iter().map(|group| self.cell(mode, group));
        let cells: Vec<_> = cells.collect();
        let p50 = |cell: &priority::Cell| cell.foreground.p50_us / self.alone.p50_us;
        let p50 = cells.iter().map(|cell| cell.map(p50)).collect();
        let p99 = cells.iter().map(|cell| cell.and_then(|cell| cell.p99_over_alone)).collect();
        Bar::new(mode.to_string(), p99, &[]).beside(p50)
    }

    /// Sets beside the bars what the C++ XSched reaches, and marks what its plain streams did.
    fn add_upstream(&self, bars: &mut Bars) {
        let groups = self.groups();
        let of = |value: fn(&Upstream) -> f64| {
            groups.iter().map(|group| upstream(*group).map(value)).collect::<Vec<_>>()
        };
        let plain = bars.bars.iter_mut().zip(self.modes());
        for (bar, _) in plain.filter(|(_, mode)| *mode == Mode::Plain) {
            bar.published = of(|upstream| upstream.plain);
        }
        bars.bars.push(Bar::new(UPSTREAM_NAME, of(|upstream| upstream.best.0), &[]));
        bars.marks = UPSTREAM_PLAIN;
    }

    fn by_way(&self, device: &str) -> Chart {
        let name = |(ns, waves): &Group| match waves {
            1 => length(*ns),
            _ => format!("{} × {waves} waves", length(*ns)),
        };
        let groups = self.groups().iter().map(name).collect();
        let bars = self.modes().into_iter().map(|mode| self.bar(mode)).collect();
        let mut bars = Bars::new(groups, bars);
        bars.log = true;
        bars.line = Some(("as alone".to_owned(), 1.0));
        if is_like_upstream(&self.plan, device) {
            self.add_upstream(&mut bars);
        }
        Chart {
            name: "by-way",
            title: format!("A task beside a background on {device}: P99, and lighter P50"),
            x: "length of the background's commands",
            y: "time / time alone",
            plot: Plot::Bars(bars),
        }
    }

    /// The curve of a background over the spacings of gates.
    fn curve(&self, group: Group) -> Line {
        let modes = self.spacings().into_iter().map(|spacing_us| Mode::Gate { spacing_us });
        let point = |mode| {
            let cell = self.cell(mode, group)?;
            Some((cell.background_share * 100.0, cell.p99_over_alone?))
        };
        let (ns, waves) = group;
        let waves = if waves == 1 { String::new() } else { format!(", {waves} waves") };
        let name = format!("gates, background {}{waves}", length(ns));
        Line::new(name, modes.filter_map(point).collect()).dotted()
    }

    /// What the C++ XSched reaches beside each background, in the colours of the curves.
    fn upstream_marks(&self) -> Vec<Line> {
        let groups = self.groups().into_iter().enumerate();
        let mark = |(style, group)| {
            let Upstream { background_ns, best: (p99, share), .. } = upstream(group)?;
            let name = format!("{UPSTREAM_NAME}, {}", length(*background_ns));
            Some(Line::marks(name, &[(*share, *p99)]).styled(style))
        };
        groups.filter_map(mark).collect()
    }

    /// Nothing unless there are several spacings, besides a gate per command.
    fn by_share(&self, device: &str) -> Option<Chart> {
        let spacings = self.spacings();
        if spacings.iter().filter(|&&us| us > 0).count() < 2 {
            return None;
        }
        let mut lines: Vec<Line> =
            self.groups().into_iter().map(|group| self.curve(group)).collect();
        if lines.iter().all(|line| line.points.is_empty()) {
            return None;
        }
        if is_like_upstream(&self.plan, device) {
            lines.extend(self.upstream_marks());
        }
        let spacings: Vec<_> = spacings.iter().map(|&us| spacing_name(us)).collect();
        Some(Chart {
            name: "by-share",
            title: format!("Gates {}: what they take from the background", spacings.join(", ")),
            x: "background's share of the device (%)",
            y: "P99 / P99 alone",
            plot: Plot::Near(lines),
        })
    }
}

fn spacing_name(us: u32) -> String {
    if us == 0 { "per command".to_owned() } else { format!("{us} µs") }
}

/// What the C++ XSched reaches beside this background.
fn upstream((ns, waves): Group) -> Option<&'static Upstream> {
    UPSTREAM.iter().find(|upstream| waves == 1 && upstream.background_ns == ns)
}

/// The figures of a record.
pub(crate) fn charts(text: &str, device: &str, place: &str) -> Result<Vec<Chart>, CommandError> {
    let record: Record = read(text, place)?;
    let mut charts = vec![record.by_way(device)];
    charts.extend(record.by_share(device));
    Ok(charts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{drawn, has, quantiles};
    use super::{UPSTREAM_NAME, UPSTREAM_PLAIN};

    const MODES: [&str; 4] = ["plain", "gate", "gate@200", "gate@500"];

    fn record(commands: u32, modes: &[&str]) -> Value {
        let cell = |mode: &&str| {
            json!({
                "mode": mode, "background_ns": 100_000, "waves": 1,
                "foreground": quantiles(6_000.0, 9_000.0), "p99_over_alone": 1.8,
                "background_share": 0.7, "processors": 1.0
            })
        };
        let task = json!({
            "commands": commands, "command_ns": 100_000,
            "pause_ns": [10_000_000, 30_000_000], "samples": 1000
        });
        json!({
            "plan": {
                "foreground": task, "background_ns": [100_000], "waves": [1], "threshold": 8,
                "modes": modes
            },
            "alone": quantiles(5_000.0, 5_010.0),
            "cells": modes.iter().map(cell).collect::<Vec<_>>()
        })
    }

    #[test]
    fn each_way_is_drawn() {
        let svg = drawn("fixed-priority", "a host", record(50, &MODES));
        has(&svg, &MODES);
        has(&svg, &["a host", "as alone", "100 µs", "per command, 200 µs, 500 µs"]);
        assert!(!svg.contains("C++"), "{svg}");
    }

    #[test]
    fn what_the_cpp_library_reaches_stands_beside_the_same_task_alone() {
        let svg = drawn("fixed-priority", "NVIDIA H200", record(50, &MODES));
        has(&svg, &[UPSTREAM_NAME, UPSTREAM_PLAIN]);
        let svg = drawn("fixed-priority", "NVIDIA H200", record(20, &MODES));
        assert!(!svg.contains("C++"), "{svg}");
    }

    #[test]
    fn one_spacing_makes_no_curve() {
        let svg = drawn("fixed-priority", "a host", record(50, &MODES[..3]));
        assert!(!svg.contains("share of the device"), "{svg}");
    }
}
