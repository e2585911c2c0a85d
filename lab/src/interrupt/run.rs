//! Everything in order: the careful steps, the combinations, the storms, other calls meanwhile.

use serde::Serialize;
use xsched_hal_kfd::log::Watch;

use super::canary::{self, Step};
use super::cells::{self, Cell, Combination, Storm, Trial};
use super::meanwhile::{self, Row};
use crate::device::interruptible::Interruptible;
use crate::device::load::{Kind, Load, Share};
use crate::device::mode::Apart;
use crate::device::processes::{BackgroundProcess, Launcher, Request};
use crate::device::tenants::{self, Tenant};
use crate::device::{Described, LabError};
use crate::pace::Pace;

/// Interrupts of a storm between two notes of how far it is, at least.
const NOTE: u32 = 1_000;
/// Queues beyond what a GPU keeps mapped to hardware at once are oversubscribed: gfx942 has 24 for
/// a process.
const MAPPED: u32 = 24;

/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Plan {
    /// Mechanisms; all that can be used if empty.
    pub(crate) mechanisms: Vec<String>,
    /// Kinds of kernels; all that the device has if empty.
    pub(crate) kinds: Vec<Kind>,
    /// Numbers of queues that are interrupted at once.
    pub(crate) queues: Vec<u32>,
    /// Device time of the victims' commands, in nanoseconds; about.
    pub(crate) command_ns: u64,
    /// Trials of each combination.
    pub(crate) trials: u32,
    /// Interrupts of all storms of a mechanism together, after which results are compared.
    pub(crate) interrupts: u32,
    /// Calls of each kind in each state meanwhile.
    pub(crate) calls: u32,
    /// Other processes that keep the device busy in one more combination.
    pub(crate) processes: u32,
    /// Go on though others have queues on the GPU.
    pub(crate) beside_others: bool,
}

/// Something that has happened, to be written down at once: it may be the last.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// A combination or a storm begins.
    Begin {
        /// Part of the whole.
        part: &'static str,
        /// With which mechanism.
        mechanism: &'a str,
        /// Combination or step, in words.
        what: String,
    },
    /// A trial is done.
    Trial {
        /// Of which combination.
        combination: &'a Combination,
        /// Moments of the trial.
        #[serde(flatten)]
        trial: Trial,
    },
    /// Interrupts of a storm are done.
    Storm {
        /// Of which combination.
        combination: &'a Combination,
        /// How many.
        done: u32,
    },
}

/// Observers of the stages: the kernel's log, and where everything is told.
pub(crate) struct Stages<'a> {
    /// The kernel's log.
    pub(crate) watch: &'a mut Watch,
    /// Gets everything as it happens.
    pub(crate) events: &'a mut dyn FnMut(&Event<'_>),
    /// The time that there is, and where the share is told that is done.
    pub(crate) pace: &'a Pace<'a>,
    /// Makes the command lines of other processes.
    pub(crate) launcher: Launcher<'a>,
}

impl std::fmt::Debug for Stages<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stages").field("watch", &self.watch).finish_non_exhaustive()
    }
}

/// Figures of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// Mechanisms that were used.
    pub(crate) mechanisms: Vec<String>,
    /// Mechanisms that cannot be used, and why.
    pub(crate) refused: Vec<(String, String)>,
    /// How the device holds streams.
    pub(crate) traits: Vec<(String, String)>,
    /// Queues of other processes that were on the device before.
    pub(crate) tenants: Vec<Tenant>,
    /// Why the kernel's log was not watched, if so.
    pub(crate) log_unread: Option<String>,
    /// The careful steps.
    pub(crate) canary: Vec<Step>,
    /// The combinations.
    pub(crate) cells: Vec<Cell>,
    /// The storms.
    pub(crate) storms: Vec<Storm>,
    /// Other calls meanwhile.
    pub(crate) meanwhile: Vec<Row>,
    /// Combinations that failed without harm, and why.
    pub(crate) failures: Vec<(Combination, String)>,
    /// Parts for which no time was left.
    pub(crate) left_out: Vec<String>,
    /// Why not everything was done, if so.
    pub(crate) stopped: Option<String>,
}

impl Results {
    /// Returns whether anything was not as it should be.
    pub(crate) fn is_finding(&self) -> bool {
        let ran_on = self.cells.iter().any(|cell| {
            let held = cell.combination.load.kind.is_in_its_ring();
            (held && cell.ran_on > 0) || cell.sums.wrong > 0 || cell.lost != 0
        });
        let wrong = self.storms.iter().any(|storm| !storm.is_right());
        self.stopped.is_some() || ran_on || wrong || !self.failures.is_empty()
    }
}

/// Runs everything until a line of the driver's in the kernel's log, or a careful step that
/// goes wrong, ends it. What was measured until then is in the outcome.
pub(crate) fn run<K: Interruptible>(
    device: &K,
    plan: &Plan,
    stages: &mut Stages<'_>,
) -> Result<Results, LabError> {
    let tenants = device.tenants();
    if !plan.beside_others {
        tenants::alone(tenants.clone())?;
    }
    let mechanisms =
        if plan.mechanisms.is_empty() { device.mechanisms() } else { plan.mechanisms.clone() };
    let mut outcome = Results {
        device: device.describe(),
        plan: plan.clone(),
        mechanisms: Vec::new(),
        refused: device.refused_mechanisms(),
        traits: device.traits(),
        tenants: tenants.unwrap_or_default(),
        log_unread: None,
        canary: Vec::new(),
        cells: Vec::new(),
        storms: Vec::new(),
        meanwhile: Vec::new(),
        failures: Vec::new(),
        left_out: Vec::new(),
        stopped: None,
    };
    for (number, mechanism) in mechanisms.iter().enumerate() {
        let from = number as f64 / mechanisms.len() as f64;
        // Nothing has been done with it yet, so there is no harm in going on.
        if let Err(why) = device.open(mechanism) {
            outcome.refused.push((mechanism.clone(), why.to_string()));
            continue;
        }
        outcome.mechanisms.push(mechanism.clone());
        let until = (number + 1) as f64 / mechanisms.len() as f64;
        let mut all = All { device, plan, mechanism, stages, outcome: &mut outcome, until };
        all.run(from, until - from);
        if outcome.stopped.is_some() {
            break;
        }
    }
    if outcome.mechanisms.is_empty() {
        let why = |(mechanism, why): &(String, String)| format!("{mechanism}: {why}");
        let why: Vec<String> = outcome.refused.iter().map(why).collect();
        return Err(LabError::new(format!("nothing can interrupt here: {}", why.join("; "))));
    }
    outcome.log_unread = stages.watch.unread().map(str::to_owned);
    Ok(outcome)
}

/// All with one mechanism.
struct All<'a, 'b, K: Interruptible> {
    device: &'a K,
    plan: &'a Plan,
    mechanism: &'a str,
    stages: &'a mut Stages<'b>,
    outcome: &'a mut Results,
    /// Share of the whole time at which the time of this mechanism ends.
    until: f64,
}

impl<K: Interruptible> All<'_, '_, K> {
    /// Runs it, as the part of the whole that begins at `from` and is `part` long.
    fn run(&mut self, from: f64, part: f64) {
        self.careful_steps();
        if self.outcome.stopped.is_some() {
            return;
        }
        let combinations = self.combinations();
        let kinds = self.kinds();
        let total = (combinations.len() + kinds.len() + 1) as f64;
        let of_all = |done: usize| from + part * done as f64 / total;
        for (number, combination) in combinations.iter().enumerate() {
            self.stages.pace.show(of_all(number));
            self.cell(combination, of_all(number + 1));
            if self.looked() {
                return;
            }
        }
        for (number, kind) in kinds.iter().enumerate() {
            let done = combinations.len() + number;
            self.stages.pace.show(of_all(done));
            self.storm(*kind, u32::try_from(kinds.len()).unwrap_or(1), of_all(done + 1));
            if self.looked() {
                return;
            }
        }
        self.meanwhile();
        self.looked();
    }

    /// Returns whether the log, or a storm, has ended everything.
    fn looked(&mut self) -> bool {
        if let Err(line) = self.stages.watch.check() {
            self.outcome.stopped.get_or_insert(line);
        }
        self.outcome.stopped.is_some()
    }

    /// Returns whether the time of this mechanism is used up, so that something is left out.
    fn leaves_out(&mut self, part: f64, what: &str) -> bool {
        let late = self.stages.pace.is_late(part);
        if late {
            self.outcome.left_out.push(format!("{}, {what}", self.mechanism));
        }
        late
    }

    fn begin(&mut self, part: &'static str, what: String) {
        (self.stages.events)(&Event::Begin { part, mechanism: self.mechanism, what });
    }

    fn careful_steps(&mut self) {
        let Stages { watch, events, .. } = &mut *self.stages;
        let mechanism = self.mechanism;
        let mut begin = |what: &str| {
            events(&Event::Begin { part: "canary", mechanism, what: what.to_owned() });
        };
        let steps = canary::run_steps(self.device, mechanism, watch, &mut begin);
        let last = steps.last().and_then(|step| Some((step.what.clone(), step.stopped.clone()?)));
        self.outcome.stopped = last.map(|(what, why)| format!("{mechanism}, {what}: {why}"));
        self.outcome.canary.extend(steps);
    }

    fn kinds(&self) -> Vec<Kind> {
        let wanted = |kind: &Kind| self.plan.kinds.is_empty() || self.plan.kinds.contains(kind);
        self.device.kinds().into_iter().filter(wanted).collect()
    }

    fn combination(&self, kind: Kind, share: Share, queues: u32) -> Combination {
        Combination {
            mechanism: self.mechanism.to_owned(),
            load: Load { kind, share, ns: self.plan.command_ns },
            queues,
            processes: 0,
        }
    }

    /// Every kind with every share in one queue; the first kind in every number of queues, and
    /// beside other processes.
    fn combinations(&self) -> Vec<Combination> {
        let (kinds, shares) = (self.kinds(), self.device.shares());
        let mut all = Vec::new();
        for &kind in &kinds {
            all.extend(shares.iter().map(|&share| self.combination(kind, share, 1)));
        }
        let (Some(&kind), Some(&share)) = (kinds.first(), shares.last()) else { return all };
        let several = self.plan.queues.iter().filter(|&&queues| queues > 1);
        all.extend(several.map(|&queues| self.combination(kind, share, queues)));
        let processes = self.plan.processes;
        if processes > 0 {
            all.push(Combination { processes, ..self.combination(kind, share, 1) });
        }
        all
    }

    /// Processes that keep the device busy with commands as long as the victims', until they are
    /// dropped.
    fn others(&self, count: u32) -> Result<Vec<BackgroundProcess>, LabError> {
        let request = Request {
            page: std::path::PathBuf::new(),
            apart: Apart::Plain,
            command_ns: self.plan.command_ns,
            waves: 1,
            threshold: 2,
        };
        let start = |_| BackgroundProcess::start(self.stages.launcher, request.clone());
        (0..count).map(start).collect()
    }

    fn cell(&mut self, combination: &Combination, part: f64) {
        let Combination { load, queues, processes, .. } = combination;
        let over = if *queues > MAPPED { ", oversubscribed" } else { "" };
        let beside = if *processes > 0 { ", beside other processes" } else { "" };
        let what = format!("{}, {}, {queues} queues{over}{beside}", load.kind, load.share);
        if self.leaves_out(self.until, &what) {
            return;
        }
        self.begin("cell", what);
        let others = match self.others(*processes) {
            Ok(others) => others,
            Err(error) => {
                self.outcome.failures.push((combination.clone(), error.to_string()));
                return;
            }
        };
        let events = &mut *self.stages.events;
        let mut raw = |trial: &Trial| events(&Event::Trial { combination, trial: *trial });
        let trials = (self.plan.trials, self.stages.pace, part);
        match cells::measure(self.device, combination, trials, &mut raw) {
            Ok(cell) => self.outcome.cells.push(cell),
            Err(error) => self.outcome.failures.push((combination.clone(), error.to_string())),
        }
        drop(others);
    }

    fn storm(&mut self, kind: Kind, kinds: u32, part: f64) {
        let share = self.device.shares().last().copied().unwrap_or(Share::Full);
        let combination = self.combination(kind, share, 1);
        let interrupts = self.plan.interrupts.div_ceil(kinds.max(1));
        let what = format!("{interrupts} interrupts of {kind}, {share}");
        if self.leaves_out(self.until, &what) {
            return;
        }
        self.begin("storm", what);
        let Stages { watch, events, pace, .. } = &mut *self.stages;
        let mut note = |done: u32| {
            if done.is_multiple_of(NOTE) {
                events(&Event::Storm { combination: &combination, done });
            }
        };
        match cells::storm(self.device, &combination, (interrupts, pace, part), watch, &mut note) {
            Ok(storm) => {
                self.outcome.stopped.clone_from(&storm.stopped);
                self.outcome.storms.push(storm);
            }
            Err(error) => self.outcome.failures.push((combination, error.to_string())),
        }
    }

    fn meanwhile(&mut self) {
        let what = "allocations, copies and first launches".to_owned();
        if self.leaves_out(self.until, &what) {
            return;
        }
        self.begin("meanwhile", what);
        let share = self.device.shares().last().copied().unwrap_or(Share::Full);
        let combination = self.combination(Kind::Alu, share, 1);
        let calls = self.plan.calls;
        match meanwhile::measure(self.device, self.mechanism, combination.load, calls) {
            Ok(rows) => self.outcome.meanwhile.extend(rows),
            Err(error) => self.outcome.failures.push((combination, error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::tests::Scripted;
    use super::*;
    use crate::device::host::Host;

    fn plan() -> Plan {
        Plan {
            mechanisms: Vec::new(),
            kinds: Vec::new(),
            queues: vec![1, 4],
            command_ns: 500_000,
            trials: 3,
            interrupts: 300,
            calls: 2,
            processes: 0,
            beside_others: false,
        }
    }

    /// Runs it under a watch; the outcome, and how many events of each kind there were.
    fn ran(plan: &Plan, watch: &mut Watch) -> (Results, [usize; 2]) {
        let mut counts = [0; 2];
        let mut events = |event: &Event<'_>| match event {
            Event::Begin { .. } => counts[0] += 1,
            Event::Trial { .. } => counts[1] += 1,
            Event::Storm { .. } => {}
        };
        let launcher = |_: &Request| Err(std::io::Error::other("not asked for"));
        let (pace, events) = (&Pace::free(), &mut events);
        let mut stages = Stages { watch, events, pace, launcher: &launcher };
        let outcome = run(&Host::open().unwrap(), plan, &mut stages).unwrap();
        (outcome, counts)
    }

    #[test]
    fn everything_is_right_on_the_host() {
        let (outcome, [begun, trials]) = ran(&plan(), &mut Scripted::after(100_000, ""));
        assert!(!outcome.is_finding(), "{outcome:?}");
        // Three kinds, of which one in four queues as well; storms of each.
        assert_eq!((outcome.cells.len(), outcome.storms.len()), (4, 3));
        assert_eq!(trials, 4 * 3);
        assert_eq!(begun, outcome.canary.len() + 4 + 3 + 1);
        assert_eq!(outcome.meanwhile.len(), 9);
        for cell in &outcome.cells {
            assert!(cell.sums.finished > 0 && cell.quiet.samples == 3, "{cell:?}");
        }
        assert!(outcome.storms.iter().all(|storm| storm.interrupts == 100 && storm.is_right()));
    }

    #[test]
    fn a_line_of_the_driver_ends_everything_and_keeps_what_there_is() {
        let looks_of_steps = 16;
        let mut watch = Scripted::after(looks_of_steps + 1, "amdgpu: ring timeout");
        let (outcome, _) = ran(&plan(), &mut watch);
        assert!(outcome.is_finding());
        assert!(outcome.stopped.as_deref().unwrap().contains("ring timeout"));
        assert_eq!((outcome.canary.len(), outcome.cells.len(), outcome.storms.len()), (8, 2, 0));
    }

    #[test]
    fn a_mechanism_that_cannot_be_opened_is_left_out() {
        let mechanisms = vec!["magic".to_owned(), "signal".to_owned()];
        let some = Plan { mechanisms, kinds: vec![Kind::Alu], queues: Vec::new(), ..plan() };
        let (outcome, _) = ran(&some, &mut Scripted::after(100_000, ""));
        assert_eq!(outcome.mechanisms, ["signal"]);
        assert!(outcome.refused[0].1.contains("magic") && !outcome.is_finding(), "{outcome:?}");

        let none = Plan { mechanisms: vec!["magic".to_owned()], ..plan() };
        let launcher = |_: &Request| Err(std::io::Error::other("not asked for"));
        let (pace, mut watch) = (&Pace::free(), Scripted::after(0, ""));
        let (watch, events) = (&mut watch, &mut |_: &Event<'_>| {});
        let mut stages = Stages { watch, events, pace, launcher: &launcher };
        let error = run(&Host::open().unwrap(), &none, &mut stages).unwrap_err().to_string();
        assert!(error.contains("nothing can interrupt") && error.contains("magic"), "{error}");
    }

    #[test]
    fn processes_that_cannot_be_started_are_a_failure_and_the_rest_goes_on() {
        let plan = Plan { kinds: vec![Kind::Alu], queues: Vec::new(), processes: 2, ..plan() };
        let (outcome, _) = ran(&plan, &mut Scripted::after(100_000, ""));
        let [(combination, why)] = &*outcome.failures else { panic!("{outcome:?}") };
        assert_eq!((combination.processes, why.as_str()), (2, "not asked for"));
        assert!(outcome.is_finding() && outcome.storms.len() == 1);
    }

    #[test]
    fn what_there_is_no_time_for_is_left_out_and_said_and_the_careful_steps_are_not() {
        let mut watch = Scripted::after(100_000, "");
        let launcher = |_: &Request| Err(std::io::Error::other("not asked for"));
        let pace = &Pace::new(&|_| {}, Some(std::time::Duration::from_millis(1)));
        let events = &mut |_: &Event<'_>| {};
        let mut stages = Stages { watch: &mut watch, events, pace, launcher: &launcher };
        let outcome = run(&Host::open().unwrap(), &plan(), &mut stages).unwrap();
        assert_eq!((outcome.canary.len(), outcome.cells.len(), outcome.storms.len()), (8, 0, 0));
        assert_eq!(outcome.left_out.len(), 4 + 3 + 1, "{:?}", outcome.left_out);
        assert!(!outcome.is_finding());
    }

    #[test]
    fn a_storm_that_is_ended_says_so() {
        let plan = Plan { kinds: vec![Kind::Alu], queues: Vec::new(), ..plan() };
        let mut watch = Scripted::after(16 + 1 + 1, "kfd: queue evicted");
        let (outcome, _) = ran(&plan, &mut watch);
        assert_eq!(outcome.storms[0].interrupts, 200, "after two looks of a hundred each");
        assert!(!outcome.storms[0].is_right() && outcome.meanwhile.is_empty());
    }
}
