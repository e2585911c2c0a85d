//! One diagram of a picture: cumulative distributions on one axis.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::distributions::{Curve, SHARES};
use super::style::Style;
use super::svg::{Area, FAINT, FRAME, GRID, INK, Result, SCALE, draw_line, failed, text};

/// The part of the axis by which lines that look like one are apart at most.
const SAME: f64 = 1.0 / 600.0;
/// Height of a line of the notes.
const NOTE_LINE: u32 = 14;
/// Width of a character of the notes, about.
const NOTE_CHARACTER: f64 = 5.6;
/// Room for labels on the left of the diagram and for the margins on both sides.
const LEFT: u32 = 60;
const RIGHT: u32 = 18;

/// Requests from which on a distribution is drawn as a curve. Of fewer each one is a point: below
/// it the points of a curve are more than 3 % apart.
pub(crate) const CURVE_FROM: u64 = 30;
/// Size of a point, and the pattern and the width of the line at a deadline.
const POINT: u32 = 3;
const DEADLINE: (i32, i32) = (2, 6);
const DEADLINE_WIDTH: u32 = 3;
/// The top of a diagram, a little above 100 %, so that a line there is not hidden by the edge.
const TOP: f64 = 101.5;

/// One diagram.
pub(super) struct Panel {
    /// Shown above the diagram when there are several.
    title: String,
    /// Notes below the title.
    facts: Vec<String>,
    lines: Vec<Line>,
    axis: Axis,
}

/// Curve of a diagram, and what is drawn with it.
pub(super) struct Line {
    /// Index into the entries of the legend.
    pub(super) entry: usize,
    pub(super) curve: Curve,
    /// Requests that the curve is of.
    pub(super) requests: u64,
    pub(super) deadline_ns: Option<u64>,
}

/// A line of the legend: a name, and the line that it is the name of.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) style: Style,
    /// The entry whose line this one's coincides with in every diagram, if there is one.
    pub(super) same_as: Option<usize>,
}

impl Panel {
    /// A diagram of these lines, at least one, and of their deadlines. If it `may_cut`, its axis
    /// may end before a few of them do.
    pub(super) fn new(title: String, lines: Vec<Line>, may_cut: bool) -> Self {
        let deadlines = lines.iter().filter_map(Line::deadline_ms);
        let ends = lines.iter().map(Line::ends).chain(deadlines.map(|ms| (ms, ms)));
        let axis = Axis::readable(&ends.collect::<Vec<_>>(), may_cut);
        Self { title, facts: Vec::new(), lines, axis }
    }

    /// With notes below its title.
    pub(super) fn with_facts(self, facts: Vec<String>) -> Self {
        Self { facts, ..self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// True if two entries have lines here that look like one; `None` if neither has a line.
    fn coincide(&self, one: usize, other: usize) -> Option<bool> {
        let line = |entry| self.lines.iter().find(|line| line.entry == entry);
        match (line(one), line(other)) {
            (None, None) => None,
            (Some(one), Some(other)) => Some(one.looks_like(other, &self.axis)),
            _ => Some(false),
        }
    }

    /// The lines that are drawn, each with all entries that it stands for. Of entries whose lines
    /// coincide, the first one's is drawn.
    fn drawn(&self) -> Vec<(&Line, Vec<usize>)> {
        let mut drawn: Vec<(&Line, Vec<usize>)> = Vec::new();
        for line in &self.lines {
            match drawn.iter_mut().find(|(first, _)| first.looks_like(line, &self.axis)) {
                Some((_, entries)) => entries.push(line.entry),
                None => drawn.push((line, vec![line.entry])),
            }
        }
        drawn
    }

    /// Returns what cannot be seen: which lines coincide here and not in every diagram, and which
    /// are cut.
    fn notes(&self, legend: &[Entry]) -> Vec<String> {
        // An entry that coincides with another everywhere is named in the legend.
        let named = |entry: &&usize| legend.get(**entry).is_some_and(|e| e.same_as.is_none());
        let name = |entry: &usize| legend.get(*entry).map_or("", |entry| entry.name.as_str());
        let mut notes = self.facts.clone();
        if self.lines.iter().any(Line::is_short) {
            notes.push(format!("points instead of a curve: n below {CURVE_FROM}"));
        }
        for (_, entries) in self.drawn() {
            let names: Vec<&str> = entries.iter().filter(named).map(name).collect();
            if names.len() > 1 {
                notes.push(format!("one line: {}", names.join(", ")));
            }
        }
        let cut = self.lines.iter().filter(|line| self.axis.is_cut(line.ends().1));
        let cut: Vec<String> = cut
            .filter(|line| named(&&line.entry))
            .map(|line| {
                let (low, high) = line.ends();
                format!("{} ({} to {} ms)", name(&line.entry), short(low), short(high))
            })
            .collect();
        if !cut.is_empty() {
            notes.push(format!("cut off: {}", cut.join(", ")));
        }
        let beyond = self.deadlines().into_iter().filter(|(ms, _)| self.axis.is_cut(*ms));
        notes.extend(beyond.map(|(ms, _)| format!("deadline beyond the axis: {} ms", short(ms))));
        notes
    }

    /// Each deadline in milliseconds, with the entry of its first line; without one if all lines
    /// have the same.
    fn deadlines(&self) -> Vec<(f64, Option<usize>)> {
        let mut deadlines: Vec<(f64, Option<usize>)> = Vec::new();
        for line in &self.lines {
            let Some(ms) = line.deadline_ms() else { continue };
            if deadlines.iter().all(|(known, _)| *known != ms) {
                deadlines.push((ms, Some(line.entry)));
            }
        }
        let is_common = self.lines.iter().all(|line| line.deadline_ms().is_some());
        if let ([(_, entry)], true) = (deadlines.as_mut_slice(), is_common) {
            *entry = None;
        }
        deadlines
    }

    /// The notes in lines that fit into a diagram of this width.
    fn note_lines(&self, legend: &[Entry], width: u32) -> Vec<String> {
        let room = f64::from((width / SCALE).saturating_sub(LEFT)) / NOTE_CHARACTER;
        self.notes(legend).iter().flat_map(|note| wrap(note, room as usize)).collect()
    }

    /// The height of the notes in a diagram of this width.
    pub(super) fn notes_height(&self, legend: &[Entry], width: u32) -> u32 {
        self.note_lines(legend, width).len() as u32 * NOTE_LINE * SCALE
    }

    /// Draws the diagram.
    pub(super) fn draw(&self, area: &Area<'_>, legend: &[Entry]) -> Result<()> {
        let top = self.draw_head(area, legend)?;
        let mut builder = ChartBuilder::on(area);
        builder
            .margin(10 * SCALE)
            .margin_right(RIGHT * SCALE)
            .margin_top(top)
            .x_label_area_size(40 * SCALE)
            .y_label_area_size(50 * SCALE);
        let mut chart = builder.build_cartesian_2d(self.axis.clone(), 0.0..TOP).map_err(failed)?;
        chart
            .configure_mesh()
            .y_labels(6)
            .y_max_light_lines(0)
            .y_label_formatter(&|share| format!("{share:.0}"))
            .x_desc(self.axis.labelled("latency (ms)"))
            .y_desc("requests within (%)")
            .bold_line_style(GRID.stroke_width(SCALE))
            .light_line_style(FAINT.stroke_width(SCALE))
            .axis_style(FRAME.stroke_width(SCALE))
            .label_style(text(11, INK, Pos::default()))
            .axis_desc_style(text(12, INK, Pos::default()))
            .draw()
            .map_err(failed)?;
        let drawn = self.drawn();
        let styled =
            || drawn.iter().filter_map(|(line, _)| Some((line, legend.get(line.entry)?.style)));
        for (ms, entry) in self.deadlines().into_iter().filter(|(ms, _)| !self.axis.is_cut(*ms)) {
            let color = entry.and_then(|entry| Some(legend.get(entry)?.style.color)).unwrap_or(INK);
            let style = Style { color, pattern: Some(DEADLINE), width: DEADLINE_WIDTH };
            draw_line(chart.plotting_area(), vec![(ms, 0.0), (ms, TOP)], style)?;
        }
        // All bands lie behind all lines.
        for (line, style) in styled().filter(|(line, _)| !line.is_short()) {
            let band = self.band(&line.curve);
            let fill = style.color.mix(0.15).filled();
            if !band.is_empty() {
                chart.plotting_area().draw(&Polygon::new(band, fill)).map_err(failed)?;
            }
        }
        for (line, style) in styled() {
            let points = self.within(&line.curve.median);
            if line.is_short() {
                for point in samples(&points) {
                    let dot = Circle::new(point, POINT * SCALE, style.color.filled());
                    chart.plotting_area().draw(&dot).map_err(failed)?;
                }
            } else if points.len() > 1 {
                draw_line(chart.plotting_area(), points, style)?;
            }
        }
        Ok(())
    }

    /// Writes the title and the notes, and returns how high they are.
    fn draw_head(&self, area: &Area<'_>, legend: &[Entry]) -> Result<u32> {
        let width = area.dim_in_pixel().0;
        let mut top = 10;
        if !self.title.is_empty() {
            // Above the middle of the diagram, which lies between the labels and the margin.
            let middle = (width + (LEFT - RIGHT) * SCALE) / 2;
            let style = text(14, INK, Pos::new(HPos::Center, VPos::Top));
            let at = (middle as i32, 8 * SCALE as i32);
            area.draw_text(&self.title, &style, at).map_err(failed)?;
            top = 30;
        }
        let style = text(11, FRAME, Pos::new(HPos::Left, VPos::Top));
        for note in self.note_lines(legend, width) {
            let at = ((LEFT * SCALE) as i32, ((top - 4) * SCALE) as i32);
            area.draw_text(&note, &style, at).map_err(failed)?;
            top += NOTE_LINE;
        }
        Ok(top * SCALE)
    }

    /// The points of a distribution, up to the end of the axis.
    fn within(&self, latencies_ns: &[u64]) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        for (ms, share) in steps(latencies_ns) {
            if self.axis.is_cut(ms) {
                // It leaves the diagram at the height that it has reached.
                if let Some(&(_, reached)) = points.last() {
                    points.push((self.axis.end(), reached));
                }
                break;
            }
            points.push((ms, share));
        }
        points
    }

    /// The outline of the band between the lowest and the highest run; empty if they are the same
    /// or the band is not in the diagram.
    fn band(&self, curve: &Curve) -> Vec<(f64, f64)> {
        let Some(&lowest) = curve.low.first() else { return Vec::new() };
        if curve.low == curve.high || self.axis.is_cut(milliseconds(lowest)) {
            return Vec::new();
        }
        let inside = |(ms, share)| (if self.axis.is_cut(ms) { self.axis.end() } else { ms }, share);
        let there = steps(&curve.low);
        let back = steps(&curve.high);
        there.into_iter().chain(back.into_iter().rev()).map(inside).collect()
    }
}

impl Line {
    /// The smallest and the largest latency, in milliseconds.
    fn ends(&self) -> (f64, f64) {
        let (low, high) = self.curve.ends();
        (milliseconds(low), milliseconds(high))
    }

    fn deadline_ms(&self) -> Option<f64> {
        self.deadline_ns.map(milliseconds)
    }

    /// True if it is of too few requests for a curve.
    const fn is_short(&self) -> bool {
        self.requests < CURVE_FROM
    }

    /// True if a reader cannot tell the lines and their bands apart on this axis.
    fn looks_like(&self, other: &Self, axis: &Axis) -> bool {
        let same = |(&one, &other): (&u64, &u64)| {
            one == other || axis.distance(milliseconds(one), milliseconds(other)) <= SAME
        };
        let curves = (&self.curve, &other.curve);
        let pairs = [
            (&curves.0.low, &curves.1.low),
            (&curves.0.median, &curves.1.median),
            (&curves.0.high, &curves.1.high),
        ];
        pairs.iter().all(|(one, other)| one.iter().zip(*other).all(same))
    }
}

/// Says in the entries of the legend which lines coincide in every diagram.
pub(super) fn merge(legend: &mut [Entry], panels: &[Panel]) {
    for later in 1..legend.len() {
        let same = |first: usize| {
            let mut seen = panels.iter().filter_map(|panel| panel.coincide(first, later));
            seen.next().is_some_and(|first| first) && seen.all(|same| same)
        };
        let first = (0..later).find(|&first| legend[first].same_as.is_none() && same(first));
        legend[later].same_as = first;
    }
}

/// The points of a distribution: a latency in milliseconds and the percentage of requests up to it,
/// without points between two of the same latency.
fn steps(latencies_ns: &[u64]) -> Vec<(f64, f64)> {
    let percent = |share: usize| share as f64 * 100.0 / f64::from(SHARES);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (share, &ns) in latencies_ns.iter().enumerate() {
        let (before, after) = (share.checked_sub(1), share + 1);
        let at = |place: Option<usize>| place.and_then(|place| latencies_ns.get(place));
        if at(before) == Some(&ns) && at(Some(after)) == Some(&ns) {
            continue;
        }
        points.push((milliseconds(ns), percent(share)));
    }
    points
}

/// The ends of the steps of a distribution of few requests: one for each latency.
pub(crate) fn samples(steps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let is_last = |n: &usize| steps.get(n + 1).is_none_or(|next| next.0 != steps[*n].0);
    (0..steps.len()).filter(is_last).map(|n| steps[n]).collect()
}

/// The text in lines of about this many characters, broken at spaces.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A number of milliseconds with about three digits.
fn short(ms: f64) -> String {
    let decimals = (2.0 - ms.max(1e-3).log10().floor()).clamp(0.0, 3.0) as usize;
    format!("{ms:.decimals$}")
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_the_ends_of_each_step() {
        let ns: Vec<u64> =
            (0..=200).map(|share| if share <= 100 { 3_000_000 } else { 5_000_000 }).collect();
        assert_eq!(steps(&ns), [(3.0, 0.0), (3.0, 50.0), (5.0, 50.5), (5.0, 100.0)]);
        let all: Vec<u64> = (0..=200).collect();
        assert!(steps(&all).is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
        assert_eq!(steps(&all).len(), 201);
    }

    #[test]
    fn each_sample_of_few_is_one_point() {
        let ns: Vec<u64> =
            (0..=200).map(|share| if share <= 100 { 3_000_000 } else { 5_000_000 }).collect();
        assert_eq!(samples(&steps(&ns)), [(3.0, 50.0), (5.0, 100.0)]);
        assert_eq!(samples(&[]), []);
    }

    #[test]
    fn notes_are_broken_at_spaces() {
        assert_eq!(wrap("one line: fcfs, hpf Lv1", 14), ["one line:", "fcfs, hpf Lv1"]);
        assert_eq!(wrap("long-word", 3), ["long-word"]);
        assert_eq!(
            [0.0, 0.1234, 9.876, 95.4, 1234.6].map(short),
            ["0.000", "0.123", "9.88", "95.4", "1235"]
        );
    }
}
