//! Pictures: cumulative distributions of request latencies, as SVG.

use plotters::coord::{CoordTranslate, Shift};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use thiserror::Error;

use super::compare::Combination;
use super::distributions::{Distributions, TaskDistributions};
use super::panel::{Entry, Line, Panel, merge};
use super::style::{MAX_STYLES, Style, several_levels, styles};
use crate::scenario::System;

/// A picture could not be drawn.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("cannot draw the picture: {0}")]
pub struct SvgError(String);

/// Panels that fit on a page.
const MAX_PANELS: usize = 12;

/// Text colour and the colour of the frame and of the lines behind the curves.
pub(crate) const INK: RGBColor = RGBColor(40, 40, 40);
pub(crate) const FRAME: RGBColor = RGBColor(110, 110, 110);
pub(crate) const GRID: RGBColor = RGBColor(215, 215, 215);
pub(crate) const FAINT: RGBColor = RGBColor(238, 238, 238);

/// Everything is laid out at twice its size and shown at half, since the drawing library places
/// points on whole pixels only.
pub(crate) const SCALE: u32 = 2;
/// Width of a character of the legend, about, for choosing the width of the legend.
const CHARACTER: usize = 8 * SCALE as usize;
/// Height of a line of the legend.
const LEGEND_LINE: u32 = 18;
/// Longest name in a legend or title, in characters.
const MAX_NAME: usize = 32;
/// Text of a legend about counts and deadlines.
const COUNTS: &str = "n: requests";
const DEADLINES: &str = "dotted upright: deadline";

pub(super) type Result<T> = std::result::Result<T, SvgError>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Content of a picture.
struct Figure {
    title: String,
    subtitle: String,
    panels: Vec<Panel>,
    /// Key of colours and patterns, if they need words.
    key: Vec<&'static str>,
    /// The lines, which have the same style in every panel.
    legend: Vec<Entry>,
    /// Note about what was left out.
    note: Option<String>,
}

/// Draws the distribution of the latencies of each task, over all runs if there are several: the
/// median as a line, and a band from the lowest run to the highest. Tasks without a completed
/// request are left out.
///
/// # Errors
///
/// Only if the drawing library refuses, which it has no reason to.
pub fn latency_svg(runs: &Distributions) -> Result<String> {
    let (mut legend, mut lines) = (Vec::new(), Vec::new());
    let mut left = 0;
    let mut key = vec![COUNTS];
    for (place, task) in runs.tasks.iter().enumerate() {
        let Some(line) = line(legend.len(), task) else { continue };
        // A task has the colour of its place in the scenario, whatever the others did.
        if place >= MAX_STYLES {
            left += 1;
            continue;
        }
        if task.deadline_ns.is_some() && !key.contains(&DEADLINES) {
            key.push(DEADLINES);
        }
        let name = format!("{}: {}", shorten(&task.name), task.count());
        legend.push(Entry { name, style: Style::numbered(place), same_as: None });
        lines.push(line);
    }
    let policy = shorten(&runs.policy);
    let what = match runs.policy.parse::<System>() {
        Ok(_) => format!("system {policy}"),
        Err(_) => format!("policy {policy}, Lv{}", runs.level),
    };
    draw(Figure {
        title: format!("Request latency: {}", shorten(&runs.scenario)),
        subtitle: format!("{what}, {}", seeds(runs)),
        panels: vec![Panel::new(String::new(), lines, false)],
        key,
        legend,
        note: left_out(left, 0, "task"),
    })
}

/// Draws the distribution of the latencies of each task under each combination: one diagram per
/// task, one line per combination, as [`latency_svg`] does. The colour is the policy and, if there
/// are several levels, the pattern the level. Lines that coincide are drawn as one, and the picture
/// says so. The axis of a diagram may end before up to a third of its lines do, and says so too.
///
/// `runs` are those of the combinations, in their order. Tasks that completed no request under any
/// combination are left out, and so are all after the twelfth, and combinations for which no colour
/// is left. Of fewer than 30 requests each is a point.
///
/// # Errors
///
/// Only if the drawing library refuses, which it has no reason to.
pub fn comparison_svg(combinations: &[Combination], runs: &[&Distributions]) -> Result<String> {
    let styles = styles(combinations);
    let all = combinations.iter().zip(styles).zip(runs);
    let (legend, drawn): (Vec<Entry>, Vec<&Distributions>) =
        all.filter_map(|((one, style), runs)| Some((entry(&one.label(), style?), *runs))).unzip();
    let tasks = runs.first().map_or(&[][..], |first| &first.tasks);
    let panel = |(place, title): (usize, &str)| {
        // Runs of one scenario have the same tasks in each place.
        let tasks: Vec<_> = drawn.iter().map(|runs| runs.tasks.get(place)).collect();
        let lines = tasks.iter().enumerate().filter_map(|(entry, task)| line(entry, (*task)?));
        Panel::new(shorten(title), lines.collect(), true).with_facts(facts(&legend, &tasks))
    };
    let titles = tasks.iter().map(|task| task.name.as_str()).enumerate();
    let mut panels: Vec<Panel> = titles.map(panel).filter(|panel| !panel.is_empty()).collect();
    let note = left_out(panels.len(), MAX_PANELS, "task")
        .or_else(|| left_out(runs.len(), legend.len(), "combination"));
    panels.truncate(MAX_PANELS);
    let scenario = runs.first().map_or("", |first| first.scenario.as_str());
    let seeds = runs.first().map_or_else(String::new, |first| seeds(first));
    let mut key = vec![COUNTS];
    if tasks.iter().any(|task| task.deadline_ns.is_some()) {
        key.push(DEADLINES);
    }
    if several_levels(combinations) {
        key.extend(["colour: policy", "pattern: level"]);
    }
    draw(Figure {
        title: format!("Request latency: {}", shorten(scenario)),
        subtitle: format!("one diagram per task, {seeds}"),
        panels,
        key,
        legend,
        note,
    })
}

fn entry(name: &str, style: Style) -> Entry {
    Entry { name: shorten(name), style, same_as: None }
}

/// The line of a task; `None` if none of its requests completed.
fn line(entry: usize, task: &TaskDistributions) -> Option<Line> {
    let TaskDistributions { requests, deadline_ns, .. } = *task;
    task.curve().map(|curve| Line { entry, curve, requests, deadline_ns })
}

/// How many requests the lines of a task are of, and how many of them were late: of the task under
/// each entry of the legend.
fn facts(legend: &[Entry], tasks: &[Option<&TaskDistributions>]) -> Vec<String> {
    let drawn = || legend.iter().zip(tasks).filter_map(|(entry, task)| Some((entry, (*task)?)));
    let requests = || drawn().map(|(_, task)| task.requests);
    let Some((least, most)) = requests().min().zip(requests().max()) else { return Vec::new() };
    let count = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let mut facts = vec![format!("n = {count}")];
    if let Some(ns) = drawn().find_map(|(_, task)| task.deadline_ns) {
        let late = drawn().map(|(entry, task)| format!("{} {}", entry.name, task.late()));
        let late = late.collect::<Vec<_>>().join(", ");
        facts.push(format!("deadline {} ms, late: {late}", ns as f64 / 1e6));
    }
    facts
}

/// Seeds of the lines.
fn seeds(runs: &Distributions) -> String {
    let Distributions { seed, kept, runs, .. } = *runs;
    let Some(seed) = seed else { return "measured".to_owned() };
    if runs <= 1 {
        return format!("seed {seed}");
    }
    let last = seed.wrapping_add(kept.saturating_sub(1));
    let rest = if kept < runs { format!(" (the first {kept} of {runs})") } else { String::new() };
    format!(
        "seeds {seed} to {last}{rest}: median as a line, band from the lowest seed to the highest"
    )
}

/// Says how many of `count` things are not drawn when there is room for `room`.
fn left_out(count: usize, room: usize, what: &str) -> Option<String> {
    let rest = count.saturating_sub(room);
    let plural = if rest == 1 { "" } else { "s" };
    (rest > 0).then(|| format!("{rest} more {what}{plural} not drawn"))
}

/// Cuts a name to a length that fits.
fn shorten(name: &str) -> String {
    let clean = name.chars().map(|c| if c.is_control() { ' ' } else { c });
    if name.chars().count() <= MAX_NAME {
        return clean.collect();
    }
    clean.take(MAX_NAME - 1).chain(['…']).collect()
}

pub(crate) fn failed(error: impl std::fmt::Display) -> SvgError {
    SvgError(error.to_string())
}

/// Width and height of the parts of a picture, in units of the drawing.
struct Layout {
    columns: usize,
    rows: usize,
    panel: (u32, u32),
    head: u32,
    /// Width and height of the legend.
    legend: (u32, u32),
}

impl Layout {
    fn of(figure: &Figure) -> Self {
        let count = figure.panels.len();
        let columns = match count {
            0 | 1 => 1,
            2 | 4 => 2,
            10.. => 4,
            _ => 3,
        };
        let (width, height) = if count <= 1 { (640, 400) } else { (380, 270) };
        let width = width * SCALE;
        let notes = figure.panels.iter().map(|panel| panel.notes_height(&figure.legend, width));
        let names = figure.legend.iter().map(|entry| entry.name.as_str());
        let names = names.chain(figure.key.iter().copied());
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        let lines = figure.legend.len() + figure.key.len();
        Self {
            columns,
            rows: count.div_ceil(columns).max(1),
            panel: (width, height * SCALE + notes.max().unwrap_or(0)),
            head: 58 * SCALE,
            legend: (
                (longest * CHARACTER) as u32 + 60 * SCALE,
                (lines as u32 * LEGEND_LINE + 20) * SCALE,
            ),
        }
    }

    fn size(&self) -> (u32, u32) {
        let (width, height) = self.diagrams();
        // A little room at the bottom.
        let below_head = height.max(self.legend.1) + 8 * SCALE;
        (width + self.legend.0, self.head + below_head)
    }

    /// Width and height of all diagrams together.
    fn diagrams(&self) -> (u32, u32) {
        (self.panel.0 * self.columns as u32, self.panel.1 * self.rows as u32)
    }
}

fn draw(mut figure: Figure) -> Result<String> {
    figure.panels.retain(|panel| !panel.is_empty());
    merge(&mut figure.legend, &figure.panels);
    let layout = Layout::of(&figure);
    let size = layout.size();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (head, body) = root.split_vertically(layout.head);
        draw_head(&head, &figure)?;
        let (width, height) = layout.diagrams();
        let (diagrams, legend) = body.split_horizontally(width);
        let (diagrams, _) = diagrams.split_vertically(height);
        if figure.panels.is_empty() {
            draw_nothing(&diagrams)?;
        } else {
            let areas = diagrams.split_evenly((layout.rows, layout.columns));
            for (area, panel) in areas.iter().zip(&figure.panels) {
                panel.draw(area, &figure.legend)?;
            }
            draw_legend(&legend, &figure)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(shrink(svg, size))
}

/// Makes the picture appear at half the size that it was laid out in.
pub(crate) fn shrink(svg: String, (width, height): (u32, u32)) -> String {
    let laid_out = format!("width=\"{width}\" height=\"{height}\" viewBox");
    let shown = format!("width=\"{}\" height=\"{}\" viewBox", width / SCALE, height / SCALE);
    svg.replacen(&laid_out, &shown, 1)
}

pub(crate) fn text(size: u32, color: RGBColor, anchor: Pos) -> TextStyle<'static> {
    // The SVG writer divides sizes by 1.24.
    let size = f64::from(size * SCALE) * 1.24;
    let style = TextStyle::from(("sans-serif", size).into_font()).pos(anchor);
    TextStyle { color: color.to_backend_color(), ..style }
}

fn draw_head(area: &Area<'_>, figure: &Figure) -> Result<()> {
    let left = Pos::new(HPos::Left, VPos::Top);
    let at = |y: i32| (14 * SCALE as i32, y * SCALE as i32);
    area.draw_text(&figure.title, &text(17, INK, left), at(10)).map_err(failed)?;
    let note = figure.note.iter().map(|note| format!(" ({note})"));
    let subtitle = figure.subtitle.clone() + &note.collect::<String>();
    area.draw_text(&subtitle, &text(12, FRAME, left), at(33)).map_err(failed)
}

fn draw_nothing(area: &Area<'_>) -> Result<()> {
    let (width, height) = area.dim_in_pixel();
    let middle = (width as i32 / 2, height as i32 / 2);
    let style = text(15, FRAME, Pos::new(HPos::Center, VPos::Center));
    area.draw_text("no requests completed", &style, middle).map_err(failed)
}

fn draw_legend(area: &Area<'_>, figure: &Figure) -> Result<()> {
    let scale = SCALE as i32;
    let style = text(12, INK, Pos::new(HPos::Left, VPos::Center));
    let mut y = 20 * scale;
    for words in &figure.key {
        let style = text(11, FRAME, Pos::new(HPos::Left, VPos::Center));
        area.draw_text(words, &style, (4 * scale, y)).map_err(failed)?;
        y += LEGEND_LINE as i32 * scale;
    }
    // Below each line the other names that it has.
    let first = figure.legend.iter().enumerate().filter(|(_, entry)| entry.same_as.is_none());
    for (index, entry) in first {
        draw_line(area, vec![(4 * scale, y), (32 * scale, y)], entry.style)?;
        area.draw_text(&entry.name, &style, (40 * scale, y)).map_err(failed)?;
        y += LEGEND_LINE as i32 * scale;
        for other in figure.legend.iter().filter(|other| other.same_as == Some(index)) {
            let name = format!("= {}", other.name);
            area.draw_text(&name, &style, (40 * scale, y)).map_err(failed)?;
            y += LEGEND_LINE as i32 * scale;
        }
    }
    Ok(())
}

/// Draws a line in a style.
pub(crate) fn draw_line<C>(
    area: &DrawingArea<SVGBackend<'_>, C>,
    points: Vec<C::From>,
    style: Style,
) -> Result<()>
where
    C: CoordTranslate,
    C::From: Clone + 'static,
{
    let color = style.color.stroke_width(style.width * SCALE / 2);
    match style.pattern {
        None => area.draw(&PathElement::new(points, color)),
        Some((dash, gap)) => {
            let (dash, gap) = (dash * SCALE as i32 / 2, gap * SCALE as i32 / 2);
            area.draw(&DashedPathElement::new(points, dash, gap, color))
        }
    }
    .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::report::samples::{empty_outcome, outcome, task};
    use crate::report::style::PALETTE;

    fn with_tasks(tasks: impl IntoIterator<Item = (String, Vec<u64>)>) -> Outcome {
        let tasks = tasks.into_iter().map(|(name, latencies)| task(&name, latencies, 1, 0));
        Outcome { tasks: tasks.collect(), ..outcome() }
    }

    fn draw_all(outcomes: &[Outcome]) -> Vec<String> {
        let combination = |outcome: &Outcome| Combination {
            policy: outcome.policy.clone(),
            level: Some(outcome.level),
        };
        let combinations: Vec<_> = outcomes.iter().map(combination).collect();
        let runs: Vec<_> = outcomes.iter().map(Distributions::of).collect();
        let all: Vec<_> = runs.iter().collect();
        let mut pictures = vec![comparison_svg(&combinations, &all).unwrap()];
        pictures.extend(runs.iter().map(|runs| latency_svg(runs).unwrap()));
        for picture in &pictures {
            assert!(picture.starts_with("<svg width="), "{}", &picture[..200]);
            assert!(picture.trim_end().ends_with("</svg>"));
            assert!(!picture.contains("NaN") && !picture.contains("inf"));
        }
        pictures
    }

    #[test]
    fn equal_runs_give_equal_pictures() {
        let runs = Distributions::of(&outcome());
        assert_eq!(latency_svg(&runs), latency_svg(&runs.clone()));
        let picture = &latency_svg(&runs).unwrap();
        assert!(picture.contains("Request latency: demo"));
        assert!(picture.contains("policy hpf, Lv2, seed 7"));
        assert!(picture.contains("fast") && !picture.contains("idle"));
        assert!(picture.contains("latency (ms)"));
    }

    #[test]
    fn nothing_completed() {
        for picture in draw_all(&[empty_outcome()]) {
            assert!(picture.contains("no requests completed"));
        }
        assert!(comparison_svg(&[], &[]).unwrap().contains("no requests completed"));
    }

    #[test]
    fn extreme_samples_are_drawn() {
        let samples = [
            vec![0],
            vec![5_000_000; 3],
            vec![0, u64::MAX],
            vec![1, u64::MAX],
            vec![u64::MAX],
            (0..100_000).collect(),
        ];
        for samples in samples {
            draw_all(&[with_tasks([("one".to_owned(), samples)])]);
        }
    }

    #[test]
    fn many_tasks_are_cut_and_noted() {
        let outcome =
            with_tasks((0..40).map(|n| (format!("task-{n}"), vec![1_000_000, 2_000_000])));
        let pictures = draw_all(&vec![outcome; 23]);
        assert!(pictures[0].contains("28 more tasks not drawn"));
        assert!(pictures[1].contains("19 more tasks not drawn"));
        assert!(!pictures[1].contains("task-21"));
    }

    #[test]
    fn names_are_escaped_and_shortened() {
        let odd = "<a & \"b\">\n".to_owned() + &"x".repeat(100);
        for picture in draw_all(&[with_tasks([(odd, vec![1_000_000])])]) {
            assert!(picture.contains("&lt;a &amp; &quot;b&quot;&gt; xxx"));
            assert!(picture.contains('…') && !picture.contains(&"x".repeat(50)));
        }
    }

    fn combination(policy: &str, level: u8) -> Combination {
        Combination { policy: policy.to_owned(), level: Some(level) }
    }

    /// A run with these tasks, each of which has latencies from the first to the second number of
    /// milliseconds.
    fn ranges(tasks: &[(&str, u64, u64)]) -> Distributions {
        let spread = |low: u64, high: u64| {
            (0..=100).map(|n| (low * 100 + (high - low) * n) * 10_000).collect()
        };
        let tasks = tasks.iter().map(|&(name, low, high)| (name.to_owned(), spread(low, high)));
        Distributions::of(&with_tasks(tasks))
    }

    fn compared(runs: &[(&str, u8, Distributions)]) -> String {
        let combinations: Vec<_> =
            runs.iter().map(|(policy, level, _)| combination(policy, *level)).collect();
        let runs: Vec<_> = runs.iter().map(|(_, _, runs)| runs).collect();
        comparison_svg(&combinations, &runs).unwrap()
    }

    /// The colour, the leftmost and the rightmost place of each solid line of a diagram, in pixels
    /// as shown. The lines in the legend and the dashes of others have few points.
    fn drawn_lines(picture: &str) -> Vec<(String, f64, f64)> {
        let lines = picture.lines().filter(|line| line.starts_with("<polyline"));
        let part = |line: &str, key: &str| {
            let rest = line.split_once(&format!("{key}=\"")).expect("the attribute").1;
            rest.split_once('"').expect("its end").0.to_owned()
        };
        lines
            .filter_map(|line| {
                let points = part(line, "points");
                let xs: Vec<f64> = points
                    .split_whitespace()
                    .filter_map(|point| point.split_once(',')?.0.parse().ok())
                    .map(|x: f64| x / f64::from(SCALE))
                    .collect();
                let ends =
                    (xs.iter().copied().reduce(f64::min)?, xs.iter().copied().reduce(f64::max)?);
                (xs.len() > 50).then(|| (part(line, "stroke"), ends.0, ends.1))
            })
            .collect()
    }

    #[test]
    fn identical_lines_are_one_with_all_names() {
        let same = || ranges(&[("a", 10, 20), ("b", 30, 40)]);
        let other = ranges(&[("a", 12, 24), ("b", 33, 44)]);
        let picture = compared(&[("fcfs", 1, same()), ("hpf", 1, same()), ("wfq", 1, other)]);
        assert!(picture.contains("fcfs Lv1") && picture.contains("= hpf Lv1"), "{picture}");
        assert!(!picture.contains("= wfq") && !picture.contains("one line"), "{picture}");
        // Two lines in each of the two diagrams.
        assert_eq!(drawn_lines(&picture).len(), 4, "{picture}");
    }

    #[test]
    fn lines_that_coincide_in_one_diagram_are_named_there() {
        let one = ranges(&[("a", 10, 20), ("b", 30, 40)]);
        let other = ranges(&[("a", 10, 20), ("b", 31, 44)]);
        let picture = compared(&[("hpf", 1, one), ("edf", 1, other)]);
        assert!(picture.contains("one line: hpf Lv1, edf Lv1"), "{picture}");
        assert!(!picture.contains("= edf"), "{picture}");
        assert_eq!(drawn_lines(&picture).len(), 3, "{picture}");
    }

    #[test]
    fn a_slow_policy_does_not_shrink_the_others() {
        let run = |low, high| ranges(&[("a", low, high)]);
        let picture = compared(&[
            ("fcfs", 1, run(900, 1_000)),
            ("hpf", 1, run(10, 12)),
            ("edf", 1, run(10, 13)),
            ("wfq", 1, run(11, 14)),
        ]);
        let lines = drawn_lines(&picture);
        assert_eq!(lines.len(), 3, "{picture}");
        for (color, left, right) in &lines {
            assert!(right - left > 100.0, "{color} takes {left} to {right}");
        }
        assert!(picture.contains("cut off: fcfs Lv1 (900 to 1000 ms)"), "{picture}");
    }

    #[test]
    fn a_line_that_is_cut_ends_at_the_edge() {
        let run = |low, high| ranges(&[("a", low, high)]);
        let all = [run(10, 12), run(10, 13), run(11, 2_000)].map(|run| ("hpf", 1, run));
        let [one, two, mut long] = all;
        (long.0, long.1) = ("fcfs", 3);
        let lines = drawn_lines(&compared(&[one, ("edf", 1, two.2), long]));
        let right = lines.iter().map(|line| line.2).fold(0.0, f64::max);
        // The diagram is 640 pixels wide, with a margin of 18 at the right.
        assert!(right > 600.0 && right <= 622.0, "{lines:?}");
    }

    #[test]
    fn deadlines_and_counts_are_in_the_picture() {
        let late = |misses: u64| {
            let mut outcome = with_tasks([
                ("a".to_owned(), (10..50).map(|n| n * 1_000_000).collect()),
                ("b".to_owned(), vec![7_000_000; 50]),
            ]);
            (outcome.tasks[0].deadline_ns, outcome.tasks[0].deadline_misses) =
                (Some(20_000_000), misses);
            Distributions::of(&outcome)
        };
        let picture = latency_svg(&late(29)).unwrap();
        for words in ["a: n = 40, 29 late", "b: n = 50", "dotted upright: deadline"] {
            assert!(picture.contains(words), "{words}: {picture}");
        }
        let compared = compared(&[("fcfs", 1, late(29)), ("edf", 1, late(3))]);
        for words in ["n = 40", "deadline 20 ms, late: fcfs Lv1 29 of 40, edf Lv1 3", "n = 50"] {
            assert!(compared.contains(words), "{words}: {compared}");
        }
        let none = latency_svg(&ranges(&[("a", 10, 20)])).unwrap();
        assert!(!none.contains("deadline") && none.contains("a: n = 101"), "{none}");
    }

    #[test]
    fn few_requests_are_points() {
        let run = |count: u64| {
            let latencies = (0..count).map(|n| (n + 1) * 1_000_000).collect();
            latency_svg(&Distributions::of(&with_tasks([("a".to_owned(), latencies)]))).unwrap()
        };
        let (few, enough) = (run(29), run(30));
        assert_eq!(few.matches("<circle").count(), 29);
        assert!(few.contains("points instead of a curve") && drawn_lines(&few).is_empty());
        assert!(!enough.contains("<circle") && drawn_lines(&enough).len() == 1);
    }

    #[test]
    fn a_task_keeps_its_colour_when_another_completes_nothing() {
        let of = |first: Vec<u64>| {
            let spread = (0..=100).map(|n| n * 10_000).collect();
            let tasks = [("a".to_owned(), first), ("b".to_owned(), spread)];
            let picture = latency_svg(&Distributions::of(&with_tasks(tasks))).unwrap();
            drawn_lines(&picture).last().expect("a line").0.clone()
        };
        assert_eq!(of(Vec::new()), of((0..=100).map(|n| n * 20_000).collect()));
    }

    #[test]
    fn measured_runs_have_no_seed_and_axes_say_what_they_are() {
        let measured = Distributions::measured(&outcome());
        let picture = latency_svg(&measured).unwrap();
        assert!(picture.contains("measured") && !picture.contains("seed"), "{picture}");
        assert!(picture.contains("latency (ms), linear"), "{picture}");
        let far = latency_svg(&ranges(&[("a", 1, 900)])).unwrap();
        assert!(far.contains("latency (ms), logarithmic"), "{far}");
    }

    #[test]
    fn several_seeds_are_a_line_and_a_band() {
        let seeds = |factors: &[u64]| {
            let of = |factor: u64| ranges(&[("a", 10 * factor, 20 * factor)]);
            let mut runs = of(factors[0]);
            factors[1..].iter().for_each(|&factor| runs.append(of(factor)));
            runs
        };
        let several = latency_svg(&seeds(&[2, 1, 3])).unwrap();
        assert_eq!(several.matches("<polygon").count(), 1, "{several}");
        let words = "seeds 7 to 9: median as a line, band from the lowest seed to the highest";
        assert!(several.contains(words), "{several}");
        // The line is that of the seed in the middle, which is not the first.
        let single = |factor| drawn_lines(&latency_svg(&seeds(&[factor, 1, 3])).unwrap());
        assert_eq!(drawn_lines(&several), single(2));
        let one = latency_svg(&seeds(&[2])).unwrap();
        assert!(!one.contains("<polygon") && one.contains("seed 7"), "{one}");
        let compared = compared(&[("hpf", 1, seeds(&[2, 1, 3])), ("fcfs", 1, seeds(&[5, 4]))]);
        assert_eq!(compared.matches("<polygon").count(), 2, "{compared}");
    }

    #[test]
    fn the_legend_says_what_colours_and_patterns_mean() {
        let run = |high| ranges(&[("a", 10, high)]);
        let levels = compared(&[("hpf", 1, run(20)), ("hpf", 2, run(15)), ("edf", 1, run(30))]);
        assert!(levels.contains("colour: policy") && levels.contains("pattern: level"), "{levels}");
        let lines = drawn_lines(&levels);
        assert_eq!(lines.len(), 2, "the one of Lv2 is dashed: {lines:?}");
        assert_ne!(lines[0].0, lines[1].0);
        let one = compared(&[("hpf", 2, run(20)), ("edf", 2, run(30))]);
        assert!(!one.contains("colour: policy") && drawn_lines(&one).len() == 2, "{one}");
        let RGBColor(red, green, blue) = PALETTE[1];
        let color = format!("#{red:02X}{green:02X}{blue:02X}");
        assert_eq!(
            (&lines[0].0, &drawn_lines(&one)[0].0),
            (&color, &color),
            "hpf keeps its colour"
        );
    }
}
