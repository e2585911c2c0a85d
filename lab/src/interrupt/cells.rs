//! Costs of an interrupt: for each combination, trials with all moments written down; and storms of
//! interrupts after which results are compared.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xsched_core::rng::SplitMix64;
use xsched_hal_kfd::log::Watch;

use super::queues::Queues;
use crate::device::LabError;
use crate::device::interruptible::Interruptible;
use crate::device::load::{CheckedCounts, Kind, Load, Share};
use crate::pace::Pace;
use crate::stats::Quantiles;

/// Where random moments follow from.
pub(crate) const SEED: u64 = 1;
/// Device time of the winner's command, in nanoseconds.
const WINNER_NS: u64 = 20_000;
/// Between two looks at the kernel's log in a storm, in interrupts.
const LOOK: u32 = 100;
/// Longest hold of a storm, in nanoseconds.
const HOLD_NS: u64 = 100_000;

/// A combination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Combination {
    /// How it is interrupted.
    pub(crate) mechanism: String,
    /// Load that is interrupted.
    pub(crate) load: Load,
    /// In how many queues.
    pub(crate) queues: u32,
    /// Beside how many other processes that keep the device busy.
    pub(crate) processes: u32,
}

/// The moments of one interrupt, in nanoseconds from the beginning of its combination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// Before the first call.
    pub(crate) enter_ns: u64,
    /// When the calls had returned.
    pub(crate) return_ns: u64,
    /// When the backend said that it is in effect.
    pub(crate) effect_ns: u64,
    /// The victims' last instruction.
    pub(crate) last_ns: u64,
    /// By how much that may be off.
    pub(crate) unsure_ns: u64,
    /// When the winner was launched.
    pub(crate) winner_launch_ns: u64,
    /// The winner's first instruction.
    pub(crate) winner_first_ns: u64,
    /// When the host knew that the winner had ended.
    pub(crate) winner_end_ns: u64,
    /// Before the first call that lets the victims go on.
    pub(crate) resume_enter_ns: u64,
    /// When those calls had returned.
    pub(crate) resume_return_ns: u64,
    /// The victims' first instruction afterwards.
    pub(crate) first_ns: u64,
}

impl Trial {
    /// Returns whether a victim ran though the backend had said that it does not.
    pub(crate) const fn ran_on(&self) -> bool {
        self.last_ns > self.effect_ns.saturating_add(self.unsure_ns)
    }
}

/// Figures of a combination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Combination that was measured.
    pub(crate) combination: Combination,
    /// From the first call to the victims' last instruction.
    pub(crate) quiet: Quantiles,
    /// From the first call until the backend says that it is in effect.
    pub(crate) hold: Quantiles,
    /// From the first call to the winner's first instruction.
    pub(crate) start: Quantiles,
    /// From the first call to let them go on until that is in effect.
    pub(crate) resume: Quantiles,
    /// From that call to a victim's first instruction.
    pub(crate) restart: Quantiles,
    /// Trials after which a victim ran though the backend said that it does not.
    pub(crate) ran_on: u64,
    /// By how much the device's moments may be off, in microseconds.
    pub(crate) unsure_us: f64,
    /// Results that the commands checked.
    pub(crate) sums: CheckedCounts,
    /// Commands that were launched and did not run exactly once.
    pub(crate) lost: i64,
}

/// Interrupts the queues of a combination again and again, as long as there is time for what ends
/// with this share of the whole. Each trial is given to `raw` when it is done.
pub(crate) fn measure<K: Interruptible>(
    device: &K,
    combination: &Combination,
    (trials, pace, part): (u32, &Pace<'_>, f64),
    raw: &mut dyn FnMut(&Trial),
) -> Result<Cell, LabError> {
    let Combination { mechanism, load, queues, .. } = combination;
    let mut victims = Queues::open(device, mechanism, *load, *queues)?;
    let winner = Load { kind: Kind::Alu, share: Share::One, ns: WINNER_NS };
    let mut winner = Queues::open(device, mechanism, winner, 1)?;
    // So that no first launch is among the trials.
    winner.run_one()?;
    let mut random = SplitMix64::new(SEED);
    let mut done = Vec::new();
    let command_ns = victims.command_ns();
    while done.len() < trials as usize && pace.wants_more(done.len(), part) {
        victims.run()?;
        thread::sleep(Duration::from_nanos(random.below(command_ns.max(1))));
        victims.refill()?;
        let trial = trial(&mut victims, &mut winner)?;
        raw(&trial);
        done.push(trial);
    }
    victims.drain()?;
    let (sums, launched) = victims.sums()?;
    Ok(cell(combination.clone(), &done, sums, launched))
}

fn trial<K: Interruptible>(
    victims: &mut Queues<K>,
    winner: &mut Queues<K>,
) -> Result<Trial, LabError> {
    let held = victims.hold()?;
    winner.arm();
    let winner_launch_ns = victims.now_ns();
    winner.run_one()?;
    let winner_end_ns = victims.now_ns();
    thread::sleep(victims.settled());
    let (last_ns, unsure_ns) = victims.last_ns()?;
    // The winner's clock began later than the victims'. It has to be read before its moments are
    // asked for, as GPUs' clocks drift.
    winner.last_ns()?;
    let between = i128::from(victims.now_ns()) - i128::from(winner.now_ns());
    let winner_first_ns = u64::try_from(i128::from(winner.first_ns()?) + between).unwrap_or(0);

    victims.arm();
    let resumed = victims.resume()?;
    let first_ns = victims.first_ns()?;
    Ok(Trial {
        enter_ns: held.enter_ns,
        return_ns: held.return_ns,
        effect_ns: held.effect_ns,
        last_ns,
        unsure_ns,
        winner_launch_ns,
        winner_first_ns,
        winner_end_ns,
        resume_enter_ns: resumed.enter_ns,
        resume_return_ns: resumed.effect_ns,
        first_ns,
    })
}

fn cell(combination: Combination, trials: &[Trial], sums: CheckedCounts, launched: u64) -> Cell {
    let of = |span: fn(&Trial) -> (u64, u64)| {
        let spans = trials.iter().map(|trial| {
            let (from, to) = span(trial);
            to.saturating_sub(from)
        });
        Quantiles::of(&spans.collect::<Vec<_>>())
    };
    let unsure = trials.iter().map(|trial| trial.unsure_ns).max().unwrap_or(0);
    Cell {
        combination,
        quiet: of(|trial| (trial.enter_ns, trial.last_ns)),
        hold: of(|trial| (trial.enter_ns, trial.effect_ns)),
        start: of(|trial| (trial.enter_ns, trial.winner_first_ns)),
        resume: of(|trial| (trial.resume_enter_ns, trial.resume_return_ns)),
        restart: of(|trial| (trial.resume_enter_ns, trial.first_ns)),
        ran_on: trials.iter().filter(|trial| trial.ran_on()).count() as u64,
        unsure_us: unsure as f64 / 1e3,
        sums,
        lost: difference(launched, sums.finished),
    }
}

fn difference(launched: u64, finished: u64) -> i64 {
    i64::try_from(i128::from(launched) - i128::from(finished)).unwrap_or(i64::MAX)
}

/// Figures of a storm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Storm {
    /// Load that was interrupted, and how.
    pub(crate) combination: Combination,
    /// How often.
    pub(crate) interrupts: u32,
    /// Results that the commands checked.
    pub(crate) sums: CheckedCounts,
    /// Commands that were launched and did not run exactly once.
    pub(crate) lost: i64,
    /// Why it ended before all interrupts were done.
    pub(crate) stopped: Option<String>,
}

impl Storm {
    /// Returns whether every command ran once and had the right result.
    pub(crate) const fn is_right(&self) -> bool {
        self.sums.wrong == 0 && self.lost == 0 && self.stopped.is_none()
    }
}

/// Interrupts as often as asked for, or as there is time for what ends with this share of the
/// whole, as fast as that goes and at random moments, and compares all results.
/// `progress` gets how many were done.
pub(crate) fn storm<K: Interruptible>(
    device: &K,
    combination: &Combination,
    (interrupts, pace, part): (u32, &Pace<'_>, f64),
    watch: &mut Watch,
    progress: &mut dyn FnMut(u32),
) -> Result<Storm, LabError> {
    let Combination { mechanism, load, queues, .. } = combination;
    let mut victims = Queues::open(device, mechanism, *load, *queues)?;
    let mut random = SplitMix64::new(SEED);
    let (mut done, mut stopped) = (0, None);
    let command_ns = victims.command_ns();
    while done < interrupts && stopped.is_none() && pace.wants_more(done as usize, part) {
        victims.run()?;
        thread::sleep(Duration::from_nanos(random.below((command_ns / 4).max(1))));
        victims.hold()?;
        thread::sleep(Duration::from_nanos(random.below(HOLD_NS)));
        victims.resume()?;
        done += 1;
        if done.is_multiple_of(LOOK) {
            stopped = watch.check().err();
            progress(done);
        }
    }
    victims.drain()?;
    let (sums, launched) = victims.sums()?;
    let lost = difference(launched, sums.finished);
    Ok(Storm { combination: combination.clone(), interrupts: done, sums, lost, stopped })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combination() -> Combination {
        let load = Load { kind: Kind::Alu, share: Share::Full, ns: 1 };
        Combination { mechanism: "signal".into(), load, queues: 1, processes: 0 }
    }

    #[test]
    fn spans_are_from_the_first_call() {
        let trial = Trial {
            enter_ns: 1_000,
            return_ns: 1_500,
            effect_ns: 3_000,
            last_ns: 2_000,
            unsure_ns: 100,
            winner_launch_ns: 3_000,
            winner_first_ns: 5_000,
            winner_end_ns: 9_000,
            resume_enter_ns: 10_000,
            resume_return_ns: 16_000,
            first_ns: 17_000,
        };
        let sums = CheckedCounts { finished: 4, wrong: 1 };
        let late = Trial { last_ns: 3_101, ..trial };
        assert!(late.ran_on() && !Trial { last_ns: 3_100, ..trial }.ran_on());
        let cell = cell(combination(), &[trial, late], sums, 5);
        assert_eq!((cell.quiet.min_us, cell.hold.p50_us), (1.0, 2.0));
        assert_eq!((cell.start.p50_us, cell.resume.p50_us, cell.restart.p50_us), (4.0, 6.0, 7.0));
        assert_eq!((cell.ran_on, cell.lost, cell.unsure_us), (1, 1, 0.1));
    }

    #[test]
    fn wrong_lost_and_unfinished_are_not_right() {
        let sums = CheckedCounts { finished: 4, wrong: 0 };
        let storm =
            Storm { combination: combination(), interrupts: 1, sums, lost: 0, stopped: None };
        assert!(storm.is_right());
        assert!(!Storm { lost: -1, ..storm.clone() }.is_right());
        assert!(!Storm { sums: CheckedCounts { wrong: 1, ..sums }, ..storm.clone() }.is_right());
        assert!(!Storm { stopped: Some("a line".into()), ..storm }.is_right());
    }
}
