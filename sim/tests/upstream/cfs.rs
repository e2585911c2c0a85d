//! Fair shares. Defects: a queue that is new starts at a virtual time of 0, and one that has slept
//! at that of its last run, so that it runs alone until it has caught up with all others. The rule
//! that they start where the others are is there, and never applies.

use std::collections::BTreeMap;

use xsched_core::id::QueueId;
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

use super::hints::{HintMap, handle};
use super::hpf::hinted;
use super::{Algorithm, HOLD, RUN};

const TICK: Duration = Duration::from_ms(1);
const WEIGHT: f64 = 1_024.0;

#[derive(Debug, Default)]
struct Node {
    virtual_us: f64,
    running: bool,
    since: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Cfs {
    priorities: HintMap<i16>,
    nodes: BTreeMap<usize, Node>,
}

impl Cfs {
    fn account(&mut self, now: Instant, queue: &QueueInfo) {
        let priority = self.priorities.get(queue).unwrap_or(0);
        // The defect: a node is made for every queue that is seen, ready or not.
        let node = self.nodes.entry(handle(queue)).or_default();
        if node.running {
            let weight = WEIGHT * 1.2_f64.powi(i32::from(priority));
            let us = now.since(node.since).as_ns() as f64 / 1_000.0;
            node.virtual_us += us * WEIGHT / weight;
        }
        node.since = now;
        node.running &= queue.ready;
    }

    fn virtual_us(&self, queue: &QueueInfo) -> f64 {
        self.nodes.get(&handle(queue)).map_or(0.0, |node| node.virtual_us)
    }
}

impl Algorithm for Cfs {
    const NAME: &'static str = "cfs";

    fn observe(&mut self, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.priorities.observe(queue, event, queues, hinted);
        if event == Event::Detached {
            self.nodes.remove(&queue.index());
        }
    }

    fn decide(&mut self, now: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        queues.iter().for_each(|queue| self.account(now, queue));
        for device in queues.devices() {
            let ready = || queues.on_device(device).filter(|queue| queue.ready);
            let behind = ready().min_by(|a, b| {
                let by_time = self.virtual_us(a).total_cmp(&self.virtual_us(b));
                by_time.then(handle(a).cmp(&handle(b)))
            });
            for queue in ready() {
                let chosen = behind.is_some_and(|behind| behind.id == queue.id);
                out.set(queue.id, if chosen { RUN } else { HOLD });
                if let Some(node) = self.nodes.get_mut(&handle(queue)) {
                    node.running = chosen;
                }
            }
        }
        out.wake_at(now + TICK);
    }
}
