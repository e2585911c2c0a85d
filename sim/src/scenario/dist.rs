//! Distributions of times.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;

use super::model::Dist;
use super::raw::{Field, Number, RawDist};
use super::source::{Result, Source, span_of};
use super::value::MAX_TIME_NS;

/// Largest standard deviation of a logarithm.
const MAX_SIGMA: f64 = 5.0;
/// Largest weight of a value.
const MAX_WEIGHT: f64 = 1e12;

/// The kinds of distribution.
#[derive(Clone, Copy)]
enum Kind {
    Constant,
    Exponential,
    LogNormal,
    Empirical,
    Sequence,
    Uniform,
}

const KINDS: [(&str, Kind); 6] = [
    ("constant", Kind::Constant),
    ("exponential", Kind::Exponential),
    ("lognormal", Kind::LogNormal),
    ("empirical", Kind::Empirical),
    ("sequence", Kind::Sequence),
    ("uniform", Kind::Uniform),
];

/// Where the keys of a table are whose `kind` decides which of them mean something.
pub(super) type Given<'a> = &'a [(&'a str, Option<Range<usize>>)];

/// Meaning of a time of zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Zero {
    Allowed,
    Refused,
}

impl Source<'_> {
    /// Refuses the keys that do not belong to the kind.
    pub(super) fn only(&self, kind: &Field<String>, used: &[&str], given: Given<'_>) -> Result<()> {
        let kind = kind.as_ref().map_or("", |kind| kind.get_ref());
        for (key, span) in given {
            if let Some(span) = span
                && !used.contains(key)
            {
                let message = format!("not used with kind = \"{kind}\"");
                return Err(self.error(span.clone(), message));
            }
        }
        Ok(())
    }

    /// A distribution of times.
    pub(super) fn dist(&self, raw: &Spanned<RawDist>, zero: Zero) -> Result<Dist> {
        let table = raw.span();
        let raw = raw.get_ref();
        let kind = self.required(&table, "kind", self.choice(&raw.kind, &KINDS)?)?;
        let used: &[&str] = match kind {
            Kind::Constant => &["value"],
            Kind::Exponential => &["mean"],
            Kind::LogNormal => &["mean", "median", "sigma"],
            Kind::Empirical => &["values", "weights"],
            Kind::Sequence => &["values"],
            Kind::Uniform => &["min", "max"],
        };
        self.only(&raw.kind, used, &given(raw))?;
        match kind {
            Kind::Constant => {
                let value = self.time_of(&raw.value, zero)?;
                Ok(Dist::Constant(self.required(&table, "us", value)?))
            }
            Kind::Exponential => {
                let mean = self.mean(&raw.mean)?;
                Ok(Dist::Exponential { mean_ns: self.required(&table, "mean_us", mean)? })
            }
            Kind::LogNormal => self.log_normal(&table, raw),
            Kind::Empirical => self.empirical(&table, raw, zero),
            Kind::Sequence => {
                let values_ns = self.values(&table, raw, zero)?.into();
                Ok(Dist::Sequence { values_ns })
            }
            Kind::Uniform => self.uniform(&table, raw, zero),
        }
    }

    /// A mean in nanoseconds that is above 0.
    pub(super) fn mean(&self, field: &Field<Number>) -> Result<Option<f64>> {
        // Whole nanoseconds are fine enough for a mean, and one check serves all times.
        Ok(self.positive_time(field)?.map(|ns| ns as f64))
    }

    /// The standard deviation of a log-normal's logarithm.
    pub(super) fn sigma(&self, table: &Range<usize>, field: &Field<Number>) -> Result<f64> {
        let sigma = self.number(field, 0.0..=MAX_SIGMA)?;
        self.required(table, "sigma", sigma)
    }

    fn time_of(&self, field: &Field<Number>, zero: Zero) -> Result<Option<u64>> {
        match zero {
            Zero::Allowed => self.time(field),
            Zero::Refused => self.positive_time(field),
        }
    }

    fn log_normal(&self, table: &Range<usize>, raw: &RawDist) -> Result<Dist> {
        let sigma = self.sigma(table, &raw.sigma)?;
        if let (Some(_), Some(median)) = (&raw.mean, &raw.median) {
            return Err(self.error(median.span(), "given together with a mean; give one of them"));
        }
        let Some(median) = &raw.median else {
            let mean = self.mean(&raw.mean)?;
            let mean_ns = self.required(table, "mean_us", mean)?;
            return Ok(Dist::LogNormal { mean_ns, sigma });
        };
        let median_ns = self.mean(&raw.median)?.unwrap_or_default();
        let mean_ns = median_ns * (sigma * sigma / 2.0).exp();
        if mean_ns > MAX_TIME_NS as f64 {
            let message = format!("the mean that follows must be at most {MAX_TIME_NS} ns");
            return Err(self.error(median.span(), message));
        }
        Ok(Dist::LogNormal { mean_ns, sigma })
    }

    fn uniform(&self, table: &Range<usize>, raw: &RawDist, zero: Zero) -> Result<Dist> {
        let min_ns = self.required(table, "min_us", self.time_of(&raw.min, zero)?)?;
        let max_ns = self.required(table, "max_us", self.time_of(&raw.max, zero)?)?;
        if max_ns < min_ns {
            let message = format!("must be at least the minimum of {min_ns} ns, is {max_ns} ns");
            return Err(self.error_of(table, "max_us", span_of(&raw.max), message));
        }
        Ok(Dist::Uniform { min_ns, max_ns })
    }

    fn empirical(&self, table: &Range<usize>, raw: &RawDist, zero: Zero) -> Result<Dist> {
        let values_ns = self.values(table, raw, zero)?;
        let weights = self.weights(&raw.weights, values_ns.len())?;
        Ok(Dist::Empirical { values_ns: values_ns.into(), weights })
    }

    fn values(&self, table: &Range<usize>, raw: &RawDist, zero: Zero) -> Result<Vec<u64>> {
        let values = self.required(table, "values_us", raw.values.as_ref())?;
        let unit = self.unit_at(&values.span());
        let mut values_ns = Vec::with_capacity(values.get_ref().len());
        for value in values.get_ref() {
            let ns = self.time_in(value, unit)?;
            if ns == 0 && zero == Zero::Refused {
                return Err(self.error(value.span(), "must be at least 1 ns"));
            }
            values_ns.push(ns);
        }
        if values_ns.is_empty() {
            return Err(self.error(values.span(), "must have at least one value"));
        }
        Ok(values_ns)
    }

    fn weights(&self, field: &Field<Vec<Spanned<Number>>>, len: usize) -> Result<Arc<[f64]>> {
        let Some(field) = field else { return Ok(Arc::default()) };
        let mut weights = Vec::with_capacity(field.get_ref().len());
        for weight in field.get_ref() {
            weights.push(self.number_in(weight, 0.0..=MAX_WEIGHT)?);
        }
        if weights.len() != len {
            let message = format!("must have one weight for each of the {len} values");
            return Err(self.error(field.span(), format_args!("{message}, has {}", weights.len())));
        }
        if weights.iter().sum::<f64>() <= 0.0 {
            return Err(self.error(field.span(), "must not all be 0"));
        }
        Ok(weights.into())
    }
}

fn given(raw: &RawDist) -> [(&'static str, Option<Range<usize>>); 8] {
    [
        ("value", span_of(&raw.value)),
        ("mean", span_of(&raw.mean)),
        ("median", span_of(&raw.median)),
        ("sigma", span_of(&raw.sigma)),
        ("values", span_of(&raw.values)),
        ("weights", span_of(&raw.weights)),
        ("min", span_of(&raw.min)),
        ("max", span_of(&raw.max)),
    ]
}
