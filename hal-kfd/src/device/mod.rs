//! Another device's queues, and the driver's way to stop them in the midst of a command.

mod ends;
mod halves;
mod holds;
mod minder;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use xsched_core::cost::{CostModel, Reach};
use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, DeviceInfo, ErrorType, HalError, Halves};
use xsched_core::id::QueueId;
use xsched_core::level::{Level, Recovery};

pub use ends::at_exit;
pub use halves::{KfdPreempt, KfdRetire, KfdSubmit};
pub use holds::Counts;

use crate::attribution::{Attribution, Before, Unattributed, check_listed};
use crate::cost::cost_model;
use crate::error::KfdError;
use crate::mechanism::Mechanism;
use crate::queue::{KfdQueue, QueueFacts};
use crate::topology::{Gpu, Sysfs};
use holds::Holds;

/// Says whether the device below has let its own holds go for the moment, because a call into the
/// driver did not come back. Called often, from one thread.
pub type Lifted = Box<dyn Fn() -> bool + Send>;

/// How a [`KfdDevice`] is set up.
#[derive(Debug)]
#[non_exhaustive]
pub struct KfdConfig {
    /// The GPU, or partition; `None` if it is not known, and then nothing is predicted.
    pub gpu: Option<Gpu>,
    /// Steps wait for [`Backend::commit`], so that those that are decided together are one batch.
    pub stages: bool,
    /// A launch that is under way for longer while a queue is suspended lets all queues go until it
    /// has ended. 200 µs to begin with.
    pub blocked_after: Duration,
    /// Where what is known of a queue is held against what the driver lists.
    pub sysfs: Option<Sysfs>,
}

impl Default for KfdConfig {
    fn default() -> Self {
        Self {
            gpu: None,
            stages: true,
            blocked_after: Duration::from_micros(200),
            sysfs: Some(Sysfs::default()),
        }
    }
}

/// How a queue is opened: as the device below opens it, and up to which level.
#[derive(Clone, Copy, Debug)]
pub struct KfdQueueConfig<C> {
    below: C,
    level_max: Level,
    known: Option<QueueFacts>,
}

impl<C> KfdQueueConfig<C> {
    /// As the device below opens it, which must give it a hardware ring of its own.
    #[must_use]
    pub const fn new(below: C) -> Self {
        Self { below, level_max: Level::Interrupt, known: None }
    }

    /// Sets the highest level. Below Lv3 the driver is left alone.
    #[must_use]
    pub const fn level_max(mut self, level: Level) -> Self {
        self.level_max = level;
        self
    }

    /// Says which queue the stream is, where the program knows, because it has seen the queue made
    /// ([`crate::attribution`]). Nobody else's work may be in its ring.
    #[must_use]
    pub const fn known_as(mut self, queue: QueueFacts) -> Self {
        self.known = Some(queue);
        self
    }
}

/// An error of the device below, or of the driver.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError<E: std::error::Error + 'static> {
    /// Of the device below.
    #[error(transparent)]
    Below(E),
    /// Of the driver.
    #[error(transparent)]
    Kfd(#[from] KfdError),
    /// The thread that looks after suspended queues cannot be started.
    #[error("the thread that looks after suspended queues cannot be started: {0}")]
    Thread(std::io::Error),
}

impl<E: HalError + std::error::Error + 'static> HalError for DeviceError<E> {
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
/// Queues are opened below, where commands go through as they did. Which of the driver's queues
/// each is, is seen while it is opened. One of which that cannot be told stays at the level that it
/// has below, and [`KfdDevice::why_not`] says why.
///
/// A hold at Lv3 is the one below and then the suspension, which stops the running command; the way
/// back is the reverse. While a queue is suspended a thread looks after it: it lets all queues go
/// for as long as a launch is blocked or the device below has let its own holds go, and suspends
/// again what others have let go. A queue that is closed, and a program that ends, let everything
/// go.
#[derive(Debug)]
pub struct KfdDevice<B> {
    below: B,
    holds: Arc<Holds>,
    attribution: Box<dyn Attribution>,
    config: KfdConfig,
    why_not: Option<Unattributed>,
}

impl<B: Backend> KfdDevice<B>
where
    B::Error: std::error::Error + 'static,
{
    /// Adds Lv3 to a device.
    ///
    /// `lifted` is the device's own answer, where it lets holds go by itself.
    ///
    /// # Errors
    /// [`DeviceError::Thread`].
    pub fn new(
        below: B,
        mechanism: Arc<dyn Mechanism>,
        attribution: Box<dyn Attribution>,
        lifted: Option<Lifted>,
        config: KfdConfig,
    ) -> Result<Self, DeviceError<B::Error>> {
        at_exit(&mechanism);
        let holds = Arc::new(Holds::new(mechanism));
        let started = minder::start(&holds, lifted, config.blocked_after);
        started.map_err(DeviceError::Thread)?;
        Ok(Self { below, holds, attribution, config, why_not: None })
    }

    /// The device below.
    pub const fn below(&self) -> &B {
        &self.below
    }

    /// The device below.
    pub const fn below_mut(&mut self) -> &mut B {
        &mut self.below
    }

    /// Why the queue that was opened last has no Lv3, if it has not and was to have it.
    pub const fn why_not(&self) -> Option<&Unattributed> {
        self.why_not.as_ref()
    }

    /// How often something out of the ordinary has happened.
    pub fn counts(&self) -> Counts {
        self.holds.counts()
    }

    /// The queue that was made since, held against sysfs.
    fn attribute(&self, before: Result<Before, Unattributed>) -> Result<KfdQueue, Unattributed> {
        let facts = self.attribution.the_one_since(&before?)?;
        self.checked(facts)
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

impl<B: Backend> ErrorType for KfdDevice<B>
where
    B::Error: std::error::Error + 'static,
{
    type Error = DeviceError<B::Error>;
}

type Opened<B> = Halves<
    KfdSubmit<<B as Backend>::Submit>,
    KfdRetire<<B as Backend>::Retire>,
    KfdPreempt<<B as Backend>::Preempt>,
>;

impl<B: Backend> Backend for KfdDevice<B>
where
    B::Error: std::error::Error + 'static,
{
    type Config = KfdQueueConfig<B::Config>;
    type Submit = KfdSubmit<B::Submit>;
    type Retire = KfdRetire<B::Retire>;
    type Preempt = KfdPreempt<B::Preempt>;

    fn open(&mut self, queue: QueueId, config: Self::Config) -> Result<Opened<B>, Self::Error> {
        let KfdQueueConfig { below, level_max, known } = config;
        let wanted = level_max >= Level::Interrupt;
        let before = if wanted && known.is_none() {
            self.attribution.before()
        } else {
            Err(Unattributed::NobodyLooks)
        };
        let halves = self.below.open(queue, below).map_err(DeviceError::Below)?;
        let attributed = match known {
            _ if !wanted => None,
            Some(facts) => Some(self.checked(facts)),
            None => Some(self.attribute(before)),
        };
        let found = attributed.and_then(|attributed| match attributed {
            Ok(queue) => Some(Arc::new(queue)),
            Err(why) => {
                tracing::warn!("a queue is at {} and not at Lv3: {why}", halves.caps.level);
                self.why_not = Some(why);
                None
            }
        });
        let mut caps = halves.caps;
        if found.is_some() {
            (caps.level, caps.interrupt) = (Level::Interrupt, Some(Recovery::Continue));
            self.why_not = None;
        }
        let slot = self.holds.add(found);
        let gated = caps.deactivate.is_some();
        let preempt = KfdPreempt::new(halves.preempt, &slot, &self.holds, self.config.stages);
        let submit = KfdSubmit::new(halves.submit, &slot);
        let retire = KfdRetire::new(halves.retire, &slot, gated);
        Ok(Halves { submit, retire, preempt, caps })
    }

    fn stages(&self) -> bool {
        self.config.stages || self.below.stages()
    }

    /// Suspends and resumes what was staged, by as few preemptions as the mechanism can. How each
    /// ended is told by its queue.
    fn commit(&mut self) -> Result<(), Self::Error> {
        let below = self.below.commit().map_err(DeviceError::Below);
        self.holds.commit();
        below
    }

    /// With the fixed parts as assumed: nobody has published any that were measured.
    fn cost(&self) -> Option<CostModel> {
        let gpu = self.config.gpu.as_ref()?;
        let mechanism = self.holds.mechanism();
        let below = self.below.cost().unwrap_or_default();
        let own = cost_model(gpu);
        Some(CostModel {
            save_fixed: own.save_fixed,
            save_context: own.save_context,
            restore_fixed: own.restore_fixed,
            restore_context: own.restore_context,
            reach: Reach::Device,
            batches: self.config.stages && mechanism.preemptions(2) == 1,
            ..below
        })
    }

    fn info(&self) -> DeviceInfo {
        self.below.info()
    }
}

#[cfg(test)]
mod tests;
