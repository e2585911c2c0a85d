//! Questions of the test plan, each with the figures that settle it.

use serde_json::{Map, Value};

use crate::record::experiment::{Record, Status};
use crate::report::tables::table_of;
use crate::report::{Block, Table, text};

type Row = Map<String, Value>;

/// A question about a device, and where its answer is.
struct Question {
    asks: &'static str,
    /// The experiment, and the list in its results.
    from: (&'static str, &'static str),
    /// Columns taken of each row of the list; all if empty.
    columns: &'static [&'static str],
    /// Rows that are about it.
    about: fn(&Row) -> bool,
}

const fn question(
    asks: &'static str,
    from: (&'static str, &'static str),
    columns: &'static [&'static str],
    about: fn(&Row) -> bool,
) -> Question {
    Question { asks, from, columns, about }
}

fn is(row: &Row, key: &str, value: impl Into<Value>) -> bool {
    row.get(key) == Some(&value.into())
}

/// Vector registers, on the whole device, with no other process.
fn is_plain(row: &Row) -> bool {
    is(row, "kind", "alu") && is(row, "share", "full") && is(row, "processes", 0)
}

fn waits_for_others(row: &Row) -> bool {
    is(row, "kind", "cooperative") || is(row, "kind", "meeting")
}

const QUESTIONS: [Question; 14] = [
    question(
        "How long does an interrupt take with each mechanism, and what of it is the driver's call?",
        ("lv3-latency", "combinations"),
        &[
            "mechanism",
            "quiet_p50_us",
            "quiet_p99_us",
            "hold_p50_us",
            "hold_p99_us",
            "resume_p50_us",
        ],
        |row| is_plain(row) && is(row, "queues", 1),
    ),
    question(
        "Does it depend on how full the device is, on registers or local memory?",
        ("lv3-latency", "combinations"),
        &["mechanism", "kind", "share", "quiet_p50_us", "quiet_p99_us"],
        |row| is(row, "queues", 1) && is(row, "processes", 0),
    ),
    question(
        "Do several queues cost one preemption?",
        ("lv3-latency", "combinations"),
        &["mechanism", "queues", "quiet_p50_us", "hold_p50_us", "resume_p50_us"],
        is_plain,
    ),
    question(
        "Does it take longer beside other processes?",
        ("lv3-latency", "combinations"),
        &["mechanism", "processes", "quiet_p50_us", "quiet_p99_us", "hold_p50_us"],
        |row| !is(row, "processes", 0),
    ),
    question(
        "Does it reach cooperative kernels? `ran on` counts trials after which the kernel ran.",
        ("lv3-latency", "combinations"),
        &["mechanism", "kind", "share", "samples", "ran_on"],
        waits_for_others,
    ),
    question("Do results survive?", ("lv3-results", "kinds"), &[], |_| true),
    question(
        "Does Lv3 beat Lv2, and from which length of commands on?",
        ("7.3.2", "lengths"),
        &["mode", "command_us", "quiet_p50_us", "quiet_p99_us"],
        |_| true,
    ),
    question(
        "Do other calls block while queues are interrupted?",
        ("lv3-meanwhile", "calls"),
        &[],
        |_| true,
    ),
    question(
        "Do other calls block while a stream waits at its gate?",
        ("lv2-firsts", "calls"),
        &[],
        |_| true,
    ),
    question("Where is a gate's word best?", ("lv2-words", "places"), &[], |_| true),
    question(
        "Do threads of BERT wait on the device or on the host?",
        ("5.2-kernels", "threads"),
        &[],
        |_| true,
    ),
    question("What does the runtime cost?", ("7.4.1", "rows"), &[], |_| true),
    question(
        "Does an urgent task run beside a background as if alone?",
        ("7.2.1", "backgrounds"),
        &[],
        |_| true,
    ),
    question(
        "Do PyTorch's operators and BERT have the same results under `xsched run`, and what does it cost?",
        ("4.2.1", "programs"),
        &[],
        |_| true,
    ),
];

impl Question {
    /// Returns what the records say, or why they say nothing.
    fn answer(&self, records: &[Record]) -> Result<Table, String> {
        let (id, list) = self.from;
        let record = records.iter().find(|record| record.test_id == id);
        let record = record.ok_or_else(|| format!("no record of `{id}`"))?;
        if record.status != Status::Measured {
            let why = if record.notes.is_empty() { "no reason is said" } else { &record.notes };
            return Err(format!("`{id}` {}: {why}", record.status.word()));
        }
        let rows = record.results.get(list).and_then(Value::as_array);
        let rows = rows.into_iter().flatten().filter_map(Value::as_object);
        let rows: Vec<&Row> = rows.filter(|row| (self.about)(row)).collect();
        if rows.is_empty() {
            return Err(format!("`{id}` has no figures for this"));
        }
        Ok(table_of(&rows, self.columns))
    }
}

/// A section for each question, with the figures that settle it, or why there are none.
pub(super) fn blocks(records: &[Record]) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, "What the figures say".to_owned())];
    for question in &QUESTIONS {
        blocks.push(Block::Heading(3, question.asks.to_owned()));
        match question.answer(records) {
            Ok(table) => {
                blocks.extend([text(format!("From `{}`.", question.from.0)), Block::Table(table)]);
            }
            Err(why) => blocks.push(text(format!("Not known: {why}."))),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::plan;
    use super::*;
    use crate::record::experiment::sample;

    #[test]
    fn every_question_is_about_an_experiment_that_there_is() {
        assert!(QUESTIONS.iter().all(|question| plan::ids().contains(&question.from.0)));
    }

    #[test]
    fn figures_are_set_beside_the_question_that_they_settle() {
        let row = |mechanism: &str, queues: u32, quiet: f64| {
            json!({
                "mechanism": mechanism, "kind": "alu", "share": "full", "queues": queues,
                "processes": 0, "quiet_p50_us": quiet, "hold_p50_us": 2.0,
            })
        };
        let mut record = sample(Status::Measured, None);
        record.test_id = "lv3-latency".into();
        let rows = json!([row("debug-trap", 1, 410.5), row("update-queue", 4, 99.25)]);
        record.results.insert("combinations".into(), rows);
        let mut failed = sample(Status::Failed, None);
        (failed.test_id, failed.notes) = ("lv3-results".into(), "it hung".into());
        let text = crate::report::markdown(&blocks(&[record, failed]));
        let section = |asks: &str| {
            let from = text.split("\n### ").find(|part| part.starts_with(asks));
            from.unwrap_or_else(|| panic!("{asks}: {text}"))
        };
        let first = section("How long");
        assert!(first.contains("| debug-trap | 410.500 |"), "{first}");
        assert!(!first.contains("update-queue"), "four queues are another question: {first}");
        assert!(section("Do several queues").contains("| update-queue | 4 | 99.250 |"));
        assert!(section("Do results").contains("Not known: `lv3-results` failed: it hung."));
        assert!(section("What does the runtime cost").contains("no record of `7.4.1`"));
    }
}
