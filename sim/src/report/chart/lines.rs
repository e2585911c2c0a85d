//! Curves and marks.

use plotters::coord::CoordTranslate;
use plotters::prelude::*;

use super::{Chart, Entry, Result, Sign, builder};
use crate::report::axis::Axis;
use crate::report::panel::{CURVE_FROM, samples};
use crate::report::style::{Style, shade};
use crate::report::svg::{Area, SCALE, draw_line, failed};
use crate::stats::Summary;

/// A curve, or points.
#[derive(Clone, Debug)]
pub struct Line {
    /// Shown in the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    shape: Shape,
    /// Colour and pattern, where they are not those of its place among the lines.
    style: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Curve,
    /// A curve with a dot at each point.
    Dotted,
    /// Only marks, no line.
    Marks,
    /// Only dots, as of few samples.
    Dots,
}

impl Line {
    /// A curve.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, shape: Shape::Curve, style: None }
    }

    /// Points without a line, as for measurements from elsewhere.
    pub fn marks(name: impl Into<String>, points: &[(f64, f64)]) -> Self {
        Self { shape: Shape::Marks, ..Self::new(name, points.to_vec()) }
    }

    /// With a dot at each point.
    #[must_use]
    pub fn dotted(self) -> Self {
        Self { shape: Shape::Dotted, ..self }
    }

    /// In the style with this number: there are 7 colours, the same dashed from 7 on, and dotted
    /// from 14 on.
    #[must_use]
    pub fn styled(self, style: usize) -> Self {
        Self { style: Some(style), ..self }
    }

    /// The cumulative distribution of times, in percent over milliseconds; the name says of how
    /// many. Of fewer than 30 each is a dot.
    #[must_use]
    pub fn distribution(name: impl Into<String>, times_ns: &[u64]) -> Self {
        let summary = Summary::new(times_ns.to_vec());
        let points = (0..=200).filter_map(|half| {
            let rank = (summary.sorted().len() * half).div_ceil(200).saturating_sub(1);
            let ns = *summary.sorted().get(rank)?;
            Some((ns as f64 / 1e6, half as f64 / 2.0))
        });
        Self::new(name, points.collect()).of_samples(summary.count())
    }

    /// A distribution of this many samples, which the name says. Of fewer than 30 each is a dot:
    /// the last point at each value.
    #[must_use]
    pub fn of_samples(self, count: u64) -> Self {
        let name = format!("{}, n = {count}", self.name);
        if count >= CURVE_FROM {
            return Self { name, ..self };
        }
        let points = samples(&self.points);
        Self { name, points, shape: Shape::Dots, ..self }
    }

    /// Draws it with this many lines to come: it is wider than those, so that it is seen behind one
    /// that coincides with it.
    fn draw<C>(
        &self,
        area: &DrawingArea<SVGBackend<'_>, C>,
        style: usize,
        later: usize,
    ) -> Result<()>
    where
        C: CoordTranslate<From = (f64, f64)>,
    {
        let look = Style::numbered(style).behind(later);
        let is_line = matches!(self.shape, Shape::Curve | Shape::Dotted);
        if is_line && self.points.len() > 1 {
            draw_line(area, self.points.clone(), look)?;
        }
        let (size, dot) = match self.shape {
            Shape::Curve => return Ok(()),
            Shape::Marks => (4 * SCALE, shade(style).stroke_width(2 * SCALE)),
            Shape::Dotted | Shape::Dots => (3 * SCALE, look.color.filled()),
        };
        for point in &self.points {
            area.draw(&Circle::new(*point, size, dot)).map_err(failed)?;
        }
        Ok(())
    }
}

/// Draws the lines, and says what goes into the legend.
pub(super) fn draw<'l>(
    chart: &Chart,
    area: &Area<'_>,
    lines: &'l [Line],
    axis: fn(&[f64]) -> Axis,
) -> Result<Vec<Entry<'l>>> {
    let points = lines.iter().flat_map(|line| &line.points);
    let (xs, ys): (Vec<f64>, Vec<f64>) = points.copied().unzip();
    let (x, y) = (axis(&xs), axis(&ys));
    let labels = (x.marked(chart.x), y.marked(chart.y));
    let mut plane = builder(area).build_cartesian_2d(x, y).map_err(failed)?;
    chart.mesh(plane.configure_mesh().x_desc(labels.0).y_desc(labels.1))?;
    let mut entries = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let style = line.style.unwrap_or(index);
        line.draw(plane.plotting_area(), style, lines.len() - 1 - index)?;
        let sign = match line.shape {
            Shape::Marks => Sign::Square(style),
            Shape::Dots => Sign::Dots(style),
            Shape::Curve | Shape::Dotted => Sign::Line(style),
        };
        entries.push((sign, line.name.as_str()));
    }
    Ok(entries)
}
