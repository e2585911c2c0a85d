//! Jobs of two days, drawn from a scenario.

use rand::RngExt;

use crate::sample::{Rng, Sampler, generator};
use crate::scenario::{ClassSpec, ClusterScenario, Dist, JobClass, Weighted};

/// Job as it arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) class: JobClass,
    pub(super) arrival_ns: u64,
    /// Time that it takes alone.
    pub(super) run_ns: u64,
    /// GPUs of one node.
    pub(super) gpus: u8,
    /// Part of each GPU that it asks for, in thousandths.
    pub(super) permille: u16,
    pub(super) duty: f64,
}

/// Draws values by weight.
struct Pick<'a> {
    of: &'a [Weighted],
    sum: f64,
}

impl<'a> Pick<'a> {
    fn new(of: &'a [Weighted]) -> Self {
        Self { of, sum: of.iter().map(|one| one.weight).sum() }
    }

    fn index(&self, rng: &mut Rng) -> usize {
        let mut at = rng.random_range(0.0..1.0) * self.sum;
        let within = |one: &Weighted| {
            at -= one.weight;
            at < 0.0
        };
        self.of.iter().position(within).unwrap_or(self.of.len() - 1)
    }

    fn draw(&self, rng: &mut Rng) -> f64 {
        self.of[self.index(rng)].value
    }

    fn mean(&self) -> f64 {
        self.of.iter().map(|one| one.value * one.weight).sum::<f64>() / self.sum
    }
}

/// Mean GPU time that a job of the class asks for, in nanoseconds.
fn asked_ns(class: &ClassSpec) -> f64 {
    let run = class.run_ns.iter().map(|ns| *ns as f64).sum::<f64>() / class.run_ns.len() as f64;
    run * Pick::new(&class.gpus).mean()
}

/// Jobs of the day that counts and the one before it, in order of arrival: a Poisson process with a
/// rate for each hour. Neither the load nor the way of sharing changes what a job is.
pub(super) fn draw(scenario: &ClusterScenario, load: f64, seed: u64) -> Vec<Job> {
    let weights: f64 = scenario.classes.iter().map(|class| class.weight).sum();
    let mean_ns = |class: &ClassSpec| class.weight / weights * asked_ns(class);
    let mean_ns: f64 = scenario.classes.iter().map(mean_ns).sum();
    let gap_ns = mean_ns / (load * (scenario.nodes * scenario.gpus) as f64);

    let (mut times, mut kinds) = (generator(seed, 0), generator(seed, 1));
    let of = |(index, class): (usize, &ClassSpec)| Weighted {
        value: index as f64,
        weight: class.weight,
    };
    let classes: Vec<Weighted> = scenario.classes.iter().enumerate().map(of).collect();
    let classes = Pick::new(&classes);
    let mean_hour = scenario.hours.iter().sum::<f64>() / scenario.hours.len() as f64;
    let hour_ns = scenario.duration_ns as f64 / scenario.hours.len() as f64;
    let mut unit = Sampler::new(&Dist::Exponential { mean_ns: 1e9 });
    let mut jobs = Vec::new();
    // Time at which the mean rate would have brought as many arrivals.
    let mut passed_ns = 0.0;
    let mut at_ns = 0.0;
    for hour in 0..2 * scenario.hours.len() {
        let rate = scenario.hours[hour % scenario.hours.len()] / mean_hour;
        let end_ns = (hour + 1) as f64 * hour_ns;
        let until_ns = passed_ns + rate * hour_ns;
        while at_ns < until_ns {
            let arrival_ns = end_ns - (until_ns - at_ns) / rate;
            let class = &scenario.classes[classes.index(&mut kinds)];
            jobs.push(job(class, arrival_ns as u64, &mut kinds));
            at_ns += unit.draw(&mut times) as f64 / 1e9 * gap_ns;
        }
        passed_ns = until_ns;
    }
    jobs
}

fn job(class: &ClassSpec, arrival_ns: u64, rng: &mut Rng) -> Job {
    let gpus = Pick::new(&class.gpus).draw(rng) as u8;
    let share = Pick::new(&class.share).draw(rng);
    Job {
        class: class.class,
        arrival_ns,
        run_ns: class.run_ns[rng.random_range(0..class.run_ns.len())],
        gpus,
        permille: if gpus == 1 { (share * 1_000.0).round() as u16 } else { 1_000 },
        duty: Pick::new(&class.duty).draw(rng),
    }
}
