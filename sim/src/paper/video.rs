//! Section 8.2: frames that must not stall beside transcriptions that must be done in time.

use super::chart::{Chart, Line, Plot};
use super::lab::{HPF, How, Lab, NATIVE, figure, only, percentile, task};
use super::{Findings, Goal, Result, Row};

/// 8.2.1.
pub(super) fn conference(lab: &Lab) -> Result<Findings> {
    let mut findings = Findings::default();
    let fitted = lab.fitted("video")?;
    let device = lab.of_device("npu3720", &["concurrency", "detect"])?;
    let frame_99 = ("frame P99", "frame", 99);
    let speech = ("longest transcription", "speech", 100);
    let ways = [
        ("native", NATIVE, ("880", ""), None),
        ("hpf Lv2", How::policy(HPF, 2), ("", "breaks the 3 s"), None),
        ("lax Lv2", How::policy("lax", 2), ("95", "below 3000"), Some((100.0, 3000.0))),
    ];
    let alone = lab.run("video", NATIVE, |scenario| only(scenario, "frame"))?;
    findings.rows.push(
        Row::new("frame P99 alone", "ms")
            .published("43.7 (880 / 20.12)", "")
            .basis(&[&fitted])
            .value(figure(&alone, |outcome| percentile(outcome, "frame", 99))),
    );
    let mut lines = Vec::new();
    for (name, how, paper, goals) in ways {
        let trial = lab.run("video", how, |_| {})?;
        let artifact = match name {
            "native" => "807",
            "lax Lv2" => "80",
            _ => "",
        };
        let value = |(_, who, percent): (&str, &str, u32)| {
            figure(&trial, |outcome| percentile(outcome, who, percent))
        };
        let row = |what: &str| Row::new(format!("{name}: {what}"), "ms");
        let native = [&device[..]];
        let other = [&device[..], &fitted[..]];
        let basis = if name == "native" { &native[..] } else { &other[..] };
        let mut frame =
            row(frame_99.0).published(paper.0, artifact).basis(basis).value(value(frame_99));
        let mut text = row(speech.0).published(paper.1, "").basis(basis).value(value(speech));
        if let Some((frames, texts)) = goals {
            frame = frame.goal(Goal::AtMost(frames));
            text = text.goal(Goal::AtMost(texts));
        }
        findings.rows.extend([frame, text]);
        if let Some(frames) = trial.as_ref().ok().and_then(|outcome| task(outcome, "frame")) {
            lines.push(Line::distribution(name, &frames.latencies_ns));
        }
    }
    findings.charts.push(Chart {
        name: "cdf",
        title: "Latency of a frame beside a transcription every 3 s".to_owned(),
        x: "latency (ms)",
        y: "frames within (%)",
        plot: Plot::Lines(lines),
    });
    findings.notes.push(
        "Only the NPU's part of a frame is simulated; capturing and showing it add some 14 ms in \
         the paper. The loop that makes frames leaves out those that it is late for."
            .to_owned(),
    );
    Ok(findings)
}
