//! Two machines under test, driven by bytes. Each byte string is decoded into a configuration and a
//! sequence of operations; whatever the bytes, every difference between the real machine and a
//! slow, obvious model is a defect of one of them. A run depends on nothing but its bytes, and
//! ends.
//!
//! [`queue_machine`] puts one [`Queue`](xsched_core::queue::Queue) on a model device and lets
//! applications, the scheduler, the device and the driver do whatever they may do, faults and
//! nonsense included. [`scheduler_machine`] puts several such queues under one
//! [`Scheduler`](xsched_core::scheduler::Scheduler), with messages that are late, merged or
//! repeated. Both end with a phase in which everything works and everything submitted has to
//! retire.
//!
//! So that the comparison is known to compare, each machine can be run with a [`QueueMutant`] or a
//! [`SchedulerMutant`]: a deliberate defect that it has to notice.

/// Declares the deliberate defects of a machine, which show that the comparison compares.
macro_rules! mutants {
    ($name:ident: $(#[doc = $doc:literal] $mutant:ident,)+) => {
        /// A deliberate defect, to show that the comparison compares.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            /// None: the machine as it is.
            None,
            $(#[doc = $doc] $mutant,)+
        }

        impl $name {
            /// All defects.
            pub const ALL: &[Self] = &[$(Self::$mutant),+];
        }
    };
}

mod bytes;
mod device;
mod queue;
mod queue_checks;
mod queue_model;
mod queue_ops;
mod scheduler;
mod scheduler_model;
mod scheduler_ops;

use std::collections::BTreeMap;
use std::fmt;

pub use queue::{QueueMutant, run_queue};
pub use scheduler::{SchedulerMutant, run_scheduler};

use xsched_core::check::Violation;

/// Bytes as the life of one queue.
///
/// # Panics
/// If the queue does something that the model does not, or breaks an invariant.
pub fn queue_machine(data: &[u8]) {
    if let Err(difference) = run_queue(data, QueueMutant::None) {
        panic!("{difference}");
    }
}

/// Bytes as the life of a scheduler and its queues.
///
/// # Panics
/// If the scheduler decides something that the model does not, or breaks an invariant.
pub fn scheduler_machine(data: &[u8]) {
    if let Err(difference) = run_scheduler(data, SchedulerMutant::None) {
        panic!("{difference}");
    }
}

/// How the machine differs from the model, or which invariant it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference(String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Difference {}

impl From<Violation> for Difference {
    fn from(violation: Violation) -> Self {
        Self(format!("invariant broken: {violation}"))
    }
}

/// Result of a step of a run.
type Checked<T = ()> = Result<T, Difference>;

/// The model and the machine must agree on `what`.
fn same<T: PartialEq + fmt::Debug>(what: impl fmt::Display, model: T, machine: T) -> Checked {
    if model == machine {
        return Ok(());
    }
    Err(Difference(format!("{what}: the model says {model:?}, the machine {machine:?}")))
}

/// Something that must hold.
fn require(holds: bool, what: impl fmt::Display) -> Checked {
    if holds { Ok(()) } else { Err(Difference(what.to_string())) }
}

/// Last events of a run, for the message about a difference.
#[derive(Debug, Default)]
struct Log {
    on: bool,
    lines: Vec<String>,
}

impl Log {
    /// Lines in a message.
    const SHOWN: usize = 60;

    const fn on() -> Self {
        Self { on: true, lines: Vec::new() }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.on {
            self.lines.push(line());
        }
    }

    fn explain(&self, difference: &Difference) -> Difference {
        let from = self.lines.len().saturating_sub(Self::SHOWN);
        Difference(format!("{difference}\nbefore that:\n{}", self.lines[from..].join("\n")))
    }
}

/// How often something worth knowing happened in a run. A check that never sees a replay checks
/// none.
#[derive(Clone, Debug, Default)]
pub struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Returns what happened, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(&what, &times)| (what, times))
    }
}
