//! Records of benches, as JSON.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{read, root};

/// The place of a file below `benches/results`.
pub(crate) fn root_of(path: &str) -> PathBuf {
    root().join("benches/results").join(path)
}

/// A record below `benches/results`.
pub(crate) fn record(path: &str) -> Result<Value> {
    let file = root_of(path);
    serde_json::from_str(&read(&file)?).with_context(|| format!("{}", file.display()))
}

/// A link to a record, with its name.
pub(crate) fn link(path: &str) -> String {
    link_as(&format!("`{}`", path.rsplit('/').next().unwrap_or(path)), path)
}

/// A link to a record with these words.
pub(crate) fn link_as(words: &str, path: &str) -> String {
    format!("[{words}](../../../benches/results/{path})")
}

/// The line below a table that says which command wrote the records, when, and of which commit.
pub(crate) fn source(command: &str, records: &[&str]) -> Result<String> {
    let links: Vec<_> = records.iter().map(|path| link(path)).collect();
    let first = records.first().context("a table without a record")?;
    let made = made(command, first.split('/').next().unwrap_or_default())?;
    Ok(format!("{made}: {}.\n", links.join(", ")))
}

/// The line below a table whose rows link to the records of a folder, without its end.
pub(crate) fn made(command: &str, folder: &str) -> Result<String> {
    let summary = record(&format!("{folder}/summary.json"))?;
    let (day, commit) = (text(&summary, "/date")?, text(&summary, "/commit")?);
    Ok(format!("\nBy `{command}`, {day}, commit {commit}"))
}

/// The values of a list.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value]> {
    let list = value.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).with_context(|| format!("no list `{key}`"))
}

/// A number at a JSON pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> Result<f64> {
    let number = value.pointer(pointer).and_then(Value::as_f64);
    number.with_context(|| format!("no number at `{pointer}`"))
}

/// A whole number at a JSON pointer.
pub(crate) fn whole(value: &Value, pointer: &str) -> Result<u64> {
    let number = value.pointer(pointer).and_then(Value::as_u64);
    number.with_context(|| format!("no whole number at `{pointer}`"))
}

/// A text at a JSON pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.with_context(|| format!("no text at `{pointer}`"))
}

/// The first of a list for which all pairs of key and value hold.
pub(crate) fn find<'a>(list: &'a [Value], wanted: &[(&str, Value)]) -> Result<&'a Value> {
    let fits = |value: &&Value| {
        wanted.iter().all(|(key, want)| value.get(key).unwrap_or(&Value::Null) == want)
    };
    list.iter().find(fits).with_context(|| format!("nothing with {wanted:?}"))
}
