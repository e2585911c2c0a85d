//! The devices that experiments run on, and what an experiment needs of them.

pub(crate) mod clocks;
pub(crate) mod foreground;
pub(crate) mod gpu;
pub(crate) mod hal;
pub(crate) mod hip_worker;
pub(crate) mod host;
pub(crate) mod interruptible;
pub(crate) mod kfd;
pub(crate) mod load;
pub(crate) mod mode;
pub(crate) mod processes;
pub(crate) mod task;
pub(crate) mod tenants;

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use xsched_core::hal::{Backend, Retire, Steps, Submit};
use xsched_core::level::Level;
use xsched_hal_stream::SharedPage;

/// Why an experiment came to no end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LabError(String);

impl LabError {
    /// Makes an error from what a device, or the runtime on it, refused.
    pub(crate) fn new(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// Between two looks of [`until`], so that looking costs no processor.
const POLL_DELAY: Duration = Duration::from_micros(20);

/// Looks now and then until there is an answer.
pub(crate) fn until<T>(
    patience: Duration,
    complaint: &str,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, LabError> {
    let start = Instant::now();
    loop {
        if let Some(answer) = look() {
            return Ok(answer);
        }
        if start.elapsed() > patience {
            return Err(LabError::new(format!("{complaint} within {} s", patience.as_secs())));
        }
        thread::sleep(POLL_DELAY);
    }
}

/// Device that a figure was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Described {
    /// The backend: `cuda`, `hip`, `host`.
    pub(crate) hal: &'static str,
    /// The device's name.
    pub(crate) device: String,
    /// Name and version of the driver.
    pub(crate) driver: String,
    /// Where it is.
    pub(crate) pci: String,
    /// The highest level of its queues.
    pub(crate) level: u8,
    /// Why it is no higher.
    pub(crate) no_gate: Option<String>,
    /// Entries that a queue keeps in flight.
    pub(crate) entries_max: u32,
}

/// How a queue or a stream is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct QueueParams {
    /// The highest level.
    pub(crate) level: u8,
    /// Predicted work between two gates, in nanoseconds, where the device has gates.
    pub(crate) spacing_ns: u64,
    /// With the device's most urgent priority, instead of its least.
    pub(crate) urgent: bool,
}

impl QueueParams {
    /// A queue at this level, with a gate for each command.
    pub(crate) const fn at(level: Level) -> Self {
        Self { level: level.number(), spacing_ns: 0, urgent: false }
    }

    /// The level.
    pub(crate) fn level(&self) -> Level {
        Level::from_number(self.level).unwrap_or_default()
    }
}

/// A device to experiment on.
pub(crate) trait BenchDevice: Sync {
    /// Command to launch.
    type Command: Clone + Send + Sync + 'static;
    /// The backend.
    type Backend: Backend<
            Config: Send,
            Submit: Submit<Payload = Self::Command> + Send + 'static,
            Retire: Retire + Send + 'static,
            Preempt: Steps + Send + 'static,
        > + Send
        + 'static;
    /// Commands that say when they run.
    type Victim: Victim<Command = Self::Command>;
    /// A way past the runtime.
    type Stream: PlainStream<Self::Command>;

    /// Returns the description of the device.
    fn describe(&self) -> Described;

    /// Opens the device.
    fn device(&self) -> Result<Self::Backend, LabError>;

    /// How a queue of the device is opened.
    fn config(&self, making: QueueParams) -> <Self::Backend as Backend>::Config;

    /// How a queue of the device is opened whose gate waits for a word of a page that another
    /// process has as well.
    fn config_in_page(
        &self,
        making: QueueParams,
        page: SharedPage,
        word: usize,
    ) -> Result<<Self::Backend as Backend>::Config, LabError>;

    /// A command that takes the whole device for `ns` nanoseconds, in `waves` waves of blocks
    /// one after the other, where the device has such a thing.
    fn command(&self, ns: u64, waves: u32) -> Result<Self::Command, LabError>;

    /// Commands of such lengths, one after the other, that are launched as one.
    fn graph(&self, lengths_ns: &[u64]) -> Result<Self::Command, LabError> {
        let _ = lengths_ns;
        Err(LabError::new("this device launches commands one by one"))
    }

    /// A command that does nothing.
    fn nothing(&self) -> Self::Command;

    /// Commands of `ns` nanoseconds that write down when they run.
    fn victim(&self, ns: u64) -> Result<Self::Victim, LabError>;

    /// How much longer than its bound a hold at Lv1 or Lv2 may take, in microseconds.
    fn slack_us(&self) -> f64;

    /// A stream without XSched.
    fn stream(&self, urgent: bool) -> Result<Self::Stream, LabError>;
}

/// Commands that write down when they run, for one queue.
pub(crate) trait Victim {
    /// Command to launch.
    type Command: Clone + Send + Sync + 'static;

    /// The next command.
    fn next(&mut self) -> Self::Command;

    /// Returns whether noting down the time makes its commands longer than they were asked to be.
    fn is_longer(&self) -> bool;

    /// Returns a number that is different whenever the victim has got on.
    fn marks(&self) -> u64;

    /// Returns whether a command has started and not ended.
    fn is_inside(&self) -> bool;

    /// Time after which marks that have not changed do not change any more.
    fn settled(&self) -> Duration;

    /// The host's clock, in nanoseconds from some moment.
    fn now_ns(&self) -> u64;

    /// When it last ran, by that clock, and by how much that may be off; while it does not run.
    fn last_ns(&mut self) -> Result<(u64, u64), LabError>;

    /// From now on [`Victim::first_ns`] is wanted.
    fn arm(&mut self);

    /// When it first ran since [`Victim::arm`], if it has.
    fn first_ns(&mut self) -> Option<u64>;
}

/// A stream of the vendor's, used as programs without XSched use it.
pub(crate) trait PlainStream<C>: Send {
    /// Launches a command.
    fn launch(&mut self, command: &C) -> Result<(), LabError>;

    /// Waits for everything.
    fn wait(&mut self) -> Result<(), LabError>;

    /// Launches a command when fewer than `threshold` are in flight.
    fn launch_within(&mut self, command: &C, threshold: u32) -> Result<(), LabError>;
}
