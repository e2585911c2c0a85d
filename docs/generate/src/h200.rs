//! Tables of what benches measured on an H200 and on the host device.

use anyhow::Result;
use serde_json::{Value, json};

use crate::records::{find, list, number, record, source, whole};
use crate::table::{Table, percent, thousands, time};

const DAY: &str = "h200-2026-11-21";

/// How a table calls a way of a bench.
fn way(mode: &str) -> String {
    match mode {
        "plain" => "plain streams".into(),
        "priority" => "stream priorities".into(),
        "lv1" => "Lv1".into(),
        "gate" => "Lv2, a gate each".into(),
        "gate+priority" => "Lv2 with priorities".into(),
        "processes-plain" => "plain".into(),
        "processes-lv1" => "Lv1".into(),
        "processes-gate" => "Lv2, a gate each".into(),
        other => match other.strip_prefix("gate@") {
            Some(spacing) => format!("Lv2, gates every {spacing} µs"),
            None => other.into(),
        },
    }
}

/// The texts of a list.
fn modes(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The whole numbers of a list.
fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// The ratios of a `fixed-priority` record: a row for each way, a column for each background.
fn ratios(table: &mut Table, of: &Value, waves: &[u64], first: &str) -> Result<()> {
    let cells = list(of, "cells")?;
    for mode in modes(&of["plan"]["modes"]) {
        let mut row = vec![format!("{first}{}", way(mode))];
        for ns in numbers(&of["plan"]["background_ns"]) {
            for count in waves {
                let wanted =
                    [("mode", json!(mode)), ("background_ns", json!(ns)), ("waves", json!(count))];
                let cell = find(cells, &wanted)?;
                row.push(format!("{:.3}", number(cell, "/p99_over_alone")?));
            }
        }
        table.row(row);
    }
    Ok(())
}

pub(crate) fn fixed_priority() -> Result<String> {
    let path = format!("{DAY}/fixed-priority.json");
    let of = record(&path)?;
    let waves = numbers(&of["plan"]["waves"]);
    let mut head = vec!["way".to_owned()];
    for ns in numbers(&of["plan"]["background_ns"]) {
        for count in &waves {
            let unit = if *count == 1 { "wave" } else { "waves" };
            head.push(format!("{}, {count} {unit}", time(ns)));
        }
    }
    let mut table = Table::new(head);
    ratios(&mut table, &of, &waves, "")?;
    let alone = number(&of, "/alone/p99_us")?;
    let queue = number(&of, "/alone_queue/p99_us")?;
    let note = format!(
        "\nAlone the P99 is {} µs plain, and {:.3} times that through an XQueue.\n",
        thousands(alone),
        queue / alone
    );
    let command = "xsched-lab bench fixed-priority --hal cuda --waves 1,5,20";
    Ok(table.markdown() + &note + &source(command, &[&path])?)
}

pub(crate) fn processes() -> Result<String> {
    let paths = ["fixed-priority-processes.json", "fixed-priority-processes-mps.json"];
    let paths = paths.map(|name| format!("{DAY}/{name}"));
    let mut table = Table::new(["P99 over alone", "100 µs", "500 µs", "2 ms"]);
    for (path, first) in paths.iter().zip(["", "MPS, "]) {
        ratios(&mut table, &record(path)?, &[1], first)?;
    }
    let command = "xsched-lab bench fixed-priority --hal cuda \
                   --modes processes-plain,processes-lv1,processes-gate";
    Ok(table.markdown() + &source(command, &[&paths[0], &paths[1]])?)
}

pub(crate) fn preempt() -> Result<String> {
    let path = format!("{DAY}/preempt.json");
    let of = record(&path)?;
    let rows = list(&of, "rows")?;
    let columns = [("lv1", 8), ("gate", 8), ("gate", 64), ("gate@300", 8), ("gate@300", 64)];
    let head = columns.iter().map(|(mode, threshold)| format!("{}, {threshold}", way(mode)));
    let mut table = Table::new(["commands".to_owned()].into_iter().chain(head));
    for ns in numbers(&of["plan"]["commands_ns"]) {
        let mut row = vec![time(ns)];
        for (mode, threshold) in columns {
            let wanted =
                [("mode", json!(mode)), ("command_ns", json!(ns)), ("threshold", json!(threshold))];
            row.push(thousands(number(find(rows, &wanted)?, "/quiet/p99_us")?));
        }
        table.row(row);
    }
    let reached = rows.iter().filter(|row| row["goal"]["reached"] == json!(true)).count();
    let note = format!("\n{reached} of {} rows reach their goal.\n", rows.len());
    let command = "xsched-lab bench preempt --hal cuda --samples 1000";
    Ok(table.markdown() + &note + &source(command, &[&path])?)
}

pub(crate) fn host_preempt() -> Result<String> {
    let path = "host-2026-11-21/preempt.json";
    let of = record(path)?;
    let mut table = Table::new(["level", "quiet P50", "quiet P99", "runs again P50"]);
    for row in list(&of, "rows")? {
        let figure = |pointer| Ok::<_, anyhow::Error>(format!("{:.1}", number(row, pointer)?));
        table.row([
            format!("Lv{}", whole(row, "/level")?),
            figure("/quiet_us/p50")?,
            figure("/quiet_us/p99")?,
            figure("/restart_us/p50")?,
        ]);
    }
    Ok(table.markdown() + &source("xsched-lab bench preempt --hal host", &[path])?)
}

pub(crate) fn overhead() -> Result<String> {
    let path = format!("{DAY}/overhead.json");
    let of = record(&path)?;
    let ways = ["lv1", "gate", "gate@300"];
    let mut table = Table::new(["commands".to_owned()].into_iter().chain(ways.map(way)));
    for ns in numbers(&of["plan"]["commands_ns"]) {
        let mut row = vec![time(ns)];
        for mode in ways {
            let cell =
                find(list(&of, "rows")?, &[("mode", json!(mode)), ("command_ns", json!(ns))])?;
            row.push(percent(number(cell, "/overhead")?, 2));
        }
        table.row(row);
    }
    let mut lone = vec!["a lone empty kernel, P50".to_owned()];
    for mode in ways {
        let cell = find(list(&of, "lone")?, &[("mode", json!(mode))])?;
        lone.push(format!("+{:.1} µs", number(cell, "/added_us")?));
    }
    table.row(lone);
    Ok(table.markdown() + &source("xsched-lab bench overhead --hal cuda", &[&path])?)
}

pub(crate) fn partition() -> Result<String> {
    let names = ["up", "pup", "wfq", "wfq-500-100"];
    let paths = names.map(|name| format!("{DAY}/partition-{name}.json"));
    let mut table =
        Table::new(["policy", "plain streams", "Lv1", "Lv2", "both at Lv2, over one alone"]);
    for (path, name) in paths.iter().zip(names) {
        let of = record(path)?;
        let mut row = vec![name.replace("wfq-500-100", "wfq, 500 and 100 µs")];
        let mut total = 0.0;
        for level in [Value::Null, json!(1), json!(2)] {
            let found = find(list(&of, "cells")?, &[("level", level)]);
            row.push(match found {
                Ok(cell) => {
                    total = number(cell, "/total")?;
                    format!("{:.2} %", number(cell, "/first_percent")?)
                }
                Err(_) => String::new(),
            });
        }
        row.push(format!("{total:.3}"));
        table.row(row);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Ok(table.markdown() + &source("xsched-lab bench partition --hal cuda --policy P", &paths)?)
}

pub(crate) fn graphs() -> Result<String> {
    let path = format!("{DAY}/graphs.json");
    let of = record(&path)?;
    let mut table = Table::new(["gates inside", "quiet P50", "quiet P99", "graph's time"]);
    for row in list(&of["held"], "rows")? {
        let gates = match row["spacing_ns"].as_u64() {
            None => "none".to_owned(),
            Some(0) => "one per kernel".to_owned(),
            Some(ns) => format!("every {}", time(ns)),
        };
        table.row([
            gates,
            thousands(number(row, "/quiet/p50_us")?),
            thousands(number(row, "/quiet/p99_us")?),
            format!("+{}", percent(number(row, "/over_none")? - 1.0, 1)),
        ]);
    }
    Ok(table.markdown() + &source("xsched-lab bench graphs --hal cuda", &[&path])?)
}
