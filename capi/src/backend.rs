//! Any device, with the C API's commands.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::task::Waker;

use xsched_core::cost::CostModel;
use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Forecast, Halves, Kept, Retire, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

use crate::command::{Command, Does};
use crate::refusal::Refusal;
use crate::side::Side;

/// How the C API's commands are launched on a device's queue.
pub(crate) trait Lower: Submit<Payload: Sized> {
    /// Work to launch for a command. A callback has been called by then, or launching calls it.
    fn lower(does: Does, side: &Arc<Side>, number: u64) -> Self::Payload;
}

/// A device below, with the C API's commands.
#[derive(Debug)]
pub(crate) struct Device<B>(pub(crate) B);

impl<B: ErrorType> ErrorType for Device<B> {
    type Error = B::Error;
}

impl<B: Backend<Submit: Lower>> Backend for Device<B> {
    type Config = (B::Config, Arc<Side>);
    type Submit = Launcher<B::Submit>;
    type Retire = Watcher<B::Retire>;
    type Preempt = B::Preempt;

    fn open(
        &mut self,
        id: QueueId,
        (config, side): Self::Config,
    ) -> Result<Halves<Self::Submit, Self::Retire, Self::Preempt>, Self::Error> {
        let Halves { submit, retire, preempt, caps } = self.0.open(id, config)?;
        let submit = Launcher { below: submit, side: Arc::clone(&side) };
        let retire = Watcher { below: retire, side, seen: 0, pending: VecDeque::new() };
        Ok(Halves { submit, retire, preempt, caps })
    }

    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn cost(&self) -> Option<CostModel> {
        self.0.cost()
    }

    fn stages(&self) -> bool {
        self.0.stages()
    }

    fn commit(&mut self) -> Result<(), Self::Error> {
        self.0.commit()
    }
}

/// Launches the C API's commands.
#[derive(Debug)]
pub(crate) struct Launcher<S> {
    below: S,
    side: Arc<Side>,
}

impl<S: ErrorType> ErrorType for Launcher<S> {
    type Error = S::Error;
}

impl<S> Launcher<S> {
    fn note_failure(&self, number: u64, why: &str) {
        tracing::warn!(number, "a launch failed: {why}");
        let why = format!("the device refused the launch: {why}");
        self.side.note_failure(number, Refusal::hardware(why));
    }
}

impl<S: Lower> Submit for Launcher<S> {
    type Payload = Command;

    fn launch(&mut self, cmd: CmdId, command: &Command, fence: bool) -> Result<(), S::Error> {
        let payload = S::lower(command.does(), &self.side, cmd.0);
        let launched = self.below.launch(cmd, &payload, fence);
        if let Err(error) = &launched {
            self.note_failure(cmd.0, &format!("{error:?}"));
        }
        self.side.note_launch(cmd.0);
        launched
    }

    fn begin_launch(&mut self, cmd: CmdId, command: &Command, fence: bool) -> Result<(), S::Error> {
        let payload = S::lower(command.does(), &self.side, cmd.0);
        let begun = self.below.begin_launch(cmd, &payload, fence);
        begun.inspect_err(|error| {
            self.note_failure(cmd.0, &format!("{error:?}"));
            self.side.note_launch(cmd.0);
        })
    }

    fn end_launch(&mut self, cmd: CmdId, fence: bool, launched: bool) -> Result<(), S::Error> {
        let ended = self.below.end_launch(cmd, fence, launched);
        match &ended {
            Err(error) => self.note_failure(cmd.0, &format!("{error:?}")),
            // The program has it from the driver.
            Ok(()) if !launched => {
                let why = Refusal::hardware("the driver refused the launch");
                self.side.note_failure(cmd.0, why);
            }
            Ok(()) => {}
        }
        self.side.note_launch(cmd.0);
        ended
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), S::Error> {
        self.below.fence(upto)
    }

    fn seal(&mut self, upto: CmdId) -> Result<bool, S::Error> {
        self.below.seal(upto)
    }

    xsched_core::pass_on_submit!(below);
}

/// Watches completions. A command whose callback failed has nothing on the device but perhaps a
/// fence; it fails when it retires.
#[derive(Debug)]
pub(crate) struct Watcher<R> {
    below: R,
    side: Arc<Side>,
    /// One past the last command that was reported, or is about to be.
    seen: u64,
    /// Result of one answer of the device, if some of its commands failed.
    pending: VecDeque<Retired>,
}

impl<R: ErrorType> ErrorType for Watcher<R> {
    type Error = R::Error;
}

impl<R: Retire> Watcher<R> {
    /// Splits an answer at the commands whose callbacks failed.
    fn split(&mut self, mut rest: Retired) {
        let failed_from = match rest.outcome {
            Outcome::Ok => u64::MAX,
            Outcome::Failed { from, .. } => from.0,
        };
        while let Some(number) = self.side.first_refused(rest.upto.0) {
            self.side.report_refused();
            if number >= failed_from {
                continue;
            }
            let from = CmdId(number);
            if let Some(before) = number.checked_sub(1).filter(|_| number > self.seen) {
                self.push(Retired { upto: CmdId(before), outcome: Outcome::Ok, ..rest });
                rest.busy = Duration::ZERO;
            }
            let outcome = Outcome::Failed { from, fault: Fault::Launch };
            self.push(Retired { upto: from, busy: rest.busy, outcome });
            rest.busy = Duration::ZERO;
        }
        if rest.upto.count() > self.seen {
            self.push(rest);
        }
    }

    fn push(&mut self, retired: Retired) {
        self.seen = retired.upto.count();
        self.pending.push_back(retired);
    }
}

impl<R: Retire<Error: Debug>> Retire for Watcher<R> {
    const RUNS_ON_THREADS: bool = R::RUNS_ON_THREADS;

    fn poll_retired(&mut self) -> Result<Option<Retired>, R::Error> {
        if self.pending.is_empty() {
            let Some(retired) = self.below.poll_retired()? else { return Ok(None) };
            if self.side.first_refused(retired.upto.0).is_none() {
                note(&self.side, &retired);
                self.seen = retired.upto.count();
                return Ok(Some(retired));
            }
            self.split(retired);
        }
        let next = self.pending.pop_front();
        if let Some(retired) = &next {
            note(&self.side, retired);
        }
        Ok(next)
    }

    fn kept_by_caller(&self) -> Kept {
        self.below.kept_by_caller()
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        if self.pending.is_empty() {
            return self.below.wake_on_retire(waker);
        }
        waker.wake_by_ref();
        true
    }

    fn forecast(&mut self, cmd: CmdId) -> Option<Forecast> {
        if self.pending.is_empty() { self.below.forecast(cmd) } else { Some(Forecast::default()) }
    }
}

fn note(side: &Side, retired: &Retired) {
    if let Outcome::Failed { from, fault } = retired.outcome {
        side.note_failure(from.0, Refusal::of_fault(fault));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that answers once that all is done up to a command.
    #[derive(Debug)]
    struct Once(Option<Retired>);

    impl ErrorType for Once {
        type Error = Fault;
    }

    impl Retire for Once {
        fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
            Ok(self.0.take())
        }
    }

    fn answers(refused: &[u64], upto: u64) -> Vec<(u64, bool, u64)> {
        answers_after(0, refused, upto)
    }

    fn answers_after(seen: u64, refused: &[u64], upto: u64) -> Vec<(u64, bool, u64)> {
        let side = Arc::new(Side::new(1, false));
        for number in refused {
            side.note_refused(*number, 4);
        }
        let busy = Duration::from_ns(70);
        let below = Once(Some(Retired { upto: CmdId(upto), busy, outcome: Outcome::Ok }));
        let mut watcher = Watcher { below, side, seen, pending: VecDeque::new() };
        let mut all = Vec::new();
        while let Some(retired) = watcher.poll_retired().expect("no faults") {
            let failed = retired.outcome != Outcome::Ok;
            all.push((retired.upto.0, failed, retired.busy.as_ns()));
        }
        all
    }

    #[test]
    fn commands_whose_callbacks_failed_fail_and_no_others() {
        assert_eq!(answers(&[], 5), [(5, false, 70)]);
        assert_eq!(answers(&[3], 5), [(2, false, 70), (3, true, 0), (5, false, 0)]);
        assert_eq!(answers(&[5], 5), [(4, false, 70), (5, true, 0)]);
        assert_eq!(answers(&[0], 5), [(0, true, 70), (5, false, 0)]);
        assert_eq!(answers(&[9], 5), [(5, false, 70)]);
        let two = [(2, false, 70), (3, true, 0), (4, true, 0), (5, false, 0)];
        assert_eq!(answers(&[3, 4], 5), two);
        assert_eq!(answers_after(3, &[3], 5), [(3, true, 70), (5, false, 0)]);
    }
}
