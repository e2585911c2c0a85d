//! The mechanism `debug-trap`: `DBG_TRAP` suspends and resumes many queues with one preemption.

mod refusal;
mod session;

use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use refusal::{check_runtime, refused, refused_enable};
use session::{Session, result_of};

use super::{Answers, Kind, Mechanism};
use crate::driver::{Driver, Kfd};
use crate::error::KfdError;
use crate::queue::{KfdQueue, QueueFacts};
use crate::traced::Traced;
use crate::uapi::{DBG_TRAP, FAILED_BIT, ID_MASK, QUEUES_MAX, QueueSnapshotEntry, runtime_state};
use crate::version::Versioned;

/// How long waves may continue before they are saved, in units of 1,024 clocks of the GPU: the
/// shortest.
const GRACE: u32 = 1;

/// Suspends and resumes queues as a debugger does. Needs KFD 1.13 and HWS or MES scheduling.
///
/// # Order of calls
///
/// The driver expects its calls in a certain order. A call that comes too early or too late waits
/// for ever or does nothing. This type makes them in the right order:
///
/// * A debugger that attaches before the runtime has called `RUNTIME_ENABLE` makes that call wait.
///   [`DebugTrap::own`] first finds out whether the runtime has called it, without attaching.
/// * A `RUNTIME_ENABLE` that disables waits for the debugger's permission. ROCm's runtime makes
///   that call when it shuts down. [`DebugTrap::own`] gives the permission in advance when it
///   attaches, and [`crate::at_exit`] ends the session before the shutdown anyway.
/// * The destruction of a suspended queue waits until the queue is resumed. A queue's user resumes
///   it before it closes it, as [`crate::KfdDevice`] does.
/// * A queue that the debugger has not seen cannot be suspended. A snapshot shows it to the
///   debugger, and is taken whenever the driver reports such a queue. The snapshot also reveals, by
///   its ring, a new queue that has the id of a destroyed one.
///
/// # Side effects
///
/// A process can have one debugger: `rocgdb` cannot attach meanwhile. Faults and asserts of kernels
/// go to the debugger, so that error callbacks of queues may not come.
#[derive(Debug)]
pub struct DebugTrap<D: Driver> {
    driver: Arc<Versioned<D>>,
    pid: u32,
    session: Mutex<Session>,
}

/// The session of this process, while it exists.
static OWN: Mutex<Weak<DebugTrap<Kfd>>> = Mutex::new(Weak::new());

impl DebugTrap<Kfd> {
    /// The one debugger of this process: the existing one, or a new one.
    ///
    /// # Errors
    /// Those of [`DebugTrap::own`].
    pub fn shared(driver: Arc<Versioned<Kfd>>) -> Result<Arc<Self>, KfdError> {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trap) = own.upgrade().filter(|trap| trap.is_open()) {
            return Ok(trap);
        }
        let trap = Arc::new(Self::own(driver)?);
        *own = Arc::downgrade(&trap);
        Ok(trap)
    }
}

impl<D: Driver> DebugTrap<D> {
    /// Becomes the debugger of this process, which needs no permission. HIP has to be initialised.
    ///
    /// # Errors
    /// [`KfdError::RuntimeNotEnabled`], [`KfdError::QueuesBeforeRuntime`],
    /// [`KfdError::DebuggerAttached`], [`KfdError::DebuggerBusy`], [`KfdError::NotFirstContext`],
    /// [`KfdError::RuntimeState`], [`KfdError::TooOld`], or [`KfdError::NotSupported`].
    pub fn own(driver: Arc<Versioned<D>>) -> Result<Self, KfdError> {
        check_runtime(&driver)?;
        Self::enable(driver, std::process::id())
    }

    /// Becomes the debugger of another process, which is traced only during this call. That needs
    /// the permission to trace it: the same user and `ptrace_scope` 0, or `CAP_SYS_PTRACE`. For the
    /// driver, root without that capability is not enough.
    ///
    /// `pid` is the process's number in this process's namespace. When this process ends, for any
    /// reason, the driver resumes the suspended queues (`kfd_process_notifier_release_internal`,
    /// read and not run).
    ///
    /// Older versions of the driver require that the calling thread traces the other process all
    /// the time (read and not run; Linux 6.12.117 does not). They are not supported.
    ///
    /// # Errors
    /// Those of [`DebugTrap::own`], and [`KfdError::NotPermitted`], [`KfdError::NoSuchProcess`] and
    /// [`KfdError::NotSupported`].
    pub fn other(driver: Arc<Versioned<D>>, pid: u32) -> Result<Self, KfdError> {
        if pid == std::process::id() {
            return Self::own(driver);
        }
        let traced = Traced::seize(pid)?;
        let enabled = Self::enable(driver, pid);
        // The driver checks the tracer only when the debugger attaches.
        traced.release();
        let trap = enabled?;
        match trap.queues() {
            // The list needs no runtime, so the driver objects to the caller.
            Err(KfdError::RuntimeNotEnabled) => Err(KfdError::NotSupported {
                call: DBG_TRAP.name,
                errno: Errno::PERM,
                advice: "this driver serves a debugger only while it traces; update it (Linux \
                         6.12.117 is new enough), or have the program suspend its own queues",
            }),
            listed => listed.map(|_| trap),
        }
    }

    fn enable(driver: Arc<Versioned<D>>, pid: u32) -> Result<Self, KfdError> {
        let ends = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        let (read, write) = ends.map_err(|errno| KfdError::Driver { call: "pipe", errno })?;
        let descriptor = write.as_raw_fd().unsigned_abs();
        let answered = driver.debug_enable(pid, descriptor)?;
        let info = answered.map_err(|errno| refused_enable(pid, errno))?;
        let session = Mutex::new(Session::new(read, write));
        let trap = Self { driver, pid, session };
        // On an error the session ends when `trap` is dropped.
        trap.permit_runtime()?;
        match info.state {
            runtime_state::ENABLED => Ok(trap),
            runtime_state::DISABLED => Err(KfdError::RuntimeNotEnabled),
            // Attaching succeeded all the same, and each suspension would answer `EPERM`.
            state => Err(KfdError::RuntimeState { state }),
        }
    }

    /// Gives in advance the permission that a runtime waits for when it starts or ends beside a
    /// debugger. The driver counts permissions, and keeps one for the next call that needs it.
    fn permit_runtime(&self) -> Result<(), KfdError> {
        let answered = self.driver.debug_permit_runtime(self.pid)?;
        answered.map(drop).map_err(|errno| refused(self.pid, errno))
    }

    /// The process that this is the debugger of.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// True if the session goes on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session().open.is_some()
    }

    /// Ends the session, which resumes all queues. Does nothing the second time.
    ///
    /// # Errors
    /// The driver's error.
    pub fn release(&self) -> Result<(), KfdError> {
        self.end_session(&mut self.session())
    }

    fn end_session(&self, session: &mut Session) -> Result<(), KfdError> {
        if session.open.is_none() {
            return Ok(());
        }
        match self.driver.debug_disable(self.pid)? {
            // A process that ended is not debugged either.
            Ok(_) | Err(Errno::SRCH) => {
                *session = Session::default();
                Ok(())
            }
            Err(errno) => Err(refused(self.pid, errno)),
        }
    }

    /// The queues of the process. They are shown to the debugger, which may suspend them from now
    /// on.
    ///
    /// # Errors
    /// [`KfdError::SessionEnded`], or the driver's error.
    pub fn queues(&self) -> Result<Vec<QueueFacts>, KfdError> {
        Ok(self.numbered_queues()?.into_iter().map(|(_, facts)| facts).collect())
    }

    /// The queues of the process, each with a number that is unique in this session. A queue that
    /// was made in the place of another may have its id and its ring.
    pub(crate) fn numbered_queues(&self) -> Result<Vec<(u64, QueueFacts)>, KfdError> {
        let mut session = self.session();
        if session.open.is_none() {
            return Err(KfdError::SessionEnded);
        }
        let entries = self.snapshot(&mut session)?;
        let number = |id| session.seen.get(&id).map_or(0, |seen| seen.number);
        let facts = entries.iter().map(QueueFacts::of_snapshot);
        Ok(facts.map(|facts| (number(facts.id), facts)).collect())
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists all queues, which shows new ones to the debugger.
    fn snapshot(&self, session: &mut Session) -> Result<Vec<QueueSnapshotEntry>, KfdError> {
        // A process cannot have more.
        let mut entries = vec![QueueSnapshotEntry::default(); QUEUES_MAX as usize];
        let answered = self.driver.debug_snapshot(self.pid, &mut entries)?;
        let queues = answered.map_err(|errno| refused(self.pid, errno))?;
        if queues > entries.len() {
            let (call, answer) = (DBG_TRAP.name, queues as u64);
            let advice = "a process has fewer queues; update XSched";
            return Err(KfdError::UnexpectedAnswer { call, answer, advice });
        }
        entries.truncate(queues);
        session.record(&entries);
        Ok(entries)
    }

    /// Suspends by one call the queues that are not suspended yet.
    fn suspend_in(&self, session: &mut Session, queues: &[Arc<KfdQueue>]) -> Answers {
        if session.open.is_none() {
            return vec![Err(KfdError::SessionEnded); queues.len()];
        }
        let is_new = |queue: &&Arc<KfdQueue>| !session.seen.contains_key(&queue.id());
        if queues.iter().any(|queue| is_new(&queue))
            && let Err(error) = self.snapshot(session)
        {
            return vec![Err(error); queues.len()];
        }
        let answers = self.suspend_seen(session, queues);
        let missed =
            |answer: &Result<(), KfdError>| matches!(answer, Err(KfdError::UnknownQueue { .. }));
        if !answers.iter().any(missed) || self.snapshot(session).is_err() {
            return answers;
        }
        // Some are new since the last snapshot, perhaps with the id of a queue that was destroyed.
        let again = self.suspend_seen(session, queues);
        answers.into_iter().zip(again).map(|(first, second)| first.or(second)).collect()
    }

    fn suspend_seen(&self, session: &mut Session, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut answers: Answers = queues.iter().map(|queue| session.check_seen(queue)).collect();
        let mut ids: Vec<u32> = Vec::with_capacity(queues.len());
        for (queue, known) in queues.iter().zip(&answers) {
            if known.is_ok() && !session.held.has(queue) && !ids.contains(&queue.id()) {
                ids.push(queue.id());
            }
        }
        if ids.is_empty() {
            return answers;
        }
        let came = self.call_suspend(session, &mut ids);
        self.undo_failed(&ids);
        for (queue, answer) in queues.iter().zip(&mut answers) {
            if answer.is_ok() && !session.held.has(queue) {
                *answer = came.clone().and_then(|()| result_of(&ids, queue.id()));
                if answer.is_ok() {
                    session.held.add(queue);
                }
            }
        }
        answers
    }

    fn call_suspend(&self, session: &mut Session, ids: &mut [u32]) -> Result<(), KfdError> {
        let answered = self.driver.debug_suspend(self.pid, ids, GRACE)?;
        self.in_session(session, answered)
    }

    /// The result of a call. If the runtime has ended, the driver resumed all queues then. The
    /// session ends too, because the next runtime would wait for its debugger.
    fn in_session(
        &self,
        session: &mut Session,
        answered: Result<u32, Errno>,
    ) -> Result<(), KfdError> {
        let answer = answered.map(drop).map_err(|errno| refused(self.pid, errno));
        if matches!(answer, Err(KfdError::RuntimeNotEnabled | KfdError::NoSuchProcess { .. })) {
            _ = self.end_session(session);
        }
        answer
    }

    /// Resumes the queues that the GPU did not suspend, which the driver counts as suspended all
    /// the same. An error is ignored: the GPU is about to be reset.
    fn undo_failed(&self, ids: &[u32]) {
        let failed = ids.iter().filter(|id| *id & FAILED_BIT != 0).map(|id| id & ID_MASK);
        let mut failed: Vec<u32> = failed.collect();
        if !failed.is_empty() {
            _ = self.driver.debug_resume(self.pid, &mut failed);
        }
    }

    fn resume_in(&self, session: &mut Session, queues: &[Arc<KfdQueue>]) -> Answers {
        let held: Vec<bool> = queues.iter().map(|queue| session.held.has(queue)).collect();
        let mut ids: Vec<u32> = Vec::with_capacity(queues.len());
        for (queue, held) in queues.iter().zip(&held) {
            if *held && !ids.contains(&queue.id()) {
                ids.push(queue.id());
            }
        }
        if ids.is_empty() {
            return vec![Ok(()); queues.len()];
        }
        let came = self.call_resume(session, &mut ids);
        let answer = |(queue, held): (&Arc<KfdQueue>, bool)| match &came {
            _ if !held => Ok(()),
            // The driver resumed all queues when the runtime ended.
            Err(KfdError::RuntimeNotEnabled) => Ok(()),
            came => came.clone().and_then(|()| result_of(&ids, queue.id())),
        };
        let answers: Answers = queues.iter().zip(held).map(answer).collect();
        for (queue, answer) in queues.iter().zip(&answers) {
            // A queue that was destroyed is not suspended either.
            if matches!(answer, Ok(()) | Err(KfdError::UnknownQueue { .. })) {
                session.held.remove(queue);
            }
        }
        answers
    }

    fn call_resume(&self, session: &mut Session, ids: &mut [u32]) -> Result<(), KfdError> {
        let answered = self.driver.debug_resume(self.pid, ids)?;
        self.in_session(session, answered)
    }
}

impl<D: Driver> Mechanism for DebugTrap<D> {
    fn kind(&self) -> Kind {
        Kind::DebugTrap
    }

    fn suspend(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut session = self.session();
        self.suspend_in(&mut session, queues)
    }

    fn resume(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut session = self.session();
        self.resume_in(&mut session, queues)
    }

    fn forget(&self, queue: &KfdQueue) {
        let mut session = self.session();
        session.held.remove(queue);
        session.seen.remove(&queue.id());
    }

    /// Returns what this session remembers: an update by the owner does not resume a queue that a
    /// debugger suspended.
    fn is_still_suspended(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        Ok(self.session().held.has(queue))
    }

    fn held(&self) -> Vec<Arc<KfdQueue>> {
        self.session().held.all()
    }

    fn end(&self) -> Result<(), KfdError> {
        self.release()
    }

    /// One per GPU, for any number of queues.
    fn preemptions(&self, queues: usize) -> usize {
        queues.min(1)
    }
}

impl<D: Driver> Drop for DebugTrap<D> {
    /// Ends the session. An error is ignored: nothing is left that could handle it.
    fn drop(&mut self) {
        _ = self.release();
    }
}

#[cfg(test)]
mod tests;
