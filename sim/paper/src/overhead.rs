//! Costs of scheduling: 7.3.3 and 7.4.1.

use xsched_sim::outcome::Outcome;
use xsched_sim::report::{Bar, Bars, Chart, Line, Plot};
use xsched_sim::scenario::{DeviceSpec, OriginKind, Scenario};

use super::lab::{HPF, How, Lab, Measure, NATIVE, Trial, figure, given, only, stretch, unbounded};
use super::{Findings, Goal, Result, Row};

/// The length of the scenario's commands.
const T_MS: f64 = 0.01;
const LENGTHS_MS: [f64; 3] = [0.01, 0.1, 1.0];
const THRESHOLDS: u32 = 16;

/// Device time of the first task per time: what is left of the device's speed.
fn speed(outcome: &Outcome) -> Option<f64> {
    let task = outcome.tasks.first()?;
    Some(task.device_time_ns as f64 / outcome.duration_ns.max(1) as f64)
}

/// How much slower, in percent.
fn loss(trial: &Trial, native: &Trial) -> Measure {
    let (value, base) = (figure(trial, speed)?, figure(native, speed)?);
    Ok(100.0 * (1.0 - value / base))
}

/// One endless queue; without a threshold a plain stream.
fn endless(
    lab: &Lab,
    spec: Option<&DeviceSpec>,
    length_ms: f64,
    threshold: Option<u32>,
) -> Result<Trial> {
    lab.run("threshold", NATIVE, |scenario| {
        scenario.devices.iter_mut().zip(spec).for_each(|(device, spec)| *device = spec.clone());
        stretch(scenario, length_ms / T_MS);
        let commands = 40.0 * (1.0_f64).max(length_ms * 10.0);
        scenario.duration_ns = scenario.duration_ns.map(|ns| (ns as f64 * commands / 40.0) as u64);
        match threshold {
            None => unbounded(scenario),
            Some(threshold) => {
                let task = &mut scenario.tasks[0];
                (task.threshold, task.batch) = (threshold, (threshold / 2).max(1));
            }
        }
    })
}

/// 7.3.3.
pub(super) fn threshold(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut lines = Vec::new();
    let basis = lab.of_device("gv100", &["detect", "fence", "host_launch", "launch_latency"])?;
    let free = DeviceSpec { fence_ns: 0, ..lab.device("gv100")?.spec };
    for length in LENGTHS_MS {
        let native = endless(lab, None, length, None)?;
        let mut losses = Vec::new();
        for threshold in 1..=THRESHOLDS {
            let trial = endless(lab, None, length, Some(threshold))?;
            losses.push((threshold, loss(&trial, &native)));
        }
        let points = losses
            .iter()
            .filter_map(|(threshold, loss)| Some((f64::from(*threshold), loss.clone().ok()?)));
        let points: Vec<(f64, f64)> = points.collect();
        let row = |what: String, unit| Row::new(format!("T = {length} ms: {what}"), unit);
        if length < 0.05 {
            findings.rows.push(
                row("overhead at threshold 2".to_owned(), "%")
                    .published("about 19", "")
                    .reason("launch costs and the fence are an H200's")
                    .basis(&[&basis])
                    .value(losses[1].1.clone()),
            );
        }
        let worst = points.iter().filter(|(x, _)| *x >= 10.0).map(|(_, y)| *y);
        let without = endless(lab, Some(&free), length, Some(LEAST))?;
        let without = loss(&without, &endless(lab, Some(&free), length, None)?);
        findings.rows.push(
            row("largest overhead from threshold 10 on".to_owned(), "%")
                .published("below 1", "")
                .goal(Goal::AtMost(1.0))
                .basis(&[&basis])
                .value(Ok(worst.reduce(f64::max).unwrap_or(f64::NAN)))
                .otherwise("if fences cost nothing", &without),
        );
        let rises = points.windows(2).map(|pair| pair[1].1 - pair[0].1).reduce(f64::max);
        findings.rows.push(
            row("largest rise from one threshold to the next".to_owned(), "%")
                .published("falls", "")
                .goal(Goal::AtMost(0.5))
                .basis(&[&basis])
                .value(Ok(rises.unwrap_or(f64::NAN))),
        );
        let small = points.iter().find(|(_, loss)| *loss < 3.0).map(|(threshold, _)| *threshold);
        findings.rows.push(
            row("smallest threshold under 3 %".to_owned(), "")
                .published("to be reported", "")
                .basis(&[&basis])
                .value(Ok(small.unwrap_or(f64::NAN))),
        );
        lines.push(Line::new(format!("T = {length} ms"), points));
    }
    lines.push(Line::marks("paper: T = 0.01 ms", &[(2.0, 19.0)]));
    measured(lab, &mut findings)?;
    findings.notes.push(
        "What a small window costs is mostly the fence: an event between two kernels keeps an H200 \
         from running for 1.5 µs, whatever the length of the kernels. Before this was modelled, \
         ten in flight cost nothing in the simulation. It was never measured on a GV100."
            .to_owned(),
    );
    findings.charts.push(Chart {
        name: "threshold",
        title: "Overhead over the in-flight threshold (batch: half of it)".to_owned(),
        x: "threshold",
        y: "overhead (%)",
        plot: Plot::Lines(lines),
    });
    Ok(findings)
}

/// Commands in flight from which on the overhead is to be below 1 %.
const LEAST: u32 = 10;

/// Measurements on an H200 at Lv1: length of the commands in milliseconds, commands in flight,
/// and how much longer rows took, in percent (`benches/results/h200-2026-11-21/threshold.json`).
pub(super) const H200: [(f64, u32, &str); 12] = [
    (0.01, 1, "77.34 (measured)"),
    (0.01, 2, "15.05 (measured)"),
    (0.01, 4, "7.01 (measured)"),
    (0.01, 8, "3.73 (measured)"),
    (0.01, 10, "2.97 (measured)"),
    (0.01, 16, "2.05 (measured)"),
    (0.1, 1, "7.58 (measured)"),
    (0.1, 2, "1.36 (measured)"),
    (0.1, 10, "0.35 (measured)"),
    (1.0, 1, "1.59 (measured)"),
    (1.0, 2, "0.22 (measured)"),
    (1.0, 10, "0.10 (measured)"),
];
/// The cell from which the cost of a fence comes.
const FENCE_CELL: (f64, u32) = (0.01, 2);

/// The rows that were measured on an H200. The cost of a fence comes from one of them.
fn measured(lab: &Lab, to: &mut Findings) -> Result<()> {
    let name = "h200-streams";
    let spec = lab.device(name)?.spec;
    let basis = lab.of_device(name, &["detect", "fence", "host_launch", "launch_latency"])?;
    for (length, threshold, words) in H200 {
        let native = endless(lab, Some(&spec), length, None)?;
        let trial = endless(lab, Some(&spec), length, Some(threshold))?;
        let longer = loss(&trial, &native).map(|loss| 100.0 * loss / (100.0 - loss));
        let what = format!("H200, T = {length} ms, {threshold} in flight: overhead");
        let row = Row::new(what, "%").published("", words).basis(&[&basis]).value(longer);
        let row = if threshold >= LEAST { row.goal(Goal::AtMost(1.0)) } else { row };
        let row = if (length, threshold) == FENCE_CELL { row.target() } else { row };
        to.rows
            .push(row.reason("rows of 40 ms: their ends and the clock's noise are not modelled"));
    }
    Ok(())
}

/// The devices of 7.4.1: latency alone, and the paper's overhead for each level.
const PLACES: [(&str, f64, &[&str]); 4] = [
    ("gv100", 6.49, &["0.8", "2.9", "2.9"]),
    ("k40m", 28.15, &["0.7", "4.7"]),
    ("mi50", 29.12, &["0.1"]),
    ("npu3720", 22.95, &["0.3", "0.5"]),
];

/// 7.4.1.
pub(super) fn levels(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut bars = vec![Vec::new(); 3];
    let note = "kernels of 12.6 us on the GV100, and as much longer as the device is slower";
    let own = [given("task.*.command", OriginKind::Assumed, note)];
    for (device, alone_ms, paper) in PLACES {
        let spec = lab.device(device)?.spec;
        let name = if device == "npu3720" { "priority-npu" } else { "priority" };
        let change = |scenario: &mut Scenario| {
            if name == "priority" {
                scenario.devices[0] = spec.clone();
                stretch(scenario, alone_ms / 6.49);
            }
            only(scenario, "bg");
            scenario.duration_ns = Some(5_000_000_000);
        };
        let native = lab.run(name, NATIVE, |scenario| {
            change(scenario);
            unbounded(scenario);
        })?;
        let keys = ["detect", "fence", "host_launch", "gate", "gate_spacing"];
        let basis = lab.of_device(device, &keys)?;
        for (level, paper) in (1..).zip(paper) {
            let trial = lab.run(name, How::policy(HPF, level), change)?;
            let value = loss(&trial, &native);
            bars[usize::from(level) - 1].push(value.clone().ok());
            let row = Row::new(format!("{device}: Lv{level} overhead"), "%")
                .published(paper, "")
                .basis(&[&basis, &own])
                .value(value);
            let goal = if level == 1 { Goal::AtMost(3.4) } else { Goal::AtMost(5.0) };
            findings.rows.push(row.goal(goal));
        }
        for missing in bars.iter_mut().skip(paper.len()) {
            missing.push(None);
        }
        let keys = ["detect", "host_launch", "launch_latency"];
        let trial = lab.run(name, How::system("sync"), change)?;
        findings.rows.push(
            Row::new(format!("{device}: w/o progressive, slower by"), "%")
                .published("8.2 – 151.3 (Fig 5)", "")
                .basis(&[&lab.of_device(device, &keys)?, &own])
                .value(loss(&trial, &native).map(|loss| 100.0 * loss / (100.0 - loss))),
        );
    }
    let bars = (1..).zip(bars).map(|(level, values)| {
        let published = PLACES.map(|place| place.2.get(level - 1).copied().unwrap_or_default());
        Bar::new(format!("Lv{level}"), values, &published)
    });
    findings.charts.push(Chart {
        name: "bars",
        title: "Overhead at run time".to_owned(),
        x: "",
        y: "overhead (%)",
        plot: Plot::Bars(Bars::new(
            PLACES.iter().map(|place| place.0.to_owned()).collect(),
            bars.collect(),
        )),
    });
    findings.notes.push(
        "The plan's 3.4 % are for Lv1; the paper's largest value, 4.7 %, is rounded up for the \
         others. Costs on the host's processors (7.4.2) cannot be simulated."
            .to_owned(),
    );
    Ok(findings)
}
