//! `bench preempt`: how long until a queue is quiet, over the length of its commands.

use serde::Deserialize;
use xsched_sim::report::{Bar, Bars, Chart, Line, Plot};

use super::different;
use crate::bench::preempt::{Goal, Row};
use crate::device::mode::Mode;
use crate::error::CommandError;
use crate::record::read;

#[derive(Debug, Deserialize)]
struct Record {
    rows: Vec<Row>,
}

/// A way and its threshold.
type Kind = (Mode, u32);

/// Lines of one colour: goals are dashed, and a pattern further on.
const COLOURS: usize = 7;

impl Record {
    fn kinds(&self) -> Vec<Kind> {
        different(self.rows.iter().map(|row| (row.mode, row.threshold)))
    }

    /// A figure of the rows of a kind over the length of their commands, both in microseconds.
    fn points(&self, kind: Kind, figure: impl Fn(&Row) -> Option<f64>) -> Vec<(f64, f64)> {
        let rows = self.rows.iter().filter(|row| (row.mode, row.threshold) == kind);
        let point = |row: &Row| Some((row.command_ns as f64 / 1e3, figure(row)?));
        let mut points: Vec<_> = rows.filter_map(point).filter(|(_, y)| *y > 0.0).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    fn lines(&self, figure: impl Fn(&Row) -> Option<f64>) -> Vec<Line> {
        let kinds = self.kinds().into_iter().enumerate();
        let line = |(style, kind): (usize, Kind)| {
            let (mode, threshold) = kind;
            let name = format!("{mode}, {threshold} in flight");
            Line::new(name, self.points(kind, &figure)).dotted().styled(style)
        };
        kinds.map(line).collect()
    }

    /// Goals for the P99. Those that do not depend on the threshold are drawn once.
    fn goals(&self) -> Vec<Line> {
        let mut goals: Vec<Line> = Vec::new();
        for (style, kind) in self.kinds().into_iter().enumerate() {
            let points = self.points(kind, |row| most_us(&row.goal));
            if !points.is_empty() && goals.iter().all(|goal| goal.points != points) {
                let name = format!("goal of {}, {} in flight", kind.0, kind.1);
                goals.push(Line::new(name, points).styled(style % COLOURS + COLOURS));
            }
        }
        goals
    }
}

/// The limit that a goal for the P99 names, in microseconds.
fn most_us(goal: &Goal) -> Option<f64> {
    let mut words = goal.what.strip_prefix("P99 ")?.split_whitespace().rev();
    (words.next() == Some("µs")).then_some(())?;
    words.next()?.parse().ok()
}

/// Lengths of commands that are within this factor are the same: how long they take is measured.
const SAME_LENGTH: f64 = 1.25;
/// The least that is drawn, in microseconds, on an axis that cannot have 0.
const LEAST_US: f64 = 0.1;

impl Record {
    /// Whether all commands have one length, so that there are no lines to draw.
    fn has_one_length(&self) -> bool {
        let lengths = || self.rows.iter().map(|row| row.command_ns as f64);
        let longest = lengths().fold(0.0, f64::max);
        lengths().fold(f64::INFINITY, f64::min) * SAME_LENGTH >= longest
    }

    /// A bar for each way, of the median and of the tail.
    fn bars(&self) -> Bars {
        let has_p99 = self.rows.iter().all(|row| row.quiet.p99_us.is_some());
        let tail = if has_p99 { "P99" } else { "longest" };
        let bar = |row: &Row| {
            let figures = [row.quiet.p50_us, row.quiet.p99_us.unwrap_or(row.quiet.max_us)];
            let name = format!("{}, {} in flight", row.mode, row.threshold);
            let bar = Bar::new(name, figures.map(|us| Some(us.max(LEAST_US))).into(), &[]);
            let goal = most_us(&row.goal).filter(|_| has_p99);
            Bar { published: vec![None, goal], ..bar }
        };
        let groups = ["P50", tail].map(str::to_owned).to_vec();
        let bars = Bars::new(groups, self.rows.iter().map(bar).collect());
        Bars { log: true, marks: "goal", ..bars }
    }
}

/// The figures of a record.
pub(crate) fn charts(text: &str, device: &str, place: &str) -> Result<Vec<Chart>, CommandError> {
    let record: Record = read(text, place)?;
    if record.has_one_length() {
        let ns = record.rows.iter().map(|row| row.command_ns).max().unwrap_or(0);
        return Ok(vec![Chart {
            name: "quiet",
            title: format!(
                "From a hold until the queue is quiet on {device}: commands of {} µs",
                ns / 1_000
            ),
            x: "",
            y: "quiet after (µs)",
            plot: Plot::Bars(record.bars()),
        }]);
    }
    let chart = |name, figure: &str, lines| Chart {
        name,
        title: format!("From a hold until the queue is quiet on {device}: {figure}"),
        x: "length of commands (µs)",
        y: "quiet after (µs)",
        plot: Plot::Lines(lines),
    };
    let mut charts = vec![chart("p50", "P50", record.lines(|row| Some(row.quiet.p50_us)))];
    let mut p99 = record.lines(|row| row.quiet.p99_us);
    if p99.iter().any(|line| !line.points.is_empty()) {
        p99.extend(record.goals());
        charts.push(chart("p99", "P99", p99));
    }
    Ok(charts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{drawn, has, quantiles};
    use super::*;

    fn row(mode: &str, command_ns: u64, threshold: u32) -> Value {
        let us = command_ns as f64 / 1e3;
        let goal = json!({ "what": format!("P99 at most {:.0} µs", us + 20.0), "reached": true });
        json!({
            "mode": mode, "level": 2, "command_ns": command_ns, "threshold": threshold,
            "quiet": quantiles(us / 2.0, us), "detect": quantiles(1.0, 1.0),
            "restart": quantiles(1.0, 1.0), "uncertain_us": 0.0, "ran_on": 0, "goal": goal
        })
    }

    #[test]
    fn each_way_and_threshold_is_drawn_and_equal_goals_once() {
        let rows: Vec<Value> = [10_000, 100_000, 1_000_000]
            .iter()
            .flat_map(|&ns| [row("gate", ns, 8), row("gate", ns, 64), row("lv1", ns * 2, 8)])
            .collect();
        let svg = drawn("preempt", "a device", json!({ "rows": rows }));
        has(&svg, &["gate, 8 in flight", "gate, 64 in flight", "lv1, 8 in flight"]);
        has(&svg, &["goal of gate, 8 in flight", "goal of lv1, 8 in flight"]);
        assert!(!svg.contains("goal of gate, 64"), "{svg}");
    }

    #[test]
    fn commands_of_one_length_are_bars_on_which_the_shortest_is_seen() {
        let rows = [row("lv1", 562_500, 8), row("gate", 530_460, 8), row("lv3", 562_500, 8)];
        let svg = drawn("preempt", "a device", json!({ "rows": rows }));
        has(&svg, &["P50", "P99", "lv1, 8 in flight", "lv3, 8 in flight", "commands of 562 µs"]);
        assert!(!svg.contains("<circle"), "no points at one place: {svg}");
    }

    #[test]
    fn goals_for_the_p99_name_their_limit() {
        let most = |what: &str| most_us(&Goal { what: what.into(), reached: None });
        assert_eq!(most("P99 at most 618 µs"), Some(618.0));
        assert_eq!(most("P99 below 200 µs"), Some(200.0));
        assert_eq!(most("P50 3109 to 4246 µs"), None);
    }
}
