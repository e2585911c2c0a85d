//! A question to the scheduler: it is answered, or it is withdrawn before it has an effect.
//!
//! | state | means | next |
//! |---|---|---|
//! | `Pending` | it waits in the mailbox | `Running`, `Withdrawn`, `Dropped` |
//! | `Running` | the scheduler works on it | `Answered`, `Withdrawn`, `Dropped` |
//! | `Answered` | the answer is there | |
//! | `Withdrawn` | the asker has gone | |
//! | `Dropped` | the scheduler has ended | |
//!
//! A question that is withdrawn while it is pending never runs. One that is withdrawn while it runs
//! has its answer handed to the scheduler's thread, which undoes what it did.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, lock};

/// A question to the scheduler, with its state and its answer.
pub(crate) struct Question<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Pending,
    Running,
    Answered(T),
    Withdrawn,
    Dropped,
}

/// Behaviour of an asker whose time is over while the question runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhileRunning {
    /// The asker leaves; what the question does then is undone, or harmless.
    Leave,
    /// The asker waits for the end. For questions that run none of the policy's code.
    Wait,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The time is over, and the question was withdrawn.
    Withdrawn,
    /// The scheduler has ended.
    Gone,
}

impl<T> Question<T> {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State::Pending), changed: Condvar::new() }
    }

    /// The scheduler begins with it. False if it was withdrawn.
    pub(super) fn begin(&self) -> bool {
        let mut state = lock(&self.state);
        let pending = matches!(*state, State::Pending);
        if pending {
            *state = State::Running;
        }
        pending
    }

    /// The scheduler has the answer. It gets it back if the asker has left.
    pub(super) fn answer(&self, answer: T) -> Option<T> {
        let mut state = lock(&self.state);
        if matches!(*state, State::Withdrawn) {
            return Some(answer);
        }
        *state = State::Answered(answer);
        drop(state);
        self.changed.notify_one();
        None
    }

    /// There will be no answer, unless there is one already.
    pub(super) fn drop_unanswered(&self) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Pending | State::Running) {
            *state = State::Dropped;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Waits for the answer, and no longer than `limit`, except as `while_running` says.
    pub(super) fn wait(&self, limit: Duration, while_running: WhileRunning) -> Result<T, NoAnswer> {
        let deadline = Instant::now().checked_add(limit);
        let mut state = lock(&self.state);
        loop {
            let running = match &*state {
                State::Answered(_) => {
                    let answered = std::mem::replace(&mut *state, State::Withdrawn);
                    let State::Answered(answer) = answered else { return Err(NoAnswer::Gone) };
                    return Ok(answer);
                }
                State::Dropped => return Err(NoAnswer::Gone),
                State::Withdrawn => return Err(NoAnswer::Withdrawn),
                State::Running => true,
                State::Pending => false,
            };
            let to_the_end = running && while_running == WhileRunning::Wait;
            let left = deadline
                .filter(|_| !to_the_end)
                .map(|at| at.saturating_duration_since(Instant::now()));
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    *state = State::Withdrawn;
                    return Err(NoAnswer::Withdrawn);
                }
                Some(left) => {
                    let woken = self.changed.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
