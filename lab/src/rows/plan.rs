//! Plan of a row: cells, the programs of each, their roles and loads.
//!
//! A figure of a cell has one of these quantities, in a prediction as in a measurement:
//!
//! | quantity | of | is |
//! |---|---|---|
//! | `alone_mean_ms`, `alone_p50_ms`, `alone_p99_ms` | role | latencies alone, in the reference |
//! | `alone_rate_per_s` | role | requests that end each second, alone |
//! | `mean_ms`, `p50_ms`, `p99_ms` | role | latencies beside the others |
//! | `mean_over_alone`, `p50_over_alone`, `p99_over_alone` | role | the same over those alone |
//! | `rate_per_s` | role, `all` | requests that end each second beside the others |
//! | `kept` | role | the rate beside the others over the rate alone |
//! | `share_percent` | role | its `kept` of the sum of all `kept` |
//! | `kept` | `all` | the sum of all `kept` |
//! | `mean_over_first` | role | the mean beside the others over that of the cell's first role |
//! | `p99_over_native` | role | P99 beside the others over that in the reference, or turn by turn |
//! | `rate_over_native` | `all` | requests of all each second over those in the reference |
//! | `max_ms` | role | the longest beside the others |
//! | `over_native` | role | P50 of what it does alone over that in the reference, turn by turn |
//! | `cores` | `all` | processors in use, those of the daemon included |
//! | `cores_over_native_percent` | `all` | cores in use more than in the reference |
//! | `window_p5_percent`, `window_p95_percent` | role | ranks of its parts in windows |
//! | `first_token_p50_over_alone`, `per_token_p50_over_alone` | role | as named |
//! | `same` | role | 1 if the results are those without XSched, else 0 |
//!
//! The reference of a cell is the cell of the same group in the way `native`, which also measures
//! what is alone. A P99 needs 1,000 samples.

use std::collections::BTreeMap;

use super::protocol::{Load, Profile, RoleSpec};

/// The device that rows are run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hal {
    /// An NVIDIA GPU.
    Cuda,
    /// An AMD GPU.
    Hip,
    /// The processor as a device, with stand-ins.
    Host,
}

impl Hal {
    /// The device of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Cuda, Self::Hip, Self::Host].into_iter().find(|hal| hal.name() == name)
    }

    /// As `--hal` takes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Host => "host",
        }
    }
}

/// How the device is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// By the device alone.
    #[default]
    Native,
    /// By the device, with stream priorities.
    Priorities,
    /// NVIDIA's MPS.
    Mps,
    /// NVIDIA's MPS with a part of the multiprocessors for each process.
    MpsPercent,
    /// XSched with its defaults, as a user gets it.
    Xsched,
    /// XSched with the processes as clients of MPS.
    MpsXsched,
    /// Triton's own priorities.
    TritonPriorities,
    /// Triton's own rate limiter.
    TritonRateLimiter,
}

impl Way {
    /// All of them; figures have the colours in this order.
    const ALL: [Self; 8] = [
        Self::Native,
        Self::Priorities,
        Self::Mps,
        Self::MpsPercent,
        Self::Xsched,
        Self::MpsXsched,
        Self::TritonPriorities,
        Self::TritonRateLimiter,
    ];

    /// Place of a way in the list of all, by its name.
    pub(crate) fn place(name: &str) -> Option<usize> {
        Self::ALL.iter().position(|way| way.name() == name)
    }

    /// As documents and programs have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Priorities => "priorities",
            Self::Mps => "mps",
            Self::MpsPercent => "mps-percent",
            Self::Xsched => "xsched",
            Self::MpsXsched => "mps+xsched",
            Self::TritonPriorities => "triton-priorities",
            Self::TritonRateLimiter => "triton-rate-limiter",
        }
    }

    /// Returns whether XSched schedules.
    pub(crate) const fn is_scheduled(self) -> bool {
        matches!(self, Self::Xsched | Self::MpsXsched)
    }

    /// Returns whether the processes are clients of MPS.
    pub(crate) const fn has_mps(self) -> bool {
        matches!(self, Self::Mps | Self::MpsPercent | Self::MpsXsched)
    }
}

/// The load of a role beside the others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LoadPlan {
    /// As it is.
    Fixed(Load),
    /// Periodic requests that alone would keep the role busy for this part of the time, in percent.
    Busy(f64),
}

impl LoadPlan {
    /// The load of a role that needs this alone.
    pub(crate) fn of(&self, profile: &Profile) -> Load {
        match self {
            Self::Fixed(load) => load.clone(),
            Self::Busy(percent) => {
                let request_ms = profile.request_ns.max(1) as f64 / 1e6;
                Load::Periodic { every_ms: request_ms * 100.0 / percent.max(0.1) }
            }
        }
    }
}

/// A role of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RolePlan {
    /// Specification that the program is told.
    pub(crate) spec: RoleSpec,
    /// Load beside the others.
    pub(crate) load: LoadPlan,
    /// Load alone, where that is another one.
    pub(crate) load_alone: Option<LoadPlan>,
}

impl RolePlan {
    /// Returns whether another role is the same but for its name and what others see of it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.load == other.load && self.has_work_of(other)
    }

    /// Returns whether a request of another role is the same.
    pub(crate) fn has_work_of(&self, other: &Self) -> bool {
        let (one, other) = (&self.spec, &other.spec);
        (&one.work, &one.dtype, one.batch, one.graph, &one.options)
            == (&other.work, &other.dtype, other.batch, other.graph, &other.options)
    }
}

/// Program of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Program {
    /// Roles with a stream each.
    #[default]
    Roles,
    /// A Triton server with a model for each role, and its clients.
    Triton,
    /// A program of its own, which the role's work names, run plain and scheduled in turns and
    /// compared: it has no phases, and nothing of it is predicted.
    Script,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProcessPlan {
    /// Program that is run.
    pub(crate) program: Program,
    /// Roles of the program.
    pub(crate) roles: Vec<RolePlan>,
    /// `interactive`, `normal` or `batch`, for `xsched run --class`.
    pub(crate) class: Option<&'static str>,
    /// Part of the device in percent, for `xsched run --share` and for MPS.
    pub(crate) share: Option<u8>,
    /// Priority, for `xsched run --priority`.
    pub(crate) priority: Option<i32>,
    /// Further options of `xsched run`, as `--level 1`.
    pub(crate) options: Vec<String>,
    /// Further variables of its environment, where XSched schedules.
    pub(crate) environment: BTreeMap<String, String>,
}

/// A combination that is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CellPlan {
    /// Name of the cell, one of its kind in the row.
    pub(crate) name: String,
    /// Cells of one group differ in their way, and have the same reference.
    pub(crate) group: String,
    /// How the device is shared.
    pub(crate) way: Way,
    /// The policy, where XSched schedules and it is not that of the default.
    pub(crate) policy: Option<&'static str>,
    /// The processes.
    pub(crate) processes: Vec<ProcessPlan>,
    /// Roles that are measured alone first.
    pub(crate) alone: Vec<String>,
    /// Set if there is anything to measure beside each other.
    pub(crate) has_beside: bool,
    /// Measurement in turns with the roles beside each other, so that the device's speed changes
    /// for both.
    pub(crate) in_turns: InTurns,
    /// The role whose samples decide how long a phase takes.
    pub(crate) measured: String,
    /// Samples that are wanted of it.
    pub(crate) samples: u32,
    /// Why it cannot be run on this device, if so.
    pub(crate) unavailable: Option<String>,
}

/// Roles that take turns with those of a cell beside each other. The reference does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InTurns {
    /// Nothing.
    #[default]
    Nothing,
    /// The role that decides, alone.
    Alone,
    /// All roles beside each other.
    All,
}

impl CellPlan {
    /// All roles, those of the first process first.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &RolePlan> {
        self.processes.iter().flat_map(|process| &process.roles)
    }
}

/// Cells to run for a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowPlan {
    /// The row, as in the test plan: `7.2.1`, or a word: `llm`.
    pub(crate) id: &'static str,
    /// Subject of the row.
    pub(crate) name: &'static str,
    /// Cells to run, in order.
    pub(crate) cells: Vec<CellPlan>,
}
