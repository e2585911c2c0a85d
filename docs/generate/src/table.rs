//! Tables in Markdown.

/// A table: its head and its rows.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as Markdown, with a line break at its end.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = vec!["---"; self.head.len()].join("|");
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{rule}|\n{rows}", line(&self.head))
    }
}

/// A number with thousands separated, as `1,234`.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A length of time in nanoseconds as people write it, such as `500 µs` or `2 ms`.
pub(crate) fn time(ns: u64) -> String {
    if ns >= 1_000_000 && ns.is_multiple_of(1_000_000) {
        format!("{} ms", ns / 1_000_000)
    } else {
        format!("{} µs", ns / 1_000)
    }
}

/// A part of one in percent.
pub(crate) fn percent(part: f64, decimals: usize) -> String {
    format!("{:.decimals$} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(thousands(15_789.6), "15,790");
        assert_eq!(thousands(50.0), "50");
        assert_eq!((time(500_000), time(2_000_000)), ("500 µs".into(), "2 ms".into()));
        assert_eq!(percent(0.025_287, 2), "2.53 %");
    }
}
