//! The widths and encodings of the fonts that every reader of PDF has, so that none is embedded.

/// A font of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Font {
    /// Helvetica.
    Plain,
    /// Helvetica in bold.
    Bold,
    /// Symbol, for what Helvetica does not have.
    Symbol,
}

/// Characters of one font that stand next to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The font.
    pub(crate) font: Font,
    /// The characters in the font's encoding.
    pub(crate) bytes: Vec<u8>,
    /// The width in thousandths of the size.
    width: u32,
}

/// What a character without a glyph is shown as.
const UNKNOWN: u8 = b'?';
/// The width of characters beyond ASCII that are not listed, which most accented letters have.
const USUAL: u16 = 556;

/// Widths of the characters from the space to the tilde.
const PLAIN: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
const BOLD: [u16; 95] = [
    278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611, 975, 722, 722, 722, 722, 667,
    611, 778, 722, 278, 556, 722, 611, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 333, 278, 333, 584, 556, 333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556,
    278, 889, 611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584,
];

/// Characters that Helvetica has in another place than Unicode: the place and the width.
const MOVED: [(char, u8, u16); 10] = [
    ('…', 0x85, 1000),
    ('‘', 0x91, 222),
    ('’', 0x92, 222),
    ('“', 0x93, 333),
    ('”', 0x94, 333),
    ('•', 0x95, 350),
    ('–', 0x96, 556),
    ('—', 0x97, 1000),
    ('€', 0x80, 556),
    ('\u{2011}', b'-', 333),
];

/// Widths beyond ASCII that are not [`USUAL`], of characters in the same place as in Unicode.
const OTHERS: [(char, u16); 8] = [
    ('\u{a0}', 278),
    ('°', 400),
    ('±', 584),
    ('²', 333),
    ('³', 333),
    ('·', 278),
    ('×', 584),
    ('÷', 584),
];

/// What Symbol has.
const SYMBOL: [(char, u8, u16); 12] = [
    ('≤', 0xa3, 549),
    ('≥', 0xb3, 549),
    ('≈', 0xbb, 549),
    ('≠', 0xb9, 549),
    ('−', 0x2d, 549),
    ('→', 0xae, 987),
    ('∞', 0xa5, 713),
    ('√', 0xd6, 549),
    ('σ', 0x73, 603),
    ('λ', 0x6c, 549),
    ('μ', 0x6d, 576),
    ('Δ', 0x44, 612),
];

impl Font {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Bold, Self::Symbol];

    /// Its name in the standard.
    pub(crate) const fn base(self) -> &'static [u8] {
        match self {
            Self::Plain => b"Helvetica",
            Self::Bold => b"Helvetica-Bold",
            Self::Symbol => b"Symbol",
        }
    }

    /// What pages call it.
    pub(crate) const fn key(self) -> &'static [u8] {
        match self {
            Self::Plain => b"P",
            Self::Bold => b"B",
            Self::Symbol => b"S",
        }
    }

    const fn widths(self) -> &'static [u16; 95] {
        match self {
            Self::Bold => &BOLD,
            Self::Plain | Self::Symbol => &PLAIN,
        }
    }
}

/// The font, the place in it and the width of a character.
fn glyph(c: char, face: Font) -> (Font, u8, u16) {
    if let (' '..='~', Ok(byte)) = (c, u8::try_from(c)) {
        let width = face.widths().get(usize::from(byte - b' ')).copied();
        return (face, byte, width.unwrap_or(USUAL));
    }
    if let Some(&(_, byte, width)) = SYMBOL.iter().find(|(symbol, ..)| *symbol == c) {
        return (Font::Symbol, byte, width);
    }
    if let Some(&(_, byte, width)) = MOVED.iter().find(|(moved, ..)| *moved == c) {
        return (face, byte, width);
    }
    if let ('\u{a0}'..='\u{ff}', Ok(byte)) = (c, u8::try_from(c)) {
        let width = OTHERS.iter().find(|(other, _)| *other == c).map(|(_, width)| *width);
        return (face, byte, width.unwrap_or(USUAL));
    }
    (face, UNKNOWN, USUAL)
}

/// The text as characters of fonts.
pub(crate) fn runs(text: &str, face: Font) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        let (font, byte, width) = glyph(c, face);
        match runs.last_mut() {
            Some(last) if last.font == font => {
                last.bytes.push(byte);
                last.width += u32::from(width);
            }
            _ => runs.push(Run { font, bytes: vec![byte], width: width.into() }),
        }
    }
    runs
}

impl Run {
    /// How wide it is at this size.
    pub(crate) fn width(&self, size: f32) -> f32 {
        self.width as f32 / 1_000.0 * size
    }
}

/// How wide a text is at this size.
pub(crate) fn width(text: &str, face: Font, size: f32) -> f32 {
    runs(text, face).iter().map(|run| run.width(size)).sum()
}

/// The text in lines that are no wider than this. A word that is too wide is broken.
pub(crate) fn wrap(text: &str, face: Font, size: f32, room: f32) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&longer, face, size) <= room {
            line = longer;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        line = broken(word, face, (size, room), &mut lines);
    }
    lines.push(line);
    lines
}

/// Adds the lines that a word fills, and answers with the rest of it.
fn broken(word: &str, face: Font, (size, room): (f32, f32), lines: &mut Vec<String>) -> String {
    let mut line = String::new();
    for c in word.chars() {
        let longer = format!("{line}{c}");
        if width(&longer, face, size) > room && !line.is_empty() {
            lines.push(std::mem::replace(&mut line, c.to_string()));
        } else {
            line = longer;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_standard() {
        assert_eq!(width("A", Font::Plain, 1_000.0), 667.0);
        assert_eq!(width("~", Font::Bold, 1_000.0), 584.0);
        assert_eq!(
            width("≤ 1 µs", Font::Plain, 1_000.0),
            549.0 + 278.0 * 2.0 + 556.0 * 2.0 + 500.0
        );
    }

    #[test]
    fn characters_have_their_font_and_place() {
        let runs = runs("P99 ≤ 3 × a…\u{1b}日", Font::Plain);
        let fonts: Vec<Font> = runs.iter().map(|run| run.font).collect();
        assert_eq!(fonts, [Font::Plain, Font::Symbol, Font::Plain]);
        assert_eq!(runs[1].bytes, [0xa3]);
        assert_eq!(runs[2].bytes, b" 3 \xd7 a\x85 ?");
    }

    #[test]
    fn lines_fit_and_nothing_is_lost() {
        let text = "one two three averyverylongwordindeed four";
        let lines = wrap(text, Font::Plain, 10.0, 40.0);
        assert!(lines.iter().all(|line| width(line, Font::Plain, 10.0) <= 40.0), "{lines:?}");
        let whole: String = lines.concat().split_whitespace().collect();
        assert_eq!(whole, text.split_whitespace().collect::<String>());
        assert_eq!(wrap("", Font::Plain, 10.0, 40.0), [""]);
    }
}
