//! What a report consists of, and its forms: Markdown, a page of HTML, and pages of PDF.

use std::fmt::Write;

use crate::html::{self, Page};
use crate::pdf::{self, Align, Flow, Tone};

/// A part of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// A heading; level 1 is the title.
    Heading(u8, String),
    /// A paragraph.
    Text(String, Tone),
    /// A table.
    Table(Table),
    /// A drawing with the name of its file.
    Drawing {
        /// The name of the file that it is in, without a folder.
        file: String,
        /// The drawing as SVG.
        svg: String,
    },
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// The names of the columns.
    pub(super) header: Vec<&'static str>,
    /// The rows.
    pub(super) rows: Vec<Vec<pdf::Cell>>,
}

const STYLE: &str = "body{font:15px/1.5 sans-serif;color:#222;max-width:1250px;margin:2em auto;\
padding:0 1em}h2{margin-top:2.2em;border-bottom:1px solid #ccc}table{border-collapse:collapse;\
width:100%;margin:1em 0;font-size:13px}th,td{border-bottom:1px solid #ddd;padding:.2em .5em;\
text-align:left;vertical-align:top}td.n{text-align:right;white-space:nowrap}.good{color:#00664d}\
.bad{color:#b30000;font-weight:bold}.faint{color:#666}.wide{overflow-x:auto}\
svg{max-width:100%;height:auto}";
/// The folder of drawings, beside the Markdown.
pub(super) const DRAWINGS: &str = "figures";

/// A paragraph without anything special.
pub(super) fn text(words: impl Into<String>) -> Block {
    Block::Text(words.into(), Tone::Plain)
}

/// A cell with words.
pub(super) fn words(text: impl Into<String>) -> pdf::Cell {
    pdf::Cell { text: text.into(), ..pdf::Cell::default() }
}

/// A cell with a number, empty if there is none.
pub(super) fn number(value: Option<f64>) -> pdf::Cell {
    let text = value.map_or_else(String::new, digits);
    pdf::Cell { text, align: Align::Right, tone: Tone::Plain }
}

/// A cell with a part in percent, empty if there is none.
pub(super) fn percent(part: Option<f64>) -> pdf::Cell {
    let text = part.map_or_else(String::new, |part| format!("{:.1} %", part * 100.0));
    pdf::Cell { text, align: Align::Right, tone: Tone::Plain }
}

impl pdf::Cell {
    /// The cell with another tone.
    pub(super) fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// A number with about three digits that count.
pub(super) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// The report as Markdown, with links to the drawings.
pub(super) fn markdown(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        // Writing to a string cannot fail.
        let _ = match block {
            Block::Heading(level, text) => {
                writeln!(out, "{} {}\n", "#".repeat((*level).into()), plain(text))
            }
            Block::Text(text, _) => writeln!(out, "{}\n", plain(text)),
            Block::Table(table) => writeln!(out, "{}", markdown_table(table)),
            Block::Drawing { file, .. } => writeln!(out, "![]({DRAWINGS}/{file})\n"),
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
    let is_number = |n: usize| {
        table.rows.first().and_then(|row| row.get(n)).is_some_and(|c| c.align == Align::Right)
    };
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
pub(super) fn page(title: &str, blocks: &[Block]) -> String {
    let mut page = Page::new(title, STYLE, title);
    for block in blocks {
        match block {
            Block::Heading(1, _) => {}
            Block::Heading(2, text) => page.heading(text),
            Block::Heading(_, text) => {
                page.html(format_args!("<h3>{}</h3>\n", html::escape(text)));
            }
            Block::Text(text, tone) => page.html(format_args!(
                "<p class=\"{}\">{}</p>\n",
                class(*tone, Align::Left),
                html::escape(text)
            )),
            Block::Table(table) => {
                let cell = |cell: &pdf::Cell| {
                    html::Cell::text(&cell.text).class(class(cell.tone, cell.align))
                };
                let rows = table.rows.iter().map(|row| row.iter().map(cell).collect());
                page.table(&table.header, rows);
            }
            Block::Drawing { svg, .. } => page.html(format_args!("<div>{svg}</div>\n")),
        }
    }
    page.finish()
}

const fn class(tone: Tone, align: Align) -> &'static str {
    match (tone, align) {
        (Tone::Plain, Align::Left) => "",
        (Tone::Plain, Align::Right) => "n",
        (Tone::Good, _) => "good",
        (Tone::Bad, _) => "bad",
        (Tone::Faint, _) => "faint",
    }
}

/// The report as PDF.
///
/// # Errors
/// If a drawing cannot be drawn there.
pub(super) fn document(title: &str, blocks: &[Block]) -> Result<Vec<u8>, pdf::svg::SvgError> {
    let mut flow = Flow::new(title);
    for (n, block) in blocks.iter().enumerate() {
        match block {
            Block::Heading(level, text) => {
                let mut next = blocks.iter().skip(n + 1);
                let next = next.find(|block| !matches!(block, Block::Heading(..)));
                flow.heading(*level, text, matches!(next, Some(Block::Drawing { .. })));
            }
            Block::Text(text, tone) => flow.paragraph(text, *tone),
            Block::Table(table) => flow.table(&table.header, &table.rows),
            Block::Drawing { svg, .. } => flow.drawing(svg)?,
        }
    }
    Ok(flow.finish())
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
            Block::Table(Table { header: vec!["name", "value", "error"], rows: vec![row] }),
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
