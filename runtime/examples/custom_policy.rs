//! A policy of one's own: queues take turns, each for a slice of device time.
//!
//! The same object runs in the simulator (`xsched_sim`), where it can be compared with others
//! before it decides about a real device.
//!
//! `cargo run --release -p xsched --example custom_policy`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration as Span;

use xsched::core::id::QueueId;
use xsched::core::policy::{Changed, Decisions, Event, Policy, Urgency, Verdict};
use xsched::core::scheduler::QueueTable;
use xsched::core::time::{Duration, Instant};
use xsched::{Runtime, XQueueConfig};
use xsched_hal_host::{HostCommand, HostConfig, HostDevice};

/// One queue runs at a time, until it has used its slice or has nothing to do.
struct RoundRobin {
    slice: Duration,
    /// Whose turn it is, and what it has used of it.
    turn: Option<QueueId>,
    used: Duration,
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    // How often we want to hear about device time.
    fn progress_every(&self) -> Option<Duration> {
        Some(Duration::from_ns(self.slice.as_ns() / 4))
    }

    // What happened. Nothing is decided here.
    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, _: &QueueTable<'_>) {
        match event {
            Event::Progress { busy } if self.turn == Some(queue) => self.used += busy,
            _ => {}
        }
    }

    // Who runs, from the table alone.
    fn decide(
        &mut self,
        _: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let over = self.used >= self.slice;
        let ready = |id: &QueueId| queues.iter().any(|queue| queue.id == *id && queue.ready);
        let keeps = self.turn.filter(|id| ready(id) && !over);
        let turn = keeps.or_else(|| {
            let after = self.turn.map_or(0, |id| id.index() + 1);
            let others = || queues.iter().filter(|queue| queue.ready).map(|queue| queue.id);
            let next = others().find(|id| id.index() >= after);
            next.or_else(|| others().next())
        });
        if turn != keeps || turn.is_none() {
            (self.turn, self.used) = (turn, Duration::ZERO);
        }
        for queue in queues.iter() {
            // Nobody's turn: whoever comes first may start.
            let runs = turn.is_none_or(|id| id == queue.id);
            let hold = Verdict::Hold(Urgency::NOW);
            out.set(queue.id, if runs { Verdict::Run } else { hold });
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let slice = Duration::from_ms(10);
    let runtime = Runtime::new(RoundRobin { slice, turn: None, used: Duration::ZERO })?;
    let device = runtime.device(HostDevice::new(HostConfig::default())?)?;
    let done: Vec<_> = (0..3).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let mut queues = Vec::new();
    for done in &done {
        let queue = device.queue(XQueueConfig::default(), ())?;
        for _ in 0..200 {
            let done = Arc::clone(done);
            queue.submit(HostCommand::new(move || {
                std::thread::sleep(Span::from_millis(1));
                done.fetch_add(1, Ordering::Relaxed);
            }))?;
        }
        queues.push(queue);
    }
    while queues.iter().any(|queue| queue.stats().retired < 200) {
        std::thread::sleep(Span::from_millis(60));
        let done: Vec<_> = done.iter().map(|done| done.load(Ordering::Relaxed)).collect();
        println!("commands done per queue: {done:?}");
    }
    Ok(())
}
