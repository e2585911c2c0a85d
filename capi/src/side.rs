//! What the device's side of a queue knows and its handle wants to know: callbacks' answers, and
//! how far launching has got.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::refusal::Refusal;
use crate::types::{HwQueueHandle, XResult, XResultValue};

/// Most answers of failed callbacks that are kept for calls that wait for the commands.
const ANSWERS_MAX: usize = 64;
/// How often a thread looks that waits for a launch, since commands that are dropped never are.
const LOOK: Duration = Duration::from_millis(2);

/// What the device's side of a queue tells its handle.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) hwq: HwQueueHandle,
    /// Commands launched.
    launched: AtomicU64,
    /// Submitting calls wait for launches, so launches are announced.
    tells: bool,
    bell: (Mutex<()>, Condvar),
    /// There are failures that have not been reported as completions.
    any_unreported: AtomicBool,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    /// Commands whose callbacks failed, in order, that have not been reported as completions.
    unreported: VecDeque<u64>,
    /// What callbacks answered, the newest last.
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
            bell: (Mutex::new(()), Condvar::new()),
            any_unreported: AtomicBool::new(false),
            notes: Mutex::default(),
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command with this number was launched, or could not be.
    pub(crate) fn note_launch(&self, number: u64) {
        self.launched.store(number + 1, Ordering::Release);
        if self.tells {
            let (lock, bell) = &self.bell;
            drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
            bell.notify_all();
        }
    }

    /// Waits until a command was launched, or will never be. `is_over` may launch commands.
    pub(crate) fn wait_launched(&self, number: u64, is_over: impl Fn() -> bool) {
        let (lock, bell) = &self.bell;
        let launched = || self.launched.load(Ordering::Acquire) > number;
        while !launched() && !is_over() {
            let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            if !launched() {
                drop(bell.wait_timeout(guard, LOOK));
            }
        }
    }

    /// A callback answered that it failed.
    pub(crate) fn note_refused(&self, number: u64, answer: XResultValue) {
        let mut notes = self.notes();
        notes.unreported.push_back(number);
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

    /// What the callback of a command answered, if it failed not long ago.
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
    use super::*;

    #[test]
    fn a_waiter_that_asks_whether_it_is_over_may_launch() {
        let side = Side::new(1, true);
        side.wait_launched(0, || {
            side.note_launch(0);
            false
        });
        // What is launched, or over, is not waited for.
        side.wait_launched(0, || unreachable!("it was launched"));
        side.wait_launched(9, || true);
    }
}
