//! The driver below a GPU: its mechanisms, each made when it is first wanted, what knows queues,
//! and what ends suspensions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::attribution::{Attribution, ByCalls, BySnapshot};
use crate::driver::{Driver, Kfd};
use crate::error::KfdError;
use crate::guard::Guard;
use crate::log::Watch;
use crate::mechanism::{DebugTrap, Kind, Mechanism, PatchedDriver, UpdateQueue};
use crate::preloaded::Preloaded;
use crate::probe::{ProbeConfig, ProbeReport, probe};
use crate::topology::Gpu;
use crate::version::Versioned;

/// Milliseconds that the patched driver may take for one queue.
const PATCHED_TIMEOUT_MS: u32 = 1_000;

/// Becomes the debugger of this process.
type Debugger<D> = fn(Arc<Versioned<D>>) -> Result<Arc<DebugTrap<D>>, KfdError>;

/// The driver below a GPU.
#[derive(Debug)]
pub struct Access<D: Driver + 'static = Kfd> {
    driver: Arc<Versioned<D>>,
    asked: ProbeConfig,
    found: ProbeReport,
    pci: String,
    places: Vec<Gpu>,
    preloaded: Option<Arc<Preloaded>>,
    debugger: Debugger<D>,
    made: Mutex<Made<D>>,
}

/// To be a debugger has effects of its own, so nothing is made before it is wanted.
#[derive(Debug)]
struct Made<D: Driver> {
    /// Kept, because streams may be made at any time, and it lists their queues.
    debugger: Option<Arc<DebugTrap<D>>>,
    update: Option<Arc<UpdateQueue<D>>>,
    patched: Option<Arc<PatchedDriver<D>>>,
}

impl Access {
    /// Probes this machine's driver, for the GPU at a PCI address such as `0000:3b:00`.
    ///
    /// # Errors
    /// Those of [`probe`].
    pub fn open(asked: ProbeConfig, pci: &str) -> Result<Self, KfdError> {
        let (driver, found) = probe(&asked)?;
        Ok(Self::with(driver, found, asked, pci, DebugTrap::shared))
    }
}

impl<D: Driver + 'static> Access<D> {
    fn with(
        driver: Arc<Versioned<D>>,
        found: ProbeReport,
        asked: ProbeConfig,
        pci: &str,
        debugger: Debugger<D>,
    ) -> Self {
        let mut places = found.topology.gpus.clone();
        places.retain(|gpu| gpu.pci() == pci);
        if places.is_empty() {
            places.extend(found.gpu_at(pci).cloned());
        }
        let made = Mutex::new(Made { debugger: None, update: None, patched: None });
        let (pci, preloaded) = (pci.to_owned(), Preloaded::find().map(Arc::new));
        Self { driver, asked, found, pci, places, preloaded, debugger, made }
    }

    fn made(&self) -> MutexGuard<'_, Made<D>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Report of the probe.
    #[must_use]
    pub const fn report(&self) -> &ProbeReport {
        &self.found
    }

    /// The GPU or its partitions, as the driver knows them.
    #[must_use]
    pub fn places(&self) -> &[Gpu] {
        &self.places
    }

    /// True if the library that sees the driver's queues made is preloaded.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.preloaded.is_some()
    }

    /// Why a mechanism cannot be used, as far as that can be told without using it.
    #[must_use]
    pub fn why_not(&self, kind: Kind) -> Option<String> {
        let Some(gpu) = self.places.first() else {
            return Some(format!("the driver's topology has no GPU at {}", self.pci));
        };
        self.found.switched_off().or_else(|| self.found.topology.why_not_saved(gpu)).or_else(|| {
            let mut candidates = self.found.candidates.iter();
            candidates.find(|candidate| candidate.kind == kind)?.why_not.clone()
        })
    }

    /// The mechanism of the probe's choice, if it can be used on this GPU.
    ///
    /// # Errors
    /// [`KfdError::NoMechanism`] with the reason.
    pub fn choice(&self) -> Result<Kind, KfdError> {
        let refused = |why| KfdError::NoMechanism { why };
        let kind = self.found.choice.ok_or_else(|| refused(self.found.because.clone()))?;
        self.why_not(kind).map_or(Ok(kind), |why| Err(refused(why)))
    }

    /// A mechanism. For `debug-trap` HIP has to be initialised, which enables its runtime; this
    /// process has its debugger from then on.
    ///
    /// # Errors
    /// [`KfdError::NoMechanism`], or the error of [`DebugTrap::shared`] or [`PatchedDriver::new`].
    pub fn mechanism(&self, kind: Kind) -> Result<Arc<dyn Mechanism>, KfdError> {
        if let Some(why) = self.why_not(kind) {
            return Err(KfdError::NoMechanism { why });
        }
        Ok(match kind {
            Kind::UpdateQueue => self.update(),
            Kind::DebugTrap => self.debugger()?,
            Kind::PreemptQueue => self.patched()?,
        })
    }

    fn update(&self) -> Arc<UpdateQueue<D>> {
        let make = || {
            let watcher = self.preloaded.clone().map(|preloaded| preloaded as _);
            Arc::new(UpdateQueue::new(Arc::clone(&self.driver), watcher))
        };
        Arc::clone(self.made().update.get_or_insert_with(make))
    }

    fn debugger(&self) -> Result<Arc<DebugTrap<D>>, KfdError> {
        let mut made = self.made();
        if let Some(debugger) = made.debugger.as_ref().filter(|debugger| debugger.is_open()) {
            return Ok(Arc::clone(debugger));
        }
        let debugger = (self.debugger)(Arc::clone(&self.driver))?;
        Ok(Arc::clone(made.debugger.insert(debugger)))
    }

    fn patched(&self) -> Result<Arc<PatchedDriver<D>>, KfdError> {
        let mut made = self.made();
        if let Some(patched) = &made.patched {
            return Ok(Arc::clone(patched));
        }
        let (asked, module) = (self.asked.patched.as_deref(), &self.found.topology.module);
        let driver = Arc::clone(&self.driver);
        let patched = PatchedDriver::new(driver, asked, module, PATCHED_TIMEOUT_MS)?;
        Ok(Arc::clone(made.patched.insert(Arc::new(patched))))
    }

    /// Tells which of the driver's queues are made: by the preloaded library, or else by the list
    /// of this process's debugger.
    ///
    /// # Errors
    /// Without the library, if this process cannot have its debugger.
    pub fn attribution(&self) -> Result<Box<dyn Attribution>, KfdError> {
        if let Some(preloaded) = &self.preloaded {
            return Ok(Box::new(ByCalls(Arc::clone(preloaded))));
        }
        Ok(Box::new(BySnapshot(self.debugger()?)))
    }

    /// How queues are known, in words for the user.
    #[must_use]
    pub fn attribution_text(&self) -> String {
        if self.preloaded.is_some() {
            return "by calls that the preloaded library saw".to_owned();
        }
        match self.debugger() {
            Ok(_) => "by the debugger's list of queues".to_owned(),
            Err(why) => format!("not at all: {why}"),
        }
    }

    /// Returns the events that end suspensions on this GPU: from now on, new lines of its driver,
    /// and the administrator's file.
    #[must_use]
    pub fn guard(&self) -> Guard {
        Guard::new(Watch::at(&self.asked.log).only_for(&self.pci), self.asked.off.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe_driver;
    use crate::scripted::Fake;
    use crate::topology::tests::{MI308X, tree};

    fn access(choice: Option<Kind>) -> Access<Fake> {
        let (_folder, sysfs) = tree(&[MI308X], &[]);
        let asked = ProbeConfig { sysfs, ..ProbeConfig::default() };
        let driver = Fake::with_queues(1).versioned();
        let mut found = probe_driver(&driver, &asked, true);
        found.choice = choice.or(found.choice);
        let own = |driver| DebugTrap::own(driver).map(Arc::new);
        Access::with(driver, found, asked, "0000:3b:00", own)
    }

    #[test]
    fn mechanisms_are_made_once_and_when_they_are_wanted() {
        let access = access(None);
        assert_eq!(access.choice(), Ok(Kind::UpdateQueue));
        for kind in [Kind::UpdateQueue, Kind::DebugTrap] {
            let (one, two) = (access.mechanism(kind), access.mechanism(kind));
            let (one, two) = (one.expect("usable"), two.expect("usable"));
            assert_eq!(one.kind(), kind);
            assert!(Arc::ptr_eq(&one, &two));
        }
        let attribution = access.attribution().expect("the debugger's");
        assert!(attribution.before().is_ok());
        let error = access.mechanism(Kind::PreemptQueue).expect_err("it was not asked for");
        assert!(matches!(error, KfdError::NoMechanism { .. }), "{error}");
    }

    #[test]
    fn what_was_not_chosen_for_a_reason_has_that_reason() {
        let error = access(Some(Kind::PreemptQueue)).choice().expect_err("it is not patched");
        assert!(error.to_string().contains("XSCHED_KFD_PATCHED"), "{error}");
        let mut off = access(None);
        (off.found.choice, off.found.because) = (None, "Lv3 is switched off: why".to_owned());
        off.found.off = true;
        assert!(off.choice().expect_err("off").to_string().contains("switched off: why"));
        assert!(off.mechanism(Kind::DebugTrap).is_err());
    }
}
