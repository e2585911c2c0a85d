//! HTML pages that need no other file.

use std::fmt::{Display, Write};

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
    /// Starts a page with a title for the window, a style sheet and a heading.
    #[must_use]
    pub fn new(title: &str, style: &str, heading: &str) -> Self {
        let (title, heading) = (escape(title), escape(heading));
        let html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <style>{style}</style></head><body>\n<h1>{heading}</h1>\n"
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

    /// Adds a table with a header, in a box of the class `wide`, which a style sheet may have
    /// scroll if the table is wider than the page.
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
        let mut page = Page::new("a & b", "td{}", "<a>");
        page.table(&["x < y"], [vec![Cell::text("\"1\" > 0").class("n")]]);
        page.html("<svg/>");
        let html = page.finish();
        for part in [
            "<title>a &amp; b</title>",
            "<h1>&lt;a&gt;</h1>",
            "<th>x &lt; y</th>",
            "<td class=\"n\">&quot;1&quot; &gt; 0</td>",
            "<svg/></body>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
