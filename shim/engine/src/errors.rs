//! The last error, which a vendor's library may keep for each thread.
//!
//! HIP's runtime has `hipGetLastError`, and any of its calls may change what that answers. So that
//! a program finds the errors of its own calls alone, `Kept` puts back what there was before this
//! library asked the runtime for something. An error cannot be put into the runtime: it is kept
//! here, and hooks answer it.

use std::cell::Cell;

use crate::{Code, driver};

thread_local! {
    /// The error of the program's that the runtime does not have any more; 0 if there is none.
    static LEFT: Cell<Code> = const { Cell::new(0) };
    /// Error that the program is to find after what this library does.
    static KEPT: Cell<Code> = const { Cell::new(0) };
}

/// Questions to a library that keeps a last error.
#[derive(Debug)]
pub struct LastError {
    /// The thread's last error, which stays.
    pub peek: fn() -> Code,
    /// The thread's last error, which is forgotten.
    pub take: fn() -> Code,
}

fn questions() -> Option<&'static LastError> {
    driver::opened()?.vendor().questions.last_error.as_ref()
}

/// Returns the answer to a program that asks for the last error, which stays; `real` is what the
/// library answers.
#[must_use]
pub fn peek(real: Code) -> Code {
    if real == 0 { LEFT.get() } else { real }
}

/// Returns the answer to a program that asks for the last error, which is forgotten.
#[must_use]
pub fn take(real: Code) -> Code {
    let left = LEFT.replace(0);
    if real == 0 { left } else { real }
}

/// When this is dropped, the last error of the thread is what it was when this was made, or when
/// the program's own call was [`noted`]. There is one at a time on a thread.
#[derive(Debug)]
pub(crate) struct Kept;

impl Kept {
    pub(crate) fn now() -> Self {
        if let Some(questions) = questions() {
            KEPT.set(peek((questions.peek)()));
        }
        Self
    }
}

/// The program's own call was made just now.
pub(crate) fn noted() {
    if let Some(questions) = questions() {
        KEPT.set((questions.peek)());
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(questions) = questions() else { return };
        let (kept, now) = (KEPT.get(), (questions.peek)());
        if now == kept {
            LEFT.set(0);
            return;
        }
        if now != 0 {
            (questions.take)();
        }
        LEFT.set(kept);
    }
}
