//! Facts that the device's side of a queue has for its handle: callbacks' answers, and
//! how far launching has got.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar as StdCondvar, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use crate::refusal::Refusal;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::types::{HwQueueHandle, XResult, XResultValue};

/// Most answers of failed callbacks that are kept for calls that wait for the commands.
const ANSWERS_MAX: usize = 64;
/// How often a thread looks that waits for a launch, since commands that are dropped never are.
const LOOK: Duration = Duration::from_millis(2);

/// Facts that the device's side of a queue tells its handle.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) hwq: HwQueueHandle,
    /// Commands launched.
    launched: AtomicU64,
    /// Submitting calls wait for launches, so launches are announced.
    tells: bool,
    turn: Mutex<Turn>,
    bell: Condvar,
    /// There are failures that have not been reported as completions.
    any_unreported: AtomicBool,
    notes: Mutex<Notes>,
    end: Arc<End>,
}

/// Turn to be called, of commands whose submitting calls wait: data of theirs ends with
/// these calls.
#[derive(Debug, Default)]
struct Turn {
    /// The command whose callback runs.
    running: Option<u64>,
    /// Commands that are over without a launch. Their callbacks must not be called any more.
    given_up: Vec<u64>,
}

/// Tells when the last holder of a queue's side has let go. No model waits for it.
#[derive(Debug, Default)]
pub(crate) struct End {
    is_over: StdMutex<bool>,
    bell: StdCondvar,
}

impl End {
    /// Waits for it, and no longer than `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let guard = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.bell.wait_timeout_while(guard, limit, |is_over| !*is_over));
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        *self.end.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.bell.notify_all();
    }
}

#[derive(Debug, Default)]
struct Notes {
    /// Commands whose callbacks failed, in order of their numbers, that have not been reported as
    /// completions.
    unreported: VecDeque<u64>,
    /// Answers of callbacks, the newest last.
    answers: VecDeque<(u64, XResultValue)>,
    /// The first failure that no wait for all has returned.
    first: Option<(u64, Refusal)>,
}

impl Side {
    /// With `tells`, threads can wait for launches.
    pub(crate) fn new(hwq: HwQueueHandle, tells: bool) -> Self {
        Self {
            hwq,
            launched: AtomicU64::new(0),
            tells,
            turn: Mutex::default(),
            bell: Condvar::new(),
            any_unreported: AtomicBool::new(false),
            notes: Mutex::default(),
            end: Arc::default(),
        }
    }

    /// Watch that tells when nothing has this any more.
    pub(crate) fn end(&self) -> Arc<End> {
        Arc::clone(&self.end)
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command with this number was launched, or could not be.
    pub(crate) fn note_launch(&self, number: u64) {
        self.launched.store(number + 1, Ordering::Release);
        if self.tells {
            drop(self.turn());
            self.bell.notify_all();
        }
    }

    /// Calls the callback of a command, unless the call that submitted it has returned without it.
    pub(crate) fn run(&self, number: u64, call: impl FnOnce() -> XResultValue) -> XResultValue {
        if !self.tells {
            return call();
        }
        let mut turn = self.turn();
        let is_over = turn.given_up.contains(&number);
        // Commands are launched in order, so those before this one are done with.
        turn.given_up.retain(|over| *over > number);
        if is_over {
            return XResult::kXSchedErrorNotAllowed as XResultValue;
        }
        turn.running = Some(number);
        drop(turn);
        let answer = call();
        self.turn().running = None;
        self.bell.notify_all();
        answer
    }

    /// Waits until a command was launched, or will never be: neither then does its callback run,
    /// nor will it be called. `is_over` may launch commands.
    ///
    /// A command is over also when its device is lost, and meanwhile another thread may be in its
    /// callback, or about to call it.
    pub(crate) fn wait_launched(&self, number: u64, is_over: impl Fn() -> bool) {
        let launched = || self.launched.load(Ordering::Acquire) > number;
        while !launched() {
            let is_over = is_over();
            let mut turn = self.turn();
            if launched() {
                return;
            }
            if is_over && turn.running != Some(number) {
                turn.given_up.push(number);
                return;
            }
            drop(self.bell.wait_timeout(turn, LOOK));
        }
    }

    /// A callback answered that it failed.
    pub(crate) fn note_refused(&self, number: u64, answer: XResultValue) {
        let mut notes = self.notes();
        // What runs on the device's thread fails after a later command that was only launched.
        let at = notes.unreported.partition_point(|earlier| *earlier < number);
        notes.unreported.insert(at, number);
        if notes.answers.len() == ANSWERS_MAX {
            notes.answers.pop_front();
        }
        notes.answers.push_back((number, answer));
        self.any_unreported.store(true, Ordering::Release);
    }

    /// The first command up to this one whose callback failed.
    pub(crate) fn first_refused(&self, upto: u64) -> Option<u64> {
        if !self.any_unreported.load(Ordering::Acquire) {
            return None;
        }
        self.notes().unreported.front().copied().filter(|number| *number <= upto)
    }

    /// The failure of this command is reported as a completion now.
    pub(crate) fn report_refused(&self) {
        let mut notes = self.notes();
        notes.unreported.pop_front();
        self.any_unreported.store(!notes.unreported.is_empty(), Ordering::Release);
    }

    /// A command has failed, in whatever way.
    pub(crate) fn note_failure(&self, number: u64, why: Refusal) {
        let why = self.answer_of(number).unwrap_or(why);
        self.notes().first.get_or_insert((number, why));
    }

    /// Answer of the callback of a command, if it failed not long ago.
    pub(crate) fn answer_of(&self, number: u64) -> Option<Refusal> {
        let notes = self.notes();
        let (_, answer) = notes.answers.iter().rev().find(|(of, _)| *of == number)?;
        let why = format!("the command's callback answered {answer}");
        Some(Refusal::new(known(*answer), why))
    }

    /// The first failure that was not taken, if it is of a command before this one.
    pub(crate) fn take_first_failure(&self, before: u64) -> Option<Refusal> {
        let mut notes = self.notes();
        if notes.first.as_ref().is_none_or(|(number, _)| *number >= before) {
            return None;
        }
        notes.first.take().map(|(_, why)| why)
    }
}

/// The code of a callback's answer. What is none counts as unknown.
fn known(answer: XResultValue) -> XResult {
    match answer {
        1 => XResult::kXSchedErrorHardware,
        2 => XResult::kXSchedErrorInvalidValue,
        3 => XResult::kXSchedErrorNotFound,
        4 => XResult::kXSchedErrorNotAllowed,
        5 => XResult::kXSchedErrorNotSupported,
        6 => XResult::kXSchedErrorBadResponse,
        _ => XResult::kXSchedErrorUnknown,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_command_that_is_over_while_its_callback_runs_is_waited_for() {
        let side = Side::new(1, true);
        let (started, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                side.run(0, || {
                    started.store(true, Ordering::Release);
                    std::thread::sleep(Duration::from_millis(20));
                    ended.store(true, Ordering::Release);
                    0
                })
            });
            side.wait_launched(0, || started.load(Ordering::Acquire));
            assert!(ended.load(Ordering::Acquire));
        });
    }

    #[test]
    fn a_command_whose_submitter_was_told_that_it_is_over_is_not_called() {
        let side = Side::new(1, true);
        side.wait_launched(0, || true);
        assert_ne!(side.run(0, || unreachable!("it is over")), 0);
        assert_eq!(side.run(1, || 0), 0);
        assert!(side.turn().given_up.is_empty());
    }

    #[test]
    fn failures_are_reported_in_the_order_of_commands() {
        let side = Side::new(1, false);
        side.note_refused(5, 1);
        side.note_refused(3, 1);
        assert_eq!(side.first_refused(9), Some(3));
        side.report_refused();
        assert_eq!(side.first_refused(9), Some(5));
    }

    #[test]
    fn a_waiter_that_asks_whether_it_is_over_may_launch() {
        let side = Side::new(1, true);
        let launches = || {
            side.note_launch(0);
            false
        };
        side.wait_launched(0, launches);
        // What is launched, or over, is not waited for.
        side.wait_launched(0, || unreachable!("it was launched"));
        side.wait_launched(9, || true);
    }
}
