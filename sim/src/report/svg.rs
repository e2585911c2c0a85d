//! Pictures: cumulative distributions of request latencies, as SVG.

use plotters::coord::{CoordTranslate, Shift};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use thiserror::Error;

use super::axis::Axis;
use super::compare::Combination;
use crate::outcome::Outcome;
use crate::stats::Summary;

/// A picture could not be drawn.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("cannot draw the picture: {0}")]
pub struct SvgError(String);

/// Colours that people with the common kinds of colour blindness can tell apart and that show well
/// on white (after Okabe and Ito, without the yellow).
pub(crate) const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(70, 70, 70),
];
/// When the colours run out they come again in the next pattern: solid, dashed, dotted.
const PATTERNS: [Option<(i32, i32)>; 3] = [None, Some((12, 6)), Some((3, 5))];
/// Lines that can be told apart.
const MAX_LINES: usize = PALETTE.len() * PATTERNS.len();
/// Panels that fit on a page.
const MAX_PANELS: usize = 12;
/// Points of a line; with more samples, evenly spaced ranks are drawn.
const MAX_POINTS: usize = 400;
/// The largest samples, which are all drawn.
const TAIL_POINTS: usize = 20;

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

type Result<T> = std::result::Result<T, SvgError>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What a picture shows.
struct Figure {
    title: String,
    subtitle: String,
    panels: Vec<Panel>,
    /// Names of the lines, which have the same style in every panel.
    legend: Vec<String>,
    /// What was left out, if anything.
    note: Option<String>,
}

/// One diagram.
struct Panel {
    /// Shown above the diagram when there are several.
    title: String,
    /// Lines: index into the legend, and the samples in ascending order, of which there are some.
    lines: Vec<(usize, Summary)>,
}

/// Draws the distribution of the latencies of each task of a run. Tasks without a completed
/// request are left out.
///
/// # Errors
///
/// Only if the drawing library refuses, which it has no reason to.
pub fn latency_svg(outcome: &Outcome) -> Result<String> {
    let tasks = outcome.tasks.iter().filter(|task| !task.latencies_ns.is_empty());
    let mut names = Vec::new();
    let mut lines = Vec::new();
    for task in tasks.clone().take(MAX_LINES) {
        lines.push((lines.len(), Summary::new(task.latencies_ns.clone())));
        names.push(shorten(&task.name));
    }
    draw(&Figure {
        title: format!("Request latency: {}", shorten(&outcome.scenario)),
        subtitle: format!(
            "policy {}, level {}, seed {}",
            shorten(&outcome.policy),
            outcome.level,
            outcome.seed
        ),
        panels: vec![Panel { title: String::new(), lines }],
        legend: names,
        note: left_out(tasks.count(), MAX_LINES, "task"),
    })
}

/// Draws the distribution of the latencies of each task under each combination: one diagram per
/// task, one line per combination. `outcomes` are the runs of the combinations, in their order.
/// Tasks that completed no request under any combination are left out, and so are all after the
/// twelfth.
///
/// # Errors
///
/// Only if the drawing library refuses, which it has no reason to.
pub fn comparison_svg(combinations: &[Combination], outcomes: &[Outcome]) -> Result<String> {
    let drawn = &outcomes[..outcomes.len().min(MAX_LINES)];
    let tasks = outcomes.first().map_or(&[][..], |first| &first.tasks);
    let mut places = Vec::from_iter(0..tasks.len());
    places.retain(|&place| drawn.iter().any(|outcome| latencies(outcome, place).is_some()));
    let panel = |&place: &usize| Panel {
        title: shorten(&tasks[place].name),
        lines: (0..)
            .zip(drawn)
            .filter_map(|(index, outcome)| Some((index, latencies(outcome, place)?)))
            .map(|(index, samples)| (index, Summary::new(samples.to_vec())))
            .collect(),
    };
    let scenario = outcomes.first().map_or("", |first| first.scenario.as_str());
    draw(&Figure {
        title: format!("Request latency: {}", shorten(scenario)),
        subtitle: format!("one diagram per task, seed {}", outcomes.first().map_or(0, |o| o.seed)),
        panels: places.iter().take(MAX_PANELS).map(panel).collect(),
        legend: combinations.iter().take(MAX_LINES).map(|c| shorten(&c.label())).collect(),
        note: left_out(places.len(), MAX_PANELS, "task")
            .or_else(|| left_out(outcomes.len(), MAX_LINES, "combination")),
    })
}

/// The latencies of the task at this place, if there are any. Runs of one scenario have the same
/// tasks in each place.
fn latencies(outcome: &Outcome, place: usize) -> Option<&[u64]> {
    let samples = outcome.tasks.get(place)?.latencies_ns.as_slice();
    (!samples.is_empty()).then_some(samples)
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
        let count = figure.panels.iter().filter(|panel| !panel.lines.is_empty()).count();
        let columns = match count {
            0 | 1 => 1,
            2 | 4 => 2,
            10.. => 4,
            _ => 3,
        };
        let panel = if count <= 1 { (640, 400) } else { (380, 270) };
        let longest = figure.legend.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        Self {
            columns,
            rows: count.div_ceil(columns).max(1),
            panel: (panel.0 * SCALE, panel.1 * SCALE),
            head: 58 * SCALE,
            legend: (
                (longest * CHARACTER) as u32 + 60 * SCALE,
                (figure.legend.len() as u32 * LEGEND_LINE + 20) * SCALE,
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

fn draw(figure: &Figure) -> Result<String> {
    let layout = Layout::of(figure);
    let size = layout.size();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (head, body) = root.split_vertically(layout.head);
        draw_head(&head, figure)?;
        let (width, height) = layout.diagrams();
        let (diagrams, legend) = body.split_horizontally(width);
        let (diagrams, _) = diagrams.split_vertically(height);
        let panels: Vec<_> = figure.panels.iter().filter(|p| !p.lines.is_empty()).collect();
        if panels.is_empty() {
            draw_nothing(&diagrams)?;
        } else {
            let areas = diagrams.split_evenly((layout.rows, layout.columns));
            for (area, panel) in areas.iter().zip(&panels) {
                draw_panel(area, panel)?;
            }
            draw_legend(&legend, figure)?;
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
    for (index, name) in figure.legend.iter().enumerate() {
        let y = (20 + LEGEND_LINE as i32 * index as i32) * scale;
        draw_line(area, vec![(4 * scale, y), (32 * scale, y)], index)?;
        area.draw_text(name, &style, (40 * scale, y)).map_err(failed)?;
    }
    Ok(())
}

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Result<()> {
    let (Some(min), Some(max)) = (
        panel.lines.iter().filter_map(|(_, samples)| samples.min()).min(),
        panel.lines.iter().filter_map(|(_, samples)| samples.max()).max(),
    ) else {
        return Ok(());
    };
    let axis = Axis::new(milliseconds(min), milliseconds(max));
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(10 * SCALE)
        .margin_right(18 * SCALE)
        .x_label_area_size(40 * SCALE)
        .y_label_area_size(50 * SCALE);
    if !panel.title.is_empty() {
        // Above the middle of the diagram, which lies between the labels and the margin.
        let middle = (area.dim_in_pixel().0 + (50 + 10 - 18) * SCALE) / 2;
        let style = text(14, INK, Pos::new(HPos::Center, VPos::Top));
        area.draw_text(&panel.title, &style, (middle as i32, 8 * SCALE as i32)).map_err(failed)?;
        builder.margin_top(30 * SCALE);
    }
    // A little above 100 %, so that a line at the top is not hidden by the edge.
    let mut chart = builder.build_cartesian_2d(axis, 0.0..101.5).map_err(failed)?;
    chart
        .configure_mesh()
        .y_labels(6)
        .y_max_light_lines(0)
        .y_label_formatter(&|share| format!("{share:.0}"))
        .x_desc("latency (ms)")
        .y_desc("requests within (%)")
        .bold_line_style(GRID.stroke_width(SCALE))
        .light_line_style(FAINT.stroke_width(SCALE))
        .axis_style(FRAME.stroke_width(SCALE))
        .label_style(text(11, INK, Pos::default()))
        .axis_desc_style(text(12, INK, Pos::default()))
        .draw()
        .map_err(failed)?;
    for (index, samples) in &panel.lines {
        let points = distribution(samples.sorted());
        let points = points.into_iter().map(|(ns, share)| (milliseconds(ns), share));
        draw_line(chart.plotting_area(), points.collect(), *index)?;
    }
    Ok(())
}

/// Draws a line in the style that belongs to an entry of the legend.
pub(crate) fn draw_line<C>(
    area: &DrawingArea<SVGBackend<'_>, C>,
    points: Vec<C::From>,
    entry: usize,
) -> Result<()>
where
    C: CoordTranslate,
    C::From: Clone + 'static,
{
    let color = PALETTE[entry % PALETTE.len()].stroke_width(2 * SCALE);
    match PATTERNS[entry / PALETTE.len() % PATTERNS.len()] {
        None => area.draw(&PathElement::new(points, color)),
        Some((dash, gap)) => {
            let (dash, gap) = (dash * SCALE as i32 / 2, gap * SCALE as i32 / 2);
            area.draw(&DashedPathElement::new(points, dash, gap, color))
        }
    }
    .map_err(failed)
}

/// The points of a cumulative distribution: a latency and the percentage of samples up to it.
fn distribution(sorted: &[u64]) -> Vec<(u64, f64)> {
    let count = sorted.len();
    let share = |samples: usize| samples as f64 / count as f64 * 100.0;
    let mut points = Vec::new();
    if count <= MAX_POINTS {
        for (index, &ns) in sorted.iter().enumerate() {
            points.push((ns, share(index)));
            points.push((ns, share(index + 1)));
        }
        return points;
    }
    let spaced = (0..MAX_POINTS).map(|n| n * count / MAX_POINTS);
    for index in spaced.chain(count - TAIL_POINTS..count) {
        points.push((sorted[index], share(index + 1)));
    }
    // The last of the spaced ones may lie among the tail.
    points.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{empty_outcome, outcome, task};

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
        let mut pictures = vec![comparison_svg(&combinations, outcomes).unwrap()];
        pictures.extend(outcomes.iter().map(|outcome| latency_svg(outcome).unwrap()));
        for picture in &pictures {
            assert!(picture.starts_with("<svg width="), "{}", &picture[..200]);
            assert!(picture.trim_end().ends_with("</svg>"));
            assert!(!picture.contains("NaN") && !picture.contains("inf"));
        }
        pictures
    }

    #[test]
    fn equal_runs_give_equal_pictures() {
        assert_eq!(latency_svg(&outcome()), latency_svg(&outcome()));
        let picture = &latency_svg(&outcome()).unwrap();
        assert!(picture.contains("Request latency: demo"));
        assert!(picture.contains("policy hpf, level 2, seed 7"));
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

    #[test]
    fn a_distribution_climbs_from_0_to_100() {
        assert_eq!(distribution(&[3, 5]), [(3, 0.0), (3, 50.0), (5, 50.0), (5, 100.0)]);
        let many: Vec<u64> = (0..10_000).collect();
        let points = distribution(&many);
        assert!(points.len() <= MAX_POINTS + TAIL_POINTS);
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        assert_eq!(points.first().map(|p| p.0), Some(0));
        assert_eq!(points.last(), Some(&(9_999, 100.0)));
    }
}
