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

/// Whole GPUs, parts of GPUs and classes, at a load at which jobs wait.
pub(crate) fn days() -> Result<String> {
    let mut table = Table::new([
        "duty",
        "GPUs",
        "urgent wait P99, s",
        "urgent run time over alone P99",
        "batch work, GPU h",
    ]);
    for path in DAYS {
        let of = record(path)?;
        for cell in list(&of, "cells")? {
            if number(cell, "/load")? < 1.0 {
                continue;
            }
            table.row([
                percent(number(&of, "/duty")?, 0),
                text(cell, "/way")?.to_owned(),
                band(cell, "interactive.wait_p99_s", thousands)?,
                band(cell, "interactive.stretch_p99", |value| format!("{value:.2}"))?,
                band(cell, "batch.work_gpu_h", thousands)?,
            ]);
        }
    }
    let command = "xsched sim cluster sim/clusters/alibaba-2023.toml --json OUT";
    Ok(table.markdown() + &source(command, &DAYS)?)
}

/// Skews at which a gang keeps almost all of its steps.
const NO_LOSS: [&str; 2] = ["10 µs", "1000 µs"];

/// Steps that a gang over the most nodes keeps.
pub(crate) fn gangs() -> Result<String> {
    let mut table = Table::new(["held for", "step", "skew", "steps kept", "kernels wait"]);
    let of = record(GANGS)?;
    for row in list(&of, "cells")?.chunks(3) {
        let Some(first) = row.first() else { continue };
        let skew = text(first, "/skew")?;
        if NO_LOSS.contains(&skew) {
            continue;
        }
        let turn_ms = number(first, "/turn_ms")?;
        let requests = skew == "requests";
        let held = match turn_ms {
            _ if requests => format!("requests of {turn_ms} ms"),
            _ if turn_ms >= 1e3 => format!("turns of {} s", turn_ms / 1e3),
            _ => format!("turns of {turn_ms} ms"),
        };
        let skew = if requests { "each its own" } else { skew };
        let mut cells = vec![held, format!("{} ms", number(first, "/step_ms")?), skew.to_owned()];
        for key in ["/kept/median", "/spun/median"] {
            cells.push(percent(number(row.last().unwrap_or(first), key)?, 1));
        }
        table.row(cells);
    }
    Ok(table.markdown() + &source("xsched sim gangs --json OUT", &[GANGS])?)
}
