//! A device that a test has in its hand: commands complete when the test says so, or at once.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, Deactivate, ErrorType, Halves, LevelAdapter, Lv2, Preempt};
use xsched_core::hal::{Retire, StepDone, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

/// Command of the device: a number, and something with a destructor if need be.
pub(crate) struct Job {
    pub(crate) number: u64,
    #[expect(dead_code, reason = "only its destructor matters")]
    pub(crate) luggage: Option<Box<dyn Send>>,
}

impl From<u64> for Job {
    fn from(number: u64) -> Self {
        Self { number, luggage: None }
    }
}

#[derive(Default)]
pub(crate) struct Line {
    /// Numbers of the jobs launched, in order.
    pub(crate) log: Vec<u64>,
    /// Commands that the device is done with.
    pub(crate) done: u64,
    pub(crate) fenced: Vec<u64>,
    seen: u64,
    pub(crate) at_once: bool,
    pub(crate) deactivated: bool,
    /// Launches wait here while it is set, as in a driver that blocks.
    pub(crate) blocked: bool,
    pub(crate) inside: bool,
    pub(crate) refuse: Option<u64>,
    /// Launching this job panics.
    pub(crate) panic: Option<u64>,
    pub(crate) fail: Option<u64>,
    /// Dropping one of the halves panics.
    pub(crate) panic_in_drop: bool,
    pub(crate) lost: bool,
    pub(crate) most_in_flight: u64,
    /// Another scheduler holds what is in flight.
    pub(crate) held_by_others: bool,
    /// The half touches nothing until the next launch.
    pub(crate) sealed: bool,
    /// Answer whether a held queue is quiet.
    pub(crate) quiet: Option<bool>,
}

#[derive(Default)]
pub(crate) struct Hand {
    line: Mutex<Line>,
    changed: Condvar,
}

impl Hand {
    pub(crate) fn at_once() -> Arc<Self> {
        let hand = Self::default();
        hand.get().at_once = true;
        Arc::new(hand)
    }

    pub(crate) fn get(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap()
    }

    /// Completes everything up to this many commands.
    pub(crate) fn complete(&self, count: u64) {
        let mut line = self.get();
        line.done = line.done.max(count);
    }

    pub(crate) fn block(&self, on: bool) {
        self.get().blocked = on;
        self.changed.notify_all();
    }
}

/// Opens the hardware queue that the test passes as configuration.
pub(crate) struct ByHand;

pub(crate) struct Half(Arc<Hand>);

/// A panic's payload, which panics in its turn when it is dropped.
pub(crate) struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        std::panic::panic_any(Self);
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if std::mem::take(&mut self.0.get().panic_in_drop) {
            std::panic::panic_any(Grenade);
        }
    }
}

impl ErrorType for ByHand {
    type Error = Fault;
}

impl ErrorType for Half {
    type Error = Fault;
}

impl Submit for Half {
    type Payload = Job;

    fn launch(&mut self, cmd: CmdId, job: &Job, fence: bool) -> Result<(), Fault> {
        let mut line = self.0.get();
        line.inside = true;
        while line.blocked {
            line = self.0.changed.wait(line).unwrap();
        }
        line.inside = false;
        if line.lost {
            return Err(Fault::DeviceLost);
        }
        if line.panic == Some(job.number) {
            drop(line);
            panic!("as the test wants it");
        }
        if line.refuse == Some(job.number) {
            return Err(Fault::Launch);
        }
        line.log.push(job.number);
        line.sealed = false;
        if line.at_once {
            line.done = cmd.count();
        }
        line.most_in_flight = line.most_in_flight.max(cmd.count() - line.seen);
        drop(line);
        if fence { self.fence(cmd) } else { Ok(()) }
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Fault> {
        let mut line = self.0.get();
        if !line.sealed {
            line.fenced.push(upto.count());
        }
        Ok(())
    }

    fn seal(&mut self, upto: CmdId) -> Result<bool, Fault> {
        self.fence(upto)?;
        self.0.get().sealed = true;
        Ok(true)
    }

    fn is_held(&self) -> bool {
        self.0.get().held_by_others
    }
}

impl Retire for Half {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        let mut line = self.0.get();
        if line.lost {
            return Err(Fault::DeviceLost);
        }
        if line.deactivated {
            return Ok(None);
        }
        let done = line.done;
        let Some(&count) = line.fenced.iter().filter(|&&m| m <= done).max() else {
            return Ok(None);
        };
        line.fenced.retain(|&m| m > count);
        let outcome = match line.fail {
            Some(n) if n >= line.seen && n < count => {
                Outcome::Failed { from: CmdId(n), fault: Fault::Execution }
            }
            _ => Outcome::Ok,
        };
        line.seen = count;
        Ok(Some(Retired { upto: CmdId(count - 1), busy: Duration::from_us(count), outcome }))
    }
}

impl Preempt for Half {
    type Top = Lv2;

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        let line = self.0.get();
        if line.lost { Err(Fault::DeviceLost) } else { Ok(line.quiet) }
    }
}

impl Deactivate for Half {
    fn deactivate(&mut self) -> Result<StepDone, Fault> {
        self.0.get().deactivated = true;
        Ok(StepDone::Now(None))
    }

    fn reactivate(&mut self) -> Result<StepDone, Fault> {
        self.0.get().deactivated = false;
        Ok(StepDone::Now(None))
    }
}

impl Backend for ByHand {
    type Config = Arc<Hand>;
    type Submit = Half;
    type Retire = Half;
    type Preempt = LevelAdapter<Half>;

    fn open(
        &mut self,
        _: QueueId,
        hand: Arc<Hand>,
    ) -> Result<Halves<Half, Half, LevelAdapter<Half>>, Fault> {
        let half = || Half(Arc::clone(&hand));
        let caps = Caps::up_to(Level::Deactivate, 1_024);
        Ok(Halves { submit: half(), retire: half(), preempt: LevelAdapter(half()), caps })
    }
}
