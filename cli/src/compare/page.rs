//! The page of a comparison: the table, the pictures, the scenario and the command, in one file.

use std::env;

use xsched_console::html::{Cell, Page, escape};
use xsched_sim::report::Comparison;
use xsched_sim::scenario::{ReadFile, Scenario};

use crate::text::{COMPARISON_HEADER, COMPARISON_TITLE, comparison_rows};

/// Longest file that the page has in full, in bytes; a trace may be longer.
const MAX_SHOWN: usize = 64 << 10;

/// Contents of a page.
pub(super) struct Shown<'a> {
    pub(super) scenario: &'a Scenario,
    /// The files of the scenario.
    pub(super) files: &'a [ReadFile],
    pub(super) comparison: &'a Comparison,
    /// Seeds that were run, in words.
    pub(super) seeds: &'a str,
    /// The lines about overloads and checks.
    pub(super) notes: &'a str,
    /// The pictures.
    pub(super) svg: &'a str,
}

/// The page. It has no times of this computation, so the same command gives the same bytes.
pub(super) fn page(shown: &Shown<'_>) -> String {
    let Scenario { name, description, .. } = shown.scenario;
    let title = format!("Policies compared: {name}");
    let mut page = Page::new(&title, &title);
    if !description.is_empty() {
        page.paragraph(description);
    }
    let version = env!("CARGO_PKG_VERSION");
    page.paragraph(&format!("Simulated by xsched {version}; {}.", shown.seeds));
    page.html(format_args!("<pre>{}</pre>\n", escape(&command())));
    page.heading("Figures");
    page.paragraph(COMPARISON_TITLE);
    let header = COMPARISON_HEADER.map(|name| name.trim_start_matches('<'));
    page.table(&header, comparison_rows(shown.comparison).map(cells));
    for note in shown.notes.lines() {
        page.paragraph(note);
    }
    page.heading("Latency distributions");
    page.picture(shown.svg);
    page.heading("The scenario");
    for (index, ReadFile { path, content }) in shown.files.iter().enumerate() {
        let open = if index == 0 { " open" } else { "" };
        page.html(format_args!(
            "<details{open}><summary>{}</summary>\n<pre>{}</pre></details>\n",
            escape(&path.display().to_string()),
            escape(&text(content)),
        ));
    }
    page.finish()
}

/// The cells of a row, numbers to the right.
fn cells(row: Vec<String>) -> Vec<Cell> {
    let cell = |(text, heading): (String, &str)| {
        let cell = Cell::text(text);
        if heading.starts_with('<') { cell } else { cell.class("n") }
    };
    row.into_iter().zip(COMPARISON_HEADER).map(cell).collect()
}

/// The content of a file, if it is not too long for the page.
fn text(content: &[u8]) -> String {
    if content.len() > MAX_SHOWN {
        return format!("{} bytes, too long to be shown here", content.len());
    }
    String::from_utf8_lossy(content).into_owned()
}

/// The command line of this process, as one would type it.
fn command() -> String {
    let words = env::args_os().map(|word| quoted(&word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

/// A word as a POSIX shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let words = ["sim", "a/b.toml", "fcfs,hpf", "", "my file", "it's", "$HOME"].map(quoted);
        let expected = ["sim", "a/b.toml", "fcfs,hpf", "''", "'my file'", r"'it'\''s'", "'$HOME'"];
        assert_eq!(words, expected);
    }

    #[test]
    fn long_files_are_left_out() {
        assert_eq!(text(b"version = 1\n"), "version = 1\n");
        assert_eq!(text(&vec![b'x'; MAX_SHOWN + 1]), "65537 bytes, too long to be shown here");
    }
}
