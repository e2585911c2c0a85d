//! Does a policy keep what it promises? Checks for any policy, of this project or not.
//!
//! The author says what the policy promises ([`Declared`]), and [`check`] holds the policy against
//! it: in the real scheduler machine, fed by random queues that come, go, pause and change their
//! hints, and in the simulator. [`Given`] is for tests of single decisions: a table as the test
//! says, and who runs.
//!
//! ```
//! use xsched_policies::hpf::Hpf;
//! use xsched_policy_conformance::{Declared, check};
//!
//! let report = check(Hpf::default, Declared::strict(), 1..4)?;
//! assert_eq!(report.seeds, 3);
//! # Ok::<(), xsched_policy_conformance::Failure>(())
//! ```
//!
//! What is checked; [`Check`] has the details:
//!
//! | promise | by default | otherwise |
//! |---|---|---|
//! | a device is not left idle while a queue is ready | at no time | [`Declared::idle_gap`] |
//! | a queue that stays ready is let run | within 500 ms | [`Declared::wait_max`] |
//! | devices do not depend on each other | | [`Declared::independent`] |
//! | a decision costs nothing for idle queues | | [`Declared::scans`] |
//! | few timers | 20,000 per second and device | [`Declared::timers_per_s`] |
//!
//! And always: deciding again changes nothing, a full decision agrees with the incremental ones
//! before it, a seed gives the same orders, hints that the policy does not name in its needs change
//! none, `NO_EXECUTE` queues never run, the only queue of the highest priority does under a policy
//! that says so, a queue in a reused slot is as one in a
//! fresh slot, and nothing panics.

mod given;
mod queues;
mod rig;
mod rules;
mod simulated;
mod twins;
mod watch;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::RngExt;
use thiserror::Error;
use xsched_core::hint::HintKinds;
use xsched_core::policy::Policy;
use xsched_core::time::Duration;
use xsched_sim::sample::Rng;

pub use given::Given;
use rig::{Plan, Rig};
use twins::Twins;

/// Promises of a policy. Starts from everything ([`Declared::default`]); take back what does not
/// hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The longest time for which a device may have ready queues and let none of them run; zero for
    /// never. `None`: the policy is not work-conserving. Queues with `NO_EXECUTE` do not count.
    pub idle_gap: Option<Duration>,
    /// The longest time for which a ready queue is kept from running among up to eight queues of a
    /// device, with weights up to 10 to 1 and shares up to 50 to 1. `None`: the policy is strict,
    /// so queues may starve.
    pub wait_max: Option<Duration>,
    /// True if queues never hold on account of queues of another device.
    pub independent: bool,
    /// How often the policy may look at all queues, or set their verdicts, the idle ones too.
    pub scans: Scans,
    /// Timers that fire, per second and device, with up to eight queues on it.
    pub timers_per_s: u64,
}

/// How often a policy may look at all queues or set their verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scans {
    /// A decision costs what changed, however many queues there are.
    Never,
    /// Timers per second.
    PerSecond(u32),
    /// In every decision: fine for a few queues.
    Always,
}

impl Default for Declared {
    fn default() -> Self {
        Self {
            idle_gap: Some(Duration::ZERO),
            wait_max: Some(Duration::from_ms(500)),
            independent: true,
            scans: Scans::Never,
            timers_per_s: 20_000,
        }
    }
}

impl Declared {
    /// A policy that lets queues starve, and promises everything else.
    #[must_use]
    pub fn strict() -> Self {
        Self { wait_max: None, ..Self::default() }
    }

    /// A policy that shares device time in turns, and waits this long for a queue whose turn it is.
    /// Queues wait for up to a second: who has a small share and long commands in flight at Lv1
    /// has to wait for what it used too much.
    #[must_use]
    pub fn sharing(idle_gap: Duration) -> Self {
        let wait_max = Some(Duration::from_ms(1_000));
        Self { idle_gap: Some(idle_gap), wait_max, ..Self::default() }
    }

    /// Returns what a policy of `xsched-policies` promises, as it is by default. Of names that are
    /// not known here, everything.
    #[must_use]
    pub fn of(name: &str) -> Self {
        // A fiftieth of a timeslice.
        let sharing = Self::sharing(Duration::from_us(100));
        match name {
            // With ageing, all queues of a device are looked at now and then.
            "hpf" | "chpf" | "edf" | "kedf" | "awf" | "strict_edf" | "strict_kedf" => {
                Self { scans: Scans::PerSecond(20), ..Self::strict() }
            }
            // When another class comes to the top, all queues of that priority are looked at.
            "strict_up" | "strict_wfq" => {
                Self { idle_gap: sharing.idle_gap, scans: Scans::Always, ..Self::strict() }
            }
            "lax" => Self { scans: Scans::Always, ..Self::strict() },
            // A device waits while the highest priority is on another one.
            "hhpf" => Self { idle_gap: None, independent: false, ..Self::strict() },
            "up" | "wfq" | "cfs" => sharing,
            // Half a second, and a slice for each other queue.
            "mlfq" => Self { wait_max: Some(Duration::from_ms(570)), ..Self::default() },
            // A turn is one of all queues of a process.
            "pup" => Self { scans: Scans::Always, ..sharing },
            // And what a process does not use of its part stays unused.
            "spup" => Self { idle_gap: None, scans: Scans::Always, ..sharing },
            _ => Self::default(),
        }
    }
}

/// Name of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// On each device with a ready queue that is not `NO_EXECUTE` one such queue may run, but for
    /// gaps as long as declared.
    Conserving,
    /// No ready queue is kept from running for longer than declared.
    Starvation,
    /// No queue with `NO_EXECUTE` may run, ready or not, unless the policy never holds a queue.
    NoExecute,
    /// A policy that says so always lets the only queue of the highest priority on a device run, or
    /// each of several, or all queues.
    Spared,
    /// A full decision right after incremental ones changes nothing.
    Full,
    /// Deciding twice instead of once, or once more without a change, gives the same orders.
    Idempotent,
    /// Hints that [`Needs::hints`](xsched_core::policy::Needs::hints) does not name change no
    /// order.
    Hints,
    /// Equal seeds give equal orders.
    Deterministic,
    /// Queues of a device may run for about as long when another device has nothing to do.
    Independent,
    /// A queue in a reused slot may run for about as long as one in a fresh slot.
    Reuse,
    /// The work of a decision, what it looks at and sets, does not grow with the number of idle
    /// queues, except as declared.
    DecisionCost,
    /// Timers do not fire more often than declared, not at once again and again, and fall silent
    /// when no queue is ready.
    Timers,
    /// No panic.
    Panics,
    /// The check itself could not go on, which is a defect of the check.
    Rig,
}

/// A policy broke a promise.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "policy `{policy}` with seed {seed}: {what} ({check:?}); replay with \
     `check(make, declared, [{seed}])`"
)]
pub struct Failure {
    /// The policy.
    pub policy: &'static str,
    /// Broken promise.
    pub check: Check,
    /// The seed that shows it.
    pub seed: u64,
    /// Description of the failure.
    pub what: String,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Seeds.
    pub seeds: u64,
    /// Decisions, without those of the simulator.
    pub decisions: u64,
    /// Queues that these looked at in the table's iterators.
    pub looked_at: u64,
    /// Verdicts and floors that they set.
    pub verdicts: u64,
    /// Orders to run or to hold that came of them.
    pub orders: u64,
    /// Timers that fired.
    pub timers: u64,
    /// The longest time for which a ready queue was kept from running, the simulator's included.
    pub longest_wait: Duration,
    /// The longest time for which a device had ready queues and none of them could run, the
    /// simulator's included.
    pub longest_gap: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, decisions, orders, timers, longest_wait, longest_gap, .. } = self;
        let per = |count: u64| count as f64 / (*decisions).max(1) as f64;
        write!(f, "{seeds} seeds, {decisions} decisions ")?;
        write!(f, "({:.1} looks and ", per(self.looked_at))?;
        write!(f, "{:.1} verdicts each), {orders} orders, {timers} timers; ", per(self.verdicts))?;
        write!(f, "longest wait {longest_wait}, longest gap {longest_gap}")
    }
}

/// Draws a number below `n`, which is at least 1.
fn below(n: usize, rng: &mut Rng) -> usize {
    rng.random_range(0..n.max(1))
}

/// A promise that was broken, before it is known under which seed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Broken {
    check: Check,
    what: String,
}

fn require(kept: bool, check: Check, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if kept { Ok(()) } else { Err(Broken { check, what: what() }) }
}

/// Holds a policy against what it promises, once for each seed. `make` gives a fresh policy,
/// configured as it is meant to run. A seed takes about a tenth of a second in a release build and
/// covers some seven seconds of simulated time with work; ten of them are a good start.
///
/// # Errors
/// The first promise that is broken, with the seed that shows it. The same seed always shows it,
/// unless the policy depends on something besides what it is told.
pub fn check<P: Policy>(
    make: impl Fn() -> P,
    declared: Declared,
    seeds: impl IntoIterator<Item = u64>,
) -> Result<Report, Failure> {
    let policy = make().name();
    let mut report = Report::default();
    for seed in seeds {
        let run = AssertUnwindSafe(|| check_seed(&make, &declared, seed, &mut report));
        let result = catch_unwind(run).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let what = format!("a panic: {}", text.unwrap_or("of unknown kind"));
            Err(Broken { check: Check::Panics, what })
        });
        let failure = |Broken { check, what }| Failure { policy, check, seed, what };
        result.map_err(failure)?;
        report.seeds += 1;
    }
    Ok(report)
}

/// Kinds of hints that a policy takes notice of with these seeds: without them it gives other
/// orders.
///
/// # Errors
/// The first promise that is broken meanwhile, as of [`check`].
pub fn noticed_hints<P: Policy>(
    make: impl Fn() -> P,
    declared: Declared,
    seeds: impl IntoIterator<Item = u64>,
) -> Result<HintKinds, Failure> {
    let policy = make().name();
    let mut noticed = HintKinds::NONE;
    for seed in seeds {
        let failure = |Broken { check, what }| Failure { policy, check, seed, what };
        let twins = Twins { make: &make, declared: &declared, plan: Plan::new(seed) };
        let more = twins.noticed().map_err(failure)?;
        noticed = noticed.with(more);
    }
    Ok(noticed)
}

fn check_seed<P: Policy>(
    make: &impl Fn() -> P,
    declared: &Declared,
    seed: u64,
    report: &mut Report,
) -> Result<(), Broken> {
    let plan = Plan::new(seed);
    let mut rig = Rig::new(make(), *declared, plan);
    rig.run()?;
    rig.fall_silent()?;
    rig.count(report);
    let twins = Twins { make, declared, plan };
    twins.repeated()?;
    twins.asked_again()?;
    twins.without_other_hints()?;
    twins.with_bystanders()?;
    if declared.independent {
        twins.with_a_quiet_neighbour()?;
    }
    twins::in_used_slots(make, declared, seed)?;
    simulated::run(make(), declared, seed, report)
}

/// The code of the chapter on policies, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/guides/policies.md")]
struct PoliciesChapter;
