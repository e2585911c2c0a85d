//! Groups of bars.

use plotters::coord::CoordTranslate;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Chart, Entry, Result, Sign, builder};
use crate::report::axis::Axis;
use crate::report::style::{PALETTE, Style, shade};
use crate::report::svg::{Area, INK, SCALE, draw_line, failed, text};

/// Bars in groups.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Names of the groups, from left to right.
    pub groups: Vec<String>,
    /// The kinds of bars.
    pub bars: Vec<Bar>,
    /// Meaning of the lines across bars.
    pub marks: &'static str,
    /// True if the bars of a group stand on each other instead of side by side.
    pub stacked: bool,
    /// True if the vertical axis is logarithmic if the values are far apart.
    pub log: bool,
    /// A line through all groups, and its name.
    pub line: Option<(String, f64)>,
}

/// The bars of one kind, one in each group.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Shown in the legend.
    pub name: String,
    /// Heights; a bar that is not there is `None`.
    pub values: Vec<Option<f64>>,
    /// Heights of lighter and thinner bars beside them.
    pub lighter: Vec<Option<f64>>,
    /// Published values, marked across the bar.
    pub published: Vec<Option<f64>>,
    /// Colour, where it is not that of its place among the bars.
    style: Option<usize>,
    /// True for a bar that meets its goal, written above it; bars without a goal have none.
    pub verdicts: Vec<Option<bool>>,
}

impl Bar {
    /// Bars of one kind. What is published is given as in the source; what is no number there is
    /// not marked.
    pub fn new(name: impl Into<String>, values: Vec<Option<f64>>, published: &[&str]) -> Self {
        let published = published.iter().map(|text| text.parse().ok()).collect();
        let name = name.into();
        let (lighter, verdicts) = (Vec::new(), Vec::new());
        Self { name, values, lighter, published, style: None, verdicts }
    }

    /// In the colour with this number: there are 7, and three shades more of each.
    #[must_use]
    pub fn styled(self, style: usize) -> Self {
        Self { style: Some(style), ..self }
    }

    /// With verdicts above them.
    #[must_use]
    pub fn judged(self, verdicts: Vec<Option<bool>>) -> Self {
        Self { verdicts, ..self }
    }

    fn color(&self, place: usize) -> usize {
        self.style.unwrap_or(place)
    }

    /// With lighter bars of these heights beside them.
    #[must_use]
    pub fn beside(self, lighter: Vec<Option<f64>>) -> Self {
        Self { lighter, ..self }
    }
}

/// Marks above bars that meet their goal and that miss it, and their meaning in the legend.
const MET: &str = "✓";
const MISSED: &str = "✗";
const VERDICTS: &str = "✓ meets its goal, ✗ misses it";
/// Part of the room of a group that its bars take.
const FILLED: f64 = 0.8;
/// Part of a bar's room that it takes, and where the lighter one beside it begins, if there is one.
const BAR: f64 = 0.92;
const BESIDE: f64 = 0.6;
/// The style of the line through all groups: grey and dashed.
const LINE: usize = PALETTE.len() * 2 - 1;
/// Largest over smallest height from which on an axis is logarithmic, where that is wanted.
const LOG_FROM: f64 = 10.0;

impl Bars {
    /// Bars side by side, on an axis from 0.
    #[must_use]
    pub fn new(groups: Vec<String>, bars: Vec<Bar>) -> Self {
        let marks = "paper or its artifact";
        Self { groups, bars, marks, stacked: false, log: false, line: None }
    }

    /// Lines of the legend.
    pub(super) fn entries(&self) -> usize {
        self.legend().len()
    }

    fn legend(&self) -> Vec<Entry<'_>> {
        let bars = self.bars.iter().enumerate();
        let mut entries: Vec<Entry<'_>> =
            bars.map(|(n, bar)| (Sign::Square(bar.color(n)), bar.name.as_str())).collect();
        if self.bars.iter().any(|bar| bar.published.iter().any(Option::is_some)) {
            entries.push((Sign::Across, self.marks));
        }
        if let Some((name, _)) = &self.line {
            entries.push((Sign::Line(LINE), name));
        }
        if self.bars.iter().any(|bar| bar.verdicts.iter().any(Option::is_some)) {
            entries.push((Sign::Words, VERDICTS));
        }
        entries
    }

    /// All heights that must fit.
    fn heights(&self) -> Vec<f64> {
        let parts = self.bars.iter().flat_map(|bar| [&bar.values, &bar.lighter, &bar.published]);
        let mut heights: Vec<f64> = parts.flatten().flatten().copied().collect();
        if self.stacked {
            let sum = |group| self.below(self.bars.len(), group);
            heights.extend((0..self.groups.len()).map(sum));
        }
        heights.extend(self.line.iter().map(|(_, height)| *height));
        heights.retain(|height| height.is_finite());
        heights
    }

    /// Where a linear axis begins and ends.
    pub(super) fn range(&self) -> (f64, f64) {
        let heights = self.heights();
        let highest = heights.iter().copied().fold(0.0, f64::max);
        let lowest = heights.iter().copied().fold(0.0, f64::min);
        // Something to show if there is nothing.
        let highest = if highest > lowest { highest } else { 0.1 };
        (lowest * 1.08, highest * 1.08)
    }

    /// A logarithmic axis, if it is wanted and the heights are far enough apart; and where it
    /// begins.
    fn log_axis(&self) -> Option<(Axis, f64)> {
        let heights = self.heights();
        let lowest = heights.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = heights.iter().copied().fold(0.0, f64::max);
        let wanted = self.log && !self.stacked && lowest > 0.0 && highest / lowest >= LOG_FROM;
        wanted.then(|| {
            // The smallest bar is to be seen as well.
            let axis = Axis::log(lowest / 1.2, highest);
            let base = axis.range().start;
            (axis, base)
        })
    }

    /// Draws the bars, and says what goes into the legend.
    pub(super) fn draw(&self, chart: &Chart, area: &Area<'_>) -> Result<Vec<Entry<'_>>> {
        match self.log_axis() {
            Some((axis, base)) => {
                let y = axis.marked(chart.y);
                self.draw_on(chart, area, Vertical { axis, base, label: &y })?;
            }
            None => {
                let (low, high) = self.range();
                let axis = RangedCoordf64::from(low..high);
                self.draw_on(chart, area, Vertical { axis, base: 0.0, label: chart.y })?;
            }
        }
        Ok(self.legend())
    }

    fn draw_on<Y>(&self, chart: &Chart, area: &Area<'_>, vertical: Vertical<'_, Y>) -> Result<()>
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let Vertical { axis, base, label: y } = vertical;
        let range = 0.0..self.groups.len().max(1) as f64;
        let end = range.end;
        let mut plane = builder(area).build_cartesian_2d(range, axis).map_err(failed)?;
        let mut mesh = plane.configure_mesh();
        mesh.disable_x_mesh().x_labels(0).y_max_light_lines(0).x_desc(chart.x).y_desc(y);
        chart.mesh(&mut mesh)?;
        for index in 0..self.bars.len() {
            self.draw_kind(plane.plotting_area(), index, base)?;
            self.draw_verdicts(plane.plotting_area(), index)?;
        }
        if let Some((_, height)) = self.line {
            draw_line(
                plane.plotting_area(),
                vec![(0.0, height), (end, height)],
                Style::numbered(LINE),
            )?;
        }
        let bottom = plane.y_range().start;
        let places = (0..self.groups.len()).map(|n| plane.backend_coord(&(n as f64 + 0.5, bottom)));
        self.draw_names(area, &places.collect::<Vec<_>>())
    }

    /// Draws the bars of one kind.
    fn draw_kind<C>(
        &self,
        plane: &DrawingArea<SVGBackend<'_>, C>,
        index: usize,
        base: f64,
    ) -> Result<()>
    where
        C: CoordTranslate<From = (f64, f64)>,
    {
        let Some(bar) = self.bars.get(index) else { return Ok(()) };
        let color = shade(bar.color(index));
        let end = if bar.lighter.is_empty() { BAR } else { BESIDE };
        let rectangle = |(left, right), (bottom, top), color: ShapeStyle| {
            plane.draw(&Rectangle::new([(left, bottom), (right, top)], color)).map_err(failed)
        };
        for (group, value) in shown(&bar.values) {
            let bottom = if self.stacked { self.below(index, group) } else { base };
            rectangle(
                self.sides(index, group, 0.0, end),
                (bottom, bottom + value - base),
                color.filled(),
            )?;
        }
        for (group, value) in shown(&bar.lighter) {
            let light = color.mix(0.4).filled();
            rectangle(self.sides(index, group, BESIDE, BAR), (base, value), light)?;
        }
        for (group, value) in shown(&bar.published) {
            let (left, right) = self.sides(index, group, 0.0, BAR);
            let ends = vec![(left, value), (right, value)];
            plane.draw(&PathElement::new(ends, INK.stroke_width(3 * SCALE))).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes above the bars of one kind whether they meet their goals.
    fn draw_verdicts<C>(&self, plane: &DrawingArea<SVGBackend<'_>, C>, index: usize) -> Result<()>
    where
        C: CoordTranslate<From = (f64, f64)>,
    {
        let Some(bar) = self.bars.get(index) else { return Ok(()) };
        let style = text(11, INK, Pos::new(HPos::Center, VPos::Bottom));
        for (group, value) in shown(&bar.values) {
            let Some(is_met) = bar.verdicts.get(group).copied().flatten() else { continue };
            let (left, right) = self.sides(index, group, 0.0, BAR);
            let mark = if is_met { MET } else { MISSED };
            let above = Text::new(mark, ((left + right) / 2.0, value), style.clone());
            plane.draw(&above).map_err(failed)?;
        }
        Ok(())
    }

    /// Left and right side of a part of a bar's room.
    fn sides(&self, index: usize, group: usize, from: f64, to: f64) -> (f64, f64) {
        let count = if self.stacked { 1 } else { self.bars.len().max(1) };
        let width = FILLED / count as f64;
        let place = if self.stacked { 0 } else { index };
        let left = group as f64 + (1.0 - FILLED) / 2.0 + width * place as f64;
        (left + width * from, left + width * to)
    }

    /// The sum of the bars below one in a stack.
    fn below(&self, index: usize, group: usize) -> f64 {
        let bars = self.bars.iter().take(index);
        bars.filter_map(|bar| bar.values.get(group).copied().flatten()).sum()
    }

    /// Writes the names of the groups below their places on the picture.
    fn draw_names(&self, area: &Area<'_>, places: &[(i32, i32)]) -> Result<()> {
        let style = text(11, INK, Pos::new(HPos::Center, VPos::Top));
        let (left, top) = area.get_base_pixel();
        for (name, (x, y)) in self.groups.iter().zip(places) {
            let at = (x - left, y - top + 6 * SCALE as i32);
            area.draw_text(name, &style, at).map_err(failed)?;
        }
        Ok(())
    }
}

/// The vertical axis of bars.
struct Vertical<'a, Y> {
    axis: Y,
    /// Where bars begin.
    base: f64,
    label: &'a str,
}

/// The values that are there, each with its group.
fn shown(values: &[Option<f64>]) -> impl Iterator<Item = (usize, f64)> {
    let values = values.iter().enumerate();
    values.filter_map(|(group, value)| Some((group, value.filter(|value| value.is_finite())?)))
}
