//! The tables of `docs/src/results/simulated.md`.

use std::fmt::Write as _;

use super::{Crossover, Figures, Line, Lv3Study, T_US};

/// The tables, as Markdown.
#[must_use]
pub fn page(study: &Lv3Study) -> String {
    let mut text = String::new();
    for assumption in &study.assumptions {
        line(&mut text, &format!("- **{}**: {}", assumption.name, assumption.text));
    }
    levels(&mut text, study);
    lengths(&mut text, study, "`quiet`, P99 in µs (7.3.2)", |figures| figures.quiet_p99_us);
    lengths(&mut text, study, "`start`, P99 in µs", |figures| figures.start_p99_us);
    prices(&mut text, study);
    crossovers(&mut text, study);
    crowds(&mut text, study);
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

fn heading(text: &mut String, title: &str, columns: &[&str]) {
    line(text, &format!("\n### {title}\n"));
    line(text, &format!("| {} |", columns.join(" | ")));
    line(text, &format!("|{}", "---|".repeat(columns.len())));
}

/// Three digits, and all that are in front of the point.
fn number(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "-".to_owned(),
        _ if value >= 99.95 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn levels(text: &mut String, study: &Lv3Study) {
    let columns =
        ["", "quiet P50", "quiet P99", "P99 / T", "start P50", "start P99", "lost for each hold"];
    heading(text, "Commands of 0.5 ms, in µs (7.3.1)", &columns);
    let Some(at) = study.lines.iter().find(|line| line.length_us == T_US) else { return };
    for (name, figures) in named(at) {
        let cells = [
            figures.quiet_p50_us,
            figures.quiet_p99_us,
            figures.quiet_p99_us / T_US as f64,
            figures.start_p50_us,
            figures.start_p99_us,
            figures.lost_us,
        ];
        row(text, name, &cells.map(number));
    }
}

fn row(text: &mut String, name: &str, cells: &[String]) {
    line(text, &format!("| {name} | {} |", cells.join(" | ")));
}

fn named(line: &Line) -> [(&'static str, &Figures); 5] {
    [
        ("Lv1", &line.without[0]),
        ("Lv2", &line.without[1]),
        ("Lv3 a", &line.lv3[0]),
        ("Lv3 b", &line.lv3[1]),
        ("Lv3 c", &line.lv3[2]),
    ]
}

fn lengths(text: &mut String, study: &Lv3Study, title: &str, what: fn(&Figures) -> f64) {
    heading(text, title, &["T", "Lv1", "Lv2", "Lv3 a", "Lv3 b", "Lv3 c"]);
    for at in &study.lines {
        let cells = named(at).map(|(_, figures)| number(what(figures)));
        row(text, &length(at.length_us as f64), &cells);
    }
}

/// A length of commands.
fn length(us: f64) -> String {
    if us >= 1e3 { format!("{} ms", number(us / 1e3)) } else { format!("{} µs", number(us)) }
        .replace(".00 ", " ")
        .replace(".0 ", " ")
}

fn prices(text: &mut String, study: &Lv3Study) {
    let columns = ["T", "Lv2", "Lv3 a", "chosen a", "Lv3 b", "chosen b", "Lv3 c", "chosen c"];
    heading(text, "`start` and lost device time together, means in µs", &columns);
    for at in &study.lines {
        let mut cells = vec![number(at.without[1].price_us())];
        for (lv3, by_cost) in at.lv3.iter().zip(&at.by_cost) {
            cells.extend([number(lv3.price_us()), number(by_cost.price_us())]);
        }
        row(text, &length(at.length_us as f64), &cells);
    }
}

/// One row of [`crossovers`]: its name and its figure.
type Criterion = (&'static str, fn(&Crossover) -> Option<f64>);

fn crossovers(text: &mut String, study: &Lv3Study) {
    heading(text, "From which T on Lv3 beats Lv2", &["", "a", "b", "c"]);
    let rows: [Criterion; 6] = [
        ("`quiet`, P99", |crossover| crossover.quiet_p99_us),
        ("`start`, P99", |crossover| crossover.start_p99_us),
        ("`start`, mean", |crossover| crossover.start_mean_us),
        ("`start` and lost device time, mean", |crossover| crossover.price_us),
        ("`start`, P99, and lost device time", |crossover| crossover.price_p99_us),
        ("chosen by cost from", |crossover| crossover.chosen_us),
    ];
    for (name, what) in rows {
        let cells = study.crossovers.each_ref().map(|crossover| {
            let first = study.lines.first().map_or(0.0, |line| line.length_us as f64);
            match what(crossover) {
                None => "never".to_owned(),
                Some(us) if us <= first => format!("at most {}", length(first)),
                Some(us) => length(two_digits(us)),
            }
        });
        row(text, name, &cells);
    }
}

fn crowds(text: &mut String, study: &Lv3Study) {
    let columns = ["victims", "a, together", "a, one by one", "b, together", "b, one by one"];
    let columns = [&columns[..], &["c, together", "c, one by one"]].concat();
    heading(text, "Several victims at once: the winner's request, P99, / lost, in µs", &columns);
    for crowd in &study.crowds {
        let pairs = crowd.together.iter().zip(&crowd.one_by_one);
        let cells: Vec<_> = pairs
            .flat_map(|(together, one_by_one)| [together, one_by_one])
            .map(|round| format!("{} / {}", number(round.request_p99_us), number(round.lost_us)))
            .collect();
        row(text, &crowd.victims.to_string(), &cells);
    }
}

/// Rounded to two digits: the search goes no further.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let all = [0.0, 9.99, 9.996, 55.55, 99.96, 1234.5, f64::NAN].map(number);
        assert_eq!(all, ["0.00", "9.99", "10.0", "55.5", "100", "1234", "-"]);
        assert_eq!(length(2_000.0), "2 ms");
        assert_eq!([length(two_digits(1_234.0)), length(two_digits(34.56))], ["1.20 ms", "35 µs"]);
    }
}
