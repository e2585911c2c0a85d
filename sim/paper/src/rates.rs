//! Section 8.3, second part: bursts of requests for networks of very different length.

use xsched_sim::outcome::Outcome;
use xsched_sim::report::{Chart, Line, Plot};
use xsched_sim::sample::{self, Sampler};
use xsched_sim::scenario::{Arrival, Dist, OriginKind, Scenario, TaskSpec, TraceRow};
use xsched_sim::stats::{Band, Summary};

use super::lab::{How, Lab, Measure, NATIVE, given, ms};
use super::{Basis, Findings, Goal, Result, Row};

/// Requests of a run, as in the artifact.
const REQUESTS: usize = 3_000;
/// How many such runs the medians are over.
const SEEDS: u64 = 11;
/// The generator of the stream; those of a run's tasks have low numbers.
const STREAM: u64 = 1 << 50;

/// Requests per second.
const RATES: [f64; 5] = [213.0, 532.0, 743.0, 901.0, 1005.0];
/// P99 in milliseconds at these rates in the artifact's data.
const PAELLA: [&str; 5] = ["22.2", "33.2", "68.6", "125.3", "201.8"];
const XSCHED: [&str; 5] = ["21.3", "33.2", "85.4", "129.8", "185.4"];
/// The mean of XSched's latencies at some of the rates, in milliseconds.
const XSCHED_MEAN: [(usize, &str); 3] = [(FITTED, "8.54"), (2, "20.87"), (4, "58.20")];
/// The one to which the contention was fitted.
const FITTED: usize = 1;

/// A way to run the clients.
struct Method {
    name: &'static str,
    how: How<'static>,
    k: Option<u32>,
    /// P99 in the artifact's data at each rate.
    artifact: Option<[&'static str; 5]>,
    /// Why they may be others.
    reason: &'static str,
}

const WAYS: [Method; 4] = [
    Method { name: "unscheduled", how: NATIVE, k: None, artifact: None, reason: "" },
    Method {
        name: "Paella",
        how: How::system("paella"),
        k: None,
        artifact: Some(PAELLA),
        reason: "the dispatcher's cost is left out, and contention was fitted to another row",
    },
    Method {
        name: "kedf Lv1, K = 8",
        how: KEDF,
        k: Some(8),
        artifact: Some(XSCHED),
        reason: "contention was fitted to the mean at another rate, and does not grow with streams",
    },
    Method { name: "kedf Lv1, K = 16", how: KEDF, k: Some(16), artifact: None, reason: "" },
];
const KEDF: How<'_> = How::policy("kedf", 1);

/// Why Paella comes before XSched with K = 8 in the model, and after it in the artifact.
const RANK: &str = "the model's Paella costs nothing and knows the work left, and no disturbance \
                    grows with the number of streams";

/// Latencies at a rate, for each seed.
struct Point {
    mean_ms: Vec<f64>,
    p99_ms: Vec<f64>,
}

impl Method {
    fn point(&self, lab: &Lab, per_s: f64) -> Result<std::result::Result<Point, String>> {
        let mut point = Point { mean_ms: Vec::new(), p99_ms: Vec::new() };
        for seed in 1..=lab.count(SEEDS) {
            let trial = lab.run("rates", self.how, |scenario| {
                scenario.k = self.k;
                one_stream(scenario, per_s, seed);
            })?;
            match trial {
                Ok(outcome) => {
                    let all = latencies(&outcome);
                    point.mean_ms.extend(all.mean().map(|ns| ns / 1e6));
                    point.p99_ms.extend(all.percentile(99).map(ms));
                }
                Err(missing) => return Ok(Err(missing)),
            }
        }
        Ok(Ok(point))
    }
}

fn latencies(outcome: &Outcome) -> Summary {
    Summary::new(outcome.tasks.iter().flat_map(|task| task.latencies_ns.iter().copied()).collect())
}

fn median(values: &[f64]) -> f64 {
    Band::of(values.iter().copied()).map_or(f64::NAN, |band| band.median)
}

type Points = std::result::Result<Vec<Point>, String>;

fn p99(points: &Points, rate: usize) -> Measure {
    points.as_ref().map(|points| median(&points[rate].p99_ms)).map_err(Clone::clone)
}

/// 8.3.2.
pub(super) fn paella(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let fitted = lab.fitted("rates")?;
    let note = "mix, clients and lengths of the networks: artifact";
    let load = [given("task.*", OriginKind::Sourced, note)];
    let basis: &[&[Basis]] = &[&load, &fitted];
    let mut results = Vec::new();
    let mut lines = Vec::new();
    for way in &WAYS {
        let points = RATES.iter().map(|rate| way.point(lab, *rate)).collect::<Result<Points>>()?;
        if let Ok(points) = &points {
            let values = points.iter().map(|point| median(&point.p99_ms));
            lines.push(Line::new(way.name, RATES.iter().copied().zip(values).collect()));
        }
        rows(way, &points, basis, &mut findings);
        results.push(points);
    }
    let [_, paella, same, more] = results.as_slice() else { return Ok(findings) };
    for (index, published) in XSCHED_MEAN {
        let value = same.as_ref().map(|points| median(&points[index].mean_ms));
        let row = Row::new(format!("K = 8: mean at {} per second", RATES[index]), "ms")
            .published("", published)
            .reason(WAYS[2].reason)
            .basis(basis)
            .value(value.map_err(Clone::clone));
        findings.rows.push(if index == FITTED { row.target() } else { row });
    }
    for (what, points, published) in [("K = 8", same, ("", "1.09")), ("K = 16", more, ("1.3", ""))]
    {
        let (ratio, spread) = compared(paella, points);
        let row = Row::new(format!("Paella's P99 / that of {what} at 1005 per second"), "")
            .published(published.0, published.1)
            .reason(if what == "K = 8" { RANK } else { "" })
            .basis(basis)
            .value(ratio);
        findings.rows.push(if what == "K = 16" { row.goal(Goal::AtLeast(1.3)) } else { row });
        findings.notes.extend(spread.map(|band| {
            format!("{what}: the ratio is {:.2} to {:.2} in nine of ten runs.", band.p5, band.p95)
        }));
    }
    let marks = |texts: [&str; 5]| {
        let number = |(rate, text): (&f64, &str)| Some((*rate, text.parse().ok()?));
        RATES.iter().zip(texts).filter_map(number).collect::<Vec<_>>()
    };
    lines.push(Line::marks("Paella, artifact", &marks(PAELLA)));
    lines.push(Line::marks("XSched, artifact", &marks(XSCHED)));
    findings.charts.push(Chart {
        name: "rates",
        title: "P99 over the rate of requests (log-normal gaps, sigma 2)".to_owned(),
        x: "requests per second",
        y: "P99 (ms)",
        plot: Plot::Lines(lines),
    });
    findings.notes.extend(NOTES.map(str::to_owned));
    Ok(findings)
}

const NOTES: [&str; 3] = [
    "Medians over seeds, each of which gives all ways the same 3,000 requests; a P99 is the 30th \
     largest of them and differs from seed to seed by more than from way to way, the ratios less.",
    "The artifact runs XSched with K = 8 (as many threads, and the same deadline for every client, so \
     first come, first served), where the paper's text says K = 16. The former is compared with the \
     artifact's data, the latter with the text.",
    "In the artifact unscheduled streams saturate at 420 requests per second. Nothing in the model \
     explains that: it is as if they could not run side by side, which under XSched they do.",
];

/// Paella's P99 over XSched's: median and band of the pairs.
fn compared(paella: &Points, points: &Points) -> (Measure, Option<Band>) {
    match (paella, points) {
        (Ok(paella), Ok(points)) => {
            let last = RATES.len() - 1;
            let pairs = paella[last].p99_ms.iter().zip(&points[last].p99_ms);
            let band = Band::of(pairs.map(|(paella, own)| paella / own));
            (Ok(band.as_ref().map_or(f64::NAN, |band| band.median)), band)
        }
        (Err(missing), _) | (_, Err(missing)) => (Err(missing.clone()), None),
    }
}

fn rows(way: &Method, points: &Points, basis: &[&[Basis]], to: &mut Findings) {
    for (index, rate) in RATES.iter().enumerate() {
        let last = index == RATES.len() - 1;
        if way.artifact.is_none() && !last {
            continue;
        }
        let row = Row::new(format!("{}: P99 at {rate} per second", way.name), "ms");
        let artifact = way.artifact.map_or("", |values| values[index]);
        let row = row.published("", artifact).reason(way.reason);
        to.rows.push(row.basis(basis).value(p99(points, index)));
    }
}

/// Puts one stream of requests in place of the clients' own: log-normal gaps, a network at random
/// according to its part of the rate, and of that the next client. The gaps are scaled so that the
/// requests come at the rate on average, as published figures are over what the rate turned out to
/// be.
fn one_stream(scenario: &mut Scenario, per_s: f64, seed: u64) {
    let parts: Vec<f64> = scenario.tasks.iter().map(part).collect();
    let (networks, weights) = (0..parts.len() as u64, parts.clone());
    let mix = Dist::Empirical { values_ns: networks.collect(), weights: weights.into() };
    let sigma = scenario.tasks.iter().find_map(sigma).unwrap_or_default();
    let mut gap = Sampler::new(&Dist::LogNormal { mean_ns: 1e9 / per_s, sigma });
    let mut mix = Sampler::new(&mix);
    let mut gaps = sample::generator(seed, STREAM);
    let mut choices = sample::generator(seed, STREAM + 1);
    let gaps: Vec<u64> = (0..REQUESTS).map(|_| gap.draw(&mut gaps)).collect();
    let factor = REQUESTS as f64 * 1e9 / per_s / gaps.iter().sum::<u64>() as f64;

    let mut rows: Vec<Vec<Vec<TraceRow>>> =
        scenario.tasks.iter().map(|task| vec![Vec::new(); task.count as usize]).collect();
    let mut next = vec![0_usize; rows.len()];
    let mut at_ns = 0.0;
    for gap in gaps {
        let network = mix.draw(&mut choices) as usize;
        let clients = &mut rows[network];
        let client = next[network] % clients.len();
        next[network] += 1;
        clients[client].push(TraceRow { at_ns: at_ns as u64, commands: 0, command_ns: 0 });
        at_ns += gap as f64 * factor;
    }
    let mut tasks = scenario.expanded_tasks();
    for (task, rows) in tasks.iter_mut().zip(rows.into_iter().flatten()) {
        task.requests = Some(rows.len() as u64);
        task.arrival = Arrival::Trace { rows: rows.into() };
    }
    tasks.retain(|task| task.requests != Some(0));
    scenario.tasks = tasks;
    (scenario.duration_ns, scenario.warmup_ns) = (None, 0);
}

/// Requests per second of all clients of a network.
fn part(task: &TaskSpec) -> f64 {
    match &task.arrival {
        Arrival::Renewal { gap: Dist::LogNormal { mean_ns, .. } } => {
            f64::from(task.count) * 1e9 / mean_ns
        }
        _ => 0.0,
    }
}

fn sigma(task: &TaskSpec) -> Option<f64> {
    match &task.arrival {
        Arrival::Renewal { gap: Dist::LogNormal { sigma, .. } } => Some(*sigma),
        _ => None,
    }
}
