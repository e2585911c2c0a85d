//! All policies in one type, chosen by name.

use core::fmt;
use core::str::FromStr;

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

use crate::fcfs::Fcfs;
use crate::hpf::Hpf;

/// Any of the policies of this crate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Any {
    /// No scheduling.
    Fcfs(Fcfs),
    /// Highest priority first.
    Hpf(Hpf),
}

impl Any {
    /// The accepted names, for messages. Parsing ignores case.
    pub const NAMES: &[&str] = &["fcfs", "hpf"];

    fn get(&self) -> &dyn Policy {
        match self {
            Self::Fcfs(policy) => policy,
            Self::Hpf(policy) => policy,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Policy {
        match self {
            Self::Fcfs(policy) => policy,
            Self::Hpf(policy) => policy,
        }
    }
}

impl FromStr for Any {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        if name.eq_ignore_ascii_case("fcfs") {
            Ok(Self::Fcfs(Fcfs))
        } else if name.eq_ignore_ascii_case("hpf") {
            Ok(Self::Hpf(Hpf))
        } else {
            Err(UnknownPolicy)
        }
    }
}

/// There is no policy of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown policy; known are")?;
        for (i, name) in Any::NAMES.iter().enumerate() {
            write!(f, "{} {name}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownPolicy {}

impl Policy for Any {
    fn name(&self) -> &'static str {
        self.get().name()
    }
    fn holds(&self) -> bool {
        self.get().holds()
    }
    fn progress_every(&self) -> Option<Duration> {
        self.get().progress_every()
    }
    fn configure(&mut self, hint: PolicyHint) -> bool {
        self.get_mut().configure(hint)
    }
    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.get_mut().observe(now, queue, event, queues);
    }
    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        self.get_mut().decide(now, changed, queues, out);
    }
}
