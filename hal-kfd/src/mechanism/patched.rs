//! 0x87 and 0x88 of a patched driver.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::ledger::Ledger;
use super::{Answers, Kind, Mechanism};
use crate::driver::Driver;
use crate::error::KfdError;
use crate::queue::KfdQueue;
use crate::topology::Module;
use crate::uapi::patched::{PREEMPT_QUEUE, PreemptQueue, PreemptType, RESUME_QUEUE, ResumeQueue};
use crate::version::Versioned;

/// The variable that asks for the patched driver's calls, and says by which text in the module's
/// version it is known.
pub const OPT_IN_VARIABLE: &str = "XSCHED_KFD_PATCHED";

/// An id that no queue has.
const IMPOSSIBLE: u32 = u32::MAX;

/// Preempts a queue by itself through calls that somebody added to the driver.
///
/// Why it has to be asked for, and what to make of it:
///
/// * The numbers belong to nobody. AMD's own driver package gives 0x87 to its next call, and
///   another research driver has a call of 32 bytes at 0x88. The driver does not look at the size,
///   so a resume sent there succeeds and resumes nothing: the queue would be suspended for ever.
/// * As published, the patch takes the queue's place on the GPU from its `pipe` and `queue`
///   fields, which the hardware scheduler never sets. It then acts on whatever the firmware has
///   put there, behind the firmware's back, with a copy of the queue's state from before the save.
/// * Its times, 1 to 10 µs, are claims without a measurement.
///
/// So it is used only if [`OPT_IN_VARIABLE`] names a text that the loaded module's version has, and
/// if both numbers answer to an impossible queue as they should.
#[derive(Debug)]
pub struct PatchedDriver<D: Driver> {
    driver: Arc<Versioned<D>>,
    held: Mutex<Ledger>,
    timeout_ms: u32,
}

impl<D: Driver> PatchedDriver<D> {
    /// Asks a driver that is known to be patched whether it has both calls.
    ///
    /// `asked` is the value of [`OPT_IN_VARIABLE`], and `module` the loaded module. A queue that
    /// cannot be preempted within `timeout_ms` is not.
    ///
    /// # Errors
    /// [`KfdError::NotAskedFor`], [`KfdError::NotPatched`], [`KfdError::OtherMeaning`], or
    /// [`KfdError::NotSupported`] if there are no such calls.
    pub fn new(
        driver: Arc<Versioned<D>>,
        asked: Option<&str>,
        module: &Module,
        timeout_ms: u32,
    ) -> Result<Self, KfdError> {
        let marker = asked.map(str::trim).filter(|marker| !marker.is_empty());
        let variable = OPT_IN_VARIABLE;
        let marker = marker.ok_or(KfdError::NotAskedFor { variable })?;
        if !module.has_marker(marker) {
            let (marker, version) = (marker.to_owned(), module.version_text());
            return Err(KfdError::NotPatched { marker, version });
        }
        check_absent_queue(PREEMPT_QUEUE.number(), driver.preempt_queue(preempt(IMPOSSIBLE, 0))?)?;
        let resume = ResumeQueue { queue_id: IMPOSSIBLE, ..ResumeQueue::default() };
        check_absent_queue(RESUME_QUEUE.number(), driver.resume_queue(resume)?)?;
        Ok(Self { driver, held: Mutex::default(), timeout_ms })
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, held: &mut Ledger, queue: &Arc<KfdQueue>) -> Result<(), KfdError> {
        if held.has(queue) {
            return Ok(());
        }
        let answered = self.driver.preempt_queue(preempt(queue.id(), self.timeout_ms))?;
        answered.map_err(|errno| refused(PREEMPT_QUEUE.name, queue.id(), errno))?;
        held.add(queue);
        Ok(())
    }

    fn go(&self, held: &mut Ledger, queue: &Arc<KfdQueue>) -> Result<(), KfdError> {
        if !held.has(queue) {
            return Ok(());
        }
        let (queue_id, timeout_ms) = (queue.id(), self.timeout_ms);
        let argument = ResumeQueue { queue_id, timeout_ms, pad: [0; 2] };
        let answered = self.driver.resume_queue(argument)?;
        let answer = answered.map(|_| ());
        let answer = answer.map_err(|errno| refused(RESUME_QUEUE.name, queue_id, errno));
        if matches!(answer, Ok(()) | Err(KfdError::UnknownQueue { .. })) {
            held.remove(queue);
        }
        answer
    }
}

fn preempt(queue_id: u32, timeout_ms: u32) -> PreemptQueue {
    PreemptQueue { queue_id, preempt_type: PreemptType::Save as u32, timeout_ms, pad: 0 }
}

/// What the calls answer when there is no such queue tells whether they are what they should be.
fn check_absent_queue(number: u8, answered: Result<u32, Errno>) -> Result<(), KfdError> {
    match answered {
        Ok(_) => {
            let why = "it succeeds for a queue that cannot be";
            Err(KfdError::OtherMeaning { number, why })
        }
        Err(Errno::INVAL | Errno::FAULT | Errno::NOENT | Errno::SRCH) => Ok(()),
        Err(errno @ Errno::NOTTY) => Err(KfdError::NotSupported {
            call: PREEMPT_QUEUE.name,
            errno,
            advice: "the module has the marker and not the call; check that it was reloaded",
        }),
        Err(_) => {
            let why = "its answer for a queue that cannot be is none that the patch gives";
            Err(KfdError::OtherMeaning { number, why })
        }
    }
}

fn refused(call: &'static str, queue: u32, errno: Errno) -> KfdError {
    match errno {
        Errno::INVAL => KfdError::UnknownQueue { call, queue },
        _ => KfdError::of_queue(call, queue, errno),
    }
}

impl<D: Driver> Mechanism for PatchedDriver<D> {
    fn kind(&self) -> Kind {
        Kind::PreemptQueue
    }

    fn suspend(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut held = self.ledger();
        queues.iter().map(|queue| self.stop(&mut held, queue)).collect()
    }

    fn resume(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut held = self.ledger();
        queues.iter().map(|queue| self.go(&mut held, queue)).collect()
    }

    fn resume_all(&self) -> Answers {
        let all = self.ledger().all();
        self.resume(&all)
    }

    fn forget(&self, queue: &KfdQueue) {
        self.ledger().remove(queue);
    }

    /// The patch has no call that tells.
    fn is_still_suspended(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        Ok(self.ledger().has(queue))
    }

    fn held(&self) -> Vec<Arc<KfdQueue>> {
        self.ledger().all()
    }

    /// One for each.
    fn preemptions(&self, queues: usize) -> usize {
        queues
    }
}

impl<D: Driver> Drop for PatchedDriver<D> {
    /// Resumes what is suspended: nobody could later. There is nothing to be done about an error.
    fn drop(&mut self) {
        _ = self.resume_all();
    }
}

#[cfg(test)]
mod tests;
