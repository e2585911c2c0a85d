//! How a check ends.

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The device does what it must.
    Passed,
    /// The device cannot show anything about it, and why.
    Skipped(String),
    /// Problem.
    Failed(String),
}

/// Why a check ended early.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    Skip(String),
    Fail(String),
}

/// The result of anything within a check.
pub(crate) type Step<T = ()> = Result<T, Stop>;

impl From<Step> for Verdict {
    fn from(end: Step) -> Self {
        match end {
            Ok(()) => Self::Passed,
            Err(Stop::Skip(why)) => Self::Skipped(why),
            Err(Stop::Fail(why)) => Self::Failed(why),
        }
    }
}

pub(crate) fn fail<T>(why: impl Into<String>) -> Step<T> {
    Err(Stop::Fail(why.into()))
}

pub(crate) fn skip<T>(why: impl Into<String>) -> Step<T> {
    Err(Stop::Skip(why.into()))
}

/// Fails the check with a formatted message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::verdict::Stop::Fail(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;
