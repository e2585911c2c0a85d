//! What ran where, and which record says so.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;

use crate::kept::{Kept, kept, paths};
use crate::records::link_as;
use crate::table::Table;
use crate::{read, root};

/// What a record may show, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Level(u8),
    Graphs,
    Apart,
    C(u8),
    Unmodified,
    Daemon,
}

impl What {
    fn words(self) -> String {
        match self {
            Self::Level(level) => format!("Lv{level}"),
            Self::Graphs => "Lv2 inside graphs".to_owned(),
            Self::Apart => "one process holds another's queue".to_owned(),
            Self::C(level) => format!("C interface, Lv{level}"),
            Self::Unmodified => "unmodified programs".to_owned(),
            Self::Daemon => "processes under `xschedd`".to_owned(),
        }
    }
}

/// What a record was written on, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Processor,
    Cuda,
    HipOverCuda,
    HipEmulated,
    Hip,
    Kfd,
}

impl Place {
    const ALL: [Self; 6] =
        [Self::Processor, Self::Cuda, Self::HipOverCuda, Self::HipEmulated, Self::Hip, Self::Kfd];

    const fn words(self) -> &'static str {
        match self {
            Self::Processor => "the processor",
            Self::Cuda => "CUDA, H200",
            Self::HipOverCuda => "HIP's calls over CUDA, H200",
            Self::HipEmulated => "HIP, emulated driver",
            Self::Hip => "HIP, AMD GPU",
            Self::Kfd => "Lv3 by the kernel driver, AMD GPU",
        }
    }

    fn of_bench(hal: &str, device: &str) -> Self {
        match hal {
            "cuda" => Self::Cuda,
            "hip" if device.contains("NVIDIA") => Self::HipOverCuda,
            "hip" if device.contains("emulated") => Self::HipEmulated,
            "hip" => Self::Hip,
            "kfd" => Self::Kfd,
            _ => Self::Processor,
        }
    }

    /// Of a record that does not say it, by what the note in its folder does.
    fn of_folder(path: &str) -> Option<Self> {
        let folder = path.split_once('/')?.0;
        let note = read(&root().join("benches/results").join(folder).join("README.md")).ok()?;
        [("NVIDIA", Self::Cuda), ("hip_emulated", Self::HipEmulated)]
            .into_iter()
            .find_map(|(word, place)| note.contains(word).then_some(place))
    }
}

/// Files that the programs of `lab/programs` for several processes print, by how they begin.
const PROGRAMS: [(&str, What); 6] = [
    ("beside", What::Daemon),
    ("shares", What::Daemon),
    ("waves", What::Daemon),
    ("kills", What::Daemon),
    ("trouble", What::Unmodified),
    ("cupy", What::Unmodified),
];

/// What ran where: a row for each ability, a column for each kind of device with a record, and in
/// each cell the newest record.
pub(crate) fn places() -> Result<String> {
    let mut newest = BTreeMap::new();
    for Kept { path, document } in kept()? {
        for (what, place) in shown(&path, &document) {
            keep(&mut newest, what, place, &path);
        }
    }
    for path in paths()?.iter().filter(|path| !path.ends_with(".json")) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let found = PROGRAMS.iter().find(|(begin, _)| name.starts_with(begin));
        let example = path.starts_with("hip-examples") && path.ends_with("README.md");
        let what = found.map(|(_, what)| *what).or(example.then_some(What::Daemon));
        if let Some((what, place)) = what.zip(Place::of_folder(path)) {
            keep(&mut newest, what, place, path);
        }
    }
    Ok(table(&newest))
}

type Newest = BTreeMap<(What, Place), (String, String)>;

/// Keeps the record if it is the newest of its kind, by the date in its path.
fn keep(newest: &mut Newest, what: What, place: Place, path: &str) {
    let entry = newest.entry((what, place)).or_default();
    *entry = entry.clone().max((day(path), path.to_owned()));
}

/// The date in a path, such as `2026-11-21`; empty if there is none.
fn day(path: &str) -> String {
    let is_date = |part: &&[u8]| {
        part.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
    };
    let found = path.as_bytes().windows(10).find(is_date);
    found.map(|date| String::from_utf8_lossy(date).into_owned()).unwrap_or_default()
}

fn table(newest: &Newest) -> String {
    let used: BTreeSet<_> = newest.keys().map(|(_, place)| *place).collect();
    let head = used.iter().map(|place| place.words().to_owned());
    let mut table = Table::new([String::new()].into_iter().chain(head));
    let rows: BTreeSet<_> = newest.keys().map(|(what, _)| *what).collect();
    for what in rows {
        let cell = |place: &Place| match newest.get(&(what, *place)) {
            Some((day, path)) if day.is_empty() => link_as("a record", path),
            Some((day, path)) => link_as(day, path),
            None => "-".to_owned(),
        };
        table.row([what.words()].into_iter().chain(used.iter().map(cell)));
    }
    let none: Vec<_> = Place::ALL
        .iter()
        .filter(|place| !used.contains(place))
        .map(|place| place.words())
        .collect();
    if none.is_empty() {
        return table.markdown();
    }
    format!("{}\nNo record: {}.\n", table.markdown(), none.join("; "))
}

/// What a record in JSON shows, and on what.
fn shown(path: &str, document: &Value) -> Vec<(What, Place)> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    if document.get("programs").is_some() {
        return Place::of_folder(path).map(|place| (What::Unmodified, place)).into_iter().collect();
    }
    let through = document.get("through").is_some();
    let place = match (text("/device/hal"), text("/device/device"), text("/device")) {
        (Some(hal), Some(device), _) => Place::of_bench(hal, device),
        (.., Some(device)) if device.contains("NVIDIA") => Place::Cuda,
        (.., Some(device)) if device.contains("xsched-hal-host") => Place::Processor,
        _ => return Vec::new(),
    };
    let mut found = BTreeSet::new();
    abilities(document, through, &mut found);
    found.into_iter().map(|what| (what, place)).collect()
}

/// The ways and levels that are named anywhere in a record's results.
fn abilities(value: &Value, through: bool, found: &mut BTreeSet<What>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| abilities(one, through, found)),
        Value::Object(parts) => {
            let mode = parts.get("mode").and_then(Value::as_str).and_then(of_mode);
            let graph = parts.get("way").and_then(Value::as_str) == Some("gates");
            found.extend(graph.then_some(What::Graphs));
            let level = parts.get("level").and_then(Value::as_u64).map(|level| level as u8);
            let level =
                level.filter(|_| parts.contains_key("quiet_us") || parts.contains_key("total"));
            let level = level.map(What::Level);
            for what in mode.into_iter().chain(level) {
                found.insert(match what {
                    What::Level(level) if through => What::C(level),
                    other => other,
                });
            }
            let results = parts.iter().filter(|(key, _)| !matches!(&***key, "plan" | "device"));
            results.for_each(|(_, one)| abilities(one, through, found));
        }
        _ => {}
    }
}

/// What a way of a bench shows; nothing if it is past XSched.
fn of_mode(mode: &str) -> Option<What> {
    match mode {
        "lv1" => Some(What::Level(1)),
        "lv3" => Some(What::Level(3)),
        "processes-lv1" | "processes-gate" => Some(What::Apart),
        gate if gate.starts_with("gate") => Some(What::Level(2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_says_what_ran_on_what() {
        let rows = json!([{ "mode": "plain" }, { "mode": "gate@300" }, { "mode": "lv1" }]);
        let device = json!({ "hal": "hip", "device": "AMD Instinct MI308X" });
        let record = json!({ "bench": "preempt", "device": device, "rows": rows });
        let levels = [What::Level(1), What::Level(2)];
        assert_eq!(shown("a.json", &record), levels.map(|what| (what, Place::Hip)));
        let c = json!({ "through": "the C API", "device": "NVIDIA H200", "rows": rows });
        assert_eq!(shown("a.json", &c), [1, 2].map(|level| (What::C(level), Place::Cuda)));
        let plan = json!({ "device": device, "plan": { "modes": ["lv3"], "level": 3 } });
        assert_eq!(shown("a.json", &plan), [], "a plan is no result");
    }

    #[test]
    fn the_newest_record_is_shown_and_a_place_without_one_is_named() {
        let mut newest = BTreeMap::new();
        for path in ["h200-2026-11-23/a.json", "h200-2026-11-21/b.json"] {
            keep(&mut newest, What::Level(2), Place::Cuda, path);
        }
        let table = table(&newest);
        assert!(table.contains("| Lv2 | [2026-11-23]("), "{table}");
        assert!(
            table.contains("No record: the processor; ") && table.contains("AMD GPU"),
            "{table}"
        );
    }
}
