//! Measured values that the simulation is compared with.

use toml::Spanned;

use super::model::{Metric, Reference, Scenario, Stat};
use super::names::Names;
use super::raw::RawReference;
use super::source::{Result, Source};

/// Largest measured value, in milliseconds or per second.
const MAX_VALUE: f64 = 1e9;
/// Largest tolerance, in percent.
const MAX_PERCENT: f64 = 1_000.0;

impl Source<'_> {
    /// The references of a scenario whose tasks have been checked.
    pub(super) fn references(
        &self,
        raw: &[Spanned<RawReference>],
        scenario: &Scenario,
    ) -> Result<Vec<Reference>> {
        if raw.is_empty() {
            return Ok(Vec::new());
        }
        let tasks = scenario.expanded_tasks();
        let names = Names::new("task", tasks.iter().map(|task| task.name.as_str()));
        raw.iter().map(|reference| self.reference(reference, &names)).collect()
    }

    fn reference(&self, raw: &Spanned<RawReference>, tasks: &Names<'_>) -> Result<Reference> {
        let table = raw.span();
        let raw = raw.get_ref();
        let metric = self.required(&table, "metric", raw.metric.as_ref())?;
        let checked = parse_metric(metric.get_ref()).and_then(|parsed| match task_of(&parsed) {
            Some(task) => tasks.find(task).map(|_| parsed),
            None => Ok(parsed),
        });
        let value = self.number(&raw.value, 0.0..=MAX_VALUE)?;
        let within = self.number(&raw.within_percent, 0.0..=MAX_PERCENT)?;
        Ok(Reference {
            metric: checked.map_err(|message| self.error(metric.span(), message))?,
            value: self.required(&table, "value", value)?,
            within_percent: self.required(&table, "within_percent", within)?,
            in_band: raw.in_band.as_ref().is_some_and(|flag| *flag.get_ref()),
            source: raw.source.as_ref().map_or_else(String::new, |s| s.get_ref().clone()),
        })
    }
}

fn task_of(metric: &Metric) -> Option<&str> {
    match metric {
        Metric::Latency { task, .. } | Metric::Throughput { task } => task.as_deref(),
    }
}

/// `task.NAME.FIGURE` or `all.FIGURE`; a name may have dots in it, a figure has none.
fn parse_metric(text: &str) -> std::result::Result<Metric, String> {
    let form = || format!("must read `task.NAME.FIGURE` or `all.FIGURE`, is {text:?}");
    let (subject, figure) = text.rsplit_once('.').ok_or_else(form)?;
    let task = match subject.strip_prefix("task.") {
        Some(name) => Some(name.to_owned()),
        None if subject == "all" => None,
        None => return Err(form()),
    };
    let stat = match figure {
        "throughput_rps" => return Ok(Metric::Throughput { task }),
        "mean_ms" => Stat::Mean,
        "p50_ms" => Stat::P50,
        "p95_ms" => Stat::P95,
        "p99_ms" => Stat::P99,
        "min_ms" => Stat::Min,
        "max_ms" => Stat::Max,
        "std_ms" => Stat::Std,
        other => {
            let figures = "mean_ms, p50_ms, p95_ms, p99_ms, min_ms, max_ms, std_ms, throughput_rps";
            return Err(format!("unknown figure {other:?}; known: {figures}"));
        }
    };
    Ok(Metric::Latency { task, stat })
}
