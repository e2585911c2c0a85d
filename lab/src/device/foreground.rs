//! A foreground task that is run again and again.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched_core::rng::SplitMix64;

use super::processes::BackgroundProcess;
use super::task::Runner;
use super::{BenchDevice, LabError};

/// How a foreground task is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreground {
    /// Commands of a run.
    pub commands: u32,
    /// Device time of each, in nanoseconds.
    pub command_ns: u64,
    /// Pauses between runs are drawn evenly from this range, in nanoseconds.
    pub pause_ns: (u64, u64),
    /// Runs that are measured.
    pub samples: u32,
}

/// Runs before the first that is measured.
const WARM_UP: u32 = 10;

impl Foreground {
    /// Runs it, and takes the time of each run in nanoseconds. A background in another process is
    /// held meanwhile.
    ///
    /// # Errors
    /// If the device refuses or a command fails.
    pub fn measure<B: BenchDevice>(
        &self,
        bench: &B,
        runner: &mut Runner<B>,
        random: &mut SplitMix64,
        victim: Option<&BackgroundProcess>,
    ) -> Result<Vec<u64>, LabError> {
        let command = bench.command(self.command_ns, 1)?;
        let mut times = Vec::with_capacity(self.samples as usize);
        for n in 0..WARM_UP + self.samples {
            let (least, most) = self.pause_ns;
            let pause = least + random.below((most - least).max(1));
            thread::sleep(Duration::from_nanos(pause));
            let start = Instant::now();
            victim.inspect(|victim| victim.hold());
            let ran = runner.run(&command, self.commands);
            victim.inspect(|victim| victim.release());
            let took = start.elapsed();
            ran?;
            if n >= WARM_UP {
                times.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        Ok(times)
    }
}
