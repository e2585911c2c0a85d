//! Figures: lines with marked measurements, and groups of bars.

use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::axis::Axis;
use crate::report::svg::{
    Area, FAINT, FRAME, GRID, INK, PALETTE, SCALE, SvgError, draw_line, failed, shrink, text,
};
use crate::stats::Summary;

type Result<T> = std::result::Result<T, SvgError>;

/// A figure.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// Part of the file name.
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) plot: Plot,
}

#[derive(Clone, Debug)]
pub(super) enum Plot {
    /// Curves, and points of what others have published.
    Lines(Vec<Line>),
    /// Bars in groups.
    Bars { groups: Vec<String>, bars: Vec<Bar> },
}

/// The bars of one kind, one in each group.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    /// Simulated; a bar that is not there is `None`.
    pub(super) values: Vec<Option<f64>>,
    /// What others have published, marked across the bar.
    pub(super) published: Vec<Option<f64>>,
}

impl Bar {
    pub(super) fn new(
        name: impl Into<String>,
        values: Vec<Option<f64>>,
        published: &[&str],
    ) -> Self {
        let published = published.iter().map(|text| text.parse().ok()).collect();
        Self { name: name.into(), values, published }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Only marks, no line.
    pub(super) marks: bool,
}

impl Line {
    pub(super) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, marks: false }
    }

    pub(super) fn marks(name: impl Into<String>, points: &[(f64, f64)]) -> Self {
        Self { name: name.into(), points: points.to_vec(), marks: true }
    }

    /// The cumulative distribution of times, in percent over milliseconds.
    pub(super) fn distribution(name: impl Into<String>, times_ns: &[u64]) -> Self {
        let summary = Summary::new(times_ns.to_vec());
        let points = (0..=200).filter_map(|half| {
            let rank = (summary.sorted().len() * half).div_ceil(200).saturating_sub(1);
            let ns = *summary.sorted().get(rank)?;
            Some((ns as f64 / 1e6, half as f64 / 2.0))
        });
        Self::new(name, points.collect())
    }
}

/// Width and height of the diagram and width of the legend.
const SIZE: (u32, u32) = (620, 360);
const LEGEND: u32 = 250;
const HEAD: u32 = 40;
const LEGEND_LINE: i32 = 20;

impl Chart {
    /// The figure as SVG.
    pub(super) fn svg(&self) -> Result<String> {
        let size = ((SIZE.0 + LEGEND) * SCALE, (SIZE.1 + HEAD) * SCALE);
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            root.fill(&WHITE).map_err(failed)?;
            let (head, body) = root.split_vertically(HEAD * SCALE);
            let at = (14 * SCALE as i32, 12 * SCALE as i32);
            let left = Pos::new(HPos::Left, VPos::Top);
            head.draw_text(&self.title, &text(16, INK, left), at).map_err(failed)?;
            let (diagram, legend) = body.split_horizontally(SIZE.0 * SCALE);
            match &self.plot {
                Plot::Lines(lines) => self.draw_lines(&diagram, &legend, lines)?,
                Plot::Bars { groups, bars } => self.draw_bars(&diagram, &legend, groups, bars)?,
            }
            root.present().map_err(failed)?;
        }
        Ok(shrink(svg, size))
    }

    fn draw_lines(&self, area: &Area<'_>, legend: &Area<'_>, lines: &[Line]) -> Result<()> {
        let points = || lines.iter().flat_map(|line| &line.points);
        let x_axis = axis(points().map(|(x, _)| *x));
        let y_axis = axis(points().map(|(_, y)| *y));
        let mut chart = builder(area).build_cartesian_2d(x_axis, y_axis).map_err(failed)?;
        self.mesh(&mut chart.configure_mesh())?;
        for (index, line) in lines.iter().enumerate() {
            if line.marks {
                for point in &line.points {
                    let color = PALETTE[index % PALETTE.len()];
                    let mark = Circle::new(*point, 4 * SCALE, color.stroke_width(2 * SCALE));
                    chart.plotting_area().draw(&mark).map_err(failed)?;
                }
            } else if !line.points.is_empty() {
                draw_line(chart.plotting_area(), line.points.clone(), index)?;
            }
        }
        let names: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.marks)).collect();
        draw_legend(legend, &names)
    }

    fn draw_bars(
        &self,
        area: &Area<'_>,
        legend: &Area<'_>,
        groups: &[String],
        bars: &[Bar],
    ) -> Result<()> {
        let heights = bars.iter().flat_map(|bar| bar.values.iter().chain(&bar.published));
        let heights = heights.flatten().copied();
        let highest = heights.filter(|height| height.is_finite()).fold(0.1, f64::max);
        let range = 0.0..groups.len().max(1) as f64;
        let mut chart =
            builder(area).build_cartesian_2d(range, 0.0..highest * 1.08).map_err(failed)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().x_labels(0).y_max_light_lines(0);
        self.mesh(&mut mesh)?;
        let width = 0.8 / bars.len().max(1) as f64;
        let plane = chart.plotting_area();
        for (index, bar) in bars.iter().enumerate() {
            let left = |group: usize| group as f64 + 0.1 + width * index as f64;
            for (group, value) in shown(&bar.values) {
                let corners = [(left(group), 0.0), (left(group) + width * 0.92, value)];
                let color = PALETTE[index % PALETTE.len()].filled();
                plane.draw(&Rectangle::new(corners, color)).map_err(failed)?;
            }
            for (group, value) in shown(&bar.published) {
                let ends = vec![(left(group), value), (left(group) + width * 0.92, value)];
                let line = PathElement::new(ends, INK.stroke_width(3 * SCALE));
                plane.draw(&line).map_err(failed)?;
            }
        }
        let style = text(11, INK, Pos::new(HPos::Center, VPos::Top));
        for (group, name) in groups.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(group as f64 + 0.5, 0.0));
            let (left, top) = area.get_base_pixel();
            let at = (x - left, y - top + 6 * SCALE as i32);
            area.draw_text(name, &style, at).map_err(failed)?;
        }
        let names: Vec<_> = bars.iter().map(|bar| (bar.name.as_str(), true)).collect();
        draw_legend(legend, &names)?;
        if bars.iter().any(|bar| bar.published.iter().any(Option::is_some)) {
            let (scale, y) = (SCALE as i32, 20 + LEGEND_LINE * names.len() as i32);
            let ends = vec![(10 * scale, y * scale), (28 * scale, y * scale)];
            let line = PathElement::new(ends, INK.stroke_width(3 * SCALE));
            legend.draw(&line).map_err(failed)?;
            let style = text(11, INK, Pos::new(HPos::Left, VPos::Center));
            let at = (40 * scale, y * scale);
            legend.draw_text("paper or its artifact", &style, at).map_err(failed)?;
        }
        Ok(())
    }

    fn mesh<'a, X, Y>(
        &self,
        mesh: &mut plotters::chart::MeshStyle<'a, '_, X, Y, SVGBackend<'a>>,
    ) -> Result<()>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        mesh.x_desc(self.x)
            .y_desc(self.y)
            .bold_line_style(GRID.stroke_width(SCALE))
            .light_line_style(FAINT.stroke_width(SCALE))
            .axis_style(FRAME.stroke_width(SCALE))
            .label_style(text(11, INK, Pos::default()))
            .axis_desc_style(text(12, INK, Pos::default()))
            .draw()
            .map_err(failed)
    }
}

/// The values that are there, each with its group.
fn shown(values: &[Option<f64>]) -> impl Iterator<Item = (usize, f64)> {
    let values = values.iter().enumerate();
    values.filter_map(|(group, value)| Some((group, value.filter(|value| value.is_finite())?)))
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
fn axis(values: impl Iterator<Item = f64> + Clone) -> Axis {
    let values = values.filter(|value| value.is_finite());
    let largest = values.clone().fold(0.0, f64::max);
    let smallest = values.fold(f64::INFINITY, f64::min);
    let log = smallest > 0.0 && smallest.is_finite() && largest / smallest > 20.0;
    Axis::new(if log { smallest } else { 0.0 }, largest.max(1e-3))
}

fn draw_legend(area: &Area<'_>, names: &[(&str, bool)]) -> Result<()> {
    let scale = SCALE as i32;
    let style = text(11, INK, Pos::new(HPos::Left, VPos::Center));
    for (index, (name, mark)) in names.iter().enumerate() {
        let y = (20 + LEGEND_LINE * index as i32) * scale;
        if *mark {
            let color = PALETTE[index % PALETTE.len()].filled();
            let corners = [(14 * scale, y - 5 * scale), (24 * scale, y + 5 * scale)];
            area.draw(&Rectangle::new(corners, color)).map_err(failed)?;
        } else {
            draw_line(area, vec![(6 * scale, y), (32 * scale, y)], index)?;
        }
        area.draw_text(name, &style, (40 * scale, y)).map_err(failed)?;
    }
    Ok(())
}
