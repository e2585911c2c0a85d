//! From what a run produced to what a person or another program reads: figures, JSON, pictures,
//! timelines, bands over seeds and comparisons. `docs/src/reference/files.md` describes every form.
//!
//! - [`RunFigures`] holds the figures of one run; its JSON form is the run document.
//! - [`Series`] holds the same run with consecutive seeds, with [`Bands`] and compared references.
//! - [`Comparison`] sets several policies and levels side by side.
//! - [`latency_svg`] and [`comparison_svg`] draw latency distributions, [`write_trace`] writes a
//!   timeline for a trace viewer.
//! - [`Chart`] is a figure with lines or bars for anything else, which [`charts_svg`] draws.
//! - [`run_series`] and [`run_comparison`] run many simulations on several threads, with results in
//!   a fixed order.

pub(crate) mod axis;
mod bands;
mod batch;
pub(crate) mod chart;
mod compare;
mod distributions;
mod figures;
pub(crate) mod panel;
mod style;
pub(crate) mod svg;
mod timeline;

#[cfg(test)]
pub(crate) mod samples;

pub use bands::{
    Bands, LatencyBands, Overload, ReferenceResult, Series, TaskBands, TotalBands, Verdict,
};
pub use batch::{Progress, in_order, run_comparison, run_series};
pub use chart::{Bar, Bars, Chart, Line, Plot, charts_svg};
pub use compare::{Combination, CompareRow, Comparison, combinations};
pub use distributions::Distributions;
pub use figures::{
    CheckFigures, DeviceFigures, LatencyFigures, RunFigures, TailFigures, TaskFigures,
};
pub use svg::{SvgError, comparison_svg, latency_svg};
pub use timeline::write_trace;

use std::io::{self, Write};

/// Writes a document as JSON: two spaces of indentation, keys in the documented order, a newline at
/// the end. Equal figures give equal bytes.
///
/// # Errors
///
/// When `out` cannot be written.
pub fn write_json<T: serde::Serialize>(out: &mut dyn Write, document: &T) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}
