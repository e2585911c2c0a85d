//! Multi-level feedback. Defects: among queues of one level the one that has waited longest runs,
//! and a queue that runs has not waited at all, so they change at almost every decision; and a
//! queue that was idle is held only if it runs as far as the policy knows, so that one which wakes
//! and is not chosen runs all the same; and each decision starts a timer besides those that there
//! are.

use std::collections::BTreeMap;

use xsched_core::id::QueueId;
use xsched_core::policy::{Decisions, Event};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

use super::hints::handle;
use super::{Algorithm, HOLD, RUN};

const TICK: Duration = Duration::from_ms(5);
const SLICES_MS: [u64; 4] = [10, 20, 40, 80];
const PROMOTION_MS: f64 = 100.0;

#[derive(Debug, Default)]
struct Node {
    level: usize,
    used: Duration,
    pending: Duration,
    since: Instant,
    moved: Instant,
    running: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Mlfq {
    nodes: BTreeMap<usize, Node>,
    timers: Vec<Instant>,
}

impl Mlfq {
    fn account(&mut self, now: Instant, queue: &QueueInfo) {
        let fresh = || Node { since: now, moved: now, ..Node::default() };
        let node = self.nodes.entry(handle(queue)).or_insert_with(fresh);
        let span = now.since(node.since);
        node.since = now;
        if node.running {
            node.used += span;
        } else if queue.ready {
            node.pending += span;
        }
        node.running &= queue.ready;
    }

    fn level(&self, queue: &QueueInfo) -> usize {
        self.nodes.get(&handle(queue)).map_or(0, |node| node.level)
    }

    fn pending(&self, queue: &QueueInfo) -> Duration {
        self.nodes.get(&handle(queue)).map_or(Duration::ZERO, |node| node.pending)
    }

    fn change_level(&mut self, now: Instant, queue: &QueueInfo, queues: &QueueTable<'_>) {
        let level = self.level(queue);
        let like = |other: &&QueueInfo| other.ready && self.level(other) == level;
        let count = queues.on_device(queue.device).filter(like).count();
        let rate = if count == 0 { 1.0 } else { 0.9 / count as f64 };
        let Some(node) = self.nodes.get_mut(&handle(queue)) else { return };
        let ms = |span: Duration| span.as_ns() as f64 / 1e6;
        let old = ms(now.since(node.moved)) - ms(node.pending) * rate > PROMOTION_MS;
        let up = old && level > 0;
        let down = ms(node.used) >= SLICES_MS[level] as f64;
        if up || down {
            node.level = if up { level - 1 } else { (level + 1).min(SLICES_MS.len() - 1) };
            (node.used, node.moved) = (Duration::ZERO, now);
        }
    }
}

impl Algorithm for Mlfq {
    const NAME: &'static str = "mlfq";

    fn observe(&mut self, queue: QueueId, event: Event, _: &QueueTable<'_>) {
        if event == Event::Detached {
            self.nodes.remove(&queue.index());
        }
    }

    fn decide(&mut self, now: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        queues.iter().for_each(|queue| self.account(now, queue));
        queues.iter().for_each(|queue| self.change_level(now, queue, queues));
        for device in queues.devices() {
            let ready = || queues.on_device(device).filter(|queue| queue.ready);
            let first = |queue: &&QueueInfo| {
                (self.level(queue), std::cmp::Reverse(self.pending(queue)), handle(queue))
            };
            let chosen = ready().min_by_key(first).map(|queue| queue.id);
            for queue in ready() {
                let Some(node) = self.nodes.get_mut(&handle(queue)) else { continue };
                if Some(queue.id) == chosen {
                    (node.running, node.pending) = (true, Duration::ZERO);
                    out.set(queue.id, RUN);
                } else if std::mem::take(&mut node.running) {
                    out.set(queue.id, HOLD);
                }
            }
        }
        self.timers.retain(|due| *due > now);
        self.timers.push(now + TICK);
        if let Some(first) = self.timers.iter().min() {
            out.wake_at(*first);
        }
    }
}
