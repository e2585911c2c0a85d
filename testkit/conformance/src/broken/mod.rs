//! Any device, with one defect: what the checks must notice.
//!
//! A check that cannot fail is worth nothing, so for each there is a [`Defect`] here that it is
//! there to find. The backend of a [`Broken`] subject is the inner one, with the defect at the
//! boundary between queue and device.

mod defect;
mod halves;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, ErrorType, FaultyError, Halves, Submit};
use xsched_core::id::QueueId;
use xsched_core::level::Recovery;

pub use defect::Defect;
pub use halves::{BrokenRetire, BrokenSteps, BrokenSubmit};

use crate::log::Note;
use crate::subject::{Claims, Subject, Work};

/// No mutant needs to be waited for longer than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// A subject whose device has one defect.
#[derive(Debug)]
pub struct Broken<S> {
    inner: S,
    defect: Defect,
    /// Notes of the newest device's commands.
    watched: Mutex<Arc<Watched>>,
}

impl<S> Broken<S> {
    /// A subject with a defect.
    pub fn new(inner: S, defect: Defect) -> Self {
        Self { inner, defect, watched: Mutex::default() }
    }

    fn watched(&self) -> MutexGuard<'_, Arc<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Commands that can be seen running. What takes too long takes until they have ended, so that it
/// is too late on any machine.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<Vec<Note>>);

impl Watched {
    fn add(&self, note: &Note) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note.clone());
    }

    /// Waits, within limits, until commands have ended: those that run, or `all`.
    fn wait(&self, all: bool) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        notes.retain(|note| all || note.runs());
        let start = Instant::now();
        while !notes.iter().all(Note::has_ended) && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// The device of a [`Broken`] subject.
#[derive(Debug)]
pub struct BrokenDevice<B, C> {
    inner: B,
    defect: Defect,
    watched: Arc<Watched>,
    /// Launched in place of a command that gets lost.
    empty: Option<C>,
    opened: AtomicU32,
    staged: Arc<Counts>,
    /// Steps committed.
    committed: u64,
}

/// Steps since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) staged: AtomicU64,
    /// Of queues that have gone since.
    pub(crate) gone: AtomicU64,
}

impl<S: Subject> Subject for Broken<S> {
    type Command = S::Command;
    type Backend = BrokenDevice<S::Backend, S::Command>;

    fn claims(&self) -> Claims {
        let claims = self.inner.claims();
        match self.defect {
            Defect::TakesTooManyQueues => Claims { queues_max: Some(3), ..claims },
            _ => claims,
        }
    }

    fn device(&self) -> Result<Self::Backend, String> {
        let empty = self.inner.command(Work::Empty);
        let inner = self.inner.device()?;
        let (defect, watched) = (self.defect, Arc::default());
        *self.watched() = Arc::clone(&watched);
        let (opened, staged) = (AtomicU32::new(0), Arc::default());
        Ok(BrokenDevice { inner, defect, watched, empty, opened, staged, committed: 0 })
    }

    fn config(&self, device: &mut Self::Backend) -> <Self::Backend as Backend>::Config {
        self.inner.config(&mut device.inner)
    }

    fn command(&self, work: Work) -> Option<S::Command> {
        if let Work::Timed { note, .. } = &work
            && self.defect.takes_long()
        {
            self.watched().add(note);
        }
        self.inner.command(work)
    }

    fn preemptions(&self, device: &Self::Backend) -> Option<u64> {
        match self.defect {
            Defect::PreemptsForEach => Some(device.committed),
            _ => self.inner.preemptions(&device.inner),
        }
    }

    fn patience(&self) -> Duration {
        self.inner.patience().min(PATIENCE)
    }

    fn settle(&self) -> Duration {
        self.inner.settle()
    }

    fn start_lag(&self) -> Duration {
        self.inner.start_lag()
    }

    fn rounds(&self) -> u32 {
        self.inner.rounds()
    }

    fn seed(&self) -> u64 {
        self.inner.seed()
    }
}

impl<B: ErrorType, C> ErrorType for BrokenDevice<B, C> {
    type Error = FaultyError<B::Error>;
}

impl<B, C> Backend for BrokenDevice<B, C>
where
    B: Backend<Submit: Submit<Payload = C>>,
    C: Clone,
{
    type Config = B::Config;
    type Submit = BrokenSubmit<B::Submit, C>;
    type Retire = BrokenRetire<B::Retire>;
    type Preempt = BrokenSteps<B::Preempt>;

    fn open(
        &mut self,
        queue: QueueId,
        config: B::Config,
    ) -> Result<Halves<Self::Submit, Self::Retire, Self::Preempt>, Self::Error> {
        let opened = self.opened.fetch_add(1, Ordering::Relaxed);
        if self.defect == Defect::OpensOnce && opened == 1
            || self.defect == Defect::RefusesQueues && opened == 3
        {
            return Err(FaultyError::Injected(Fault::NotSupported));
        }
        let inner = self.inner.open(queue, config).map_err(FaultyError::Inner)?;
        let Halves { submit, retire, preempt, mut caps } = inner;
        match self.defect {
            Defect::FewEntries => caps.entries_max = 2,
            Defect::CapsContradict => {
                caps.interrupt = match caps.interrupt {
                    Some(_) => None,
                    None => Some(Recovery::Continue),
                }
            }
            _ => {}
        }
        let shared = Arc::new(halves::Shared::new(self.defect, caps, Arc::clone(&self.watched)));
        Ok(Halves {
            submit: BrokenSubmit::new(submit, Arc::clone(&shared), self.empty.clone()),
            retire: BrokenRetire::new(retire, Arc::clone(&shared)),
            preempt: BrokenSteps::new(preempt, shared, opened, Arc::clone(&self.staged)),
            caps,
        })
    }

    fn stages(&self) -> bool {
        self.inner.stages()
    }

    fn commit(&mut self) -> Result<(), Self::Error> {
        let staged = self.staged.staged.swap(0, Ordering::AcqRel);
        let gone = self.staged.gone.swap(0, Ordering::AcqRel);
        self.committed += staged;
        if self.defect == Defect::RefusesEmptyCommits && staged == 0
            || self.defect == Defect::MissesTheGone && gone > 0
        {
            return Err(FaultyError::Injected(Fault::Execution));
        }
        self.inner.commit().map_err(FaultyError::Inner)
    }
}
