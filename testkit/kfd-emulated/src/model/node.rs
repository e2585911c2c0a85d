//! GPUs: one run list for the queues of all processes, and what can go wrong with it.

use std::collections::VecDeque;

use rustix::io::Errno;

use super::{Change, Model};

/// Fault that happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The preemption is not acknowledged in time: `ETIME`, then the GPU is reset.
    Timeout,
    /// One queue does not answer and is reset alone; the call succeeds.
    QueueReset {
        /// Process.
        pid: u32,
        /// Id.
        id: u32,
    },
}

/// Progress of a GPU's reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resetting {
    #[default]
    No,
    /// Until it is ended by hand.
    Open,
    /// Until then, in nanoseconds of the caller's clock.
    Until(u64),
}

/// History of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// How often its run list was taken down and put up again. Each time all queues of all
    /// processes on it were preempted.
    pub preemptions: u64,
    /// How many running queues were saved for that, in sum.
    pub queues_saved: u64,
    /// True if it is being reset now.
    pub is_resetting: bool,
    /// Resets since the start.
    pub resets: u32,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) preemptions: u64,
    pub(super) queues_saved: u64,
    pub(super) resets: u32,
    pub(super) resetting: Resetting,
    pub(super) faults: VecDeque<Fault>,
    /// The lock around the run list is held until then, in nanoseconds.
    pub(super) busy_until_ns: u64,
}

impl Model {
    /// History of a GPU, by its place in the configuration.
    #[must_use]
    pub fn node(&self, gpu: usize) -> Option<NodeView> {
        let node = self.nodes.get(gpu)?;
        Some(NodeView {
            preemptions: node.preemptions,
            queues_saved: node.queues_saved,
            is_resetting: node.resetting != Resetting::No,
            resets: node.resets,
        })
    }

    /// Has the next preemption on a GPU go wrong. Several stand in line. False if there is no such
    /// GPU.
    pub fn inject(&mut self, gpu: usize, fault: Fault) -> bool {
        let node = self.nodes.get_mut(gpu);
        node.is_some_and(|node| {
            node.faults.push_back(fault);
            true
        })
    }

    /// Starts a reset of a GPU, which lasts until [`Model::end_reset`]. False if there is no such
    /// GPU.
    pub fn start_reset(&mut self, gpu: usize) -> bool {
        if self.nodes.get(gpu).is_none() {
            return false;
        }
        self.reset(gpu, Resetting::Open);
        true
    }

    /// Ends a reset.
    pub fn end_reset(&mut self, gpu: usize) {
        if let Some(node) = self.nodes.get_mut(gpu) {
            node.resetting = Resetting::No;
            self.tell(gpu, "4");
        }
    }

    fn reset(&mut self, gpu: usize, how: Resetting) {
        let node = &mut self.nodes[gpu];
        node.resetting = how;
        node.resets += 1;
        self.tell(gpu, "3");
        let lost: Vec<_> = self.on_gpu(gpu).map(|(pid, id, _)| (pid, id)).collect();
        for (pid, id) in lost {
            self.lose(pid, id);
        }
    }

    /// A queue was reset and never runs again.
    fn lose(&mut self, pid: u32, id: u32) {
        self.changing(pid, id, |queue| queue.stopped.reset = true);
        self.changes.push(Change::Lost { pid, id });
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some(queue) = process.queues.get(&id) else { return };
        if !process.reset_on.contains(&queue.gpu) {
            process.reset_on.push(queue.gpu);
        }
    }

    /// Ends a reset whose time is over.
    pub(super) fn pass_time(&mut self, now_ns: u64) {
        for gpu in 0..self.nodes.len() {
            if matches!(self.nodes[gpu].resetting, Resetting::Until(end) if end <= now_ns) {
                self.end_reset(gpu);
            }
        }
    }

    /// All queues on a GPU: process, id, queue.
    pub(super) fn on_gpu(
        &self,
        gpu: usize,
    ) -> impl Iterator<Item = (u32, u32, &super::process::Queue)> {
        let queues = self.processes.iter().flat_map(|(pid, process)| {
            process.queues.iter().map(move |(id, queue)| (*pid, *id, queue))
        });
        queues.filter(move |(_, _, queue)| queue.gpu == gpu)
    }

    /// Takes a GPU's run list down: every running queue on it is saved. `body` changes queues
    /// meanwhile; then the list is put up again, with those that may run now.
    ///
    /// # Errors
    /// `EIO` while the GPU is being reset, `ETIME` if the device did not answer.
    pub(super) fn preempting(
        &mut self,
        gpu: usize,
        body: impl FnOnce(&mut Self),
    ) -> Result<(), Errno> {
        if self.nodes[gpu].resetting != Resetting::No {
            body(self);
            return Err(Errno::IO);
        }
        let running = self.on_gpu(gpu).filter(|(_, _, queue)| queue.is_active()).count() as u64;
        let latency = self.config.latency;
        let cost_ns = latency.fixed_ns.saturating_add(latency.queue_ns.saturating_mul(running));
        let node = &mut self.nodes[gpu];
        node.preemptions += 1;
        node.queues_saved += running;
        node.busy_until_ns = node.busy_until_ns.max(self.now_ns).saturating_add(cost_ns);
        self.ready_ns = self.ready_ns.max(node.busy_until_ns);
        let fault = node.faults.pop_front();
        body(self);
        match fault {
            None => Ok(()),
            Some(Fault::QueueReset { pid, id }) => {
                self.lose(pid, id);
                Ok(())
            }
            Some(Fault::Timeout) => {
                let end_ns = self.ready_ns.saturating_add(latency.reset_ns);
                let by_hand = latency.reset_ns == 0;
                self.reset(gpu, if by_hand { Resetting::Open } else { Resetting::Until(end_ns) });
                Err(Errno::TIME)
            }
        }
    }

    /// Changes a queue, and notes it if it runs now and did not before, or the other way round.
    pub(super) fn changing(
        &mut self,
        pid: u32,
        id: u32,
        body: impl FnOnce(&mut super::process::Queue),
    ) {
        let process = self.processes.get_mut(&pid);
        let Some(queue) = process.and_then(|process| process.queues.get_mut(&id)) else { return };
        let before = queue.is_active();
        body(queue);
        let is_active = queue.is_active();
        if is_active != before {
            self.changes.push(Change::Active { pid, id, is_active });
        }
    }
}
