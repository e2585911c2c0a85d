//! Section 7.3, first part: how long a hold takes.

use xsched_sim::outcome::Outcome;
use xsched_sim::report::{Chart, Line, Plot};
use xsched_sim::scenario::{DeviceSpec, OriginKind};
use xsched_sim::stats::Summary;

use super::lab::{HPF, How, Lab, Measure, Trial, figure, given, ms, stretch};
use super::{Findings, Goal, Result, Row};

/// The length of the scenario's commands.
const T_MS: f64 = 0.5;

/// The times from the order to the host knowing that the victim has stopped.
fn p99_us(outcome: &Outcome) -> Option<f64> {
    let times = outcome.devices.first()?.preempt_latency_ns.clone();
    Summary::new(times).percentile(99).map(|ns| ms(ns) * 1e3)
}

fn hold(lab: &Lab, device: &str, length_ms: f64, level: u8) -> Result<Trial> {
    let spec = lab.device(device)?.spec;
    lab.run("preempt", How::policy(HPF, level), |scenario| {
        // The winner orders the hold and does not get in the victim's way.
        let concurrency = scenario.devices[0].concurrency;
        scenario.devices[0] = DeviceSpec { concurrency, ..spec };
        stretch(scenario, length_ms / T_MS);
    })
}

fn scaled(value: &Measure, factor: f64) -> Measure {
    value.clone().map(|value| value * factor)
}

/// 7.3.1.
pub(super) fn levels(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut lines = Vec::new();
    let mut measured = Vec::new();
    for level in 1..=3 {
        let trial = hold(lab, "gv100", T_MS, level)?;
        measured.push(figure(&trial, p99_us));
        let times = trial.as_ref().ok().and_then(|outcome| outcome.devices.first());
        let times = times.map_or(&[][..], |device| &device.preempt_latency_ns);
        lines.push(Line::distribution(format!("Lv{level}"), times));
    }
    let detect = lab.of_device("gv100", &["detect"])?;
    let gate = lab.of_device("gv100", &["gate_close", "gate_spacing", "detect"])?;
    let save = lab.of_device("gv100", &["save_fixed"])?;
    let per_t = 1e-3 / T_MS;
    findings.rows = vec![
        Row::new("GV100: Lv1 P99 / T", "")
            .published("about 8", "10.6")
            .goal(Goal::Between(6.8, 9.2))
            .basis(&[&detect])
            .value(scaled(&measured[0], per_t)),
        Row::new("GV100: Lv2 P99 / T", "")
            .published("about 1 (0.5 – 0.8 ms)", "1.35")
            .goal(Goal::Between(0.9, 1.6))
            .basis(&[&gate])
            .value(scaled(&measured[1], per_t)),
        Row::new("GV100: Lv3 P99", "µs")
            .published("32", "36")
            .target()
            .goal(Goal::AtMost(100.0))
            .basis(&[&save])
            .value(measured[2].clone()),
    ];
    amd(lab, &mut findings)?;
    findings.charts.push(Chart {
        name: "cdf",
        title: "Preemption latency on a GV100, commands of 0.5 ms, threshold 8".to_owned(),
        x: "latency (ms)",
        y: "holds within (%)",
        plot: Plot::Lines(lines),
    });
    Ok(findings)
}

/// Descriptions of an MI308X that differ in the driver's call, and what they assume of it.
pub(super) const CALLS: [(&str, &str); 3] = [
    ("mi308x-lv3-bandwidth", "if a call takes 10 µs"),
    ("mi308x-lv3-printed", "if it takes 425 µs, as a third party printed it"),
    ("mi308x-lv3-slow", "if it takes 5 ms"),
];

/// 4.1.1 of the plan: the same on an MI308X, where Lv3 was never measured.
fn amd(lab: &Lab, findings: &mut Findings) -> Result<()> {
    let p99 = |level| hold(lab, "mi308x", T_MS, level).map(|trial| figure(&trial, p99_us));
    let (block, gate, save) = (p99(1)?, p99(2)?, p99(3)?);
    let costs = lab.of_device("mi308x", &["save_fixed", "save_context", "detect"])?;
    let mut others = Vec::new();
    for (device, when) in CALLS {
        others.push((when, figure(&hold(lab, device, T_MS, 3)?, p99_us)));
    }
    let gates = lab.of_device("mi308x", &["gate_close", "gate_spacing"])?;
    findings.rows.push(
        Row::new("MI308X: Lv2 P99 / T", "")
            .published("about 1 (plan)", "")
            .goal(Goal::AtMost(1.6))
            .basis(&[&gates])
            .value(scaled(&gate, 1e-3 / T_MS)),
    );
    let latency = Row::new("MI308X: Lv3 P99", "µs")
        .published("below 100 (plan)", "")
        .goal(Goal::AtMost(100.0))
        .basis(&[&costs])
        .value(save.clone());
    let add = |row: Row, (when, save): &(&str, Measure)| row.otherwise(when, save);
    findings.rows.push(others.iter().fold(latency, add));
    let ratio = Row::new("MI308X: Lv1 P99 / Lv3 P99", "")
        .published("40 (plan)", "")
        .goal(Goal::AtLeast(40.0))
        .basis(&[&costs])
        .value(super::lab::over(&block, &save));
    let ratio = others
        .iter()
        .fold(ratio, |row, (when, save)| row.otherwise(when, &super::lab::over(&block, save)));
    findings.rows.push(ratio);
    findings.notes.push(
        "MI308X: whether Lv3 meets the plan depends on the driver's call, which was never \
         measured. Reports range over three orders of magnitude (docs/src/results/simulated.md), so \
         there is no verdict."
            .to_owned(),
    );
    Ok(())
}

/// The lengths of 7.3.2, and the artifact's P99 in microseconds for some of them.
const LENGTHS_MS: [f64; 5] = [0.01, 0.1, 0.5, 1.0, 2.0];
const ARTIFACT_MS: [f64; 4] = [0.1, 0.5, 1.0, 2.0];
const ARTIFACT_US: [[f64; 4]; 3] =
    [[1053.0, 5280.0, 10582.0, 21160.0], [148.0, 674.0, 1277.0, 2575.0], [41.0, 36.0, 34.0, 34.0]];

/// 7.3.2.
pub(super) fn lengths(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut lines = Vec::new();
    let mut table = Vec::new();
    for level in 1..=3 {
        let p99 = |length: &f64| hold(lab, "gv100", *length, level).map(|t| figure(&t, p99_us));
        let values: Vec<_> = LENGTHS_MS.iter().map(p99).collect::<Result<_>>()?;
        let points = LENGTHS_MS.iter().zip(&values);
        let points = points.filter_map(|(length, value)| Some((*length, *value.as_ref().ok()?)));
        lines.push(Line::new(format!("Lv{level}"), points.collect()));
        table.push(values);
    }
    for (level, values) in ARTIFACT_US.iter().enumerate() {
        let points = ARTIFACT_MS.iter().copied().zip(values.iter().copied());
        let points: Vec<_> = points.collect();
        lines.push(Line::marks(format!("Lv{}, paper's artifact", level + 1), &points));
    }
    let detect = lab.of_device("gv100", &["detect", "launch_latency"])?;
    for (length, value) in LENGTHS_MS.iter().zip(&table[0]) {
        findings.rows.push(
            Row::new(format!("Lv1 P99 / T, T = {length} ms"), "")
                .published("about 8", if *length < 0.1 { "" } else { "10.6" })
                .goal(Goal::Between(6.4, 9.6))
                .basis(&[&detect])
                .value(scaled(value, 1e-3 / length)),
        );
    }
    let shape = lab.of_device("gv100", &["save_fixed"])?;
    let note = "saving takes the same time whatever runs";
    let same = [given("gv100.saving", OriginKind::Assumed, note)];
    let flat: Vec<f64> = table[2].iter().filter_map(|value| value.clone().ok()).collect();
    let (least, most) = flat.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
        (least.min(*value), most.max(*value))
    });
    findings.rows.push(
        Row::new("Lv3: largest P99 / smallest P99 over all lengths", "")
            .published("flat", "1.21")
            .reason("the artifact's 41 us with kernels of 0.1 ms; the model saves at one speed")
            .goal(Goal::AtMost(1.5))
            .basis(&[&same])
            .value(Ok(most / least)),
    );
    findings.rows.push(
        Row::new("Lv3: largest P99", "µs")
            .published("32", "41")
            .target()
            .goal(Goal::AtMost(100.0))
            .basis(&[&shape])
            .value(Ok(most)),
    );
    findings.charts.push(Chart {
        name: "length",
        title: "Preemption latency P99 over the length of the commands".to_owned(),
        x: "length of a command (ms)",
        y: "P99 (µs)",
        plot: Plot::Lines(lines),
    });
    Ok(findings)
}
