//! The invariants of a node.

use rand::RngExt;
use xsched_core::check::Verdict;
use xsched_core::policy::Policy as _;
use xsched_node::entity::HoldCause;

use super::link::{AGAIN_NS, Connection, PATIENCE_NS, State};
use super::machine::{Daemon, LEASE, Place, STUCK_AFTER};
use super::plan::{DEVICES, VERSION};
use super::process::{Process, WATCH_CLOSED_NS, WATCH_NS};
use super::{Event, MS, World};

/// How often the checkers look at least.
const INSPECT_NS: u64 = 3 * MS;
/// How late threads may be one after the other, in all.
const LATE_NS: u64 = 10 * MS;
/// From the last sign of life of a daemon to the gates being open.
const SILENT_NS: u64 = LEASE.as_ns() + WATCH_NS + WATCH_CLOSED_NS + LATE_NS;
/// From the end of a connection to the gates being open.
const GONE_NS: u64 = LATE_NS;
/// Until the daemon knows of work that has begun or ended.
const KNOWN_NS: u64 = LATE_NS + INSPECT_NS;
/// Until a decision is in force, even if a watch or a daemon that has ended has opened gates late:
/// renewals close them again, and one comes within two quarters of the lease.
const FORCE_NS: u64 = LEASE.as_ns() / 2 + LATE_NS + INSPECT_NS;
/// Until a process is connected with a daemon that runs: it may be waiting for an answer of the one
/// before, or because that one refused it, which takes as long.
const CONNECT_NS: u64 = PATIENCE_NS + 2 * AGAIN_NS + 5 * LATE_NS;
/// For how long a thread that opens a queue has the lock of the link, and the link itself has it.
const LOCK_NS: u64 = PATIENCE_NS + AGAIN_NS + LATE_NS;
/// When things were calm for this time and all processes have finished, a run is over.
const CALM_NS: u64 = CONNECT_NS + 100 * MS;
/// When they were calm for this time, all processes must have finished.
const LIMIT_NS: u64 = 60_000 * MS;
/// Findings of a run that are told.
const FAILURES_MAX: usize = 1;

/// The checkers.
#[derive(Debug)]
pub(super) struct Checks {
    /// Per process and GPU: since when the daemon is wrong about its work, and since when its gates
    /// are not as they should be.
    wrong: Vec<[Wrong; DEVICES]>,
    pub(super) failures: Vec<String>,
    pub(super) calm_since_ns: Option<u64>,
    pub(super) is_over: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wrong {
    work_ns: Option<u64>,
    gates_ns: Option<u64>,
}

/// True if something has been wrong for longer than it may.
fn lasts(since_ns: &mut Option<u64>, is_wrong: bool, now_ns: u64, most_ns: u64) -> bool {
    let since = is_wrong.then(|| since_ns.unwrap_or(now_ns));
    *since_ns = since;
    since.is_some_and(|since| now_ns - since > most_ns)
}

impl Checks {
    pub(super) fn new(processes: usize) -> Self {
        Self {
            wrong: vec![[Wrong::default(); DEVICES]; processes],
            failures: Vec::new(),
            calm_since_ns: None,
            is_over: false,
        }
    }

    #[cold]
    fn fail(&mut self, now_ns: u64, invariant: &str, process: usize, what: &str) {
        if self.failures.len() < FAILURES_MAX {
            let ms = now_ns as f64 / 1e6;
            self.failures.push(format!("{invariant}: process {process} {what}, at {ms:.3} ms"));
        }
        self.is_over = true;
    }

    /// A command was launched or has started.
    pub(super) fn work(&mut self, now_ns: u64, process: usize, verdict: Verdict) {
        if let Err(violation) = verdict {
            self.fail(now_ns, "work", process, &violation.to_string());
        }
    }
}

impl World {
    pub(super) fn inspect(&mut self) {
        for at in 0..self.processes.len() {
            let started = self.processes[at].link.down_since_ns <= self.now_ns();
            if self.processes[at].is_alive && started {
                self.inspect_process(at);
            } else if !self.processes[at].is_alive && !self.processes[at].was_killed {
                self.checks.fail(self.clock.now_ns(), "process", at, "has ended by itself");
            }
        }
        self.inspect_end();
        // Not in step with a policy's turns, or it could always come while the daemon is storing.
        let after_ns = self.rng.random_range(MS..INSPECT_NS);
        self.clock.after(after_ns, Event::Inspect);
    }

    fn inspect_process(&mut self, at: usize) {
        let now_ns = self.now_ns();
        // What is stopped can do nothing.
        if self.processes[at].runs_since_ns > now_ns {
            self.checks.wrong[at] = Default::default();
            return;
        }
        let held = self.held_too_long(at).or_else(|| self.outlasts_control(at));
        if let Some((invariant, what)) =
            held.or_else(|| self.hangs(at)).or_else(|| self.is_cut_off(at))
        {
            self.checks.fail(now_ns, invariant, at, what);
        }
        for device in 0..DEVICES {
            self.inspect_unit(at, device);
        }
    }

    /// Gates are closed although the daemon is gone or silent.
    fn held_too_long(&self, at: usize) -> Option<(&'static str, &'static str)> {
        let now_ns = self.now_ns();
        let process = &self.processes[at];
        for page in process.pages.iter().map(|page| &self.pages[*page]).filter(|p| p.closed) {
            let alive_ns = page.beat_ns.max(page.since_ns).max(process.runs_since_ns);
            if now_ns - alive_ns > SILENT_NS {
                return Some(("fail open", "is held by a daemon that is silent"));
            }
            let ended = process.link.hangup_ns.filter(|ended_ns| page.beat_ns <= *ended_ns);
            let gone_ns = ended.map(|ended_ns| ended_ns.max(process.runs_since_ns));
            if gone_ns.is_some_and(|gone_ns| now_ns - gone_ns > GONE_NS) {
                return Some(("fail open", "is held by a daemon that is gone"));
            }
        }
        None
    }

    /// Gates stay closed for a process although no scheduler would notice that it has ended.
    fn outlasts_control(&self, at: usize) -> Option<(&'static str, &'static str)> {
        let process = &self.processes[at];
        let daemon = &self.daemons[self.connections[process.link.wire?].daemon];
        let (since_ns, until_ns) = daemon.in_call_ns;
        if !daemon.is_alive || until_ns <= self.now_ns() {
            return None;
        }
        let stuck_ns = since_ns + STUCK_AFTER.as_ns();
        let late_ns = self.now_ns().saturating_sub(stuck_ns.max(process.runs_since_ns));
        let mut closed = process.pages.iter().map(|page| &self.pages[*page]).filter(|p| p.closed);
        let is_kept = closed.any(|page| page.closed_since_ns < stuck_ns);
        let what = "is held by a daemon that notices no end of a process";
        (is_kept && late_ns > SILENT_NS).then_some(("fail open", what))
    }

    /// A thread waits for the daemon for too long.
    fn hangs(&self, at: usize) -> Option<(&'static str, &'static str)> {
        let process = &self.processes[at];
        // All others may have the lock before.
        let most_ns = LOCK_NS * (process.queues.len() as u64 + 1);
        let mut opens = process.queues.iter().filter_map(|queue| queue.opens_since_ns);
        let since = |since_ns: u64| self.now_ns() - since_ns.max(process.runs_since_ns);
        let is_late = |since_ns| since(since_ns) > most_ns;
        opens.any(is_late).then_some(("process", "waits for a queue"))
    }

    /// The daemon that runs, if processes can connect with it.
    fn present(&self) -> Option<(usize, &Daemon)> {
        let at = self.listener?;
        let daemon = &self.daemons[at];
        let can = daemon.version == VERSION && daemon.runs_since_ns <= self.now_ns();
        can.then_some((at, daemon))
    }

    /// Returns the fault of a process that does not connect although there is a daemon.
    fn is_cut_off(&self, at: usize) -> Option<(&'static str, &'static str)> {
        let Process { link, runs_since_ns, .. } = &self.processes[at];
        let (_, daemon) = self.present()?;
        let since_ns = daemon.runs_since_ns.max(*runs_since_ns).max(link.down_since_ns);
        let is_late = link.wire.is_none() && self.now_ns() - since_ns > CONNECT_NS;
        is_late.then_some(("process", "does not connect"))
    }

    /// Looks at a process on a GPU that the daemon that runs must know of.
    fn inspect_unit(&mut self, at: usize, device: usize) {
        let now_ns = self.now_ns();
        let (is_wrong, is_not_forced) = self.known(at, device).unwrap_or_default();
        let wrong = &mut self.checks.wrong[at][device];
        let work = lasts(&mut wrong.work_ns, is_wrong, now_ns, KNOWN_NS);
        let gates = lasts(&mut wrong.gates_ns, is_not_forced, now_ns, FORCE_NS);
        if work {
            self.checks.fail(now_ns, "wake-up", at, "has work or none, which the daemon overlooks");
        }
        if gates {
            self.checks.fail(now_ns, "decision", at, "runs or is held against the decision");
        }
    }

    /// True if the daemon is wrong about the work of a process on a GPU, and whether its gates are
    /// not as they should be; `None` where nothing is promised.
    fn known(&self, at: usize, device: usize) -> Option<(bool, bool)> {
        let (number, daemon) = self.present()?;
        let process = &self.processes[at];
        let wire = process.link.wire?;
        let Connection { daemon: other, is_open, .. } = self.connections[wire];
        if process.link.state != State::Up || other != number || !is_open {
            return None;
        }
        let unit = &process.units[device];
        let loaded = self.pages[*unit.pages.first()?].load > 0;
        let place = daemon.places.iter().find(|(_, place)| place.is(wire, device));
        let Some((_, place)) = place else { return Some((loaded, false)) };
        let is_alone = daemon.on(device).count() == 1;
        let should = self.should_be_closed(daemon, place);
        let gates = unit.pages.iter().map(|page| self.pages[*page].closed);
        let is_other =
            should.is_some_and(|should| gates.into_iter().any(|closed| closed != should));
        Some((loaded != place.entity.is_ready() && !is_alone, is_other))
    }

    /// True if the gates of a process are to be closed: under `hpf` by priorities and by which
    /// processes have work, as far as the daemon knows; otherwise by what the policy has said.
    fn should_be_closed(&self, daemon: &Daemon, place: &Place) -> Option<bool> {
        if place.entity.is_held_by(HoldCause::User) {
            return Some(true);
        }
        let table = daemon.machine.table();
        let is_passed_over =
            |place: &Place| table.get(place.queue).is_some_and(|info| info.passed_over);
        if daemon.machine.policy().name() != "hpf" || is_passed_over(place) {
            return Some(!table.get(place.queue)?.running);
        }
        let priority = |place: &Place| Some(daemon.clients.get(&place.connection)?.hints.priority);
        let is_above = |other: &Place| {
            let competes = other.entity.is_ready() && !other.entity.is_held_by(HoldCause::User);
            let competes = competes && !is_passed_over(other);
            competes && other.device == place.device && priority(other) > priority(place)
        };
        // Of one that has nothing to run it does not matter.
        place.entity.is_ready().then(|| daemon.places.values().any(is_above))
    }

    /// Checks that the run is over, and that all that should be is through.
    fn inspect_end(&mut self) {
        let Some(calm_ns) = self.checks.calm_since_ns else { return };
        let now_ns = self.now_ns();
        let alive = self.processes.iter().enumerate().filter(|(_, process)| process.is_alive);
        let mut late = alive.clone().filter(|(_, p)| p.queues.iter().any(|q| q.left > 0));
        let first_late = late.next().map(|(at, _)| at);
        if let Some(at) = first_late {
            if now_ns.saturating_sub(calm_ns) > LIMIT_NS {
                self.checks.fail(now_ns, "process", at, "does not finish");
            }
        } else if now_ns.saturating_sub(calm_ns) > CALM_NS {
            let queues = alive.flat_map(|(at, p)| p.queues.iter().map(move |queue| (at, queue)));
            let lost = queues.filter_map(|(at, queue)| queue.lost().map(|what| (at, what))).next();
            if let Some((at, what)) = lost {
                self.checks.fail(now_ns, "work", at, &what);
            }
            self.checks.is_over = true;
        }
    }
}
