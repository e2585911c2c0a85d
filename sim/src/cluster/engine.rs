//! Jobs on GPUs: who is placed where, at which rate each job goes on, and when it ends.

use std::collections::VecDeque;

use super::figures::Figures;
use super::jobs::Job;
use super::share::{Resident, Way, device_time, progress};
use crate::clock::Clock;
use crate::scenario::ClusterScenario;

/// Permille of a whole GPU.
const WHOLE: u16 = 1_000;
/// Most GPUs of a node, as the file's checks have it.
const GPUS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Arrive {
        job: u32,
    },
    /// The end of a job, unless its rate has changed since.
    End {
        job: u32,
        token: u32,
    },
}

/// A job, from its arrival on.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) job: Job,
    pub(super) start_ns: Option<u64>,
    pub(super) end_ns: Option<u64>,
    /// GPUs that it has.
    gpus: Vec<u32>,
    /// Time alone that is left.
    left_ns: f64,
    rate: f64,
    settled_ns: u64,
    token: u32,
}

#[derive(Clone, Debug, Default)]
struct Gpu {
    jobs: Vec<u32>,
    /// Progress of each job if this GPU were its only one.
    rates: Vec<f64>,
    /// Part of the time in which it is busy.
    busy: f64,
    settled_ns: u64,
}

/// Jobs of a GPU, as far as placing others is concerned. All of them are looked at for each job, so
/// they are small and stand side by side.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    /// Thousandths that jobs of each class asked for.
    permille: [u16; 3],
    jobs: u16,
}

/// Time in the day that counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    /// GPUs that were busy.
    pub(super) busy_ns: f64,
    /// GPUs that had a job.
    pub(super) taken_ns: f64,
    /// Device time of jobs without gates.
    pub(super) work_ns: f64,
    /// Device time of gates.
    pub(super) gates_ns: f64,
    /// Progress of the jobs of each class, times their GPUs.
    pub(super) progress_ns: [f64; 3],
    /// The most that a GPU was busy, over one.
    pub(super) busiest: f64,
}

/// A cluster while it runs.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    scenario: &'a ClusterScenario,
    way: Way,
    clock: Clock<Event>,
    pub(super) runs: Vec<Run>,
    gpus: Vec<Gpu>,
    rooms: Vec<Room>,
    /// The job for which a node is emptied.
    reserved: Vec<Option<u32>>,
    /// Waiting jobs by class and number of GPUs, first come, first served.
    queues: [[VecDeque<u32>; GPUS_MAX]; 3],
    pub(super) totals: Totals,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(scenario: &'a ClusterScenario, way: Way, jobs: &[Job]) -> Self {
        let mut clock = Clock::default();
        for (index, job) in jobs.iter().enumerate() {
            clock.at(job.arrival_ns, Event::Arrive { job: index as u32 });
        }
        let run = |job: &Job| Run {
            job: *job,
            start_ns: None,
            end_ns: None,
            gpus: Vec::new(),
            left_ns: job.run_ns as f64,
            rate: 0.0,
            settled_ns: 0,
            token: 0,
        };
        Self {
            scenario,
            way,
            clock,
            runs: jobs.iter().map(run).collect(),
            gpus: vec![Gpu::default(); scenario.nodes * scenario.gpus],
            rooms: vec![Room::default(); scenario.nodes * scenario.gpus],
            reserved: vec![None; scenario.nodes],
            queues: Default::default(),
            totals: Totals::default(),
        }
    }

    /// Runs both days.
    pub(super) fn run(mut self, load: f64, seed: u64) -> Figures {
        self.go();
        Figures::of(&self, load, seed)
    }

    pub(super) fn go(&mut self) {
        let end_ns = 2 * self.scenario.duration_ns;
        while let Some(event) = self.clock.advance(end_ns) {
            match event {
                Event::Arrive { job } => self.arrive(job),
                Event::End { job, token } if self.runs[job as usize].token == token => {
                    self.end(job);
                }
                Event::End { .. } => {}
            }
        }
        self.clock.advance_to(end_ns);
        for index in 0..self.gpus.len() {
            self.settle_gpu(index as u32);
        }
        for index in 0..self.runs.len() {
            self.settle_job(index as u32);
        }
    }

    pub(super) const fn scenario(&self) -> &ClusterScenario {
        self.scenario
    }

    pub(super) const fn way(&self) -> Way {
        self.way
    }

    fn arrive(&mut self, index: u32) {
        let Job { class, gpus, .. } = self.runs[index as usize].job;
        let queue = &mut self.queues[class as usize][usize::from(gpus) - 1];
        queue.push_back(index);
        if queue.len() > 1 {
            return;
        }
        let mut best: Option<Fit> = None;
        for node in 0..self.scenario.nodes {
            let fit = self.fit(index, node);
            if let Some(fit) = fit.filter(|fit| best.as_ref().is_none_or(|b| fit.cost < b.cost)) {
                // Nothing is better than empty GPUs of a node that has no others.
                let is_best = fit.cost == (0, u32::from(gpus));
                best = Some(fit);
                if is_best {
                    break;
                }
            }
        }
        match best {
            Some(fit) => self.start(index, fit),
            None if gpus > 1 => self.reserve(index),
            None => {}
        }
    }

    /// Gives waiting jobs what is free on a node: by class, then by arrival.
    fn fill(&mut self, node: usize) {
        loop {
            let mut heads: Vec<u32> =
                self.queues.iter().flatten().filter_map(|queue| queue.front().copied()).collect();
            heads.sort_unstable_by_key(|head| {
                let job = &self.runs[*head as usize].job;
                (job.class, job.arrival_ns, *head)
            });
            let found = heads.into_iter().find_map(|head| Some((head, self.fit(head, node)?)));
            let Some((head, fit)) = found else { return };
            self.start(head, fit);
        }
    }

    /// The GPUs of a node that a job would get, if it fits there.
    fn fit(&self, index: u32, node: usize) -> Option<Fit> {
        if self.reserved[node].is_some_and(|other| other != index) {
            return None;
        }
        let job = &self.runs[index as usize].job;
        let first = node * self.scenario.gpus;
        let wanted = usize::from(job.gpus);
        let mut fitting = [(u32::MAX, 0); GPUS_MAX];
        let (mut count, mut empty) = (0, 0);
        for (at, room) in self.rooms[first..first + self.scenario.gpus].iter().enumerate() {
            empty += u32::from(room.jobs == 0);
            if self.has_room(room, job) {
                let found = (Self::crowd(room, job), (first + at) as u32);
                if wanted > 1 {
                    fitting[count] = found;
                } else {
                    fitting[0] = fitting[0].min(found);
                }
                count += 1;
            }
        }
        if count < wanted {
            return None;
        }
        if wanted > 1 {
            fitting.sort_unstable();
        }
        // Of nodes that are as good, the one with the fewest empty GPUs.
        let cost = (fitting[wanted - 1].0, empty);
        Some(Fit { cost, gpus: fitting.map(|(_, gpu)| gpu), count: wanted })
    }

    fn has_room(&self, room: &Room, job: &Job) -> bool {
        let beside = match self.way {
            Way::Whole => return room.jobs == 0,
            Way::Shares => room.permille.iter().sum(),
            Way::Classes => room.permille[job.class as usize],
        };
        beside + job.permille <= WHOLE && usize::from(room.jobs) < self.scenario.node.jobs_max
    }

    /// How much a job would be slowed down on a GPU, as far as requests say: first by jobs that are
    /// as urgent or more, then by others.
    fn crowd(room: &Room, job: &Job) -> u32 {
        let ahead: u16 = room.permille[..=job.class as usize].iter().sum();
        let all: u16 = room.permille.iter().sum();
        u32::from(ahead) << 16 | u32::from(all)
    }

    /// Keeps other jobs from the node with most room, so that a job of several GPUs does not wait
    /// for ever behind smaller ones.
    fn reserve(&mut self, index: u32) {
        let job = &self.runs[index as usize].job;
        let room = |node: &usize| {
            let first = node * self.scenario.gpus;
            let rooms = &self.rooms[first..first + self.scenario.gpus];
            rooms.iter().filter(|room| self.has_room(room, job)).count()
        };
        let free = (0..self.scenario.nodes).filter(|node| self.reserved[*node].is_none());
        if let Some(node) = free.max_by_key(|node| (room(node), usize::MAX - node)) {
            self.reserved[node] = Some(index);
        }
    }

    fn start(&mut self, index: u32, fit: Fit) {
        let now_ns = self.clock.now_ns();
        let job = self.runs[index as usize].job;
        let queue = &mut self.queues[job.class as usize][usize::from(job.gpus) - 1];
        queue.pop_front();
        let next = queue.front().copied().filter(|_| job.gpus > 1);
        let run = &mut self.runs[index as usize];
        (run.start_ns, run.settled_ns) = (Some(now_ns), now_ns);
        let gpus = &fit.gpus[..fit.count];
        run.gpus = gpus.to_vec();
        for gpu in gpus {
            self.settle_gpu(*gpu);
            self.gpus[*gpu as usize].jobs.push(index);
            let room = &mut self.rooms[*gpu as usize];
            room.permille[job.class as usize] += job.permille;
            room.jobs += 1;
        }
        self.refresh(gpus);
        let kept = self.reserved.iter().position(|of| *of == Some(index));
        if let Some(node) = kept {
            self.reserved[node] = None;
        }
        if let Some(next) = next {
            self.reserve(next);
        }
        if let Some(node) = kept.filter(|node| *node != gpus[0] as usize / self.scenario.gpus) {
            self.fill(node);
        }
    }

    fn end(&mut self, index: u32) {
        self.settle_job(index);
        let run = &mut self.runs[index as usize];
        run.end_ns = Some(self.clock.now_ns());
        (run.rate, run.left_ns) = (0.0, 0.0);
        let job = run.job;
        let gpus = std::mem::take(&mut run.gpus);
        for gpu in &gpus {
            self.settle_gpu(*gpu);
            self.gpus[*gpu as usize].jobs.retain(|other| *other != index);
            let room = &mut self.rooms[*gpu as usize];
            room.permille[job.class as usize] -= job.permille;
            room.jobs -= 1;
        }
        self.refresh(&gpus);
        self.fill(gpus[0] as usize / self.scenario.gpus);
    }

    /// Computes the rates anew on GPUs whose jobs have changed. A job of several GPUs goes on as
    /// its slowest one; what it leaves of the others is not given to other jobs.
    fn refresh(&mut self, gpus: &[u32]) {
        let mut touched: Vec<u32> = Vec::new();
        for gpu in gpus {
            let residents: Vec<Resident> = self.gpus[*gpu as usize]
                .jobs
                .iter()
                .map(|job| &self.runs[*job as usize].job)
                .map(|job| Resident { class: job.class, duty: job.duty })
                .collect();
            let rates = progress(self.way, &self.scenario.node, &residents);
            self.gpus[*gpu as usize].rates = rates;
            touched.extend(&self.gpus[*gpu as usize].jobs);
        }
        touched.sort_unstable();
        touched.dedup();
        let mut changed: Vec<u32> = gpus.to_vec();
        for index in touched {
            self.settle_job(index);
            let run = &self.runs[index as usize];
            let on = |gpu: &u32| {
                let gpu = &self.gpus[*gpu as usize];
                let at = gpu.jobs.iter().position(|job| *job == index);
                at.and_then(|at| gpu.rates.get(at).copied()).unwrap_or(0.0)
            };
            let rate = run.gpus.iter().map(on).fold(1.0, f64::min);
            changed.extend(&run.gpus);
            self.set_rate(index, rate);
        }
        changed.sort_unstable();
        changed.dedup();
        for gpu in changed {
            self.settle_gpu(gpu);
            let busy = self.busy(gpu);
            self.gpus[gpu as usize].busy = busy;
            self.totals.busiest = self.totals.busiest.max(busy);
        }
    }

    fn busy(&self, gpu: u32) -> f64 {
        let jobs = &self.gpus[gpu as usize].jobs;
        let runs = jobs.iter().map(|job| &self.runs[*job as usize]);
        runs.map(|run| run.rate * self.device_time(&run.job, jobs.len())).sum()
    }

    fn device_time(&self, job: &Job, jobs: usize) -> f64 {
        device_time(&self.scenario.node, job.duty, self.way == Way::Classes && jobs > 1)
    }

    fn set_rate(&mut self, index: u32, rate: f64) {
        let now_ns = self.clock.now_ns();
        let run = &mut self.runs[index as usize];
        if rate.to_bits() == run.rate.to_bits() {
            return;
        }
        run.rate = rate;
        run.token += 1;
        if rate > 0.0 {
            let end_ns = now_ns.saturating_add((run.left_ns / rate).ceil() as u64);
            self.clock.at(end_ns, Event::End { job: index, token: run.token });
        }
    }

    /// Time of the day that counts between two moments.
    fn counted_ns(&self, from_ns: u64) -> f64 {
        let from_ns = from_ns.max(self.scenario.duration_ns);
        self.clock.now_ns().saturating_sub(from_ns) as f64
    }

    fn settle_job(&mut self, index: u32) {
        let counted_ns = self.counted_ns(self.runs[index as usize].settled_ns);
        let now_ns = self.clock.now_ns();
        let run = &mut self.runs[index as usize];
        run.left_ns -= run.rate * (now_ns - run.settled_ns) as f64;
        run.settled_ns = now_ns;
        let progress_ns = run.rate * counted_ns * f64::from(run.job.gpus);
        self.totals.progress_ns[run.job.class as usize] += progress_ns;
        self.totals.work_ns += progress_ns * run.job.duty;
    }

    fn settle_gpu(&mut self, index: u32) {
        let gpu = &self.gpus[index as usize];
        let counted_ns = self.counted_ns(gpu.settled_ns);
        let gates = if self.way == Way::Classes && gpu.jobs.len() > 1 {
            let gate = self.scenario.node.gate;
            gpu.busy * gate / (1.0 + gate)
        } else {
            0.0
        };
        self.totals.busy_ns += gpu.busy * counted_ns;
        self.totals.gates_ns += gates * counted_ns;
        if !gpu.jobs.is_empty() {
            self.totals.taken_ns += counted_ns;
        }
        self.gpus[index as usize].settled_ns = self.clock.now_ns();
    }
}

/// GPUs of one node for a job, and how good that is; less is better.
#[derive(Debug)]
struct Fit {
    cost: (u32, u32),
    gpus: [u32; GPUS_MAX],
    count: usize,
}
