//! The mechanism `preempt-queue`: calls 0x87 and 0x88 of a patched driver.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::suspended::SuspendedQueues;
use super::{Answers, Kind, Mechanism};
use crate::driver::Driver;
use crate::error::KfdError;
use crate::queue::KfdQueue;
use crate::topology::Module;
use crate::uapi::patched::{PREEMPT_QUEUE, PreemptQueue, PreemptType, RESUME_QUEUE, ResumeQueue};
use crate::version::Versioned;

/// The environment variable that permits the patched driver's calls. Its value is the signature of
/// the patched module: a text that the module's version contains.
pub const OPT_IN_VARIABLE: &str = "XSCHED_KFD_PATCHED";

/// An id that no queue can have.
const IMPOSSIBLE: u32 = u32::MAX;

/// Preempts single queues by two calls that a patch adds to the driver.
///
/// It is used only on request, because the patch has risks:
///
/// * The two numbers are not reserved. AMD's own driver package gives 0x87 to its next call, and
///   another research driver has a call of 32 bytes at 0x88. The driver does not check the size, so
///   a resume sent there succeeds and resumes nothing: the queue would stay suspended for ever.
/// * As published, the patch takes the queue's place on the GPU from its `pipe` and `queue`
///   fields, which the hardware scheduler never sets. It then acts on the queue that the firmware
///   has put there, without the firmware's knowledge, with a copy of the queue's state from before
///   the save.
/// * Its times, 1 to 10 µs, are claims without a measurement.
///
/// So [`OPT_IN_VARIABLE`] has to name a text that the loaded module's version contains, and both
/// calls have to answer to an impossible queue as the patch does.
#[derive(Debug)]
pub struct PatchedDriver<D: Driver> {
    driver: Arc<Versioned<D>>,
    held: Mutex<SuspendedQueues>,
    timeout_ms: u32,
}

impl<D: Driver> PatchedDriver<D> {
    /// Checks that the driver is patched and has both calls.
    ///
    /// `opt_in` is the value of [`OPT_IN_VARIABLE`], and `module` the loaded module. A preemption
    /// or resumption that takes longer than `timeout_ms` milliseconds fails.
    ///
    /// # Errors
    /// [`KfdError::OptInMissing`], [`KfdError::NotPatched`], [`KfdError::CallMismatch`], or
    /// [`KfdError::NotSupported`] if there are no such calls.
    pub fn new(
        driver: Arc<Versioned<D>>,
        opt_in: Option<&str>,
        module: &Module,
        timeout_ms: u32,
    ) -> Result<Self, KfdError> {
        let signature = opt_in.map(str::trim).filter(|signature| !signature.is_empty());
        let variable = OPT_IN_VARIABLE;
        let signature = signature.ok_or(KfdError::OptInMissing { variable })?;
        if !module.has_signature(signature) {
            let (signature, version) = (signature.to_owned(), module.version_text());
            return Err(KfdError::NotPatched { signature, version });
        }
        check_absent_queue(PREEMPT_QUEUE.number(), driver.preempt_queue(preempt(IMPOSSIBLE, 0))?)?;
        let resume = ResumeQueue { queue_id: IMPOSSIBLE, ..ResumeQueue::default() };
        check_absent_queue(RESUME_QUEUE.number(), driver.resume_queue(resume)?)?;
        Ok(Self { driver, held: Mutex::default(), timeout_ms })
    }

    fn suspended(&self) -> MutexGuard<'_, SuspendedQueues> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn suspend_one(
        &self,
        held: &mut SuspendedQueues,
        queue: &Arc<KfdQueue>,
    ) -> Result<(), KfdError> {
        if held.has(queue) {
            return Ok(());
        }
        let answered = self.driver.preempt_queue(preempt(queue.id(), self.timeout_ms))?;
        answered.map_err(|errno| refused(PREEMPT_QUEUE.name, queue.id(), errno))?;
        held.add(queue);
        Ok(())
    }

    fn resume_one(
        &self,
        held: &mut SuspendedQueues,
        queue: &Arc<KfdQueue>,
    ) -> Result<(), KfdError> {
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

/// Tells from a call's answer for an impossible queue whether it is the patch's call.
fn check_absent_queue(number: u8, answered: Result<u32, Errno>) -> Result<(), KfdError> {
    match answered {
        Ok(_) => {
            let why = "it succeeds for a queue that cannot be";
            Err(KfdError::CallMismatch { number, why })
        }
        Err(Errno::INVAL | Errno::FAULT | Errno::NOENT | Errno::SRCH) => Ok(()),
        Err(errno @ Errno::NOTTY) => Err(KfdError::NotSupported {
            call: PREEMPT_QUEUE.name,
            errno,
            advice: "the module has the signature and not the call; check that it was reloaded",
        }),
        Err(_) => {
            let why = "its answer for a queue that cannot be is none that the patch gives";
            Err(KfdError::CallMismatch { number, why })
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
        let mut held = self.suspended();
        queues.iter().map(|queue| self.suspend_one(&mut held, queue)).collect()
    }

    fn resume(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut held = self.suspended();
        queues.iter().map(|queue| self.resume_one(&mut held, queue)).collect()
    }

    fn forget(&self, queue: &KfdQueue) {
        self.suspended().remove(queue);
    }

    /// Memory of this mechanism: the patch has no call that tells.
    fn is_still_suspended(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        Ok(self.suspended().has(queue))
    }

    fn held(&self) -> Vec<Arc<KfdQueue>> {
        self.suspended().all()
    }

    /// One for each queue.
    fn preemptions(&self, queues: usize) -> usize {
        queues
    }
}

impl<D: Driver> Drop for PatchedDriver<D> {
    /// Resumes all suspended queues. An error is ignored: nothing is left that could handle it.
    fn drop(&mut self) {
        _ = self.resume_all();
    }
}

#[cfg(test)]
mod tests;
