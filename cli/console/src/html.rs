//! HTML pages that need no other file.

use std::fmt::{Display, Write};

/// The style sheet of all pages. Light or dark as the reader's system is; pictures, which are drawn
/// on white, are inverted in the dark and keep their hues. On a narrow screen they and tables keep
/// their size and scroll.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#222;--paper:#fff;--line:#ccc;--soft:#f5f5f5;--faint:#666;\
--good:#00664d;--bad:#b30000}\
body{font:15px/1.5 sans-serif;color:var(--ink);background:var(--paper);max-width:1250px;\
margin:2em auto;padding:0 1em;overflow-wrap:break-word}\
h2{margin-top:2em;border-bottom:1px solid var(--line)}\
table{border-collapse:collapse;margin:1em 0;font-size:13px}\
th,td{border-bottom:1px solid var(--line);padding:.25em .6em;text-align:left;vertical-align:top}\
td.n{text-align:right;white-space:nowrap}\
.good{color:var(--good)}.bad{color:var(--bad);font-weight:bold}.faint{color:var(--faint)}\
.wide,pre{overflow-x:auto}pre{background:var(--soft);padding:.6em;font-size:12px}\
svg{max-width:100%;height:auto}summary{cursor:pointer}\
@media(max-width:700px){body{margin:1em auto}svg{max-width:none}}\
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#181818;--line:#444;--soft:#242424;\
--faint:#999;--good:#5fd3ac;--bad:#ff8080}svg{filter:invert(.9) hue-rotate(180deg)}}\
@media print{body{margin:0;max-width:none;font-size:11px}tr,svg{break-inside:avoid}\
h2,h3{break-after:avoid}}";

/// A page under construction. Text is escaped unless a method says otherwise.
#[derive(Clone, Debug)]
pub struct Page {
    html: String,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    class: &'static str,
    html: String,
}

impl Page {
    /// Starts a page with a title for the window and a heading.
    #[must_use]
    pub fn new(title: &str, heading: &str) -> Self {
        let (title, heading) = (escape(title), escape(heading));
        let html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{heading}</h1>\n"
        );
        Self { html }
    }

    /// Adds the heading of a section.
    pub fn heading(&mut self, text: &str) {
        self.html(format_args!("<h2>{}</h2>\n", escape(text)));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.html(format_args!("<p>{}</p>\n", escape(text)));
    }

    /// Adds a table with a header, which scrolls if it is wider than the page.
    pub fn table(&mut self, header: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) {
        self.html("<div class=\"wide\"><table><tr>");
        for name in header {
            self.html(format_args!("<th>{}</th>", escape(name)));
        }
        self.html("</tr>\n");
        for row in rows {
            self.html("<tr>");
            for Cell { class, html } in row {
                match class {
                    "" => self.html(format_args!("<td>{html}</td>")),
                    class => self.html(format_args!("<td class=\"{class}\">{html}</td>")),
                }
            }
            self.html("</tr>\n");
        }
        self.html("</table></div>\n");
    }

    /// Adds a picture, which is SVG and is not escaped. It scrolls if it is wider than the page.
    pub fn picture(&mut self, svg: &str) {
        self.html(format_args!("<div class=\"wide\">{svg}</div>\n"));
    }

    /// Adds HTML as it is.
    pub fn html(&mut self, html: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.html, "{html}");
    }

    /// Ends the page.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.html("</body></html>\n");
        self.html
    }
}

impl Cell {
    /// A cell with text.
    #[must_use]
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::html(escape(text.as_ref()))
    }

    /// A cell with HTML as it is.
    #[must_use]
    pub const fn html(html: String) -> Self {
        Self { class: "", html }
    }

    /// Gives the cell a class of the style sheet.
    #[must_use]
    pub fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

/// Escapes the characters that HTML gives a meaning.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_html_is_not() {
        let mut page = Page::new("a & b", "<a>");
        page.table(&["x < y"], [vec![Cell::text("\"1\" > 0").class("n")]]);
        page.picture("<svg/>");
        let html = page.finish();
        for part in [
            "<title>a &amp; b</title>",
            "<h1>&lt;a&gt;</h1>",
            "<th>x &lt; y</th>",
            "<td class=\"n\">&quot;1&quot; &gt; 0</td>",
            "<div class=\"wide\"><svg/></div>\n</body>",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
            "@media(prefers-color-scheme:dark)",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
