//! The report, as Markdown and as a page that needs no other file.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::facts::Facts;
use super::record::{Record, Status};
use crate::console::table::table;
use crate::device::kfd::Sysfs;
use crate::html::{Cell, Page, escape};
use crate::judge::INTERRUPT_US;
use crate::machine::Machine;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:75em;margin:2em auto;padding:0 1em;\
    color:#222}table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;\
    padding:.2em .6em;text-align:left;vertical-align:top}th{background:#f3f3f3}\
    pre{background:#f7f7f7;padding:.6em;overflow-x:auto;font-size:12px}svg{max-width:100%;\
    height:auto}.PASS{color:#060}.FAIL,.failed,.interrupted{color:#a00;font-weight:bold}";

/// What a report is made from.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) machine: &'a Machine,
    /// As they were before the first bench.
    pub(super) facts: &'a Facts,
    /// As they were after the last.
    pub(super) after: &'a Facts,
    pub(super) records: &'a [Record],
    /// Where the raw data is.
    pub(super) folder: &'a Path,
}

/// What is printed at the end.
pub(super) fn summary(records: &[Record], folder: &Path) -> String {
    let header = ["<test", "<name", "<verdict", "<notes"];
    let row = |record: &Record| {
        let verdict = record.verdict().to_owned();
        vec![record.test_id.clone(), record.test_name.clone(), verdict, record.notes.clone()]
    };
    let text = table("experiments", &header, records.iter().map(row));
    format!("{text}{}\n", folder.join("report.html").display())
}

impl Report<'_> {
    /// The lines about a physical bound, or that none is known.
    fn bounds(&self) -> Vec<String> {
        let limit = format!("the plan asks for an interrupt below {INTERRUPT_US:.0} µs at the P99");
        let bounds = crate::device::kfd::bounds(&Sysfs::default());
        let mut lines: Vec<String> = bounds.into_iter().map(|(_, how)| how).collect();
        if lines.is_empty() {
            lines.push("no bound by context size and bandwidth is known for this device".into());
        }
        lines.push(limit);
        lines
    }

    /// Facts in words, in order, with what has changed meanwhile.
    fn facts(&self) -> Vec<(String, String)> {
        let before = flat(self.facts);
        let after = flat(self.after);
        let changed = |name: &str, value: &str| {
            let later = after.iter().find(|(other, _)| other == name).map(|(_, value)| value);
            later.filter(|later| later.as_str() != value).cloned()
        };
        let mut facts = vec![("machine".to_owned(), self.machine.to_string())];
        facts.extend(before.into_iter().map(|(name, value)| match changed(&name, &value) {
            Some(later) => (name, format!("{value}; afterwards {later}")),
            None => (name, value),
        }));
        facts
    }

    /// A file of the raw data, if it is there.
    fn raw(&self, record: &Record, ending: &str) -> Option<String> {
        let file = record.raw.iter().find(|file| file.ends_with(ending))?;
        fs::read_to_string(self.folder.join(file)).ok()
    }

    /// For people and for version control.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("# Benches on {}\n\n", self.device());
        for line in self.bounds() {
            let _ = writeln!(text, "- {line}");
        }
        text += "\n| test | what | goal | verdict | notes |\n|---|---|---|---|---|\n";
        for record in self.records {
            let Record { test_id, test_name, goal, notes, .. } = record;
            let verdict = record.verdict();
            let cells = [test_id, test_name, goal, verdict, notes].map(cell);
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        for record in self.measured() {
            let _ = write!(text, "\n## {} {}\n\n", record.test_id, record.test_name);
            let _ =
                write!(text, "{}, {:.1} s, `{}`\n\n", record.date, record.seconds, record.command);
            for (name, header, rows) in tables(&record.results) {
                let _ = write!(text, "{name}\n\n| {} |\n|", header.join(" | "));
                text += &"---|".repeat(header.len());
                for row in rows {
                    let cells: Vec<String> = row.iter().map(cell).collect();
                    let _ = write!(text, "\n| {} |", cells.join(" | "));
                }
                text += "\n\n";
            }
            let files: Vec<_> = record.raw.iter().map(|file| format!("[{file}]({file})")).collect();
            let _ = writeln!(text, "Raw data: {}", files.join(", "));
        }
        text += "\n## The machine\n\n| fact | value |\n|---|---|\n";
        for (name, value) in self.facts() {
            let _ = writeln!(text, "| {} | {} |", cell(&name), cell(&value));
        }
        text
    }

    /// For people, with figures and what the benches printed.
    pub(super) fn html(&self) -> String {
        let title = format!("Benches on {}", self.device());
        let mut page = Page::new(&title, STYLE, &title);
        page.html("<ul>");
        for line in self.bounds() {
            page.html(format_args!("<li>{}</li>", escape(&line)));
        }
        page.html("</ul>\n");
        let header = ["test", "what", "goal", "verdict", "notes"];
        let row = |record: &Record| {
            let Record { test_id, test_name, goal, notes, .. } = record;
            let texts: [&str; 5] = [test_id, test_name, goal, record.verdict(), notes];
            cells(&texts)
        };
        page.table(&header, self.records.iter().map(row));
        let mut shown: Vec<&str> = Vec::new();
        for record in self.measured() {
            let first = !shown.contains(&record.command.as_str());
            shown.push(&record.command);
            self.section(&mut page, record, first);
        }
        page.heading("The machine");
        let facts = self.facts();
        page.table(&["fact", "value"], facts.iter().map(|(name, value)| cells(&[name, value])));
        page.finish()
    }

    /// An experiment; with the figure and the text of its bench if it is the bench's first.
    fn section(&self, page: &mut Page, record: &Record, first: bool) {
        let Record { test_id, test_name, date, seconds, command, .. } = record;
        page.heading(&format!("{test_id} {test_name}"));
        let (date, command) = (escape(date), escape(command));
        page.html(format_args!("<p>{date}, {seconds:.1} s, <code>{command}</code></p>\n"));
        for (name, header, rows) in tables(&record.results) {
            page.html(format_args!("<p>{}</p>", escape(&name)));
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            page.table(&header, rows.iter().map(|row| cells(row)));
        }
        if first {
            page.html(self.raw(record, ".svg").unwrap_or_default());
            let printed = self.raw(record, ".txt").unwrap_or_default();
            page.html(format_args!(
                "<details><summary>what the bench printed</summary><pre>{}</pre></details>\n",
                escape(&printed)
            ));
        }
    }

    fn measured(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.status == Status::Measured)
    }

    fn device(&self) -> String {
        let known = self.records.iter().find(|record| !record.hardware.is_empty());
        let device = |record: &Record| format!("{} ({})", record.hardware, record.rocm_version);
        known.map_or_else(|| "a device that could not be used".to_owned(), device)
    }
}

/// A table: its name, its header and its rows.
type Table = (String, Vec<String>, Vec<Vec<String>>);

/// Results as tables: one for all single values, and one for each list of objects.
fn tables(results: &Map<String, Value>) -> Vec<Table> {
    let is_list =
        |value: &Value| value.as_array().is_some_and(|all| all.iter().any(Value::is_object));
    let single = results.iter().filter(|(_, value)| !is_list(value));
    let single: Vec<_> = single.map(|(name, value)| vec![name.clone(), shown(value)]).collect();
    let mut tables = Vec::new();
    if !single.is_empty() {
        let header = ["figure", "value"].map(str::to_owned).to_vec();
        tables.push(("figures".to_owned(), header, single));
    }
    for (name, value) in results.iter().filter(|(_, value)| is_list(value)) {
        let rows: Vec<_> =
            value.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
        let Some(first) = rows.first() else { continue };
        let header: Vec<String> = first.keys().cloned().collect();
        let row = |row: &&Map<String, Value>| {
            header.iter().map(|key| row.get(key).map(shown).unwrap_or_default()).collect()
        };
        let rows = rows.iter().map(row).collect();
        tables.push((name.clone(), header, rows));
    }
    tables
}

/// A value for people.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(number) => format!("{number:.3}"),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
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

/// What can stand in a cell of a Markdown table.
fn cell(text: impl AsRef<str>) -> String {
    text.as_ref().replace('|', "\\|").replace('\n', "; ")
}

/// Cells with these texts. Verdicts have the class of their name.
fn cells(texts: &[impl AsRef<str>]) -> Vec<Cell> {
    const VERDICTS: [&str; 4] = ["PASS", "FAIL", "failed", "interrupted"];
    let cell = |text: &str| {
        let cell = Cell::text(text);
        match VERDICTS.into_iter().find(|verdict| *verdict == text) {
            Some(class) => cell.class(class),
            None => cell,
        }
    };
    texts.iter().map(|text| cell(text.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::sample;
    use super::*;

    /// The page and the text of a report.
    fn report() -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("raw")).unwrap();
        fs::write(folder.path().join("raw/preempt.svg"), "<svg>picture</svg>").unwrap();
        fs::write(folder.path().join("raw/preempt.txt"), "P99 < 100").unwrap();
        let mut measured = sample(Status::Measured, Some(true));
        measured.raw = vec!["raw/preempt.txt".into(), "raw/preempt.svg".into()];
        let rows = json!([{ "mode": "lv3", "quiet_p99_us": 12.3456 }, { "mode": "a|b" }]);
        measured.results.insert("levels".into(), rows);
        let records = [measured, sample(Status::Failed, None)];
        let facts = Facts { rocm: Some("6.4".into()), ..Facts::default() };
        let after = Facts { rocm: Some("6.5".into()), ..Facts::default() };
        let report = Report {
            machine: &Machine::here(),
            facts: &facts,
            after: &after,
            records: &records,
            folder: folder.path(),
        };
        (report.html(), report.markdown())
    }

    #[test]
    fn the_page_has_everything_and_needs_nothing() {
        let (html, _) = report();
        for part in [
            "<svg>picture</svg>",
            "P99 &lt; 100",
            "latency &lt;per&gt; level",
            "class=\"PASS\"",
            "class=\"failed\"",
            "12.346",
            "6.4; afterwards 6.5",
            "no bound by context size",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("src=") && !html.contains("href="), "it refers to nothing");
    }

    #[test]
    fn markdown_tables_stay_whole() {
        let (_, text) = report();
        assert!(text.contains("| a\\|b | - |") || text.contains("| a\\|b |  |"), "{text}");
        assert!(text.contains("| 7.3.1 |") && text.contains("| failed |"), "{text}");
        assert!(text.contains("[raw/preempt.svg](raw/preempt.svg)"), "{text}");
    }
}
