//! Run over consecutive seeds: bands, and measured values compared with them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::distributions::Distributions;
use super::figures::{CheckFigures, LatencyFigures, RunFigures, TaskFigures};
use crate::scenario::{Metric, Reference, Stat};
use crate::stats::Band;

/// Bands of the figures of a latency distribution, in milliseconds; `None` when no run had the
/// figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyBands {
    /// Arithmetic mean.
    pub mean: Option<Band>,
    /// 50th percentile.
    pub p50: Option<Band>,
    /// 95th percentile.
    pub p95: Option<Band>,
    /// 99th percentile.
    pub p99: Option<Band>,
    /// Smallest sample.
    pub min: Option<Band>,
    /// Largest sample.
    pub max: Option<Band>,
    /// Population standard deviation.
    pub std: Option<Band>,
}

impl LatencyBands {
    fn of(runs: &[&LatencyFigures]) -> Self {
        let band = |stat| Band::of(runs.iter().filter_map(|run| run.get(stat)));
        Self {
            mean: band(Stat::Mean),
            p50: band(Stat::P50),
            p95: band(Stat::P95),
            p99: band(Stat::P99),
            min: band(Stat::Min),
            max: band(Stat::Max),
            std: band(Stat::Std),
        }
    }
}

/// The bands of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskBands {
    /// Name.
    pub name: String,
    /// Latency from arrival to completion.
    pub latency_ms: LatencyBands,
    /// Completed requests per second.
    pub throughput_rps: Option<Band>,
    /// Counted requests.
    pub completed: Option<Band>,
    /// Counted requests that ended after the task's deadline; `None` without a deadline.
    pub deadline_misses: Option<Band>,
}

/// The bands of all tasks together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TotalBands {
    /// Latency of the requests of all tasks pooled.
    pub latency_ms: LatencyBands,
    /// Completed requests of all tasks per second.
    pub throughput_rps: Option<Band>,
}

/// Where the figures lie over several seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bands {
    /// Per task, in the order of the runs.
    pub tasks: Vec<TaskBands>,
    /// All tasks together.
    pub total: TotalBands,
    /// Findings of the checkers, summed over the runs; the first violation names its run.
    pub checks: BTreeMap<&'static str, CheckFigures>,
}

impl Bands {
    /// The bands of runs of the same scenario.
    #[must_use]
    pub fn of(runs: &[RunFigures]) -> Self {
        let mut checks = BTreeMap::<_, CheckFigures>::new();
        for run in runs {
            for (&name, check) in &run.checks {
                let mut check = check.clone();
                if runs.len() > 1 {
                    check.first = check.first.map(|text| format!("seed {}: {text}", run.seed));
                }
                checks.entry(name).or_default().add(&check);
            }
        }
        let pooled: Vec<_> = runs.iter().map(|run| &run.pooled_ms).collect();
        let names = runs.first().map_or(&[][..], |first| &first.tasks);
        Self {
            tasks: names.iter().enumerate().map(|(n, task)| task_bands(n, task, runs)).collect(),
            total: TotalBands {
                latency_ms: LatencyBands::of(&pooled),
                throughput_rps: Band::of(runs.iter().filter_map(|run| run.throughput_rps)),
            },
            checks,
        }
    }
}

/// The bands of the task at this place; runs of one scenario have the same tasks in each place.
fn task_bands(place: usize, first: &TaskFigures, runs: &[RunFigures]) -> TaskBands {
    let tasks: Vec<&TaskFigures> = runs.iter().filter_map(|run| run.tasks.get(place)).collect();
    let latencies: Vec<_> = tasks.iter().map(|task| &task.latency_ms).collect();
    TaskBands {
        name: first.name.clone(),
        latency_ms: LatencyBands::of(&latencies),
        throughput_rps: Band::of(tasks.iter().filter_map(|task| task.throughput_rps)),
        completed: Band::of(tasks.iter().map(|task| task.completed as f64)),
        deadline_misses: Band::of(tasks.iter().filter_map(|task| Some(task.misses()? as f64))),
    }
}

/// How a measured value compares with the simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Close enough to the median, and inside the band where that was asked for.
    Ok,
    /// Close enough to the median, but outside the band over seeds.
    OutsideBand,
    /// Further from the median than allowed.
    Off {
        /// Distance from the median in percent of the median, above 0; infinite for a median of 0.
        percent: f64,
        /// The value is outside the band as well, and should not be.
        outside_band: bool,
    },
    /// The simulation has no such figure: no request completed, or there is no such task.
    NoSamples,
}

impl Verdict {
    fn of(reference: &Reference, band: Option<&Band>, deviation_percent: Option<f64>) -> Self {
        let Some(band) = band else { return Self::NoSamples };
        let outside_band = reference.in_band && !band.contains(reference.value);
        let percent = deviation_percent.map_or(f64::INFINITY, f64::abs);
        if percent > reference.within_percent {
            Self::Off { percent, outside_band }
        } else if outside_band {
            Self::OutsideBand
        } else {
            Self::Ok
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ok => f.write_str("ok"),
            Self::OutsideBand => f.write_str("outside band"),
            Self::NoSamples => f.write_str("no samples"),
            Self::Off { percent, outside_band } => {
                write!(f, "off by {percent:.1}%")?;
                f.write_str(if outside_band { ", outside band" } else { "" })
            }
        }
    }
}

/// A measured value next to the simulated one.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceResult {
    /// Compared figure, as in a scenario: `task.NAME.FIGURE` or `all.FIGURE`.
    pub metric: String,
    /// The measured value, in milliseconds or requests per second.
    pub measured: f64,
    /// The simulated values over the seeds; `None` when no run had the figure.
    pub simulated: Option<Band>,
    /// How far the measured value lies above the simulated median, in percent of the median;
    /// negative when below. `None` without a median or with one of 0.
    pub deviation_percent: Option<f64>,
    /// The distance that is allowed, in percent of the median.
    pub within_percent: f64,
    /// True if the measured value has to lie in the band as well.
    pub in_band: bool,
    /// The outcome of the comparison.
    pub verdict: Verdict,
    /// Where the measured value comes from.
    pub source: String,
}

impl ReferenceResult {
    /// Compares a reference with runs of its scenario.
    #[must_use]
    pub fn of(reference: &Reference, runs: &[RunFigures]) -> Self {
        let simulated = Band::of(runs.iter().filter_map(|run| run.metric(&reference.metric)));
        let deviation_percent =
            simulated.and_then(|band| deviation_percent(reference.value, band.median));
        Self {
            metric: metric_name(&reference.metric),
            measured: reference.value,
            simulated,
            deviation_percent,
            within_percent: reference.within_percent,
            in_band: reference.in_band,
            verdict: Verdict::of(reference, simulated.as_ref(), deviation_percent),
            source: reference.source.clone(),
        }
    }

    /// True if the measured value was met.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.verdict == Verdict::Ok
    }
}

impl Serialize for ReferenceResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("ReferenceResult", 10)?;
        object.serialize_field("metric", &self.metric)?;
        object.serialize_field("measured", &self.measured)?;
        object.serialize_field("simulated", &self.simulated.map(|band| band.median))?;
        object.serialize_field("band", &self.simulated.map(|band| [band.p5, band.p95]))?;
        object.serialize_field("deviation_percent", &self.deviation_percent)?;
        object.serialize_field("within_percent", &self.within_percent)?;
        object.serialize_field("in_band", &self.in_band)?;
        object.serialize_field("ok", &self.is_ok())?;
        object.serialize_field("verdict", &self.verdict.to_string())?;
        object.serialize_field("source", &self.source)?;
        object.end()
    }
}

/// The metric as a scenario writes it.
fn metric_name(metric: &Metric) -> String {
    let (task, figure) = match metric {
        Metric::Throughput { task } => (task, "throughput_rps"),
        Metric::Latency { task, stat } => {
            let figure = match stat {
                Stat::Mean => "mean_ms",
                Stat::P50 => "p50_ms",
                Stat::P95 => "p95_ms",
                Stat::P99 => "p99_ms",
                Stat::Min => "min_ms",
                Stat::Max => "max_ms",
                Stat::Std => "std_ms",
            };
            (task, figure)
        }
    };
    match task {
        Some(task) => format!("task.{task}.{figure}"),
        None => format!("all.{figure}"),
    }
}

fn deviation_percent(measured: f64, median: f64) -> Option<f64> {
    if measured == median {
        return Some(0.0);
    }
    (median != 0.0).then(|| (measured - median) / median.abs() * 100.0)
}

/// Runs of one scenario, policy and level with consecutive seeds.
///
/// Serialised, this is the run document of the first seed. With more than one seed, a `note` that
/// says so comes before, and `seeds`, `bands` and `references` follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    first: RunFigures,
    seeds: u64,
    commands: u64,
    bands: Bands,
    references: Vec<ReferenceResult>,
    overloads: Vec<Overload>,
    distributions: Distributions,
}

/// A task whose requests arrived faster than they were served, see
/// [`is_overloaded`](TaskFigures::is_overloaded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Name of the task.
    pub task: String,
    /// Runs in which it was overloaded; at least 1.
    pub runs: u64,
    /// The seed of the one of them with the most unfinished requests; the first of several.
    pub seed: u64,
    /// Requests that were not complete at the end of that run.
    pub unfinished: u64,
    /// Requests that arrived in that run.
    pub arrived: u64,
}

impl Series {
    /// Takes the runs in the order of their seeds. Without any run, every figure is empty.
    #[must_use]
    pub fn new(runs: &[RunFigures], references: &[Reference]) -> Self {
        let compare = |reference| ReferenceResult::of(reference, runs);
        Self {
            first: runs.first().cloned().unwrap_or_default(),
            seeds: runs.len() as u64,
            commands: runs.iter().map(|run| run.commands).sum(),
            bands: Bands::of(runs),
            references: references.iter().map(compare).collect(),
            overloads: overloads(runs),
            distributions: Distributions::default(),
        }
    }

    /// Variant that keeps the distributions of its runs, for a picture.
    #[must_use]
    pub(crate) fn with_distributions(self, distributions: Distributions) -> Self {
        Self { distributions, ..self }
    }

    /// The run with the first seed.
    #[must_use]
    pub fn first(&self) -> &RunFigures {
        &self.first
    }

    /// Number of runs.
    #[must_use]
    pub fn seeds(&self) -> u64 {
        self.seeds
    }

    /// Commands completed on devices in all runs.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// The bands; with one seed both ends of a band are the value itself.
    #[must_use]
    pub fn bands(&self) -> &Bands {
        &self.bands
    }

    /// The measured values compared with these runs, in the order of the scenario.
    #[must_use]
    pub fn references(&self) -> &[ReferenceResult] {
        &self.references
    }

    /// The tasks that were overloaded in some run, in the order of the scenario.
    #[must_use]
    pub fn overloads(&self) -> &[Overload] {
        &self.overloads
    }

    /// The latency distributions of the runs, for [`latency_svg`](super::latency_svg) and
    /// [`comparison_svg`](super::comparison_svg); empty unless the simulator made the runs.
    #[must_use]
    pub fn distributions(&self) -> &Distributions {
        &self.distributions
    }

    /// Violations of all invariants in all runs.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.bands.checks.values().map(|check| check.violations).sum()
    }
}

/// The overloads of all runs; runs of one scenario have the same tasks in each place.
fn overloads(runs: &[RunFigures]) -> Vec<Overload> {
    let mut found = BTreeMap::<usize, Overload>::new();
    for run in runs {
        let tasks = run.tasks.iter().enumerate();
        for (place, task) in tasks.filter(|(_, task)| task.is_overloaded()) {
            let (unfinished, arrived) = (task.unfinished, task.arrived());
            let one =
                Overload { task: task.name.clone(), runs: 1, seed: run.seed, unfinished, arrived };
            let Some(worst) = found.get_mut(&place) else {
                found.insert(place, one);
                continue;
            };
            let runs = worst.runs + 1;
            if one.unfinished > worst.unfinished {
                *worst = one;
            }
            worst.runs = runs;
        }
    }
    found.into_values().collect()
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.seeds <= 1 {
            return self.first.serialize(serializer);
        }
        #[derive(Serialize)]
        struct Document<'a> {
            note: String,
            #[serde(flatten)]
            first: &'a RunFigures,
            seeds: u64,
            bands: &'a Bands,
            references: &'a [ReferenceResult],
        }
        let Self { first, seeds, bands, references, .. } = self;
        let seed = first.seed;
        let note = format!(
            "duration_ms, tasks, devices, throughput_rps and checks are of seed {seed} alone; \
             bands are over all {seeds} seeds"
        );
        Document { note, first, seeds: *seeds, bands, references }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{empty_outcome, outcome, scaled, to_json};

    fn runs(count: u64) -> Vec<RunFigures> {
        (1..=count).map(|n| RunFigures::of(&scaled(n, n))).collect()
    }

    fn reference(value: f64, within_percent: f64, in_band: bool) -> Reference {
        let metric = Metric::Latency { task: Some("fast".into()), stat: Stat::P99 };
        Reference { metric, value, within_percent, in_band, source: "a table".into() }
    }

    #[test]
    fn bands_of_every_figure() {
        // The 99th percentile of run n is 4n ms: 4, 8, 12, 16, 20.
        let bands = Bands::of(&runs(5));
        let p99 = bands.tasks[0].latency_ms.p99;
        assert_eq!(p99, Some(Band { runs: 5, p5: 4.0, median: 12.0, p95: 20.0 }));
        assert_eq!(bands.total.latency_ms.max, p99);
        assert_eq!(bands.tasks[0].throughput_rps.map(|band| band.median), Some(4.0));
        assert_eq!(bands.tasks[1].latency_ms.p50, None);
        assert_eq!(bands.checks["order"].observed, 60);
        assert_eq!(Bands::of(&[]), Bands::default());
    }

    #[test]
    fn verdicts() {
        let verdict = |reference| ReferenceResult::of(&reference, &runs(5)).verdict;
        assert_eq!(verdict(reference(13.0, 10.0, true)), Verdict::Ok);
        let missed = verdict(reference(15.0, 10.0, true));
        assert_eq!(missed, Verdict::Off { percent: 25.0, outside_band: false });
        assert_eq!(missed.to_string(), "off by 25.0%");
        assert_eq!(verdict(reference(21.0, 100.0, true)), Verdict::OutsideBand);
        assert_eq!(verdict(reference(21.0, 100.0, false)), Verdict::Ok);
        let both = verdict(reference(24.0, 50.0, true));
        assert_eq!(both.to_string(), "off by 100.0%, outside band");
        let mut unknown = reference(1.0, 1.0, false);
        unknown.metric = Metric::Throughput { task: Some("unknown".into()) };
        assert_eq!(verdict(unknown), Verdict::NoSamples);
    }

    #[test]
    fn a_deviation_has_a_sign_and_survives_zero() {
        assert_eq!(deviation_percent(9.0, 10.0), Some(-10.0));
        assert_eq!(deviation_percent(0.0, 0.0), Some(0.0));
        assert_eq!(deviation_percent(1.0, 0.0), None);
    }

    #[test]
    fn misses_have_a_band_where_there_is_a_deadline() {
        let late = |seed: u64| {
            let mut outcome = scaled(seed, 1);
            outcome.tasks[0].deadline_ns = Some(2_500_000);
            outcome.tasks[0].deadline_misses = seed;
            RunFigures::of(&outcome)
        };
        let bands = Bands::of(&[late(1), late(2), late(4)]);
        let misses = bands.tasks[0].deadline_misses;
        assert_eq!(misses, Some(Band { runs: 3, p5: 1.0, median: 2.0, p95: 4.0 }));
        assert_eq!(bands.tasks[0].completed.map(|band| band.median), Some(4.0));
        assert_eq!(bands.tasks[1].deadline_misses, None);
        let json: serde_json::Value = serde_json::from_str(&to_json(&bands)).unwrap();
        assert_eq!(json["tasks"][0]["deadline_misses"]["p95"], 4.0);
        let run: serde_json::Value = serde_json::from_str(&to_json(&late(1))).unwrap();
        assert_eq!(run["tasks"][0]["deadline_ms"], 2.5);
        assert!(run["tasks"][1].get("deadline_ms").is_none());
    }

    #[test]
    fn an_overload_in_any_run_is_found() {
        let mut runs = runs(4);
        assert_eq!(Series::new(&runs, &[]).overloads(), []);
        // The first run is not overloaded, the second and the fourth are.
        (runs[1].tasks[1].unfinished, runs[3].tasks[1].unfinished) = (30, 40);
        let worst = Overload { task: "idle".into(), runs: 2, seed: 4, unfinished: 40, arrived: 40 };
        assert_eq!(Series::new(&runs, &[]).overloads(), [worst]);
    }

    #[test]
    fn one_seed_is_a_plain_run_document() {
        let series = Series::new(&runs(1), &[reference(4.0, 1.0, false)]);
        assert_eq!(to_json(&series), to_json(&RunFigures::of(&outcome_one())));
        assert_eq!(Series::new(&[], &[]).first(), &RunFigures::default());
    }

    fn outcome_one() -> crate::outcome::Outcome {
        crate::outcome::Outcome { seed: 1, ..outcome() }
    }

    #[test]
    fn several_seeds_append_bands_and_references() {
        let series = Series::new(&runs(3), &[reference(8.0, 1.0, true)]);
        let text = to_json(&series);
        let first = to_json(series.first());
        let shared = first.trim_end().trim_end_matches('}').trim_end();
        // Before the document of the first seed comes whose figures these are.
        let (note, text) = text.split_once("\",\n").unwrap();
        assert!(
            note.starts_with("{\n  \"note\": \"") && note.contains("of seed 1 alone"),
            "{note}"
        );
        let text = format!("{{\n{text}");
        assert!(text.starts_with(shared), "{text}");
        assert!(text[shared.len()..].starts_with(",\n  \"seeds\": 3,\n  \"bands\": {"));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["bands"]["tasks"][0]["latency_ms"]["mean"]["median"], 5.0);
        assert_eq!(json["bands"]["total"]["throughput_rps"]["runs"], 3);
        assert_eq!(json["references"][0]["metric"], "task.fast.p99_ms");
        assert_eq!(json["references"][0]["band"], serde_json::json!([4.0, 12.0]));
        assert_eq!(json["references"][0]["ok"], true);
        assert_eq!(to_json(&series), to_json(&series.clone()));
    }

    #[test]
    fn runs_without_samples_have_null_bands() {
        let empty = [RunFigures::of(&empty_outcome()), RunFigures::of(&empty_outcome())];
        let series = Series::new(&empty, &[reference(1.0, 1.0, true)]);
        let json: serde_json::Value = serde_json::from_str(&to_json(&series)).unwrap();
        assert!(json["bands"]["total"]["latency_ms"]["p99"].is_null());
        assert!(json["references"][0]["simulated"].is_null());
        assert_eq!(json["references"][0]["verdict"], "no samples");
    }
}
