//! The report, as Markdown and as a page that needs no other file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value};

use super::facts::Facts;
use super::questions;
use super::record::{Record, Status};
use crate::console::table::table;
use crate::html::{Cell, Page, escape};
use crate::judge::INTERRUPT_US;
use crate::machine::Machine;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:75em;margin:1.5em auto;padding:0 1em;\
    color:#222}h1{font-size:1.5em;margin:.3em 0}table{border-collapse:collapse;margin:.6em 0}\
    td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left;vertical-align:top}\
    th{background:#f3f3f3}.wide{overflow-x:auto}.short td,.short th{white-space:nowrap}\
    .first{display:flex;flex-wrap:wrap;gap:0 2em}.first>:last-child{flex:1 1 30em}\
    pre{background:#f7f7f7;padding:.6em;overflow-x:auto;font-size:12px}svg{max-width:100%;\
    height:auto}code{overflow-wrap:anywhere}.PASS{color:#060}\
    .FAIL,.failed,.interrupted{color:#a00;font-weight:bold}";
/// Columns of a table, at most: more are not of a bench.
const COLUMNS_MAX: usize = 64;
/// The experiment whose figures come first, if it was run.
const HEADLINE: &str = "7.3.1";

/// What a report is made from.
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

/// What is printed at the end.
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

/// Whether the experiment can be run here.
fn is_run(record: &Record) -> bool {
    record.status != Status::NotRun
}

/// How many experiments there are of each verdict.
fn counts(records: &[Record]) -> String {
    let mut verdicts: Vec<(&str, usize)> = Vec::new();
    for record in records.iter().filter(|record| is_run(record)) {
        let verdict = record.verdict();
        match verdicts.iter_mut().find(|(known, _)| *known == verdict) {
            Some((_, count)) => *count += 1,
            None => verdicts.push((verdict, 1)),
        }
    }
    let verdicts = verdicts.iter().map(|(verdict, count)| format!("{count} {verdict}"));
    let run = records.iter().filter(|record| is_run(record)).count();
    let elsewhere = records.len() - run;
    let parts: Vec<String> = verdicts.collect();
    let quick = records.iter().any(|record| record.quick && is_run(record));
    let why = if quick { " (few samples give no verdict)" } else { "" };
    format!("{run} experiments: {}{why}; {elsewhere} are not for this machine", parts.join(", "))
}

impl Report<'_> {
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
        let changed = |name: &str, value: &str| {
            let later = after.get(name);
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
        (self.raw)(file)
    }

    /// For people and for version control.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("# Benches on {}\n\n", self.device());
        for line in self.bounds() {
            let _ = writeln!(text, "- {line}");
        }
        text += "\n| test | what | goal | verdict | notes |\n|---|---|---|---|---|\n";
        for record in self.records.iter().filter(|record| is_run(record)) {
            let Record { test_id, test_name, goal, notes, .. } = record;
            let verdict = record.verdict();
            let cells = [test_id, test_name, goal, verdict, notes].map(cell);
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        for record in self.measured() {
            let _ = write!(text, "\n## {} {}\n\n", record.test_id, cell(&record.test_name));
            let _ =
                write!(text, "{}, {:.1} s, `{}`\n\n", record.date, record.seconds, record.command);
            for (name, header, rows) in tables(&record.results) {
                let _ = write!(text, "{}\n\n{}\n", cell(name), as_markdown(&header, &rows));
            }
            let files: Vec<_> = record.raw.iter().map(|file| format!("[{file}]({file})")).collect();
            let _ = writeln!(text, "Raw data: {}", files.join(", "));
        }
        text += "\n## Not for this machine\n\n";
        for Record { test_id, test_name, notes, .. } in self.elsewhere() {
            let _ = writeln!(text, "- {test_id} {}: {}", cell(test_name), cell(notes));
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
        page.paragraph(&counts(self.records));
        let shown = self.headline(&mut page);
        self.verdicts(&mut page);
        self.questions(&mut page);
        let mut shown: Vec<&str> = shown.into_iter().collect();
        for record in self.measured() {
            let first = !shown.contains(&record.command.as_str());
            shown.push(&record.command);
            self.section(&mut page, record, first);
        }
        page.heading("Not for this machine");
        let reason = |record: &Record| cells(&[&record.test_id, &record.test_name, &record.notes]);
        page.table(&["test", "what", "why"], self.elsewhere().map(reason));
        page.heading("The machine");
        let facts = self.facts();
        page.table(&["fact", "value"], facts.iter().map(|(name, value)| cells(&[name, value])));
        page.finish()
    }

    /// The figures that matter most beside their picture, or the first picture that there is.
    /// Returns the command whose picture it is.
    fn headline(&self, page: &mut Page) -> Option<&str> {
        let is_headline = |record: &&Record| record.test_id == HEADLINE;
        let first = self.measured().find(is_headline);
        let drawn = first.into_iter().chain(self.measured());
        let picture = drawn.filter_map(|record| Some((record, self.raw(record, ".svg")?))).next();
        page.html("<div class=\"first\">");
        let levels = first.and_then(|record| record.results.get("levels")?.as_array());
        if let Some(levels) = levels {
            let rows: Vec<_> = levels.iter().filter_map(Value::as_object).collect();
            let wanted = |key: &&str| *key == "mode" || key.starts_with("quiet_");
            let keys: Vec<&str> = columns(&rows).into_iter().filter(wanted).collect();
            page.html("<div><p>From a hold until the queue is quiet</p><div class=\"short\">");
            let header: Vec<String> = keys.iter().map(|key| heading(key)).collect();
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            page.table(&header, rows.iter().map(|row| cells(&values(&keys, row))));
            page.html("</div></div>");
        }
        let (record, svg) = picture.unzip();
        page.html(format_args!("<div>{}</div></div>\n", svg.unwrap_or_default()));
        record.map(|record| record.command.as_str())
    }

    /// A line for each experiment that can be run here.
    fn verdicts(&self, page: &mut Page) {
        let header = ["test", "what", "goal", "verdict", "notes"];
        let row = |record: &Record| {
            let Record { test_id, test_name, goal, notes, .. } = record;
            let verdict = Cell::text(record.verdict()).class(record.verdict());
            let [id, name, goal, notes] = [test_id, test_name, goal, notes].map(Cell::text);
            vec![id, name, goal, verdict, notes]
        };
        page.table(&header, self.records.iter().filter(|record| is_run(record)).map(row));
        page.html("<ul>");
        for line in self.bounds() {
            page.html(format_args!("<li>{}</li>", escape(&line)));
        }
        page.html("</ul>\n");
    }

    /// The questions, each with the figures that settle it or with why there are none.
    fn questions(&self, page: &mut Page) {
        page.heading("What the figures say");
        for (asks, answer) in questions::all(self.records) {
            page.html(format_args!("<h3>{}</h3>\n", escape(asks)));
            match answer {
                Ok((_, header, rows)) => {
                    let header: Vec<&str> = header.iter().map(String::as_str).collect();
                    page.html("<div class=\"short\">");
                    page.table(&header, rows.iter().map(|row| cells(row)));
                    page.html("</div>");
                }
                Err(why) => page.paragraph(&format!("Not known: {why}.")),
            }
        }
    }

    /// An experiment; with the figure and the text of its bench if it is the bench's first.
    fn section(&self, page: &mut Page, record: &Record, first: bool) {
        let Record { test_id, test_name, date, seconds, command, .. } = record;
        page.heading(&format!("{test_id} {test_name}"));
        let (date, command) = (escape(date), escape(command));
        page.html(format_args!("<p>{date}, {seconds:.1} s, <code>{command}</code></p>\n"));
        for (name, header, rows) in tables(&record.results) {
            page.html(format_args!("<p>{}</p><div class=\"short\">", escape(&name)));
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            page.table(&header, rows.iter().map(|row| cells(row)));
            page.html("</div>");
        }
        if first {
            page.html(self.raw(record, ".svg").unwrap_or_default());
        }
        let printed = self.raw(record, ".txt").filter(|_| first || record.test_id == HEADLINE);
        if let Some(printed) = printed {
            page.html(format_args!(
                "<details><summary>what the bench printed</summary><pre>{}</pre></details>\n",
                escape(&printed)
            ));
        }
    }

    /// The experiments that cannot be run here.
    fn elsewhere(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| !is_run(record))
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
pub(super) type Table = (String, Vec<String>, Vec<Vec<String>>);

/// A table as Markdown.
pub(super) fn as_markdown(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(cell).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{}\n{rows}", line(header), "---|".repeat(header.len()))
}

/// Rows as a table, with these columns as far as a row has them, or with all.
pub(super) fn table_of(name: &str, rows: &[&Map<String, Value>], wanted: &[&str]) -> Table {
    let mut keys = columns(rows);
    if !wanted.is_empty() {
        let known = keys;
        keys = wanted.iter().copied().filter(|key| known.contains(key)).collect();
    }
    let header = keys.iter().map(|key| heading(key)).collect();
    (name.to_owned(), header, rows.iter().map(|row| values(&keys, row)).collect())
}

/// Results as tables: one for all single values, and one for each list of objects.
fn tables(results: &Map<String, Value>) -> Vec<Table> {
    let is_list =
        |value: &Value| value.as_array().is_some_and(|all| all.iter().any(Value::is_object));
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let single = results.iter().filter(|(_, value)| !is_list(value) && !is_empty(value));
    let single: Vec<_> = single.map(|(name, value)| vec![heading(name), shown(value)]).collect();
    let mut tables = Vec::new();
    if !single.is_empty() {
        let header = ["figure", "value"].map(str::to_owned).to_vec();
        tables.push(("figures".to_owned(), header, single));
    }
    for (name, value) in results.iter().filter(|(_, value)| is_list(value)) {
        let rows: Vec<_> =
            value.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
        tables.push(table_of(&heading(name), &rows, &[]));
    }
    tables
}

/// What a row has under these keys, for people.
fn values(keys: &[&str], row: &Map<String, Value>) -> Vec<String> {
    keys.iter().map(|key| row.get(*key).map_or("-".to_owned(), shown)).collect()
}

/// The keys of all rows that have a value in one: words first, since they say what a row is about,
/// and what was asked of it last.
fn columns<'a>(rows: &[&'a Map<String, Value>]) -> Vec<&'a str> {
    let mut keys: Vec<(u8, &str)> = Vec::new();
    for (key, value) in rows.iter().flat_map(|row| row.iter()) {
        let is_new = keys.len() < COLUMNS_MAX && keys.iter().all(|(_, known)| known != key);
        if !value.is_null() && is_new {
            let place = match (key.as_str(), value) {
                ("goal" | "reached" | "error", _) => 2,
                (_, Value::String(_)) => 0,
                _ => 1,
            };
            keys.push((place, key));
        }
    }
    keys.sort_by_key(|(place, _)| *place);
    keys.into_iter().map(|(_, key)| key).collect()
}

/// A key of a record for people: `quiet_p99_us` is `quiet P99 (µs)`.
fn heading(key: &str) -> String {
    const UNITS: [(&str, &str); 4] = [("ns", "ns"), ("us", "µs"), ("ms", "ms"), ("percent", "%")];
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let mut text = String::new();
    let mut before = "";
    for word in key.split('_') {
        let unit = UNITS.iter().find(|(known, _)| *known == word).map(|(_, unit)| *unit);
        let rest = word.get(1..).filter(|rest| is_number(rest));
        let shown = match (unit, rest, word) {
            (Some(unit), ..) if is_number(before) => unit.to_owned(),
            (Some(unit), ..) => format!("({unit})"),
            (_, Some(number), _) if word.starts_with('p') => format!("P{number}"),
            _ if word.strip_prefix("lv").is_some_and(is_number) => word.replacen("lv", "Lv", 1),
            (.., "max") => "longest".to_owned(),
            _ => word.to_owned(),
        };
        text += if text.is_empty() { "" } else { " " };
        text += &shown;
        before = word;
    }
    text
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
pub(super) fn cell(text: impl AsRef<str>) -> String {
    text.as_ref().replace('|', "\\|").replace('<', "&lt;").replace('\n', "; ")
}

/// Cells with these texts.
fn cells(texts: &[impl AsRef<str>]) -> Vec<Cell> {
    texts.iter().map(Cell::text).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn the_page_begins_with_its_verdicts_and_a_picture_and_ends_with_what_cannot_be_run() {
        let (html, text) = report();
        let at = |part: &str| html.find(part).unwrap_or_else(|| panic!("{part}: {html}"));
        let counts = "2 experiments: 1 PASS, 1 failed (few samples give no verdict); 1 are not";
        assert!(at(counts) < at("<svg>"));
        assert!(at("<svg>") < at("<th>verdict</th>"), "before the table of all experiments");
        assert_eq!(html.matches("<svg>").count(), 1);
        assert!(at("needs PyTorch") > at("what the bench printed"));
        assert!(!html.contains(">not run<") && text.contains("- 8.1.1 preemption"), "{text}");
    }

    #[test]
    fn only_verdicts_are_coloured_and_columns_without_values_are_left_out() {
        let (html, text) = report();
        assert!(html.contains("<td>interrupted</td>"), "{html}");
        assert!(html.contains("<th>mode</th><th>victims</th><th>quiet P99 (µs)</th></tr>"));
        assert!(!html.contains("stopped") && !text.contains("stopped"));
        assert!(html.contains("<div class=\"wide\"><table>") && STYLE.contains(".wide{overflow-x"));
    }

    #[test]
    fn a_table_has_no_more_columns_than_can_be_of_a_bench() {
        let row: Map<String, Value> = (0..10_000).map(|n| (n.to_string(), n.into())).collect();
        let (_, header, rows) = table_of("hostile", &[&row, &row], &[]);
        assert_eq!((header.len(), rows[1].len()), (COLUMNS_MAX, COLUMNS_MAX));
    }

    #[test]
    fn keys_are_headings() {
        for (key, words) in [
            ("quiet_p99_us", "quiet P99 (µs)"),
            ("smallest_below_3_percent", "smallest below 3 %"),
            ("lv1_over_lv3_p99_at_500_us", "Lv1 over Lv3 P99 at 500 µs"),
            ("requests_per_s", "requests per s"),
            ("first_percent", "first (%)"),
            ("max_ms", "longest (ms)"),
            ("processes", "processes"),
        ] {
            assert_eq!(heading(key), words);
        }
    }

    #[test]
    fn markdown_tables_stay_whole() {
        let (_, text) = report();
        assert!(text.contains("| a\\|b | interrupted | - |"), "{text}");
        assert!(text.contains("| 7.3.1 |") && text.contains("| failed |"), "{text}");
        assert!(text.contains("[raw/preempt.svg](raw/preempt.svg)"), "{text}");
    }
}
