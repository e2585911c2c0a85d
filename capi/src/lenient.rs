//! Calls that the C++ XSched takes though it cannot do what they say.
//!
//! Programs written for it ignore its answers, so such a call is taken here too, as the C++ XSched
//! takes it or as near as this library can, and the log says what it comes to, once for each kind.
//! `XSCHED_STRICT=ON` has such calls refused.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::refusal::{Answer, Refusal};

/// Subject of a call. Each is said once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    Priority,
    Utilization,
    Timeslice,
    Laxity,
    LaxityPriority,
    Deadline,
    K,
    Policy,
    Level,
    Scheduler,
    CreateFlags,
    SuspendFlags,
    ResumeFlags,
}

/// Rule whether such calls are taken, and the kinds that the log has.
#[derive(Debug)]
pub(crate) struct Leniency {
    strict: bool,
    said: AtomicU32,
}

impl Leniency {
    pub(crate) const fn new(strict: bool) -> Self {
        Self { strict, said: AtomicU32::new(0) }
    }

    /// Takes a call that cannot be done as it is: the log says why, and what it comes to instead.
    ///
    /// # Errors
    /// The refusal, if such calls are to be refused.
    pub(crate) fn take(&self, about: About, refusal: Refusal, instead: impl Display) -> Answer {
        if self.strict {
            return Err(refusal);
        }
        let bit = 1 << about as u32;
        if self.said.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            tracing::warn!(
                "{}; {instead} (said once; XSCHED_STRICT=ON refuses such calls)",
                refusal.why
            );
        }
        Ok(())
    }
}

/// The flags that a function takes.
#[derive(Debug)]
pub(crate) struct Flags {
    pub(crate) about: About,
    /// For messages.
    pub(crate) function: &'static str,
    pub(crate) known: i64,
}

impl Flags {
    /// Known flags; −1 stands for all of them. Others are ignored, or the call is refused.
    pub(crate) fn known_of(&self, leniency: &Leniency, flags: i64) -> Answer<i64> {
        let Self { about, function, known } = self;
        let others = flags & !known;
        if flags != -1 && others != 0 {
            let why = format!("{function} has no flags {others:#x}");
            leniency.take(*about, Refusal::invalid(why), "they are ignored")?;
        }
        Ok(flags & known)
    }
}

/// The values that a hint can have.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) about: About,
    /// For messages.
    pub(crate) name: &'static str,
    pub(crate) min: i64,
    pub(crate) max: i64,
}

impl Range {
    /// Returns whether it has a value. Where not, the call comes to something else or is refused.
    pub(crate) fn has(
        &self,
        leniency: &Leniency,
        value: i64,
        instead: impl Display,
    ) -> Answer<bool> {
        let Self { about, name, min, max } = self;
        if (*min..=*max).contains(&value) {
            return Ok(true);
        }
        let why = format!("{name} must be {min} to {max}, is {value}");
        leniency.take(*about, Refusal::invalid(why), instead)?;
        Ok(false)
    }

    /// A value if it is in the range; otherwise `instead` counts, or the call is refused.
    pub(crate) fn or(&self, leniency: &Leniency, value: i64, instead: i64) -> Answer<i64> {
        let has = self.has(leniency, value, format_args!("{instead} counts"))?;
        Ok(if has { value } else { instead })
    }
}
