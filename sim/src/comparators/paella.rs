//! Dispatching like Paella's: one dispatcher holds all kernels of a device back and gives it only a
//! few at a time, so that the order is its own and not that of the hardware. It takes the kernel of
//! the request that has the least work left (by the profiled mean length of its kernels), unless a
//! task has fallen behind its fair part of the device by more than a threshold; then that task goes
//! first. Kernels are never stopped.
//!
//! Source: Ng, Demoulin and Liu, "Paella: Low-latency Model Serving with Software-defined GPU
//! Scheduling" (SOSP 2023). How many kernels are in flight depends there on how many blocks fit; 2
//! kernels and a threshold of 50 ms are assumed. The kernels of a request depend on each other, so
//! no request gets more than two, the one that runs and the next. The dispatcher itself costs
//! nothing here beyond the launch calls.

use super::{Admit, Comparators, LaunchGate};
use crate::sample::Sampler;
use crate::scenario::TaskSpec;

/// Kernels of one request on the device: one that runs and one to follow it at once.
const AHEAD: u64 = 2;

/// The dispatcher of all devices.
#[derive(Debug)]
pub(super) struct Dispatcher {
    most: u64,
    threshold_ns: f64,
    jobs: Vec<Job>,
    /// For each device: kernels that it has.
    in_flight: Vec<u64>,
}

/// The request that a task is at.
#[derive(Debug)]
struct Job {
    device: usize,
    kernel_ns: f64,
    in_flight: u64,
    /// Work that is left, while it waits to be dispatched.
    waits_ns: Option<f64>,
    /// How far it is behind its fair part; never below 0.
    deficit_ns: f64,
}

impl Job {
    /// True if it has work: its part of the device counts, whether it runs or waits.
    const fn is_active(&self) -> bool {
        self.waits_ns.is_some() || self.in_flight > 0
    }

    /// True if it waits for the dispatcher and not for its own kernels.
    fn could_go(&self) -> bool {
        self.waits_ns.is_some() && self.in_flight < AHEAD
    }
}

impl Dispatcher {
    pub(super) fn new(parameters: &Comparators, tasks: &[TaskSpec]) -> Self {
        let devices = tasks.iter().map(|task| task.device).max().map_or(0, |most| most + 1);
        let job = |task: &TaskSpec| Job {
            device: task.device,
            kernel_ns: Sampler::new(&task.command).mean_ns(),
            in_flight: 0,
            waits_ns: None,
            deficit_ns: 0.0,
        };
        Self {
            most: u64::from(parameters.paella_in_flight),
            threshold_ns: parameters.paella_deficit_ns as f64,
            jobs: tasks.iter().map(job).collect(),
            in_flight: vec![0; devices],
        }
    }

    /// The waiting task that goes first on a device.
    fn first(&self, device: usize) -> Option<usize> {
        let waiting = || {
            let jobs = self.jobs.iter().enumerate();
            jobs.filter(move |(_, job)| job.device == device && job.could_go())
        };
        let behind = waiting().filter(|(_, job)| job.deficit_ns > self.threshold_ns);
        // Of equal ones the first of the scenario, so that the order never depends on chance.
        let furthest = behind.min_by(|(_, a), (_, b)| b.deficit_ns.total_cmp(&a.deficit_ns));
        let left = |job: &Job| job.waits_ns.unwrap_or(f64::MAX);
        let shortest = || waiting().min_by(|(_, a), (_, b)| left(a).total_cmp(&left(b)));
        furthest.or_else(shortest).map(|(task, _)| task)
    }

    fn has_room(&self, device: usize) -> bool {
        self.in_flight[device] < self.most
    }
}

impl LaunchGate for Dispatcher {
    fn admit(&mut self, _: u64, task: usize, left: u64) -> Admit {
        let job = &mut self.jobs[task];
        let device = job.device;
        job.waits_ns = Some(left as f64 * job.kernel_ns);
        if self.has_room(device) && self.first(device) == Some(task) {
            self.jobs[task].waits_ns = None;
            return Admit::Now;
        }
        Admit::Later
    }

    fn launched(&mut self, _: u64, task: usize, work_ns: u64) {
        let device = self.jobs[task].device;
        self.in_flight[device] += 1;
        self.jobs[task].in_flight += 1;
        // A task whose kernels are all in flight is not waiting, but has its part all the same.
        let others = |at: usize, job: &Job| at != task && job.device == device && job.is_active();
        let active = self.jobs.iter().enumerate().filter(|(at, job)| others(*at, job)).count();
        // A task that has the device to itself deprives no task, and catches up by all of its work.
        let fair_ns = if active > 0 { work_ns as f64 / (1 + active) as f64 } else { 0.0 };
        for (_, job) in self.jobs.iter_mut().enumerate().filter(|(at, job)| others(*at, job)) {
            job.deficit_ns += fair_ns;
        }
        let job = &mut self.jobs[task];
        job.deficit_ns = (job.deficit_ns - (work_ns as f64 - fair_ns)).max(0.0);
    }

    fn retired(&mut self, task: usize, commands: u64) {
        let in_flight = &mut self.in_flight[self.jobs[task].device];
        *in_flight = in_flight.saturating_sub(commands);
        let job = &mut self.jobs[task];
        job.in_flight = job.in_flight.saturating_sub(commands);
    }

    fn woken(&mut self) -> Option<usize> {
        let mut devices = (0..self.in_flight.len()).filter(|&device| self.has_room(device));
        let task = devices.find_map(|device| self.first(device))?;
        self.jobs[task].waits_ns = None;
        Some(task)
    }
}
