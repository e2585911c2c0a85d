//! The description of the device under test, which a backend's author implements.

use std::time::Duration;

use xsched_core::hal::{Backend, Submit};
use xsched_core::level::Level;

use crate::log::Note;

/// The launching half of a subject's backend.
pub type SubmitOf<S> = <<S as Subject>::Backend as Backend>::Submit;
/// The half of a subject's backend that sees completions.
pub type RetireOf<S> = <<S as Subject>::Backend as Backend>::Retire;
/// The half of a subject's backend that preempts.
pub type PreemptOf<S> = <<S as Subject>::Backend as Backend>::Preempt;

/// Work of a command under test.
#[derive(Clone, Debug)]
pub enum Work {
    /// Ends as soon as possible and notes nothing.
    Empty,
    /// Takes this much device time or more, and notes start, progress and end: see [`Note`].
    Timed {
        /// Device time in nanoseconds.
        ns: u64,
        /// The command's place in the log.
        note: Note,
    },
    /// Fails on the device and notes nothing.
    Failing,
}

/// Claims of a backend about the device under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The level that its queues have.
    pub level: Level,
    /// Commands of different queues that may run at once. At least 1.
    pub units: u32,
    /// Device time, in nanoseconds, for which a command can surely be seen running. Checks use
    /// commands from a fraction of it to 320 times as long.
    pub unit_ns: u64,
    /// An interrupt stops a running command. If false it may wait for its end.
    pub stops_commands: bool,
    /// The least share of commands' device time that is reported as busy, in permille. 0 if the
    /// device cannot measure.
    pub busy_permille: u32,
    /// The reported busy time leaves out time for which commands of other queues had the device.
    /// If false, a queue's reported time may include time for which another queue had the device.
    pub busy_alone: bool,
    /// The number of queues that can be open at once, or `None` if there is no limit worth testing.
    pub queues_max: Option<u32>,
}

impl Claims {
    /// Claims with one unit, a time unit of 300 µs, commands that are stopped at Lv3, nine tenths
    /// of the time reported, and any number of queues.
    #[must_use]
    pub const fn at(level: Level) -> Self {
        Self {
            level,
            units: 1,
            unit_ns: 300_000,
            stops_commands: matches!(level, Level::Interrupt),
            busy_permille: 900,
            busy_alone: true,
            queues_max: None,
        }
    }
}

/// A device under test.
pub trait Subject: Send + Sync + 'static {
    /// A command.
    type Command: Clone + Send + Sync + 'static;
    /// The backend.
    type Backend: Backend<
            Submit: Submit<Payload = Self::Command> + Send + 'static,
            Retire: Send + 'static,
            Preempt: Send + 'static,
        > + Send
        + 'static;

    /// Claims of the backend about this device.
    fn claims(&self) -> Claims;

    /// Opens the device anew. Each check does so once.
    ///
    /// # Errors
    /// The reason, as text, if it cannot be opened. The check fails then.
    fn device(&self) -> Result<Self::Backend, String>;

    /// The configuration for a queue. May depend on the device, to make a stream on it, say.
    fn config(&self, device: &mut Self::Backend) -> <Self::Backend as Backend>::Config;

    /// A command that does `work`, or `None` if there is no way to have one. [`Work::Empty`] is
    /// needed by all checks; without [`Work::Timed`] most are skipped.
    fn command(&self, work: Work) -> Option<Self::Command>;

    /// How often the device has been preempted so far, for backends that stage steps: what is
    /// committed together should count once. `None` if that cannot be said.
    fn preemptions(&self, device: &Self::Backend) -> Option<u64> {
        let _ = device;
        None
    }

    /// A device that takes longer for anything counts as hanging.
    fn patience(&self) -> Duration {
        Duration::from_secs(20)
    }

    /// For how long a check watches that nothing happens.
    fn settle(&self) -> Duration {
        Duration::from_millis(3)
    }

    /// For how long after a hold step a command may still start, because the device had looked just
    /// before and has not gone on. Checks of what is quiet wait for this time first. More than zero
    /// only for a device that is emulated by threads, which may lose their processor in between.
    fn start_lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Rounds of the checks that repeat something. They end after 8,000 rounds, or 0.5 s, in
    /// any case.
    fn rounds(&self) -> u32 {
        5_000
    }

    /// The seed of random choices: `XSCHED_SEED` in the environment, or 1.
    fn seed(&self) -> u64 {
        let seed = std::env::var("XSCHED_SEED").ok();
        seed.and_then(|text| text.parse().ok()).unwrap_or(1)
    }
}
