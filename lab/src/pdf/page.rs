//! Pages and the file that they become.

use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};

use super::font::{Font, runs};

/// Width and height of a page in points: A4, lying.
pub(super) const PAGE: (f32, f32) = (841.89, 595.28);

/// Writes a line of text that begins here.
pub(super) fn show(content: &mut Content, text: &str, face: Font, size: f32, (x, y): (f32, f32)) {
    let mut left = x;
    for run in runs(text, face) {
        content.begin_text().set_font(Name(run.font.key()), size);
        content.next_line(left, y).show(Str(&run.bytes)).end_text();
        left += run.width(size);
    }
}

/// A file of these pages. Each page is written as it is, so that its text can be searched for.
pub(super) fn file(title: &str, pages: Vec<Content>) -> Vec<u8> {
    let mut next = Ref::new(1);
    let (catalog, tree, info) = (next.bump(), next.bump(), next.bump());
    let fonts = Font::ALL.map(|font| (font, next.bump()));
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(tree);
    pdf.document_info(info).title(TextStr(title)).creator(TextStr("xsched lab"));
    for (font, id) in fonts {
        let mut written = pdf.type1_font(id);
        written.base_font(Name(font.base()));
        if font != Font::Symbol {
            written.encoding_predefined(Name(b"WinAnsiEncoding"));
        }
    }
    let mut kids = Vec::with_capacity(pages.len());
    for content in pages {
        let (id, stream) = (next.bump(), next.bump());
        kids.push(id);
        let mut page = pdf.page(id);
        page.parent(tree).media_box(Rect::new(0.0, 0.0, PAGE.0, PAGE.1)).contents(stream);
        let mut resources = page.resources();
        let mut used = resources.fonts();
        for (font, id) in fonts {
            used.pair(Name(font.key()), id);
        }
        used.finish();
        resources.finish();
        page.finish();
        pdf.stream(stream, &content.finish());
    }
    let count = i32::try_from(kids.len()).unwrap_or(i32::MAX);
    pdf.pages(tree).kids(kids).count(count);
    pdf.finish()
}
