//! Section 8.3: inference servers.

use super::chart::{Chart, Line, Plot};
use super::lab::{HPF, How, Lab, NATIVE, Trial, figure, given, only, over, percentile, task};
use super::{Findings, Goal, Result, Row};
use crate::scenario::{Arrival, Dist, OriginKind, Scenario};
use crate::stats::Summary;

/// 8.3.1.
pub(super) fn server(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let ways = [
        ("unscheduled", NATIVE, ["1.53", ""], ["1.59", "1.57 (measured)"]),
        ("Triton with priorities", How::system("triton"), ["1.51", ""], ["1.54", ""]),
        ("XSched, hpf Lv2", How::policy(HPF, 2), ["1.07", ""], ["0.94", ""]),
    ];
    let mut lines = Vec::new();
    for (index, (name, device)) in [("serve", "GV100"), ("serve-h200", "H200")].iter().enumerate() {
        let alone = lab.run(name, NATIVE, |scenario| only(scenario, "high"))?;
        let p99 = |trial: &Trial| figure(trial, |outcome| percentile(outcome, "high", 99));
        let fitted = lab.fitted(name)?;
        let costs = lab.of_device(&device.to_lowercase(), &["detect", "gate", "gate_close"])?;
        let length = [given("task.*.command", OriginKind::Sourced, "measured latency alone")];
        for (way, how, paper, artifact) in ways {
            let trial = lab.run(name, how, |_| {})?;
            let row = Row::new(format!("{device}, {way}: high P99 / alone"), "")
                .published(paper[index], artifact[index])
                .value(over(&p99(&trial), &p99(&alone)));
            findings.rows.push(if way.starts_with("XSched") {
                row.goal(Goal::AtMost(1.1)).basis(&[&costs, &length, &fitted])
            } else {
                row.basis(&[&fitted])
            });
            if let Some(high) = trial.as_ref().ok().and_then(|outcome| task(outcome, "high"))
                && index == 0
            {
                lines.push(Line::distribution(way, &high.latencies_ns));
            }
        }
        if let (0, Ok(outcome)) = (index, &alone)
            && let Some(high) = task(outcome, "high")
        {
            lines.push(Line::distribution("alone", &high.latencies_ns));
        }
    }
    findings.notes.push(
        "The fitted contention moves the XSched rows by less than 0.05 between no disturbance and \
         an equal share of a full device."
            .to_owned(),
    );
    findings.charts.push(Chart {
        name: "cdf",
        title: "BERT-large at 10 requests a second beside an endless one, GV100".to_owned(),
        x: "latency (ms)",
        y: "requests within (%)",
        plot: Plot::Lines(lines),
    });
    Ok(findings)
}

/// Requests per second of 8.3.2.
const RATES: [f64; 5] = [213.0, 532.0, 743.0, 901.0, 1005.0];
/// Rate and P99 in milliseconds in the artifact's data.
const PAELLA: [(f64, f64); 10] = [
    (213.0, 22.0),
    (532.0, 33.0),
    (691.0, 57.0),
    (743.0, 69.0),
    (796.0, 83.0),
    (849.0, 95.0),
    (901.0, 125.0),
    (953.0, 148.0),
    (1005.0, 202.0),
    (1055.0, 200.0),
];
const XSCHED: [(f64, f64); 10] = [
    (213.0, 21.0),
    (532.0, 33.0),
    (691.0, 69.0),
    (743.0, 85.0),
    (796.0, 103.0),
    (849.0, 117.0),
    (901.0, 130.0),
    (953.0, 149.0),
    (1005.0, 185.0),
    (1055.0, 228.0),
];

/// Sets the rate of all clients together.
fn at_rate(scenario: &mut Scenario, per_s: f64) {
    let clients: u32 = scenario.tasks.iter().map(|task| task.count).sum();
    for task in &mut scenario.tasks {
        if let Arrival::Renewal { gap: Dist::LogNormal { mean_ns, .. } } = &mut task.arrival {
            *mean_ns = 1e9 * f64::from(clients) / per_s;
        }
    }
}

/// 8.3.2.
pub(super) fn rates(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let ways = [
        ("unscheduled", NATIVE),
        ("Paella", How::system("paella")),
        ("XSched, kedf Lv2", How::policy("kedf", 2)),
    ];
    let fitted = lab.fitted("rates")?;
    let mut lines = Vec::new();
    let mut last = Vec::new();
    for (way, how) in ways {
        let mut points = Vec::new();
        let mut value = Err(String::new());
        for rate in RATES.iter().copied().take(lab.count(5) as usize) {
            let trial = lab.run("rates", how, |scenario| at_rate(scenario, rate))?;
            value = figure(&trial, |outcome| {
                let all = outcome.tasks.iter().flat_map(|task| task.latencies_ns.iter().copied());
                Summary::new(all.collect()).percentile(99).map(super::lab::ms)
            });
            match &value {
                Ok(p99) => points.push((rate, *p99)),
                Err(_) => break,
            }
        }
        findings.rows.push(
            Row::new(format!("{way}: P99 at 1005 per second"), "ms")
                .published("", if way == "Paella" { "202" } else { "" })
                .basis(&[&fitted])
                .value(value.clone()),
        );
        last.push(value);
        if !points.is_empty() {
            lines.push(Line::new(way, points));
        }
    }
    findings.rows.push(
        Row::new("Paella's P99 / XSched's at 1005 per second", "")
            .published("1.3", "1.09")
            .goal(Goal::AtLeast(1.3))
            .basis(&[&fitted])
            .value(over(&last[1], &last[2])),
    );
    lines.push(Line::marks("Paella, paper's artifact", &PAELLA));
    lines.push(Line::marks("XSched, paper's artifact", &XSCHED));
    findings.charts.push(Chart {
        name: "rates",
        title: "P99 over the rate of requests (log-normal gaps, sigma 2)".to_owned(),
        x: "requests per second",
        y: "P99 (ms)",
        plot: Plot::Lines(lines),
    });
    findings.notes.push(
        "The load's mix of short and long requests is made up. In the paper unscheduled streams \
         saturate at 420 requests per second; the model knows no disturbance between streams and \
         is fitted to the scheduled systems. The goal is that of the paper's text; its artifact's \
         data do not show it."
            .to_owned(),
    );
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Concurrency;

    /// Contention is fitted to the unscheduled rows. It hardly matters for the scheduled ones, and
    /// the goal is met whatever it is.
    #[test]
    fn the_goal_is_met_with_any_contention() {
        let lab = Lab::new(true);
        for name in ["serve", "serve-h200"] {
            let ratio = |contention: f64| {
                let change = |scenario: &mut Scenario| {
                    scenario.devices[0].concurrency = Concurrency::ProcessorSharing { contention };
                };
                let p99 = |trial: &Trial| figure(trial, |o| percentile(o, "high", 99)).unwrap();
                let alone = lab.run(name, NATIVE, |scenario| only(scenario, "high")).unwrap();
                let held = lab.run(name, How::policy(HPF, 2), change).unwrap();
                p99(&held) / p99(&alone)
            };
            let values = [0.0, 0.53, 1.0].map(ratio);
            assert!(values.iter().all(|value| *value <= 1.1), "{name}: {values:?}");
            let spread = values[2] / values[0] - 1.0;
            assert!((0.0..0.05).contains(&spread), "{name}: {values:?}");
        }
    }
}
