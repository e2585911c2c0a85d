//! Tables of simulated clusters, from records that `xsched sim cluster` and `sim gangs` wrote.

use anyhow::Result;
use serde_json::{Value, json};

use crate::records::{find, list, number, record, source, text};
use crate::table::{Table, percent, thousands};

const DAYS: [&str; 2] = ["simulated-cluster/alibaba-2023.json", "simulated-cluster/busy.json"];
const GANGS: &str = "simulated-cluster/gangs.json";

/// A figure of a cell over its seeds: the median and, behind it, the range.
fn band(cell: &Value, name: &str, write: impl Fn(f64) -> String) -> Result<String> {
    let figure = find(list(cell, "figures")?, &[("name", json!(name))])?;
    let part = |key: &str| Ok::<_, anyhow::Error>(write(number(figure, &format!("/band/{key}"))?));
    let (low, median, high) = (part("p5")?, part("median")?, part("p95")?);
    Ok(if low == high { median } else { format!("{median} ({low} – {high})") })
}

/// Whole GPUs, parts of GPUs and classes, by load.
pub(crate) fn days() -> Result<String> {
    let mut table = Table::new([
        "mean duty",
        "load",
        "GPUs",
        "urgent wait P50, s",
        "P99, s",
        "urgent run time over alone P50",
        "P99",
        "batch work, GPU h",
        "GPUs busy",
    ]);
    for path in DAYS {
        let of = record(path)?;
        for cell in list(&of, "cells")? {
            let ratio = |value: f64| format!("{value:.2}");
            table.row([
                percent(number(&of, "/duty")?, 0),
                number(cell, "/load")?.to_string(),
                text(cell, "/way")?.to_owned(),
                band(cell, "interactive.wait_p50_s", thousands)?,
                band(cell, "interactive.wait_p99_s", thousands)?,
                band(cell, "interactive.stretch_p50", ratio)?,
                band(cell, "interactive.stretch_p99", ratio)?,
                band(cell, "batch.work_gpu_h", thousands)?,
                band(cell, "busy", |part| percent(part, 1))?,
            ]);
        }
    }
    let command = "xsched sim cluster sim/clusters/alibaba-2023.toml --json OUT";
    Ok(table.markdown() + &source(command, &DAYS)?)
}

/// Steps that a gang over nodes keeps.
pub(crate) fn gangs() -> Result<String> {
    let mut table = Table::new(["held", "step", "skew", "2 nodes", "8 nodes", "64 nodes"]);
    let of = record(GANGS)?;
    for row in list(&of, "cells")?.chunks(3) {
        let Some(first) = row.first() else { continue };
        let skew = text(first, "/skew")?;
        let turn_ms = number(first, "/turn_ms")?;
        let requests = skew == "requests";
        let held = match turn_ms {
            _ if requests => format!("for requests of {turn_ms} ms"),
            _ if turn_ms >= 1e3 => format!("for turns of {} s", turn_ms / 1e3),
            _ => format!("for turns of {turn_ms} ms"),
        };
        let skew = if requests { "each by its own" } else { skew };
        let mut cells = vec![held, format!("{} ms", number(first, "/step_ms")?), skew.to_owned()];
        for cell in row {
            let part = |key: &str| Ok::<_, anyhow::Error>(percent(number(cell, key)?, 1));
            cells.push(format!("{} ({})", part("/kept/median")?, part("/spun/median")?));
        }
        table.row(cells);
    }
    Ok(table.markdown() + &source("xsched sim gangs --json OUT", &[GANGS])?)
}
