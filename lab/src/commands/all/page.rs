//! The report of the benches of one device.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::facts::Facts;
use super::questions;
use crate::judge::INTERRUPT_US;
use crate::record::experiment::{Record, Status};
use crate::report::tables::{shown, tables};
use crate::report::{Block, Cell, Table, Tone, text, words};
use xsched_console::machine::Machine;
use xsched_console::table::table;

/// Sources of a report.
pub(super) struct Report<'a> {
    pub(super) machine: &'a Machine,
    /// As they were before the first bench.
    pub(super) facts: &'a Facts,
    /// As they were after the last.
    pub(super) after: &'a Facts,
    pub(super) records: &'a [Record],
    /// A file of the raw data by its name, if it is there.
    pub(super) raw: &'a dyn Fn(&str) -> Option<String>,
}

/// Returns the lines that are printed at the end.
pub(super) fn summary(records: &[Record], folder: &Path) -> String {
    let header = ["<test", "<name", "<verdict", "<notes"];
    let row = |record: &Record| {
        let verdict = record.verdict().to_owned();
        vec![record.test_id.clone(), record.test_name.clone(), verdict, record.notes.clone()]
    };
    let text = table("experiments", &header, records.iter().filter(|r| is_run(r)).map(row));
    let report = folder.join("report.html");
    format!("{text}{}\n{}\n", counts(records), report.display())
}

/// Returns whether the experiment can be run here.
fn is_run(record: &Record) -> bool {
    record.status != Status::NotRun
}

/// How many experiments there are of each verdict.
fn counts(records: &[Record]) -> String {
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records.iter().filter(|record| is_run(record)) {
        *verdicts.entry(record.verdict()).or_default() += 1;
    }
    let parts = verdicts.iter().map(|(verdict, count)| format!("{count} {verdict}"));
    let parts: Vec<String> = parts.collect();
    let run: usize = verdicts.values().sum();
    let elsewhere = records.len() - run;
    let quick = records.iter().any(|record| record.quick && is_run(record));
    let why = if quick { " (few samples give no verdict)" } else { "" };
    format!("{run} experiments: {}{why}; {elsewhere} are not for this machine", parts.join(", "))
}

impl Report<'_> {
    pub(super) fn title(&self) -> String {
        let known = self.records.iter().find(|record| !record.hardware.is_empty());
        let device = |record: &Record| match record.rocm_version.as_str() {
            "" => record.hardware.clone(),
            version => format!("{} ({version})", record.hardware),
        };
        let device = known.map_or_else(|| "a device that could not be used".to_owned(), device);
        format!("Benches on {device}")
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks = vec![Block::Heading(1, self.title()), text(counts(self.records))];
        let run = self.records.iter().filter(|record| is_run(record));
        blocks.push(Block::Table(Table::new(
            ["test", "what", "goal", "verdict", "notes"],
            run.map(verdict),
        )));
        blocks.extend(self.bounds().into_iter().map(text));
        blocks.extend(questions::blocks(self.records));
        let mut shown: Vec<&str> = Vec::new();
        for record in self.records.iter().filter(|record| record.status == Status::Measured) {
            let is_first = !shown.contains(&record.command.as_str());
            shown.push(&record.command);
            self.section(record, is_first, &mut blocks);
        }
        let elsewhere = self.records.iter().filter(|record| !is_run(record));
        let why =
            |record: &Record| [&record.test_id, &record.test_name, &record.notes].map(words).into();
        blocks.push(Block::Heading(2, "Not for this machine".to_owned()));
        blocks.push(Block::Table(Table::new(["test", "what", "why"], elsewhere.map(why))));
        blocks.push(Block::Heading(2, "The machine".to_owned()));
        let facts = self.facts().into_iter().map(|(name, value)| vec![words(name), words(value)]);
        blocks.push(Block::Table(Table::new(["fact", "value"], facts)));
        blocks
    }

    /// The lines about a physical bound, or that none is known.
    fn bounds(&self) -> Vec<String> {
        let limit = format!("the plan asks for an interrupt below {INTERRUPT_US:.0} µs at the P99");
        let mut lines = self.facts.bounds.clone();
        if lines.is_empty() {
            lines.push("no bound by context size and bandwidth is known for this device".into());
        }
        lines.push(limit);
        lines
    }

    /// Facts in words, in order, with what has changed meanwhile.
    fn facts(&self) -> Vec<(String, String)> {
        let before = flat(self.facts);
        let after: BTreeMap<String, String> = flat(self.after).into_iter().collect();
        let mut facts = vec![("machine".to_owned(), self.machine.to_string())];
        facts.extend(before.into_iter().map(|(name, value)| match after.get(&name) {
            Some(later) if *later != value => (name, format!("{value}; afterwards {later}")),
            _ => (name, value),
        }));
        facts
    }

    /// An experiment; with the figure and the text of its bench if it is the bench's first.
    fn section(&self, record: &Record, is_first: bool, blocks: &mut Vec<Block>) {
        let Record { test_id, test_name, date, seconds, command, .. } = record;
        blocks.push(Block::Heading(2, format!("{test_id} {test_name}")));
        blocks.push(text(format!("{date}, {seconds:.1} s, `{command}`")));
        for (name, table) in tables(&record.results) {
            blocks.extend([text(name), Block::Table(table)]);
        }
        let raw = |ending: &str| {
            let file = record.raw.iter().find(|file| is_first && file.ends_with(ending))?;
            Some((file.clone(), (self.raw)(file)?))
        };
        blocks.extend(raw(".svg").map(|(file, svg)| Block::Drawing { file, svg }));
        blocks.extend(raw(".txt").map(|(_, printed)| Block::Printed(printed)));
        blocks.push(text(format!("Raw data: {}", record.raw.join(", "))));
    }
}

/// Returns the goal of an experiment and its outcome, as cells of a table.
fn verdict(record: &Record) -> Vec<Cell> {
    let tone = match (record.status, record.pass) {
        (Status::Measured, Some(true)) => Tone::Good,
        (Status::Measured, None) => Tone::Faint,
        _ => Tone::Bad,
    };
    let Record { test_id, test_name, goal, notes, .. } = record;
    let [id, name, goal, notes] = [test_id, test_name, goal, notes].map(words);
    vec![id, name, goal, words(record.verdict()).toned(tone), notes]
}

/// Facts as names and values, however deep they are.
fn flat(facts: &Facts) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::to_value(facts) {
        flatten("", &value, &mut found);
    }
    found
}

fn flatten(name: &str, value: &Value, found: &mut Vec<(String, String)>) {
    let Value::Object(parts) = value else {
        if !value.is_null() {
            found.push((name.to_owned(), shown(value)));
        }
        return;
    };
    for (part, value) in parts {
        let name = if name.is_empty() { part.clone() } else { format!("{name}/{part}") };
        flatten(&name, value, found);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::record::experiment::sample;
    use crate::report;

    /// The page and the text of a report.
    fn report() -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("raw")).unwrap();
        fs::write(folder.path().join("raw/preempt.svg"), "<svg>picture</svg>").unwrap();
        fs::write(folder.path().join("raw/preempt.txt"), "P99 < 100").unwrap();
        let mut measured = sample(Status::Measured, Some(true));
        measured.raw = vec!["raw/preempt.txt".into(), "raw/preempt.svg".into()];
        let rows = json!([
            { "mode": "lv3", "quiet_p99_us": 12.3456, "quiet_p50_us": null, "stopped": null },
            { "mode": "a|b", "victims": "interrupted" }
        ]);
        measured.results.insert("levels".into(), rows);
        let mut elsewhere = sample(Status::NotRun, None);
        elsewhere.test_id = "8.1.1".into();
        elsewhere.notes = "needs PyTorch".into();
        let records = [measured, sample(Status::Failed, None), elsewhere];
        let facts = Facts { rocm: Some("6.4".into()), ..Facts::default() };
        let after = Facts { rocm: Some("6.5".into()), ..Facts::default() };
        let report = Report {
            machine: &Machine::here(),
            facts: &facts,
            after: &after,
            records: &records,
            raw: &|name| fs::read_to_string(folder.path().join(name)).ok(),
        };
        let blocks = report.blocks();
        (report::page(&report.title(), &blocks), report::markdown(&blocks))
    }

    #[test]
    fn the_page_has_everything_and_needs_nothing() {
        let (html, text) = report();
        for part in [
            "<svg>picture</svg>",
            "P99 &lt; 100",
            "latency &lt;per&gt; level",
            "<td class=\"good\">PASS</td>",
            "<td class=\"bad\">failed</td>",
            "12.346",
            "6.4; afterwards 6.5",
            "no bound by context size",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("src=") && !html.contains("href="), "it refers to nothing");
        assert!(text.contains("| a\\|b | interrupted | - |"), "{text}");
        assert!(text.contains("| 7.3.1 |") && text.contains("| failed |"), "{text}");
        assert!(text.contains("![](raw/preempt.svg)") && text.contains("Raw data: raw/"), "{text}");
    }

    #[test]
    fn the_page_begins_with_its_verdicts_and_ends_with_what_cannot_be_run() {
        let (html, text) = report();
        let at = |part: &str| html.find(part).unwrap_or_else(|| panic!("{part}: {html}"));
        let counts = "2 experiments: 1 PASS, 1 failed (few samples give no verdict); 1 are not";
        assert!(at(counts) < at("<th>verdict</th>"));
        assert!(at("<th>verdict</th>") < at("<svg>"));
        assert_eq!(html.matches("<svg>").count(), 1);
        assert!(at("needs PyTorch") > at("what the bench printed"));
        assert!(!html.contains(">not run<") && text.contains("| 8.1.1 | preemption"), "{text}");
    }

    #[test]
    fn columns_without_values_are_left_out() {
        let (html, text) = report();
        assert!(html.contains("<td>interrupted</td>"), "{html}");
        assert!(html.contains("<th>mode</th><th>victims</th><th>quiet P99 (µs)</th></tr>"));
        assert!(!html.contains("stopped") && !text.contains("stopped"));
    }
}
