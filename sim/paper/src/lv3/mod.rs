//! Estimates for an MI308X at Lv3 under three assumptions about its driver, beside Lv1 and Lv2:
//! experiments 7.3.1 and 7.3.2 of the test plan. A wave save of gfx942 was never measured, so none
//! of this is a measurement; `docs/src/results/simulated.md` has the tables.
//!
//! Two runs for each level and length of the commands. For `quiet` the winner stays until the
//! victim has stopped and disturbs no other queue. For `start` the two take turns, as `mi308x.toml`
//! has it, and the winner's command is short.

mod page;

use serde::Serialize;
use xsched_core::cost::{CostModel, Load};
use xsched_core::level::Level;
use xsched_core::time::Duration;
use xsched_sim::outcome::Outcome;
use xsched_sim::report::in_order;
use xsched_sim::run::{RunOptions, run};
use xsched_sim::scenario::{Arrival, Concurrency, DeviceSpec, Dist, Scenario};
use xsched_sim::stats::Summary;

use super::Result;
use super::lab::Lab;

pub use page::page;

/// Assumption of the times that Lv3 takes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Assumption {
    /// The heading of its columns.
    pub name: &'static str,
    /// The device file, without folder and ending.
    pub device: &'static str,
    /// Assumption in words.
    pub text: &'static str,
}

/// The three assumptions.
pub const ASSUMPTIONS: [Assumption; 3] = [
    Assumption {
        name: "a",
        device: "mi308x-lv3-bandwidth",
        text: "memory bandwidth: 10 µs for a call, and 9.2 µs each for saving and restoring a full \
               context (46.6 MiB at 5.3 TB/s)",
    },
    Assumption {
        name: "b",
        device: "mi308x-lv3-printed",
        text: "as a third party once printed it: 425 µs to suspend, 387 µs to resume",
    },
    Assumption { name: "c", device: "mi308x-lv3-slow", text: "5 ms to suspend, 5 ms to resume" },
];

/// The lengths of the victim's commands in the tables, in microseconds.
pub const LENGTHS_US: [u64; 12] =
    [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];
/// The length of the victim's commands in section 7.3.1 of the paper, in microseconds.
pub const T_US: u64 = 500;
/// Commands in flight.
const THRESHOLD: u64 = 8;
/// Victims that are held at once.
pub const CROWDS: [u32; 3] = [1, 4, 24];
/// Halvings of the interval in which Lv3 overtakes Lv2.
const HALVINGS: u32 = 6;

/// How the victim is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// Always so, on the device of the assumption with this number.
    Level(u8, usize),
    /// As the cost model says.
    ByCost(usize),
}

impl Method {
    const fn assumption(self) -> usize {
        match self {
            Self::Level(_, of) | Self::ByCost(of) => of,
        }
    }
}

/// Figures of one way and one length, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// From the hold to the victim's last instruction: the median.
    pub quiet_p50_us: f64,
    /// From the hold to the victim's last instruction: the 99th percentile.
    pub quiet_p99_us: f64,
    /// From the hold to the winner's first instruction: the median.
    pub start_p50_us: f64,
    /// From the hold to the winner's first instruction: the 99th percentile.
    pub start_p99_us: f64,
    /// From the hold to the winner's first instruction: the mean.
    pub start_mean_us: f64,
    /// Device time that saving and restoring took from all queues, for each hold. Gates are left
    /// out: Lv2 and Lv3 have the same.
    pub lost_us: f64,
    /// Holds that were looked at, the fewer of the two runs.
    pub holds: u64,
}

impl Figures {
    /// Returns the cost of a hold if a microsecond of waiting and one of lost device time count the
    /// same.
    #[must_use]
    pub fn price_us(&self) -> f64 {
        self.start_mean_us + self.lost_us
    }
}

/// The figures of all ways at one length.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Line {
    /// Length of the victim's commands.
    pub length_us: u64,
    /// Lv1 and Lv2, for which the assumptions make no difference.
    pub without: [Figures; 2],
    /// Lv3 under each assumption.
    pub lv3: [Figures; 3],
    /// The level chosen by cost for each hold, under each assumption.
    pub by_cost: [Figures; 3],
}

/// Several victims that are held at once, with commands of [`T_US`], under each assumption.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Crowd {
    /// How many.
    pub victims: u32,
    /// All of them in one call.
    pub together: [Round; 3],
    /// A call for each.
    pub one_by_one: [Round; 3],
}

/// Cost of holding several victims once.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Round {
    /// 99th percentile of the time from the winner's request to its end, in microseconds.
    pub request_p99_us: f64,
    /// Device time that saving and restoring took from all queues, in microseconds.
    pub lost_us: f64,
}

/// From which length of the commands on Lv3 is better than Lv2, in microseconds; `None` if it never
/// is up to the longest of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Crossover {
    /// By the 99th percentile of `quiet`.
    pub quiet_p99_us: Option<f64>,
    /// By the 99th percentile of `start`.
    pub start_p99_us: Option<f64>,
    /// By the mean of `start`.
    pub start_mean_us: Option<f64>,
    /// By [`Figures::price_us`].
    pub price_us: Option<f64>,
    /// By [`Figures::price_us`] with the 99th percentile of `start`.
    pub price_p99_us: Option<f64>,
    /// Where the scheduler begins to choose Lv3 for a hold that is to be as soon as possible.
    pub chosen_us: Option<f64>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Lv3Study {
    /// Holds for each figure.
    pub requests: u64,
    /// Assumptions that the figures are of.
    pub assumptions: [Assumption; 3],
    /// By length.
    pub lines: Vec<Line>,
    /// For each assumption.
    pub crossovers: [Crossover; 3],
    /// By number of victims.
    pub crowds: Vec<Crowd>,
    /// Violations that the checkers of the invariants found.
    pub violations: u64,
}

/// Runs everything. `requests` holds for each figure, at least 1; a P99 needs 1,000. The same
/// number gives the same figures, however many `threads` there are.
///
/// # Errors
/// Anything would be a mistake in this module's own files.
pub fn study(requests: u64, threads: usize) -> Result<Lv3Study> {
    let bench = Bench::new(requests.max(1))?;
    let lines = in_order(&LENGTHS_US, threads.max(1), &|_, length| bench.line(*length))?;
    let all = [0, 1, 2];
    let crossovers = in_order(&all, threads.max(1), &|_, of| bench.crossover(*of, &lines))?;
    let crowds = in_order(&CROWDS, threads.max(1), &|_, victims| bench.crowd(*victims))?;
    Ok(Lv3Study {
        requests: bench.requests,
        crowds,
        assumptions: ASSUMPTIONS,
        crossovers: std::array::from_fn(|of| crossovers[of]),
        violations: lines.iter().map(|(_, violations)| violations).sum(),
        lines: lines.into_iter().map(|(line, _)| line).collect(),
    })
}

/// Scenario, devices and requests of the runs.
struct Bench {
    scenario: Scenario,
    devices: Vec<DeviceSpec>,
    requests: u64,
}

impl Bench {
    fn new(requests: u64) -> Result<Self> {
        let lab = Lab::new(false);
        let device = |assumption: &Assumption| Ok(lab.device(assumption.device)?.spec);
        let devices = ASSUMPTIONS.iter().map(device).collect::<Result<_>>()?;
        Ok(Self { scenario: lab.scenario("lv3")?, devices, requests })
    }

    fn line(&self, length_us: u64) -> Result<(Line, u64)> {
        let mut violations = 0;
        let mut of = |way| {
            let (figures, found) = self.figures(way, length_us as f64)?;
            violations += found;
            Ok::<_, super::PaperError>(figures)
        };
        let without = [of(Method::Level(1, 0))?, of(Method::Level(2, 0))?];
        let lv3 = [of(Method::Level(3, 0))?, of(Method::Level(3, 1))?, of(Method::Level(3, 2))?];
        let by_cost = [of(Method::ByCost(0))?, of(Method::ByCost(1))?, of(Method::ByCost(2))?];
        Ok((Line { length_us, without, lv3, by_cost }, violations))
    }

    fn figures(&self, way: Method, length_us: f64) -> Result<(Figures, u64)> {
        let quiet = self.run(way, length_us, true)?;
        let start = self.run(way, length_us, false)?;
        let violations =
            |outcome: &Outcome| outcome.checks.values().map(|c| c.violations).sum::<u64>();
        let found = violations(&quiet) + violations(&start);
        let [quiet, start] = [&quiet.devices[0], &start.devices[0]];
        let lost_us = start.switch_ns as f64 / 1e3 / start.preemptions.max(1) as f64;
        let quiet = Summary::new(quiet.quiet_latency_ns.clone());
        let start = Summary::new(start.start_latency_ns.clone());
        let percentile =
            |times: &Summary, percent| us(times.percentile(percent).map(|ns| ns as f64));
        let figures = Figures {
            quiet_p50_us: percentile(&quiet, 50),
            quiet_p99_us: percentile(&quiet, 99),
            start_p50_us: percentile(&start, 50),
            start_p99_us: percentile(&start, 99),
            start_mean_us: us(start.mean()),
            lost_us,
            holds: quiet.count().min(start.count()),
        };
        Ok((figures, found))
    }

    fn run(&self, way: Method, length_us: f64, stays: bool) -> Result<Outcome> {
        let scenario = self.scenario(way, length_us, stays);
        let level = if let Method::Level(level, _) = way { level } else { 3 };
        let by_cost = matches!(way, Method::ByCost(_));
        let options =
            RunOptions { level: Some(level), by_cost, checks: true, ..RunOptions::default() };
        Ok(run(&scenario, &options, &mut |_| {})?)
    }

    /// The gaps between the winner's requests are long enough for the victim to be back and to have
    /// filled its window, and as long again at random, so that holds meet any moment of a command.
    fn scenario(&self, way: Method, length_us: f64, stays: bool) -> Scenario {
        let mut scenario = self.scenario.clone();
        let device = &self.devices[way.assumption()];
        let cost = |fixed: u64, context: u64| fixed + 2 * context;
        let suspend_ns = cost(device.save_fixed_ns, device.save_context_ns);
        let resume_ns = cost(device.restore_fixed_ns, device.restore_context_ns);
        let deep = way != Method::Level(1, 0) && way != Method::Level(2, 0);
        let length_ns = (length_us * 1e3).round() as u64;
        let (least_ns, span_ns) = (2 * THRESHOLD * length_ns, 4 * THRESHOLD * length_ns);
        let min_ns = least_ns + if deep { resume_ns } else { 0 };
        let gap = Dist::Uniform { min_ns, max_ns: min_ns + span_ns };
        scenario.tasks[0].requests = Some(self.requests);
        scenario.tasks[0].arrival = Arrival::Closed { think: gap, jitter_ns: 0 };
        scenario.tasks[1].command = Dist::Constant(length_ns);
        scenario.devices[0] =
            DeviceSpec { name: self.scenario.devices[0].name.clone(), ..device.clone() };
        if stays {
            scenario.devices[0].concurrency = Concurrency::ProcessorSharing { contention: 0.0 };
            let all_ns = (THRESHOLD + 4) * length_ns;
            let stay_ns = if deep { all_ns + 4 * suspend_ns } else { all_ns };
            scenario.tasks[0].command = Dist::Constant(stay_ns);
        }
        scenario
    }

    fn crowd(&self, victims: u32) -> Result<Crowd> {
        let of = |batches: bool| {
            let round = |of: usize| self.round(victims, of, batches);
            Ok::<_, super::PaperError>([round(0)?, round(1)?, round(2)?])
        };
        Ok(Crowd { victims, together: of(true)?, one_by_one: of(false)? })
    }

    fn round(&self, victims: u32, of: usize, batches: bool) -> Result<Round> {
        let mut scenario = self.scenario(Method::Level(3, of), T_US as f64, false);
        scenario.devices[0].batches = batches;
        scenario.tasks[1].count = victims;
        // Each has to be back before the next round.
        let all_ns = u64::from(victims) * (scenario.devices[0].restore_fixed_ns + T_US * 1_000);
        if let Arrival::Closed { think: Dist::Uniform { min_ns, max_ns }, .. } =
            &mut scenario.tasks[0].arrival
        {
            *min_ns += all_ns;
            *max_ns += all_ns;
        }
        let options = RunOptions { level: Some(3), checks: true, ..RunOptions::default() };
        let outcome = run(&scenario, &options, &mut |_| {})?;
        let requests = Summary::new(outcome.tasks[0].latencies_ns.clone());
        let rounds = requests.count().max(1) as f64;
        Ok(Round {
            request_p99_us: us(requests.percentile(99).map(|ns| ns as f64)),
            lost_us: outcome.devices[0].switch_ns as f64 / 1e3 / rounds,
        })
    }

    fn crossover(&self, of: usize, lines: &[(Line, u64)]) -> Result<Crossover> {
        let find = |what: fn(&Figures) -> f64| self.find(of, lines, what);
        Ok(Crossover {
            quiet_p99_us: find(|figures| figures.quiet_p99_us)?,
            start_p99_us: find(|figures| figures.start_p99_us)?,
            start_mean_us: find(|figures| figures.start_mean_us)?,
            price_us: find(Figures::price_us)?,
            price_p99_us: find(|figures| figures.start_p99_us + figures.lost_us)?,
            chosen_us: chosen(&cost_of(&self.devices[of])),
        })
    }

    /// The length from which on Lv3 is below Lv2. The table has the interval.
    fn find(
        &self,
        of: usize,
        lines: &[(Line, u64)],
        what: fn(&Figures) -> f64,
    ) -> Result<Option<f64>> {
        let pays = |line: &Line| what(&line.lv3[of]) < what(&line.without[1]);
        let Some(worse) = lines.iter().rposition(|(line, _)| !pays(line)) else {
            return Ok(lines.first().map(|(line, _)| line.length_us as f64));
        };
        let Some((upper, _)) = lines.get(worse + 1) else { return Ok(None) };
        let (mut low, mut high) = (lines[worse].0.length_us as f64, upper.length_us as f64);
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            let (lv2, _) = self.figures(Method::Level(2, 0), middle)?;
            let (lv3, _) = self.figures(Method::Level(3, of), middle)?;
            if what(&lv3) < what(&lv2) { high = middle } else { low = middle }
        }
        Ok(Some((low * high).sqrt()))
    }
}

fn us(ns: Option<f64>) -> f64 {
    ns.map_or(f64::NAN, |ns| ns / 1e3)
}

fn cost_of(spec: &DeviceSpec) -> CostModel {
    spec.cost()
}

/// The shortest command, in microseconds, for which the cost model chooses Lv3 for a hold as soon
/// as possible.
fn chosen(cost: &CostModel) -> Option<f64> {
    let load = |us: u64| Load {
        in_flight: THRESHOLD,
        command: Duration::from_us(us),
        context_permille: 1_000,
        others_permille: 1_000,
        joins: false,
    };
    let chosen = |us: u64| cost.choose(Level::Interrupt, Duration::ZERO, &load(us));
    (1..=1_000_000).find(|us| chosen(*us) == Level::Interrupt).map(|us| us as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hold_is_seen_and_nothing_is_violated() {
        let bench = Bench::new(60).unwrap();
        for length_us in [10, 500] {
            let (line, violations) = bench.line(length_us).unwrap();
            assert_eq!(violations, 0);
            let all = line.without.iter().chain(&line.lv3).chain(&line.by_cost);
            for figures in all {
                assert!(figures.holds >= 59, "{length_us} us: {figures:?}");
                assert!(figures.start_p50_us <= figures.start_p99_us, "{figures:?}");
            }
        }
    }

    #[test]
    fn together_costs_as_much_as_one() {
        let bench = Bench::new(60).unwrap();
        let [one, four] = [1, 4].map(|victims| bench.crowd(victims).unwrap());
        for of in 0..3 {
            let lost = |round: [Round; 3]| round[of].lost_us;
            let call = lost(one.together);
            assert!(lost(four.together) < 1.6 * call, "{four:?}");
            assert!(lost(four.one_by_one) > 3.5 * call, "{four:?}");
        }
    }

    #[test]
    fn at_lv3_all_queues_wait_for_the_call() {
        let bench = Bench::new(60).unwrap();
        for (of, suspend_us, resume_us) in [(0, 19.2, 19.2), (1, 425.0, 387.0), (2, 5e3, 5e3)] {
            let (figures, _) = bench.figures(Method::Level(3, of), 500.0).unwrap();
            // The gate in front of the next command closes first.
            let call_us = suspend_us + 1.0;
            assert!((figures.quiet_p50_us - call_us).abs() < 0.01, "{figures:?}");
            let turn_us = call_us..call_us + 500.0;
            assert!(turn_us.contains(&(figures.start_p99_us + 0.01)), "{figures:?}");
            let lost = (figures.lost_us - suspend_us - resume_us).abs();
            assert!(lost < 0.04 * figures.lost_us, "{figures:?}");
        }
    }
}
