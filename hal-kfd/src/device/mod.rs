//! A device that adds Lv3 to another device's queues.

mod exit;
mod halves;
mod holds;
mod watchdog;

use std::fmt;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use xsched_core::cost::{CostModel, Reach};
use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, DeviceInfo, ErrorType, HalError, Halves};
use xsched_core::id::QueueId;
use xsched_core::level::{Level, Recovery};

pub use exit::at_exit;
pub use halves::{KfdPreempt, KfdRetire, KfdSubmit};
pub use holds::Counts;

use crate::attribution::{Attribution, Before, Unattributed, check_listed};
use crate::cost::cost_model;
use crate::error::KfdError;
use crate::guard::Guard;
use crate::mechanism::{Kind, Mechanism};
use crate::queue::{KfdQueue, QueueFacts};
use crate::topology::{Gpu, Sysfs};
use holds::Holds;

/// Says whether the device below has opened its gates for the moment, because a call into the
/// driver did not return. Called every few hundred microseconds, from one thread.
pub type GatesOpen = Box<dyn Fn() -> bool + Send>;

/// Says whether all that is in the hardware queue of a stream is held or has nothing to do; `None`
/// if the stream shares none that can be held as a whole.
pub type HeldTogether = Arc<dyn Fn() -> Option<bool> + Send + Sync>;

/// A place where a queue says why it has no Lv3, or has it no more, as text for the user.
pub type Reason = Arc<Mutex<Option<String>>>;

/// Mechanism, attribution and guard of a device.
#[derive(Debug)]
pub struct Parts {
    /// Suspends and resumes queues.
    pub mechanism: Arc<dyn Mechanism>,
    /// Tells which of the driver's queues belongs to a stream.
    pub attribution: Box<dyn Attribution>,
    /// Says when nothing may be suspended any more.
    pub guard: Option<Guard>,
}

/// Makes the parts when the first queue at Lv3 is opened, and again at each later one if it could
/// not.
pub type Source = Box<dyn FnMut() -> Result<Parts, KfdError> + Send>;

/// Configuration of a [`KfdDevice`].
#[derive(Debug)]
#[non_exhaustive]
pub struct KfdConfig {
    /// The GPU, or partition. Without it [`Backend::cost`] predicts nothing. Default: `None`.
    pub gpu: Option<Gpu>,
    /// Steps wait for [`Backend::commit`], so that steps that are decided together are one batch.
    /// Default: true.
    pub stages: bool,
    /// A launch that takes longer while a queue is suspended counts as blocked: all queues are
    /// resumed until it returns. Default: 200 µs.
    pub blocked_after: Duration,
    /// Where the driver's list of queues is read, to check each queue before it gets Lv3. `None`
    /// skips the check. Default: this machine's sysfs.
    pub sysfs: Option<Sysfs>,
    /// The mechanism of a device whose parts are made on demand, for [`Backend::cost`]. Default:
    /// `None`.
    pub expected: Option<Kind>,
}

impl Default for KfdConfig {
    fn default() -> Self {
        Self {
            gpu: None,
            stages: true,
            blocked_after: Duration::from_micros(200),
            sysfs: Some(Sysfs::default()),
            expected: None,
        }
    }
}

/// Configuration of a queue: that of the device below, and the highest level.
#[derive(Clone, Debug)]
pub struct KfdQueueConfig<C> {
    below: C,
    level_max: Level,
    known: Option<QueueFacts>,
    stream: Option<usize>,
    reason: Option<Reason>,
    together: Together,
}

/// Test that a queue which streams share is held as a whole.
#[derive(Clone, Default)]
pub(crate) struct Together(Option<HeldTogether>);

impl Debug for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Together").field(&self.0.is_some()).finish()
    }
}

impl Together {
    /// As [`HeldTogether`].
    fn is_held(&self) -> Option<bool> {
        self.0.as_ref().and_then(|held| held())
    }
}

impl<C> KfdQueueConfig<C> {
    /// A queue at up to Lv3, which the device below opens with `below`. To have Lv3 it must get a
    /// hardware ring of its own.
    #[must_use]
    pub const fn new(below: C) -> Self {
        let level_max = Level::Interrupt;
        let together = Together(None);
        Self { below, level_max, known: None, stream: None, reason: None, together }
    }

    /// Sets the highest level. Below Lv3 no call to the driver is made for the queue.
    #[must_use]
    pub const fn level_max(mut self, level: Level) -> Self {
        self.level_max = level;
        self
    }

    /// Names the driver's queue of the stream, where the program knows it ([`crate::attribution`]).
    /// No other stream may use the queue's ring.
    #[must_use]
    pub const fn known_as(mut self, queue: QueueFacts) -> Self {
        self.known = Some(queue);
        self
    }

    /// The queue is for a stream that was made before, at this address. The attribution has to have
    /// seen it made ([`Attribution::of_stream`]).
    #[must_use]
    pub const fn for_stream(mut self, stream: usize) -> Self {
        self.stream = Some(stream);
        self
    }

    /// The stream may share its hardware queue with others, or have commands in queues that others
    /// share. It is suspended only while this says that all of them are held, or nothing: it is
    /// asked before, and then every 650 µs.
    #[must_use]
    pub fn held_together(mut self, held: HeldTogether) -> Self {
        self.together = Together(Some(held));
        self
    }

    /// Where it is said why the queue has no Lv3, or has it no more.
    #[must_use]
    pub fn reason_to(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }
}

/// An error of a [`KfdDevice`].
#[derive(Debug, thiserror::Error)]
pub enum DeviceError<E: std::error::Error + 'static> {
    /// An error of the device below.
    #[error(transparent)]
    Below(E),
    /// An error of the driver.
    #[error(transparent)]
    Kfd(#[from] KfdError),
    /// The watchdog thread cannot be started.
    #[error("the watchdog thread for suspended queues cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

impl<E: HalError> HalError for DeviceError<E> {
    fn kind(&self) -> Fault {
        match self {
            Self::Below(error) => error.kind(),
            Self::Kfd(error) => error.kind(),
            Self::Thread(_) => Fault::NotSupported,
        }
    }
}

/// Adds Lv3 to another device.
///
/// Queues are opened on the device below, and commands go to it unchanged. While a queue is opened,
/// an [`Attribution`] finds out which of the driver's queues it is. If it cannot, the queue stays
/// at the level of the device below, and [`KfdDevice::why_not`] says why.
///
/// A hold at Lv3 is the hold of the device below, followed by the suspension, which stops the
/// running command. The release is the reverse.
///
/// While a queue is suspended, a watchdog thread resumes all queues for as long as a launch is
/// blocked or the device below has opened its gates. It also suspends again the queues that their
/// owner has made active. A queue is resumed before it is closed and before the program exits.
#[derive(Debug)]
pub struct KfdDevice<B> {
    below: B,
    holds: Arc<Holds>,
    state: State,
    config: KfdConfig,
    why_not: Option<Unattributed>,
}

/// State of the parts.
enum State {
    Ready(Box<dyn Attribution>),
    /// Parts that are made on demand.
    Waiting(Source, Option<GatesOpen>),
}

impl Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(attribution) => f.debug_tuple("Ready").field(attribution).finish(),
            Self::Waiting(..) => f.write_str("Waiting"),
        }
    }
}

impl<B: Backend> KfdDevice<B> {
    /// Adds Lv3 to a device.
    ///
    /// `gates_open` is for a device below that opens its gates by itself while a call is blocked.
    ///
    /// # Errors
    /// [`DeviceError::Thread`] if the watchdog thread cannot be started.
    pub fn new(
        below: B,
        mechanism: Arc<dyn Mechanism>,
        attribution: Box<dyn Attribution>,
        gates_open: Option<GatesOpen>,
        config: KfdConfig,
    ) -> Result<Self, DeviceError<B::Error>> {
        let parts = Parts { mechanism, attribution, guard: None };
        Self::with_parts(below, parts, gates_open, config)
    }

    /// As [`KfdDevice::new`], with a guard.
    ///
    /// # Errors
    /// As [`KfdDevice::new`].
    pub fn with_parts(
        below: B,
        parts: Parts,
        gates_open: Option<GatesOpen>,
        config: KfdConfig,
    ) -> Result<Self, DeviceError<B::Error>> {
        let nothing: Source = Box::new(|| Err(KfdError::SessionEnded));
        let mut device = Self::on_demand(below, nothing, None, config);
        device.arm(parts, gates_open).map_err(DeviceError::Thread)?;
        Ok(device)
    }

    /// Adds Lv3 to a device when it is first asked for: until then there is no thread, and no call
    /// is made to the driver. If `source` makes no parts, queues stay at the level of the device
    /// below and say why.
    pub fn on_demand(
        below: B,
        source: Source,
        gates_open: Option<GatesOpen>,
        config: KfdConfig,
    ) -> Self {
        let state = State::Waiting(source, gates_open);
        Self { below, holds: Arc::new(Holds::new()), state, config, why_not: None }
    }

    /// From now on queues can have Lv3.
    fn arm(&mut self, parts: Parts, gates_open: Option<GatesOpen>) -> std::io::Result<()> {
        let Parts { mechanism, attribution, guard } = parts;
        watchdog::start(&self.holds, gates_open, self.config.blocked_after)?;
        at_exit(&mechanism);
        self.holds.arm(mechanism, guard);
        self.state = State::Ready(attribution);
        Ok(())
    }

    /// Attribution of streams to the driver's queues, made on demand.
    fn attribution(&mut self) -> Result<&dyn Attribution, Unattributed> {
        if let Some(why) = self.holds.stopped() {
            return Err(KfdError::Stopped { why: why.to_owned() }.into());
        }
        if let State::Waiting(source, gates_open) = &mut self.state {
            let parts = source()?;
            let gates_open = gates_open.take();
            self.arm(parts, gates_open).map_err(|error| Unattributed::Thread(error.to_string()))?;
        }
        match &self.state {
            State::Ready(attribution) => Ok(&**attribution),
            State::Waiting(..) => Err(Unattributed::NoObserver),
        }
    }

    /// The device below.
    pub const fn below(&self) -> &B {
        &self.below
    }

    /// The device below, to change it.
    pub const fn below_mut(&mut self) -> &mut B {
        &mut self.below
    }

    /// Why the queue that was opened last has no Lv3. `None` if it has Lv3 or did not ask for it.
    pub const fn why_not(&self) -> Option<&Unattributed> {
        self.why_not.as_ref()
    }

    /// Counts of blocked launches and of updates by queues' owners.
    pub fn counts(&self) -> Counts {
        self.holds.counts()
    }

    /// The queue that was made since `before`, or for the stream, checked against sysfs, and what
    /// says whether it is held as a whole, if others may be in it.
    fn attribute(
        &mut self,
        stream: Option<usize>,
        before: Result<Before, Unattributed>,
        together: Together,
    ) -> Result<(KfdQueue, Together), Unattributed> {
        let before = before?;
        let attribution = self.attribution()?;
        let facts = match stream {
            Some(stream) => attribution.of_stream(stream),
            None => attribution.single_since(&before),
        };
        match (facts, stream) {
            (Err(Unattributed::Unseen), Some(stream)) if together.is_held().is_some() => {
                let facts = attribution.of_shared(stream)?;
                Ok((self.checked(facts)?, together))
            }
            (facts, _) => Ok((self.checked(facts?)?, together)),
        }
    }

    fn checked(&self, facts: QueueFacts) -> Result<KfdQueue, Unattributed> {
        if !facts.runs_waves() {
            return Err(Unattributed::NoWaves { id: facts.id });
        }
        if let Some(sysfs) = &self.config.sysfs {
            check_listed(sysfs, std::process::id(), &facts)?;
        }
        Ok(KfdQueue::new(facts)?)
    }
}

impl<B: Backend> ErrorType for KfdDevice<B> {
    type Error = DeviceError<B::Error>;
}

type Opened<B> = Halves<
    KfdSubmit<<B as Backend>::Submit>,
    KfdRetire<<B as Backend>::Retire>,
    KfdPreempt<<B as Backend>::Preempt>,
>;

impl<B: Backend> Backend for KfdDevice<B> {
    type Config = KfdQueueConfig<B::Config>;
    type Submit = KfdSubmit<B::Submit>;
    type Retire = KfdRetire<B::Retire>;
    type Preempt = KfdPreempt<B::Preempt>;

    fn open(&mut self, queue: QueueId, config: Self::Config) -> Result<Opened<B>, Self::Error> {
        let KfdQueueConfig { below, level_max, known, stream, reason, together } = config;
        let wanted = level_max >= Level::Interrupt;
        let before = if wanted {
            self.attribution().and_then(Attribution::before)
        } else {
            Err(Unattributed::NoObserver)
        };
        let halves = self.below.open(queue, below).map_err(DeviceError::Below)?;
        let attributed = match known {
            _ if !wanted => None,
            Some(facts) => {
                let checked = before.and_then(|_| self.checked(facts));
                Some(checked.map(|queue| (queue, together)))
            }
            None => Some(self.attribute(stream, before, together)),
        };
        let found = attributed.and_then(|attributed| match attributed {
            Ok((queue, together)) => Some((Arc::new(queue), together)),
            Err(why) => {
                tracing::warn!("a queue has {} and not Lv3: {why}", halves.caps.level);
                if let Some(reason) = &reason {
                    *reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_string());
                }
                self.why_not = Some(why);
                None
            }
        });
        let mut caps = halves.caps;
        if found.is_some() {
            (caps.level, caps.interrupt) = (Level::Interrupt, Some(Recovery::Continue));
            self.why_not = None;
        }
        let slot = self.holds.add(found, reason);
        let gated = caps.deactivate.is_some();
        let preempt = KfdPreempt::new(halves.preempt, &slot, &self.holds, self.config.stages);
        let submit = KfdSubmit::new(halves.submit, &slot);
        let retire = KfdRetire::new(halves.retire, &slot, gated);
        Ok(Halves { submit, retire, preempt, caps })
    }

    fn stages(&self) -> bool {
        self.config.stages || self.below.stages()
    }

    /// Carries out the staged steps with as few preemptions as the mechanism needs. Each queue
    /// reports the result of its own step.
    fn commit(&mut self) -> Result<(), Self::Error> {
        let below = self.below.commit().map_err(DeviceError::Below);
        self.holds.commit();
        below
    }

    /// The cost of this GPU's interrupts. The fixed parts are assumed ([`crate::cost`]): no
    /// measured ones are published.
    fn cost(&self) -> Option<CostModel> {
        let gpu = self.config.gpu.as_ref()?;
        let is_one = match self.holds.mechanism() {
            Some(mechanism) => mechanism.preemptions(2) == 1,
            None => self.config.expected == Some(Kind::DebugTrap),
        };
        let below = self.below.cost().unwrap_or_default();
        let own = cost_model(gpu);
        Some(CostModel {
            save_fixed: own.save_fixed,
            save_context: own.save_context,
            restore_fixed: own.restore_fixed,
            restore_context: own.restore_context,
            reach: Reach::Device,
            batches: self.config.stages && is_one,
            ..below
        })
    }

    fn info(&self) -> DeviceInfo {
        self.below.info()
    }
}

#[cfg(test)]
mod tests;
