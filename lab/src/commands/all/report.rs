//! `xsched-lab report`: the tables of a report that was sent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::archive;
use super::facts::Facts;
use super::page::Report;
use super::{AFTER, BEFORE, MACHINE, RAW, plan};
use crate::error::{ArchiveError, CommandError};
use crate::record::experiment::Record;
use crate::report;
use xsched_console::Ending;
use xsched_console::machine::Machine;
use xsched_console::output::{Outputs, Places, Stream};

/// An archive is smaller, packed.
const PACKED_MAX: u64 = 128 << 20;

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The archive that `xsched-lab bench all` wrote (xsched-report.jsonl.gz), or the folder that
    /// has it. It is read with bounds and is not unpacked to the disk.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write a page with everything.
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
}

/// Prints the report as Markdown.
pub(crate) fn execute(args: &ReportArgs) -> Result<Ending, CommandError> {
    let places = Places { html: args.html.as_deref(), ..Places::default() };
    let outputs = Outputs::prepare(places)?;
    let texts = read(args)?;
    let refused = |source| CommandError::Archive { place: args.file.display().to_string(), source };
    let records = records(&texts).map_err(refused)?;
    let named = |name: &str| {
        let name = format!("{RAW}/{name}");
        (texts.get(&name).map(String::as_str), name)
    };
    let (before, after, machine) = (named(BEFORE), named(AFTER), named(MACHINE));
    let facts: Facts = printable_of(before).map_err(refused)?.unwrap_or_default();
    let later: Option<Facts> = printable_of(after).map_err(refused)?;
    let machine: Option<Machine> = printable_of(machine).map_err(refused)?;
    let machine = machine.unwrap_or_else(Machine::unknown);
    let report = Report {
        machine: &machine,
        after: later.as_ref().unwrap_or(&facts),
        facts: &facts,
        records: &records,
        // Pictures are not sent, and texts only as what a bench printed.
        raw: &|name| texts.get(name).filter(|_| name.ends_with(".txt")).map(|text| lines(text)),
    };
    let blocks = report.blocks();
    if let Some(output) = &outputs.html {
        let page = report::page(&report.title(), &blocks);
        output.write(|out| out.write_all(page.as_bytes()))?;
    }
    Stream::Stdout.print(&report::markdown(&blocks))?;
    Ok(Ending::Fine)
}

/// The texts of the archive.
fn read(args: &ReportArgs) -> Result<BTreeMap<String, String>, CommandError> {
    let folder = args.file.is_dir();
    let place = if folder { args.file.join(archive::NAME) } else { args.file.clone() };
    let shown = place.display().to_string();
    let file =
        File::open(&place).map_err(|source| CommandError::Read { place: shown.clone(), source })?;
    let texts = archive::read(file.take(PACKED_MAX));
    texts.map_err(|source| CommandError::Archive { place: shown, source })
}

/// The records among the texts, in the order of the plan.
fn records(texts: &BTreeMap<String, String>) -> Result<Vec<Record>, ArchiveError> {
    let mut records = Vec::new();
    for id in plan::ids() {
        let name = format!("{id}.json");
        records.extend(printable_of((texts.get(&name).map(String::as_str), name))?);
    }
    if records.is_empty() { Err(ArchiveError::Empty) } else { Ok(records) }
}

/// Reads a JSON text, with a space for each control character that a terminal would obey.
fn printable_of<T: DeserializeOwned + Serialize>(
    (text, name): (Option<&str>, String),
) -> Result<Option<T>, ArchiveError> {
    let Some(text) = text else { return Ok(None) };
    let read = serde_json::from_str(text).and_then(|mut value| {
        make_printable(&mut value);
        serde_json::from_value(value)
    });
    read.map(Some).map_err(|source| ArchiveError::Record { name, source })
}

fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text),
        Value::Array(all) => all.iter_mut().for_each(make_printable),
        Value::Object(all) => {
            let entries = std::mem::take(all).into_iter();
            *all = entries
                .map(|(key, mut value)| {
                    make_printable(&mut value);
                    (printable(&key), value)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text with a space for each control character.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the lines of the text, with a space for each other control character.
fn lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::experiment::{Status, sample};

    fn texts(record: &Record) -> BTreeMap<String, String> {
        let text = serde_json::to_string(record).unwrap();
        BTreeMap::from([(format!("{}.json", record.test_id), text)])
    }

    #[test]
    fn what_a_terminal_would_obey_is_taken_out() {
        let mut record = sample(Status::Measured, Some(true));
        record.notes = "\u{1b}]0;title\u{7}\u{1b}[2J\nnext".into();
        record.results.insert("a\u{1b}b".into(), "\u{9b}31m".into());
        let read = records(&texts(&record)).unwrap();
        let shown = format!("{read:?}");
        assert!(!shown.contains("1b") && !shown.contains("9b}"), "{shown}");
        assert_eq!(read[0].notes, " ]0;title  [2J next");
        assert_eq!(lines("a\u{1b}b\nc"), "a b\nc\n");
    }

    #[test]
    fn records_that_are_none_are_named_and_nothing_is_no_report() {
        let bad = BTreeMap::from([("7.3.1.json".to_owned(), "{\"test_id\": 1}".to_owned())]);
        let error = records(&bad).unwrap_err();
        assert!(matches!(&error, ArchiveError::Record { name, .. } if name == "7.3.1.json"));
        let deep = "[".repeat(100_000);
        let deep = BTreeMap::from([("7.3.1.json".to_owned(), deep)]);
        assert!(matches!(records(&deep).unwrap_err(), ArchiveError::Record { .. }));
        let other = BTreeMap::from([("other.json".to_owned(), "{}".to_owned())]);
        assert!(matches!(records(&other).unwrap_err(), ArchiveError::Empty));
    }
}
