//! One page with everything: rows beside the published figures, and the pictures. It needs nothing
//! else, neither files nor a network.

use std::fmt::Write;

use super::{Row, Study, Summary, Verdict};
use crate::html::{self, Cell, escape};

const STYLE: &str = "body{font:15px/1.5 sans-serif;color:#222;max-width:1100px;margin:2em auto;\
padding:0 1em}h2{margin-top:2.2em;border-bottom:1px solid #ccc}table{border-collapse:collapse;\
width:100%;margin:1em 0}th,td{border-bottom:1px solid #ddd;padding:.25em .6em;text-align:left;\
vertical-align:top}td.n{text-align:right;white-space:nowrap}.pass{color:#00664d}.fail{color:#b30000;\
font-weight:bold}.other{color:#666}svg{max-width:100%;height:auto}details{color:#555}";

/// The columns of an experiment's table.
const HEADER: [&str; 8] = [
    "value",
    "paper or plan",
    "artifact or measurement",
    "simulated",
    "off by",
    "goal",
    "verdict",
    "parameters",
];

/// The page for these experiments.
#[must_use]
pub fn page(studies: &[Study]) -> String {
    let mut body = summary(studies);
    for study in studies {
        section(&mut body, study);
    }
    let titles = ["XSched in the simulator", "The paper's experiments in the simulator"];
    html::page(titles, STYLE, &body)
}

fn summary(studies: &[Study]) -> String {
    let rows = || studies.iter().flat_map(|study| &study.rows);
    let count = |verdict| rows().filter(|row| row.verdict() == verdict).count();
    let date = studies.first().map_or("", |study| study.date.as_str());
    format!(
        "<p>{} experiments, {} values, {}. {} meet their goal, {} miss it, {} are out of any \
         scheduler's reach, {} have none, {} are not available yet. Every value in the column \
         “simulated” was computed by the simulator. A value is called fitted if a parameter was \
         chosen to meet it, and the others predicted, with the least certain kind of parameter \
         that they depend on in brackets.</p>\n<p>{}</p>\n",
        studies.len(),
        rows().count(),
        escape(date),
        count(Verdict::Pass),
        count(Verdict::Fail),
        count(Verdict::OutOfReach),
        count(Verdict::NoGoal),
        count(Verdict::NotAvailable),
        escape(&Summary::of(studies).to_string()).replace('\n', "<br>\n"),
    )
}

fn section(body: &mut String, study: &Study) {
    let mut text = format!(
        "<h2>{} {}</h2>\n<p class=\"other\">Simulated devices: {}. {} observations of the \
         invariants, {} violations.</p>\n",
        escape(study.id),
        escape(study.name),
        escape(study.hardware),
        study.observed,
        study.violations,
    );
    text += &html::table(&HEADER, study.rows.iter().map(line));
    for note in &study.notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "<p>{}</p>", escape(note));
    }
    for (_, svg) in &study.figures {
        let _ = writeln!(text, "<div>{svg}</div>");
    }
    body.push_str(&text);
}

fn line(row: &Row) -> Vec<Cell> {
    let verdict = row.verdict();
    let class = match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        _ => "other",
    };
    let missing = row.missing.iter().map(|what| format!(": {what}")).collect::<String>();
    let ideal = row.ideal.filter(|_| verdict == Verdict::OutOfReach);
    let ideal = ideal.map(|ideal| format!(" (free preemption: {ideal:.3})")).unwrap_or_default();
    let basis = row.basis.iter().map(|basis| {
        let words = format!("{}: {}: {}", basis.parameter, basis.kind, basis.note);
        format!("<li>{}</li>", escape(&words))
    });
    let verdict = format!("{verdict}{}{ideal}", escape(&missing));
    let parameters = format!(
        "<details><summary>{} ({})</summary><ul>{}</ul></details>",
        row.standing(),
        row.parameters(),
        basis.collect::<String>(),
    );
    vec![
        Cell::text(&row.what),
        Cell::text(row.paper),
        Cell::text(row.artifact),
        Cell::text(&row.shown()).class("n"),
        Cell::html(row.distance().map(|distance| distance.to_string()).unwrap_or_default()),
        Cell::html(row.goal.map(|goal| goal.to_string()).unwrap_or_default()),
        Cell::html(verdict).class(class),
        Cell::html(parameters),
    ]
}
