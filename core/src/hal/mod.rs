//! Traits that a device backend implements, and wrappers that work on any backend.
//!
//! A backend opens a hardware queue as three halves, because three threads touch it: the one that
//! launches ([`Submit`]), the one that watches completions ([`Retire`]) and the one that preempts
//! ([`Steps`]). Ownership replaces a lock around all of them.
//!
//! What a backend can do is a type: it implements [`Deactivate`] or [`Interrupt`] and names the
//! highest level it reaches ([`Preempt::Top`]), so that claiming a level without the code for it
//! does not compile.
//! What the device in hand allows *now* is a value, [`Caps`].
//!
//! Wrappers: [`Noop`] is a device that completes at once. [`Checked`] watches the contract between
//! queue and device. [`Faulty`] injects seeded faults. [`Traced`] shows every call to an observer.
//! They stack. A wrapper passes on what it does not change, for which there are
//! [`pass_on_submit`](crate::pass_on_submit) and [`pass_on_retire`](crate::pass_on_retire).
//!
//! # For authors of backends
//!
//! Commands arrive in order, and must retire in order. `launch` must not block: the queue keeps
//! what is in flight within [`Caps::entries_max`]. A step may be asked for while a launch is
//! blocked in the driver all the same, so [`Steps`] must not wait for [`Submit`]. Errors map to
//! [`Fault`] by [`HalError::kind`].
//!
//! Under [`crate::level::Recovery::Replay`] a held device forgets: what the answer of the hold step
//! names and everything behind it, and whatever is launched until the release. If such a launch
//! comes and the hold step did not name that command or one before it, the answer of the release
//! names it. All of that is launched again. A fence that covers no forgotten command is put or
//! refused as usual. Drivers do not ask for the release while a launch is on its way.

mod adapter;
mod checked;
mod faulty;
mod noop;
mod pass_on;
#[cfg(test)]
mod tests;
mod traced;

pub use adapter::{Deactivate, Interrupt, LevelAdapter, LevelFor, Lv1, Lv2, Lv3, Preempt};
pub use checked::{Breach, Checked, Contract};
pub use faulty::{FaultRates, Faulty, FaultyError};
pub use noop::{NoMoreQueues, Noop, NoopHalf, NoopQueue};
pub use traced::{Call, Sink, Traced};

pub use crate::queue::{Outcome, Retired};

use core::task::Waker;

use crate::cost::CostModel;
use crate::fault::Fault;
use crate::id::{CmdId, QueueId};
use crate::level::{Caps, Level, Step};
use crate::time::Duration;

/// An error of a backend.
///
/// `xsched::Error::Open` carries it to the program, as its source.
pub trait HalError: core::error::Error + Send + Sync + 'static {
    /// Returns the fault as commands and queues see it.
    fn kind(&self) -> Fault;
}

impl HalError for Fault {
    fn kind(&self) -> Fault {
        *self
    }
}

impl HalError for core::convert::Infallible {
    fn kind(&self) -> Fault {
        match *self {}
    }
}

/// Names the error type of a backend, once for all its halves.
pub trait ErrorType {
    /// The error.
    type Error: HalError;
}

impl<T: ErrorType + ?Sized> ErrorType for &mut T {
    type Error = T::Error;
}

/// Conditions under which a command is launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchMode {
    /// A scheduler may have a use for when the queue runs out of work.
    #[default]
    Attended,
    /// No scheduler has one.
    Unattended,
    /// More is in flight than the queue meant to have, as nothing retires. What a half puts beside
    /// commands, such as gates, takes the place of commands, and is left out unless the queue is
    /// held.
    Crowded,
}

/// The half that launches.
pub trait Submit: ErrorType {
    /// Payload of a command, as the backend takes it.
    type Payload: ?Sized;

    /// Launches a command, with a fence behind it if its completion must be seen.
    ///
    /// # Errors
    /// If the device did not take it. The command then counts as failed.
    fn launch(
        &mut self,
        cmd: CmdId,
        payload: &Self::Payload,
        fence: bool,
    ) -> Result<(), Self::Error>;

    /// Prepares the launch of a command that the caller makes by itself, on this thread, between
    /// this and [`Submit::end_launch`]: nothing else is asked of this half in between.
    ///
    /// # Errors
    /// If the device takes no command. The caller makes no launch then, and does not end it.
    fn begin_launch(
        &mut self,
        cmd: CmdId,
        payload: &Self::Payload,
        _fence: bool,
    ) -> Result<(), Self::Error> {
        self.launch(cmd, payload, false)
    }

    /// Ends what [`Submit::begin_launch`] has begun, of the same command and with the same `fence`.
    /// `launched`: the device took the command, which is to have its fence. Otherwise the command
    /// has failed.
    ///
    /// # Errors
    /// If the command counts as failed all the same.
    fn end_launch(&mut self, cmd: CmdId, fence: bool, launched: bool) -> Result<(), Self::Error> {
        if fence && launched { self.fence(cmd) } else { Ok(()) }
    }

    /// Puts a fence behind everything launched so far; its completion means that `upto` has
    /// retired.
    ///
    /// # Errors
    /// If the device did not take it.
    fn fence(&mut self, upto: CmdId) -> Result<(), Self::Error>;

    /// Puts a fence behind everything launched so far, of which `upto` is the last command, and
    /// touches the hardware queue no more until the next launch: who made that may end it then, or
    /// have a graph captured there. False if the half cannot do that; it has done nothing then. Who
    /// wraps a half passes it on.
    ///
    /// # Errors
    /// If the device did not take the fence.
    fn seal(&mut self, upto: CmdId) -> Result<bool, Self::Error> {
        let _ = upto;
        Ok(false)
    }

    /// How many more commands can be launched now, by what is in flight, before a launch might
    /// block. `None` if all fit that [`Caps`] allow. It is asked after launches and after
    /// completions. Who wraps a half passes the answer on.
    fn room(&self) -> Option<u32> {
        None
    }

    /// Says under which conditions the next command is launched. Who wraps a half passes it on.
    fn set_launch_mode(&mut self, mode: LaunchMode) {
        let _ = mode;
    }

    /// Returns whether a burst is under way: behind the last command, which has no fence and was
    /// launched by its caller in [`LaunchMode::Unattended`], threads launch more without commands
    /// for that. The command ends with the burst, and the burst with the next command or fence. Who
    /// wraps a half passes the answer on.
    fn is_in_burst(&self) -> bool {
        false
    }

    /// Ends a burst, as the queue is held. Who wraps a half passes it on.
    fn end_burst(&mut self) {}

    /// Returns whether another scheduler than that of the queue, such as that of a node, has no use
    /// for when the queue begins or ends to have work. Who wraps a half passes the answer on.
    fn is_unattended(&self) -> bool {
        false
    }

    /// Returns whether another scheduler than that of the queue, such as that of a node, holds the
    /// commands in flight, so that they cannot be expected to retire. Who wraps a half passes the
    /// answer on.
    fn is_held(&self) -> bool {
        false
    }
}

/// The half that watches completions.
pub trait Retire: ErrorType {
    /// True if commands run on threads of this process, so that one may call into the driver of
    /// the queue: then that asks [`Retire::kept_by_caller`] before it waits. Who wraps a half
    /// passes both on.
    const RUNS_ON_THREADS: bool = false;

    /// The newest completion that was not reported yet, or `None`. Must not block.
    ///
    /// # Errors
    /// If the device cannot be asked.
    fn poll_retired(&mut self) -> Result<Option<Retired>, Self::Error>;

    /// Wakes `waker` once, from any thread, as soon as there is a completion that
    /// [`Retire::poll_retired`] has not reported; at once if there is one already.
    ///
    /// A later call replaces the waker of an earlier one. Returns false if the device cannot do
    /// that: the driver must poll for its completions.
    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }

    /// The end that a command which the calling thread runs keeps this queue from: a wait for that
    /// would be a wait for itself. Must not block.
    fn kept_by_caller(&self) -> Kept {
        Kept::FromNothing
    }

    /// When a command that was launched will probably be reported, if a fence covers it; `None` if
    /// that cannot be said. It only decides how soon the driver polls a device that cannot wake it.
    fn forecast(&mut self, cmd: CmdId) -> Option<Forecast> {
        let _ = cmd;
        None
    }
}

/// The end that a running command keeps a queue from until it has ended itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// The queue gets on beside it.
    FromNothing,
    /// The command is another queue's, and has what this one's commands need to start.
    FromStarting,
    /// The command is the queue's own.
    FromEnding,
}

/// When a command will probably be reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// From now; zero if it is overdue.
    pub left: Duration,
    /// Time since the report was due; zero if it is not overdue.
    pub overdue: Duration,
}

/// How far a step has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDone {
    /// The step is in effect. Under [`crate::level::Recovery::Replay`] with the first command that
    /// has to be launched again and has not been named yet.
    Now(Option<CmdId>),
    /// The step is on its way, or staged for the next [`Backend::commit`]; [`Steps::poll_step`]
    /// tells when it is in effect.
    Later,
}

/// The half that preempts, as drivers see it. Backends implement [`Preempt`] and its extensions and
/// wrap them in a [`LevelAdapter`].
pub trait Steps: ErrorType {
    /// The highest level that there is code for.
    fn level(&self) -> Level;

    /// Carries out a step.
    ///
    /// # Errors
    /// If the device refused it, or with [`Fault::NotSupported`] if there is no code for it.
    fn step(&mut self, step: Step) -> Result<StepDone, Fault>;

    /// The end of a step that was [`StepDone::Later`]. Must not block.
    ///
    /// # Errors
    /// If the step failed.
    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault>;

    /// Returns whether the hold steps that are in effect have stopped the queue: nothing of it
    /// runs, and nothing that was launched or is launched now starts before a release step.
    ///
    /// False while something runs or may still start, and while no hold step is in effect. `None`
    /// if the device cannot tell. True no longer counts when the device itself ends the hold, as
    /// when it forces gates open. Must not block.
    ///
    /// # Errors
    /// If the device cannot be asked.
    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        Ok(None)
    }
}

/// The halves of an open hardware queue, and what it allows.
#[derive(Debug)]
pub struct Halves<S, R, P> {
    /// Launches.
    pub submit: S,
    /// Watches completions.
    pub retire: R,
    /// Preempts.
    pub preempt: P,
    /// Capabilities of this queue on this device, now.
    pub caps: Caps,
}

/// Description of a device, for records and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// A short name.
    pub name: &'static str,
    /// Commands of different queues that run at once without slowing each other down; 0 if that
    /// cannot be said.
    pub units: u32,
}

/// A device that hardware queues can be opened on.
///
/// This is a backend at [`Level::Block`] whose commands run where they are launched:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use xsched_core::fault::Fault;
/// use xsched_core::hal::{Backend, ErrorType, Halves, LevelAdapter, Lv1, Preempt, Retire, Submit};
/// use xsched_core::id::{CmdId, QueueId};
/// use xsched_core::level::{Caps, Level};
/// use xsched_core::queue::{Outcome, Retired};
/// use xsched_core::time::Duration;
///
/// struct Calls;
/// struct Caller { fenced: Arc<AtomicU64> }
/// struct Watcher { fenced: Arc<AtomicU64>, seen: u64 }
/// struct Nothing;
///
/// impl ErrorType for Calls { type Error = Fault; }
/// impl ErrorType for Caller { type Error = Fault; }
/// impl ErrorType for Watcher { type Error = Fault; }
/// impl ErrorType for Nothing { type Error = Fault; }
///
/// impl Submit for Caller {
///     type Payload = fn();
///
///     fn launch(&mut self, cmd: CmdId, call: &fn(), fence: bool) -> Result<(), Fault> {
///         call();
///         if fence { self.fence(cmd) } else { Ok(()) }
///     }
///
///     fn fence(&mut self, upto: CmdId) -> Result<(), Fault> {
///         self.fenced.store(upto.count(), Ordering::Release);
///         Ok(())
///     }
/// }
///
/// impl Retire for Watcher {
///     fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
///         let fenced = self.fenced.load(Ordering::Acquire);
///         if fenced <= self.seen {
///             return Ok(None);
///         }
///         self.seen = fenced;
///         let upto = CmdId(fenced - 1);
///         Ok(Some(Retired { upto, busy: Duration::ZERO, outcome: Outcome::Ok }))
///     }
/// }
///
/// impl Preempt for Nothing {
///     type Top = Lv1;
/// }
///
/// impl Backend for Calls {
///     type Config = ();
///     type Submit = Caller;
///     type Retire = Watcher;
///     type Preempt = LevelAdapter<Nothing>;
///
///     fn open(
///         &mut self,
///         _: QueueId,
///         (): (),
///     ) -> Result<Halves<Caller, Watcher, LevelAdapter<Nothing>>, Fault> {
///         let fenced = Arc::new(AtomicU64::new(0));
///         Ok(Halves {
///             submit: Caller { fenced: Arc::clone(&fenced) },
///             retire: Watcher { fenced, seen: 0 },
///             preempt: LevelAdapter(Nothing),
///             caps: Caps::up_to(Level::Block, 64),
///         })
///     }
/// }
///
/// let mut queue = Calls.open(QueueId::new(0, 0), ())?;
/// let hello: fn() = || println!("hello");
/// queue.submit.launch(CmdId(0), &hello, false)?;
/// assert_eq!(queue.retire.poll_retired()?, None); // without a fence, nothing is seen
/// queue.submit.launch(CmdId(1), &hello, true)?;
/// assert_eq!(queue.retire.poll_retired()?.map(|retired| retired.upto), Some(CmdId(1)));
/// # Ok::<(), Fault>(())
/// ```
pub trait Backend: ErrorType {
    /// How a queue is opened: a user's stream, a priority, a flag page.
    type Config;
    /// The half that launches.
    type Submit: Submit<Error = Self::Error>;
    /// The half that watches completions.
    type Retire: Retire<Error = Self::Error>;
    /// The half that preempts.
    type Preempt: Steps<Error = Self::Error>;

    /// Opens a hardware queue for an XQueue.
    ///
    /// # Errors
    /// If the device has no more queues or refuses the configuration.
    #[expect(clippy::type_complexity, reason = "the three halves are the interface")]
    fn open(
        &mut self,
        queue: QueueId,
        config: Self::Config,
    ) -> Result<Halves<Self::Submit, Self::Retire, Self::Preempt>, Self::Error>;

    /// Returns whether steps may wait for a [`Backend::commit`] after they were answered with
    /// [`StepDone::Later`]. Must not change. If not, `commit` need not be called.
    fn stages(&self) -> bool {
        false
    }

    /// Carries out the steps that were staged since the last commit, for devices where several
    /// holds decided together cost one preemption. Other devices have nothing to do.
    ///
    /// It may take as long as the device needs. Meanwhile [`Steps::step`] of any queue must not
    /// wait for it: what is staged then is for the next commit. From its return on,
    /// [`Steps::poll_step`] tells how the steps ended that were staged before, unless the device
    /// goes on with them by itself.
    ///
    /// # Errors
    /// If the device refused them. Steps of which [`Steps::poll_step`] tells nothing then have
    /// failed, and are not carried out later.
    fn commit(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Returns the costs of holds on the device as far as known beforehand; `None` if unknown.
    fn cost(&self) -> Option<CostModel> {
        None
    }

    /// Returns the description of the device.
    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: "device", units: 0 }
    }
}
