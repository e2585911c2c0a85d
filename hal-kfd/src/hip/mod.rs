//! Lv3 for HIP's streams: the place where all programs put `hal-kfd` on top of `hal-hip`.
//!
//! A stream that HIP made before this saw it cannot have Lv3. So [`HipLv3`] observes the streams
//! that the device makes in rings of their own ([`RingObserver`]), and notes which of the driver's
//! queues each has. Such streams are used again ([`HipApi`]), and then no queue is made.
//!
//! [`RingObserver`]: xsched_hal_hip::RingObserver
//! [`HipApi`]: xsched_hal_hip::HipApi

mod canary;
mod rings;

use std::sync::{Arc, Mutex, PoisonError};

use xsched_core::hal::Backend;
use xsched_hal_hip::{HipApi, StreamDevice};

pub use rings::KnownRings;

use crate::access::Access;
use crate::attribution::Attribution;
use crate::device::{KfdConfig, KfdDevice, Parts, Source};
use crate::error::KfdError;
use crate::mechanism::Kind;
use crate::probe::ProbeConfig;
use rings::ByRings;

/// The driver below a device of HIP's, and the device's streams that it knows.
#[derive(Debug)]
pub struct HipLv3 {
    streams: StreamDevice<HipApi>,
    access: Result<Access, KfdError>,
    rings: Mutex<Option<Arc<KnownRings>>>,
}

impl HipLv3 {
    /// Probes the driver, which changes nothing. Without one, queues have no Lv3 and say why.
    #[must_use]
    pub fn open(streams: StreamDevice<HipApi>, asked: ProbeConfig) -> Self {
        let access = Access::open(asked, &streams.about().pci);
        Self { streams, access, rings: Mutex::default() }
    }

    /// The driver.
    ///
    /// # Errors
    /// Why there is none.
    pub fn access(&self) -> Result<&Access, KfdError> {
        self.access.as_ref().map_err(Clone::clone)
    }

    /// Returns the parts that suspend queues by the probe's choice, after an idle queue was
    /// suspended and resumed once in this process, to try it.
    ///
    /// # Errors
    /// Why Lv3 is not to be had, [`KfdError::CanaryFailed`] among it.
    pub fn parts(&self) -> Result<Parts, KfdError> {
        let access = self.access()?;
        let kind = access.choice()?;
        let mut parts = self.untried_parts(kind)?;
        let gpu = access.places().first().map_or(0, |gpu| gpu.gpu_id);
        let rings = self.rings()?;
        let tried = canary::tried_once(&self.streams, &rings, &parts.mechanism, gpu);
        tried.map_err(|why| KfdError::CanaryFailed { why })?;
        match parts.guard.as_mut().and_then(crate::guard::Guard::why_stop) {
            Some(why) => Err(KfdError::CanaryFailed { why }),
            None => Ok(parts),
        }
    }

    /// Parts with a mechanism of the caller's choice, without a trial.
    ///
    /// # Errors
    /// Why the mechanism cannot be used.
    pub fn untried_parts(&self, kind: Kind) -> Result<Parts, KfdError> {
        let access = self.access()?;
        // From before the first call on.
        let guard = Some(access.guard());
        let mechanism = access.mechanism(kind)?;
        let attribution = self.attribution()?;
        Ok(Parts { mechanism, attribution, guard })
    }

    /// Tells which of the driver's queues a stream is, of those that are made from now on.
    ///
    /// # Errors
    /// As [`HipLv3::rings`].
    pub fn attribution(&self) -> Result<Box<dyn Attribution>, KfdError> {
        Ok(Box::new(ByRings(self.rings()?, Some(self.streams.clone()))))
    }

    /// The streams that are known, which are observed from the first call on.
    ///
    /// # Errors
    /// If there is no driver, nothing can tell its queues, or the device cannot become current.
    pub fn rings(&self) -> Result<Arc<KnownRings>, KfdError> {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rings) = &*rings {
            return Ok(Arc::clone(rings));
        }
        let known = Arc::new(KnownRings::new(self.access()?.attribution()?));
        let observed = self.streams.api().observe_rings(Arc::clone(&known) as _);
        observed.map_err(|error| KfdError::NoMechanism { why: error.to_string() })?;
        Ok(Arc::clone(rings.insert(known)))
    }

    /// The configuration of a device on these streams.
    #[must_use]
    pub fn config(&self) -> KfdConfig {
        let mut config = KfdConfig::default();
        let choice = self.access().and_then(Access::choice);
        // Where there will be no Lv3, steps need not wait for each other.
        config.stages = choice.is_ok();
        config.expected = choice.ok();
        if let (Ok(access), Some(_)) = (&self.access, config.expected) {
            config.gpu = access.places().first().cloned();
        }
        config
    }

    /// Adds Lv3 to `below`, whose streams are these, when it is first asked for.
    pub fn device<B: Backend>(self: &Arc<Self>, below: B) -> KfdDevice<B> {
        let this = Arc::clone(self);
        let source: Source = Box::new(move || this.parts());
        // Where gates are opened because a call is blocked, suspended queues are let go as well.
        let gates_open = self.streams.gates_open();
        KfdDevice::on_demand(below, source, Some(gates_open), self.config())
    }
}
