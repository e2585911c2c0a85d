//! The engine: drives the core's machines with simulated threads, devices and messages.
//!
//! Each task is a thread with an XQueue of its own. The engine does what a runtime does (launch
//! inline or by a pump, poll completions, carry reports and orders), only in simulated time, and
//! with the same `Queue`, `Scheduler` and policy.

mod checks;
mod daemon;
mod disturb;
mod figures;
mod gating;
mod lock;
mod messages;
mod queues;
mod record;
mod setup;
mod threads;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use xsched_core::lease::Lease;
use xsched_core::message::{Order, Report};
use xsched_core::policy::Policy;
use xsched_core::record::Recorded;
use xsched_core::scheduler::Heap;
use xsched_core::time::Instant;

use crate::clock::Event;
use crate::device::{Sharing, World};
use crate::gate::LaunchGate;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use checks::Checks;
use daemon::Daemon;
pub(crate) use disturb::{Disturbance, Faults};
use figures::Figures;
use lock::Lock;
use queues::QueueSim;
use threads::Thread;

/// How a run is set up, apart from the scenario.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) level: u8,
    pub(crate) seed: u64,
    pub(crate) checks: bool,
    pub(crate) timeline_spans: usize,
    pub(crate) faults: Faults,
    /// The run stops when all tasks are through, and they must be by the end.
    pub(crate) must_finish: bool,
    /// True if to write a record.
    pub(crate) record: bool,
    /// Each hold has the level that its cost suggests, up to that of the task.
    pub(crate) by_cost: bool,
}

/// How the simulated machine differs from XSched's, under a system that it is compared with.
#[derive(Debug, Default)]
pub(crate) struct Variation {
    /// Name of the comparator, if one runs instead of the policy.
    pub(crate) name: Option<&'static str>,
    /// How processes share each device, if not as the scenario says.
    pub(crate) sharing: Vec<Option<Sharing>>,
    /// Gate that keeps tasks from launching.
    pub(crate) gate: Option<Box<dyn LaunchGate>>,
}

/// A running simulation.
pub(crate) struct Engine<'a> {
    scenario: &'a Scenario,
    setup: Setup,
    /// True if anything can go wrong.
    faulty: bool,
    world: Rc<RefCell<World>>,
    /// Time of the world's clock.
    now_ns: u64,
    scheduler: Recorded<Box<dyn Policy + 'a>, Heap, Vec<u8>>,
    queues: Vec<QueueSim<'a>>,
    threads: Vec<Thread>,
    locks: Vec<Lock>,
    /// Gate of a comparator.
    gate: Option<Box<dyn LaunchGate>>,
    /// Name of the comparator, if one runs instead of the policy.
    system: Option<&'static str>,
    /// True if the policy may hold a queue, as it says before there are any.
    holds: bool,
    /// Per process, its tasks that wait until the device has drained.
    waits_for_device: Vec<Vec<u32>>,

    /// Queues whose machine may have something to do.
    todo: VecDeque<u32>,
    /// Reports on their way to the scheduler, and orders on their way to queues.
    inbox: VecDeque<(u64, u32, Report)>,
    outbox: VecDeque<(u64, u32, Order)>,
    scheduler_due: bool,
    policy_timer: Option<Instant>,
    stalled_until_ns: u64,
    lease: Lease,
    /// Schedules processes; the scheduler then holds nothing.
    daemon: Option<Box<Daemon<'a>>>,

    checks: Option<Box<Checks>>,
    figures: Figures,
    /// Tasks with a number of requests that are not through with them.
    unfinished: usize,
    events: u64,
    /// When anything happened last, other than the checkers looking.
    last_ns: u64,
    /// Disturbances that happened; the halves count their own faults.
    injected: u64,
}

impl Engine<'_> {
    const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Name of the comparator or the policy.
    fn name(&self) -> &'static str {
        self.system.unwrap_or_else(|| self.policy().name())
    }

    /// The policy: the daemon's, if there is one.
    fn policy(&self) -> &dyn Policy {
        match &self.daemon {
            Some(daemon) => daemon.policy(),
            None => self.scheduler.policy(),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_ns(self.now_ns())
    }

    /// Runs to the end, and gives the share of the work done (0 to 1) to `progress` now and then.
    pub(crate) fn run(mut self, progress: &mut dyn FnMut(f64)) -> Outcome {
        let end_ns = self.scenario.duration_ns.unwrap_or(u64::MAX);
        self.settle();
        while let Some(event) = self.next_event(end_ns) {
            self.events += 1;
            if let Some(event) = event {
                self.dispatch(event);
                self.settle();
            }
            if self.events.is_multiple_of(1 << 16) {
                progress(self.share_done(end_ns));
            }
            let timed = self.scenario.duration_ns.is_some() && !self.setup.must_finish;
            if self.unfinished == 0 && !timed {
                break;
            }
        }
        if let Some(duration_ns) = self.scenario.duration_ns.filter(|_| !self.setup.must_finish) {
            self.world.borrow_mut().clock.advance_to(duration_ns);
            self.now_ns = duration_ns.max(self.now_ns);
        }
        progress(1.0);
        self.finish()
    }

    /// The next event, `Some(None)` if the device took care of it.
    fn next_event(&mut self, end_ns: u64) -> Option<Option<Event>> {
        let mut world = self.world.borrow_mut();
        let event = world.clock.advance(end_ns)?;
        self.now_ns = world.clock.now_ns();
        if event != Event::Inspect {
            self.last_ns = self.now_ns;
        }
        let handled = world.handle(event);
        let notes = !world.notes.is_empty();
        drop(world);
        if notes {
            self.take_notes();
        }
        Some((!handled).then_some(event))
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Detect { stream } => self.on_detect(stream as usize),
            Event::Thread { task } => self.on_thread(task as usize),
            Event::Pump { queue } => {
                self.queues[queue as usize].pump_scheduled = false;
                self.todo.push_back(queue);
            }
            Event::Arrival { task } => self.on_arrival(task as usize),
            Event::Begin => self.on_begin(),
            Event::Return { task } => self.on_return(task as usize),
            Event::Stepped { stream } => self.on_stepped(stream as usize),
            Event::QueueTimer { queue } => self.on_queue_timer(queue as usize),
            // What these bring is picked up when the engine settles.
            Event::Scheduler | Event::Orders => {}
            Event::PolicyTimer => self.on_policy_timer(),
            Event::Daemon => self.on_daemon(),
            Event::Gates { unit } => self.on_gates(unit as usize),
            Event::Watchdog => self.on_watchdog(),
            Event::Disturb { index } => self.on_disturb(index as usize),
            Event::Inspect => self.on_inspect(),
            // The device's own.
            Event::Arrive { .. } | Event::Finish { .. } | Event::Kick { .. } => {}
            Event::Operate { .. } | Event::Saved { .. } | Event::Operated { .. } => {}
        }
    }

    /// Lets everything that can happen at this time happen.
    fn settle(&mut self) {
        loop {
            if let Some(queue) = self.todo.pop_front() {
                self.drive(queue as usize);
            } else if !self.deliver_messages() {
                return;
            }
        }
    }

    fn share_done(&self, end_ns: u64) -> f64 {
        if self.scenario.duration_ns.is_some() {
            return self.now_ns() as f64 / end_ns.max(1) as f64;
        }
        let wanted = |thread: &Thread| thread.spec.requests.unwrap_or(0);
        let all: u64 = self.threads.iter().map(wanted).sum();
        let done: u64 = self.threads.iter().map(|t| t.completed.min(wanted(t))).sum();
        done as f64 / all.max(1) as f64
    }
}
