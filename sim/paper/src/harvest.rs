//! Section 8.1: an opportunistic job takes what a production job leaves.

use xsched_sim::report::{Bar, Bars, Chart, Plot};
use xsched_sim::scenario::Scenario;

use super::lab::{HPF, How, Lab, Measure, NATIVE, Trial, figure, only, over, percentile, rate};
use super::{Basis, Findings, Goal, Result, Row};

/// A way to share, and what is published for production and opportunistic job.
struct Method {
    name: &'static str,
    how: How<'static>,
    paper: (&'static str, &'static str),
    artifact: (&'static str, &'static str),
    goals: Option<(Goal, Goal)>,
}

/// TGS looks every 5 s how production does, and needs many such looks.
const TGS_WARMUP_NS: u64 = 100_000_000_000;

impl Method {
    /// Changes the scenario as this way requires.
    fn prepare(&self, scenario: &mut Scenario) {
        match self.name {
            "TGS" => {
                let counted = scenario.duration_ns.map(|ns| ns.saturating_sub(scenario.warmup_ns));
                scenario.duration_ns = counted.map(|ns| ns + TGS_WARMUP_NS);
                scenario.warmup_ns = TGS_WARMUP_NS;
            }
            // MPS without limits, which is its default; the shares are vCUDA's.
            "MPS" => scenario.tasks.iter_mut().for_each(|task| task.share = None),
            _ => {}
        }
    }
}

const fn way(
    name: &'static str,
    how: How<'static>,
    paper: (&'static str, &'static str),
    artifact: (&'static str, &'static str),
) -> Method {
    Method { name, how, paper, artifact, goals: None }
}

/// 8.1.1.
pub(super) fn training(lab: &Lab) -> Result<Findings> {
    let goals = Some((Goal::AtLeast(0.95), Goal::AtLeast(0.1)));
    let held = How::policy(HPF, 2);
    let ways = [
        way("native", NATIVE, ("0.60 (plan: 0.50)", "0.60 (plan: 0.50)"), ("0.633", "0.624")),
        way("vCUDA", How::system("vcuda"), ("0.85", "0.28 (plan: 0.15)"), ("0.888", "0.300")),
        way("TGS", How::system("tgs"), ("1.0 (plan: 0.93)", "0.073"), ("1.025", "0.125")),
        way("time slices", How::system("timeslice"), ("", ""), ("", "")),
        way("MPS", How::system("mps"), ("", ""), ("", "")),
        way("w/o progressive", How::system("sync"), ("", ""), ("", "")),
        Method { goals, ..way("XSched, hpf Lv2", held, ("0.99", "0.20"), ("1.015", "0.225")) },
    ];
    let mut findings = shares(lab, "harvest-train", &ways)?;
    amd(lab, &mut findings)?;
    findings.notes.push(
        "One parameter is fitted, the pause of the host, to the unscheduled rates; what XSched \
         leaves to each job follows from it."
            .to_owned(),
    );
    Ok(findings)
}

/// Why rates on the MI50 are not near the published ones.
const MI50: &str = "the host's pause is the GV100's, and launch costs are assumed; paper and \
                    artifact differ by up to a factor of five here";

/// Runs the jobs on an MI50, where the paper shows what is left without progressive launching.
/// The pause of the host is the one that was fitted on the GV100.
fn amd(lab: &Lab, to: &mut Findings) -> Result<()> {
    let spec = lab.device("mi50")?.spec;
    let device = lab.of_device("mi50", &["concurrency", "detect", "host_launch"])?;
    let fitted = lab.fitted("harvest-train")?;
    let run = |how, alone: Option<&str>| {
        lab.run("harvest-train", how, |scenario| {
            scenario.devices[0] = spec.clone();
            alone.into_iter().for_each(|name| only(scenario, name));
        })
    };
    let pace = |trial: &Trial, who| figure(trial, |outcome| rate(outcome, who));
    let jobs = ["production", "opportunistic"];
    for (name, how, paper, artifact) in [
        ("native", NATIVE, ["0.77", "0.77"], ["0.582", "0.582"]),
        ("w/o progressive", How::system("sync"), ["0.80", "0.34"], ["0.808", "0.067"]),
        ("XSched, hpf Lv1", How::policy(HPF, 1), ["0.96", "0.30"], ["0.942", "0.137"]),
    ] {
        let trial = run(how, None)?;
        for (index, who) in jobs.into_iter().enumerate() {
            let alone = run(NATIVE, Some(who))?;
            let row = Row::new(format!("MI50, {name}: {who} rate / alone"), "")
                .published(paper[index], artifact[index])
                .reason(MI50)
                .basis(&[&device, &fitted]);
            to.rows.push(row.value(over(&pace(&trial, who), &pace(&alone, who))));
        }
    }
    Ok(())
}

/// 8.1.2.
pub(super) fn mixed(lab: &Lab) -> Result<Findings> {
    let ways = [
        way("native", NATIVE, ("0.45", "0.55"), ("0.448", "0.548")),
        way("vCUDA", How::system("vcuda"), ("0.20", "0.56"), ("0.417", "0.384")),
        way("TGS", How::system("tgs"), ("0.30", "0.33"), ("0.296", "0.263")),
        way("time slices", How::system("timeslice"), ("", ""), ("", "")),
        way("MPS", How::system("mps"), ("", ""), ("", "")),
        way("w/o progressive", How::system("sync"), ("", ""), ("", "")),
        way("XSched, hpf Lv2", How::policy(HPF, 2), ("0.99", "0.60"), ("0.996", "0.599")),
    ];
    let mut findings = shares(lab, "harvest-mixed", &ways)?;
    findings.notes.push(
        "Two parameters are fitted, to native production and to XSched's opportunistic rate; the \
         other rates follow from them."
            .to_owned(),
    );
    let fitted = lab.fitted("harvest-mixed")?;
    let alone = lab.run("harvest-mixed", NATIVE, |scenario| only(scenario, "production"))?;
    let mean = |trial: &Trial| figure(trial, |outcome| percentile(outcome, "production", 50));
    for way in &ways {
        let trial = lab.run("harvest-mixed", way.how, |scenario| way.prepare(scenario))?;
        let published = match way.name {
            "vCUDA" => "1.80 (plan)",
            "TGS" => "1.70 (plan)",
            _ => "",
        };
        let row = Row::new(format!("{}: production's median latency / alone", way.name), "")
            .published(published, "")
            .reason(reason("harvest-mixed", way.name))
            .basis(&[&fitted])
            .value(over(&mean(&trial), &mean(&alone)));
        let own = way.name.starts_with("XSched");
        findings.rows.push(if own { row.goal(Goal::AtMost(1.05)) } else { row });
    }
    Ok(findings)
}

/// Returns what is known about why a rate is not near the published one.
fn reason(scenario: &str, way: &str) -> &'static str {
    match (scenario, way) {
        ("harvest-mixed", "TGS") => {
            "the model backs off as TGS's authors describe, so that production keeps its rate; \
             what goes wrong in the paper's run is not known"
        }
        ("harvest-mixed", "vCUDA") => {
            "the model charges exact device time, the best case; vCUDA itself controls by samples \
             of the load, and the paper (0.20) and its artifact (0.417) differ by a factor of two"
        }
        ("harvest-mixed", _) => "contention is one number for both jobs in the model",
        ("harvest-train", "TGS") => {
            "how far TGS's rate has converged: the paper's 0.073 and its artifact's 0.125 differ \
             by more than that"
        }
        ("harvest-train", _) => "the host's pause, which was fitted, is the same for both jobs",
        _ => "",
    }
}

/// The rate of each job over that alone, for each way to share.
fn shares(lab: &Lab, name: &str, ways: &[Method]) -> Result<Findings> {
    let mut findings = Findings::default();
    let fitted = lab.fitted(name)?;
    let alone = |who: &str| -> Result<Measure> {
        let trial = lab.run(name, NATIVE, |scenario| only(scenario, who))?;
        Ok(figure(&trial, |outcome| rate(outcome, who)))
    };
    let bases = [alone("production")?, alone("opportunistic")?];
    let mut bars = Vec::new();
    for way in ways {
        let trial = lab.run(name, way.how, |scenario| way.prepare(scenario))?;
        let pace = |who| figure(&trial, |outcome| rate(outcome, who));
        let production = over(&pace("production"), &bases[0]);
        let opportunistic = over(&pace("opportunistic"), &bases[1]);
        bars.push(Bar::new(
            way.name,
            vec![production.clone().ok(), opportunistic.clone().ok()],
            &[way.artifact.0, way.artifact.1],
        ));
        let goals = way.goals.map_or((None, None), |(first, second)| (Some(first), Some(second)));
        let basis: &[&[Basis]] = &[&fitted];
        // What the parameters of the scenarios were fitted to.
        let targets = match (way.name, name) {
            ("native", _) => (true, true),
            ("XSched, hpf Lv2", "harvest-mixed") => (false, true),
            _ => (false, false),
        };
        let reason = reason(name, way.name);
        let row = |what: &str, paper, artifact, value, goal, is_target| {
            let row = Row::new(format!("{}: {what} rate / alone", way.name), "");
            let row = row.published(paper, artifact).basis(basis).value(value).reason(reason);
            Row { goal, is_target, ..row }
        };
        findings.rows.extend([
            row("production", way.paper.0, way.artifact.0, production, goals.0, targets.0),
            row("opportunistic", way.paper.1, way.artifact.1, opportunistic, goals.1, targets.1),
        ]);
    }
    findings.charts.push(Chart {
        name: "bars",
        title: "Rates over the rate alone".to_owned(),
        x: "",
        y: "rate / alone",
        plot: Plot::Bars(Bars::new(vec!["production".into(), "opportunistic".into()], bars)),
    });
    Ok(findings)
}
