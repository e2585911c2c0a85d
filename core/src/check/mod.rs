//! The invariants, as checkers: one file each, constant memory, no allocation. Property tests, the
//! simulator's runs and [`crate::hal::Checked`] on real devices all use these.

mod bounded;
mod fail_open;
mod hold;
mod inversion;
mod order;
mod wait;
mod wakeup;
mod window;

use core::fmt;

pub use bounded::BoundedCheck;
pub use fail_open::FailOpenCheck;
pub use hold::HoldCheck;
pub use inversion::InversionCheck;
pub use order::OrderCheck;
pub use wait::WaitCheck;
pub use wakeup::WakeupCheck;
pub use window::WindowCheck;

/// The eight invariants of ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Commands of a queue reach the device in submission order, each exactly once.
    Order,
    /// No more is in flight than the threshold and the device allow.
    Window,
    /// After a hold is acknowledged, nothing of the queue starts.
    Hold,
    /// A wait returns when its command has retired or failed, with its outcome.
    Wait,
    /// Every submitted command that may run retires.
    Wakeup,
    /// A queue that a runnable queue waits for may run.
    Inversion,
    /// A silent scheduler holds no queue.
    FailOpen,
    /// Every buffer keeps to its capacity.
    Bounded,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Order,
        Self::Window,
        Self::Hold,
        Self::Wait,
        Self::Wakeup,
        Self::Inversion,
        Self::FailOpen,
        Self::Bounded,
    ];

    /// Short name, as in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Window => "window",
            Self::Hold => "hold",
            Self::Wait => "wait",
            Self::Wakeup => "wakeup",
            Self::Inversion => "inversion",
            Self::FailOpen => "fail_open",
            Self::Bounded => "bounded",
        }
    }
}

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Invariant that does not hold.
    pub invariant: Invariant,
    /// Description of the violation.
    pub what: &'static str,
    /// The command or count it is about.
    pub number: u64,
    /// Value that was allowed or expected.
    pub expected: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, what, number, expected } = self;
        write!(f, "{}: {what} ({number}, expected {expected})", invariant.name())
    }
}

impl core::error::Error for Violation {}

/// Result of a check.
pub type Verdict = Result<(), Violation>;

#[inline]
pub(crate) fn require(
    holds: bool,
    invariant: Invariant,
    what: &'static str,
    number: u64,
    expected: u64,
) -> Verdict {
    if holds { Ok(()) } else { Err(Violation { invariant, what, number, expected }) }
}
