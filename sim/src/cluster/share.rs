//! Sharing of a GPU between jobs, as rates.
//!
//! A job alone keeps the GPU busy for a part of its time, its duty `S`, and leaves it idle for the
//! rest, `Z`. Jobs of equal rights are a closed queueing network of one station that all share and
//! of one pause each. Their rates follow from its product form, which holds for any distribution of
//! the times: with `e(k)` the sum, over all sets of `k` jobs, of the products of `S` inside the set
//! and `Z` outside, and `G = Σ k! e(k)`, a job gets `G` without it over `G`. Jobs of a lower class
//! have what those above leave, as a GPU that is slower by that part.

use crate::scenario::{JobClass, SharingSpec};

/// Ways of giving GPUs to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Each GPU to one job.
    Whole,
    /// Parts of a GPU that add up to one, and no scheduling: the driver's time slices.
    Shares,
    /// Parts of a GPU that add up to one in each class, and XSched's classes.
    Classes,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Shares, Self::Classes];
}

/// Job on a GPU, as far as sharing is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resident {
    /// Class.
    pub class: JobClass,
    /// Part of its time in which the job alone keeps the GPU busy.
    pub duty: f64,
}

/// Availability below which a class does not run at all.
const LEAST: f64 = 1e-6;

/// Returns the progress of each job per time, over its progress alone on the GPU.
///
/// ```
/// use xsched_sim::cluster::{Resident, Way, progress};
/// use xsched_sim::scenario::{JobClass, SharingSpec};
///
/// let free = SharingSpec { jobs_max: 4, floor: 0.05, beside: 1.0, gate: 0.0, hold: 0.0 };
/// let urgent = Resident { class: JobClass::Interactive, duty: 0.25 };
/// let batch = Resident { class: JobClass::Batch, duty: 1.0 };
/// assert_eq!(progress(Way::Classes, &free, &[urgent, batch]), [1.0, 0.75]);
/// assert_eq!(progress(Way::Shares, &free, &[urgent, batch]), [0.8, 0.8]);
/// ```
#[must_use]
pub fn progress(way: Way, spec: &SharingSpec, jobs: &[Resident]) -> Vec<f64> {
    let mut rates = vec![0.0; jobs.len()];
    if way != Way::Classes {
        let all: Vec<_> =
            jobs.iter().map(|job| Demand { busy: job.duty, idle: 1.0 - job.duty }).collect();
        return product_form(&all);
    }
    let mut left = 1.0;
    let mut highest = true;
    for class in JobClass::ALL {
        let of_class = |index: &usize| jobs[*index].class == class;
        let members: Vec<usize> = (0..jobs.len()).filter(of_class).collect();
        if members.is_empty() || left < LEAST {
            continue;
        }
        let is_below = jobs.iter().any(|job| job.class > class);
        let demand = |index: &usize| demand(spec, jobs[*index].duty, jobs.len() > 1, is_below);
        let demands: Vec<Demand> = members.iter().map(demand).collect();
        let slowed = demands.iter().map(|of| Demand { busy: of.busy / left, ..*of });
        let mut got = product_form(&slowed.collect::<Vec<_>>());
        let on_gpu = |index: &usize| device_time(spec, jobs[*index].duty, jobs.len() > 1);
        let used = |got: &[f64]| -> f64 {
            members.iter().zip(got).map(|(index, rate)| rate * on_gpu(index)).sum()
        };
        if highest && is_below && used(&got) > 1.0 - spec.floor {
            let less = (1.0 - spec.floor) / used(&got);
            got.iter_mut().for_each(|rate| *rate *= less);
        }
        left = (left - used(&got)).max(0.0);
        highest = false;
        for (index, rate) in members.into_iter().zip(got) {
            rates[index] = rate;
        }
    }
    rates
}

/// Device time of a job per progress: its own and that of gates.
#[must_use]
pub fn device_time(spec: &SharingSpec, duty: f64, scheduled: bool) -> f64 {
    if scheduled { duty * (1.0 + spec.gate) } else { duty }
}

/// Time that a job needs for a unit of progress: of the GPU, and without it.
#[derive(Clone, Copy, Debug)]
struct Demand {
    busy: f64,
    idle: f64,
}

fn demand(spec: &SharingSpec, duty: f64, scheduled: bool, is_below: bool) -> Demand {
    if !scheduled {
        return Demand { busy: duty, idle: 1.0 - duty };
    }
    let busy = device_time(spec, duty, true);
    // What `beside` has beyond the gates is the host's. A burst waits for the GPU without using it.
    let held = if is_below { duty * spec.hold } else { 0.0 };
    Demand { busy, idle: (spec.beside - busy).max(0.0) + held }
}

/// Rates of jobs with equal rights.
fn product_form(jobs: &[Demand]) -> Vec<f64> {
    let all = normalisation(jobs, usize::MAX);
    (0..jobs.len()).map(|index| normalisation(jobs, index) / all).collect()
}

/// The sum over all sets of jobs, without one of them.
fn normalisation(jobs: &[Demand], without: usize) -> f64 {
    // By the number of jobs in the set.
    let mut sums = vec![1.0];
    for (_, job) in jobs.iter().enumerate().filter(|(index, _)| *index != without) {
        sums.push(0.0);
        for size in (0..sums.len()).rev() {
            let smaller = if size > 0 { sums[size - 1] } else { 0.0 };
            sums[size] = sums[size] * job.idle + smaller * job.busy;
        }
    }
    let mut factorial = 1.0;
    let mut sum = 0.0;
    for (size, term) in sums.into_iter().enumerate() {
        factorial *= size.max(1) as f64;
        sum += factorial * term;
    }
    sum
}
