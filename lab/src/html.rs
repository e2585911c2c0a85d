//! Pages of HTML that need no other file.

use std::fmt::Write;

/// A cell of a table.
#[derive(Debug)]
pub(crate) struct Cell {
    class: Option<&'static str>,
    html: String,
}

impl Cell {
    /// A cell with this text.
    pub(crate) fn text(text: &str) -> Self {
        Self::html(escape(text))
    }

    /// A cell with this HTML.
    pub(crate) const fn html(html: String) -> Self {
        Self { class: None, html }
    }

    /// The cell with a class of the style sheet.
    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class: Some(class), ..self }
    }
}

/// A page with this title and this HTML below its heading.
pub(crate) fn page([title, heading]: [&str; 2], style: &str, body: &str) -> String {
    let (title, heading) = (escape(title), escape(heading));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}\
         </title><style>{style}</style></head><body>\n<h1>{heading}</h1>\n{body}</body></html>\n"
    )
}

/// A table with this header.
pub(crate) fn table(
    header: &[impl AsRef<str>],
    rows: impl IntoIterator<Item = Vec<Cell>>,
) -> String {
    let mut text = "<table><tr>".to_owned();
    for name in header {
        // Writing to a string cannot fail.
        let _ = write!(text, "<th>{}</th>", escape(name.as_ref()));
    }
    text += "</tr>\n";
    for row in rows {
        text += "<tr>";
        for Cell { class, html } in row {
            let class = class.map(|class| format!(" class=\"{class}\"")).unwrap_or_default();
            let _ = write!(text, "<td{class}>{html}</td>");
        }
        text += "</tr>\n";
    }
    text + "</table>\n"
}

/// The text with the characters replaced that mean something to HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_html_is_not() {
        let row = vec![Cell::text("a < b").class("n"), Cell::html("<b>c</b>".to_owned())];
        let table = table(&["x & y", "z"], [row]);
        assert_eq!(
            table,
            "<table><tr><th>x &amp; y</th><th>z</th></tr>\n\
             <tr><td class=\"n\">a &lt; b</td><td><b>c</b></td></tr>\n</table>\n"
        );
        let page = page(["a\"b", "h"], "p{}", "<p>t</p>\n");
        assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"), "{page}");
        assert!(page.contains("<title>a&quot;b</title><style>p{}</style>"), "{page}");
        assert!(page.ends_with("<body>\n<h1>h</h1>\n<p>t</p>\n</body></html>\n"), "{page}");
    }
}
