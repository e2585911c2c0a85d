//! The metrics, as a runtime with one queue and a daemon with one process give them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use xsched::policies::hpf::Hpf;
use xsched::{Runtime, XQueueConfig};
use xsched_core::hal::{Noop, NoopQueue};

/// A label that the series of a group of metrics have, and the group's title.
type Group = (&'static str, &'static str);
/// A metric: its group, its name and its help.
type Metric = (Group, String, String);

const TENANT: Group = ("tenant=", "Of a tenant on a GPU");
const PROCESS: Group = ("pid=", "Of a process on a GPU");
const BOTH: Group = ("", "Of a tenant, and of a process, on a GPU");
const DAEMON: Group = ("", "Of the daemon");

pub(crate) fn reference() -> Result<String> {
    static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    let runtime = Runtime::new(Hpf::default())?;
    let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    let queue = device.queue(XQueueConfig::default(), ())?;
    let text = runtime.metrics().encode();
    drop(queue);
    let (of_queue, of_runtime) = (("queue=", "Of a queue"), ("", "Of the runtime"));
    let metrics = metrics(&text, &[of_queue, of_runtime])?;
    Ok(lists(&metrics, &[of_runtime, of_queue]))
}

/// Metrics of the daemon. Those that a tenant and a process have are listed once.
pub(crate) fn daemon() -> Result<String> {
    let gpu = ("gpu=", "Of a GPU");
    let text = xsched_daemon::metrics::example();
    let metrics = metrics(&text, &[PROCESS, TENANT, gpu, DAEMON])?;
    let rest = |name: &str, start: &str| name.strip_prefix(start).map(str::to_owned);
    let mut times = BTreeMap::<String, usize>::new();
    for (_, name, _) in &metrics {
        for start in ["xsched_tenant", "xsched_process"] {
            *times.entry(rest(name, start).unwrap_or_default()).or_default() += 1;
        }
    }
    let is_shared = |end: &String| !end.is_empty() && times.get(end) == Some(&2);
    let mut listed = Vec::new();
    for (group, name, help) in metrics {
        if let Some(end) = rest(&name, "xsched_tenant").filter(is_shared) {
            listed.push((BOTH, format!("xsched_{{tenant,process}}{end}"), help));
        } else if !rest(&name, "xsched_process").is_some_and(|end| is_shared(&end)) {
            listed.push((group, name, help));
        }
    }
    Ok(lists(&listed, &[DAEMON, gpu, BOTH, TENANT, PROCESS]))
}

/// A list for each group.
fn lists(metrics: &[Metric], groups: &[Group]) -> String {
    let mut out = String::new();
    for group in groups {
        out.push_str(&format!("**{}**\n\n", group.1));
        for (_, name, help) in metrics.iter().filter(|(of, ..)| of == group) {
            out.push_str(&format!("- `{name}`: {help}\n"));
        }
        out.push('\n');
    }
    out
}

/// The metrics of a text; the first group whose label a metric has is its group.
fn metrics(text: &str, groups: &[Group]) -> Result<Vec<Metric>> {
    let mut found = Vec::new();
    let lines: Vec<_> = text.lines().collect();
    for line in &lines {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        let kind = lines.iter().find_map(|l| l.strip_prefix(&format!("# TYPE {name} ")));
        let kind = kind.with_context(|| format!("{name} has no type"))?;
        // The page says that a name tells the kind.
        let is_time = name.ends_with("_seconds") && kind != "counter";
        ensure!(is_time == (kind == "histogram"), "the name of {name} does not say {kind}");
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        // A histogram has several lines, each with an ending of its own.
        let first_line = if kind == "histogram" { format!("{name}_count") } else { name.clone() };
        let name_of = if kind == "info" { format!("{name}_info") } else { first_line };
        let is_of = |rest: &str| rest.starts_with(['{', ' ']);
        let series = lines.iter().find(|line| line.strip_prefix(&name_of).is_some_and(is_of));
        let series = series.with_context(|| format!("{name} has no series"))?;
        let group = groups.iter().find(|(label, _)| series.contains(label));
        let group = *group.with_context(|| format!("{name} is in no group"))?;
        found.push((group, name, help.trim_end_matches('.').to_owned()));
    }
    Ok(found)
}
