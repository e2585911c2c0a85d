//! Curves and marks.

use plotters::coord::CoordTranslate;
use plotters::prelude::*;

use super::{Chart, Entry, Result, Sign, builder};
use crate::report::axis::Axis;
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

    /// The cumulative distribution of times, in percent over milliseconds.
    #[must_use]
    pub fn distribution(name: impl Into<String>, times_ns: &[u64]) -> Self {
        let summary = Summary::new(times_ns.to_vec());
        let points = (0..=200).filter_map(|half| {
            let rank = (summary.sorted().len() * half).div_ceil(200).saturating_sub(1);
            let ns = *summary.sorted().get(rank)?;
            Some((ns as f64 / 1e6, half as f64 / 2.0))
        });
        Self::new(name, points.collect())
    }

    fn draw<C>(&self, area: &DrawingArea<SVGBackend<'_>, C>, style: usize) -> Result<()>
    where
        C: CoordTranslate<From = (f64, f64)>,
    {
        if self.shape != Shape::Marks && self.points.len() > 1 {
            draw_line(area, self.points.clone(), Style::numbered(style))?;
        }
        if self.shape == Shape::Curve {
            return Ok(());
        }
        let marks = self.shape == Shape::Marks;
        let color = if marks { shade(style) } else { Style::numbered(style).color };
        let (size, look) = match self.shape {
            Shape::Marks => (4 * SCALE, color.stroke_width(2 * SCALE)),
            _ => (3 * SCALE, color.filled()),
        };
        for point in &self.points {
            area.draw(&Circle::new(*point, size, look)).map_err(failed)?;
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
    let mut plane = builder(area).build_cartesian_2d(axis(&xs), axis(&ys)).map_err(failed)?;
    chart.mesh(&mut plane.configure_mesh())?;
    let mut entries = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let style = line.style.unwrap_or(index);
        line.draw(plane.plotting_area(), style)?;
        let sign = if line.shape == Shape::Marks { Sign::Square(style) } else { Sign::Line(style) };
        entries.push((sign, line.name.as_str()));
    }
    Ok(entries)
}
