//! The scenarios that stand for cells.

use std::collections::BTreeMap;
use std::str::FromStr;

use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::{
    Arrival, Comparators, Concurrency, DeviceSpec, Dist, LockOrder, ProcessSpec, Scenario, TaskSpec,
};

use super::Needs;
use super::need::Need;
use super::said::Said;
use super::sharing::{
    CONTENTION_MPS, CONTENTION_STREAMS, HANDOVER_NS, SHORT_NS, SLICE_NS, SWITCH_NS, Sharing,
    processes,
};
use crate::rows::plan::{CellPlan, Hal, LoadPlan, ProcessPlan, Program, RolePlan, Way};
use crate::rows::protocol::{Load, Profile};

/// Where all that is random follows from.
const SEED: u64 = 1;
/// Before anything counts.
const WARM_UP_NS: u64 = 100_000_000;
/// Simulated time at most, and commands at most, so that a prediction takes seconds.
const DURATION_MAX_NS: f64 = 150e9;
const COMMANDS_MAX: f64 = 2e6;
/// Samples at least and at most of the role that is measured.
const SAMPLES: (f64, f64) = (100.0, 1_050.0);
/// A periodic arrival is off by up to this part of the period, so that it does not keep pace with
/// the others, whose clocks are not the same on a device either.
const JITTER: f64 = 0.05;
/// The in-flight window of a stream: the threshold and the commands of a fence at level 1, and the
/// threshold with gates.
const WINDOW: (u32, u32) = (16, 8);
const WITH_GATES: u32 = 1_024;
/// The level where nothing is said: that of streams, and that of the processor.
const LEVEL: u8 = 2;
const HOST_LEVEL: u8 = 3;
/// How long a thread of Python keeps the interpreter from others, and what handing it over takes.
const SWITCH_INTERVAL_NS: u64 = 5_000_000;
const INTERPRETER_NS: u64 = 10_000;
/// For what part of its host time a thread needs the interpreter: PyTorch's operators release it.
/// Fitted to six threads with BERT-base, of which each took 1.75 times as long as alone.
const INTERPRETER_PERCENT: u8 = 40;

/// A cell, with all that is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model<'a> {
    pub(super) device: &'a DeviceSpec,
    pub(super) hal: Hal,
    pub(super) cell: &'a CellPlan,
    pub(super) needs: &'a Needs,
}

/// A role with its process.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    role: &'a RolePlan,
    process: &'a ProcessPlan,
    /// Index of the simulated process.
    index: usize,
    need: &'a Need,
}

impl<'a> Model<'a> {
    /// Returns the progress of the roles beside each other, by name.
    pub(super) fn beside(&self) -> Result<BTreeMap<String, Said>, String> {
        let places = self.places()?;
        self.run(&places, |place| place.role.load.of(&place.profile()))
    }

    /// Returns the progress of a role alone.
    pub(super) fn alone(&self, role: &str) -> Result<Said, String> {
        let places: Vec<Place<'_>> =
            self.places()?.into_iter().filter(|place| place.role.spec.name == role).collect();
        let load = |place: &Place<'_>| {
            let load: &LoadPlan = place.role.load_alone.as_ref().unwrap_or(&place.role.load);
            load.of(&place.profile())
        };
        let all = self.run(&places, load)?;
        all.into_values().next().ok_or_else(|| format!("there is no role {role}"))
    }

    fn places(&self) -> Result<Vec<Place<'a>>, String> {
        let mut places = Vec::new();
        let mut index = 0;
        for process in &self.cell.processes {
            for role in &process.roles {
                let name = &role.spec.name;
                let need = self.needs.get(name);
                let need = need.ok_or_else(|| format!("{name} did not say what it needs"))?;
                places.push(Place { role, process, index, need });
                // Each model of Triton's Python backend has a process.
                index += usize::from(process.program == Program::Triton);
            }
            index += usize::from(process.program != Program::Triton);
        }
        Ok(places)
    }

    fn run(
        &self,
        places: &[Place<'_>],
        load: impl Fn(&Place<'_>) -> Load,
    ) -> Result<BTreeMap<String, Said>, String> {
        let loads: Vec<Load> = places.iter().map(load).collect();
        let scenario = self.scenario(places, &loads);
        let sharing = Sharing::of(self.cell, self.hal);
        let options =
            RunOptions { policy: Some(sharing.name().to_owned()), ..RunOptions::default() };
        let outcome = run(&scenario, &options, &mut |_| {}).map_err(|error| error.to_string())?;
        let said = outcome.tasks.iter().zip(places).zip(&loads);
        let said = said.map(|((task, place), load)| {
            (place.role.spec.name.clone(), Said::of(task, place.extra_ns(load), load))
        });
        Ok(said.collect())
    }

    fn scenario(&self, places: &[Place<'_>], loads: &[Load]) -> Scenario {
        let sharing = Sharing::of(self.cell, self.hal);
        let tasks: Vec<TaskSpec> = places
            .iter()
            .zip(loads)
            .map(|(place, load)| self.task(place, load, &sharing, places.len()))
            .collect();
        let longest = places.iter().map(|place| place.need.device_ns()).max().unwrap_or(0);
        let warmup_ns = WARM_UP_NS + 2 * longest * places.len() as u64;
        Scenario {
            seed: SEED,
            duration_ns: Some(warmup_ns + self.duration_ns(places, loads)),
            warmup_ns,
            policy: sharing.name().to_owned(),
            k: self.variable(places, "XSCHED_AUTO_XQUEUE_KDEADLINE"),
            timeslice_ns: sharing.timeslice_ns(),
            level: LEVEL.min(self.device.max_level),
            daemon: match &sharing {
                Sharing::Daemon(_, daemon) => Some(daemon.clone()),
                _ => None,
            },
            processes: self.processes(places),
            comparators: Comparators {
                slice_ns: SLICE_NS,
                switch_ns: SWITCH_NS,
                triton_running: self.running(places.len()),
                ..Comparators::default()
            },
            ..Scenario::plain("lab", vec![self.device_spec(places, &sharing)], tasks)
        }
    }

    /// Requests that Triton has running: one where its rate limiter says so, else one of each
    /// model.
    fn running(&self, roles: usize) -> u32 {
        match self.cell.way {
            Way::TritonRateLimiter => 1,
            _ => u32::try_from(roles).unwrap_or(u32::MAX).max(1),
        }
    }

    fn device_spec(&self, places: &[Place<'_>], sharing: &Sharing) -> DeviceSpec {
        let mut device = self.device.clone();
        let spacing: Option<u64> = self.variable(places, "XSCHED_GATE_SPACING_US");
        if let Some(us) = spacing {
            device.gate_spacing_ns = us.saturating_mul(1_000);
        }
        // Kernels of different contexts do not run at one time.
        let apart = processes(self.cell) > 1 && !self.cell.way.has_mps();
        let is_short = |place: &Place<'_>| {
            place.need.device_ns() < SHORT_NS * place.need.kernels_ns.len() as u64
        };
        let in_turn = device.concurrency == Concurrency::RoundRobin;
        if self.hal == Hal::Cuda && !apart && in_turn && places.iter().all(is_short) {
            let contention =
                if self.cell.way.has_mps() { CONTENTION_MPS } else { CONTENTION_STREAMS };
            device.concurrency = Concurrency::ProcessorSharing { contention };
        }
        let hands_over = matches!(sharing, Sharing::Daemon(..))
            && places.len() > 1
            && self.hal == Hal::Cuda
            && apart;
        if hands_over {
            let usual = if device.wake_ns.is_empty() { &[0][..] } else { &device.wake_ns };
            device.wake_ns = usual.iter().map(|ns| ns + HANDOVER_NS).collect();
            device.queue_wake_ns = device.wake_ns.clone();
        }
        device
    }

    /// The processes. Threads of a Python program that launch kernel by kernel share its
    /// interpreter.
    fn processes(&self, places: &[Place<'_>]) -> Vec<ProcessSpec> {
        let count = places.iter().map(|place| place.index + 1).max().unwrap_or(0);
        let process = |index: usize| {
            let own = || places.iter().filter(move |place| place.index == index);
            let eager = own().any(|place| !place.need.is_graph);
            let locked = self.hal != Hal::Host && own().count() > 1 && eager;
            ProcessSpec {
                name: format!("process-{index}"),
                lock: locked.then_some(LockOrder::Unfair { switch_ns: SWITCH_INTERVAL_NS }),
                lock_handoff_ns: if locked { INTERPRETER_NS } else { 0 },
                lock_on_return: locked,
                lock_percent: if locked { INTERPRETER_PERCENT } else { 100 },
            }
        };
        (0..count).map(process).collect()
    }

    /// Enough for the samples that are wanted of the role that is measured.
    fn duration_ns(&self, places: &[Place<'_>], loads: &[Load]) -> u64 {
        let all = || places.iter().zip(loads);
        let measured = all().find(|(place, _)| place.role.spec.name == self.cell.measured);
        let Some((place, load)) = measured.or_else(|| all().next()) else { return WARM_UP_NS };
        let request = place.need.request_ns as f64 * places.len() as f64;
        let apart = match load {
            Load::Closed { pause_ms, .. } => pause_ms * 1e6 + request,
            Load::Periodic { every_ms } => every_ms * 1e6,
            Load::Poisson { per_s } | Load::Lognormal { per_s, .. } => 1e9 / per_s.max(1e-3),
            Load::Endless { .. } => request,
        };
        let samples = f64::from(self.cell.samples).clamp(SAMPLES.0, SAMPLES.1);
        let kernels: f64 = places.iter().map(|place| place.need.kernels_ns.len() as f64).sum();
        let device: f64 = places.iter().map(|place| place.need.device_ns() as f64).sum();
        let most = DURATION_MAX_NS.min(COMMANDS_MAX * device / kernels.max(1.0));
        (samples * apart).min(most) as u64
    }

    /// A variable of the environment where XSched schedules.
    fn variable<T: FromStr>(&self, places: &[Place<'_>], name: &str) -> Option<T> {
        let mut places = places.iter().filter(|_| self.cell.way.is_scheduled());
        places.find_map(|place| place.variable(name))
    }

    fn task(&self, place: &Place<'_>, load: &Load, sharing: &Sharing, roles: usize) -> TaskSpec {
        let task = place.need.task(&place.role.spec.name);
        let task = TaskSpec { process: Some(place.index), ..task };
        let task = with_load(task, load, place.extra_ns(load));
        let task = self.with_hints(task, place, sharing);
        self.with_window(task, place, sharing, roles)
    }

    /// Priority, share and times, as the way gives them to the role.
    fn with_hints(&self, mut task: TaskSpec, place: &Place<'_>, sharing: &Sharing) -> TaskSpec {
        let spec = &place.role.spec;
        let share = place.process.share.or(spec.share);
        task.urgent_stream = self.cell.way == Way::Priorities && spec.priority > 0;
        let priority = self.priority(place, sharing);
        task.priority = i16::try_from(priority.clamp(-255, 255)).unwrap_or(0);
        if sharing.is_scheduled() || self.cell.way == Way::MpsPercent {
            task.share = share;
            task.weight = u32::from(share.unwrap_or(1).max(1));
        }
        if !sharing.is_scheduled() {
            return task;
        }
        let us = |name: &str| Some(place.variable::<u64>(name)?.saturating_mul(1_000));
        let ms = |ms: f64| (ms.max(0.0) * 1e6) as u64;
        let is_host = self.hal == Hal::Host;
        let laxity_ms = spec.options.get("laxity_ms").and_then(serde_json::Value::as_f64);
        let deadline = spec.deadline_ms.filter(|_| is_host).map(ms);
        let laxity = laxity_ms.filter(|_| is_host).map(ms);
        task.deadline_ns = us("XSCHED_AUTO_XQUEUE_DEADLINE").or(deadline);
        task.laxity_ns = us("XSCHED_AUTO_XQUEUE_LAXITY").or(laxity);
        task
    }

    fn priority(&self, place: &Place<'_>, sharing: &Sharing) -> i32 {
        let asked = place.role.spec.priority;
        match sharing {
            Sharing::Daemon(..) if place.process.program == Program::Roles => {
                place.process.priority.unwrap_or(match place.process.class {
                    Some("interactive") => 100,
                    Some("batch") => -100,
                    _ => 0,
                })
            }
            // The models of a server say so themselves.
            Sharing::Daemon(..) | Sharing::System(_) => 100 * asked.signum(),
            // A stream has one of two priorities.
            Sharing::Threads(_) if self.hal != Hal::Host => i32::from(asked > 0),
            Sharing::Threads(_) => asked,
        }
    }

    /// The level that is asked for, by an option of the process or of the role.
    fn asked_level(place: &Place<'_>) -> Option<u8> {
        let options = &place.process.options;
        let mut options = options.iter().skip_while(|option| *option != "--level");
        let asked = options.nth(1).and_then(|level| level.parse().ok());
        asked.or_else(|| place.option("level")?.try_into().ok())
    }

    /// The level and the in-flight window.
    fn with_window(
        &self,
        mut task: TaskSpec,
        place: &Place<'_>,
        sharing: &Sharing,
        roles: usize,
    ) -> TaskSpec {
        if !sharing.is_scheduled() {
            return task;
        }
        let usual = if self.hal == Hal::Host { HOST_LEVEL } else { LEVEL };
        let asked = Self::asked_level(place);
        let is_held_whole = matches!(sharing, Sharing::Daemon(..));
        let level = if is_held_whole { LEVEL } else { asked.unwrap_or(usual) };
        let level = level.clamp(1, self.device.max_level);
        task.level = Some(level);
        if place.need.is_graph && level == 1 {
            task = place.need.as_one(task);
        }
        let usual = if level > 1 && self.hal != Hal::Host { WITH_GATES } else { WINDOW.0 };
        let threshold = place.variable("XSCHED_AUTO_XQUEUE_THRESHOLD");
        let threshold = threshold.or_else(|| place.option("threshold")?.try_into().ok());
        // A thread that is alone launches at once, and all of a graph is one command.
        let at_once = roles == 1 && asked.is_none() && threshold.is_none();
        task.threshold = match at_once || (place.need.is_graph && task.commands > 1) {
            true => task.capacity,
            false => threshold.unwrap_or(usual).max(1),
        };
        let usual = if task.threshold < WINDOW.0 { task.threshold / 2 } else { WINDOW.1 };
        let batch = place.variable("XSCHED_AUTO_XQUEUE_BATCH_SIZE").unwrap_or(usual);
        task.batch = batch.clamp(1, task.threshold);
        task.capacity = task.capacity.max(task.threshold);
        task
    }
}

impl Place<'_> {
    /// Host time around each request. A thread that keeps several in flight spends it while the
    /// device works; clients of a server wait for it, each for its own.
    fn extra_ns(&self, load: &Load) -> u64 {
        let hidden = matches!(load, Load::Endless { in_flight: 2.. });
        match hidden && self.process.program == Program::Roles {
            true => 0,
            false => self.need.extra_ns,
        }
    }

    /// A variable of the environment of its process.
    fn variable<T: FromStr>(&self, name: &str) -> Option<T> {
        self.process.environment.get(name)?.parse().ok()
    }

    /// A setting of its work.
    fn option(&self, name: &str) -> Option<u64> {
        self.role.spec.options.get(name)?.as_u64()
    }

    /// Returns the part of a profile that loads are made from: the lone request.
    fn profile(&self) -> Profile {
        Profile { request_ns: self.need.request_ns, ..Profile::default() }
    }
}

/// With requests that come as the load says. The host's time around a request passes in closed
/// loops.
fn with_load(task: TaskSpec, load: &Load, extra_ns: u64) -> TaskSpec {
    let ns = |ms: f64| (ms.max(0.0) * 1e6) as u64;
    let closed = |think_ns, jitter_ns| Arrival::Closed {
        think: Dist::Constant(think_ns + extra_ns),
        jitter_ns,
    };
    let gap_ns = |per_s: f64| 1e9 / per_s.max(1e-3);
    let (arrival, requests, outstanding) = match *load {
        Load::Closed { pause_ms, jitter_ms, requests } => {
            (closed(ns(pause_ms), ns(jitter_ms)), requests, 1)
        }
        Load::Endless { in_flight } => (closed(0, 0), None, in_flight.clamp(1, 1_024)),
        Load::Periodic { every_ms } => {
            let period_ns = ns(every_ms).max(2);
            let jitter_ns = (period_ns as f64 * JITTER) as u64;
            (Arrival::Periodic { period_ns, jitter_ns }, None, 1)
        }
        Load::Poisson { per_s } => {
            (Arrival::Renewal { gap: Dist::Exponential { mean_ns: gap_ns(per_s) } }, None, 1)
        }
        Load::Lognormal { per_s, sigma } => {
            let gap = Dist::LogNormal { mean_ns: gap_ns(per_s), sigma: sigma.clamp(0.0, 5.0) };
            (Arrival::Renewal { gap }, None, 1)
        }
    };
    TaskSpec { arrival, requests: requests.map(u64::from), outstanding, ..task }
}
