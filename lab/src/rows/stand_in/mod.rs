//! Stand-ins for models: rows of commands on the processor as a device, in the protocol of
//! [`super::protocol`]. One process has all roles; with XSched each has an XQueue as a user gets it
//! by default, else a hardware queue of its own.

mod role;
mod works;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, BufRead};
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use xsched::policies::Any;
use xsched::{
    Device, Hints, Level, PolicyHint, Priority, ProcessId, Runtime, Stats, WindowConfig,
    XQueueConfig,
};
use xsched_core::hal::Backend;
use xsched_core::hint::Laxity;
use xsched_core::id::QueueId;
use xsched_hal_host::{BusyLoop, HostCommand, HostConfig, HostDevice};

use self::role::{Phase, Role, Sink};
use super::counts::Counts;
use super::protocol::{Answer, Order, RoleAnswer, RoleSpec, Spec, VERSION};
use crate::device::LabError;
use crate::error::CommandError;
use xsched_console::output::Stream;

/// Variables that say who decides, as the C libraries read them.
const POLICY: &str = "XSCHED_POLICY";
const K: &str = "XSCHED_AUTO_XQUEUE_KDEADLINE";
/// The policy of a user who says nothing.
const DEFAULT_POLICY: &str = "hpf";

/// Is the program that a file describes, until its input ends.
pub(crate) fn execute(file: &Path) -> Result<(), CommandError> {
    let text = fs::read_to_string(file)
        .map_err(|source| CommandError::Read { place: file.display().to_string(), source })?;
    let said = serde_json::from_str(&text).map_err(LabError::new).and_then(|spec: Spec| {
        let unknown = spec.roles.iter().find(|role| works::kernels_ns(role).is_none());
        match unknown {
            _ if spec.version != VERSION => Err(LabError::new("the file is of another version")),
            Some(role) => Ok(Err(format!("there is no stand-in for {}", role.work))),
            None => Program::open(&spec).map(Ok),
        }
    });
    match said {
        Err(error) => say(&json!({ "error": error.to_string() })),
        Ok(Err(missing)) => say(&json!({ "missing": missing })),
        Ok(Ok(program)) => program.serve(),
    }
}

fn say(what: &serde_json::Value) -> Result<(), CommandError> {
    Ok(Stream::Stdout.insist(&format!("{what}\n"))?)
}

/// The moment by the clock that all programs of a cell have.
fn now_ns() -> u64 {
    ns_of(ClockId::Monotonic)
}

fn ns_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// The program.
#[derive(Debug)]
struct Program {
    roles: BTreeMap<String, Role>,
    /// Needs of the roles alone.
    ready: serde_json::Value,
    /// Queues are of it.
    _runtime: Option<Runtime>,
}

impl Program {
    fn open(spec: &Spec) -> Result<Self, LabError> {
        let device = HostDevice::new(HostConfig::default()).map_err(LabError::new)?;
        let busy = BusyLoop::calibrate();
        let scheduled = (spec.way == "xsched").then(|| scheduler(&device)).transpose()?;
        let mut roles = BTreeMap::new();
        let mut needs = BTreeMap::new();
        for (number, role) in (0..).zip(&spec.roles) {
            let sink = match &scheduled {
                Some((_, device)) => queue(device, role, number)?,
                None => stream(&device)?,
            };
            let lengths = works::kernels_ns(role).unwrap_or_default();
            let commands: Vec<HostCommand> = lengths.iter().map(|&ns| busy.command(ns)).collect();
            let mut made = Role::new(sink, commands, works::tokens(role), spec.seed + number);
            needs.insert(role.name.clone(), made.profile(lengths, spec.quick)?);
            roles.insert(role.name.clone(), made);
        }
        let version = env!("CARGO_PKG_VERSION");
        let ready = json!({
            "ready": true, "software": { "driver": format!("xsched-hal-host {version}") },
            "hardware": "the processor, 1 compute unit", "roles": needs,
        });
        Ok(Self { roles, ready, _runtime: scheduled.map(|(runtime, _)| runtime) })
    }

    /// Carries out orders until there are no more.
    fn serve(mut self) -> Result<(), CommandError> {
        say(&self.ready)?;
        for line in io::stdin().lock().lines() {
            let line = line.map_err(|source| CommandError::Read {
                place: "standard input".to_owned(),
                source,
            })?;
            let done = serde_json::from_str(&line).map_err(LabError::new);
            match done.and_then(|order| self.phase(&order)) {
                Ok(answer) => say(&json!(answer))?,
                Err(error) => say(&json!({ "error": error.to_string() }))?,
            }
        }
        Ok(())
    }

    /// Has the roles that are named work for some time.
    fn phase(&mut self, order: &Order) -> Result<Answer, LabError> {
        let unknown = order.load.keys().find(|name| !self.roles.contains_key(*name));
        if let Some(name) = unknown {
            return Err(LabError::new(format!("no role is called {name}")));
        }
        if !order.seconds.is_finite() || !(0.0..86_400.0).contains(&order.seconds) {
            return Err(LabError::new(format!("{} is no time in seconds", order.seconds)));
        }
        let cpu_before = ns_of(ClockId::ProcessCPUTime);
        let begin_ns = now_ns();
        let phase = Phase {
            begin_ns,
            begin: Instant::now(),
            length: Duration::from_secs_f64(order.seconds),
        };
        let named = self
            .roles
            .iter_mut()
            .filter_map(|(name, role)| order.load.get(name).map(|load| (name.clone(), role, load)));
        let done: Vec<Result<(String, RoleAnswer), LabError>> = thread::scope(|scope| {
            let start = |(name, role, load): (String, _, _)| {
                let role: &mut Role = role;
                scope.spawn(move || role.work(load, phase).map(|answer| (name, answer)))
            };
            let working: Vec<_> = named.map(start).collect();
            let panicked = |_| Err(LabError::new("a role panicked"));
            working.into_iter().map(|role| role.join().unwrap_or_else(panicked)).collect()
        });
        let roles = done.into_iter().collect::<Result<_, _>>()?;
        let cpu_ns = ns_of(ClockId::ProcessCPUTime) - cpu_before;
        let end_ns = now_ns();
        Ok(Answer { phase: order.phase, begin_ns, end_ns, cpu_ns, counts: self.counts(), roles })
    }

    /// Returns what became of the launches, where there are XQueues.
    fn counts(&self) -> Option<Counts> {
        let each = self.roles.values().filter_map(Role::stats);
        let of = |stats: Stats| Counts {
            scheduled: stats.submitted,
            holds: stats.hold_latency.count(),
            ..Counts::default()
        };
        each.map(of).reduce(|mut all, one| {
            all.add(one);
            all
        })
    }
}

/// A hardware queue, past XSched.
fn stream(device: &HostDevice) -> Result<Sink, LabError> {
    let halves = device.clone().open(QueueId::new(0, 0), ()).map_err(LabError::new)?;
    Ok(Sink::plain(halves))
}

/// The scheduler, with the policy that the environment names.
fn scheduler(device: &HostDevice) -> Result<(Runtime, Device<HostDevice>), LabError> {
    let name = env::var(POLICY).unwrap_or_else(|_| DEFAULT_POLICY.to_owned());
    let policy: Any = name.parse().map_err(LabError::new)?;
    let runtime = Runtime::new(policy).map_err(LabError::new)?;
    if let Some(k) = env::var(K).ok().and_then(|k| k.parse().ok()) {
        let hint = PolicyHint::k(k).map_err(LabError::new)?;
        runtime.hint_policy(hint).map_err(LabError::new)?;
    }
    let device = runtime.device(device.clone()).map_err(LabError::new)?;
    Ok((runtime, device))
}

/// An XQueue for a role, which counts as a process of its own.
fn queue(device: &Device<HostDevice>, role: &RoleSpec, number: u64) -> Result<Sink, LabError> {
    let process = ProcessId(u32::try_from(number).unwrap_or(u32::MAX));
    let mut config = XQueueConfig::default()
        .with_name(role.name.as_str())
        .with_hints(hints(role)?)
        .with_process(process);
    if let Some(threshold) = setting(role, "threshold") {
        config = config.with_window(WindowConfig::fixed(threshold, (threshold / 2).max(1)));
    }
    if let Some(level) = setting(role, "level").and_then(Level::from_number) {
        config = config.with_level(level);
    }
    device.queue(config, ()).map(Sink::Queue).map_err(LabError::new)
}

/// A number among the settings of a role.
fn setting<T: FromStr>(role: &RoleSpec, name: &str) -> Option<T> {
    role.options.get(name)?.to_string().parse().ok()
}

fn hints(role: &RoleSpec) -> Result<Hints, LabError> {
    let ms = |ms: f64| xsched_core::time::Duration::from_ns((ms * 1e6) as u64);
    let mut hints = Hints::with_priority(Priority::new(role.priority).map_err(LabError::new)?);
    if let Some(percent) = role.share {
        hints.set_utilization(percent).map_err(LabError::new)?;
        hints.set_weight(u32::from(percent.max(1))).map_err(LabError::new)?;
    }
    if let Some(deadline_ms) = role.deadline_ms {
        hints.set_deadline(ms(deadline_ms)).map_err(LabError::new)?;
    }
    if let Some(laxity_ms) = setting(role, "laxity_ms") {
        let (lax_priority, critical_priority) = (hints.priority, Priority::MAX);
        let laxity = Laxity { lax: ms(laxity_ms), lax_priority, critical_priority };
        hints.set_laxity(laxity).map_err(LabError::new)?;
    }
    Ok(hints)
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{Load, Ready};
    use super::*;

    fn spec(way: &str) -> Spec {
        let role = |name: &str, priority| RoleSpec {
            name: name.to_owned(),
            work: "bert-base".to_owned(),
            batch: 1,
            priority,
            share: Some(50),
            deadline_ms: Some(10.0),
            options: [("laxity_ms".to_owned(), json!(5.0))].into_iter().collect(),
            ..RoleSpec::default()
        };
        Spec {
            version: VERSION,
            device: "host".to_owned(),
            seed: 1,
            quick: true,
            steps: false,
            way: way.to_owned(),
            roles: vec![role("high", 10), role("low", -10)],
        }
    }

    #[test]
    fn roles_work_alone_and_beside_each_other_in_both_ways() {
        for way in ["native", "xsched"] {
            let mut program = Program::open(&spec(way)).unwrap();
            let ready: Ready = serde_json::from_value(program.ready.clone()).unwrap();
            let needs = &ready.roles["high"];
            let lengths: u64 = needs.kernels_ns.iter().sum();
            assert!(ready.ready && needs.request_ns >= lengths / 2, "{needs:?}");
            let closed = Load::Closed { pause_ms: 1.0, jitter_ms: 0.1, requests: None };
            let endless = Load::Endless { in_flight: 2 };
            let load = [("high".to_owned(), closed), ("low".to_owned(), endless)].into();
            let answer = program.phase(&Order { phase: 3, part: 0, seconds: 0.1, load }).unwrap();
            assert_eq!((answer.phase, answer.roles.len()), (3, 2));
            assert!(answer.cpu_ns > 0 && answer.end_ns > answer.begin_ns);
            let is_scheduled = |counts: Counts| counts.scheduled > 0 && counts.holds > 0;
            assert_eq!(answer.counts.is_some_and(is_scheduled), way == "xsched", "{answer:?}");
            for role in answer.roles.values() {
                assert!(!role.begin_ns.is_empty() && role.begin_ns.len() == role.end_ns.len());
                assert!(role.end_ns.iter().all(|&end| end <= answer.end_ns));
            }
        }
    }

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        let mut program = Program::open(&spec("native")).unwrap();
        let load = [("none".to_owned(), Load::Endless { in_flight: 1 })].into();
        let error = program.phase(&Order { phase: 1, part: 0, seconds: 0.1, load }).unwrap_err();
        assert_eq!(error.to_string(), "no role is called none");
        let forever = Order { phase: 1, part: 0, seconds: f64::INFINITY, load: [].into() };
        assert!(program.phase(&forever).is_err());
    }
}
