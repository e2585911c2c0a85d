//! Tables of what benches measured on an H200 and on the host device.

use anyhow::Result;
use serde_json::{Value, json};

use crate::records::{find, list, number, record, source, text, whole};
use crate::table::{Table, percent, thousands, time};

const DAY_1: &str = "h200-2026-11-21";
const DAY_2: &str = "h200-2026-11-22";

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
    let path = format!("{DAY_1}/fixed-priority.json");
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
    let command = "xsched bench fixed-priority --hal cuda --waves 1,5,20";
    Ok(table.markdown() + &note + &source(command, &[&path]))
}

pub(crate) fn load20() -> Result<String> {
    let path = format!("{DAY_1}/fixed-priority-load20.json");
    let of = record(&path)?;
    let backgrounds = numbers(&of["plan"]["background_ns"]);
    let mut head = vec!["way".to_owned()];
    for ns in &backgrounds {
        head.push(format!("{}: P99", time(*ns)));
        head.push("background's share".into());
    }
    let mut table = Table::new(head);
    for mode in modes(&of["plan"]["modes"]) {
        let mut row = vec![way(mode)];
        for ns in &backgrounds {
            let wanted = [("mode", json!(mode)), ("background_ns", json!(ns))];
            let cell = find(list(&of, "cells")?, &wanted)?;
            row.push(format!("{:.3}", number(cell, "/p99_over_alone")?));
            row.push(percent(number(cell, "/background_share")?, 0));
        }
        table.row(row);
    }
    let command = "xsched bench fixed-priority --hal cuda --commands 50 --load 20";
    Ok(table.markdown() + &source(command, &[&path]))
}

pub(crate) fn processes() -> Result<String> {
    let paths = ["fixed-priority-processes.json", "fixed-priority-processes-mps.json"];
    let paths = paths.map(|name| format!("{DAY_1}/{name}"));
    let mut table = Table::new(["P99 over alone", "100 µs", "500 µs", "2 ms"]);
    for (path, first) in paths.iter().zip(["", "MPS, "]) {
        ratios(&mut table, &record(path)?, &[1], first)?;
    }
    let command = "xsched bench fixed-priority --hal cuda \
                   --modes processes-plain,processes-lv1,processes-gate";
    Ok(table.markdown() + &source(command, &[&paths[0], &paths[1]]))
}

pub(crate) fn preempt() -> Result<String> {
    let path = format!("{DAY_1}/preempt.json");
    let of = record(&path)?;
    let rows = list(&of, "rows")?;
    let columns = [("lv1", 8), ("gate", 8), ("gate", 64), ("gate@300", 8), ("gate@300", 64)];
    let head = columns.iter().map(|(mode, threshold)| format!("{}, {threshold}", way(mode)));
    let mut table = Table::new(["commands".to_owned()].into_iter().chain(head));
    for ns in numbers(&of["plan"]["commands_ns"]) {
        let mut row = vec![time(ns)];
        for (mode, threshold) in columns {
            let wanted = [
                ("mode", json!(mode)),
                ("command_ns", json!(ns)),
                ("threshold", json!(threshold)),
            ];
            row.push(thousands(number(find(rows, &wanted)?, "/quiet/p99_us")?));
        }
        table.row(row);
    }
    let reached = rows.iter().filter(|row| row["goal"]["reached"] == json!(true)).count();
    let note = format!("\n{reached} of {} rows reach their goal.\n", rows.len());
    let command = "xsched bench preempt --hal cuda --samples 1000";
    Ok(table.markdown() + &note + &source(command, &[&path]))
}

pub(crate) fn host_preempt() -> Result<String> {
    let path = "preempt-host-16-cores.json";
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
    Ok(table.markdown() + &source("xsched bench preempt --hal host", &[path]))
}

pub(crate) fn overhead() -> Result<String> {
    let path = format!("{DAY_1}/overhead.json");
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
    Ok(table.markdown() + &source("xsched bench overhead --hal cuda", &[&path]))
}

pub(crate) fn threshold() -> Result<String> {
    let path = format!("{DAY_1}/threshold.json");
    let of = record(&path)?;
    let mut table = Table::new(["commands", "Lv1", "Lv2, gates every 200 µs"]);
    for ns in numbers(&of["plan"]["commands_ns"]) {
        let mut row = vec![time(ns)];
        for mode in modes(&of["plan"]["modes"]) {
            let wanted = [("mode", json!(mode)), ("command_ns", json!(ns))];
            let least = find(list(&of, "least")?, &wanted)?["threshold"].as_u64();
            row.push(least.map_or("above 16".into(), |least| least.to_string()));
        }
        table.row(row);
    }
    Ok(table.markdown() + &source("xsched bench threshold --hal cuda", &[&path]))
}

pub(crate) fn partition() -> Result<String> {
    let names = ["up", "pup", "wfq", "wfq-500-100"];
    let paths = names.map(|name| format!("{DAY_1}/partition-{name}.json"));
    let mut table =
        Table::new(["policy", "plain streams", "Lv1", "Lv2", "both at Lv2, over one alone"]);
    for (path, name) in paths.iter().zip(names) {
        let of = record(path)?;
        let mut row = vec![name.replace("wfq-500-100", "`wfq`, commands of 500 and 100 µs")];
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
    Ok(table.markdown() + &source("xsched bench partition --hal cuda --policy P", &paths))
}

pub(crate) fn graphs() -> Result<String> {
    let path = format!("{DAY_1}/graphs.json");
    let of = record(&path)?;
    let mut table = Table::new(["gates inside", "quiet P50", "quiet P99", "graph takes"]);
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
            format!("{} longer", percent(number(row, "/over_none")? - 1.0, 1)),
        ]);
    }
    Ok(table.markdown() + &source("xsched bench graphs --hal cuda", &[&path]))
}

pub(crate) fn graph_pairs() -> Result<String> {
    let path = format!("{DAY_1}/graphs-pairs.json");
    let of = record(&path)?;
    let mut table = Table::new(["shape", "way", "P99", "throughput"]);
    for pair in list(&of, "pairs")? {
        let shape = format!("{} kernels", whole(pair, "/shape/kernels")?);
        for cell in list(pair, "cells")?.iter().filter(|cell| cell["throughput"].is_f64()) {
            let name = text(cell, "/way/way")?;
            let name = match cell["way"]["spacing_ns"].as_u64() {
                None => way(name),
                Some(0) => "a gate per kernel".to_owned(),
                Some(ns) => format!("gates every {}", time(ns)),
            };
            let ratio = format!("{:.3}", number(cell, "/p99_over_alone")?);
            let rest = percent(number(cell, "/throughput")?, 0);
            table.row([shape.clone(), name, ratio, rest]);
        }
    }
    Ok(table.markdown() + &source("xsched bench graphs --hal cuda", &[&path]))
}

/// A figure of both programs: what it is, its path in both records, and how it is written.
fn pair(table: &mut Table, what: String, mine: &Value, theirs: &Value, at: &str) -> Result<()> {
    let show = |value| match at {
        "/overhead" => percent(value, 2),
        "/first_percent" => format!("{value:.2} %"),
        "/quiet/p99_us" => format!("{} µs", thousands(value)),
        _ => format!("{value:.3}"),
    };
    table.row([what, show(number(mine, at)?), show(number(theirs, at)?)]);
    Ok(())
}

pub(crate) fn c_api() -> Result<String> {
    let names = ["overhead", "fixed-priority", "partition", "preempt"];
    let mut table = Table::new(["", "C API", "`xsched bench`"]);
    let mut paths = Vec::new();
    for name in names {
        let (mine, theirs) = (format!("{DAY_2}/capi-{name}.json"), format!("{DAY_2}/{name}.json"));
        c_api_rows(&mut table, name, &record(&mine)?, &record(&theirs)?)?;
        paths.extend([mine, theirs]);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Ok(table.markdown() + &source("cbench` and `xsched bench", &paths))
}

fn c_api_rows(table: &mut Table, name: &str, mine: &Value, theirs: &Value) -> Result<()> {
    let rows = list(mine, "rows")?;
    let other = theirs.get("rows").or_else(|| theirs.get("cells"));
    let other = other.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for row in rows.iter().filter(|row| row["lone"].is_null()) {
        let mode = text(row, "/mode")?;
        let ns = row["command_ns"].as_u64().or(row["background_ns"].as_u64());
        if ns.is_some_and(|ns| ![100_000, 500_000].contains(&ns)) {
            continue;
        }
        let length = time(ns.unwrap_or_default());
        match name {
            "overhead" if mode != "plain" => {
                let wanted = [("mode", json!(mode)), ("command_ns", json!(ns))];
                let what = format!("overhead, commands of {length}, {}", way(mode));
                pair(table, what, row, find(other, &wanted)?, "/overhead")?;
            }
            "fixed-priority" => {
                let wanted = [("mode", json!(mode)), ("background_ns", json!(ns))];
                let what = format!("P99 over alone beside {length}, {}", way(mode));
                pair(table, what, row, find(other, &wanted)?, "/p99_over_alone")?;
            }
            "partition" => {
                let level = match mode {
                    "lv1" => json!(1),
                    "gate" => json!(2),
                    _ => Value::Null,
                };
                let what = format!("first of two tasks, 75:25, {}", way(mode));
                pair(table, what, row, find(other, &[("level", level)])?, "/first_percent")?;
            }
            "preempt" => {
                let wanted = [
                    ("mode", json!(mode)),
                    ("command_ns", json!(ns)),
                    ("threshold", row["threshold"].clone()),
                ];
                let what = format!("quiet P99, commands of {length}, {}", way(mode));
                pair(table, what, row, find(other, &wanted)?, "/quiet/p99_us")?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn hip() -> Result<String> {
    let path = format!("{DAY_1}/hip-fixed-priority.json");
    let of = record(&path)?;
    let mut table = Table::new(["way", "P50"]);
    for cell in list(&of, "cells")? {
        let p50 = thousands(number(cell, "/foreground/p50_us")?);
        table.row([way(text(cell, "/mode")?), p50]);
    }
    Ok(table.markdown() + &source("xsched bench fixed-priority --hal hip", &[&path]))
}
