//! Times carry their unit in the last part of their key: `detect_us` and `detect_ms` are the same
//! setting. The raw layer reads both spellings into one field; which one was used is recorded here,
//! by where the value stands in the text.

use std::collections::HashMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// A unit that a key can end in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Microseconds,
    Milliseconds,
    Seconds,
}

impl Unit {
    /// Length of the unit in nanoseconds.
    pub(super) fn ns(self) -> u32 {
        match self {
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
            Self::Seconds => 1_000_000_000,
        }
    }
}

/// Splits `detect_us` into `detect` and its unit; a key that is only a unit has an empty stem.
pub(super) fn split(key: &str) -> Option<(&str, Unit)> {
    let (stem, unit) = key.rsplit_once('_').unwrap_or(("", key));
    let unit = match unit {
        "us" => Unit::Microseconds,
        "ms" => Unit::Milliseconds,
        "s" => Unit::Seconds,
        _ => return None,
    };
    Some((stem, unit))
}

/// The unit of every value whose key ends in one.
#[derive(Debug, Default)]
pub(super) struct Units {
    /// By the byte at which the value starts.
    by_start: HashMap<usize, Unit>,
}

/// A time that a table gives in two units.
pub(super) struct GivenTwice {
    /// Where the second key is.
    pub(super) span: Range<usize>,
    /// The first key.
    pub(super) first: String,
}

impl Units {
    /// Records the units of a document, or finds a table that gives the same time twice. Goes
    /// through the document with a list of its own instead of recursion: how deep it is nested is
    /// up to the input.
    pub(super) fn scan(root: &DeTable<'_>) -> Result<Self, GivenTwice> {
        let mut units = Self::default();
        let mut tables = vec![root];
        let mut arrays = Vec::new();
        loop {
            if let Some(table) = tables.pop() {
                units.scan_table(table)?;
                for value in table.values() {
                    descend(value.get_ref(), &mut tables, &mut arrays);
                }
            } else if let Some(array) = arrays.pop() {
                for value in array {
                    descend(value.get_ref(), &mut tables, &mut arrays);
                }
            } else {
                return Ok(units);
            }
        }
    }

    fn scan_table(&mut self, table: &DeTable<'_>) -> Result<(), GivenTwice> {
        let mut seen = HashMap::new();
        for (key, value) in table {
            let Some((stem, unit)) = split(key.get_ref()) else { continue };
            self.by_start.insert(value.span().start, unit);
            if let Some(other) = seen.insert(stem, key) {
                let (first, second) =
                    if other.span().start < key.span().start { (other, key) } else { (key, other) };
                let first = first.get_ref().to_string();
                return Err(GivenTwice { span: second.span(), first });
            }
        }
        Ok(())
    }

    /// The unit of the value that starts at this byte.
    pub(super) fn at(&self, start: usize) -> Option<Unit> {
        self.by_start.get(&start).copied()
    }
}

fn descend<'a, 'i>(
    value: &'a DeValue<'i>,
    tables: &mut Vec<&'a DeTable<'i>>,
    arrays: &mut Vec<&'a toml::de::DeArray<'i>>,
) {
    match value {
        DeValue::Table(table) => tables.push(table),
        DeValue::Array(array) => arrays.push(array),
        _ => {}
    }
}
