//! A process: threads with queues, the GPU's side of these, and the watch of its gates.

use xsched_core::check::OrderCheck;
use xsched_core::hint::{Hints, Priority};
use xsched_core::id::CmdId;

use super::link::{Link, Who};
use super::machine::LEASE;
use super::page::{Page, Watch};
use super::plan::{DEVICES, ProcessPlan, QueuePlan};
use super::{Event, MS, World};

/// How often the watch looks while no gate is closed, and while one is.
pub(super) const WATCH_NS: u64 = 20 * MS;
pub(super) const WATCH_CLOSED_NS: u64 = 5 * MS;

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) hints: Hints,
    pub(super) is_alive: bool,
    /// Set once the process was killed on purpose.
    pub(super) was_killed: bool,
    pub(super) stopped_until_ns: u64,
    /// Since when it runs without having been stopped.
    pub(super) runs_since_ns: u64,
    pub(super) link: Link,
    /// All pages, as they are handed over.
    pub(super) pages: Vec<usize>,
    /// By GPU.
    pub(super) units: Vec<ClientUnit>,
    pub(super) queues: Vec<Queue>,
    watch: Watch,
}

/// A process on a GPU, as it knows itself. The first page has the count.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientUnit {
    pub(super) pages: Vec<usize>,
    /// The connection whose eventfd is written to.
    pub(super) doorbell: Option<usize>,
}

/// A question to the daemon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) connection: usize,
    pub(super) page: usize,
}

/// A queue, the thread that uses it, and its stream.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    plan: QueuePlan,
    token: u32,
    /// Since when its thread wants to open it.
    pub(super) opens_since_ns: Option<u64>,
    /// Thread waits for the daemon.
    pub(super) ask: Option<Ask>,
    /// Where its gate is, once it is open.
    pub(super) page: Option<usize>,
    /// Requests that are not over, with the one that runs.
    pub(super) left: u32,
    submitted: u64,
    started: u64,
    finished: u64,
    runs: bool,
    /// Set while the queue counts among those with work.
    is_loaded: bool,
    order: OrderCheck,
}

impl Queue {
    pub(super) fn asks_on(&self, connection: usize) -> bool {
        self.ask.is_some_and(|ask| ask.connection == connection)
    }

    /// Returns what of its work was lost, if it is through.
    pub(super) fn lost(&self) -> Option<String> {
        self.order.drained().err().map(|violation| violation.to_string())
    }
}

impl Process {
    pub(super) fn new(plan: &ProcessPlan) -> Self {
        let mut hints = Hints::with_priority(Priority::new(plan.priority).unwrap_or_default());
        hints.utilization = plan.share;
        let queue = |plan: &QueuePlan| Queue {
            plan: plan.clone(),
            token: 0,
            opens_since_ns: None,
            ask: None,
            page: None,
            left: plan.requests,
            submitted: 0,
            started: 0,
            finished: 0,
            runs: false,
            is_loaded: false,
            order: OrderCheck::default(),
        };
        Self {
            hints,
            is_alive: true,
            was_killed: false,
            stopped_until_ns: 0,
            runs_since_ns: plan.start_ns,
            link: Link::new(plan.start_ns),
            pages: Vec::new(),
            units: vec![ClientUnit::default(); DEVICES],
            queues: plan.queues.iter().map(queue).collect(),
            watch: Watch::default(),
        }
    }
}

impl World {
    pub(super) fn kill_process(&mut self, at: usize) {
        let process = &mut self.processes[at];
        (process.is_alive, process.was_killed) = (false, true);
        let connections = self.connections.iter().enumerate();
        let own = connections.filter(|(_, connection)| connection.process == at);
        let own: Vec<_> = own.map(|(id, _)| id).collect();
        own.into_iter().for_each(|connection| self.hang_up(connection));
        self.kick_those_behind(at);
    }

    pub(super) fn queue_soon(&mut self, process: usize, queue: usize) {
        let late_ns = self.late_ns();
        self.queue_after(process, queue, late_ns);
    }

    pub(super) fn queue_after(&mut self, process: usize, queue: usize, late_ns: u64) {
        let q = &mut self.processes[process].queues[queue];
        q.token += 1;
        let token = q.token;
        self.clock.after(late_ns, Event::Queue { process, queue, token });
    }

    pub(super) fn on_queue(&mut self, process: usize, queue: usize, token: u32) {
        let q = &self.processes[process].queues[queue];
        if q.token != token {
            return;
        }
        match (q.page, q.ask) {
            // Answered, or not in time, or the connection has ended: it goes on in any case.
            (None, Some(Ask { page, .. })) => self.opened(process, queue, page),
            (None, None) => self.open(process, queue),
            (Some(_), _) if q.submitted > q.finished => {}
            (Some(_), _) if q.is_loaded => self.request_over(process, queue),
            (Some(_), _) => self.next_request(process, queue),
        }
    }

    /// Opens a queue, for which a page may have to be made and handed over.
    fn open(&mut self, process: usize, queue: usize) {
        let now_ns = self.now_ns();
        let this = &mut self.processes[process];
        let q = &mut this.queues[queue];
        q.opens_since_ns.get_or_insert(now_ns);
        let device = q.plan.device;
        if !this.link.lock(Who::Queue(queue)) {
            return;
        }
        if let Some(first) = this.units[device].pages.first().filter(|_| !q.plan.own_page) {
            q.page = Some(*first);
            self.unlock(process);
            return self.queue_soon(process, queue);
        }
        let page = self.pages.len();
        self.pages.push(Page { process, device, ..Page::default() });
        if !self.attach(process, queue, page) {
            self.opened(process, queue, page);
        }
    }

    /// The daemon has the page, or the next one gets it.
    fn opened(&mut self, process: usize, queue: usize, page: usize) {
        self.pages[page].since_ns = self.now_ns();
        let this = &mut self.processes[process];
        this.pages.push(page);
        let unit = &mut this.units[this.queues[queue].plan.device];
        unit.pages.push(page);
        if unit.pages.len() == 1 {
            unit.doorbell = this.link.doorbell;
        }
        let q = &mut this.queues[queue];
        (q.ask, q.page) = (None, Some(page));
        self.unlock(process);
        self.queue_soon(process, queue);
    }

    /// Thread submits the next request, unless it was the last.
    fn next_request(&mut self, process: usize, queue: usize) {
        let now_ns = self.now_ns();
        let q = &mut self.processes[process].queues[queue];
        q.opens_since_ns = None;
        if q.left == 0 {
            return;
        }
        self.note(process, queue, true);
        let q = &mut self.processes[process].queues[queue];
        for command in q.submitted..q.submitted + q.plan.commands {
            let verdict = q.order.launched(CmdId(command));
            self.checks.work(now_ns, process, verdict);
        }
        q.submitted += q.plan.commands;
        self.kick(process, queue);
    }

    /// A queue has work, or none any more.
    fn note(&mut self, process: usize, queue: usize, busy: bool) {
        let this = &mut self.processes[process];
        let q = &mut this.queues[queue];
        q.is_loaded = busy;
        let unit = &this.units[q.plan.device];
        let Some(&first) = unit.pages.first() else { return };
        let doorbell = unit.doorbell;
        if self.pages[first].note(busy)
            && let Some(connection) = doorbell
        {
            self.ring(connection);
        }
    }

    /// The stream starts its next command, if there is one and the gate is open.
    fn kick(&mut self, process: usize, queue: usize) {
        let now_ns = self.now_ns();
        let waits = self.waits_for_other(process, queue);
        let this = &mut self.processes[process];
        let q = &mut this.queues[queue];
        let is_open = q.page.is_some_and(|page| !self.pages[page].closed);
        if !this.is_alive || q.runs || q.started == q.submitted || !is_open || waits {
            return;
        }
        let verdict = q.order.started(CmdId(q.started));
        q.started += 1;
        q.runs = true;
        let command_ns = q.plan.command_ns;
        self.checks.work(now_ns, process, verdict);
        self.clock.after(command_ns, Event::Finish { process, queue });
    }

    pub(super) fn on_finish(&mut self, process: usize, queue: usize) {
        self.found.commands += 1;
        let this = &mut self.processes[process];
        let q = &mut this.queues[queue];
        q.runs = false;
        q.finished += 1;
        let first = this.units[q.plan.device].pages.first();
        let (used_ns, is_last) = (q.plan.command_ns, q.finished == q.submitted);
        if let Some(first) = first {
            self.pages[*first].used_ns += used_ns;
            self.pages[*first].ended += 1;
        }
        self.kick_those_behind(process);
        if is_last {
            // Its thread, or another one of the process, sees that.
            self.queue_soon(process, queue);
        } else {
            self.kick(process, queue);
        }
    }

    fn request_over(&mut self, process: usize, queue: usize) {
        self.note(process, queue, false);
        let q = &mut self.processes[process].queues[queue];
        q.left -= 1;
        let think_ns = q.plan.think_ns;
        self.queue_after(process, queue, think_ns);
        self.kick_those_behind(process);
    }

    /// The next command of a stream waits for what another process has not run yet.
    fn waits_for_other(&self, process: usize, queue: usize) -> bool {
        let q = &self.processes[process].queues[queue];
        let Some((other, number)) = q.plan.awaits else { return false };
        let (other, awaited) = (&self.processes[other], &self.processes[other].queues[number]);
        let (begun, run) = (q.started / q.plan.commands, awaited.finished / awaited.plan.commands);
        let is_first = q.started.is_multiple_of(q.plan.commands);
        is_first && other.is_alive && awaited.left > 0 && run <= begun
    }

    /// Streams that wait for this process go on if they may.
    fn kick_those_behind(&mut self, process: usize) {
        for other in process + 1..self.processes.len() {
            for queue in 0..self.processes[other].queues.len() {
                let awaits = self.processes[other].queues[queue].plan.awaits;
                if awaits.is_some_and(|(awaited, _)| awaited == process) {
                    self.kick(other, queue);
                }
            }
        }
    }

    /// The daemon, or the process itself, opens the gates of a page for the daemon.
    pub(super) fn open_page(&mut self, page: usize) {
        self.pages[page].closed = false;
        let process = self.pages[page].process;
        for queue in 0..self.processes[process].queues.len() {
            self.kick(process, queue);
        }
    }

    /// The watch ends holds that were not renewed, a moment after it has seen that.
    pub(super) fn on_watch(&mut self, process: usize) {
        let now_ns = self.now_ns();
        let overdue = std::mem::take(&mut self.processes[process].watch.overdue);
        overdue.into_iter().for_each(|page| self.open_page(page));
        let this = &mut self.processes[process];
        let is_closed = this.watch.look(&this.pages, &self.pages, now_ns, LEASE.as_ns());
        if this.watch.overdue.is_empty() {
            let every_ns = if is_closed { WATCH_CLOSED_NS } else { WATCH_NS };
            self.clock.after(every_ns, Event::Watch { process });
        } else {
            self.soon(Event::Watch { process });
        }
    }
}
