//! How cells are made: the same roles in several ways.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::plan::{CellPlan, Hal, InTurns, LoadPlan, ProcessPlan, Program, RolePlan, Way};
use super::super::protocol::{Load, RoleSpec};
use super::Setting;

/// Factor by which times are shorter for stand-ins on the processor.
pub(super) const HOST_SCALE: f64 = 0.25;
/// Samples for a P99, and in ways that do not decide.
const SAMPLES: (u32, u32) = (1_100, 300);
/// Samples of a quick look.
const QUICK: u32 = 60;
/// Settings that only stand-ins have: programs get the same by `xsched run` and the environment.
const HOST_OPTIONS: [&str; 3] = ["threshold", "level", "laxity_ms"];
/// Why a cell is not run on the processor.
const NEEDS_GPU: &str = "needs a GPU";
/// Why a cell is not run on AMD's GPUs.
const NO_MPS: &str = "AMD's driver has no MPS";

/// Form of the roles: threads of one process, or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granularity {
    Threads,
    Processes,
}

/// A role that makes requests without a pause, of one input in single precision.
pub(super) fn role(name: &str, work: &str) -> RolePlan {
    RolePlan {
        spec: RoleSpec {
            name: name.to_owned(),
            work: work.to_owned(),
            dtype: "fp32".to_owned(),
            batch: 1,
            ..RoleSpec::default()
        },
        load: LoadPlan::Fixed(Load::Endless { in_flight: 1 }),
        load_alone: None,
    }
}

impl RolePlan {
    pub(super) fn dtype(mut self, dtype: &str) -> Self {
        dtype.clone_into(&mut self.spec.dtype);
        self
    }

    pub(super) fn batch(mut self, batch: u32) -> Self {
        self.spec.batch = batch;
        self
    }

    pub(super) fn graph(mut self, graph: bool) -> Self {
        self.spec.graph = graph;
        self
    }

    pub(super) fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = priority;
        self
    }

    pub(super) fn share(mut self, percent: u8) -> Self {
        self.spec.share = Some(percent);
        self
    }

    pub(super) fn deadline(mut self, ms: f64) -> Self {
        self.spec.deadline_ms = Some(ms);
        self
    }

    pub(super) fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.spec.options.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn load(self, load: Load) -> Self {
        Self { load: LoadPlan::Fixed(load), ..self }
    }

    pub(super) fn paused(self, pause_ms: f64) -> Self {
        self.load(Load::Closed { pause_ms, jitter_ms: pause_ms / 10.0, requests: None })
    }

    pub(super) fn endless(self, in_flight: u32) -> Self {
        self.load(Load::Endless { in_flight })
    }

    pub(super) fn busy(self, percent: f64) -> Self {
        Self { load: LoadPlan::Busy(percent), ..self }
    }

    fn scale(&mut self, by: f64) {
        for load in [Some(&mut self.load), self.load_alone.as_mut()].into_iter().flatten() {
            match load {
                LoadPlan::Fixed(Load::Closed { pause_ms, jitter_ms, .. }) => {
                    *pause_ms *= by;
                    *jitter_ms *= by;
                }
                LoadPlan::Fixed(Load::Periodic { every_ms }) => *every_ms *= by,
                LoadPlan::Fixed(Load::Poisson { per_s } | Load::Lognormal { per_s, .. }) => {
                    *per_s /= by;
                }
                LoadPlan::Fixed(Load::Endless { .. }) | LoadPlan::Busy(_) => {}
            }
        }
        if let Some(deadline_ms) = &mut self.spec.deadline_ms {
            *deadline_ms *= by;
        }
    }
}

/// Roles that are run in several ways.
#[derive(Clone, Debug)]
pub(super) struct Group {
    name: String,
    unit: Granularity,
    roles: Vec<RolePlan>,
    ways: Vec<Way>,
    alone: Vec<String>,
    has_beside: bool,
    samples: Option<u32>,
    policy: Option<&'static str>,
    program: Program,
    /// The priority of each process, where it is not that of a class.
    priorities: Vec<i32>,
    options: Vec<String>,
    environment: BTreeMap<String, String>,
    /// Variables of one process, by its number.
    variables: Vec<(usize, String, String)>,
    needs_gpu: bool,
}

impl Group {
    /// Roles of which the first is measured, alone and beside the others.
    pub(super) fn new(name: impl Into<String>, unit: Granularity, roles: Vec<RolePlan>) -> Self {
        let alone = roles.iter().map(|role| role.spec.name.clone()).collect();
        Self {
            name: name.into(),
            unit,
            roles,
            ways: vec![Way::Native, Way::Xsched],
            alone,
            has_beside: true,
            samples: None,
            policy: None,
            program: Program::Roles,
            priorities: Vec::new(),
            options: Vec::new(),
            environment: BTreeMap::new(),
            variables: Vec::new(),
            needs_gpu: false,
        }
    }

    pub(super) fn ways(self, ways: &[Way]) -> Self {
        Self { ways: ways.to_vec(), ..self }
    }

    /// Only these are measured alone.
    pub(super) fn alone(self, roles: &[&str]) -> Self {
        Self { alone: roles.iter().map(|&role| role.to_owned()).collect(), ..self }
    }

    /// Nothing is measured beside each other.
    pub(super) fn only_alone(self) -> Self {
        Self { has_beside: false, ..self }
    }

    pub(super) fn samples(self, samples: u32) -> Self {
        Self { samples: Some(samples), ..self }
    }

    pub(super) fn policy(self, policy: &'static str) -> Self {
        Self { policy: Some(policy), ..self }
    }

    pub(super) fn triton(self) -> Self {
        Self { program: Program::Triton, needs_gpu: true, ..self }
    }

    pub(super) fn priorities(self, priorities: &[i32]) -> Self {
        Self { priorities: priorities.to_vec(), ..self }
    }

    pub(super) fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    pub(super) fn variable(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.insert(name.to_owned(), value.to_string());
        self
    }

    /// A variable of the process with this number.
    pub(super) fn variable_of(mut self, process: usize, name: &str, value: impl ToString) -> Self {
        self.variables.push((process, name.to_owned(), value.to_string()));
        self
    }

    pub(super) fn needs_gpu(self, needs_gpu: bool) -> Self {
        Self { needs_gpu, ..self }
    }

    /// The cell of a way by name.
    pub(super) fn cell_name(&self, way: Way) -> String {
        format!("{}, {}", self.name, way.name())
    }

    /// Returns the cells of all ways.
    pub(super) fn cells(&self, setting: Setting) -> Vec<CellPlan> {
        self.ways.iter().map(|&way| self.cell(way, self.cell_name(way), setting)).collect()
    }

    /// Returns the cell of one way, with this name.
    pub(super) fn cell(&self, way: Way, name: String, setting: Setting) -> CellPlan {
        let mut roles = self.roles.clone();
        if setting.hal == Hal::Host {
            roles.iter_mut().for_each(|role| role.scale(HOST_SCALE));
        } else {
            let settings = roles.iter_mut().map(|role| &mut role.spec.options);
            settings.for_each(|all| HOST_OPTIONS.iter().for_each(|name| drop(all.remove(*name))));
        }
        let decides = matches!(way, Way::Native | Way::Xsched);
        let samples = if decides { SAMPLES.0 } else { SAMPLES.1 };
        let samples = self.samples.unwrap_or(samples);
        CellPlan {
            name,
            group: self.name.clone(),
            way,
            policy: self.policy,
            processes: self.processes(roles, setting.hal),
            alone: self.alone.clone(),
            has_beside: self.has_beside,
            in_turns: InTurns::Nothing,
            measured: self.roles.first().map(|role| role.spec.name.clone()).unwrap_or_default(),
            samples: if setting.quick { samples.min(QUICK) } else { samples },
            unavailable: self.unavailable(way, setting.hal).map(str::to_owned),
        }
    }

    fn processes(&self, roles: Vec<RolePlan>, hal: Hal) -> Vec<ProcessPlan> {
        let process = |roles: Vec<RolePlan>| ProcessPlan {
            program: self.program,
            roles,
            options: self.options.clone(),
            environment: self.environment.clone(),
            ..ProcessPlan::default()
        };
        let together = self.unit == Granularity::Threads || self.program == Program::Triton;
        if together || hal == Hal::Host && !self.needs_gpu {
            return vec![process(roles)];
        }
        let one = |(number, role): (usize, RolePlan)| {
            let priority = self.priorities.get(number).copied();
            let class = match role.spec.priority {
                _ if priority.is_some() => None,
                1.. => Some("interactive"),
                0 => None,
                _ => Some("batch"),
            };
            let mut plan = process(vec![]);
            let own = self.variables.iter().filter(|(of, ..)| *of == number);
            plan.environment.extend(own.map(|(_, name, value)| (name.clone(), value.clone())));
            ProcessPlan { class, priority, share: role.spec.share, roles: vec![role], ..plan }
        };
        roles.into_iter().enumerate().map(one).collect()
    }

    fn unavailable(&self, way: Way, hal: Hal) -> Option<&'static str> {
        match hal {
            Hal::Host if self.needs_gpu => Some(NEEDS_GPU),
            Hal::Host if !matches!(way, Way::Native | Way::Xsched) => Some(NEEDS_GPU),
            Hal::Hip if way.has_mps() => Some(NO_MPS),
            _ => None,
        }
    }
}
