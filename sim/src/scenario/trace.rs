//! Trace files: one arrival per line, `at_ms[,commands[,command_us]]`.

use std::path::Path;
use std::str::FromStr;

use super::error::ScenarioError;
use super::model::TraceRow;
use super::raw::Number;
use super::value::to_ns;
use super::{MAX_COMMANDS, MAX_TRACE_ROWS};

/// The columns, in order.
const COLUMNS: [&str; 3] = ["at_ms", "commands", "command_us"];

/// A column's name and what is wrong with the value in it.
type Problem = (&'static str, String);

/// Reads a trace file.
pub(super) fn parse(bytes: &[u8], file: &Path) -> Result<Vec<TraceRow>, ScenarioError> {
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error, file))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rows: Vec<TraceRow> = Vec::new();
    let mut header_allowed = true;
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if std::mem::take(&mut header_allowed) && is_header(line) {
            continue;
        }
        let previous = rows.last().map_or(0, |row| row.at_ns);
        let row = row(line, previous).and_then(|row| {
            if rows.len() < MAX_TRACE_ROWS {
                Ok(row)
            } else {
                Err(("at_ms", format!("too many rows; at most {MAX_TRACE_ROWS} are read")))
            }
        });
        match row {
            Ok(row) => rows.push(row),
            Err((column, problem)) => {
                return Err(ScenarioError::new(file, n + 1, column, &problem));
            }
        }
    }
    if rows.is_empty() {
        return Err(ScenarioError::new(file, 1, "file", "must have at least one row"));
    }
    Ok(rows)
}

/// An error for a file that is not UTF-8, with the line of the first bad byte.
pub(super) fn not_utf8(bytes: &[u8], error: std::str::Utf8Error, file: &Path) -> ScenarioError {
    let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let line = 1 + good.iter().filter(|b| **b == b'\n').count();
    ScenarioError::new(file, line, "file", "is not UTF-8 text")
}

fn is_header(line: &str) -> bool {
    line.split(',').map(str::trim).zip(COLUMNS).all(|(cell, column)| cell == column)
        && line.split(',').count() <= COLUMNS.len()
}

fn row(line: &str, previous_ns: u64) -> Result<TraceRow, Problem> {
    let mut cells = line.split(',').map(str::trim);
    let at_ns = time(cells.next().unwrap_or_default(), "at_ms", 1_000_000)?;
    if at_ns < previous_ns {
        return Err(("at_ms", "must not be before the row above".to_owned()));
    }
    let commands = match cells.next() {
        None | Some("") => 0,
        Some(cell) => commands(cell)?,
    };
    let command_ns = match cells.next() {
        None | Some("") => 0,
        Some(cell) => time(cell, "command_us", 1_000)?,
    };
    match cells.next() {
        None => Ok(TraceRow { at_ns, commands, command_ns }),
        Some(_) => Err(("command_us", "must be the last column".to_owned())),
    }
}

fn commands(cell: &str) -> Result<u32, Problem> {
    match i128::from_str(cell) {
        Ok(n) if (0..=i128::from(MAX_COMMANDS)).contains(&n) => Ok(n as u32),
        Ok(n) if n < 0 => Err(("commands", format!("must be at least 0, is {n}"))),
        Ok(n) => Err(("commands", format!("must be at most {MAX_COMMANDS}, is {n}"))),
        Err(_) => Err(("commands", format!("must be an integer, is {cell:?}"))),
    }
}

fn time(cell: &str, column: &'static str, unit_ns: u32) -> Result<u64, Problem> {
    let Ok(value) = f64::from_str(cell) else {
        return Err((column, format!("must be a number, is {cell:?}")));
    };
    to_ns(Number::Float(value), unit_ns).map_err(|problem| (column, problem))
}
