//! Sections 5.1 to 5.4 of the test plan: BERT, measured without priorities, predicted with them.

use xsched_sim::outcome::Outcome;
use xsched_sim::report::{Chart, Line, Plot};
use xsched_sim::scenario::{DeviceSpec, OriginKind};
use xsched_sim::stats::Summary;

use super::lab::{HPF, How, Lab, NATIVE, Trial, figure, given, ms, over, percentile, rate, task};
use super::preempt::CALLS;
use super::{Basis, Findings, Goal, Result, Row};

fn summary(outcome: &Outcome, name: &str) -> Option<Summary> {
    task(outcome, name).map(|task| Summary::new(task.latencies_ns.clone()))
}

fn mean(outcome: &Outcome, name: &str) -> Option<f64> {
    summary(outcome, name)?.mean().map(|ns| ns / 1e6)
}

fn max(outcome: &Outcome, name: &str) -> Option<f64> {
    summary(outcome, name)?.max().map(ms)
}

/// Within this share of a measured value.
fn near(measured: f64, percent: f64) -> Goal {
    let part = percent / 100.0;
    Goal::Between(rounded(measured * (1.0 - part)), rounded(measured * (1.0 + part)))
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// 5.1.
pub(super) fn alone(lab: &Lab) -> Result<Findings> {
    let fitted = lab.fitted("bert-alone")?;
    let get =
        |figure: &dyn Fn(&Outcome) -> Option<f64>| lab.median("bert-alone", NATIVE, 20, figure);
    let row = |what: &str, artifact| Row::new(what, "ms").published("", artifact);
    let rows = vec![
        row("mean", "6.37 (measured)")
            .goal(near(6.37, 2.0))
            .basis(&[&fitted])
            .target()
            .value(get(&|outcome| mean(outcome, "a"))?),
        row("P99 (the largest of 20)", "6.42 (measured)")
            .goal(near(6.42, 2.0))
            .basis(&[&fitted])
            .target()
            .value(get(&|outcome| max(outcome, "a"))?),
    ];
    Ok(Findings { rows, ..Findings::default() })
}

/// The measured values of 5.2: mean and P99 of each task.
const THREE: [(&str, f64, &str, &str); 3] = [
    ("a", 12.34, "12.34 (measured)", "18.47 (measured)"),
    ("b", 13.63, "13.63 (measured)", "18.58 (measured)"),
    ("c", 13.63, "13.63 (measured)", "18.52 (measured)"),
];

/// 5.2.
pub(super) fn three(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let seeds = 50;
    let name = "bert-mi308x";
    let fitted = lab.fitted(name)?;
    let device = lab.of_device("mi308x", &["concurrency"])?;
    let basis: &[&[Basis]] = &[&fitted, &device];
    for (who, measured, mean_text, max_text) in THREE {
        findings.rows.push(
            Row::new(format!("MI308X, task {who}: mean"), "ms")
                .published("", mean_text)
                .goal(near(measured, 10.0))
                .basis(basis)
                .target()
                .value(lab.median(name, NATIVE, seeds, |outcome| mean(outcome, who))?),
        );
        findings.rows.push(
            Row::new(format!("MI308X, task {who}: P99 (the largest of 20)"), "ms")
                .published("", max_text)
                .goal(near(18.5, 10.0))
                .basis(basis)
                .target()
                .value(lab.median(name, NATIVE, seeds, |outcome| max(outcome, who))?),
        );
    }
    let total = |names: &'static [&'static str]| {
        move |outcome: &Outcome| names.iter().map(|name| rate(outcome, name)).sum::<Option<f64>>()
    };
    findings.rows.push(
        Row::new("MI308X: rate", "per s")
            .published("", "88.82 (measured)")
            .goal(near(88.82, 10.0))
            .basis(basis)
            .target()
            .value(lab.median(name, NATIVE, seeds, total(&["a", "b", "c"]))?),
    );
    let fitted = lab.fitted("bert-h200")?;
    findings.rows.push(
        Row::new("H200, task t1: mean", "ms")
            .published("", "14.25 (measured)")
            .goal(near(14.254, 10.0))
            .basis(&[&fitted])
            .target()
            .value(lab.median("bert-h200", NATIVE, seeds, |outcome| mean(outcome, "t1"))?),
    );
    findings.rows.push(
        Row::new("H200: rate", "per s")
            .published("", "87.03 (measured)")
            .goal(near(87.03, 10.0))
            .basis(&[&fitted])
            .target()
            .value(lab.median("bert-h200", NATIVE, seeds, total(&["t1", "t2", "t3"]))?),
    );
    findings.notes.push(
        "Medians over seeds. The MI308X data cannot tell kernel round robin from a host lock \
         (docs/src/results/simulated.md); the former is simulated."
            .to_owned(),
    );
    Ok(findings)
}

/// 5.3.
pub(super) fn sequence(lab: &Lab) -> Result<Findings> {
    let note = "157 kernels of 40.44 us make the 6.37 ms of 5.1, an experiment of its own";
    let basis = [given("task.*.command", OriginKind::Sourced, note)];
    let mut rows = Vec::new();
    for (who, measured, words) in [("a", 6.40, "6.40 (measured)"), ("b", 6.39, "6.39 (measured)")] {
        rows.push(
            Row::new(format!("task {who}: mean"), "ms")
                .published("", words)
                .goal(near(measured, 2.0))
                .basis(&[&basis])
                .value(lab.median("bert-sequence", NATIVE, 20, |outcome| mean(outcome, who))?),
        );
    }
    for (who, measured, words) in [("a", 6.49, "6.49 (measured)"), ("b", 6.45, "6.45 (measured)")] {
        rows.push(
            Row::new(format!("task {who}: P99 (the largest of 20)"), "ms")
                .published("", words)
                .goal(near(measured, 3.0))
                .basis(&[&basis])
                .value(lab.median("bert-sequence", NATIVE, 20, |outcome| max(outcome, who))?),
        );
    }
    Ok(Findings { rows, ..Findings::default() })
}

/// Cost of preemption in the endless scenario.
#[derive(Clone, Copy)]
enum Cost<'a> {
    /// As the device's file says.
    Known,
    /// At Lv3 as this other file says.
    Of(&'a DeviceSpec),
    /// Nothing, and it takes effect at once.
    Free,
}

/// Runs the endless scenario.
fn endless(lab: &Lab, how: How<'_>, cost: Cost<'_>) -> Result<Trial> {
    lab.run("bert-mi308x-endless", how, |scenario| match cost {
        Cost::Known => {}
        Cost::Of(spec) => {
            for device in &mut scenario.devices {
                device.save_fixed_ns = spec.save_fixed_ns;
                device.restore_fixed_ns = spec.restore_fixed_ns;
            }
        }
        Cost::Free => {
            scenario.scheduler_latency_ns = 0;
            for device in &mut scenario.devices {
                (device.gate_ns, device.gate_close_ns, device.detect_ns) = (0, 0, 0);
                (device.save_fixed_ns, device.save_context_ns) = (0, 0);
                (device.restore_fixed_ns, device.restore_context_ns) = (0, 0);
            }
        }
    })
}

/// The endless scenario at Lv3, with each of the costs that the driver's call may have.
fn calls(lab: &Lab) -> Result<Vec<(&'static str, Trial)>> {
    let one = |(device, when): (&str, &'static str)| {
        let spec = lab.device(device)?.spec;
        Ok((when, endless(lab, How::policy(HPF, 3), Cost::Of(&spec))?))
    };
    CALLS.into_iter().map(one).collect()
}

/// 5.4.
pub(super) fn priorities(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let alone = lab.median("bert-alone", NATIVE, 20, |outcome| max(outcome, "a"))?;
    let jitter = lab.fitted("bert-mi308x")?;
    let ideal = endless(lab, How::policy(HPF, 3), Cost::Free)?;
    let ratio = |trial: &Trial| {
        let low = figure(trial, |outcome| mean(outcome, "low"));
        over(&low, &figure(trial, |outcome| mean(outcome, "high")))
    };
    let best = ratio(&ideal).unwrap_or(f64::NAN);
    let native = endless(lab, NATIVE, Cost::Known)?;
    let p99 = |trial: &Trial| figure(trial, |outcome| percentile(outcome, "high", 99));
    let device = lab.of_device("mi308x", &["concurrency", "gate", "save_fixed"])?;
    findings.rows.push(
        Row::new("endless low task, unscheduled: high P99 / alone", "")
            .basis(&[&device])
            .value(over(&p99(&native), &alone)),
    );
    let rates = |trial: &Trial| {
        figure(trial, |outcome| Some(rate(outcome, "high")? + rate(outcome, "low")?))
    };
    let mut lines = Vec::new();
    // Levels with the plan's goals: high P99 in ms, and low over high.
    for (level, highest, ratios) in [(1, 14.0, 1.5), (2, 10.0, 2.5), (3, 10.0, 3.0)] {
        let figures = |trial: &Trial| {
            let p99 = p99(trial);
            [over(&p99, &alone), p99, ratio(trial), over(&rates(trial), &rates(&native))]
        };
        let trial = endless(lab, How::policy(HPF, level), Cost::Known)?;
        let others = if level == 3 { calls(lab)? } else { Vec::new() };
        let named = [
            ("high P99 / alone", "", Goal::AtMost(1.1)),
            ("high P99", "ms", Goal::AtMost(highest)),
            ("low mean / high mean", "", Goal::AtLeast(ratios)),
            ("total rate / unscheduled", "", Goal::AtLeast(0.9)),
        ];
        for (n, ((what, unit, goal), value)) in named.into_iter().zip(figures(&trial)).enumerate() {
            let row = Row::new(format!("endless low task, Lv{level}: {what}"), unit);
            let row = row.basis(&[&device]).goal(goal).value(value);
            let row = if n == 2 { row.ideal(best) } else { row };
            findings.rows.push(
                others
                    .iter()
                    .fold(row, |row, (when, trial)| row.otherwise(when, &figures(trial)[n])),
            );
        }
        if let Some(high) = trial.as_ref().ok().and_then(|outcome| task(outcome, "high")) {
            lines.push(Line::distribution(format!("high, Lv{level}"), &high.latencies_ns));
        }
    }
    if let Some(high) = native.as_ref().ok().and_then(|outcome| task(outcome, "high")) {
        lines.push(Line::distribution("high, unscheduled", &high.latencies_ns));
    }
    closed(lab, &jitter, &mut findings)?;
    findings.charts.push(Chart {
        name: "cdf",
        title: "BERT of high priority beside an endless one, MI308X".to_owned(),
        x: "latency (ms)",
        y: "requests within (%)",
        plot: Plot::Lines(lines),
    });
    findings.notes.push(
        "The plan's goals for closed loops cannot be met by any scheduler \
         (docs/src/results/simulated.md), so low \
         over high is judged beside an endless low task alone. A ratio that preemption without any \
         cost does not reach either is called out of reach."
            .to_owned(),
    );
    Ok(findings)
}

/// Why the plan's closed loops do not have the plan's figures.
const STAGGERED: &str = "strict priority staggers tasks that pause, and with six of them those of \
                         one priority still share: no scheduler reaches these";

/// The plan's closed loops, for the record.
fn closed(lab: &Lab, jitter: &[Basis], findings: &mut Findings) -> Result<()> {
    let how = How::policy(HPF, 2);
    for (who, paper) in [("a", "7 – 8 (plan)"), ("c", "15 – 20 (plan)")] {
        findings.rows.push(
            Row::new(format!("three tasks, Lv2: mean of {who}"), "ms")
                .published(paper, "")
                .reason(STAGGERED)
                .basis(&[jitter])
                .value(lab.median("bert-mi308x", how, 20, |outcome| mean(outcome, who))?),
        );
    }
    for (who, paper) in [("high1", "7 – 8 (plan)"), ("low1", "15 – 20 (plan)")] {
        findings.rows.push(
            Row::new(format!("six tasks, Lv2: mean of {who}"), "ms")
                .published(paper, "")
                .reason(STAGGERED)
                .basis(&[jitter])
                .value(lab.median("bert-mi308x-six", how, 20, |outcome| mean(outcome, who))?),
        );
    }
    Ok(())
}
