//! Devices on which each ability ran, with the records.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;
use walkdir::WalkDir;

use crate::records::{link_as, record, root_of, text};
use crate::table::Table;

/// Devices that no record is of.
const NONE: &str = "HIP on an AMD GPU; Lv3 by the kernel driver on an AMD GPU";

/// The newest record of each ability on each kind of device: its day and its folder.
type Newest = BTreeMap<(String, String), (String, String)>;

/// A row for each ability that a summary names under `shows`, a column for each kind of device,
/// and in each cell the newest record.
pub(crate) fn places() -> Result<String> {
    let mut newest = Newest::new();
    for entry in WalkDir::new(root_of("")).min_depth(1).max_depth(1).sort_by_file_name() {
        let entry = entry.context("cannot list benches/results")?;
        let folder = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_dir() {
            add(&mut newest, &folder, &record(&format!("{folder}/summary.json"))?)?;
        }
    }
    Ok(table(&newest))
}

fn add(newest: &mut Newest, folder: &str, summary: &Value) -> Result<()> {
    let day = text(summary, "/date")?;
    for (place, shown) in summary["shows"].as_object().into_iter().flatten() {
        for what in shown.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let entry = newest.entry((what.to_owned(), place.clone())).or_default();
            *entry = entry.clone().max((day.to_owned(), folder.to_owned()));
        }
    }
    Ok(())
}

fn table(newest: &Newest) -> String {
    let places: BTreeSet<_> = newest.keys().map(|(_, place)| place).collect();
    let rows: BTreeSet<_> = newest.keys().map(|(what, _)| what).collect();
    let head = places.iter().map(|place| (*place).clone());
    let mut table = Table::new([String::new()].into_iter().chain(head));
    for what in rows {
        let cell = |place: &&String| match newest.get(&(what.clone(), (*place).clone())) {
            Some((day, folder)) => link_as(day, &format!("{folder}/README.md")),
            None => "-".to_owned(),
        };
        table.row([what.clone()].into_iter().chain(places.iter().map(cell)));
    }
    format!("{}\nNo record: {NONE}.\n", table.markdown())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_record_is_shown_and_a_place_without_one_is_named() {
        let mut newest = Newest::new();
        for day in ["2026-11-23", "2026-11-21"] {
            let summary = json!({ "date": day, "shows": { "CUDA": ["Lv2"] } });
            add(&mut newest, &format!("h200-{day}"), &summary).expect("a summary");
        }
        let host = json!({ "date": "2026-11-20", "shows": { "the processor": ["Lv3"] } });
        add(&mut newest, "host-2026-11-20", &host).expect("a summary");
        let table = table(&newest);
        assert!(table.contains("| Lv2 | [2026-11-23]("), "{table}");
        assert!(table.contains("| Lv3 | - | [2026-11-20]("), "{table}");
        assert!(table.contains("No record: ") && table.contains("AMD GPU"), "{table}");
    }
}
