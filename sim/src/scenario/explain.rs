//! The TOML library's messages in this module's words.

use super::units;

/// The key on a line that does not parse: what is in front of `=`, or the name in a header.
pub(super) fn key_of_line(line: &str) -> Option<&str> {
    let key = match line.split_once('=') {
        Some((key, _)) => key.trim(),
        None => line.trim().strip_prefix('[')?.trim_matches(['[', ']', ' ']),
    };
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (!key.is_empty() && key.chars().all(is_bare)).then_some(key)
}

/// An unknown key or a wrong type.
pub(super) fn shape(message: &str, is_date: bool) -> String {
    if let Some(rest) = message.strip_prefix("unknown field ") {
        if is_date {
            return "must not be a date".to_owned();
        }
        // The unknown key itself comes first in backticks, then those that are known.
        let mut quoted = rest.split('`').skip(1).step_by(2);
        if let Some(key) = quoted.next() {
            return unknown_key(key, &quoted.collect::<Vec<_>>());
        }
    }
    let parts = message.split_once(": ").and_then(|(problem, rest)| {
        let wrong = matches!(problem, "invalid type" | "invalid value" | "invalid length");
        rest.rsplit_once(", expected ").filter(|_| wrong)
    });
    match parts {
        Some((found, expected)) => {
            let found = if is_date { "a date" } else { plain_type(found) };
            format!("must be {}, is {}", plain_type(expected), found.replace('`', ""))
        }
        None => message.to_owned(),
    }
}

/// A type in the words of the TOML specification.
fn plain_type(name: &str) -> &str {
    match name {
        "map" => "a table",
        "sequence" => "an array",
        "a sequence" => "an array",
        "a boolean" => "true or false",
        other => other.strip_prefix("floating point ").unwrap_or(other),
    }
}

/// Keys of before, and what to write instead.
const RENAMED: [(&str, &str); 2] =
    [("leaves_room", "claim = \"part\""), ("host_bound", "claim = \"little\"")];

fn unknown_key(key: &str, known: &[&str]) -> String {
    if let Some((_, now)) = RENAMED.iter().find(|(before, _)| *before == key) {
        return format!("unknown key; write `{now}` instead of `{key} = true`");
    }
    let with_us = format!("{key}_us");
    let with_ms = format!("{key}_ms");
    if known.contains(&with_us.as_str()) && known.contains(&with_ms.as_str()) {
        return format!("unknown key; a time needs its unit: `{with_us}` or `{with_ms}`");
    }
    if let Some(near) = nearest(key, known) {
        return format!("unknown key; did you mean `{near}`?");
    }
    // One spelling of a time is enough in the list.
    let mut list: Vec<_> = known.iter().copied().filter(|k| is_first_spelling(k, known)).collect();
    list.sort_unstable();
    format!("unknown key; known keys are: {}", list.join(", "))
}

fn is_first_spelling(key: &str, known: &[&str]) -> bool {
    match units::split(key) {
        Some(("", _)) => key == "us",
        Some((stem, _)) => key.ends_with("_us") || !known.contains(&format!("{stem}_us").as_str()),
        None => true,
    }
}

/// The known key that is a few typing mistakes away, if there is one.
fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let allowed = 1 + key.len() / 5;
    // A very long key is near to nothing, and comparing it would take long.
    let candidates = known.iter().filter(|k| key.len().abs_diff(k.len()) <= allowed);
    candidates
        .map(|k| (distance(key, k), *k))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, k)| k)
}

/// Levenshtein distance: insertions, deletions and replacements of single bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let above = *cell;
            left = (above + 1).min(left + 1).min(diagonal + usize::from(x != y));
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}
