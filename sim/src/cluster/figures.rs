//! Figures of a cluster's day, and their bands over seeds.

use serde::Serialize;

use super::engine::Cluster;
use super::share::Way;
use crate::scenario::JobClass;
use crate::stats::{Band, Summary};

const NS_PER_S: f64 = 1e9;

/// Figures of one day with one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// GPU time that jobs asked for, over that of the cluster.
    pub load: f64,
    /// Way of giving GPUs to jobs.
    pub way: Way,
    /// Seed.
    pub seed: u64,
    /// By class, the most urgent first.
    pub classes: [ClassFigures; 3],
    /// Part of the GPU time in which a GPU was busy.
    pub busy: f64,
    /// Part of the GPU time in which a GPU had a job.
    pub taken: f64,
    /// Part of the GPU time that gates took.
    pub gates: f64,
}

/// Figures of the jobs of a class in the day that counts. Waits are of jobs that arrived in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassFigures {
    /// How many arrived.
    pub arrived: u64,
    /// How many had not started at the end of the day. They count with the time until then.
    pub waiting: u64,
    /// Time from arrival to start, median.
    pub wait_p50_s: f64,
    /// Time from arrival to start, 99th percentile.
    pub wait_p99_s: f64,
    /// Run time over run time alone of the jobs that ended in the day, median.
    pub stretch_p50: f64,
    /// Run time over run time alone of the jobs that ended in the day, 99th percentile.
    pub stretch_p99: f64,
    /// Work that was done in the day, in hours of the GPUs that it would have had alone.
    pub work_gpu_h: f64,
}

impl Figures {
    pub(super) fn of(cluster: &Cluster<'_>, load: f64, seed: u64) -> Self {
        let scenario = cluster.scenario();
        let all_ns = (scenario.nodes * scenario.gpus) as f64 * scenario.duration_ns as f64;
        let totals = &cluster.totals;
        Self {
            load,
            way: cluster.way(),
            seed,
            classes: JobClass::ALL.map(|class| of_class(cluster, class)),
            busy: totals.busy_ns / all_ns,
            taken: totals.taken_ns / all_ns,
            gates: totals.gates_ns / all_ns,
        }
    }

    /// The figures with their names, in the order of the record.
    #[must_use]
    pub fn named(&self) -> Vec<(String, f64)> {
        let mut named = vec![
            ("busy".to_owned(), self.busy),
            ("taken".to_owned(), self.taken),
            ("gates".to_owned(), self.gates),
        ];
        for (class, of) in JobClass::ALL.iter().zip(&self.classes) {
            let name = format!("{class:?}").to_lowercase();
            let figures = [
                ("arrived", of.arrived as f64),
                ("waiting", of.waiting as f64),
                ("wait_p50_s", of.wait_p50_s),
                ("wait_p99_s", of.wait_p99_s),
                ("stretch_p50", of.stretch_p50),
                ("stretch_p99", of.stretch_p99),
                ("work_gpu_h", of.work_gpu_h),
            ];
            named.extend(figures.map(|(figure, value)| (format!("{name}.{figure}"), value)));
        }
        named
    }
}

fn of_class(cluster: &Cluster<'_>, class: JobClass) -> ClassFigures {
    let day_ns = cluster.scenario().duration_ns;
    let counts = |run: &&super::engine::Run| run.job.class == class && run.job.arrival_ns >= day_ns;
    let runs: Vec<_> = cluster.runs.iter().filter(counts).collect();
    let waits = runs.iter().map(|run| run.start_ns.unwrap_or(2 * day_ns) - run.job.arrival_ns);
    let waits = Summary::new(waits.collect());
    let ended = cluster.runs.iter().filter(|run| run.job.class == class);
    // In millionths.
    let stretches = ended.filter_map(|run| {
        let end_ns = run.end_ns.filter(|end_ns| *end_ns >= day_ns)?;
        let taken_ns = end_ns - run.start_ns?;
        Some((taken_ns as f64 / run.job.run_ns as f64 * 1e6).round() as u64)
    });
    let stretches = Summary::new(stretches.collect());
    let seconds = |percent| waits.percentile(percent).map_or(f64::NAN, |ns| ns as f64 / NS_PER_S);
    let ratio = |percent| stretches.percentile(percent).map_or(f64::NAN, |of| of as f64 / 1e6);
    ClassFigures {
        arrived: runs.len() as u64,
        waiting: runs.iter().filter(|run| run.start_ns.is_none()).count() as u64,
        wait_p50_s: seconds(50),
        wait_p99_s: seconds(99),
        stretch_p50: ratio(50),
        stretch_p99: ratio(99),
        work_gpu_h: cluster.totals.progress_ns[class as usize] / NS_PER_S / 3_600.0,
    }
}

/// A figure over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name, such as `interactive.wait_p99_s`.
    pub name: String,
    /// Band over the seeds; none if no seed had the figure.
    pub band: Option<Band>,
}

/// One load and one way over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// GPU time that jobs asked for, over that of the cluster.
    pub load: f64,
    /// Way of giving GPUs to jobs.
    pub way: Way,
    /// Figures.
    pub figures: Vec<Figure>,
}

impl Cell {
    /// Bands over runs that differ in the seed only.
    #[must_use]
    pub fn over(runs: &[&Figures]) -> Option<Self> {
        let first = runs.first()?;
        let named: Vec<_> = runs.iter().map(|run| run.named()).collect();
        let figure = |(index, (name, _)): (usize, &(String, f64))| Figure {
            name: name.clone(),
            band: Band::of(named.iter().map(|of| of[index].1)),
        };
        let figures = named.first()?.iter().enumerate().map(figure).collect();
        Some(Self { load: first.load, way: first.way, figures })
    }

    /// The band of a figure by its name.
    #[must_use]
    pub fn band(&self, name: &str) -> Option<Band> {
        self.figures.iter().find(|figure| figure.name == name).and_then(|figure| figure.band)
    }
}
