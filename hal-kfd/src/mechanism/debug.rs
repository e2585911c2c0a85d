//! `DBG_TRAP`: suspend and resume, many queues with one preemption.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::ledger::Ledger;
use super::{Answers, Kind, Mechanism};
use crate::driver::{Driver, Kfd};
use crate::error::KfdError;
use crate::queue::{KfdQueue, QueueFacts};
use crate::traced::Traced;
use crate::uapi::{
    DBG_TRAP, EC_QUEUE_NEW, FAILED_BIT, ID_MASK, INVALID_BIT, MODE_ENABLE, QUEUES_MAX,
    QueueSnapshotEntry, RUNTIME_ENABLE, runtime_state,
};
use crate::version::Versioned;

/// Suspends and resumes queues as a debugger does. Needs KFD 1.13 and HWS or MES scheduling.
///
/// # What cannot happen
///
/// The driver's calls have an order, and those that come in another wait for ever or do nothing.
/// There is no way to make them here in another order:
///
/// * A debugger that comes before the runtime has called `RUNTIME_ENABLE` makes that call wait.
///   [`DebugTrap::own`] finds out first whether it was called, without becoming the debugger.
/// * `RUNTIME_ENABLE` that disables waits while there is a debugger, until that says that it may go
///   on. ROCm's runtime makes it when it shuts down. It is told so beforehand, when the debugger
///   attaches, and waits for nobody; [`crate::at_exit`] ends the session before that anyway.
/// * Destroying a suspended queue waits until it is resumed. Whoever closes a queue resumes it
///   first; [`crate::KfdDevice`] does.
/// * A queue that the debugger has not seen cannot be suspended. It is shown to the debugger by a
///   snapshot, here, whenever the driver says so; by the same token a queue that was destroyed and
///   whose id was used again is noticed, by its ring.
///
/// # What it costs otherwise
///
/// There can be one debugger: `rocgdb` and the like cannot attach meanwhile. Faults and asserts of
/// kernels go to the debugger, so that error callbacks of queues may not come.
#[derive(Debug)]
pub struct DebugTrap<D: Driver> {
    driver: Arc<Versioned<D>>,
    pid: u32,
    session: Mutex<Session>,
    grace: u32,
}

/// The session of this process, while somebody has it.
static OWN: Mutex<Weak<DebugTrap<Kfd>>> = Mutex::new(Weak::new());

impl DebugTrap<Kfd> {
    /// The debugger of this process, which there can be one of: that of whoever asked before, or a
    /// new one.
    ///
    /// # Errors
    /// As [`DebugTrap::own`].
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

/// What a debugger knows.
#[derive(Debug, Default)]
struct Session {
    /// Where the driver announces exceptions. None were asked for, so nobody reads it. `None` when
    /// the session has ended.
    open: Option<(OwnedFd, OwnedFd)>,
    held: Ledger,
    /// Each queue that the debugger has seen, by id.
    seen: BTreeMap<u32, Seen>,
    /// Queues seen so far.
    count: u64,
}

/// A queue that the debugger has seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    ring_base: u64,
    /// Which of all that it has seen, from 1.
    number: u64,
}

impl<D: Driver> DebugTrap<D> {
    /// Becomes the debugger of this process, which needs no permission. HIP has to be initialised.
    ///
    /// # Errors
    /// [`KfdError::RuntimeNotEnabled`], [`KfdError::QueuesBeforeRuntime`],
    /// [`KfdError::DebuggerAttached`], [`KfdError::TooOld`], or that the driver cannot do it.
    pub fn own(driver: Arc<Versioned<D>>) -> Result<Self, KfdError> {
        check_runtime(&driver)?;
        Self::enable(driver, std::process::id())
    }

    /// Becomes the debugger of another process, which is traced for the moment of the call and not
    /// longer. That needs the permission to trace it (the same user and `ptrace_scope` 0, or
    /// `CAP_SYS_PTRACE`); to be root is not enough for the driver without it.
    ///
    /// `pid` is the process as this one numbers it. If this process ends, however it does, the
    /// driver resumes what was suspended (`kfd_process_notifier_release_internal`, read and not
    /// run).
    ///
    /// Older versions of the driver want the other process to be traced all the time, by the thread
    /// that calls (read and not run; Linux 6.12.117 does not). There this is not supported.
    ///
    /// # Errors
    /// As [`DebugTrap::own`], and [`KfdError::NotPermitted`], [`KfdError::NoSuchProcess`] and
    /// [`KfdError::NotSupported`].
    pub fn other(driver: Arc<Versioned<D>>, pid: u32) -> Result<Self, KfdError> {
        if pid == std::process::id() {
            return Self::own(driver);
        }
        let traced = Traced::seize(pid)?;
        let enabled = Self::enable(driver, pid);
        // The driver looks at the tracer only when the debugger attaches.
        traced.release();
        let trap = enabled?;
        match trap.queues() {
            // The list needs no runtime, so this is about who asks.
            Err(KfdError::RuntimeNotEnabled) => Err(KfdError::NotSupported {
                call: DBG_TRAP.name,
                errno: Errno::PERM,
                advice: "this driver serves a debugger only while it traces; update it (Linux \
                         6.12.117 is new enough), or let the program hold its own queues",
            }),
            listed => listed.map(|_| trap),
        }
    }

    fn enable(driver: Arc<Versioned<D>>, pid: u32) -> Result<Self, KfdError> {
        let call = DBG_TRAP.name;
        let ends = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        let (read, write) = ends.map_err(|errno| KfdError::Driver { call: "pipe", errno })?;
        let descriptor = write.as_raw_fd().unsigned_abs();
        let answered = driver.debug_enable(pid, descriptor)?;
        let info = answered.map_err(|errno| refused_enable(pid, errno))?;
        let session = Session { open: Some((read, write)), ..Session::default() };
        let trap = Self { driver, pid, session: Mutex::new(session), grace: 1 };
        // Where this fails the session ends as `trap` does.
        trap.keep_nobody_waiting()?;
        match info.state {
            runtime_state::ENABLED => Ok(trap),
            runtime_state::DISABLED => Err(KfdError::RuntimeNotEnabled),
            state => {
                let (answer, advice) = (u64::from(state), "the runtime failed to start");
                Err(KfdError::Nonsense { call, answer, advice })
            }
        }
    }

    /// Says beforehand what a runtime waits for that starts or ends while there is a debugger. What
    /// the driver counts is permits, so one that nobody waits for yet is kept for whoever comes.
    fn keep_nobody_waiting(&self) -> Result<(), KfdError> {
        let answered = self.driver.debug_permit_runtime(self.pid)?;
        answered.map(drop).map_err(|errno| refused(self.pid, errno))
    }

    /// Sets for how long waves may go on before they are saved, in units of 1024 clocks of the GPU.
    /// 1 to begin with, which is the least.
    #[must_use]
    pub const fn with_grace(mut self, grace: u32) -> Self {
        self.grace = if grace == 0 { 1 } else { grace };
        self
    }

    /// Whose debugger this is.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it is the debugger still.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session().open.is_some()
    }

    /// Stops being the debugger; everything is resumed. Does nothing the second time.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn release(&self) -> Result<(), KfdError> {
        self.leave(&mut self.session())
    }

    fn leave(&self, session: &mut Session) -> Result<(), KfdError> {
        if session.open.is_none() {
            return Ok(());
        }
        match self.driver.debug_disable(self.pid)? {
            // Gone is released.
            Ok(_) | Err(Errno::SRCH) => {
                *session = Session::default();
                Ok(())
            }
            Err(errno) => Err(refused(self.pid, errno)),
        }
    }

    /// The queues of the process, whose ids can be used from now on.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn queues(&self) -> Result<Vec<QueueFacts>, KfdError> {
        Ok(self.numbered_queues()?.into_iter().map(|(_, facts)| facts).collect())
    }

    /// The same, each with a number that no other queue has had in this session: one that was made
    /// in the place of another may have its id and its ring.
    pub(crate) fn numbered_queues(&self) -> Result<Vec<(u64, QueueFacts)>, KfdError> {
        let mut session = self.session();
        if session.open.is_none() {
            return Err(KfdError::Released);
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
            let advice = "a process cannot have so many queues; update XSched";
            return Err(KfdError::Nonsense { call, answer, advice });
        }
        entries.truncate(queues);
        session.see(&entries);
        Ok(entries)
    }

    /// Suspends by one call what is not suspended yet.
    fn stop(&self, session: &mut Session, queues: &[Arc<KfdQueue>]) -> Answers {
        if session.open.is_none() {
            return vec![Err(KfdError::Released); queues.len()];
        }
        let is_new = |queue: &&Arc<KfdQueue>| !session.seen.contains_key(&queue.id());
        if queues.iter().any(|queue| is_new(&queue))
            && let Err(error) = self.snapshot(session)
        {
            return vec![Err(error); queues.len()];
        }
        let answers = self.stop_seen(session, queues);
        let missed =
            |answer: &Result<(), KfdError>| matches!(answer, Err(KfdError::UnknownQueue { .. }));
        if !answers.iter().any(missed) || self.snapshot(session).is_err() {
            return answers;
        }
        // New since the last snapshot, perhaps with the id of another that is gone.
        let again = self.stop_seen(session, queues);
        answers.into_iter().zip(again).map(|(first, second)| first.or(second)).collect()
    }

    fn stop_seen(&self, session: &mut Session, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut answers: Answers = queues.iter().map(|queue| session.know(queue)).collect();
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
                *answer = came.clone().and_then(|()| outcome(&ids, queue.id()));
                if answer.is_ok() {
                    session.held.add(queue);
                }
            }
        }
        answers
    }

    fn call_suspend(&self, session: &mut Session, ids: &mut [u32]) -> Result<(), KfdError> {
        let answered = self.driver.debug_suspend(self.pid, ids, self.grace)?;
        self.in_session(session, answered)
    }

    /// What a call came to. If the runtime has ended, the driver let everything go then, and the
    /// session ends too: the next runtime would wait for us.
    fn in_session(
        &self,
        session: &mut Session,
        answered: Result<u32, Errno>,
    ) -> Result<(), KfdError> {
        let answer = answered.map(drop).map_err(|errno| refused(self.pid, errno));
        if matches!(answer, Err(KfdError::RuntimeNotEnabled | KfdError::NoSuchProcess { .. })) {
            _ = self.leave(session);
        }
        answer
    }

    /// The driver counts a queue as suspended even if the GPU did not follow. There is nothing to
    /// be done about an error: the GPU is about to be reset.
    fn undo_failed(&self, ids: &[u32]) {
        let failed = ids.iter().filter(|id| *id & FAILED_BIT != 0).map(|id| id & ID_MASK);
        let mut failed: Vec<u32> = failed.collect();
        if !failed.is_empty() {
            _ = self.driver.debug_resume(self.pid, &mut failed);
        }
    }

    fn go(&self, session: &mut Session, queues: &[Arc<KfdQueue>]) -> Answers {
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
            // The driver let everything go when the runtime ended.
            Err(KfdError::RuntimeNotEnabled) => Ok(()),
            came => came.clone().and_then(|()| outcome(&ids, queue.id())),
        };
        let answers: Answers = queues.iter().zip(held).map(answer).collect();
        for (queue, answer) in queues.iter().zip(&answers) {
            // One that is gone is not suspended either.
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

impl Session {
    /// Notes what a snapshot shows. What carries the mark of new queues is another than the one
    /// that had its id before.
    fn see(&mut self, entries: &[QueueSnapshotEntry]) {
        let before = std::mem::take(&mut self.seen);
        for entry in entries {
            let ring_base = entry.ring_base;
            let is_same =
                |seen: &&Seen| entry.exceptions & EC_QUEUE_NEW == 0 && seen.ring_base == ring_base;
            let number = match before.get(&entry.queue_id).filter(is_same) {
                Some(seen) => seen.number,
                None => {
                    self.count += 1;
                    self.count
                }
            };
            self.seen.insert(entry.queue_id, Seen { ring_base, number });
        }
    }

    /// Whether the debugger has seen this very queue.
    fn know(&self, queue: &KfdQueue) -> Result<(), KfdError> {
        match self.seen.get(&queue.id()) {
            Some(seen) if seen.ring_base == queue.facts().ring_base => Ok(()),
            _ => Err(KfdError::UnknownQueue { call: DBG_TRAP.name, queue: queue.id() }),
        }
    }
}

/// What became of a queue, by its id among those that came back.
fn outcome(ids: &[u32], queue: u32) -> Result<(), KfdError> {
    let call = DBG_TRAP.name;
    match ids.iter().find(|id| *id & ID_MASK == queue) {
        Some(id) if id & FAILED_BIT != 0 => Err(KfdError::PreemptionTimedOut { call }),
        Some(id) if id & INVALID_BIT != 0 => Err(KfdError::UnknownQueue { call, queue }),
        Some(_) => Ok(()),
        None => {
            let advice = "the id that came back is another; update XSched";
            Err(KfdError::Nonsense { call, answer: u64::from(queue), advice })
        }
    }
}

/// Fails unless the runtime of this process has called `RUNTIME_ENABLE`.
fn check_runtime<D: Driver>(driver: &Versioned<D>) -> Result<(), KfdError> {
    // Who is the second to enable it is told so, and changes nothing.
    match driver.runtime_enable(MODE_ENABLE)? {
        Err(Errno::BUSY) => Ok(()),
        Err(Errno::EXIST) => Err(KfdError::QueuesBeforeRuntime),
        Err(errno) => Err(KfdError::of_call(RUNTIME_ENABLE.name, errno)),
        Ok(_) => {
            // We were the first. There is no debugger yet, so this does not wait.
            let undone = driver.runtime_enable(0)?;
            undone.map_err(|errno| KfdError::of_call(RUNTIME_ENABLE.name, errno))?;
            Err(KfdError::RuntimeNotEnabled)
        }
    }
}

/// What an errno means when a debugger attaches.
fn refused_enable(pid: u32, errno: Errno) -> KfdError {
    let call = DBG_TRAP.name;
    match errno {
        Errno::ALREADY => KfdError::DebuggerAttached { pid },
        Errno::PERM => KfdError::NotPermitted {
            call,
            errno,
            advice: "run as the same user with kernel.yama.ptrace_scope=0 or with CAP_SYS_PTRACE",
        },
        Errno::INVAL => KfdError::NotSupported {
            call,
            errno,
            advice: "debugging needs a hardware scheduler: amdgpu.sched_policy must not be 2",
        },
        Errno::BUSY => KfdError::NotSupported {
            call,
            errno,
            advice: "a cooperative launch holds the GPU's barriers; try again after it",
        },
        _ => refused(pid, errno),
    }
}

/// What an errno means later.
fn refused(pid: u32, errno: Errno) -> KfdError {
    match errno {
        Errno::SRCH => KfdError::NoSuchProcess { pid },
        Errno::PERM => KfdError::RuntimeNotEnabled,
        _ => KfdError::of_call(DBG_TRAP.name, errno),
    }
}

impl<D: Driver> Mechanism for DebugTrap<D> {
    fn kind(&self) -> Kind {
        Kind::DebugTrap
    }

    fn suspend(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut session = self.session();
        self.stop(&mut session, queues)
    }

    fn resume(&self, queues: &[Arc<KfdQueue>]) -> Answers {
        let mut session = self.session();
        self.go(&mut session, queues)
    }

    fn resume_all(&self) -> Answers {
        let mut session = self.session();
        let all = session.held.all();
        self.go(&mut session, &all)
    }

    fn forget(&self, queue: &KfdQueue) {
        let mut session = self.session();
        session.held.remove(queue);
        session.seen.remove(&queue.id());
    }

    /// An update by others does not resume what a debugger suspended, so what was suspended here
    /// is, until the session ends.
    fn is_still_suspended(&self, queue: &KfdQueue) -> Result<bool, KfdError> {
        Ok(self.session().held.has(queue))
    }

    fn held(&self) -> Vec<Arc<KfdQueue>> {
        self.session().held.all()
    }

    fn end(&self) -> Result<(), KfdError> {
        self.release()
    }

    /// One per GPU, however many queues.
    fn preemptions(&self, queues: usize) -> usize {
        queues.min(1)
    }
}

impl<D: Driver> Drop for DebugTrap<D> {
    /// Stops being the debugger. There is nothing to be done about an error.
    fn drop(&mut self) {
        _ = self.release();
    }
}

#[cfg(test)]
mod tests;
