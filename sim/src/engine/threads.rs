//! Simulated host threads: requests arrive, are submitted command by command, and are waited for.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::RngExt;
use xsched_core::fault::Fault;
use xsched_core::id::{CmdId, EventRef};
use xsched_core::queue::{Status, SubmitError};
use xsched_core::record::Body;

use super::Engine;
use crate::clock::Event;
use crate::sample::{self, Rng, Sampler};
use crate::scenario::{Arrival, Dist, SyncScope, TaskSpec, recorded_request};

/// Phase of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing; it takes the next request that arrives.
    Idle,
    /// Submitting a request, or waiting for the lock to do so.
    Submitting,
    /// Blocked by a full queue.
    Full,
    /// The thread is dead.
    Gone,
}

/// A request that is being submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    arrived_ns: u64,
    left: u32,
    /// Length of every command, or 0 to draw each.
    command_ns: u64,
    /// The next command, where they come from a record.
    recorded: usize,
    /// The request first waits for another task.
    wait_first: bool,
    /// First command is not dispatched yet.
    to_dispatch: bool,
}

/// A request that is submitted and has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) arrived_ns: u64,
    pub(super) last: CmdId,
    /// How its last command ended, once the thread is on its way back.
    ended: Option<Status>,
}

/// Generators that a thread draws from. When its requests come and how long its commands are have
/// one each, so that the n-th request has the same gap and the same lengths under every policy,
/// whatever order the draws come in. The time to wake up has a third.
#[derive(Debug)]
pub(super) struct Generators {
    pub(super) arrivals: Rng,
    pub(super) lengths: Rng,
    pub(super) wakes: Rng,
}

/// Host time besides the calls of a thread.
#[derive(Debug)]
pub(super) struct Host {
    /// From seeing a completion to the thread going on.
    pub(super) sync_ns: u64,
    /// For the first command of a request, one of these, each as likely.
    pub(super) wake_ns: Arc<[u64]>,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) spec: TaskSpec,
    rngs: Generators,
    pub(super) phase: Phase,
    pub(super) lock: Option<usize>,
    pub(super) lock_on_return: bool,
    /// For what part of its host time it needs the lock.
    pub(super) lock_percent: u8,
    pub(super) has_lock: bool,
    pub(super) just_granted: bool,
    /// For how long it goes on without the lock after what it does now.
    unlocked_ns: u64,
    lengths: Sampler,
    gaps: Sampler,
    /// Requests that have arrived and were not begun: time and trace row.
    arrived: VecDeque<(u64, usize)>,
    arrivals: u64,
    begun: usize,
    current: Option<Request>,
    pub(super) sent: VecDeque<Sent>,
    /// Requests that are over and that the thread cannot return from before it has the lock.
    returns: u32,
    host: Host,
    pub(super) completed: u64,
    /// Nominal time of the next periodic arrival, from the start.
    next_period_ns: u64,
}

impl Thread {
    pub(super) fn new(
        spec: TaskSpec,
        rngs: Generators,
        host: Host,
        lock: Option<usize>,
        lock_on_return: bool,
    ) -> Self {
        let gaps = match &spec.arrival {
            Arrival::Closed { think, .. } => Sampler::new(think),
            Arrival::Renewal { gap } => Sampler::new(gap),
            Arrival::Periodic { period_ns, .. } => Sampler::new(&Dist::Constant(*period_ns)),
            Arrival::Trace { .. } | Arrival::Recorded { .. } => Sampler::new(&Dist::Constant(0)),
        };
        Self {
            lengths: Sampler::new(&spec.command),
            gaps,
            rngs,
            phase: Phase::Idle,
            lock,
            lock_on_return,
            lock_percent: 100,
            has_lock: false,
            just_granted: false,
            unlocked_ns: 0,
            arrived: VecDeque::new(),
            arrivals: 0,
            begun: 0,
            current: None,
            sent: VecDeque::new(),
            returns: 0,
            host,
            completed: 0,
            next_period_ns: 0,
            spec,
        }
    }

    /// Mean device time of a command, in nanoseconds.
    pub(super) fn mean_command_ns(&self) -> f64 {
        self.lengths.mean_ns()
    }

    /// When the first request arrives. That of a closed loop comes without a pause before it, but
    /// with the same jitter as the others, so that threads do not start in lockstep.
    pub(super) fn first_arrival(&mut self) -> Option<u64> {
        let start_ns = self.spec.start_ns;
        let at_ns = self.next_arrival(start_ns)?;
        match self.spec.arrival {
            Arrival::Closed { jitter_ns, .. } => {
                let centre_ns = start_ns.saturating_add(jitter_ns);
                Some(sample::jitter(centre_ns, jitter_ns, &mut self.rngs.arrivals))
            }
            _ => Some(at_ns),
        }
    }

    /// When the next request arrives, if the task has any left. Closed loops ask after each
    /// completion, open ones after each arrival.
    pub(super) fn next_arrival(&mut self, now_ns: u64) -> Option<u64> {
        if self.spec.requests.is_some_and(|n| self.arrivals >= n) {
            return None;
        }
        let rng = &mut self.rngs.arrivals;
        let at_ns = match &self.spec.arrival {
            Arrival::Closed { jitter_ns, .. } => {
                now_ns.saturating_add(sample::jitter(self.gaps.draw(rng), *jitter_ns, rng))
            }
            Arrival::Periodic { period_ns, jitter_ns } => {
                let since_start_ns = sample::jitter(self.next_period_ns, *jitter_ns, rng);
                self.next_period_ns = self.next_period_ns.saturating_add(*period_ns);
                self.spec.start_ns.saturating_add(since_start_ns)
            }
            Arrival::Renewal { .. } => now_ns.saturating_add(self.gaps.draw(rng)),
            Arrival::Trace { rows } => {
                let row = rows.get(usize::try_from(self.arrivals).ok()?)?;
                self.spec.start_ns.saturating_add(row.at_ns)
            }
            Arrival::Recorded { requests, repeat_from, .. } => {
                let before = usize::try_from(self.arrivals).ok()?;
                let request = recorded_request(requests, *repeat_from, before)?;
                now_ns.saturating_add(request.think_ns)
            }
        };
        self.arrivals += 1;
        Some(at_ns)
    }

    /// Time of this wake-up.
    fn wake_ns(&mut self) -> u64 {
        let times = &self.host.wake_ns;
        if times.is_empty() {
            return 0;
        }
        times[self.rngs.wakes.random_range(0..times.len())]
    }

    /// When each request arrived that is not complete.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = u64> {
        let sent = self.sent.iter().map(|sent| sent.arrived_ns);
        let current = self.current.iter().map(|request| request.arrived_ns);
        sent.chain(current).chain(self.arrived.iter().map(|(arrived_ns, _)| *arrived_ns))
    }

    /// Commands of the present request that are not submitted.
    pub(super) fn to_submit(&self) -> u64 {
        self.current.map_or(0, |request| u64::from(request.left))
    }

    pub(super) const fn is_closed(&self) -> bool {
        matches!(self.spec.arrival, Arrival::Closed { .. } | Arrival::Recorded { .. })
    }

    fn begin(&mut self, arrived_ns: u64, row: usize) {
        let (mut left, mut command_ns) = (self.spec.commands, 0);
        if let Arrival::Trace { rows } = &self.spec.arrival
            && let Some(row) = rows.get(row)
        {
            left = if row.commands == 0 { left } else { row.commands };
            command_ns = row.command_ns;
        }
        let mut recorded = 0;
        if let Arrival::Recorded { requests, repeat_from, .. } = &self.spec.arrival
            && let Some(request) = recorded_request(requests, *repeat_from, self.begun)
        {
            (left, recorded) = (request.commands, request.first);
        }
        self.begun += 1;
        let wait_first = self.spec.after.is_some();
        self.lengths.restart();
        let to_dispatch = true;
        self.current =
            Some(Request { arrived_ns, left, command_ns, recorded, wait_first, to_dispatch });
    }
}

impl Engine<'_> {
    pub(super) fn on_arrival(&mut self, task: usize) {
        let now_ns = self.now_ns();
        let thread = &mut self.threads[task];
        if thread.phase == Phase::Gone {
            return;
        }
        let row = thread.arrivals.saturating_sub(1) as usize;
        thread.arrived.push_back((now_ns, row));
        if !thread.is_closed() {
            self.schedule_arrival(task);
        }
        self.take_next(task);
    }

    pub(super) fn schedule_arrival(&mut self, task: usize) {
        let now_ns = self.now_ns();
        if let Some(at_ns) = self.threads[task].next_arrival(now_ns) {
            self.world.borrow_mut().clock.at(at_ns, Event::Arrival { task: task as u32 });
        }
    }

    /// An idle thread begins the next request, if it may have another one outstanding.
    pub(super) fn take_next(&mut self, task: usize) {
        let thread = &mut self.threads[task];
        let room = thread.sent.len() < thread.spec.outstanding as usize;
        if thread.phase != Phase::Idle || thread.returns > 0 || !room {
            return;
        }
        let Some(&(arrived_ns, _)) = thread.arrived.front() else { return };
        if !self.admits_request(task, arrived_ns) {
            return;
        }
        let thread = &mut self.threads[task];
        if let Some((arrived_ns, row)) = thread.arrived.pop_front() {
            thread.begin(arrived_ns, row);
            thread.phase = Phase::Submitting;
            if self.lock(task) {
                self.dispatch_first(task);
            }
        }
    }

    /// A launch call has returned, or the lock was handed over.
    pub(super) fn on_thread(&mut self, task: usize) {
        let thread = &mut self.threads[task];
        let unlocked_ns = std::mem::take(&mut thread.unlocked_ns);
        if unlocked_ns > 0 {
            self.unlock(task);
            let event = Event::Thread { task: task as u32 };
            self.world.borrow_mut().clock.after(unlocked_ns, event);
        } else if thread.phase == Phase::Idle && thread.has_lock {
            self.return_all(task);
        } else if thread.phase == Phase::Submitting && self.keep_lock(task) {
            self.dispatch_first(task);
        }
    }

    /// Before its first command, the thread has to wake up, and needs its dispatch time; before the
    /// others that is counted with the command before.
    fn dispatch_first(&mut self, task: usize) {
        let thread = &mut self.threads[task];
        let first = thread.current.as_mut().is_some_and(|r| std::mem::take(&mut r.to_dispatch));
        let busy_ns = if first { thread.spec.dispatch_ns + thread.wake_ns() } else { 0 };
        if busy_ns > 0 {
            self.keep_busy(task, busy_ns);
        } else {
            self.submit_request(task);
        }
    }

    /// The thread does something for this time, and needs the lock for a part of it.
    fn keep_busy(&mut self, task: usize, busy_ns: u64) {
        let thread = &mut self.threads[task];
        let percent = if thread.has_lock { thread.lock_percent } else { 100 };
        let locked_ns = busy_ns * u64::from(percent) / 100;
        thread.unlocked_ns = busy_ns - locked_ns;
        self.world.borrow_mut().clock.after(locked_ns, Event::Thread { task: task as u32 });
    }

    /// Submits commands until a call takes time, the queue is full or the request is through.
    fn submit_request(&mut self, task: usize) {
        let now = self.now();
        loop {
            let thread = &mut self.threads[task];
            let Some(request) = &mut thread.current else {
                thread.phase = Phase::Idle;
                return;
            };
            if request.left == 0 {
                self.request_sent(task);
                return;
            }
            if request.wait_first && !self.queues[task].machine.is_full() {
                request.wait_first = false;
                self.enqueue_wait(task);
                continue;
            }
            match self.queues[task].machine.submit(now) {
                Ok(cmd) => {
                    let busy_ns = self.submitted(task, cmd);
                    if busy_ns > 0 {
                        self.keep_busy(task, busy_ns);
                        return;
                    }
                }
                Err(SubmitError::Full) => {
                    let oldest = CmdId(self.queues[task].machine.retired());
                    self.record(task, Body::Wait { cmd: oldest, room: true });
                    self.threads[task].phase = Phase::Full;
                    self.unlock(task);
                    return;
                }
                Err(SubmitError::Lost) => {
                    self.threads[task].phase = Phase::Gone;
                    self.unlock(task);
                    self.task_ended(task);
                    return;
                }
            }
        }
    }

    /// A command was taken: gives it a length and launches it if possible. Returns how long that
    /// keeps the thread busy.
    fn submitted(&mut self, task: usize, cmd: CmdId) -> u64 {
        let now = self.now();
        let thread = &mut self.threads[task];
        let (mut work_ns, mut dispatch_ns) = (0, 0);
        if let Some(request) = &mut thread.current {
            request.left -= 1;
            work_ns = request.command_ns;
            if request.left > 0 {
                dispatch_ns = thread.spec.dispatch_ns;
            }
            if let Arrival::Recorded { commands, .. } = &thread.spec.arrival
                && let Some(command) = commands.get(request.recorded)
            {
                request.recorded += 1;
                (work_ns, dispatch_ns) = (command.work_ns.max(1), command.gap_ns);
            }
        }
        if work_ns == 0 {
            work_ns = thread.lengths.draw(&mut thread.rngs.lengths).max(1);
        }
        let q = &mut self.queues[task];
        let slot = (cmd.0 % q.work_ns.len() as u64) as usize;
        q.work_ns[slot] = work_ns;
        if let Some(checks) = &mut self.checks {
            checks.submitted(task, work_ns, q.machine.submitted() - q.machine.retired());
        }
        self.record(task, Body::Submit { cmd, wait: None });
        let busy_ns = self.launch_inline(task, now, cmd);
        self.report(task);
        busy_ns + dispatch_ns
    }

    /// The request first waits for the latest command of another task, if there is one and waiting
    /// for it cannot deadlock.
    fn enqueue_wait(&mut self, task: usize) {
        let now = self.now();
        let Some(other) = self.threads[task].spec.after else { return };
        let latest = self.queues[other].machine.submitted();
        if latest == 0 || self.queues[other].gone {
            return;
        }
        let event = EventRef { queue: self.queues[other].id, cmd: CmdId(latest - 1) };
        let q = &mut self.queues[task];
        let cmd = CmdId(q.machine.submitted());
        if self.scheduler.admit_wait(now, q.id, cmd, event) == Ok(true)
            && let Ok(cmd) = q.machine.enqueue_wait(now, event)
        {
            let slot = (cmd.0 % q.work_ns.len() as u64) as usize;
            q.work_ns[slot] = 0;
            self.record(task, Body::Submit { cmd, wait: Some(event) });
            self.todo.push_back(task as u32);
        }
    }

    /// All commands of the request are submitted.
    fn request_sent(&mut self, task: usize) {
        let thread = &mut self.threads[task];
        thread.phase = Phase::Idle;
        if let Some(request) = thread.current.take() {
            let q = &mut self.queues[task].machine;
            let last = CmdId(q.submitted().saturating_sub(1));
            q.request_completion(last);
            self.record(task, Body::Wait { cmd: last, room: false });
            let thread = &mut self.threads[task];
            let sent = Sent { arrived_ns: request.arrived_ns, last, ended: None };
            thread.sent.push_back(sent);
        }
        // What was over meanwhile is noticed now.
        self.take_returns(task);
        self.unlock(task);
        self.todo.push_back(task as u32);
        self.complete_requests(task);
        self.take_next(task);
    }

    /// A full queue has room again.
    pub(super) fn unblock(&mut self, task: usize) {
        let thread = &mut self.threads[task];
        if thread.phase == Phase::Full && !self.queues[task].machine.is_full() {
            thread.phase = Phase::Submitting;
            self.world.borrow_mut().clock.after(0, Event::Thread { task: task as u32 });
        }
    }

    /// Wakes the threads whose requests are over: the task's own, and those that wait until the
    /// whole process has drained.
    pub(super) fn complete_requests(&mut self, task: usize) {
        self.complete_own(task);
        let Some(process) = self.threads[task].spec.process else { return };
        for at in 0..self.waits_for_device[process].len() {
            let other = self.waits_for_device[process][at] as usize;
            if other != task {
                self.complete_own(other);
            }
        }
    }

    fn complete_own(&mut self, task: usize) {
        let q = &self.queues[task].machine;
        let seen = q.retired();
        let drained = self.threads[task].spec.sync == SyncScope::Stream || self.is_drained(task);
        let thread = &mut self.threads[task];
        for sent in &mut thread.sent {
            if !drained || sent.last.0 >= seen {
                return;
            }
            // Asked now, because the queue forgets outcomes as new commands come.
            if sent.ended.is_none() {
                sent.ended = Some(q.status(sent.last));
                let event = Event::Return { task: task as u32 };
                self.world.borrow_mut().clock.after(thread.host.sync_ns, event);
            }
        }
    }

    /// True if the device has finished everything that the task's process has submitted to it.
    fn is_drained(&self, task: usize) -> bool {
        let spec = &self.threads[task].spec;
        let shares = |i: usize| {
            let other = &self.threads[i].spec;
            let process = other.process.is_some() && other.process == spec.process;
            i == task || (process && other.device == spec.device)
        };
        let idle = |i: usize| {
            let q = &self.queues[i].machine;
            q.submitted() == q.retired()
        };
        (0..self.threads.len()).all(|i| !shares(i) || idle(i))
    }

    /// A waiting thread returns, once it has the lock if it needs it.
    pub(super) fn on_return(&mut self, task: usize) {
        let thread = &mut self.threads[task];
        if thread.phase == Phase::Gone {
            return;
        }
        if !thread.lock_on_return {
            self.request_returned(task);
            self.take_next(task);
            return;
        }
        thread.returns += 1;
        // A thread that is submitting is not waiting, and one that already wants the lock to return
        // asks only once.
        if thread.phase == Phase::Idle && thread.returns == 1 && self.lock(task) {
            self.return_all(task);
        }
    }

    /// A thread that waited has the lock now.
    fn return_all(&mut self, task: usize) {
        self.take_returns(task);
        self.unlock(task);
        self.take_next(task);
    }

    fn take_returns(&mut self, task: usize) {
        while self.threads[task].returns > 0 {
            self.threads[task].returns -= 1;
            self.request_returned(task);
        }
    }

    fn request_returned(&mut self, task: usize) {
        let Some(sent) = self.threads[task].sent.pop_front() else { return };
        let q = &mut self.queues[task];
        let mut failed = false;
        while q.failed.front().is_some_and(|&cmd| cmd <= sent.last.0) {
            q.failed.pop_front();
            failed = true;
        }
        let outcome = match sent.ended {
            Some(Status::Failed(fault)) => Some(fault),
            _ => None,
        };
        failed |= outcome.is_some();
        if let Some(checks) = &mut self.checks {
            checks.returned(task, sent.last, outcome);
        }
        self.count_request(task, &sent, failed);
        self.request_over(task);
        let thread = &mut self.threads[task];
        thread.completed += 1;
        if thread.spec.requests == Some(thread.completed) {
            self.unfinished -= 1;
        }
        let lost = outcome == Some(Fault::DeviceLost);
        if self.threads[task].is_closed() && !lost {
            self.schedule_arrival(task);
        }
        if lost {
            self.threads[task].phase = Phase::Gone;
            self.task_ended(task);
        }
    }

    /// The task will complete nothing more.
    pub(super) fn task_ended(&mut self, task: usize) {
        let thread = &self.threads[task];
        if thread.spec.requests.is_some_and(|n| thread.completed < n) {
            self.unfinished -= 1;
        }
    }
}
