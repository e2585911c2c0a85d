//! A request queue like that of the Triton inference server: requests wait in the server and are
//! sent to the model by priority, those of one priority in order of arrival. A request that has
//! begun runs to its end with all its kernels; priorities only decide who begins next.
//!
//! Source: NVIDIA, Triton Inference Server user guide (vendor documentation), the chapters on model
//! instances, priority levels of queue policies, and the rate limiter. One request at a time is
//! what one model instance with the rate limiter does; two models with an instance each and
//! without the rate limiter execute two requests at a time. A task is a model with one instance, so
//! never more than one request of a task runs.

use std::cmp::Reverse;

use super::{Comparators, LaunchGate};
use crate::scenario::TaskSpec;

/// The requests that wait and run, on all devices.
#[derive(Debug)]
pub(super) struct Requests {
    most: u32,
    /// For each task: its device, its priority and since when a request waits.
    tasks: Vec<(usize, i16, Option<u64>)>,
    /// For each task: whether its instance runs a request.
    busy: Vec<bool>,
    /// For each device: requests that run.
    running: Vec<u32>,
}

impl Requests {
    pub(super) fn new(parameters: &Comparators, tasks: &[TaskSpec]) -> Self {
        let devices = tasks.iter().map(|task| task.device).max().map_or(0, |most| most + 1);
        Self {
            most: parameters.triton_running,
            tasks: tasks.iter().map(|task| (task.device, task.priority, None)).collect(),
            busy: vec![false; tasks.len()],
            running: vec![0; devices],
        }
    }

    /// The task whose request is the next to begin on a device.
    fn first(&self, device: usize) -> Option<usize> {
        let waiting = self.tasks.iter().enumerate().filter_map(|(task, &(on, priority, since))| {
            (on == device && !self.busy[task]).then_some((Reverse(priority), since?, task))
        });
        waiting.min().map(|(.., task)| task)
    }

    fn has_room(&self, device: usize) -> bool {
        self.running[device] < self.most
    }
}

impl LaunchGate for Requests {
    fn admit_request(&mut self, task: usize, arrived_ns: u64) -> bool {
        let device = self.tasks[task].0;
        self.tasks[task].2 = Some(arrived_ns);
        let admitted = self.has_room(device) && self.first(device) == Some(task);
        if admitted {
            self.tasks[task].2 = None;
            self.busy[task] = true;
            self.running[device] += 1;
        }
        admitted
    }

    fn request_over(&mut self, task: usize) {
        self.busy[task] = false;
        let running = &mut self.running[self.tasks[task].0];
        *running = running.saturating_sub(1);
    }

    fn next_request(&mut self) -> Option<usize> {
        let mut devices = (0..self.running.len()).filter(|&device| self.has_room(device));
        let task = devices.find_map(|device| self.first(device))?;
        self.tasks[task].2 = None;
        Some(task)
    }
}
