//! One page with everything: rows beside the published figures, and the pictures.

use super::{Row, Study, Summary, Verdict};
use xsched_console::html::{Cell, Page, escape};

/// The page for these experiments.
#[must_use]
pub fn page(studies: &[Study]) -> String {
    let heading = "The paper's experiments in the simulator";
    let mut page = Page::new("XSched in the simulator", heading);
    page.html(summary(studies));
    for study in studies {
        section(&mut page, study);
    }
    page.finish()
}

fn summary(studies: &[Study]) -> String {
    let rows = || studies.iter().flat_map(|study| &study.rows);
    let count = |verdict| rows().filter(|row| row.verdict() == verdict).count();
    let date = studies.first().map_or("", |study| study.date.as_str());
    format!(
        "<p>{} experiments, {} values, {}. {} meet their goal, {} miss it, {} are out of any \
         scheduler's reach, of {} it depends on what is assumed, {} have no goal and deviate, {} \
         have none otherwise, {} are not available yet. Every value in the column “simulated” was \
         computed by the simulator.</p>\n<p>{}</p>\n",
        studies.len(),
        rows().count(),
        escape(date),
        count(Verdict::Pass),
        count(Verdict::Fail),
        count(Verdict::OutOfReach),
        count(Verdict::Undecided),
        count(Verdict::Deviates),
        count(Verdict::NoGoal),
        count(Verdict::NotAvailable),
        escape(&Summary::of(studies).to_string()).replace('\n', "<br>\n"),
    )
}

fn section(page: &mut Page, study: &Study) {
    let Study { id, name, hardware, observed, violations, .. } = study;
    page.heading(&format!("{id} {name}"));
    page.html(format_args!(
        "<p class=\"faint\">Simulated devices: {}. {observed} observations of the invariants, \
         {violations} violations.</p>\n",
        escape(hardware)
    ));
    let header = [
        "value",
        "paper or plan",
        "artifact or measurement",
        "simulated",
        "off by",
        "goal",
        "verdict",
        "parameters",
    ];
    page.table(&header, study.rows.iter().map(cells));
    for note in &study.notes {
        page.paragraph(note);
    }
    for (_, svg) in &study.figures {
        page.picture(svg);
    }
}

fn cells(row: &Row) -> Vec<Cell> {
    let verdict = row.verdict();
    let class = match verdict {
        Verdict::Pass => "good",
        Verdict::Fail | Verdict::Deviates => "bad",
        _ => "faint",
    };
    let shown = |value: Option<String>| Cell::text(value.unwrap_or_default());
    vec![
        Cell::text(&row.what),
        Cell::text(row.paper),
        Cell::text(row.artifact),
        Cell::text(row.shown()).class("n"),
        shown(row.distance().map(|distance| distance.to_string())),
        shown(row.goal.map(|goal| goal.to_string())),
        Cell::text(row.judgement()).class(class),
        parameters(row),
    ]
}

/// Returns the parameters that the value depends on, to be unfolded.
fn parameters(row: &Row) -> Cell {
    let basis = row.basis.iter().map(|basis| {
        let words = format!("{}: {}: {}", basis.parameter, basis.kind, basis.note);
        format!("<li>{}</li>", escape(&words))
    });
    Cell::html(format!(
        "<details><summary>{}</summary><ul>{}</ul></details>",
        row.label(),
        basis.collect::<String>(),
    ))
}
