//! Files of `xsched sim cluster`: nodes, the classes of jobs that arrive, and how a GPU is shared.

use std::ops::RangeInclusive;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::raw::{Field, Integer, Number, Tables};
use super::source::{Result, Source};
use super::{ScenarioError, check_size, read_file, trace};

/// Class of a job, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobClass {
    /// Requests of people.
    Interactive,
    /// Neither.
    Normal,
    /// Work without a time limit.
    Batch,
}

impl JobClass {
    /// All classes, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Normal, Self::Batch];
}

const CLASSES: [(&str, JobClass); 3] = [
    ("interactive", JobClass::Interactive),
    ("normal", JobClass::Normal),
    ("batch", JobClass::Batch),
];

/// A value and its weight among others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighted {
    /// Value.
    pub value: f64,
    /// Weight, at least 0.
    pub weight: f64,
}

/// Jobs of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Class.
    pub class: JobClass,
    /// Jobs of this class among the jobs of all classes, as a weight.
    pub weight: f64,
    /// Run times on whole GPUs without other jobs, in nanoseconds, equally likely.
    pub run_ns: Vec<u64>,
    /// GPUs of a job, all on one node.
    pub gpus: Vec<Weighted>,
    /// Part of the GPU that a job with one GPU asks for, above 0 and at most 1.
    pub share: Vec<Weighted>,
    /// Part of its run time in which a job alone keeps its GPUs busy, above 0 and at most 1.
    pub duty: Vec<Weighted>,
}

/// Sharing of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharingSpec {
    /// Most jobs that have a GPU at the same time.
    pub jobs_max: usize,
    /// Part of a GPU that classes below the highest keep, 0 to 0.5.
    pub floor: f64,
    /// Run time of a scheduled job beside others that are idle, over that alone; at least 1.
    pub beside: f64,
    /// Device time of gates, over the device time of the work between them.
    pub gate: f64,
    /// Time until a burst of work has the GPU after one of a lower class, over its length.
    pub hold: f64,
}

/// Nodes, jobs and the day in which they arrive.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterScenario {
    /// Name.
    pub name: String,
    /// Seed of the first run.
    pub seed: u64,
    /// Consecutive seeds.
    pub seeds: u64,
    /// Nodes.
    pub nodes: usize,
    /// GPUs of a node, at most 8.
    pub gpus: usize,
    /// Length of the day that counts, and of the one before it.
    pub duration_ns: u64,
    /// GPU time that jobs ask for, over that of the cluster.
    pub loads: Vec<f64>,
    /// Arrivals in each of equal parts of the day, as weights.
    pub hours: Vec<f64>,
    /// Classes of jobs.
    pub classes: Vec<ClassSpec>,
    /// Sharing of a GPU.
    pub node: SharingSpec,
}

impl ClusterScenario {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first mistake in the file, or that it cannot be read.
    pub fn load(path: &Path) -> std::result::Result<Self, ScenarioError> {
        let bytes = read_file(path).map_err(|error| ScenarioError::unread(path, &error))?;
        Self::parse(&bytes, path)
    }

    /// Checks a file that is in memory; `file` is its name for messages.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use xsched_sim::scenario::ClusterScenario;
    ///
    /// let error = ClusterScenario::parse(b"version = 1\nnodes = 0\n", Path::new("x.toml"));
    /// assert_eq!(error.unwrap_err().to_string(), "x.toml:1: node: missing");
    /// ```
    ///
    /// # Errors
    /// The first mistake in the file.
    pub fn parse(bytes: &[u8], file: &Path) -> std::result::Result<Self, ScenarioError> {
        check_size(bytes, file)?;
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|error| trace::not_utf8(bytes, error, file))?;
        let (source, raw) = Source::read_as::<RawCluster>(text, file)?;
        source.cluster(&raw)
    }
}

type Pairs = Field<Vec<Spanned<[Spanned<Number>; 2]>>>;

/// The top of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCluster {
    #[expect(dead_code, reason = "checked before the raw layer is read")]
    version: Field<Integer>,
    name: Field<String>,
    #[expect(dead_code, reason = "for readers of the file")]
    description: Field<String>,
    seed: Field<Integer>,
    seeds: Field<Integer>,
    nodes: Field<Integer>,
    gpus: Field<Integer>,
    #[serde(rename = "duration_s", alias = "duration_ms")]
    duration: Field<Number>,
    loads: Field<Vec<Spanned<Number>>>,
    hours: Field<Vec<Spanned<Number>>>,
    #[serde(default)]
    class: Tables<RawClass>,
    node: Option<Spanned<RawNode>>,
}

/// `[[class]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
    class: Field<String>,
    weight: Field<Number>,
    #[serde(rename = "run_s", alias = "run_ms")]
    run: Field<Vec<Spanned<Number>>>,
    gpus: Pairs,
    share_percent: Pairs,
    duty_percent: Pairs,
}

/// `[node]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    jobs_max: Field<Integer>,
    floor_percent: Field<Number>,
    beside: Field<Number>,
    gate: Field<Number>,
    #[serde(rename = "hold_us", alias = "hold_ms")]
    hold: Field<Number>,
    #[serde(rename = "burst_us", alias = "burst_ms")]
    burst: Field<Number>,
}

/// Largest weight.
const MAX_WEIGHT: f64 = 1e12;
/// Smallest part of a GPU, in percent.
const MIN_PERCENT: f64 = 0.1;

impl Source<'_> {
    fn cluster(&self, raw: &RawCluster) -> Result<ClusterScenario> {
        let top = |key: &str| self.error_at_top(key, "missing");
        let Some(node) = &raw.node else { return Err(top("node")) };
        let scenario = ClusterScenario {
            name: self.name(&raw.name)?.ok_or_else(|| top("name"))?,
            seed: self.integer(&raw.seed, 0..=i128::from(u64::MAX))?.unwrap_or(1),
            seeds: self.integer(&raw.seeds, 1..=100_000)?.unwrap_or(1),
            nodes: self.integer(&raw.nodes, 1..=100_000)?.ok_or_else(|| top("nodes"))?,
            gpus: self.integer(&raw.gpus, 1..=8)?.ok_or_else(|| top("gpus"))?,
            duration_ns: self.positive_time(&raw.duration)?.ok_or_else(|| top("duration_s"))?,
            loads: self.numbers(&raw.loads, 0.01..=10.0)?.ok_or_else(|| top("loads"))?,
            hours: self.numbers(&raw.hours, 0.0..=MAX_WEIGHT)?.unwrap_or_else(|| vec![1.0]),
            classes: self.job_classes(&raw.class)?,
            node: self.sharing(node)?,
        };
        if scenario.classes.is_empty() {
            return Err(top("class"));
        }
        let of_jobs = scenario.classes.iter().flat_map(|class| &class.gpus);
        let most = of_jobs.map(|gpus| gpus.value).fold(0.0, f64::max);
        if most > scenario.gpus as f64 {
            let message = format!("must be at least {most}, as a class has jobs of {most} GPUs");
            return Err(self.error_at_top("gpus", message));
        }
        if scenario.hours.iter().sum::<f64>() <= 0.0 {
            return Err(self.error_at_top("hours", "must not all be 0"));
        }
        Ok(scenario)
    }

    fn job_classes(&self, raw: &Tables<RawClass>) -> Result<Vec<ClassSpec>> {
        raw.0.iter().map(|class| self.job_class(class)).collect()
    }

    fn job_class(&self, raw: &Spanned<RawClass>) -> Result<ClassSpec> {
        let (table, raw) = (raw.span(), raw.get_ref());
        let run = self.required(&table, "run_s", raw.run.as_ref())?;
        let unit = self.unit_at(&run.span());
        let mut run_ns = Vec::new();
        for time in run.get_ref() {
            let ns = self.time_in(time, unit)?;
            if ns == 0 {
                return Err(self.error(time.span(), "must be at least 1 ns"));
            }
            run_ns.push(ns);
        }
        if run_ns.is_empty() {
            return Err(self.error(run.span(), "must not be empty"));
        }
        let pairs = |key: &str, raw: &Pairs, range: RangeInclusive<f64>, scale: f64| {
            let pairs = self.required(&table, key, raw.as_ref())?;
            self.weighted(pairs, range, scale)
        };
        let gpus = pairs("gpus", &raw.gpus, 1.0..=8.0, 1.0)?;
        if let (Some(raw), true) = (&raw.gpus, gpus.iter().any(|gpus| gpus.value.fract() != 0.0)) {
            return Err(self.error(raw.span(), "must have whole numbers of GPUs"));
        }
        Ok(ClassSpec {
            class: self.required(&table, "class", self.choice(&raw.class, &CLASSES)?)?,
            weight: self.required(&table, "weight", self.number(&raw.weight, 0.0..=MAX_WEIGHT)?)?,
            run_ns,
            gpus,
            share: pairs("share_percent", &raw.share_percent, MIN_PERCENT..=100.0, 0.01)?,
            duty: pairs("duty_percent", &raw.duty_percent, MIN_PERCENT..=100.0, 0.01)?,
        })
    }

    /// Pairs of a value in a range, which is multiplied by `scale`, and a weight.
    fn weighted(
        &self,
        pairs: &Spanned<Vec<Spanned<[Spanned<Number>; 2]>>>,
        range: RangeInclusive<f64>,
        scale: f64,
    ) -> Result<Vec<Weighted>> {
        let mut all = Vec::new();
        for pair in pairs.get_ref() {
            let [value, weight] = pair.get_ref();
            all.push(Weighted {
                value: self.number_in(value, range.clone())? * scale,
                weight: self.number_in(weight, 0.0..=MAX_WEIGHT)?,
            });
        }
        if all.iter().map(|one| one.weight).sum::<f64>() <= 0.0 {
            return Err(self.error(pairs.span(), "must have a weight above 0"));
        }
        Ok(all)
    }

    /// A list of numbers in a range, with at least one.
    fn numbers(
        &self,
        list: &Field<Vec<Spanned<Number>>>,
        range: RangeInclusive<f64>,
    ) -> Result<Option<Vec<f64>>> {
        let Some(list) = list else { return Ok(None) };
        if list.get_ref().is_empty() {
            return Err(self.error(list.span(), "must not be empty"));
        }
        let numbers = list.get_ref().iter();
        numbers.map(|number| self.number_in(number, range.clone())).collect::<Result<_>>().map(Some)
    }

    fn sharing(&self, node: &Spanned<RawNode>) -> Result<SharingSpec> {
        let (table, raw) = (node.span(), node.get_ref());
        let hold = self.required(&table, "hold_us", self.time(&raw.hold)?)?;
        let burst = self.required(&table, "burst_ms", self.positive_time(&raw.burst)?)?;
        let floor = self.number(&raw.floor_percent, 0.0..=50.0)?;
        Ok(SharingSpec {
            jobs_max: self.required(&table, "jobs_max", self.integer(&raw.jobs_max, 1..=16)?)?,
            floor: self.required(&table, "floor_percent", floor)? / 100.0,
            beside: self.required(&table, "beside", self.number(&raw.beside, 1.0..=10.0)?)?,
            gate: self.required(&table, "gate", self.number(&raw.gate, 0.0..=1.0)?)?,
            hold: hold as f64 / burst as f64,
        })
    }
}
