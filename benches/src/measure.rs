//! Taking times.

use std::time::Duration;

use criterion::Criterion;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// Processor time of this thread so far. Unlike the time on the wall it does not run while another
/// program has the processor, so what else the machine does disturbs it little. Where the system
/// cannot tell, it is the time on the wall.
#[must_use]
pub fn cpu_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        // The time of a thread is never negative.
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::LazyLock<std::time::Instant> =
            std::sync::LazyLock::new(std::time::Instant::now);
        START.elapsed()
    }
}

/// Processor time of the whole process so far; where the system cannot tell, the time on the wall.
#[must_use]
pub fn process_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        // The time of a process is never negative.
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    }
    #[cfg(not(unix))]
    cpu_time()
}

/// [`cpu_time`] for criterion.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        cpu_time()
    }

    fn end(&self, start: Duration) -> Duration {
        cpu_time() - start
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        // A time is a time.
        WallTime.formatter()
    }
}

/// Criterion with processor times, little patience and what the command line says.
#[must_use]
pub fn criterion() -> Criterion<CpuTime> {
    Criterion::default()
        .with_measurement(CpuTime)
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args()
}

/// The times of several runs of the same work, per unit of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Nanoseconds per unit, ascending.
    sorted: Vec<f64>,
}

impl Times {
    /// Runs the work this many times. It says how many units it did.
    pub fn of(runs: usize, mut work: impl FnMut() -> u64) -> Self {
        let [times] = Self::in_turn(runs, &mut [()], |()| {
            let start = cpu_time();
            let units = work();
            (cpu_time() - start, units)
        });
        times
    }

    /// Runs several kinds of work in turn, all of them `runs` times, so that what else the machine
    /// does at some time strikes all of them. They say how long they took and how many units they
    /// did.
    pub fn in_turn<T, const N: usize>(
        runs: usize,
        kinds: &mut [T; N],
        mut work: impl FnMut(&mut T) -> (Duration, u64),
    ) -> [Self; N] {
        let mut times = [const { Vec::new() }; N];
        for _ in 0..runs.max(1) {
            for (times, kind) in times.iter_mut().zip(&mut *kinds) {
                let (time, units) = work(kind);
                times.push(time.as_nanos() as f64 / units.max(1) as f64);
            }
        }
        times.map(|mut sorted| {
            sorted.sort_unstable_by(f64::total_cmp);
            Self { sorted }
        })
    }

    /// The median; of an even number the lower one.
    #[must_use]
    pub fn median_ns(&self) -> f64 {
        self.sorted[(self.sorted.len() - 1) / 2]
    }

    /// The shortest.
    #[must_use]
    pub fn best_ns(&self) -> f64 {
        self.sorted[0]
    }

    /// The longest.
    #[must_use]
    pub fn worst_ns(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }
}

/// Millions of units per second, from nanoseconds per unit.
#[must_use]
pub fn millions_per_second(ns: f64) -> f64 {
    1e3 / ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_several_runs() {
        let times = Times { sorted: vec![1.0, 2.0, 3.0, 10.0] };
        assert_eq!((times.best_ns(), times.median_ns(), times.worst_ns()), (1.0, 2.0, 10.0));
        assert_eq!(millions_per_second(250.0), 4.0);
        assert_eq!(Times::of(3, || 5).sorted.len(), 3);
        let mut counts = [0, 0];
        let _ = Times::in_turn(4, &mut counts, |count| {
            *count += 1;
            (Duration::ZERO, 1)
        });
        assert_eq!(counts, [4, 4]);
    }
}
