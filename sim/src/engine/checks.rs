//! The checkers of all invariants, fed with what happens.

use std::collections::BTreeMap;

use xsched_core::check::{
    BoundedCheck, FailOpenCheck, HoldCheck, Invariant, InversionCheck, OrderCheck, Verdict,
    Violation, WaitCheck, WakeupCheck, WindowCheck,
};
use xsched_core::fault::Fault;
use xsched_core::id::{CmdId, EventRef};
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::time::{Duration, Instant};

use super::Engine;
use crate::clock::Event;
use crate::device::Note;
use crate::outcome::CheckOutcome;

/// How often the checkers look at the state of everything.
pub(super) const INSPECT_NS: u64 = 2_000_000;
/// How many queues they look at then, at most. With more of them each has its turn, so that the
/// time that looking takes does not grow with the square of their number.
const LOOKED_AT: usize = 1_000;

/// The checkers of one queue.
#[derive(Debug)]
struct QueueChecks {
    order: OrderCheck,
    window: WindowCheck,
    hold: HoldCheck,
    /// The daemon's hold, behind which the queue launches on.
    gates: HoldCheck,
    wait: WaitCheck,
    ring: BoundedCheck,
    entries: BoundedCheck,
    wakeup: WakeupCheck,
    inversion: InversionCheck,
    awaited: Option<EventRef>,
    /// Longest command seen (at first the mean one), and how many of them a window holds.
    longest_ns: f64,
    threshold: f64,
}

/// All checkers, and what they found.
#[derive(Debug)]
pub(super) struct Checks {
    queues: Vec<QueueChecks>,
    fail_open: FailOpenCheck,
    found: BTreeMap<Invariant, CheckOutcome>,
    /// Observations, by invariant.
    observed: [u64; Invariant::ALL.len()],
    /// How long a runnable queue may go without progress.
    patience_ns: f64,
    /// How long messages may need to arrive.
    grace: Duration,
    /// The queue to look at first the next time.
    next: usize,
    /// Looks since which nothing can happen any more, although not everything is done.
    dry: u32,
}

/// After this many looks at a simulation in which nothing can happen any more, it is over: one, and
/// one that sees what is not allowed to last.
const DRY_LOOKS: u32 = 2;

impl Checks {
    pub(super) fn new(engine: &Engine<'_>) -> Self {
        let latency = Duration::from_ns(engine.scenario.scheduler_latency_ns);
        let grace = latency.times(4) + Duration::from_ns(1);
        let queue = |task: usize| {
            let spec = &engine.threads[task].spec;
            let depth = engine.scenario.devices[spec.device].launch_queue / 4;
            QueueChecks {
                order: OrderCheck::default(),
                window: WindowCheck::default(),
                hold: HoldCheck::default(),
                gates: HoldCheck::default(),
                wait: WaitCheck::default(),
                ring: BoundedCheck::new(u64::from(spec.capacity)),
                entries: BoundedCheck::new(u64::from(depth.max(4))),
                wakeup: WakeupCheck::new(Duration::ZERO),
                inversion: InversionCheck::new(grace),
                awaited: None,
                longest_ns: engine.threads[task].mean_command_ns(),
                threshold: f64::from(spec.threshold),
            }
        };
        Self {
            queues: (0..engine.threads.len()).map(queue).collect(),
            fail_open: FailOpenCheck::new(grace + engine.lease.length()),
            found: BTreeMap::new(),
            observed: [0; Invariant::ALL.len()],
            patience_ns: patience_ns(engine),
            grace,
            next: 0,
            dry: 0,
        }
    }

    #[inline]
    fn record(&mut self, queue: usize, invariant: Invariant, verdict: Verdict) {
        self.observed[invariant as usize] += 1;
        if let Err(violation) = verdict {
            self.violated(queue, invariant, violation);
        }
    }

    #[cold]
    fn violated(&mut self, queue: usize, invariant: Invariant, violation: Violation) {
        let found = self.found.entry(invariant).or_default();
        found.violations += 1;
        found.first.get_or_insert_with(|| format!("task {queue}: {violation}"));
    }

    pub(super) fn launched(&mut self, queue: usize, cmd: CmdId, limit: u64) {
        let q = &mut self.queues[queue];
        let order = q.order.launched(cmd);
        let window = q.window.launched(limit);
        let hold = q.hold.launched(cmd);
        self.record(queue, Invariant::Order, order);
        self.record(queue, Invariant::Window, window);
        self.record(queue, Invariant::Hold, hold);
    }

    pub(super) fn refused(&mut self, queue: usize, cmd: CmdId, fault: Fault) {
        let q = &mut self.queues[queue];
        q.order.refused();
        q.window.retired(1);
        q.wait.failed(cmd, CmdId(cmd.count()), fault);
    }

    pub(super) fn retired(&mut self, queue: usize, commands: u64) {
        self.queues[queue].window.retired(commands);
    }

    pub(super) fn failed(&mut self, queue: usize, cmd: CmdId, fault: Fault) {
        self.queues[queue].wait.failed(cmd, CmdId(cmd.count()), fault);
    }

    /// A command that takes this long was submitted, and the queue now holds this many.
    pub(super) fn submitted(&mut self, queue: usize, work_ns: u64, commands: u64) {
        let q = &mut self.queues[queue];
        let longer_ns = (work_ns as f64 - q.longest_ns).max(0.0);
        q.longest_ns += longer_ns;
        self.patience_ns += ROUNDS * q.threshold * longer_ns;
        let ring = q.ring.look(commands);
        self.record(queue, Invariant::Bounded, ring);
    }

    pub(super) fn held(&mut self, queue: usize, level: Level) {
        let hold = self.queues[queue].hold.acknowledged(level);
        self.record(queue, Invariant::Hold, hold);
    }

    pub(super) fn released(&mut self, queue: usize) {
        self.queues[queue].hold.released();
    }

    /// The gates of a queue have closed for the daemon, or have opened.
    pub(super) fn gates(&mut self, queue: usize, closed: bool) {
        let gates = &mut self.queues[queue].gates;
        if closed {
            let verdict = gates.acknowledged(Level::Deactivate);
            self.record(queue, Invariant::Hold, verdict);
        } else {
            gates.released();
        }
    }

    /// A user has dropped what is not launched.
    pub(super) fn dropped(&mut self, queue: usize, from: CmdId, to: u64) {
        self.queues[queue].wait.failed(from, CmdId(to), Fault::Cancelled);
    }

    pub(super) fn lost(&mut self, queue: usize) {
        self.queues[queue].wait.lost();
        self.queues[queue].hold.released();
    }

    pub(super) fn returned(&mut self, queue: usize, last: CmdId, outcome: Option<Fault>) {
        let wait = self.queues[queue].wait.returned(last, outcome);
        self.record(queue, Invariant::Wait, wait);
    }

    pub(super) fn noted(&mut self, note: &Note) {
        match *note {
            Note::Started { stream, cmd, gated, fresh } => {
                let (queue, cmd) = (stream as usize, CmdId(cmd));
                let q = &mut self.queues[queue];
                let gates = q.gates.started(cmd, gated && fresh);
                let hold = q.hold.started(cmd, gated && fresh).and(gates);
                let order = if fresh { q.order.started(cmd) } else { Ok(()) };
                self.record(queue, Invariant::Hold, hold);
                self.record(queue, Invariant::Order, order);
            }
            Note::Stopped { stream, cmd, finished, .. } => {
                let q = &mut self.queues[stream as usize];
                q.hold.stopped();
                q.gates.stopped();
                if finished {
                    q.wait.finished(CmdId(cmd));
                }
            }
            Note::Quiet { .. } | Note::Begun { .. } | Note::Switched { .. } => {}
        }
    }

    /// The result, with the breaches of the device contracts counted under order.
    pub(super) fn into_outcomes(mut self, breaches: u64) -> BTreeMap<&'static str, CheckOutcome> {
        let outcome = |invariant: Invariant| {
            let mut outcome = self.found.remove(&invariant).unwrap_or_default();
            outcome.observed = self.observed[invariant as usize];
            if invariant == Invariant::Order && breaches > 0 {
                outcome.violations += breaches;
                let what = || format!("{breaches} breaches of the device contract");
                outcome.first.get_or_insert_with(what);
            }
            (invariant.name(), outcome)
        };
        Invariant::ALL.into_iter().map(outcome).collect()
    }
}

/// How long a runnable queue may go without progress: this many rounds in which every task of the
/// scenario has a whole window of its longest commands served first, and a second.
const ROUNDS: f64 = 100.0;

/// Patience before any command was seen, with mean commands.
fn patience_ns(engine: &Engine<'_>) -> f64 {
    let window = |task: usize| {
        let thread = &engine.threads[task];
        let host_ns = engine.queues[task].host_launch_ns as f64;
        f64::from(thread.spec.threshold) * (thread.mean_command_ns() + host_ns)
    };
    let round_ns: f64 = (0..engine.threads.len()).map(window).sum();
    round_ns * ROUNDS + 1e9
}

const fn is_held(hold: HoldState) -> bool {
    !matches!(hold, HoldState::Running | HoldState::Resuming)
}

impl Engine<'_> {
    /// Looks at the state of everything, or of a part of the queues if there are many.
    pub(super) fn on_inspect(&mut self) {
        let now = self.now();
        let Some(mut checks) = self.checks.take() else { return };
        let all = self.queues.len();
        for _ in 0..all.min(LOOKED_AT) {
            let queue = checks.next;
            checks.next = (queue + 1) % all;
            if !self.queues[queue].gone {
                self.inspect_queue(&mut checks, now, queue);
            }
        }
        let stalled = now.as_ns() < self.stalled_until_ns && self.lease.expired(now);
        let expired = stalled.then(|| self.lease.expires());
        let held = if stalled { self.held_by_scheduler() } else { 0 };
        let verdict = checks.fail_open.look(now, expired, held);
        checks.record(0, Invariant::FailOpen, verdict);
        let mut world = self.world.borrow_mut();
        // Without an end, looking on would go on for ever once nothing else can happen.
        let dry = self.scenario.duration_ns.is_none() && world.clock.peek_ns().is_none();
        checks.dry = if dry { checks.dry + 1 } else { 0 };
        if checks.dry < DRY_LOOKS {
            let grace_ns = if dry { checks.grace.as_ns() } else { 0 };
            world.clock.after(grace_ns.saturating_add(INSPECT_NS), Event::Inspect);
        }
        self.checks = Some(checks);
    }

    fn inspect_queue(&self, checks: &mut Checks, now: Instant, queue: usize) {
        let q = &self.queues[queue];
        let report = q.machine.report();
        let held = is_held(report.hold) || report.lost;
        let suspended = FailOpenCheck::suspended(q.suspended, held);
        checks.record(queue, Invariant::FailOpen, suspended);
        self.inspect_progress(checks, now, queue);
        self.inspect_waiting(checks, now, queue, report.waiting);
        let most = self.world.borrow().streams[queue].entries_most;
        let entries = checks.queues[queue].entries.look(u64::from(most));
        checks.record(queue, Invariant::Bounded, entries);
    }

    /// Queues that have work and that the scheduler holds.
    fn held_by_scheduler(&self) -> u64 {
        let reports = self.queues.iter().filter(|q| !q.gone).map(|q| q.machine.report());
        reports.filter(|r| is_held(r.hold) && !r.suspended && r.pending()).count() as u64
    }

    fn may_run(&self, queue: usize) -> bool {
        let q = &self.queues[queue];
        let table = self.scheduler.table();
        let allowed = table.get(q.id).is_some_and(|info| info.running);
        allowed && !q.suspended && !q.gone && !self.daemon_holds(queue)
    }

    fn inspect_progress(&self, checks: &mut Checks, now: Instant, queue: usize) {
        let machine = &self.queues[queue].machine;
        // While the scheduler is silent nothing is promised but failing open.
        let promised = now.as_ns() >= self.stalled_until_ns && machine.waiting().is_none();
        // What a comparator or the device itself keeps back is not promised to go on.
        let kept_out = self.queues[queue].gated || self.world.borrow().is_kept_out(queue as u32);
        let may_run = promised && !kept_out && self.may_run(queue);
        let (submitted, retired) = (machine.submitted(), machine.retired());
        let patience = Duration::from_ns(checks.patience_ns as u64);
        checks.queues[queue].wakeup.set_patience(patience);
        let verdict = checks.queues[queue].wakeup.look(now, may_run, submitted, retired);
        checks.record(queue, Invariant::Wakeup, verdict);
    }

    fn inspect_waiting(
        &self,
        checks: &mut Checks,
        now: Instant,
        queue: usize,
        awaited: Option<EventRef>,
    ) {
        let q = &mut checks.queues[queue];
        if q.awaited != awaited || now.as_ns() < self.stalled_until_ns {
            q.awaited = awaited;
            let _ = q.inversion.look(now, false, false);
        }
        let Some(event) = awaited else { return };
        let target = &self.queues[event.queue.index()];
        let report = target.machine.report();
        let held = is_held(report.hold);
        let open = report.retired <= event.cmd.0 && !target.gone;
        let held = held && open && !report.suspended;
        let mine = self.queues[queue].machine.report();
        let running = matches!(mine.hold, HoldState::Running);
        let verdict = q.inversion.look(now, running, held);
        checks.record(queue, Invariant::Inversion, verdict);
    }

    /// Checks at the end of a run.
    pub(super) fn final_checks(&mut self) {
        self.on_inspect();
        let Some(mut checks) = self.checks.take() else { return };
        for queue in 0..self.queues.len() {
            let thread = &self.threads[queue];
            let machine = &self.queues[queue].machine;
            let drained = machine.submitted() == machine.retired();
            let lossless = !self.faulty && !self.queues[queue].gone;
            if drained && lossless && self.world.borrow().streams[queue].fifo.is_empty() {
                checks.record(queue, Invariant::Order, checks.queues[queue].order.drained());
            }
            let gone = thread.phase == super::threads::Phase::Gone || self.queues[queue].gone;
            if self.setup.must_finish && !gone {
                let wanted = thread.spec.requests.unwrap_or(thread.completed);
                let verdict = WakeupCheck::ended(true, wanted, thread.completed);
                checks.record(queue, Invariant::Wakeup, verdict);
            }
            let dry = checks.dry >= DRY_LOOKS;
            if dry {
                let may_run = machine.waiting().is_none() && self.may_run(queue);
                let (submitted, retired) = (machine.submitted(), machine.retired());
                let verdict = WakeupCheck::ended(may_run, submitted, retired);
                checks.record(queue, Invariant::Wakeup, verdict);
            }
            let over = drained && !gone && (self.setup.must_finish || dry);
            for sent in thread.sent.iter().filter(|_| over) {
                let verdict = checks.queues[queue].wait.still_waiting(sent.last);
                checks.record(queue, Invariant::Wait, verdict);
            }
        }
        self.checks = Some(checks);
    }
}
