//! Swarm runs of a node: processes and the daemon that schedules them, of which any may be killed,
//! stopped or cut off at any moment.
//!
//! The scheduler machine, the policies and the state of a process on a GPU
//! ([`SchedEntity`](xsched_node::entity::SchedEntity)) are the code that the daemon runs. All
//! around them is a model that has the steps of the daemon's two threads, of a process's connection
//! with it, of the watch of its gates and of what both share in memory, and leaves out how they are
//! made of system calls. Tenants, draining and records are left out as well, and that a process
//! that is alone on its GPU launches without counting.
//! Between any two steps a thread may be late, stopped or killed. A GPU runs all streams side by
//! side, each in order, and starts nothing behind a closed gate. That the count of a page and the
//! wish to be woken never miss each other is taken for granted; a loom model of the real ones has
//! that.
//!
//! A renewal of the lease closes gates that are open and should not be. Otherwise a hold is lost
//! for good when a daemon was stopped for about the lease and goes on between a watch's last look
//! and its opening the gates, or when one that has been replaced opens them late.
//!
//! Everything follows from one seed. In a first phase things go wrong; in a second they no longer
//! do, a daemon runs, and every process that still can must finish. What must hold:
//!
//! - *Fail open*: gates are open 10 ms after the connection with the daemon has ended, and 35 ms
//!   after its lease has run out if it is silent, or if its thread for connections is stuck and
//!   notices no process's end.
//! - *Decision*: what the policy decides is in force within 63 ms, and stays so. Under `hpf` that
//!   is known without asking the policy.
//! - *Wake-up*: a daemon that runs knows within 13 ms whether a process has work.
//! - *Process*: none ends or hangs. It opens queues, connects with a daemon that runs, and
//!   finishes, also if on the GPU it waits for one that is held for it.
//! - *Work*: each command runs once, in order.

mod checks;
mod link;
mod machine;
mod page;
mod plan;
mod process;

use std::fmt::Write as _;

use rand::RngExt;
use xsched_core::time::Instant;

use super::{Found, SwarmOptions, SwarmSummary, caught, run_seeds};
use crate::clock::Clock;
use crate::sample::{Rng, generator};
use checks::Checks;
use link::Connection;
use machine::{Daemon, Message, Op, Store};
use page::Page;
use plan::{Disturbance, Plan, TROUBLE_NS, VERSION};
use process::Process;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Runs the seeds and collects what is found. `progress` gets the number of seeds done.
///
/// ```
/// use xsched_sim::swarm::{SwarmOptions, daemon};
///
/// let summary = daemon::swarm(&SwarmOptions { first_seed: 1, seeds: 2, threads: 1 }, &|_| {});
/// assert_eq!(summary.runs, 2);
/// assert!(summary.failures.is_empty(), "{:?}", summary.failures);
/// ```
#[must_use]
pub fn swarm(options: &SwarmOptions, progress: &(dyn Fn(u64) + Sync)) -> SwarmSummary {
    let run = |seed| match caught(|| Ok(World::new(seed).run())) {
        Ok(found) => found,
        Err(what) => Found { failures: vec![what], ..Found::default() },
    };
    run_seeds(options, progress, &run, describe)
}

/// The processes that a seed stands for, and what happens to them, in words.
#[must_use]
pub fn describe(seed: u64) -> String {
    let Plan { policy, processes, disturbances } = Plan::new(seed);
    let mut text = format!("seed {seed}: a daemon with policy {policy}\n");
    // Writing to a string cannot fail.
    for (number, process) in processes.iter().enumerate() {
        let _ = writeln!(text, "  process {number}: {process:?}");
    }
    for disturbance in &disturbances {
        let _ = writeln!(text, "  {disturbance:?}");
    }
    text
}

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The daemon's thread for connections reads a message.
    Control { daemon: usize },
    /// The scheduler's thread makes a turn, unless `turn` is out of date.
    Turn { daemon: usize, turn: u32 },
    /// The scheduler's thread does the next of what the turn has come to.
    Store { daemon: usize },
    /// The supervisor starts a daemon.
    Start { version: u32 },
    /// The daemon's answer is there.
    Answer { connection: usize, ok: bool },
    /// The thread of a process's link goes on, unless `token` is out of date.
    Link { process: usize, token: u32 },
    /// A thread with a queue goes on, unless `token` is out of date.
    Queue { process: usize, queue: usize, token: u32 },
    /// The GPU finishes a command.
    Finish { process: usize, queue: usize },
    /// The watch of a process's gates looks.
    Watch { process: usize },
    /// A disturbance is due.
    Disturb { index: usize },
    /// Nothing goes wrong any more.
    Calm,
    /// The checkers look.
    Inspect,
}

/// A node.
struct World {
    plan: Plan,
    clock: Clock<Event>,
    rng: Rng,
    pages: Vec<Page>,
    connections: Vec<Connection>,
    /// All that there have been.
    daemons: Vec<Daemon>,
    /// The one that listens.
    listener: Option<usize>,
    processes: Vec<Process>,
    /// Disturbances that are due, with the steps until they happen.
    armed: Vec<(u32, Disturbance)>,
    checks: Checks,
    found: Found,
}

impl World {
    fn new(seed: u64) -> Self {
        let plan = Plan::new(seed);
        let processes: Vec<_> = plan.processes.iter().map(Process::new).collect();
        let mut clock = Clock::default();
        clock.at(0, Event::Start { version: VERSION });
        for (process, plan) in plan.processes.iter().enumerate() {
            clock.at(plan.start_ns, Event::Link { process, token: 0 });
            clock.at(plan.start_ns, Event::Watch { process });
            for (queue, queue_plan) in plan.queues.iter().enumerate() {
                let at_ns = plan.start_ns + queue_plan.start_ns;
                clock.at(at_ns, Event::Queue { process, queue, token: 0 });
            }
        }
        for (index, planned) in plan.disturbances.iter().enumerate() {
            clock.at(planned.at_ns, Event::Disturb { index });
        }
        clock.at(TROUBLE_NS, Event::Calm);
        clock.at(0, Event::Inspect);
        Self {
            checks: Checks::new(processes.len()),
            plan,
            clock,
            rng: generator(seed, 82),
            pages: Vec::new(),
            connections: Vec::new(),
            daemons: Vec::new(),
            listener: None,
            processes,
            armed: Vec::new(),
            found: Found::default(),
        }
    }

    fn run(mut self) -> Found {
        while !self.checks.is_over
            && let Some(event) = self.clock.advance(u64::MAX)
        {
            if self.is_postponed(event) {
                continue;
            }
            self.dispatch(event);
            self.strike(event);
        }
        self.found.failures = std::mem::take(&mut self.checks.failures);
        self.found
    }

    const fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn now(&self) -> Instant {
        Instant::from_ns(self.now_ns())
    }

    /// How late a thread is that goes on.
    fn late_ns(&mut self) -> u64 {
        let longest_ns = if self.rng.random_bool(0.05) { 2 * MS } else { 50 * US };
        self.rng.random_range(US..longest_ns)
    }

    fn soon(&mut self, event: Event) {
        let late_ns = self.late_ns();
        self.clock.after(late_ns, event);
    }

    /// Returns whether the event's daemon or process was killed, or is stopped and goes on later.
    fn is_postponed(&mut self, event: Event) -> bool {
        let (is_alive, until_ns) = match event {
            Event::Control { daemon } => {
                let daemon = &self.daemons[daemon];
                (daemon.is_alive, daemon.stopped_until_ns.max(daemon.in_call_ns.1))
            }
            Event::Turn { daemon, .. } | Event::Store { daemon } => {
                let daemon = &self.daemons[daemon];
                (daemon.is_alive, daemon.stopped_until_ns)
            }
            Event::Link { process, .. }
            | Event::Queue { process, .. }
            | Event::Watch { process } => {
                let process = &self.processes[process];
                (process.is_alive, process.stopped_until_ns)
            }
            Event::Answer { connection, .. } => {
                let process = &self.processes[self.connections[connection].process];
                (process.is_alive, process.stopped_until_ns)
            }
            // A GPU goes on with what a stopped process has launched.
            Event::Finish { process, .. } => (self.processes[process].is_alive, 0),
            _ => (true, 0),
        };
        if is_alive && until_ns > self.now_ns() {
            self.clock.at(until_ns, event);
        }
        !is_alive || until_ns > self.now_ns()
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Control { daemon } => self.on_control(daemon),
            Event::Turn { daemon, turn } => self.on_turn(daemon, turn),
            Event::Store { daemon } => self.on_store(daemon),
            Event::Start { version } => self.on_start(version),
            Event::Answer { connection, ok } => self.on_answer(connection, ok),
            Event::Link { process, token } => self.on_link(process, token),
            Event::Queue { process, queue, token } => self.on_queue(process, queue, token),
            Event::Finish { process, queue } => self.on_finish(process, queue),
            Event::Watch { process } => self.on_watch(process),
            Event::Disturb { index } => {
                let planned = self.plan.disturbances[index];
                self.armed.push((planned.steps, planned.what));
            }
            Event::Calm => self.calm(),
            Event::Inspect => self.inspect(),
        }
    }

    /// Disturbances whose time has come happen after this event.
    fn strike(&mut self, event: Event) {
        let is_step = !matches!(
            event,
            Event::Watch { .. } | Event::Inspect | Event::Disturb { .. } | Event::Finish { .. }
        );
        if !is_step || self.armed.is_empty() {
            return;
        }
        let mut due = Vec::new();
        self.armed.retain_mut(|(steps, what)| {
            if *steps == 0 {
                due.push(*what);
                return false;
            }
            *steps -= 1;
            true
        });
        due.into_iter().for_each(|what| self.disturb(what));
    }

    fn disturb(&mut self, what: Disturbance) {
        self.found.faults += 1;
        let now_ns = self.now_ns();
        match what {
            Disturbance::KillDaemon { again_ns } => {
                self.kill_daemon();
                self.clock.after(again_ns, Event::Start { version: VERSION });
            }
            Disturbance::StopDaemon { ns } => {
                if let Some(daemon) = self.listener.map(|at| &mut self.daemons[at]) {
                    daemon.stopped_until_ns = daemon.stopped_until_ns.max(now_ns + ns);
                    daemon.runs_since_ns = daemon.runs_since_ns.max(daemon.stopped_until_ns);
                }
            }
            Disturbance::StickControl { ns } => {
                if let Some(daemon) = self.listener.map(|at| &mut self.daemons[at])
                    && daemon.in_call_ns.1 <= now_ns
                {
                    daemon.in_call_ns = (now_ns, now_ns + ns);
                    daemon.runs_since_ns = daemon.runs_since_ns.max(now_ns + ns);
                }
            }
            Disturbance::Upgrade { again_ns, version } => {
                self.end_daemon();
                self.clock.after(again_ns, Event::Start { version });
            }
            Disturbance::KillProcess { process } => self.kill_process(process),
            Disturbance::StopProcess { process, ns } => {
                let process = &mut self.processes[process];
                process.stopped_until_ns = process.stopped_until_ns.max(now_ns + ns);
                process.runs_since_ns = process.stopped_until_ns;
            }
            Disturbance::LoseConnection { process } => {
                if let Some(connection) = self.processes[process].link.wire {
                    self.hang_up(connection);
                }
            }
            Disturbance::Prioritise { process, priority } => {
                self.ask_daemon(Op::Prioritise { process, priority });
            }
            Disturbance::Hold { process, hold } => self.ask_daemon(Op::Hold { process, hold }),
            Disturbance::Policy { name } => self.ask_daemon(Op::Policy { name }),
        }
    }

    /// Nothing new goes wrong, and a daemon runs once those that are stopped go on.
    fn calm(&mut self) {
        self.armed.clear();
        let until = |daemon: &Daemon| daemon.stopped_until_ns.max(daemon.in_call_ns.1);
        let daemons = self.daemons.iter().map(until);
        let stopped = daemons.chain(self.processes.iter().map(|process| process.stopped_until_ns));
        self.checks.calm_since_ns = stopped.chain([self.now_ns()]).max();
        for process in 0..self.processes.len() {
            self.ask_daemon(Op::Hold { process, hold: false });
        }
        if self.listener.is_none_or(|at| self.daemons[at].version != VERSION) {
            self.end_daemon();
            self.soon(Event::Start { version: VERSION });
        }
    }

    /// A tool asks the daemon that there is.
    fn ask_daemon(&mut self, op: Op) {
        if let Some(at) = self.listener {
            self.send(at, op);
        }
    }

    fn on_start(&mut self, version: u32) {
        // Of two that start, one finds the other.
        if self.listener.is_some() {
            return;
        }
        let version = if self.checks.calm_since_ns.is_some() { VERSION } else { version };
        let Ok(policy) = self.plan.policy.parse() else { return };
        self.listener = Some(self.daemons.len());
        self.daemons.push(Daemon::new(policy, version, self.now()));
    }

    fn kill_daemon(&mut self) {
        if let Some(at) = self.listener.take() {
            self.daemons[at].is_alive = false;
            self.end_connections(at);
        }
    }

    /// The thread for connections ends, and with it the connections and the socket; the other one
    /// opens all gates first.
    fn end_daemon(&mut self) {
        if let Some(at) = self.listener.take() {
            self.daemons[at].ends = true;
            self.send(at, Op::End);
            self.end_connections(at);
        }
    }

    fn end_connections(&mut self, daemon: usize) {
        let of_it = |connection: &Connection| connection.daemon == daemon && connection.is_open;
        let connections = self.connections.iter().enumerate();
        let ended: Vec<_> = connections.filter(|(_, c)| of_it(c)).map(|(id, _)| id).collect();
        ended.into_iter().for_each(|connection| self.hang_up(connection));
    }

    /// A message arrives at the daemon.
    fn tell(&mut self, connection: usize, message: Message) {
        let at = self.connections[connection].daemon;
        let daemon = &mut self.daemons[at];
        if daemon.is_alive && !daemon.ends {
            daemon.inbox.push_back((connection, message));
            self.soon(Event::Control { daemon: at });
        }
    }

    fn on_control(&mut self, at: usize) {
        let daemon = &mut self.daemons[at];
        if daemon.ends {
            return;
        }
        let Some((connection, message)) = daemon.inbox.pop_front() else { return };
        match message {
            Message::Hello { version, process, hints } => {
                let ok = version == daemon.version;
                if ok {
                    daemon.known.insert(connection);
                    self.send(at, Op::Join { connection, process, hints });
                }
                self.soon(Event::Answer { connection, ok });
            }
            Message::Attach { page } if daemon.known.contains(&connection) => {
                self.send(at, Op::Page { connection, page });
            }
            Message::Attach { .. } => self.soon(Event::Answer { connection, ok: false }),
            Message::Hangup => {
                if daemon.known.remove(&connection) {
                    self.send(at, Op::Leave { connection });
                }
            }
        }
    }

    /// The thread for connections asks the other one for something.
    fn send(&mut self, at: usize, op: Op) {
        self.daemons[at].send(op);
        self.wake_daemon(at);
    }

    /// A process writes to the eventfd of a connection.
    fn ring(&mut self, connection: usize) {
        let at = self.connections[connection].daemon;
        if self.daemons[at].is_alive && self.daemons[at].ring(connection) {
            self.wake_daemon(at);
        }
    }

    /// Wakes the scheduler's thread, which looks again anyway unless it waits.
    fn wake_daemon(&mut self, at: usize) {
        let now = self.now();
        if !std::mem::take(&mut self.daemons[at].waits) {
            return;
        }
        let spins = self.daemons[at].spins(now);
        let late_ns = if spins { US } else { self.late_ns() };
        self.turn_after(at, late_ns);
    }

    fn turn_after(&mut self, at: usize, late_ns: u64) {
        let daemon = &mut self.daemons[at];
        daemon.turn += 1;
        let turn = daemon.turn;
        self.clock.after(late_ns, Event::Turn { daemon: at, turn });
    }

    fn on_turn(&mut self, at: usize, turn: u32) {
        let now = self.now();
        if self.daemons[at].turn == turn {
            self.daemons[at].waits = false;
            self.daemons[at].run(now, &mut self.pages);
            self.store_or_wait(at);
        }
    }

    fn store_or_wait(&mut self, at: usize) {
        if !self.daemons[at].stores.is_empty() {
            let is_late = self.rng.random_bool(0.01);
            let late_ns = if is_late { self.late_ns() } else { self.rng.random_range(200..3 * US) };
            self.clock.after(late_ns, Event::Store { daemon: at });
        } else if self.daemons[at].is_ready() {
            self.turn_after(at, US);
        } else {
            let left_ns = self.daemons[at].left(self.now()).as_ns();
            self.daemons[at].waits = true;
            self.turn_after(at, left_ns);
        }
    }

    fn on_store(&mut self, at: usize) {
        let now_ns = self.now_ns();
        match self.daemons[at].stores.pop_front() {
            Some(Store::Close { page } | Store::Renew { page }) => self.pages[page].close(now_ns),
            Some(Store::Open { page }) => self.open_page(page),
            Some(Store::Answer { connection, ok }) => self.soon(Event::Answer { connection, ok }),
            Some(Store::End) => {
                self.daemons[at].is_alive = false;
                return;
            }
            None => {}
        }
        self.store_or_wait(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swarm_of_nodes_finds_nothing_and_says_what_it_did() {
        let options = SwarmOptions { first_seed: 1, seeds: 300, threads: 2 };
        let summary = swarm(&options, &|_| {});
        for failure in &summary.failures {
            eprintln!("{}: {}\n{}", failure.seed, failure.what, failure.scenario);
        }
        assert_eq!(summary.failures.len(), 0);
        assert_eq!(summary.runs, 300);
        assert!(summary.faults > 600, "{}", summary.faults);
        assert!(summary.commands > 100_000, "{}", summary.commands);
    }

    #[test]
    fn a_seed_gives_the_same_run() {
        let run = |seed| {
            let found = World::new(seed).run();
            (found.commands, found.faults)
        };
        for seed in 1..20 {
            assert_eq!(run(seed), run(seed));
        }
    }
}
