//! Aligned tables, and numbers in them.

use comfy_table::{CellAlignment, Table, presets};

/// Text for a figure without samples.
const NONE: &str = "-";

/// A table without lines, with a title above and an empty line below. Columns whose heading begins
/// with `<` hold words and go to the left, the others hold numbers and go to the right.
pub fn table(title: &str, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().map(|heading| heading.trim_start_matches('<')));
    table.add_rows(rows);
    for (column, heading) in table.column_iter_mut().zip(header) {
        // Two spaces before each column, also before the first, since it is below a title.
        column.set_padding((2, 0));
        let left = heading.starts_with('<');
        column.set_cell_alignment(if left { CellAlignment::Left } else { CellAlignment::Right });
    }
    format!("{title}\n{}\n\n", table.trim_fmt())
}

/// A number with this many decimals.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.decimals$}"))
}

/// Milliseconds, down to the microsecond.
pub fn ms(value: Option<f64>) -> String {
    number(value, 3)
}

/// Requests per second.
pub fn rate(value: Option<f64>) -> String {
    number(value, 2)
}

/// A share between 0 and 1 as a percentage.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.to_owned(), |share| format!("{:.2}%", share * 100.0))
}

/// A whole number with its digits in groups of three.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 run`, `2 runs`.
pub fn count(value: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(value), if value == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "1.5", "good"], ["long", "10.5", "-"]]
            .map(|row| row.map(str::to_owned).to_vec());
        let text = table("title", &["<task", "ms", "<note"], rows);
        assert_eq!(text, "title\n  task    ms  note\n  a      1.5  good\n  long  10.5  -\n\n");
    }

    #[test]
    fn numbers() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(count(1, "run"), "1 run");
        assert_eq!(count(1000, "run"), "1,000 runs");
        assert_eq!(ms(None), "-");
        assert_eq!(ms(Some(1.5)), "1.500");
        assert_eq!(percent(Some(0.5)), "50.00%");
    }
}
