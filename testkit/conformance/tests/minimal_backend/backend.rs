//! A complete backend at Lv1. Each hardware queue is a thread that runs jobs in order. XSched
//! decides when a job is launched; a job that was launched runs to its end.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Instant;

use xsched::fault::Fault;
use xsched::hal::{Backend, ErrorType, Halves, LevelAdapter, Lv1};
use xsched::hal::{Outcome, Preempt, Retire, Retired, Submit};
use xsched::id::{CmdId, QueueId};
use xsched::level::{Caps, Level};
use xsched::time::Duration;

/// Command of this device.
pub(crate) type Job = Arc<dyn Fn() -> Result<(), Fault> + Send + Sync>;

/// A job, or none for a fence by itself; and whether there is a fence behind it.
type Launched = (CmdId, Option<Job>, bool);
/// The device. [`Backend::open`] starts one thread for each queue.
pub(crate) struct Workers;
/// The half that launches: it sends jobs to the thread.
pub(crate) struct WorkerSubmit(Sender<Launched>);
/// The half that watches completions: it receives them from the thread.
pub(crate) struct WorkerRetire(Receiver<Retired>);
/// The half that preempts. At Lv1 it has nothing to do.
pub(crate) struct WorkerPreempt;

// A backend with errors of its own implements `HalError` for them, which maps each to a `Fault`.
macro_rules! errors { ($($half:ty),*) => { $(impl ErrorType for $half { type Error = Fault; })* } }
errors!(Workers, WorkerSubmit, WorkerRetire, WorkerPreempt);

type Opened = Halves<WorkerSubmit, WorkerRetire, LevelAdapter<WorkerPreempt>>;
impl Backend for Workers {
    type Config = ();
    type Submit = WorkerSubmit;
    type Retire = WorkerRetire;
    type Preempt = LevelAdapter<WorkerPreempt>;

    fn open(&mut self, _: QueueId, (): ()) -> Result<Opened, Fault> {
        let ((jobs, launched), (ended, retired)) = (channel(), channel());
        // The thread ends with its queue, when `WorkerSubmit` is dropped.
        let worker = thread::Builder::new().spawn(move || work(&launched, &ended));
        worker.map_err(|_| Fault::NotSupported)?;
        // XSched keeps at most 64 commands in flight, so neither channel grows without bound.
        let caps = Caps::up_to(Level::Block, 64);
        let (submit, retire) = (WorkerSubmit(jobs), WorkerRetire(retired));
        Ok(Halves { submit, retire, preempt: LevelAdapter(WorkerPreempt), caps })
    }
}

/// Runs jobs in order, and reports at each fence what has retired since the last one.
fn work(launched: &Receiver<Launched>, ended: &Sender<Retired>) {
    let (mut busy, mut outcome, mut reported) = (Duration::ZERO, Outcome::Ok, 0);
    for (cmd, job, fence) in launched {
        let start = Instant::now();
        let result = job.map_or(Ok(()), |job| job());
        busy += Duration::from_ns(start.elapsed().as_nanos() as u64);
        // The first failure of the batch counts.
        if let (Err(fault), Outcome::Ok) = (result, outcome) {
            outcome = Outcome::Failed { from: cmd, fault };
        }
        // A fence that covers nothing new is not reported.
        if fence && cmd.count() > reported {
            // An error says that the queue is closed, and this loop ends soon.
            _ = ended.send(Retired { upto: cmd, busy, outcome });
            (busy, outcome, reported) = (Duration::ZERO, Outcome::Ok, cmd.count());
        }
    }
}

impl Submit for WorkerSubmit {
    type Payload = Job;

    fn launch(&mut self, cmd: CmdId, job: &Job, fence: bool) -> Result<(), Fault> {
        // A job that panics ends the thread, and with it the queue.
        self.0.send((cmd, Some(Arc::clone(job)), fence)).map_err(|_| Fault::DeviceLost)
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Fault> {
        self.0.send((upto, None, true)).map_err(|_| Fault::DeviceLost)
    }
}

impl Retire for WorkerRetire {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        match self.0.try_recv() {
            Ok(retired) => Ok(Some(retired)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Fault::DeviceLost),
        }
    }
}

impl Preempt for WorkerPreempt {
    type Top = Lv1;
}
