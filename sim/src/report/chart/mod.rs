//! Figures: lines with marked measurements, and groups of bars.

mod bars;
mod lines;

use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use bars::{Bar, Bars};
pub use lines::Line;

use super::axis::Axis;
use super::style::{Style, shade};
use super::svg::{Area, FAINT, FRAME, GRID, INK, SCALE, SvgError, draw_line, failed, shrink, text};

type Result<T> = std::result::Result<T, SvgError>;

/// A figure.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Name of the figure, part of a file's name; not shown.
    pub name: &'static str,
    /// Above the diagram. There is room for about 95 characters.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x: &'static str,
    /// Label of the vertical axis, with its unit.
    pub y: &'static str,
    /// The diagram.
    pub plot: Plot,
}

/// The diagram of a figure.
#[derive(Clone, Debug)]
pub enum Plot {
    /// Curves, and points of measurements from elsewhere.
    Lines(Vec<Line>),
    /// Curves and points on axes that begin near the smallest values instead of at 0.
    Near(Vec<Line>),
    /// Bars in groups.
    Bars(Bars),
}

/// Width and height of the diagram and width of the legend.
const SIZE: (u32, u32) = (620, 360);
const LEGEND: u32 = 330;
const HEAD: u32 = 40;
const LEGEND_LINE: u32 = 20;

/// Draws figures below each other, as SVG.
///
/// # Errors
///
/// Only if the drawing library refuses, which it has no reason to.
pub fn charts_svg(charts: &[Chart]) -> Result<String> {
    let heights: Vec<u32> = charts.iter().map(|chart| chart.height() * SCALE).collect();
    let size = ((SIZE.0 + LEGEND) * SCALE, heights.iter().sum::<u32>().max(HEAD * SCALE));
    let mut svg = String::new();
    {
        let mut rest = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        rest.fill(&WHITE).map_err(failed)?;
        for (chart, height) in charts.iter().zip(heights) {
            let (upper, lower) = rest.split_vertically(height);
            chart.draw(&upper)?;
            rest = lower;
        }
        rest.present().map_err(failed)?;
    }
    Ok(shrink(svg, size))
}

impl Chart {
    /// The figure as SVG.
    ///
    /// # Errors
    ///
    /// Only if the drawing library refuses, which it has no reason to.
    pub fn svg(&self) -> Result<String> {
        charts_svg(std::slice::from_ref(self))
    }

    /// Height with the title; a long legend needs room.
    fn height(&self) -> u32 {
        let entries = match &self.plot {
            Plot::Lines(lines) | Plot::Near(lines) => lines.len(),
            Plot::Bars(bars) => bars.entries(),
        };
        HEAD + SIZE.1.max(entries as u32 * LEGEND_LINE + 20)
    }

    fn draw(&self, area: &Area<'_>) -> Result<()> {
        let (head, body) = area.split_vertically(HEAD * SCALE);
        let at = (14 * SCALE as i32, 12 * SCALE as i32);
        let left = Pos::new(HPos::Left, VPos::Top);
        head.draw_text(&self.title, &text(16, INK, left), at).map_err(failed)?;
        let (diagram, legend) = body.split_horizontally(SIZE.0 * SCALE);
        let (diagram, _) = diagram.split_vertically(SIZE.1 * SCALE);
        let entries = match &self.plot {
            Plot::Lines(lines) => lines::draw(self, &diagram, lines, axis)?,
            Plot::Near(lines) => lines::draw(self, &diagram, lines, near_axis)?,
            Plot::Bars(bars) => bars.draw(self, &diagram)?,
        };
        draw_legend(&legend, &entries)
    }

    fn mesh<'a, X, Y>(
        &self,
        mesh: &mut plotters::chart::MeshStyle<'a, '_, X, Y, SVGBackend<'a>>,
    ) -> Result<()>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        mesh.bold_line_style(GRID.stroke_width(SCALE))
            .light_line_style(FAINT.stroke_width(SCALE))
            .axis_style(FRAME.stroke_width(SCALE))
            .label_style(text(11, INK, Pos::default()))
            .axis_desc_style(text(12, INK, Pos::default()))
            .draw()
            .map_err(failed)
    }
}

fn builder<'a, 'b>(area: &'a Area<'b>) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(10 * SCALE)
        .margin_right(18 * SCALE)
        .x_label_area_size(44 * SCALE)
        .y_label_area_size(58 * SCALE);
    builder
}

/// An axis for these values, from 0 unless they are far apart.
fn axis(values: &[f64]) -> Axis {
    let values = || values.iter().copied().filter(|value| value.is_finite());
    let largest = values().fold(0.0, f64::max);
    let smallest = values().fold(f64::INFINITY, f64::min);
    let log = smallest > 0.0 && smallest.is_finite() && largest / smallest > 20.0;
    Axis::new(if log { smallest } else { 0.0 }, largest.max(1e-3))
}

/// An axis from the smallest of these values, which are not negative.
fn near_axis(values: &[f64]) -> Axis {
    let values = || values.iter().copied().filter(|value| value.is_finite());
    let largest = values().fold(1e-3, f64::max);
    Axis::new(values().fold(largest, f64::min).max(0.0), largest)
}

/// A line of the legend: how it looks and what it is called.
type Entry<'a> = (Sign, &'a str);

/// How something looks in the legend.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// A filled square in the colour of this kind of bars.
    Square(usize),
    /// A line in the style with this number.
    Line(usize),
    /// A point in the colour of the style with this number.
    Dots(usize),
    /// The thick line across a bar.
    Across,
    /// Nothing.
    Words,
}

fn draw_legend(area: &Area<'_>, entries: &[Entry<'_>]) -> Result<()> {
    let scale = SCALE as i32;
    let style = text(11, INK, Pos::new(HPos::Left, VPos::Center));
    for (index, (sign, name)) in entries.iter().enumerate() {
        let y = (20 + LEGEND_LINE as i32 * index as i32) * scale;
        draw_sign(area, *sign, y)?;
        area.draw_text(name, &style, (40 * scale, y)).map_err(failed)?;
    }
    Ok(())
}

fn draw_sign(area: &Area<'_>, sign: Sign, y: i32) -> Result<()> {
    let scale = SCALE as i32;
    match sign {
        Sign::Square(index) => {
            let color = shade(index).filled();
            let corners = [(14 * scale, y - 5 * scale), (24 * scale, y + 5 * scale)];
            area.draw(&Rectangle::new(corners, color)).map_err(failed)
        }
        Sign::Line(style) => {
            let ends = vec![(6 * scale, y), (32 * scale, y)];
            draw_line(area, ends, Style::numbered(style))
        }
        Sign::Dots(style) => {
            let color = Style::numbered(style).color.filled();
            area.draw(&Circle::new((19 * scale, y), 3 * SCALE, color)).map_err(failed)
        }
        Sign::Words => Ok(()),
        Sign::Across => {
            let ends = vec![(10 * scale, y), (28 * scale, y)];
            area.draw(&PathElement::new(ends, INK.stroke_width(3 * SCALE))).map_err(failed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::style::PALETTE;

    fn chart(plot: Plot) -> Chart {
        Chart {
            name: "a", title: "times & shares".into(), x: "length (µs)", y: "time (µs)", plot
        }
    }

    #[test]
    fn charts_are_drawn_below_each_other() {
        let lines = vec![
            Line::new("a <way>", vec![(10.0, 1.0), (1_000.0, 900.0)]).dotted(),
            Line::new("its goal", vec![(10.0, 2.0), (1_000.0, 950.0)]).styled(7),
            Line::marks("measured by others", &[(100.0, 50.0)]),
        ];
        let mut bars = Bars::new(
            vec!["first".into(), "second".into()],
            vec![
                Bar::new("plain", vec![Some(1.0), Some(30.0)], &["1.1"])
                    .beside(vec![Some(0.9), None]),
                Bar::new("held", vec![None, Some(f64::NAN)], &[])
                    .judged(vec![Some(true), Some(true)]),
                Bar::new("kept", vec![Some(2.0)], &[]).judged(vec![Some(false)]),
            ],
        );
        bars.log = true;
        bars.line = Some(("goal".into(), 1.1));
        let svg = charts_svg(&[chart(Plot::Lines(lines)), chart(Plot::Bars(bars))]).unwrap();
        let words = ["a &lt;way&gt;", "its goal", "measured by others", "second", "held", "goal"];
        let marks = ["length (µs), logarithmic", "time (µs), logarithmic", "misses it", ">\n✗\n<"];
        for words in words.into_iter().chain(marks) {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert!(svg.contains("times &amp; shares") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn nothing_and_one_point_are_drawn() {
        let nothing = Plot::Bars(Bars::new(Vec::new(), Vec::new()));
        let point = Plot::Lines(vec![Line::new("one", vec![(500.0, 0.0)]).dotted()]);
        let near = Plot::Near(Vec::new());
        let svg = charts_svg(&[chart(nothing), chart(point), chart(near)]);
        assert!(svg.unwrap().contains("<circle"));
        assert!(charts_svg(&[]).unwrap().contains("</svg>"));
    }

    #[test]
    fn lines_that_coincide_are_both_seen_and_few_samples_are_dots() {
        let line = |name| Line::new(name, vec![(1.0, 1.0), (2.0, 2.0)]);
        let svg = chart(Plot::Lines(vec![line("a"), line("b")])).svg().unwrap();
        let width = |line: &str| {
            let rest = line.split_once("stroke-width=\"")?.1;
            rest.split_once('"')?.0.parse::<u32>().ok()
        };
        let colors = [PALETTE[0], PALETTE[1]];
        let widths = colors.map(|RGBColor(red, green, blue)| {
            let color = format!("#{red:02X}{green:02X}{blue:02X}");
            let mut lines =
                svg.lines().filter(|l| l.starts_with("<polyline") && l.contains(&color));
            lines.find_map(width).unwrap_or_else(|| panic!("no {color}: {svg}"))
        });
        assert!(widths[0] > widths[1], "{widths:?}");
        let times: Vec<u64> = (1..=29).map(|n| n * 1_000_000).collect();
        let few = chart(Plot::Near(vec![Line::distribution("few", &times)])).svg().unwrap();
        assert!(few.contains("few, n = 29"), "{few}");
        assert_eq!(few.matches("<circle").count(), times.len() + 1, "one in the legend");
    }

    #[test]
    fn axes_begin_at_0_or_near_the_values() {
        assert_eq!(axis(&[70.0, 78.0]).range().start, 0.0);
        let near = near_axis(&[70.0, f64::NAN, 78.0]).range();
        assert!(near.start > 60.0 && near.start < 70.0 && near.end > 78.0, "{near:?}");
        assert!(near_axis(&[-1.0]).range().start >= 0.0);
    }

    #[test]
    fn stacked_bars_stand_on_each_other_and_negative_ones_hang() {
        let values = |value| vec![Some(value)];
        let bar = |name, value| Bar::new(name, values(value), &[]);
        let mut bars = Bars::new(vec!["lv1".into()], vec![bar("a", 75.0), bar("b", 25.0)]);
        assert_eq!(bars.range(), (0.0, 75.0 * 1.08));
        bars.stacked = true;
        assert_eq!(bars.range(), (0.0, 108.0));
        let below = Bars::new(vec!["lv1".into()], vec![bar("a", -2.0)]);
        assert!(below.range().0 < -2.0);
        for bars in [bars, below] {
            chart(Plot::Bars(bars)).svg().unwrap();
        }
    }
}
