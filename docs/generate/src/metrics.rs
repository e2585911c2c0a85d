//! The metrics, as a runtime with one queue and a daemon with one process give them.

use anyhow::{Context, Result};
use xsched::policies::hpf::Hpf;
use xsched::{Runtime, XQueueConfig};
use xsched_core::hal::{Noop, NoopQueue};

use crate::table::Table;

pub(crate) fn reference() -> Result<String> {
    static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
    let runtime = Runtime::new(Hpf::default())?;
    let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
    let queue = device.queue(XQueueConfig::default(), ())?;
    let text = runtime.metrics().encode();
    drop(queue);
    table(&text, &[("queue=", "queue"), ("", "runtime")])
}

/// Metrics of the daemon.
pub(crate) fn daemon() -> Result<String> {
    let kinds =
        [("pid=", "process, GPU"), ("tenant=", "tenant, GPU"), ("gpu=", "GPU"), ("", "daemon")];
    table(&xsched_daemon::metrics::example(), &kinds)
}

/// Makes the table; the first of these parts of labels that a metric has says what it is of.
fn table(text: &str, kinds: &[(&str, &str)]) -> Result<String> {
    let mut table = Table::new(["metric", "kind", "of", "meaning"]);
    let lines: Vec<_> = text.lines().collect();
    for line in &lines {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
        else {
            continue;
        };
        let kind = lines.iter().find_map(|l| l.strip_prefix(&format!("# TYPE {name} ")));
        let kind = kind.with_context(|| format!("{name} has no type"))?;
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        // A histogram has several lines, each with an ending of its own.
        let first_line = if kind == "histogram" { format!("{name}_count") } else { name.clone() };
        let name_of = if kind == "info" { format!("{name}_info") } else { first_line };
        let is_of = |rest: &str| rest.starts_with(['{', ' ']);
        let series = lines.iter().find(|line| line.strip_prefix(&name_of).is_some_and(is_of));
        let series = series.with_context(|| format!("{name} has no series"))?;
        let of = kinds.iter().find(|(label, _)| series.contains(label));
        let of = of.map_or("", |(_, of)| of);
        let help = help.trim_end_matches('.');
        table.row([format!("`{name}`"), kind.to_owned(), of.to_owned(), help.to_owned()]);
    }
    Ok(table.markdown())
}
