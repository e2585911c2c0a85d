//! Injected faults and user holds: what swarm runs throw at a simulation.

use xsched_core::hal::FaultRates;
use xsched_core::hint::{Hints, Priority};
use xsched_core::level::Level;
use xsched_core::queue::Signal;

use super::Engine;
use super::setup::LEASE;
use super::threads::Phase;
use crate::clock::Event;

/// Event that happens once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Disturbance {
    /// The scheduler does nothing for a while.
    StallScheduler { ns: u64 },
    /// A client process dies.
    Vanish { task: usize },
    /// A user suspends a queue.
    Suspend { task: usize, level: Level },
    /// The user lets it go again, dropping what is pending if `drop`.
    Resume { task: usize, drop: bool },
    /// A device is lost.
    LoseDevice { device: usize },
    /// A user changes a priority.
    Prioritise { task: usize, priority: i16 },
    /// Faults stop; from here on everything must work again.
    Calm,
}

/// Everything that goes wrong in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    pub(crate) rates: FaultRates,
    /// Launch calls between the first two times take this many times as long.
    pub(crate) slow_launches: Option<(u64, u64, u64)>,
    /// With their times in nanoseconds.
    pub(crate) disturbances: Vec<(u64, Disturbance)>,
}

impl Faults {
    /// True if anything can go wrong at all.
    pub(crate) fn any(&self) -> bool {
        *self != Self::default()
    }

    pub(super) fn launch_slowdown(&self, now_ns: u64) -> u64 {
        match self.slow_launches {
            Some((from_ns, to_ns, factor)) if (from_ns..to_ns).contains(&now_ns) => factor.max(1),
            _ => 1,
        }
    }
}

impl Engine<'_> {
    pub(super) fn schedule_disturbances(&self) {
        let mut world = self.world.borrow_mut();
        for (index, (at_ns, _)) in self.setup.faults.disturbances.iter().enumerate() {
            world.clock.at(*at_ns, Event::Disturb { index: index as u32 });
        }
    }

    pub(super) fn on_disturb(&mut self, index: usize) {
        let now = self.now();
        self.injected += 1;
        match self.setup.faults.disturbances[index].1 {
            Disturbance::StallScheduler { ns } => self.stall(ns),
            Disturbance::Vanish { task } => self.vanish(task),
            Disturbance::Suspend { task, level } => {
                let q = &mut self.queues[task];
                q.suspended = !q.gone && !q.machine.is_lost();
                q.machine.suspend(level);
                self.todo.push_back(task as u32);
            }
            Disturbance::Resume { task, drop } => {
                let q = &mut self.queues[task];
                q.suspended = false;
                q.machine.resume(drop);
                if let Some(checks) = &mut self.checks {
                    checks.released(task);
                    if drop {
                        checks.dropped(task, q.machine.next_launch(), q.machine.submitted());
                    }
                }
                self.todo.push_back(task as u32);
            }
            Disturbance::LoseDevice { device } => self.lose_device(device),
            Disturbance::Prioritise { task, priority } => {
                let priority = Priority::new(i32::from(priority)).unwrap_or_default();
                let hints = Hints::with_priority(priority);
                // A queue that has gone cannot be given a priority; nothing is lost.
                let _ = self.scheduler.set_hints(now, self.queues[task].id, hints);
                self.scheduler_due = true;
            }
            Disturbance::Calm => self.calm(),
        }
    }

    fn stall(&mut self, ns: u64) {
        let now = self.now();
        // It was alive until now.
        self.lease.renew(now);
        self.stalled_until_ns = self.stalled_until_ns.max(now.as_ns() + ns);
        let mut world = self.world.borrow_mut();
        world.clock.after(LEASE.as_ns(), Event::Watchdog);
        world.clock.at(self.stalled_until_ns, Event::Scheduler);
        self.scheduler_due = true;
    }

    fn vanish(&mut self, task: usize) {
        let now = self.now();
        if std::mem::replace(&mut self.queues[task].gone, true) {
            return;
        }
        self.queues[task].suspended = false;
        // It is in the table: a queue goes only once.
        let _ = self.scheduler.detach(now, self.queues[task].id);
        self.scheduler_due = true;
        self.world.borrow_mut().abandon(self.queues[task].stream);
        if self.threads[task].phase != Phase::Gone {
            self.threads[task].phase = Phase::Gone;
            self.task_ended(task);
        }
        self.forget_lock(task);
    }

    fn lose_device(&mut self, device: usize) {
        let now = self.now();
        for task in 0..self.queues.len() {
            if self.threads[task].spec.device != device {
                continue;
            }
            self.world.borrow_mut().kill(self.queues[task].stream);
            self.world_notes();
            self.queues[task].suspended = false;
            self.queues[task].machine.handle_signal(now, Signal::Lost);
            if let Some(checks) = &mut self.checks {
                checks.lost(task);
            }
            self.todo.push_back(task as u32);
        }
    }

    fn calm(&mut self) {
        for q in &mut self.queues {
            let calm = FaultRates::default();
            q.submit.inner_mut().set_rates(calm);
            q.retire.inner_mut().set_rates(calm);
            q.steps.inner_mut().set_rates(calm);
        }
    }
}
