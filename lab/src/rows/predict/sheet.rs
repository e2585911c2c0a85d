//! The figures of a simulated cell, with the names that those of a measured one have.

use std::collections::BTreeMap;

use xsched_sim::outcome::TaskOutcome;
use xsched_sim::stats::Summary;

use crate::rows::document::Figure;
use crate::rows::protocol::Load;

/// The role of figures that are of all roles.
const ALL: &str = "all";
/// Simulated requests that a P99 needs.
const P99_SAMPLES: u64 = 200;

/// What a role did in a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    /// Requests that ended.
    samples: u64,
    mean_ms: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: Option<f64>,
    max_ms: f64,
    rate_per_s: f64,
    /// Its requests came faster than they were served.
    overloaded: bool,
}

impl Said {
    pub(super) fn of(task: &TaskOutcome, extra_ns: u64, load: &Load) -> Self {
        let summary = Summary::new(task.latencies_ns.clone());
        let extra_ms = extra_ns as f64 / 1e6;
        let ms = |percent| summary.percentile(percent).map_or(0.0, |ns| ns as f64 / 1e6) + extra_ms;
        let seconds = task.measured_ns as f64 / 1e9;
        let is_open = !matches!(load, Load::Closed { .. } | Load::Endless { .. });
        let arrived = summary.count() + task.unfinished;
        Self {
            samples: summary.count(),
            mean_ms: summary.mean().unwrap_or(0.0) / 1e6 + extra_ms,
            p50_ms: ms(50),
            p95_ms: ms(95),
            p99_ms: (summary.count() >= P99_SAMPLES).then(|| ms(99)),
            max_ms: ms(100),
            rate_per_s: if seconds > 0.0 {
                task.completed_in_window() as f64 / seconds
            } else {
                0.0
            },
            overloaded: is_open && task.unfinished >= 10 && task.unfinished * 20 >= arrived,
        }
    }
}

/// Collects the figures of a cell.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    cell: &'a str,
    figures: &'a mut Vec<Figure>,
    doubts: Vec<(String, String)>,
}

/// One over another, where that is not 0.
fn over(one: f64, before: f64) -> Option<f64> {
    (before > 0.0).then(|| one / before)
}

impl<'a> Sheet<'a> {
    pub(super) const fn new(cell: &'a str, figures: &'a mut Vec<Figure>) -> Self {
        Self { cell, figures, doubts: Vec::new() }
    }

    /// What cannot be predicted, and why.
    pub(super) fn doubts(self) -> Vec<(String, String)> {
        self.doubts
    }

    fn put(&mut self, role: &str, quantity: &str, value: impl Into<Option<f64>>) {
        self.figures.extend(Figure::of(self.cell, role, quantity, value));
    }

    fn doubt(&mut self, role: &str, why: &str) {
        self.doubts.push((format!("{}: latencies of {role}", self.cell), why.to_owned()));
    }

    /// What roles do alone.
    pub(super) fn alone(&mut self, alone: &BTreeMap<String, Said>) {
        for (role, said) in alone.iter().filter(|(_, said)| said.samples > 0) {
            self.put(role, "alone_mean_ms", said.mean_ms);
            self.put(role, "alone_p50_ms", said.p50_ms);
            self.put(role, "alone_p99_ms", said.p99_ms);
            self.put(role, "alone_rate_per_s", said.rate_per_s);
        }
    }

    /// What is only measured alone, over that in the reference.
    pub(super) fn over_native(
        &mut self,
        lone: &BTreeMap<String, Said>,
        native: &BTreeMap<String, Said>,
    ) {
        for (role, said) in lone.iter().filter(|(_, said)| said.samples > 0) {
            let before = native.get(role);
            self.put(role, "over_native", before.and_then(|one| over(said.p50_ms, one.p50_ms)));
        }
    }

    /// What the roles do beside each other, and over what they do alone.
    pub(super) fn beside(
        &mut self,
        order: &[&str],
        beside: &BTreeMap<String, Said>,
        alone: &BTreeMap<String, Said>,
    ) {
        let first = order.first().and_then(|role| beside.get(*role));
        let first_mean = first.filter(|said| said.samples > 0).map(|said| said.mean_ms);
        for &role in order {
            let Some(said) = beside.get(role) else { continue };
            self.put(role, "rate_per_s", said.rate_per_s);
            if said.samples == 0 {
                self.doubt(role, "no request ended in the simulation");
            } else if said.overloaded {
                let why = "requests come faster than they are served, so that latencies depend on \
                           how long it is measured";
                self.doubt(role, why);
            } else {
                self.latencies(role, said, alone.get(role), first_mean);
            }
        }
        self.parts(order, beside, alone);
    }

    fn latencies(
        &mut self,
        role: &str,
        said: &Said,
        alone: Option<&Said>,
        first_mean: Option<f64>,
    ) {
        self.put(role, "mean_ms", said.mean_ms);
        self.put(role, "p50_ms", said.p50_ms);
        self.put(role, "p95_ms", said.p95_ms);
        self.put(role, "p99_ms", said.p99_ms);
        self.put(role, "max_ms", said.max_ms);
        self.put(role, "mean_over_first", first_mean.and_then(|mean| over(said.mean_ms, mean)));
        let Some(alone) = alone else { return };
        self.put(role, "mean_over_alone", over(said.mean_ms, alone.mean_ms));
        self.put(role, "p50_over_alone", over(said.p50_ms, alone.p50_ms));
        let both = said.p99_ms.zip(alone.p99_ms);
        self.put(role, "p99_over_alone", both.and_then(|(one, before)| over(one, before)));
    }

    /// What the roles keep of their rates alone, and their parts of all that.
    fn parts(
        &mut self,
        order: &[&str],
        beside: &BTreeMap<String, Said>,
        alone: &BTreeMap<String, Said>,
    ) {
        let total: f64 = beside.values().map(|said| said.rate_per_s).sum();
        self.put(ALL, "rate_per_s", total);
        let part = |role: &&str| {
            let (here, alone) = (beside.get(*role)?, alone.get(*role)?);
            over(here.rate_per_s, alone.rate_per_s)
        };
        let parts: Vec<Option<f64>> = order.iter().map(part).collect();
        for (role, part) in order.iter().zip(&parts) {
            self.put(role, "kept", *part);
        }
        let all: Option<Vec<f64>> = parts.into_iter().collect();
        let Some(all) = all.filter(|all| all.len() > 1) else { return };
        let sum: f64 = all.iter().sum();
        self.put(ALL, "kept", sum);
        for (role, part) in order.iter().zip(all) {
            self.put(role, "share_percent", over(100.0 * part, sum));
        }
    }

    /// The same over what it is without XSched.
    pub(super) fn beside_native(
        &mut self,
        beside: &BTreeMap<String, Said>,
        native: &BTreeMap<String, Said>,
    ) {
        let total = |all: &BTreeMap<String, Said>| all.values().map(|said| said.rate_per_s).sum();
        self.put(ALL, "rate_over_native", over(total(beside), total(native)));
        for (role, said) in beside {
            let before = native.get(role).filter(|before| !before.overloaded && !said.overloaded);
            let both = said.p99_ms.zip(before.and_then(|before| before.p99_ms));
            self.put(role, "p99_over_native", both.and_then(|(one, before)| over(one, before)));
        }
    }
}
