//! The one error type of this module: one line that names the file, the line and the key.

use std::io;
use std::path::Path;

/// Longest key path that an error shows, in characters.
const MAX_KEY: usize = 200;
/// Longest message that an error shows, in characters.
const MAX_MESSAGE: usize = 600;

/// Why a scenario or one of its trace files cannot be used.
///
/// Its `Display` form is always a single line:
///
/// ```text
/// scenarios/x.toml:12: device[0].launch_queue: must be at least 4, is 2
/// scenarios: is a folder; name a file in it
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", self.place())]
#[non_exhaustive]
pub struct ScenarioError {
    /// The file with the mistake, as it was given by the caller or by the scenario.
    pub file: String,
    /// The line of the mistake, from 1; 0, with an empty key, if the file cannot be read.
    pub line: usize,
    /// The path of the key, such as `task[2].arrival.period_ms`; array elements count from 0. It is
    /// the name of a column for a trace file, `file` where the whole file is at fault and `syntax`
    /// where a line is not TOML and has no key.
    pub key: String,
    /// Problem, in one line of at most 600 characters.
    pub message: String,
}

impl ScenarioError {
    /// Makes an error. Line breaks and other control characters in the arguments are escaped and
    /// overlong ones are cut, so that the error stays one line whatever the input was.
    pub fn new(file: &Path, line: usize, key: &str, message: &str) -> Self {
        Self {
            file: one_line(&file.to_string_lossy(), usize::MAX),
            line,
            key: one_line(key, MAX_KEY),
            message: one_line(message, MAX_MESSAGE),
        }
    }

    /// The error for a file that cannot be read.
    pub(super) fn unread(file: &Path, error: &io::Error) -> Self {
        let message = match error.kind() {
            io::ErrorKind::IsADirectory => "is a folder; name a file in it".to_owned(),
            _ => format!("cannot be read: {error}"),
        };
        Self::new(file, 0, "", &message)
    }

    /// Where the mistake is.
    fn place(&self) -> String {
        let Self { file, line, key, .. } = self;
        if *line == 0 { file.clone() } else { format!("{file}:{line}: {key}") }
    }
}

/// `text` with everything that could break the line escaped, cut after `max` characters.
fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == max {
            line.push_str("...");
            break;
        }
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}
