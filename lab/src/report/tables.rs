//! Tables of the figures of an experiment, which are JSON.

use serde_json::{Map, Value};

use super::{Cell, Table, count, words};

/// Columns of a table, at most: more are not of a bench.
const COLUMNS_MAX: usize = 64;

/// Rows as a table, with these columns as far as a row has them, or with all.
pub(crate) fn table_of(rows: &[&Map<String, Value>], wanted: &[&str]) -> Table {
    let mut keys = columns(rows);
    if !wanted.is_empty() {
        let known = keys;
        keys = wanted.iter().copied().filter(|key| known.contains(key)).collect();
    }
    let of = |row: &&Map<String, Value>| {
        keys.iter().map(|key| value_cell(row.get(*key).unwrap_or(&Value::Null))).collect()
    };
    Table::new(keys.iter().map(|key| heading(key)), rows.iter().map(of))
}

/// Results as tables with names: one for all single values, and one for each list of objects.
pub(crate) fn tables(results: &Map<String, Value>) -> Vec<(String, Table)> {
    let is_list =
        |value: &Value| value.as_array().is_some_and(|all| all.iter().any(Value::is_object));
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let single = results.iter().filter(|(_, value)| !is_list(value) && !is_empty(value));
    let single: Vec<_> =
        single.map(|(name, value)| vec![words(heading(name)), value_cell(value)]).collect();
    let mut tables = Vec::new();
    if !single.is_empty() {
        tables.push(("figures".to_owned(), Table::new(["figure", "value"], single)));
    }
    for (name, value) in results.iter().filter(|(_, value)| is_list(value)) {
        let rows = value.as_array().into_iter().flatten().filter_map(Value::as_object);
        tables.push((heading(name), table_of(&rows.collect::<Vec<_>>(), &[])));
    }
    tables
}

fn value_cell(value: &Value) -> Cell {
    if value.is_number() { count(shown(value)) } else { words(shown(value)) }
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
pub(crate) fn shown(value: &Value) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_more_columns_than_can_be_of_a_bench() {
        let row: Map<String, Value> = (0..10_000).map(|n| (n.to_string(), n.into())).collect();
        let table = table_of(&[&row, &row], &[]);
        assert_eq!((table.header.len(), table.rows[1].len()), (COLUMNS_MAX, COLUMNS_MAX));
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
}
