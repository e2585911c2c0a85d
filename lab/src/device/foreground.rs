//! A foreground task that is run again and again.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched_core::rng::SplitMix64;

use super::processes::BackgroundProcess;
use super::task::Runner;
use super::{BenchDevice, LabError};
use crate::pace::Pace;

/// How a foreground task is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Foreground {
    /// Commands of a run.
    pub(crate) commands: u32,
    /// Device time of each, in nanoseconds.
    pub(crate) command_ns: u64,
    /// Pauses between runs are drawn evenly from this range, in nanoseconds.
    pub(crate) pause_ns: (u64, u64),
    /// Runs that are measured.
    pub(crate) samples: u32,
}

/// Runs before the first that is measured, and for how long there are more than one.
const WARM_UP: u32 = 10;
/// See above.
const WARM_UP_TIME: Duration = Duration::from_millis(500);

impl Foreground {
    /// Runs it, and takes the time of each run in nanoseconds. A background in another process is
    /// held meanwhile. There are fewer runs than asked for if the share of the bench's time that
    /// ends with `part` is used up.
    pub(crate) fn measure<B: BenchDevice>(
        &self,
        bench: &B,
        runner: &mut Runner<B>,
        random: &mut SplitMix64,
        victim: Option<&BackgroundProcess>,
        (pace, part): (&Pace<'_>, f64),
    ) -> Result<Vec<u64>, LabError> {
        let command = bench.command(self.command_ns, 1)?;
        let mut times = Vec::with_capacity(self.samples as usize);
        let (began, mut warm) = (Instant::now(), 0);
        while times.len() < self.samples as usize && pace.wants_more(times.len(), part) {
            let (least, most) = self.pause_ns;
            let pause = least + random.below((most - least).max(1));
            thread::sleep(Duration::from_nanos(pause));
            let start = Instant::now();
            victim.inspect(|victim| victim.hold());
            let ran = runner.run(&command, self.commands);
            victim.inspect(|victim| victim.release());
            let took = start.elapsed();
            ran?;
            if warm < WARM_UP && (warm == 0 || began.elapsed() < WARM_UP_TIME) {
                warm += 1;
                continue;
            }
            warm = WARM_UP;
            times.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(times)
    }
}
