//! Why a call was refused, and the thread's last such text.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched::{Error, WaitError};
use xsched_core::fault::Fault;
use xsched_core::scheduler::SchedulerError;

use crate::types::XResult;

/// Why a call was refused: the code that it answers and a line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: XResult,
    pub(crate) why: String,
}

pub(crate) type Answer<T = ()> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(code: XResult, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }

    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::new(XResult::kXSchedErrorInvalidValue, why)
    }

    pub(crate) fn not_found(why: impl Into<String>) -> Self {
        Self::new(XResult::kXSchedErrorNotFound, why)
    }

    pub(crate) fn not_allowed(why: impl Into<String>) -> Self {
        Self::new(XResult::kXSchedErrorNotAllowed, why)
    }

    pub(crate) fn not_supported(why: impl Into<String>) -> Self {
        Self::new(XResult::kXSchedErrorNotSupported, why)
    }

    pub(crate) fn hardware(why: impl Into<String>) -> Self {
        Self::new(XResult::kXSchedErrorHardware, why)
    }

    /// A command that ended with this fault.
    pub(crate) fn of_fault(fault: Fault) -> Self {
        let code = match fault {
            Fault::Cancelled => XResult::kXSchedErrorNotAllowed,
            Fault::NotSupported => XResult::kXSchedErrorNotSupported,
            _ => XResult::kXSchedErrorHardware,
        };
        Self::new(code, fault.to_string())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        if matches!(error, Error::Scheduler(SchedulerError::TableFull)) {
            return Self::not_allowed("there are too many XQueues; destroy some");
        }
        let code = match &error {
            Error::SchedulerSilent => XResult::kXSchedErrorBadResponse,
            Error::Open(_) | Error::DeviceLost => XResult::kXSchedErrorHardware,
            Error::Scheduler(_) | Error::QueueFull => XResult::kXSchedErrorNotAllowed,
            _ => XResult::kXSchedErrorUnknown,
        };
        Self::new(code, error.to_string())
    }
}

impl From<WaitError> for Refusal {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Failed(fault) => Self::of_fault(fault),
            WaitError::Forgotten => Self::not_found(error.to_string()),
            WaitError::InCommand => Self::not_allowed(error.to_string()),
            other => Self::new(XResult::kXSchedErrorUnknown, other.to_string()),
        }
    }
}

thread_local! {
    /// The text of this thread's last call that was refused.
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Carries out a call: its refusal becomes the thread's last error, and a panic, which would be a
/// defect here, goes no further.
pub(crate) fn answer(call: impl FnOnce() -> Answer) -> XResult {
    let refusal = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return XResult::kXSchedSuccess,
        Ok(Err(refusal)) => refusal,
        Err(_) => Refusal::new(
            XResult::kXSchedErrorUnknown,
            "a defect of this library was caught; please report what was called",
        ),
    };
    tracing::debug!("refused: {}", refusal.why);
    let text = refusal.why.replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = text;
        }
    });
    refusal.code
}

/// The text of this thread's last call that was refused; empty if none was. It stays where it is
/// until the next such call.
pub(crate) fn last_error() -> *const c_char {
    const NONE: &CStr = c"";
    let text = |last: &RefCell<CString>| last.try_borrow().map_or(NONE.as_ptr(), |l| l.as_ptr());
    LAST.try_with(text).unwrap_or(NONE.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_told_in_words_of_the_interface() {
        let refusal = Refusal::from(Error::Scheduler(SchedulerError::TableFull));
        assert_eq!(refusal, Refusal::not_allowed("there are too many XQueues; destroy some"));
    }
}
