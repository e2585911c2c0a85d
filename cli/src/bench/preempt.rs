//! Holds a busy queue again and again, and takes the times.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xsched::core::level::Level;
use xsched::core::message::HoldState;
use xsched::core::rng::SplitMix64;
use xsched::core::window::WindowConfig;
use xsched::policies::fcfs::Fcfs;
use xsched::{Runtime, XQueue, XQueueConfig};
use xsched_hal_host::{Busy, HostCommand, HostConfig, HostDevice, Witness};

use crate::error::CliError;

/// Device time of a command, in nanoseconds.
const COMMAND_NS: u64 = 500_000;
/// Commands in flight, each with a marker, so that the window is full whenever it can be.
pub(super) const THRESHOLD: u32 = 8;
/// Commands that the victim is given ahead.
const BACKLOG: u64 = 64;
/// The victim runs for so many commands between two holds, and up to as many more.
const RUN: u64 = 2;
/// What has not changed for so long does not change any more.
const SETTLED: Duration = Duration::from_millis(1);
/// Between two looks, so that looking costs no processor.
const NAP: Duration = Duration::from_micros(20);
/// A wait that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the moments of the holds follow from.
pub(super) const SEED: u64 = 1;

/// A queue that always has work, and its witness.
#[derive(Debug)]
pub(super) struct Subject {
    queue: XQueue<HostCommand>,
    command: HostCommand,
    witness: Arc<Witness>,
}

/// The times of one level, one per sample, all in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Number of the level, 1 to 3.
    pub(super) level: u8,
    /// From the hold to the last instruction of the victim.
    pub(super) quiet_ns: Vec<u64>,
    /// From the hold until the runtime says that it is in effect.
    pub(super) detect_ns: Vec<u64>,
    /// From the end of the hold to the next instruction of the victim.
    pub(super) restart_ns: Vec<u64>,
}

impl Subject {
    /// A queue on a new host device with one compute unit.
    ///
    /// # Errors
    /// If the device or the runtime refuses.
    pub(super) fn new() -> Result<Self, CliError> {
        let witness = Arc::new(Witness::default());
        let command = Busy::calibrate().witnessed(COMMAND_NS, &witness);
        let runtime = Runtime::new(Fcfs).map_err(CliError::device)?;
        let device = HostDevice::new(HostConfig { compute_units: 1, ..HostConfig::default() });
        let device = runtime.device(device.map_err(CliError::device)?).map_err(CliError::device)?;
        let window = WindowConfig::fixed(THRESHOLD, 1);
        let config = XQueueConfig { window, ..XQueueConfig::default() };
        let queue = device.queue(config, ()).map_err(CliError::device)?;
        Ok(Self { queue, command, witness })
    }

    /// Device time of a command as the device has measured it, in nanoseconds; as configured before
    /// the first has retired.
    pub(super) fn command_ns(&self) -> u64 {
        let stats = self.queue.stats();
        let busy_ns = u64::try_from(stats.busy.as_nanos()).unwrap_or(u64::MAX);
        busy_ns.checked_div(stats.retired).unwrap_or(COMMAND_NS)
    }

    /// Holds the queue `samples` times at random moments. `progress` gets the share that is done.
    ///
    /// # Errors
    /// If the device or the runtime refuses or hangs.
    pub(super) fn measure(
        &self,
        level: Level,
        samples: u64,
        progress: &dyn Fn(f64),
    ) -> Result<Times, CliError> {
        let mut random = SplitMix64::new(SEED);
        let mut times = Times { level: level.number(), ..Times::default() };
        for n in 0..samples {
            self.refill()?;
            let run_ns = RUN * COMMAND_NS;
            thread::sleep(Duration::from_nanos(run_ns + random.below(run_ns)));
            self.sample(level, &mut times)?;
            progress((n + 1) as f64 / samples as f64);
        }
        Ok(times)
    }

    /// Gives the victim commands for a while, and waits until it runs.
    fn refill(&self) -> Result<(), CliError> {
        let stats = self.queue.stats();
        for _ in stats.submitted.saturating_sub(stats.retired)..BACKLOG {
            let ticket = self.queue.submit(self.command.clone());
            ticket.map_err(|_| CliError::device("the device was lost"))?;
        }
        let stamps = self.witness.stamps();
        until("the victim did not run", || (self.witness.stamps() > stamps).then_some(()))
    }

    /// One hold and its end.
    fn sample(&self, level: Level, times: &mut Times) -> Result<(), CliError> {
        let held_ns = Witness::now_ns();
        self.queue.hold(level);
        let since = |start_ns: u64| Witness::now_ns().saturating_sub(start_ns);
        let detect_ns = until("the hold did not come into effect", || {
            let held = matches!(self.queue.stats().hold, HoldState::Held(deep) if deep >= level);
            held.then(|| since(held_ns))
        })?;
        let last_ns = self.settle(level)?;

        self.witness.arm();
        let resumed_ns = Witness::now_ns();
        self.queue.resume();
        let first_ns = until("the victim did not go on", || self.witness.first_ns())?;
        times.quiet_ns.push(last_ns.saturating_sub(held_ns));
        times.detect_ns.push(detect_ns);
        times.restart_ns.push(first_ns.saturating_sub(resumed_ns));
        Ok(())
    }

    /// Waits until the victim runs no more. When it last ran.
    fn settle(&self, level: Level) -> Result<u64, CliError> {
        let mut last = (self.witness.stamps(), Instant::now());
        until("the victim did not stop", || {
            let stamps = self.witness.stamps();
            // The victim may have lost its processor for a while, so silence alone says little.
            let runs = match level {
                Level::Block => {
                    let stats = self.queue.stats();
                    stats.launched > stats.retired
                }
                Level::Deactivate => self.witness.is_inside(),
                Level::Interrupt => false,
            };
            if stamps != last.0 || runs {
                last = (stamps, Instant::now());
            }
            (last.1.elapsed() >= SETTLED).then(|| self.witness.last_ns())
        })
    }
}

/// Looks now and then until there is an answer.
fn until<T>(complaint: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, CliError> {
    let start = Instant::now();
    loop {
        if let Some(answer) = look() {
            return Ok(answer);
        }
        if start.elapsed() > PATIENCE {
            return Err(CliError::device(complaint));
        }
        thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_gives_as_many_times_as_samples() {
        let subject = Subject::new().unwrap();
        for level in Level::ALL {
            let times = subject.measure(level, 3, &|_| {}).unwrap();
            let counts = [&times.quiet_ns, &times.detect_ns, &times.restart_ns].map(Vec::len);
            assert_eq!((times.level, counts), (level.number(), [3; 3]));
        }
        assert!(subject.command_ns() > 0);
    }

    #[test]
    fn nothing_runs_once_an_interrupt_is_in_effect() {
        let times = Subject::new().unwrap().measure(Level::Interrupt, 20, &|_| {}).unwrap();
        let after = times.quiet_ns.iter().zip(&times.detect_ns).filter(|(q, d)| q > d);
        assert_eq!(after.count(), 0, "{times:?}");
    }
}
