//! Hardware queues full of work, all held and let go at once.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, Halves, Retire, StepDone, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Level, Step};
use xsched_core::queue::Outcome;

use crate::device::interruptible::Interruptible;
use crate::device::load::{CheckedCounts, Load, Worker};
use crate::device::{BenchDevice, LabError, Victim};
use crate::stats::ns_of;

/// Commands in flight in each queue: one that runs and one behind it.
const IN_FLIGHT: u64 = 2;
/// A wait that only a hang exceeds. The driver itself gives up after 9 s.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const POLL_DELAY: Duration = Duration::from_micros(20);
/// Readings of a clock, of which the quickest counts.
const READINGS: usize = 9;

/// Parts of a backend's queues.
type Parts<B> = Halves<
    <<B as BenchDevice>::Backend as Backend>::Submit,
    <<B as BenchDevice>::Backend as Backend>::Retire,
    <<B as BenchDevice>::Backend as Backend>::Preempt,
>;

/// When a hold or its end was asked for, when the calls had returned, and when it was in effect, in
/// nanoseconds from the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    /// Before the first call.
    pub(crate) enter_ns: u64,
    /// After the last call.
    pub(crate) return_ns: u64,
    /// When the backend said that all of it is in effect.
    pub(crate) effect_ns: u64,
}

/// Hardware queues of one device that are held together.
pub(crate) struct Queues<K: Interruptible> {
    backend: K::Backend,
    queues: Vec<One<K>>,
    origin: Instant,
}

struct One<K: Interruptible> {
    parts: Parts<K>,
    worker: K::Worker,
    /// The worker's clock less ours, in nanoseconds.
    ahead_ns: i128,
    launched: u64,
    retired: u64,
}

impl<K: Interruptible> fmt::Debug for Queues<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").field("count", &self.queues.len()).finish_non_exhaustive()
    }
}

impl<K: Interruptible> Queues<K> {
    /// Opens `count` queues, with commands of their own for each.
    pub(crate) fn open(
        device: &K,
        mechanism: &str,
        load: Load,
        count: u32,
    ) -> Result<Self, LabError> {
        let (mut backend, origin) = (device.open(mechanism)?, Instant::now());
        let mut queues = Vec::new();
        for index in 0..count {
            let parts = backend.open(QueueId::new(index, 0), device.interruptible());
            let parts = parts.map_err(refused)?;
            if parts.caps.level < Level::Interrupt {
                return Err(LabError::new("the device's queues have no Lv3"));
            }
            let worker = device.worker(load)?;
            let ahead_ns = ahead(&worker, origin);
            queues.push(One { parts, worker, ahead_ns, launched: 0, retired: 0 });
        }
        Ok(Self { backend, queues, origin })
    }

    /// Nanoseconds from the beginning.
    pub(crate) fn now_ns(&self) -> u64 {
        ns_of(self.origin.elapsed())
    }

    /// Sees to it that each queue has work, and waits until one of them gets on.
    pub(crate) fn run(&mut self) -> Result<(), LabError> {
        let before = self.marks();
        self.refill()?;
        self.until("no victim runs", |queues| {
            queues.refill()?;
            Ok(queues.marks() != before)
        })
    }

    /// Launches what is missing.
    pub(crate) fn refill(&mut self) -> Result<(), LabError> {
        for queue in &mut self.queues {
            queue.poll()?;
            while queue.launched - queue.retired < IN_FLIGHT {
                queue.launch()?;
            }
        }
        Ok(())
    }

    /// Launches one command in each queue, and waits for it.
    pub(crate) fn run_one(&mut self) -> Result<(), LabError> {
        self.queues.iter_mut().try_for_each(One::launch)?;
        self.drain()
    }

    /// Waits for everything.
    pub(crate) fn drain(&mut self) -> Result<(), LabError> {
        self.until("the victims do not end", |queues| {
            queues.queues.iter_mut().try_for_each(One::poll)?;
            Ok(queues.queues.iter().all(|queue| queue.retired == queue.launched))
        })
    }

    /// Interrupts all queues.
    pub(crate) fn hold(&mut self) -> Result<Calls, LabError> {
        self.steps([Step::Deactivate, Step::Interrupt])
    }

    /// Lets all go on.
    pub(crate) fn resume(&mut self) -> Result<Calls, LabError> {
        self.steps([Step::Restore, Step::Reactivate])
    }

    /// Carries out two steps on each queue, the steps of all queues before anything is waited for.
    fn steps(&mut self, steps: [Step; 2]) -> Result<Calls, LabError> {
        let enter_ns = self.now_ns();
        let mut later = vec![0_u32; self.queues.len()];
        for step in steps {
            for (queue, later) in self.queues.iter_mut().zip(&mut later) {
                let gates = matches!(step, Step::Deactivate | Step::Reactivate);
                if gates && queue.parts.caps.deactivate.is_none() {
                    continue;
                }
                let done = queue.parts.preempt.step(step).map_err(fault)?;
                *later += u32::from(is_later(done)?);
            }
        }
        self.backend.commit().map_err(refused)?;
        let return_ns = self.now_ns();
        self.until("a step does not come to its end", |queues| {
            for (queue, later) in queues.queues.iter_mut().zip(&mut later) {
                if *later > 0
                    && let Some(done) = queue.parts.preempt.poll_step().map_err(fault)?
                {
                    *later -= u32::from(!is_later(done)?);
                }
            }
            Ok(later.iter().all(|&later| later == 0))
        })?;
        Ok(Calls { enter_ns, return_ns, effect_ns: self.now_ns() })
    }

    /// Returns a number that changes whenever one of the victims has got on.
    pub(crate) fn marks(&self) -> u64 {
        self.queues.iter().map(|queue| queue.worker.marks()).fold(0, u64::wrapping_add)
    }

    /// Time after which marks that have not changed do not change any more.
    pub(crate) fn settled(&self) -> Duration {
        self.queues.iter().map(|queue| queue.worker.settled()).max().unwrap_or_default()
    }

    /// Device time of the longest command, in nanoseconds.
    pub(crate) fn command_ns(&self) -> u64 {
        self.queues.iter().map(|queue| queue.worker.command_ns()).max().unwrap_or_default()
    }

    /// When one of them last ran, and by how much that may be off; while none runs.
    pub(crate) fn last_ns(&mut self) -> Result<(u64, u64), LabError> {
        let (mut last, mut unsure) = (0, 0);
        for queue in self.queues.iter_mut().filter(|queue| queue.launched > 0) {
            let (at, off) = queue.worker.last_ns()?;
            last = last.max(queue.ours(at));
            unsure = unsure.max(off);
        }
        Ok((last, unsure))
    }

    /// From now on [`Queues::first_ns`] is wanted.
    pub(crate) fn arm(&mut self) {
        for queue in &mut self.queues {
            queue.worker.arm();
        }
    }

    /// When one of them first ran since [`Queues::arm`], once that has happened.
    pub(crate) fn first_ns(&mut self) -> Result<u64, LabError> {
        let mut first = None;
        self.until("no victim goes on", |queues| {
            // On a busy machine all that was launched may have ended before the hold.
            queues.refill()?;
            let at = queues.queues.iter_mut().filter_map(|queue| {
                let at = queue.worker.first_ns()?;
                Some(queue.ours(at))
            });
            first = at.min();
            Ok(first.is_some())
        })?;
        Ok(first.unwrap_or_default())
    }

    /// Returns the results that all commands checked, and how many commands were launched.
    pub(crate) fn sums(&mut self) -> Result<(CheckedCounts, u64), LabError> {
        let (mut all, mut launched) = (CheckedCounts::default(), 0);
        for queue in &mut self.queues {
            let sums = queue.worker.sums()?;
            all.finished += sums.finished;
            all.wrong += sums.wrong;
            launched += queue.launched;
        }
        Ok((all, launched))
    }

    /// Looks now and then until it is so.
    fn until(
        &mut self,
        complaint: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, LabError>,
    ) -> Result<(), LabError> {
        let start = Instant::now();
        while !is_so(self)? {
            if start.elapsed() > PATIENCE {
                return Err(LabError::new(format!("{complaint} for {} s", PATIENCE.as_secs())));
            }
            thread::sleep(POLL_DELAY);
        }
        Ok(())
    }
}

impl<K: Interruptible> One<K> {
    fn launch(&mut self) -> Result<(), LabError> {
        let command = self.worker.next();
        let launched = self.parts.submit.launch(CmdId(self.launched), &command, true);
        launched.map_err(refused)?;
        self.launched += 1;
        Ok(())
    }

    fn poll(&mut self) -> Result<(), LabError> {
        while let Some(retired) = self.parts.retire.poll_retired().map_err(refused)? {
            if retired.outcome != Outcome::Ok {
                let why = retired.outcome;
                return Err(LabError::new(format!("a victim's command failed: {why:?}")));
            }
            self.retired = retired.upto.count();
        }
        Ok(())
    }

    /// A moment of the worker's clock by ours.
    fn ours(&self, ns: u64) -> u64 {
        u64::try_from(i128::from(ns) - self.ahead_ns).unwrap_or(0)
    }
}

/// How far a worker's clock is ahead of one that began at `origin`.
fn ahead<V: Victim>(worker: &V, origin: Instant) -> i128 {
    let reading = || {
        let before = ns_of(origin.elapsed());
        let theirs = worker.now_ns();
        let after = ns_of(origin.elapsed());
        (after - before, i128::from(theirs) - i128::from(before.midpoint(after)))
    };
    let quickest = (0..READINGS).map(|_| reading()).min();
    quickest.map_or(0, |(_, ahead)| ahead)
}

fn is_later(done: StepDone) -> Result<bool, LabError> {
    match done {
        StepDone::Later => Ok(true),
        StepDone::Now(None) => Ok(false),
        StepDone::Now(Some(_)) => {
            Err(LabError::new("the device forgets held commands, which is not measured here"))
        }
    }
}

fn fault(fault: Fault) -> LabError {
    LabError::new(format!("the device refused a step: {fault:?}"))
}

fn refused(error: impl fmt::Debug) -> LabError {
    LabError::new(format!("the device refused: {error:?}"))
}
