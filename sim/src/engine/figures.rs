//! Collecting figures and the timeline.

use xsched_core::hal::Contract;
use xsched_core::level::Level;

use super::Engine;
use super::threads::Sent;
use crate::device::Note;
use crate::outcome::{DeviceOutcome, Outcome, Span, SpanKind, TaskOutcome, Timeline};

/// Counts of the run.
#[derive(Debug)]
pub(super) struct Figures {
    tasks: Vec<TaskFigures>,
    devices: Vec<DeviceFigures>,
    timeline: Timeline,
    spans_max: usize,
}

#[derive(Debug, Default)]
struct TaskFigures {
    latencies_ns: Vec<u64>,
    early: u64,
    deadline_misses: u64,
    failed: u64,
    last_completion_ns: u64,
}

#[derive(Debug, Default)]
struct DeviceFigures {
    preemptions: u64,
    preempt_ns: Vec<u64>,
    quiet_ns: Vec<u64>,
    start_ns: Vec<u64>,
}

impl Figures {
    pub(super) fn new(tasks: usize, devices: usize, spans_max: usize) -> Self {
        Self {
            tasks: (0..tasks).map(|_| TaskFigures::default()).collect(),
            devices: (0..devices).map(|_| DeviceFigures::default()).collect(),
            timeline: Timeline::default(),
            spans_max,
        }
    }

    fn span(&mut self, task: u32, kind: SpanKind, start_ns: u64, end_ns: u64, number: u64) {
        if self.timeline.spans.len() < self.spans_max {
            self.timeline.spans.push(Span { task, kind, start_ns, end_ns, number });
        } else if self.spans_max > 0 {
            self.timeline.dropped += 1;
        }
    }
}

impl Engine<'_> {
    /// Looks at what the devices have noted, if anything.
    pub(super) fn world_notes(&mut self) {
        if !self.world.borrow().notes.is_empty() {
            self.take_notes();
        }
    }

    pub(super) fn take_notes(&mut self) {
        let mut notes = std::mem::take(&mut self.world.borrow_mut().notes);
        let now_ns = self.now_ns();
        for note in &notes {
            if let Some(checks) = &mut self.checks {
                checks.noted(note);
            }
            match *note {
                // Nothing of it ran if its restore was interrupted.
                Note::Stopped { since_ns, .. } if since_ns == now_ns => {}
                Note::Stopped { stream, cmd, since_ns, .. } => {
                    self.figures.span(stream, SpanKind::Command, since_ns, now_ns, cmd);
                }
                Note::Switched { stream, from_ns, to_ns, save } => {
                    let kind = if save { SpanKind::Save } else { SpanKind::Restore };
                    self.figures.span(stream, kind, from_ns, to_ns, 0);
                }
                Note::Quiet { stream, held_at_ns } => self.quiet(stream, now_ns - held_at_ns),
                Note::Begun { stream, held_at_ns } => {
                    let device = self.threads[stream as usize].spec.device;
                    self.figures.devices[device].start_ns.push(now_ns - held_at_ns);
                }
                Note::Started { .. } => {}
            }
        }
        // Keeps the allocation for the next time.
        notes.clear();
        self.world.borrow_mut().notes = notes;
    }

    /// A held stream runs nothing any more.
    fn quiet(&mut self, stream: u32, quiet_ns: u64) {
        let device = self.threads[stream as usize].spec.device;
        // An interrupt ends with its answer; a drained stream has to be seen to be drained.
        let interrupted = self.world.borrow().streams[stream as usize].interrupted;
        let detect_ns = if interrupted { 0 } else { self.scenario.devices[device].detect_ns };
        let figures = &mut self.figures.devices[device];
        figures.quiet_ns.push(quiet_ns);
        figures.preempt_ns.push(quiet_ns + detect_ns);
    }

    /// The scheduler has decided to hold a queue.
    pub(super) fn hold_ordered(&mut self, queue: usize, level: Level) {
        let stream = self.queues[queue].stream;
        let occupied = self.world.borrow_mut().hold_ordered(stream);
        let device = self.threads[queue].spec.device;
        self.figures.devices[device].preemptions += u64::from(occupied);
        let now_ns = self.now_ns();
        let (_, deepest) = self.queues[queue].held.get_or_insert((now_ns, level));
        *deepest = level.max(*deepest);
        self.world_notes();
    }

    pub(super) fn hold_ended(&mut self, queue: usize) {
        let now_ns = self.now_ns();
        let q = &mut self.queues[queue];
        self.world.borrow_mut().hold_ended(q.stream);
        if let Some((since_ns, level)) = q.held.take() {
            let level = u64::from(level.number());
            self.figures.span(queue as u32, SpanKind::Hold, since_ns, now_ns, level);
        }
    }

    /// A request has returned to its thread.
    pub(super) fn count_request(&mut self, task: usize, sent: &Sent, failed: bool) {
        let now_ns = self.now_ns();
        let spec = &self.threads[task].spec;
        let figures = &mut self.figures.tasks[task];
        figures.last_completion_ns = now_ns;
        if failed {
            figures.failed += 1;
        } else if sent.arrived_ns >= self.scenario.warmup_ns {
            let latency_ns = now_ns - sent.arrived_ns;
            let late = spec.deadline_ns.is_some_and(|deadline| latency_ns > deadline);
            figures.deadline_misses += u64::from(late);
            figures.latencies_ns.push(latency_ns);
        } else {
            figures.early += u64::from(now_ns > self.scenario.warmup_ns);
        }
        let number = self.threads[task].completed;
        self.figures.span(task as u32, SpanKind::Request, sent.arrived_ns, now_ns, number);
    }

    /// Ends the run and adds everything up.
    pub(super) fn finish(mut self) -> Outcome {
        let timed = self.scenario.duration_ns.is_some();
        let end_ns = if timed { self.now_ns() } else { self.last_ns };
        self.final_checks();
        for q in &mut self.queues {
            self.injected += q.submit.inner_mut().injected()
                + q.retire.inner_mut().injected()
                + q.steps.inner_mut().injected();
        }
        for queue in 0..self.queues.len() {
            self.hold_ended(queue);
        }
        for (task, thread) in (0..).zip(&self.threads) {
            for (number, arrived_ns) in (thread.completed..).zip(thread.unfinished()) {
                self.figures.span(task, SpanKind::Unfinished, arrived_ns, end_ns, number);
            }
        }
        let breaches = |contract: &Contract| contract.violations();
        let breaches = self.queues.iter().map(|q| breaches(q.contract)).sum();
        let checks = self.checks.take().map(|checks| checks.into_outcomes(breaches));
        let mut timeline = std::mem::take(&mut self.figures.timeline);
        timeline.spans.sort_by_key(|span| (span.start_ns, span.task));
        let record = self.end_record(end_ns);
        let world = self.world.borrow();
        Outcome {
            scenario: self.scenario.name.clone(),
            policy: self.name().to_owned(),
            level: self.setup.level,
            seed: self.setup.seed,
            duration_ns: end_ns,
            tasks: (0..self.threads.len()).map(|task| self.task_outcome(task, end_ns)).collect(),
            devices: (0..world.devices.len()).map(|d| self.device_outcome(d, end_ns)).collect(),
            checks: checks.unwrap_or_default(),
            commands: world.streams.iter().map(|s| s.completed).sum(),
            events: self.events,
            faults: self.injected,
            timeline: (self.figures.spans_max > 0).then_some(timeline),
            record,
        }
    }

    fn task_outcome(&self, task: usize, end_ns: u64) -> TaskOutcome {
        let thread = &self.threads[task];
        let figures = &self.figures.tasks[task];
        // A task that is through early is judged by the time it took.
        let through = thread.spec.requests.is_some_and(|n| thread.completed >= n);
        let until_ns = if through { figures.last_completion_ns } else { end_ns };
        let from_ns = self.scenario.warmup_ns.max(thread.spec.start_ns);
        TaskOutcome {
            name: thread.spec.name.clone(),
            priority: thread.spec.priority,
            deadline_ns: thread.spec.deadline_ns,
            latencies_ns: figures.latencies_ns.clone(),
            early: figures.early,
            unfinished: if thread.is_closed() { 0 } else { thread.unfinished().count() as u64 },
            deadline_misses: figures.deadline_misses,
            failed: figures.failed,
            measured_ns: until_ns.saturating_sub(from_ns),
            device_time_ns: self.world.borrow().streams[task].busy_total_ns,
        }
    }

    fn device_outcome(&self, device: usize, end_ns: u64) -> DeviceOutcome {
        let world = self.world.borrow();
        let model = &world.devices[device];
        let figures = &self.figures.devices[device];
        DeviceOutcome {
            name: model.spec.name.clone(),
            busy_ns: model.busy_until(end_ns),
            overhead_ns: model.overhead_ns + model.sharing.overhead_ns(),
            preemptions: figures.preemptions,
            preempt_latency_ns: figures.preempt_ns.clone(),
            quiet_latency_ns: figures.quiet_ns.clone(),
            start_latency_ns: figures.start_ns.clone(),
            switch_ns: model.switch_ns,
            switches: model.switches,
        }
    }
}
