//! Actions of one thread on queues, at random.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use xsched::policies::{fcfs::Fcfs, hpf::Hpf};
use xsched::{Device, Drain, Error, Runtime, Ticket, WaitError, XQueue, XQueueConfig};
use xsched_core::hint::{Hints, Priority};
use xsched_core::level::Level;
use xsched_core::rng::SplitMix64;
use xsched_core::scheduler::SchedulerError;
use xsched_core::window::WindowConfig;
use xsched_hal_host::{HostCommand, HostDevice};

use crate::device::{Careful, Cargo, Ledger, Moody};

/// Queues that a thread has at a time, and tickets that are passed around.
const QUEUES: usize = 6;
const TICKETS: usize = 64;

/// State that the threads share.
pub(crate) struct Lane {
    pub(crate) runtime: Runtime,
    pub(crate) moody: Device<Careful<Moody>>,
    pub(crate) host: Device<Careful<HostDevice>>,
    pub(crate) tickets: Mutex<VecDeque<Ticket>>,
    pub(crate) tally: Tally,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) rest: AtomicBool,
    pub(crate) barrier: Barrier,
}

/// Counts of what was done, to see that all of it was.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    queues: AtomicU64,
    commands: AtomicU64,
    waits: AtomicU64,
    holds: AtomicU64,
    events: AtomicU64,
    callbacks: AtomicU64,
    policies: AtomicU64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        write!(f, "{} queues, {} commands, ", n(&self.queues), n(&self.commands))?;
        write!(f, "{} waits, {} holds, ", n(&self.waits), n(&self.holds))?;
        write!(f, "{} waits between queues, ", n(&self.events))?;
        write!(f, "{} callbacks, {} policies", n(&self.callbacks), n(&self.policies))
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) struct Worker<'a> {
    lane: &'a Arc<Lane>,
    chance: SplitMix64,
    queues: Vec<XQueue<Cargo>>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(lane: &'a Arc<Lane>, chance: SplitMix64) -> Self {
        Self { lane, chance, queues: Vec::new() }
    }

    pub(crate) fn run(mut self) {
        while !self.lane.rest.load(Ordering::Relaxed) {
            self.act();
        }
        // No queue is suspended any more; then everything must retire, whatever waits for what.
        self.queues.iter().for_each(XQueue::resume);
        self.lane.barrier.wait();
        for queue in &self.queues {
            let outcome = queue.wait_all_timeout(Duration::from_secs(20));
            assert_eq!(outcome, Ok(()), "{queue:?}: {:?}", queue.stats());
            let stats = queue.stats();
            assert_eq!(stats.submitted, stats.retired);
            assert_eq!(stats.protocol_errors, 0);
        }
        self.lane.barrier.wait();
        self.queues.truncate(self.chance.below(QUEUES as u64) as usize);
    }

    fn act(&mut self) {
        let Some(at) = self.pick() else { return };
        let queue = self.queues[at].clone();
        match self.chance.below(100) {
            0..40 => self.submit(&queue),
            40..60 => self.wait(&queue),
            60..68 => self.hold(&queue),
            68..74 => queue.resume(),
            74 => queue.resume_and_drop(),
            75..80 => self.configure(&queue),
            80..88 => self.wait_for_another(&queue),
            88..92 => {
                let tally = Arc::clone(self.lane);
                let Ok(ticket) = queue.try_submit(self.cargo()) else { return };
                queue.on_retired(ticket, move |_| count(&tally.tally.callbacks)).unwrap();
            }
            92 => self.change_policy(),
            93 | 94 => {
                if let Some(ticket) = self.ticket() {
                    queue.cancel(ticket);
                }
            }
            95 => self.start_and_forget(&queue),
            96 | 97 => drop(self.queues.swap_remove(at)),
            _ => {
                // A callback that has a handle keeps the queue, and keeps it suspended.
                self.call_back(&queue);
                queue.resume();
                self.queues.swap_remove(at);
            }
        }
    }

    /// A queue, perhaps a new one.
    fn pick(&mut self) -> Option<usize> {
        if self.queues.len() < QUEUES && (self.queues.is_empty() || self.chance.chance(100)) {
            let config = self.config();
            let queue = if self.chance.chance(700) {
                self.lane.moody.queue(config, ())
            } else {
                self.lane.host.queue(config, ())
            };
            self.queues.push(queue.unwrap());
            count(&self.lane.tally.queues);
        }
        let queues = self.queues.len() as u64;
        Some(self.chance.below(queues) as usize)
    }

    fn hints(&mut self) -> Hints {
        let priority = self.chance.below(5) as i32 - 2;
        Hints::with_priority(Priority::new(priority).unwrap())
    }

    fn window(&mut self) -> WindowConfig {
        let threshold = 1 + self.chance.below(16) as u32;
        let batch = 1 + self.chance.below(u64::from(threshold)) as u32;
        WindowConfig::fixed(threshold, batch)
    }

    fn level(&mut self) -> Level {
        [Level::Block, Level::Deactivate, Level::Interrupt][self.chance.below(3) as usize]
    }

    fn config(&mut self) -> XQueueConfig {
        XQueueConfig::default()
            .with_hints(self.hints())
            .with_level(self.level())
            .with_window(self.window())
            .with_capacity(1 + self.chance.below(40) as usize)
    }

    fn cargo(&mut self) -> Cargo {
        let spins = self.chance.below(2_000);
        let spin = |spins, _| (0..spins).for_each(|_| std::hint::spin_loop());
        Cargo::new(HostCommand::function(spin, spins, 0), &self.lane.ledger)
    }

    fn submit(&mut self, queue: &XQueue<Cargo>) {
        for _ in 0..1 + self.chance.below(12) {
            let Ok(ticket) = queue.try_submit(self.cargo()) else { return };
            count(&self.lane.tally.commands);
            if self.chance.chance(200) {
                let mut tickets = self.lane.tickets.lock().unwrap();
                tickets.push_back(ticket);
                if tickets.len() > TICKETS {
                    tickets.pop_front();
                }
            }
        }
    }

    fn ticket(&mut self) -> Option<Ticket> {
        let tickets = self.lane.tickets.lock().unwrap();
        let at = self.chance.below(tickets.len() as u64) as usize;
        tickets.get(at).copied()
    }

    fn wait(&mut self, queue: &XQueue<Cargo>) {
        let span = Duration::from_micros(self.chance.below(400));
        let Ok(ticket) = queue.try_submit(self.cargo()) else { return };
        let outcome = queue.wait_timeout(ticket, span);
        assert!(!matches!(outcome, Err(WaitError::WrongQueue)));
        count(&self.lane.tally.waits);
    }

    fn hold(&mut self, queue: &XQueue<Cargo>) {
        let level = self.level();
        match self.chance.below(4) {
            0 => {
                let span = Duration::from_micros(self.chance.below(300));
                let _ = queue.suspend_after(Drain::All, level, Some(span));
            }
            1 => {
                let span = Duration::from_micros(self.chance.below(300));
                let _ = queue.suspend_after(Drain::Idle, level, Some(span));
            }
            _ => queue.suspend(level),
        }
        count(&self.lane.tally.holds);
    }

    fn configure(&mut self, queue: &XQueue<Cargo>) {
        match self.chance.below(3) {
            0 => queue.set_hints(self.hints()),
            1 => queue.set_window(self.window()),
            _ => {
                let level = self.level();
                queue.set_level(level);
            }
        }
    }

    fn wait_for_another(&mut self, queue: &XQueue<Cargo>) {
        let Some(ticket) = self.ticket() else { return };
        match queue.enqueue_wait(ticket) {
            Ok(Some(_)) => count(&self.lane.tally.events),
            Ok(None)
            | Err(
                Error::QueueFull
                | Error::DeviceLost
                | Error::Scheduler(SchedulerError::WaitTableFull),
            ) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn call_back(&mut self, queue: &XQueue<Cargo>) {
        let Ok(ticket) = queue.try_submit(self.cargo()) else { return };
        let (lane, handle) = (Arc::clone(self.lane), queue.clone());
        let called = move |_| {
            count(&lane.tally.callbacks);
            drop(handle);
        };
        queue.on_retired(ticket, called).unwrap();
    }

    fn change_policy(&mut self) {
        count(&self.lane.tally.policies);
        if self.chance.chance(300) {
            self.lane.runtime.set_policy(Fcfs).unwrap();
        } else {
            self.lane.runtime.set_policy(Hpf::default()).unwrap();
        }
    }

    /// Futures that are dropped before they are ready.
    fn start_and_forget(&mut self, queue: &XQueue<Cargo>) {
        let mut context = Context::from_waker(Waker::noop());
        let mut submission = std::pin::pin!(queue.submit_async(self.cargo()));
        let _ = submission.as_mut().poll(&mut context);
        if let Some(ticket) = self.ticket() {
            let mut completion = std::pin::pin!(queue.completion(ticket));
            let _ = completion.as_mut().poll(&mut context);
        }
    }
}
