//! The arguments.

use std::ffi::OsString;

use clap::{Args, ValueEnum, value_parser};

/// How urgent a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// Priority 100: a user waits for it.
    Interactive,
    /// Priority 0.
    Normal,
    /// Priority −100: it runs when nothing else does.
    Batch,
}

impl Class {
    /// Priority of the class.
    #[must_use]
    pub const fn priority(self) -> i32 {
        match self {
            Self::Interactive => 100,
            Self::Normal => 0,
            Self::Batch => -100,
        }
    }

    /// Name of the class, as on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Normal => "normal",
            Self::Batch => "batch",
        }
    }
}

/// How much a command says beside its results.
#[derive(Clone, Copy, Debug, Args)]
pub struct Messages {
    /// Print nothing but what is wrong.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say on standard error what is done: files that are written, programs that are run, times.
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// How programs are to be scheduled.
#[derive(Clone, Debug, Args)]
pub struct Scheduling {
    /// The priority of all its streams, by name.
    #[arg(long, value_enum, conflicts_with = "priority")]
    pub class: Option<Class>,
    /// The priority of all its streams, −256 to 255.
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = value_parser!(i32).range(-256..=255))]
    pub priority: Option<i32>,
    /// The share of the device that each of its streams gets, in percent.
    #[arg(long, value_name = "P", value_parser = value_parser!(u8).range(0..=100))]
    pub share: Option<u8>,
    /// The gang of the program: `xschedd` holds and releases the processes of a user that name the
    /// same one, such as the ranks of a job on several GPUs, together. 1 to 64 characters.
    #[arg(long, value_name = "NAME", value_parser = gang)]
    pub gang: Option<String>,
    /// The level of its XQueues at most; default streams and others that wait for each other have
    /// level 1. On AMD GPUs alone, level 3 interrupts what runs, where the driver can.
    #[arg(long, value_name = "L", default_value_t = 2, value_parser = value_parser!(u8).range(1..=3))]
    pub level: u8,
    /// Schedule the streams of the program one by one. By default a launch is made at once while
    /// nothing, such as a priority of its own, tells a stream from the others. The scheduler of the
    /// node then holds each stream by itself, on NVIDIA GPUs.
    #[arg(long)]
    pub streams: bool,
}

/// Run a CUDA or HIP program that knows nothing of XQueues, each of its streams scheduled.
///
/// This process becomes the program, with interposers in front of CUDA's driver and HIP's runtime:
/// streams get XQueues when they launch, or once something tells them apart. Where `xschedd` runs,
/// the program competes with other processes as a whole, by its class, priority or share;
/// otherwise its streams compete with each other, by their own priorities unless one is given
/// here. Programs without CUDA and HIP
/// run as they are.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Exit codes: 2 if the program cannot be run, and else the program's.")]
pub struct LaunchArgs {
    /// How it is scheduled.
    #[command(flatten)]
    pub scheduling: Scheduling,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub program: Vec<OsString>,
}

fn gang(name: &str) -> Result<String, &'static str> {
    let is_fine = (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if is_fine { Ok(name.to_owned()) } else { Err("it has 1 to 64 characters of text") }
}

impl Scheduling {
    /// As a class has it by default.
    #[must_use]
    pub const fn of_class(class: Class) -> Self {
        let (priority, share, gang, streams) = (None, None, None, false);
        Self { class: Some(class), priority, share, gang, level: 2, streams }
    }

    /// Variables of a program that the scheduler of the node schedules, whether one runs now or
    /// not, but for preloaded files.
    #[must_use]
    pub fn of_node(&self) -> Vec<(&'static str, String)> {
        let mut variables = self.variables(Some(Decider::Node));
        variables.extend(self.of_hip().map(|(name, value)| (name, value.to_owned())));
        variables
    }

    /// Variables of a program's environment that say how it is scheduled, but for preloaded files:
    /// [version](crate::CONTRACT) 1 of them. `decider` says by what, unless that is decided.
    #[must_use]
    pub fn variables(&self, decider: Option<Decider>) -> Vec<(&'static str, String)> {
        let mut variables = vec![("XSCHED_AUTO_XQUEUE", "ON".to_owned())];
        variables.extend(decider.map(|decider| match decider {
            Decider::Node => ("XSCHED_SCHEDULER", "GLB".to_owned()),
            Decider::Process if self.share.is_some() => ("XSCHED_POLICY", "up".to_owned()),
            Decider::Process => ("XSCHED_POLICY", "hpf".to_owned()),
        }));
        let number = |name, value: Option<i32>| value.map(|value| (name, value.to_string()));
        let priority = self.priority.or(self.class.map(Class::priority));
        variables.extend(number("XSCHED_AUTO_XQUEUE_PRIORITY", priority));
        variables.extend(number("XSCHED_AUTO_XQUEUE_UTILIZATION", self.share.map(i32::from)));
        variables.push(("XSCHED_AUTO_XQUEUE_LEVEL", self.level.to_string()));
        variables.extend(self.gang.clone().map(|gang| ("XSCHED_GANG", gang)));
        variables.extend(self.streams.then(|| ("XSCHED_AUTO_XQUEUE_UNIT", "streams".to_owned())));
        variables
    }

    /// Variables of HIP's runtime, unless the environment says otherwise: streams keep their
    /// hardware rings, and with level 3 the runtime does not stop and start them by itself.
    pub fn of_hip(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        let rings = (self.level > 1).then_some(("DEBUG_HIP_DYNAMIC_QUEUES", "0"));
        let reclaim = (self.level > 2).then_some(("HSA_NO_SCRATCH_RECLAIM", "1"));
        rings.into_iter().chain(reclaim)
    }
}

/// Scheduler that decides which streams run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// The scheduler of the node.
    Node,
    /// A policy in the program's process.
    Process,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_by_its_name() {
        for class in Class::value_variants() {
            assert_eq!(Class::from_str(class.name(), false), Ok(*class));
        }
    }
}
