//! Where the word is best that a stream waits for, what calls return while a stream is held, and
//! which streams a hold stops besides its own: on HIP.
//!
//! What is found is not judged here but written down, with each moment.

mod firsts;
mod rings;
mod words;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched_hal_hip::{HipApi, HipNative};
use xsched_hal_stream::{SpinApi, Stamps, StreamApi};

use crate::device::gpu::Hip;
use crate::device::kfd::DriverAccess;
use crate::device::{BenchDevice, Described, LabError};
use crate::kernels::{BareStream, PlacedWord};
use crate::pace::Pace;
use crate::stats::ns_of;

pub(crate) use firsts::First;
pub(crate) use rings::{Rings, Stream};
pub(crate) use words::Row;

/// A call that waits longer while a stream is held waits for that stream.
const BLOCKED: Duration = Duration::from_millis(300);
/// A wait that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const POLL_DELAY: Duration = Duration::from_micros(10);

/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Trials for each place.
    pub(crate) trials: u32,
    /// Calls of each kind, while a stream is open and while it is held.
    pub(crate) calls: u32,
    /// Streams of normal priority. The runtime gives them 4 rings unless it is told otherwise.
    pub(crate) shared: u32,
    /// Streams with rings of their own.
    pub(crate) own: u32,
}

/// Figures of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// Form in which the runtime waits for a word.
    pub(crate) lowering: String,
    /// Waits for words in each place.
    pub(crate) words: Vec<Row>,
    /// Calls while a stream is held.
    pub(crate) firsts: Vec<First>,
    /// Streams that hold each other.
    pub(crate) rings: Option<Rings>,
    /// Parts that were not done, and why.
    pub(crate) left_out: Vec<(String, String)>,
    /// Why not everything was done, if so: a stream that could not be let go keeps all others
    /// waiting.
    pub(crate) stopped: Option<String>,
}

/// Runs all parts. `pace` is told the share that is done.
pub(crate) fn run(
    hip: &Hip,
    below: &DriverAccess,
    plan: &Plan,
    pace: &Pace<'_>,
) -> Result<Results, LabError> {
    if let Some(why) = hip.api().no_waits() {
        return Err(LabError::new(why));
    }
    let mut outcome = Results {
        device: hip.describe(),
        plan: plan.clone(),
        lowering: format!("{:?}", hip.api().lowering()),
        words: Vec::new(),
        firsts: Vec::new(),
        rings: None,
        left_out: Vec::new(),
        stopped: None,
    };
    // What may end with a stream that cannot be let go comes last.
    let done = all(hip, below, plan, &mut outcome, pace);
    outcome.stopped = done.err().map(|why| why.to_string());
    Ok(outcome)
}

fn all(
    hip: &Hip,
    below: &DriverAccess,
    plan: &Plan,
    outcome: &mut Results,
    pace: &Pace<'_>,
) -> Result<(), LabError> {
    let rings = rings::measure(hip, below, plan)?;
    outcome.left_out.extend(
        rings
            .not_by_the_driver
            .clone()
            .map(|why| ("holding streams by the driver".to_owned(), why)),
    );
    outcome.rings = Some(rings);
    pace.show(0.2);
    firsts::measure(hip, plan.calls, &mut outcome.firsts)?;
    pace.show(0.4);
    words::measure(hip, plan.trials, &mut outcome.words, pace)
}

/// A kernel of one work-item that writes down when it ran.
#[derive(Debug)]
struct Witness {
    stamps: Stamps<HipApi>,
    command: HipNative,
}

impl Witness {
    fn new(api: &Arc<HipApi>) -> Result<Self, LabError> {
        let stamps = Stamps::new(Arc::clone(api), 1).map_err(LabError::new)?;
        let command = stamps.kernel(0, (1, 1), 0).map_err(LabError::new)?;
        Ok(Self { stamps, command: HipApi::native(command) })
    }

    /// The device's clock when it last began; 0 if it never has.
    fn at_ns(&self) -> u64 {
        self.stamps.start_ns(0)
    }

    /// Waits until it has run since it said `before`. How long that took.
    fn since(&self, before: u64, patience: Duration) -> Option<Duration> {
        let start = Instant::now();
        while self.at_ns() == before {
            if start.elapsed() > patience {
                return None;
            }
            thread::sleep(POLL_DELAY);
        }
        Some(start.elapsed())
    }
}

/// A word that holds streams, with a stream to write it by.
#[derive(Debug)]
struct Gate {
    word: PlacedWord,
    writer: BareStream,
}

impl Gate {
    fn close(&self) -> Result<(), LabError> {
        self.set(1)?;
        if self.word.place().is_host_visible() {
            return Ok(());
        }
        self.writer.synchronize().map_err(LabError::new)
    }

    fn open(&self) -> Result<(), LabError> {
        self.set(0)
    }

    fn set(&self, value: u32) -> Result<(), LabError> {
        self.writer.write(&self.word, value).map_err(LabError::new)
    }
}

fn since_ns(origin: Instant) -> u64 {
    ns_of(origin.elapsed())
}
