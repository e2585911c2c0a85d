//! Step code of a backend for each level, checked by the compiler.

use super::{ErrorType, HalError, StepDone, Steps};
use crate::fault::Fault;
use crate::level::{Level, Step};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Lv1 {}
    impl Sealed for super::Lv2 {}
    impl Sealed for super::Lv3 {}
}

/// A hardware queue that can be preempted at least by not launching into it.
pub trait Preempt: ErrorType + Sized {
    /// The highest level that the backend has code for: [`Lv1`], [`Lv2`] (needs [`Deactivate`]) or
    /// [`Lv3`] (needs [`Interrupt`]).
    type Top: LevelFor<Self>;

    /// The end of a step that was [`StepDone::Later`]; see [`Steps::poll_step`].
    ///
    /// # Errors
    /// If the step failed.
    fn poll_step(&mut self) -> Result<Option<StepDone>, Self::Error> {
        Ok(None)
    }

    /// Returns whether the hold steps in effect have stopped the queue; see [`Steps::is_quiet`].
    ///
    /// # Errors
    /// If the device cannot be asked.
    fn is_quiet(&mut self) -> Result<Option<bool>, Self::Error> {
        Ok(None)
    }
}

/// Lv2: launched commands can be held before they start.
pub trait Deactivate: Preempt {
    /// Holds launched commands that have not started. The running one finishes.
    ///
    /// # Errors
    /// If the device refused.
    fn deactivate(&mut self) -> Result<StepDone, Self::Error>;

    /// Lets held commands start again.
    ///
    /// # Errors
    /// If the device refused.
    fn reactivate(&mut self) -> Result<StepDone, Self::Error>;
}

/// Lv3: the running command can be stopped and continued.
pub trait Interrupt: Deactivate {
    /// Stops the running command.
    ///
    /// # Errors
    /// If the device refused.
    fn interrupt(&mut self) -> Result<StepDone, Self::Error>;

    /// Continues it.
    ///
    /// # Errors
    /// If the device refused.
    fn restore(&mut self) -> Result<StepDone, Self::Error>;
}

/// A level that a backend can claim, if it has the code for it.
pub trait LevelFor<H: Preempt>: sealed::Sealed {
    /// The level.
    const LEVEL: Level;

    /// Carries out a step, or `None` if the level is too low for it.
    fn apply(hal: &mut H, step: Step) -> Option<Result<StepDone, H::Error>>;
}

/// Lv1: launching can be stopped, nothing more.
#[derive(Clone, Copy, Debug)]
pub struct Lv1;
/// Lv2: launched commands can be held.
#[derive(Clone, Copy, Debug)]
pub struct Lv2;
/// Lv3: running commands can be interrupted.
#[derive(Clone, Copy, Debug)]
pub struct Lv3;

impl<H: Preempt> LevelFor<H> for Lv1 {
    const LEVEL: Level = Level::Block;
    fn apply(_: &mut H, _: Step) -> Option<Result<StepDone, H::Error>> {
        None
    }
}

impl<H: Deactivate> LevelFor<H> for Lv2 {
    const LEVEL: Level = Level::Deactivate;
    fn apply(hal: &mut H, step: Step) -> Option<Result<StepDone, H::Error>> {
        match step {
            Step::Deactivate => Some(hal.deactivate()),
            Step::Reactivate => Some(hal.reactivate()),
            Step::Interrupt | Step::Restore => None,
        }
    }
}

impl<H: Interrupt> LevelFor<H> for Lv3 {
    const LEVEL: Level = Level::Interrupt;
    fn apply(hal: &mut H, step: Step) -> Option<Result<StepDone, H::Error>> {
        Some(match step {
            Step::Deactivate => hal.deactivate(),
            Step::Interrupt => hal.interrupt(),
            Step::Restore => hal.restore(),
            Step::Reactivate => hal.reactivate(),
        })
    }
}

/// A backend's preemption half as [`Steps`].
///
/// A backend cannot claim a level that it has no code for:
///
/// ```compile_fail,E0277
/// use xsched_core::fault::Fault;
/// use xsched_core::hal::{ErrorType, Lv3, Preempt};
/// struct Launcher;
/// impl ErrorType for Launcher { type Error = Fault; }
/// impl Preempt for Launcher { type Top = Lv3; }
/// ```
#[derive(Debug)]
pub struct LevelAdapter<H>(pub H);

impl<H: ErrorType> ErrorType for LevelAdapter<H> {
    type Error = H::Error;
}

impl<H: Preempt> Steps for LevelAdapter<H> {
    fn level(&self) -> Level {
        <H::Top as LevelFor<H>>::LEVEL
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        match H::Top::apply(&mut self.0, step) {
            Some(done) => done.map_err(|error| error.kind()),
            None => Err(Fault::NotSupported),
        }
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        self.0.poll_step().map_err(|error| error.kind())
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        self.0.is_quiet().map_err(|error| error.kind())
    }
}
