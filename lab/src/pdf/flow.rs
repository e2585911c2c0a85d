//! Headings, paragraphs, tables and drawings below each other, on as many pages as they need.

use pdf_writer::Content;

use super::font::{Font, width, wrap};
use super::page::{PAGE, file, show};
use super::svg::{Drawing, SvgError};

/// Room around what is on a page, in points.
const MARGIN: f32 = 36.0;
/// Width of what is on a page.
const ROOM: f32 = PAGE.0 - 2.0 * MARGIN;
/// Size of text, and from line to line.
const TEXT: (f32, f32) = (9.5, 13.0);
/// The same in tables.
const SMALL: (f32, f32) = (7.5, 9.5);
/// Room between columns, and around the text of a row.
const GAP: f32 = 8.0;
const PAD: f32 = 2.5;
/// A word up to this width is not broken if that can be helped.
const WORD_MAX: f32 = 130.0;
/// A drawing is not wider.
const DRAWING_MAX: f32 = 520.0;
/// Room below a heading that stays on its page.
const BELOW: f32 = 60.0;
/// The same where a drawing follows, as high as those with one diagram and a short legend.
const BELOW_DRAWN: f32 = 225.0;

/// Where the text of a cell stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    #[default]
    Left,
    /// Numbers.
    Right,
}

/// What a text says to the eye.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// A goal is met.
    Good,
    /// A goal is missed, or something failed.
    Bad,
    /// Of less weight.
    Faint,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its text.
    pub(crate) text: String,
    /// Where it stands.
    pub(crate) align: Align,
    /// What it says to the eye.
    pub(crate) tone: Tone,
}

/// A document under construction.
pub(crate) struct Flow {
    title: String,
    done: Vec<Content>,
    page: Content,
    /// How far the present page is filled, from above.
    y: f32,
    is_empty: bool,
}

impl Tone {
    const fn color(self) -> [f32; 3] {
        match self {
            Self::Plain => [0.1, 0.1, 0.1],
            Self::Good => [0.0, 0.4, 0.3],
            Self::Bad => [0.7, 0.0, 0.0],
            Self::Faint => [0.4, 0.4, 0.4],
        }
    }
}

impl Flow {
    /// Starts a document.
    pub(crate) fn new(title: &str) -> Self {
        let title = title.to_owned();
        Self { title, done: Vec::new(), page: Content::new(), y: MARGIN, is_empty: true }
    }

    /// Goes on with a page of its own, unless the present one is empty.
    pub(crate) fn next_page(&mut self) {
        if !self.is_empty {
            self.done.push(std::mem::replace(&mut self.page, Content::new()));
        }
        (self.y, self.is_empty) = (MARGIN, true);
    }

    /// Room that is left on the page.
    fn left(&self) -> f32 {
        PAGE.1 - MARGIN - self.y
    }

    /// Goes to the next page if there is less room than this.
    fn need(&mut self, height: f32) {
        if self.left() < height {
            self.next_page();
        }
    }

    /// A line whose upper edge is here; `down` is how far its letters stand below that.
    fn line(&mut self, text: &str, (face, size): (Font, f32), (x, down): (f32, f32), tone: Tone) {
        let [r, g, b] = tone.color();
        self.page.set_fill_rgb(r, g, b);
        show(&mut self.page, text, face, size, (x, PAGE.1 - self.y - down));
        self.is_empty = false;
    }

    /// A heading; level 1 is the largest. Some of what follows, or the drawing, stays on its page.
    pub(crate) fn heading(&mut self, level: u8, text: &str, is_drawn: bool) {
        let size = match level {
            1 => 18.0,
            2 => 13.0,
            _ => 10.5,
        };
        self.need(size * 2.0 + if is_drawn { BELOW_DRAWN } else { BELOW });
        if !self.is_empty {
            self.y += size * 0.7;
        }
        for line in wrap(text, Font::Bold, size, ROOM) {
            self.line(&line, (Font::Bold, size), (MARGIN, size), Tone::Plain);
            self.y += size * 1.3;
        }
        self.y += 2.0;
    }

    /// A paragraph.
    pub(crate) fn paragraph(&mut self, text: &str, tone: Tone) {
        let (size, step) = TEXT;
        for line in wrap(text, Font::Plain, size, ROOM) {
            self.need(step);
            self.line(&line, (Font::Plain, size), (MARGIN, size), tone);
            self.y += step;
        }
        self.y += 4.0;
    }

    /// A table, whose header is there again on each page.
    pub(crate) fn table(&mut self, header: &[&str], rows: &[Vec<Cell>]) {
        let columns = columns(header, rows);
        let names = header.iter().enumerate().map(|(n, name)| {
            let is_number = |row: &Vec<Cell>| row.get(n).is_some_and(|c| c.align == Align::Right);
            let align =
                if rows.first().is_some_and(is_number) { Align::Right } else { Align::Left };
            Cell { text: (*name).to_owned(), align, tone: Tone::Plain }
        });
        let names: Vec<Cell> = names.collect();
        let head = Row::of(&names, &columns, Font::Bold);
        let rows: Vec<Row<'_>> =
            rows.iter().map(|row| Row::of(row, &columns, Font::Plain)).collect();
        self.need(head.height() + rows.first().map_or(0.0, Row::height));
        self.row(&head, &columns);
        for row in &rows {
            if self.left() < row.height() {
                self.next_page();
                self.row(&head, &columns);
            }
            self.row(row, &columns);
        }
        self.y += 8.0;
    }

    fn row(&mut self, row: &Row<'_>, columns: &[f32]) {
        let (size, step) = SMALL;
        let top = self.y;
        let mut left = MARGIN;
        for ((cell, lines), &room) in row.cells.iter().zip(columns) {
            self.y = top + PAD;
            for line in lines {
                let wide = width(line, row.face, size);
                let x = left + if cell.align == Align::Right { room - wide } else { 0.0 };
                self.line(line, (row.face, size), (x, size), cell.tone);
                self.y += step;
            }
            left += room + GAP;
        }
        self.y = top + row.height();
        let (y, strong) = (PAGE.1 - self.y, row.face == Font::Bold);
        let gray = if strong { 0.4 } else { 0.85 };
        self.page.set_stroke_gray(gray).set_line_width(0.5);
        self.page.move_to(MARGIN, y).line_to(left - GAP, y).stroke();
    }

    /// A drawing, as wide as the page allows and not higher than a page.
    ///
    /// # Errors
    /// If it has a part that cannot be drawn.
    pub(crate) fn drawing(&mut self, svg: &str) -> Result<(), SvgError> {
        let drawing = Drawing::read(svg)?;
        let highest = PAGE.1 - 2.0 * MARGIN - 40.0;
        let wide = DRAWING_MAX.min(highest / drawing.ratio().max(f32::MIN_POSITIVE));
        let height = wide * drawing.ratio();
        self.need(height);
        let corner = (MARGIN, PAGE.1 - self.y - height);
        drawing.draw(&mut self.page, corner, wide)?;
        self.y += height + 8.0;
        self.is_empty = false;
        Ok(())
    }

    /// The file, with the number of each page below it.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if !self.is_empty || self.done.is_empty() {
            self.done.push(self.page);
        }
        let count = self.done.len();
        let [r, g, b] = Tone::Faint.color();
        for (n, page) in self.done.iter_mut().enumerate() {
            page.set_fill_rgb(r, g, b);
            let number = format!("{}: page {} of {count}", self.title, n + 1);
            show(page, &number, Font::Plain, SMALL.0, (MARGIN, MARGIN / 2.0));
        }
        file(&self.title, self.done)
    }
}

/// A row in lines.
struct Row<'a> {
    face: Font,
    cells: Vec<(&'a Cell, Vec<String>)>,
}

impl<'a> Row<'a> {
    fn of(cells: &'a [Cell], columns: &[f32], face: Font) -> Self {
        let lines = |(cell, room): (&'a Cell, &f32)| {
            // A little more, since a width that fits exactly may be off by rounding.
            (cell, wrap(&cell.text, face, SMALL.0, room + 0.01))
        };
        Self { face, cells: cells.iter().zip(columns).map(lines).collect() }
    }

    fn height(&self) -> f32 {
        let lines = self.cells.iter().map(|(_, lines)| lines.len()).max().unwrap_or(1);
        lines as f32 * SMALL.1 + 2.0 * PAD
    }
}

/// Widths of the columns: what each would like, or if that is too much, between that and its
/// longest word.
fn columns(header: &[&str], rows: &[Vec<Cell>]) -> Vec<f32> {
    let of = |measure: &dyn Fn(&str, Font) -> f32| -> Vec<f32> {
        let widest = |n: usize| {
            let texts = rows.iter().filter_map(|row| row.get(n));
            let texts = texts.map(|cell| measure(&cell.text, Font::Plain));
            let name = header.get(n).map_or(0.0, |name| measure(name, Font::Bold));
            texts.fold(name, f32::max)
        };
        (0..header.len()).map(widest).collect()
    };
    let wanted = of(&|text, face| width(text, face, SMALL.0));
    let word = |text: &str, face| {
        text.split_whitespace().map(|word| width(word, face, SMALL.0)).fold(0.0, f32::max)
    };
    let least = of(&|text, face| word(text, face).min(WORD_MAX));
    let room = ROOM - GAP * header.len().saturating_sub(1) as f32;
    let (sum_wanted, sum_least): (f32, f32) = (wanted.iter().sum(), least.iter().sum());
    if sum_wanted <= room {
        return wanted;
    }
    if sum_least >= room {
        return least.iter().map(|least| least * room / sum_least).collect();
    }
    let part = (room - sum_least) / (sum_wanted - sum_least);
    wanted.iter().zip(&least).map(|(wanted, least)| least + (wanted - least) * part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    fn count(bytes: &[u8], what: &str) -> usize {
        bytes.windows(what.len()).filter(|window| *window == what.as_bytes()).count()
    }

    #[test]
    fn texts_can_be_found_in_the_file() {
        let mut flow = Flow::new("a report");
        flow.heading(1, "Heading", false);
        flow.paragraph("words (in brackets)", Tone::Plain);
        flow.table(&["name", "value"], &[vec![cell("first"), cell("1.5")]]);
        let file = flow.finish();
        assert!(file.starts_with(b"%PDF-") && file.trim_ascii_end().ends_with(b"%%EOF"));
        for text in
            ["(Heading)", "(words (in brackets))", "(first)", "(value)", "a report: page 1 of 1"]
        {
            assert_eq!(count(&file, text), 1, "{text}");
        }
    }

    #[test]
    fn a_long_table_goes_on_with_its_header() {
        let rows: Vec<Vec<Cell>> = (0..200).map(|n| vec![cell(&format!("row {n}"))]).collect();
        let mut flow = Flow::new("long");
        flow.table(&["the header"], &rows);
        let file = flow.finish();
        let pages = count(&file, "/Type /Page\n");
        assert!(pages > 3, "{pages}");
        assert_eq!(count(&file, "(the header)"), pages);
        assert_eq!(count(&file, "(row 199)"), 1);
    }

    #[test]
    fn columns_fit_the_page() {
        let long = "many words ".repeat(60);
        let wide = columns(&["a", "b"], &[vec![cell(&long), cell("short")]]);
        assert!((wide.iter().sum::<f32>() + GAP - ROOM).abs() < 0.1, "{wide:?}");
        assert!(wide[1] >= width("short", Font::Plain, SMALL.0));
        let names = ["a column with a name"; 40];
        let sum: f32 = columns(&names, &[]).iter().sum();
        assert!(sum + GAP * 39.0 <= ROOM + 0.1, "{sum}");
    }

    #[test]
    fn an_empty_document_has_a_page() {
        assert_eq!(count(&Flow::new("nothing").finish(), "/Type /Page\n"), 1);
    }
}
