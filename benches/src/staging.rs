//! A device whose steps wait for a commit, and whose commands end when they are told to, to see
//! how late a commit comes.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use xsched_core::hal::{
    Backend, Deactivate, ErrorType, Halves, LevelAdapter, Lv2, Preempt, Retire, StepDone, Submit,
};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

/// The device.
#[derive(Clone, Debug, Default)]
pub struct Staging {
    desk: Arc<Mutex<Desk>>,
}

#[derive(Debug, Default)]
struct Desk {
    staged: bool,
    stepped: bool,
    committed_at: Option<Instant>,
    /// The last command that was launched, until it is over.
    launched: Option<CmdId>,
    over: bool,
}

impl Staging {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When something was committed since the last call, if it was.
    #[must_use]
    pub fn take_commit(&self) -> Option<Instant> {
        self.desk().committed_at.take()
    }

    /// Everything that was launched is over, and what will be launched too.
    pub fn end(&self) {
        self.desk().over = true;
    }

    fn stage(&self) -> StepDone {
        self.desk().staged = true;
        StepDone::Later
    }
}

impl ErrorType for Staging {
    type Error = Infallible;
}

impl Submit for Staging {
    type Payload = u64;

    fn launch(&mut self, cmd: CmdId, _: &u64, _: bool) -> Result<(), Infallible> {
        self.desk().launched = Some(cmd);
        Ok(())
    }

    fn fence(&mut self, _: CmdId) -> Result<(), Infallible> {
        Ok(())
    }
}

impl Retire for Staging {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Infallible> {
        let mut desk = self.desk();
        let upto = if desk.over { desk.launched.take() } else { None };
        Ok(upto.map(|upto| Retired { upto, busy: Duration::ZERO, outcome: Outcome::Ok }))
    }
}

impl Preempt for Staging {
    type Top = Lv2;

    fn poll_step(&mut self) -> Result<Option<StepDone>, Infallible> {
        Ok(std::mem::take(&mut self.desk().stepped).then_some(StepDone::Now(None)))
    }
}

impl Deactivate for Staging {
    fn deactivate(&mut self) -> Result<StepDone, Infallible> {
        Ok(self.stage())
    }

    fn reactivate(&mut self) -> Result<StepDone, Infallible> {
        Ok(self.stage())
    }
}

impl Backend for Staging {
    type Config = ();
    type Submit = Self;
    type Retire = Self;
    type Preempt = LevelAdapter<Self>;

    fn open(
        &mut self,
        _: QueueId,
        (): (),
    ) -> Result<Halves<Self, Self, LevelAdapter<Self>>, Infallible> {
        let caps = Caps::up_to(Level::Deactivate, 1 << 16);
        let (submit, retire) = (self.clone(), self.clone());
        Ok(Halves { submit, retire, preempt: LevelAdapter(self.clone()), caps })
    }

    fn stages(&self) -> bool {
        true
    }

    fn commit(&mut self) -> Result<(), Infallible> {
        let now = Instant::now();
        let mut desk = self.desk();
        if std::mem::take(&mut desk.staged) {
            (desk.stepped, desk.committed_at) = (true, Some(now));
        }
        Ok(())
    }
}
