//! Section 8.3, first part: an inference server with priorities.

use xsched_sim::report::{Chart, Line, Plot};
use xsched_sim::scenario::OriginKind;

use super::lab::{HPF, How, Lab, NATIVE, Trial, figure, given, only, over, percentile, task};
use super::{Findings, Goal, Result, Row};

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
                Row { is_target: way == "unscheduled", ..row.basis(&[&fitted]) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use xsched_sim::scenario::{Concurrency, Scenario};

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
