//! When requests come, and the trace files that can say so.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;

use super::dist::Zero;
use super::model::{Arrival, Dist, TraceRow};
use super::raw::{Field, Number, RawArrival};
use super::source::{Result, Source, span_of};
use super::{MAX_FILE_BYTES, MAX_TRACE_ROWS, trace};

/// Rates of arrivals, per second: a gap is then between 1 ns and 10^15 ns.
const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// Reader of a trace file.
pub(super) type ReadFile<'a> = &'a mut dyn FnMut(&Path) -> io::Result<Vec<u8>>;

/// The trace files of a scenario, each read once.
pub(super) struct Traces<'a> {
    read: ReadFile<'a>,
    rows: HashMap<PathBuf, Arc<[TraceRow]>>,
    /// Rows of all files.
    total: usize,
}

impl<'a> Traces<'a> {
    pub(super) fn new(read: ReadFile<'a>) -> Self {
        Self { read, rows: HashMap::new(), total: 0 }
    }

    /// The rows of the file that a scenario names, relative to the scenario's folder.
    fn load(&mut self, source: &Source<'_>, name: &Spanned<String>) -> Result<Arc<[TraceRow]>> {
        if name.get_ref().is_empty() {
            return Err(source.error(name.span(), "must not be empty"));
        }
        let folder = source.file().parent().unwrap_or(Path::new(""));
        let path = folder.join(name.get_ref());
        if let Some(rows) = self.rows.get(&path) {
            return Ok(Arc::clone(rows));
        }
        let bytes = (self.read)(&path).map_err(|error| {
            let path = path.display();
            source.error(name.span(), format_args!("cannot read {path}: {error}"))
        })?;
        if bytes.len() > MAX_FILE_BYTES {
            let path = path.display();
            let message = format!("{path} is larger than {} MiB", MAX_FILE_BYTES >> 20);
            return Err(source.error(name.span(), message));
        }
        let rows: Arc<[TraceRow]> = trace::parse(&bytes, &path)?.into();
        self.total += rows.len();
        if self.total > MAX_TRACE_ROWS {
            let message = format!("all traces together have more than {MAX_TRACE_ROWS} rows");
            return Err(source.error(name.span(), message));
        }
        self.rows.insert(path, Arc::clone(&rows));
        Ok(rows)
    }
}

/// The kinds of arrival.
#[derive(Clone, Copy)]
enum Kind {
    Closed,
    Periodic,
    Poisson,
    LogNormal,
    Trace,
}

const KINDS: [(&str, Kind); 5] = [
    ("closed", Kind::Closed),
    ("periodic", Kind::Periodic),
    ("poisson", Kind::Poisson),
    ("lognormal", Kind::LogNormal),
    ("trace", Kind::Trace),
];

impl Source<'_> {
    /// When requests come.
    pub(super) fn arrival(
        &self,
        raw: &Spanned<RawArrival>,
        traces: &mut Traces<'_>,
    ) -> Result<Arrival> {
        let table = raw.span();
        let raw = raw.get_ref();
        let kind = self.required(&table, "kind", self.choice(&raw.kind, &KINDS)?)?;
        let used: &[&str] = match kind {
            Kind::Closed => &["think_time", "think", "jitter"],
            Kind::Periodic => &["period", "jitter"],
            Kind::Poisson => &["rate"],
            Kind::LogNormal => &["rate", "mean", "sigma"],
            Kind::Trace => &["file"],
        };
        self.only(&raw.kind, used, &given(raw))?;
        match kind {
            Kind::Closed => self.closed(&table, raw),
            Kind::Periodic => self.periodic(&table, raw),
            Kind::Poisson => {
                let mean_ns = self.required(&table, "rate_per_s", self.gap(&raw.rate_per_s)?)?;
                Ok(Arrival::Renewal { gap: Dist::Exponential { mean_ns } })
            }
            Kind::LogNormal => self.log_normal_arrival(&table, raw),
            Kind::Trace => {
                let file = self.required(&table, "file", raw.file.as_ref())?;
                Ok(Arrival::Trace { rows: traces.load(self, file)? })
            }
        }
    }

    fn closed(&self, table: &Range<usize>, raw: &RawArrival) -> Result<Arrival> {
        let think = match (&raw.think_time, &raw.think) {
            (Some(time), Some(_)) => {
                let message = "given together with `think`; give one of them";
                return Err(self.error(time.span(), message));
            }
            (None, Some(think)) => self.dist(think, Zero::Allowed)?,
            (_, None) => {
                let think = self.time(&raw.think_time)?;
                Dist::Constant(self.required(table, "think_ms", think)?)
            }
        };
        Ok(Arrival::Closed { think, jitter_ns: self.time(&raw.jitter)?.unwrap_or(0) })
    }

    fn periodic(&self, table: &Range<usize>, raw: &RawArrival) -> Result<Arrival> {
        let period = self.positive_time(&raw.period)?;
        let period_ns = self.required(table, "period_ms", period)?;
        let jitter_ns = self.time(&raw.jitter)?.unwrap_or(0);
        if jitter_ns >= period_ns {
            let message = format!("must be below the period of {period_ns} ns, is {jitter_ns} ns");
            return Err(self.error_of(table, "jitter_ms", span_of(&raw.jitter), message));
        }
        Ok(Arrival::Periodic { period_ns, jitter_ns })
    }

    fn log_normal_arrival(&self, table: &Range<usize>, raw: &RawArrival) -> Result<Arrival> {
        if let (Some(_), Some(rate)) = (&raw.mean, &raw.rate_per_s) {
            return Err(self.error(rate.span(), "given together with a mean; give one of them"));
        }
        let mean = self.mean(&raw.mean)?.or(self.gap(&raw.rate_per_s)?);
        let mean_ns = self.required(table, "mean_ms", mean)?;
        let sigma = self.sigma(table, &raw.sigma)?;
        Ok(Arrival::Renewal { gap: Dist::LogNormal { mean_ns, sigma } })
    }

    /// The mean gap, in nanoseconds, of a rate per second.
    fn gap(&self, rate_per_s: &Field<Number>) -> Result<Option<f64>> {
        Ok(self.number(rate_per_s, RATES)?.map(|rate| 1e9 / rate))
    }
}

fn given(raw: &RawArrival) -> [(&'static str, Option<Range<usize>>); 8] {
    [
        ("think_time", span_of(&raw.think_time)),
        ("think", span_of(&raw.think)),
        ("jitter", span_of(&raw.jitter)),
        ("period", span_of(&raw.period)),
        ("rate", span_of(&raw.rate_per_s)),
        ("mean", span_of(&raw.mean)),
        ("sigma", span_of(&raw.sigma)),
        ("file", span_of(&raw.file)),
    ]
}
