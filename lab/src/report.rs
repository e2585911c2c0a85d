//! Reports, of the benches and of the experiments: their parts, and the forms Markdown and HTML.

pub(crate) mod tables;

use std::fmt::Write;

use xsched_console::html::{self, Page};
use xsched_console::table::table;

/// How a text is set off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Faint,
}

/// A cell of a table. Numbers are at the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) is_number: bool,
    pub(crate) tone: Tone,
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// A heading; level 1 is the title.
    Heading(u8, String),
    /// A paragraph.
    Text(String, Tone),
    /// A table.
    Table(Table),
    /// A drawing.
    Drawing {
        /// The file that it is in, from the folder of the report.
        file: String,
        /// The drawing as SVG.
        svg: String,
    },
    /// Text that a bench printed, which Markdown leaves out.
    Printed(String),
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// The names of the columns.
    pub(crate) header: Vec<String>,
    /// The rows.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new<T: Into<String>>(
        header: impl IntoIterator<Item = T>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        Self {
            header: header.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
        }
    }
}

/// The table for a terminal.
pub(crate) fn printed(title: &str, of: &Table) -> String {
    let is_number =
        |n: usize| of.rows.iter().any(|row| row.get(n).is_some_and(|cell| cell.is_number));
    let name = |(n, name): (usize, &String)| {
        if is_number(n) { name.clone() } else { format!("<{name}") }
    };
    let header: Vec<String> = of.header.iter().enumerate().map(name).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = of.rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect());
    table(title, &header, rows)
}

/// A paragraph without anything special.
pub(crate) fn text(words: impl Into<String>) -> Block {
    Block::Text(words.into(), Tone::Plain)
}

/// A cell with words.
pub(crate) fn words(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), ..Cell::default() }
}

/// A cell with a count.
pub(crate) fn count(text: impl Into<String>) -> Cell {
    Cell { is_number: true, ..words(text) }
}

/// A cell with a number, empty if there is none.
pub(crate) fn number(value: Option<f64>) -> Cell {
    let text = value.map_or_else(String::new, digits);
    Cell { text, is_number: true, tone: Tone::Plain }
}

/// A cell with a part in percent, empty if there is none.
pub(crate) fn percent(part: Option<f64>) -> Cell {
    let text = part.map_or_else(String::new, |part| format!("{:.1} %", part * 100.0));
    Cell { text, is_number: true, tone: Tone::Plain }
}

impl Cell {
    /// The cell with another tone.
    pub(crate) fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// A number with about three digits that count.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// The report as Markdown, with links to the drawings.
pub(crate) fn markdown(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        // Writing to a string cannot fail.
        let _ = match block {
            Block::Heading(level, text) => {
                writeln!(out, "{} {}\n", "#".repeat((*level).into()), plain(text))
            }
            Block::Text(text, _) => writeln!(out, "{}\n", plain(text)),
            Block::Table(table) => writeln!(out, "{}", markdown_table(table)),
            Block::Drawing { file, .. } => writeln!(out, "![]({file})\n"),
            Block::Printed(_) => Ok(()),
        };
    }
    out
}

/// One line without what Markdown takes for HTML or for the end of a cell.
fn plain(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.replace('<', "&lt;").replace('|', "\\|")
}

fn markdown_table(table: &Table) -> String {
    let is_number =
        |n: usize| table.rows.first().and_then(|row| row.get(n)).is_some_and(|c| c.is_number);
    let rule = (0..table.header.len()).map(|n| if is_number(n) { "---:|" } else { "---|" });
    let mut out = format!("| {} |\n|{}\n", table.header.join(" | "), rule.collect::<String>());
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|cell| plain(&cell.text)).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

/// The report as a page that needs no other file.
pub(crate) fn page(title: &str, blocks: &[Block]) -> String {
    let mut page = Page::new(title, title);
    for block in blocks {
        match block {
            Block::Heading(1, _) => {}
            Block::Heading(2, text) => page.heading(text),
            Block::Heading(_, text) => {
                page.html(format_args!("<h3>{}</h3>\n", html::escape(text)));
            }
            Block::Text(text, tone) => page.html(format_args!(
                "<p class=\"{}\">{}</p>\n",
                class(*tone, false),
                html::escape(text)
            )),
            Block::Table(table) => {
                let cell = |cell: &Cell| {
                    html::Cell::text(&cell.text).class(class(cell.tone, cell.is_number))
                };
                let rows = table.rows.iter().map(|row| row.iter().map(cell).collect());
                let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
                page.table(&header, rows);
            }
            Block::Drawing { svg, .. } => page.picture(svg),
            Block::Printed(text) => page.html(format_args!(
                "<details><summary>what the bench printed</summary><pre>{}</pre></details>\n",
                html::escape(text)
            )),
        }
    }
    page.finish()
}

const fn class(tone: Tone, is_number: bool) -> &'static str {
    match (tone, is_number) {
        (Tone::Plain, false) => "",
        (Tone::Plain, true) => "n",
        (Tone::Good, _) => "good",
        (Tone::Bad, _) => "bad",
        (Tone::Faint, _) => "faint",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> Vec<Block> {
        let row = vec![words("a|b").toned(Tone::Bad), number(Some(1.2345)), percent(None)];
        vec![
            Block::Heading(1, "title".into()),
            Block::Heading(2, "part".into()),
            text("words <b>\nnext"),
            Block::Table(Table::new(["name", "value", "error"], [row])),
        ]
    }

    #[test]
    fn what_forms_give_a_meaning_is_escaped() {
        let text = markdown(&blocks());
        assert!(text.starts_with("# title\n\n## part\n\nwords &lt;b> next\n"), "{text}");
        assert!(text.contains("|---|---:|---:|\n| a\\|b | 1.23 |  |\n"), "{text}");
        let html = page("title", &blocks());
        assert_eq!(html.matches("<h1>").count(), 1);
        for part in ["<h2>part</h2>", "words &lt;b&gt;", "<td class=\"bad\">a|b</td>"] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn numbers_have_the_digits_that_count() {
        let shown = [0.012_34, 1.234, 12.34, 123.4, -5.0].map(digits);
        assert_eq!(shown, ["0.012", "1.23", "12.3", "123", "-5.00"]);
        assert_eq!(percent(Some(0.0567)).text, "5.7 %");
    }
}
