//! Commands that run once and return a value.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::command::HostCommand;

/// Result of a command of [`HostCommand::once`], once it has run.
#[derive(Debug)]
pub struct HostValue<T> {
    result: Arc<Mutex<Option<Result<T, String>>>>,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostValueError {
    /// The command panicked.
    #[error("the command panicked: {message}")]
    Panicked {
        /// Message of the panic, if it is text.
        message: String,
    },
    /// The command has not run: it waits, runs, or was cancelled.
    #[error("the command has not run to its end; wait for its ticket first")]
    NotRun,
}

impl<T> HostValue<T> {
    /// The value. Wait for the command first.
    ///
    /// # Errors
    /// [`HostValueError::Panicked`] with the panic's message, and [`HostValueError::NotRun`].
    pub fn take(self) -> Result<T, HostValueError> {
        match lock(&self.result).take() {
            Some(Ok(value)) => Ok(value),
            Some(Err(message)) => Err(HostValueError::Panicked { message }),
            None => Err(HostValueError::NotRun),
        }
    }
}

impl HostCommand {
    /// Calls a closure that owns what it needs, once, and keeps what it returns, or the message of
    /// its panic. A clone that is launched again does nothing.
    ///
    /// ```
    /// use xsched_hal_host::{HostCommand, HostValueError};
    ///
    /// let words = vec!["three", "more", "words"];
    /// let (command, last) = HostCommand::once(move || words.into_iter().next_back());
    /// command.call(); // or submit it to a queue, and wait for its ticket
    /// assert_eq!(last.take()?, Some("words"));
    /// # Ok::<(), HostValueError>(())
    /// ```
    #[must_use]
    pub fn once<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (Self, HostValue<T>) {
        let result = Arc::new(Mutex::new(None));
        let (work, kept) = (Mutex::new(Some(work)), Arc::clone(&result));
        let command = Self::new(move || {
            let Some(work) = lock(&work).take() else { return };
            match catch_unwind(AssertUnwindSafe(work)) {
                Ok(value) => *lock(&kept) = Some(Ok(value)),
                Err(payload) => {
                    *lock(&kept) = Some(Err(message(&*payload)));
                    // So that the command fails.
                    resume_unwind(payload);
                }
            }
        });
        (command, HostValue { result })
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("with something that is not text").to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
