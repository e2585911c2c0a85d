//! Which mechanism, and why. Looks, and changes nothing: nobody is made a debugger, and no queue is
//! touched.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::attribution::{Attribution, ByCalls, BySnapshot};
use crate::driver::{Driver, KFD_PATH, Kfd};
use crate::error::KfdError;
use crate::mechanism::{DebugTrap, Kind, Mechanism, OPT_IN_VARIABLE, PatchedDriver, UpdateQueue};
use crate::preloaded::Preloaded;
use crate::topology::{Gpu, Sysfs, Topology};
use crate::uapi::DEBUG_SINCE;
use crate::version::{Version, Versioned};
use crate::watching::Watcher;

/// The variable that names a mechanism, against the probe's choice.
pub const MECHANISM_VARIABLE: &str = "XSCHED_KFD_MECHANISM";
/// How long the patched driver may take for one queue.
const PATCHED_TIMEOUT_MS: u32 = 1_000;

/// Where the probe looks, and what was asked for.
#[derive(Clone, Debug)]
pub struct Places {
    /// The driver's file.
    pub driver: String,
    /// What it says in sysfs.
    pub sysfs: Sysfs,
    /// The value of [`MECHANISM_VARIABLE`].
    pub mechanism: Option<String>,
    /// The value of [`OPT_IN_VARIABLE`].
    pub patched: Option<String>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            driver: KFD_PATH.to_owned(),
            sysfs: Sysfs::default(),
            mechanism: None,
            patched: None,
        }
    }
}

impl Places {
    /// This machine, as the environment asks for it.
    #[must_use]
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Self {
            mechanism: variable(MECHANISM_VARIABLE),
            patched: variable(OPT_IN_VARIABLE),
            ..Self::default()
        }
    }
}

/// Whether a mechanism can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub kind: Kind,
    /// Why not; `None` if it can.
    pub why_not: Option<String>,
}

/// What the probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The driver's version.
    pub version: Version,
    /// Its GPUs and module.
    pub topology: Topology,
    /// The library that watches calls is preloaded.
    pub is_watched: bool,
    /// All mechanisms.
    pub candidates: Vec<Candidate>,
    /// The one to use; `None` if none can be, or not the one that was asked for.
    pub choice: Option<Kind>,
    /// Why that one, or why none, in words for the user.
    pub because: String,
}

impl Found {
    /// The GPU at a PCI address such as `0000:3b:00`, or the only one.
    #[must_use]
    pub fn gpu_at(&self, pci: &str) -> Option<&Gpu> {
        let gpus = &self.topology.gpus;
        let only = if gpus.len() == 1 { gpus.first() } else { None };
        gpus.iter().find(|gpu| gpu.pci() == pci).or(only)
    }

    /// Why waves on a GPU cannot be interrupted here, in words for the user; `None` if they can.
    #[must_use]
    pub fn why_no_lv3(&self, gpu: &Gpu) -> Option<String> {
        let not_saved = self.topology.why_not_saved(gpu);
        not_saved.or_else(|| self.choice.is_none().then(|| self.because.clone()))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.choice {
            Some(kind) => write!(f, "{}: {kind}, {}", self.version, self.because),
            None => write!(f, "{}: no Lv3: {}", self.version, self.because),
        }
    }
}

/// Looks at this machine's driver.
///
/// # Errors
/// If there is no driver, or it cannot be opened or asked.
pub fn probe(places: &Places) -> Result<(Arc<Versioned<Kfd>>, Found), KfdError> {
    let driver = Arc::new(Versioned::open_at(Path::new(&places.driver))?);
    let found = probe_driver(&driver, places, Preloaded::find().is_some());
    Ok((driver, found))
}

/// The same for a driver that is open.
pub fn probe_driver<D: Driver>(driver: &Versioned<D>, places: &Places, is_watched: bool) -> Found {
    // Without sysfs nothing is known about GPUs, and nothing is suspended blindly.
    let topology = Topology::read(&places.sysfs).unwrap_or_default();
    let version = driver.version();
    let why_not = |kind| match kind {
        Kind::UpdateQueue => why_not_update(is_watched),
        Kind::DebugTrap => why_not_debug(version, &topology),
        Kind::PreemptQueue => why_not_patched(places, &topology),
    };
    let candidates: Vec<_> =
        Kind::ALL.into_iter().map(|kind| Candidate { kind, why_not: why_not(kind) }).collect();
    let (choice, because) = choose(&candidates, places.mechanism.as_deref(), &topology);
    Found { version, topology, is_watched, candidates, choice, because }
}

fn why_not_update(is_watched: bool) -> Option<String> {
    (!is_watched).then(|| {
        "rings are not known; preload libxsched_kfd_watch.so (LD_PRELOAD), which sees them made"
            .to_owned()
    })
}

fn why_not_debug(version: Version, topology: &Topology) -> Option<String> {
    if version.minor < DEBUG_SINCE {
        return Some(format!("it needs KFD 1.{DEBUG_SINCE}, and this is {version}"));
    }
    let without = topology.has_hardware_scheduler() == Some(false);
    without.then(|| "it needs a hardware scheduler; amdgpu.sched_policy must not be 2".to_owned())
}

fn why_not_patched(places: &Places, topology: &Topology) -> Option<String> {
    match places.patched.as_deref() {
        None => Some(format!("it needs a patched driver, and {OPT_IN_VARIABLE} is not set")),
        Some(marker) if topology.module.has_marker(marker) => None,
        Some(marker) => Some(format!(
            "the module's version is `{}` and lacks `{marker}`",
            topology.module.version_text()
        )),
    }
}

/// The mechanism to use, and why.
fn choose(
    candidates: &[Candidate],
    asked: Option<&str>,
    topology: &Topology,
) -> (Option<Kind>, String) {
    if topology.gpus.is_empty() {
        return (None, "the driver lists no GPU that this process may use".to_owned());
    }
    let unsaved: Vec<_> =
        topology.gpus.iter().filter_map(|gpu| topology.why_not_saved(gpu)).collect();
    if let (true, Some(why)) = (unsaved.len() == topology.gpus.len(), unsaved.first()) {
        return (None, why.clone());
    }
    let usable = |kind| candidates.iter().any(|c| c.kind == kind && c.why_not.is_none());
    if let Some(name) = asked {
        return choose_asked(candidates, name);
    }
    if usable(Kind::UpdateQueue) {
        let because = "the default: it needs no permission and leaves debuggers alone";
        return (Some(Kind::UpdateQueue), because.to_owned());
    }
    if usable(Kind::DebugTrap) {
        let because = "since rings are not known for update-queue without the preloaded library; \
                       no other debugger can attach meanwhile";
        return (Some(Kind::DebugTrap), because.to_owned());
    }
    let why = |c: &Candidate| c.why_not.as_ref().map(|why| format!("{}: {why}", c.kind));
    (None, candidates.iter().filter_map(why).collect::<Vec<_>>().join("; "))
}

fn choose_asked(candidates: &[Candidate], name: &str) -> (Option<Kind>, String) {
    let Some(candidate) = candidates.iter().find(|c| c.kind.name() == name) else {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let names = names.join(", ");
        return (None, format!("{MECHANISM_VARIABLE} is `{name}`; choose one of {names}"));
    };
    match &candidate.why_not {
        None => (Some(candidate.kind), format!("as {MECHANISM_VARIABLE} asks")),
        Some(why) => (None, format!("{MECHANISM_VARIABLE} asks for {name}: {why}")),
    }
}

/// The mechanism of the probe's choice, and who sees which queues are made.
///
/// HIP has to be initialised, and so its runtime enabled, before this is called.
///
/// # Errors
/// [`KfdError::NoChoice`] if the probe chose none, or what the driver answered.
pub fn assemble(
    driver: Arc<Versioned<Kfd>>,
    found: &Found,
    places: &Places,
) -> Result<Assembled, KfdError> {
    assemble_with(driver, found, places, DebugTrap::shared)
}

/// A mechanism, and who sees which queues are made.
pub type Assembled = (Arc<dyn Mechanism>, Box<dyn Attribution>);

/// Becomes the debugger of this process.
type Debugger<D> = fn(Arc<Versioned<D>>) -> Result<Arc<DebugTrap<D>>, KfdError>;

/// The same on any driver, which says how its debugger is had.
fn assemble_with<D: Driver + 'static>(
    driver: Arc<Versioned<D>>,
    found: &Found,
    places: &Places,
    debugger: Debugger<D>,
) -> Result<Assembled, KfdError> {
    let preloaded = Preloaded::find().map(Arc::new);
    let by_calls = preloaded.clone().map(|preloaded| Box::new(ByCalls(preloaded)));
    let by_calls = by_calls.map(|by| by as Box<dyn Attribution>);
    let watcher = preloaded.map(|preloaded| preloaded as Arc<dyn Watcher>);
    let blind = || Box::new(crate::attribution::Blind) as Box<dyn Attribution>;
    match found.choice {
        Some(Kind::UpdateQueue) => {
            let mechanism = Arc::new(UpdateQueue::new(driver, watcher));
            Ok((mechanism, by_calls.unwrap_or_else(blind)))
        }
        Some(Kind::DebugTrap) => {
            let trap = debugger(driver)?;
            let snapshot = || Box::new(BySnapshot(Arc::clone(&trap))) as Box<dyn Attribution>;
            let attribution = by_calls.unwrap_or_else(snapshot);
            Ok((trap, attribution))
        }
        Some(Kind::PreemptQueue) => {
            let (asked, module) = (places.patched.as_deref(), &found.topology.module);
            let patched = PatchedDriver::new(driver, asked, module, PATCHED_TIMEOUT_MS)?;
            Ok((Arc::new(patched), by_calls.unwrap_or_else(blind)))
        }
        None => Err(KfdError::NoChoice { why: found.because.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Fake;
    use crate::topology::tests::{MI308X, tree};

    fn found(gpus: &[&str], parameters: &[(&str, &str)], watched: bool, minor: u32) -> Found {
        let (_folder, sysfs) = tree(gpus, parameters);
        let fake = Fake::with_queues(0);
        fake.state().minor = minor;
        let places = Places { sysfs, ..Places::default() };
        let found = probe_driver(&fake.versioned(), &places, watched);
        // It only looked.
        assert_eq!(fake.state().calls.len(), 1);
        found
    }

    #[test]
    fn the_default_needs_rings() {
        assert_eq!(found(&[MI308X], &[], true, 11).choice, Some(Kind::UpdateQueue));
        assert_eq!(found(&[MI308X], &[], true, 17).choice, Some(Kind::UpdateQueue));
        let unwatched = found(&[MI308X], &[], false, 17);
        assert_eq!(unwatched.choice, Some(Kind::DebugTrap));
        assert!(unwatched.to_string().starts_with("KFD 1.17: debug-trap, since rings"));
    }

    #[test]
    fn what_cannot_be_says_why() {
        let old = found(&[MI308X], &[], false, 11);
        assert_eq!(old.choice, None);
        for part in ["libxsched_kfd_watch.so", "KFD 1.13", "XSCHED_KFD_PATCHED"] {
            assert!(old.because.contains(part), "{}", old.because);
        }
        let unscheduled = found(&[MI308X], &[("sched_policy", "2")], false, 17);
        assert!(unscheduled.because.contains("sched_policy"), "{}", unscheduled.because);
        let unsaved = found(&[MI308X], &[("cwsr_enable", "0")], true, 17);
        assert!(unsaved.because.contains("cwsr_enable=1"), "{}", unsaved.because);
        assert!(unsaved.why_no_lv3(&unsaved.topology.gpus[0]).is_some());
        let none = found(&[], &[], true, 17);
        assert!(none.to_string().contains("no GPU"), "{none}");
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused() {
        let (_folder, sysfs) = tree(&[MI308X], &[]);
        let driver = Fake::with_queues(0).versioned();
        let asked = |mechanism: &str, patched: Option<&str>| {
            let mechanism = Some(mechanism.to_owned());
            let patched = patched.map(str::to_owned);
            let places = Places { sysfs: sysfs.clone(), mechanism, patched, ..Places::default() };
            probe_driver(&driver, &places, true)
        };
        assert_eq!(asked("debug-trap", None).choice, Some(Kind::DebugTrap));
        assert_eq!(asked("preempt-queue", Some("6.12.12")).choice, Some(Kind::PreemptQueue));
        let refused = asked("preempt-queue", None);
        assert!(refused.choice.is_none() && refused.because.contains("not set"), "{refused}");
        let refused = asked("preempt-queue", Some("_preempt"));
        assert!(refused.because.contains("lacks `_preempt`"), "{refused}");
        let refused = asked("best", None);
        assert!(refused.because.contains("update-queue, debug-trap"), "{refused}");
        // That a patched driver is there is no reason to use it.
        let (_folder, sysfs) = tree(&[MI308X], &[]);
        let patched = Some("6.12".to_owned());
        let places = Places { sysfs, patched, ..Places::default() };
        assert_eq!(probe_driver(&driver, &places, true).choice, Some(Kind::UpdateQueue));
    }

    #[test]
    fn what_is_chosen_is_assembled() {
        let (_folder, sysfs) = tree(&[MI308X], &[]);
        let places = Places { sysfs, ..Places::default() };
        let fake = Fake::with_queues(1);
        let driver = fake.versioned();
        let found = probe_driver(&driver, &places, false);
        let assemble = |found: &Found| {
            let own = |driver| DebugTrap::own(driver).map(Arc::new);
            assemble_with(Arc::clone(&driver), found, &places, own)
        };
        let (mechanism, attribution) = assemble(&found).expect("the runtime is enabled");
        assert_eq!(mechanism.kind(), Kind::DebugTrap);
        assert!(attribution.before().is_ok());
        let none = Found { choice: None, ..found.clone() };
        let error = assemble(&none).expect_err("none was chosen");
        assert!(matches!(error, KfdError::NoChoice { .. }));
        let update = Found { choice: Some(Kind::UpdateQueue), ..found };
        let (mechanism, _) = assemble(&update).expect("it asks nothing");
        assert_eq!(mechanism.kind(), Kind::UpdateQueue);
    }

    #[test]
    fn a_machine_without_the_driver_says_so() {
        let places = Places { driver: "/nowhere/kfd".to_owned(), ..Places::default() };
        let error = probe(&places).expect_err("there is none");
        assert_eq!(error, KfdError::NoDriver { path: "/nowhere/kfd".to_owned() });
        assert_eq!(error.to_string().lines().count(), 1);
    }

    #[test]
    fn gpus_are_found_by_their_address() {
        let other = MI308X.replace("15104", "256");
        let two = found(&[MI308X, &other], &[], true, 17);
        assert_eq!(two.gpu_at("0000:01:00").map(|gpu| gpu.gpu_id), Some(1002));
        assert_eq!(two.gpu_at("0000:99:00"), None);
        let one = found(&[MI308X], &[], true, 17);
        assert_eq!(one.gpu_at("0000:99:00").map(|gpu| gpu.gpu_id), Some(1001));
    }
}
