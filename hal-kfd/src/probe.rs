//! Choice of a mechanism, with its reason.
//!
//! The probe changes nothing: it attaches no debugger and makes no call about a queue.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::driver::{Driver, KFD_PATH, Kfd};
use crate::error::KfdError;
use crate::guard::{OFF_PATH, SWITCH_VARIABLE, switched_off_by, switched_off_with};
use crate::log::{KMSG_PATH, Watch};
use crate::mechanism::{Kind, OPT_IN_VARIABLE};
use crate::preloaded::Preloaded;
use crate::topology::{Gpu, Sysfs, Topology};
use crate::uapi::DEBUG_SINCE;
use crate::version::{Version, Versioned};

/// The environment variable that names a mechanism and overrides the probe's choice.
pub const MECHANISM_VARIABLE: &str = "XSCHED_KFD_MECHANISM";

/// Configuration of the probe.
#[derive(Clone, Debug)]
pub struct ProbeConfig {
    /// The path of the driver's device file. Default: [`KFD_PATH`].
    pub driver: String,
    /// The driver's folders in sysfs. Default: this machine's.
    pub sysfs: Sysfs,
    /// The value of [`MECHANISM_VARIABLE`].
    pub mechanism: Option<String>,
    /// The value of [`OPT_IN_VARIABLE`].
    pub patched: Option<String>,
    /// The value of [`SWITCH_VARIABLE`].
    pub switch: Option<String>,
    /// The file that switches Lv3 off. No variable changes it. Default: [`OFF_PATH`].
    pub off: PathBuf,
    /// The kernel's log. Default: [`KMSG_PATH`].
    pub log: PathBuf,
}

impl Default for ProbeConfig {
    fn default() -> Self {
        Self {
            driver: KFD_PATH.to_owned(),
            sysfs: Sysfs::default(),
            mechanism: None,
            patched: None,
            switch: None,
            off: OFF_PATH.into(),
            log: KMSG_PATH.into(),
        }
    }
}

impl ProbeConfig {
    /// Settings for this machine, with [`MECHANISM_VARIABLE`], [`OPT_IN_VARIABLE`] and
    /// [`SWITCH_VARIABLE`] from the environment.
    #[must_use]
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Self {
            mechanism: variable(MECHANISM_VARIABLE),
            patched: variable(OPT_IN_VARIABLE),
            switch: variable(SWITCH_VARIABLE),
            ..Self::default()
        }
    }
}

/// Usability of a mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The mechanism.
    pub kind: Kind,
    /// Why it cannot be used; `None` if it can.
    pub why_not: Option<String>,
}

/// The probe's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// The driver's version.
    pub version: Version,
    /// The GPUs and the kernel module.
    pub topology: Topology,
    /// The library that watches calls is preloaded.
    pub is_watched: bool,
    /// All mechanisms.
    pub candidates: Vec<Candidate>,
    /// The mechanism to use; `None` if none can be used, or not the requested one.
    pub choice: Option<Kind>,
    /// The reason for the choice, or why there is none, as text for the user.
    pub because: String,
    /// Lv3 is switched off, as `because` says.
    pub off: bool,
    /// Why the kernel's log cannot be read, if so: then a line of the driver ends no suspensions.
    pub unread_log: Option<String>,
}

impl ProbeReport {
    /// The GPU at a PCI address such as `0000:3b:00`. With a single GPU, that GPU in any case.
    #[must_use]
    pub fn gpu_at(&self, pci: &str) -> Option<&Gpu> {
        let gpus = &self.topology.gpus;
        let only = if gpus.len() == 1 { gpus.first() } else { None };
        gpus.iter().find(|gpu| gpu.pci() == pci).or(only)
    }

    /// Why waves on a GPU cannot be interrupted here, as text for the user; `None` if they can.
    #[must_use]
    pub fn why_no_lv3(&self, gpu: &Gpu) -> Option<String> {
        let not_saved = self.topology.why_not_saved(gpu);
        not_saved.or_else(|| self.choice.is_none().then(|| self.because.clone()))
    }
}

impl ProbeReport {
    /// Why Lv3 is switched off, if it is.
    #[must_use]
    pub fn switched_off(&self) -> Option<String> {
        self.off.then(|| self.because.clone())
    }

    /// Returns the text for the user that the kernel's log cannot be read, and what follows; `None`
    /// if it can.
    #[must_use]
    pub fn not_watched(&self) -> Option<String> {
        self.unread_log.as_ref().map(|why| {
            format!(
                "the kernel's log cannot be read ({why}), so errors of the driver do not end \
                 suspensions: run as root or set kernel.dmesg_restrict=0"
            )
        })
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.choice {
            Some(kind) => {
                write!(f, "{}: {kind}, {}", self.version, self.because)?;
                match self.not_watched() {
                    Some(what) => write!(f, "; {what}"),
                    None => Ok(()),
                }
            }
            None => write!(f, "{}: no Lv3: {}", self.version, self.because),
        }
    }
}

/// Opens this machine's driver and probes it.
///
/// # Errors
/// [`KfdError::NoDriver`], [`KfdError::NotOpened`], [`KfdError::UnsupportedMajor`], or the driver's
/// error when it is asked for its version.
pub fn probe(config: &ProbeConfig) -> Result<(Arc<Versioned<Kfd>>, ProbeReport), KfdError> {
    let driver = Arc::new(Versioned::open_at(Path::new(&config.driver))?);
    let found = probe_driver(&driver, config, Preloaded::find().is_some());
    Ok((driver, found))
}

/// Probes a driver that is open.
pub fn probe_driver<D: Driver>(
    driver: &Versioned<D>,
    config: &ProbeConfig,
    is_watched: bool,
) -> ProbeReport {
    // Without sysfs the GPUs are unknown, and then no mechanism is chosen.
    let topology = Topology::read(&config.sysfs).unwrap_or_default();
    let version = driver.version();
    let why_not = |kind| match kind {
        Kind::UpdateQueue => why_not_update(is_watched),
        Kind::DebugTrap => why_not_debug(version, &topology),
        Kind::PreemptQueue => why_not_patched(config, &topology),
    };
    let candidates: Vec<_> =
        Kind::ALL.into_iter().map(|kind| Candidate { kind, why_not: why_not(kind) }).collect();
    let off = switched_off_with(config.switch.as_deref()).or_else(|| switched_off_by(&config.off));
    let is_off = off.is_some();
    let (choice, because) = match off {
        Some(why) => (None, why),
        None => choose(&candidates, config.mechanism.as_deref(), &topology),
    };
    let unread_log = Watch::at(&config.log).unread().map(str::to_owned);
    let off = is_off;
    ProbeReport { version, topology, is_watched, candidates, choice, because, off, unread_log }
}

fn why_not_update(is_watched: bool) -> Option<String> {
    (!is_watched).then(|| {
        "rings are unknown; preload libxsched_kfd_watch.so (LD_PRELOAD), which sees them made"
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

fn why_not_patched(config: &ProbeConfig, topology: &Topology) -> Option<String> {
    match config.patched.as_deref() {
        None => Some(format!("it needs a patched driver, and {OPT_IN_VARIABLE} is not set")),
        Some(signature) if topology.module.has_signature(signature) => None,
        Some(signature) => Some(format!(
            "the module's version is `{}` and lacks `{signature}`",
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
        let because = "the default: it needs no permission, and debuggers can attach";
        return (Some(Kind::UpdateQueue), because.to_owned());
    }
    if usable(Kind::DebugTrap) {
        let because = "because update-queue needs the preloaded library, which knows the rings; no \
                       other debugger can attach meanwhile";
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Fake;
    use crate::topology::tests::{MI308X, tree};

    fn found(gpus: &[&str], parameters: &[(&str, &str)], watched: bool, minor: u32) -> ProbeReport {
        let (_folder, sysfs) = tree(gpus, parameters);
        let fake = Fake::with_queues(0);
        fake.state().minor = minor;
        let config = ProbeConfig { sysfs, ..ProbeConfig::default() };
        let found = probe_driver(&fake.versioned(), &config, watched);
        // The only call asked for the version.
        assert_eq!(fake.state().calls.len(), 1);
        found
    }

    #[test]
    fn the_default_needs_rings() {
        assert_eq!(found(&[MI308X], &[], true, 11).choice, Some(Kind::UpdateQueue));
        assert_eq!(found(&[MI308X], &[], true, 17).choice, Some(Kind::UpdateQueue));
        let unwatched = found(&[MI308X], &[], false, 17);
        assert_eq!(unwatched.choice, Some(Kind::DebugTrap));
        assert!(unwatched.to_string().starts_with("KFD 1.17: debug-trap, because update-queue"));
    }

    #[test]
    fn an_unusable_mechanism_has_a_reason() {
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
    fn a_requested_mechanism_is_chosen_or_refused() {
        let (_folder, sysfs) = tree(&[MI308X], &[]);
        let driver = Fake::with_queues(0).versioned();
        let asked = |mechanism: &str, patched: Option<&str>| {
            let mechanism = Some(mechanism.to_owned());
            let patched = patched.map(str::to_owned);
            let config =
                ProbeConfig { sysfs: sysfs.clone(), mechanism, patched, ..ProbeConfig::default() };
            probe_driver(&driver, &config, true)
        };
        assert_eq!(asked("debug-trap", None).choice, Some(Kind::DebugTrap));
        assert_eq!(asked("preempt-queue", Some("6.12.12")).choice, Some(Kind::PreemptQueue));
        let refused = asked("preempt-queue", None);
        assert!(refused.choice.is_none() && refused.because.contains("not set"), "{refused}");
        let refused = asked("preempt-queue", Some("_preempt"));
        assert!(refused.because.contains("lacks `_preempt`"), "{refused}");
        let refused = asked("best", None);
        assert!(refused.because.contains("update-queue, debug-trap"), "{refused}");
        // A patched driver is not used without a request.
        let (_folder, sysfs) = tree(&[MI308X], &[]);
        let patched = Some("6.12".to_owned());
        let config = ProbeConfig { sysfs, patched, ..ProbeConfig::default() };
        assert_eq!(probe_driver(&driver, &config, true).choice, Some(Kind::UpdateQueue));
    }

    #[test]
    fn lv3_is_switched_off_by_the_variable_and_by_the_file() {
        let (folder, sysfs) = tree(&[MI308X], &[]);
        let driver = Fake::with_queues(0).versioned();
        let off = folder.path().join("kfd-off");
        let log = folder.path().join("kmsg");
        let probed = |switch: Option<&str>| {
            let (sysfs, switch) = (sysfs.clone(), switch.map(str::to_owned));
            let (off, log) = (off.clone(), log.clone());
            let config = ProbeConfig { sysfs, switch, off, log, ..ProbeConfig::default() };
            probe_driver(&driver, &config, true)
        };
        assert_eq!(probed(Some("on")).choice, Some(Kind::UpdateQueue));
        let found = probed(Some("off"));
        assert_eq!(found.choice, None);
        assert!(found.to_string().contains("Lv3 is switched off: XSCHED_KFD is `off`"), "{found}");
        std::fs::write(&off, "the firmware hangs").expect("written");
        // Nothing of the environment brings it back.
        let found = probed(Some("on"));
        let why = found.why_no_lv3(&found.topology.gpus[0]).expect("it is off");
        assert!(why.contains("kfd-off is there: the firmware hangs"), "{why}");
    }

    #[test]
    fn a_log_that_cannot_be_read_is_reported() {
        let (folder, sysfs) = tree(&[MI308X], &[]);
        let log = folder.path().join("kmsg");
        let config = ProbeConfig { sysfs, log: log.clone(), ..ProbeConfig::default() };
        let driver = Fake::with_queues(0).versioned();
        let found = probe_driver(&driver, &config, true);
        assert!(found.to_string().contains("the kernel's log cannot be read"), "{found}");
        std::fs::write(&log, "").expect("written");
        let found = probe_driver(&driver, &config, true);
        assert_eq!(found.not_watched(), None);
        assert!(found.to_string().ends_with("can attach"), "{found}");
    }

    #[test]
    fn a_machine_without_the_driver_says_so() {
        let config = ProbeConfig { driver: "/nowhere/kfd".to_owned(), ..ProbeConfig::default() };
        let error = probe(&config).expect_err("there is none");
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
