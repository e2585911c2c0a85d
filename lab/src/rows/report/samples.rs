//! Documents for tests.

use super::super::document::{
    Cell, Figure, Key, Prediction, Progress, Role, Row, Samples, Status, VERSION, Verdict,
};
use super::super::identity::Identity;

/// Latencies of 1,000 requests from this on, each a thousandth longer.
pub(super) fn progress(ms: f64, rate_per_s: f64) -> Progress {
    Progress::from(Samples {
        times_us: (0..1_000).map(|n| (ms * f64::from(1_000 + n)) as u64).collect(),
        rates_per_s: vec![rate_per_s; 20],
        windows_percent: vec![76.0, 74.0, 75.5],
        ..Samples::default()
    })
}

pub(crate) fn cell(group: &str, way: &str, ms: f64) -> Cell {
    let role = |name: &str, alone: f64, beside: f64| Role {
        name: name.to_owned(),
        work: "resnet152".to_owned(),
        load: "every 25 ms".to_owned(),
        alone: Some(progress(alone, 1e3 / alone)),
        beside: Some(progress(beside, 1e3 / beside)),
    };
    Cell {
        name: format!("{group}, {way}"),
        way: way.to_owned(),
        status: Status::Measured,
        counts: None,
        roles: vec![role("foreground", 5.0, ms), role("background", 5.0, 8.0)],
        seconds: 4.0,
    }
}

pub(super) fn figure(cell: &str, role: &str, quantity: &str, value: f64) -> Figure {
    let key = Key { cell: cell.into(), role: role.into(), quantity: quantity.into() };
    Figure { key, value }
}

pub(crate) fn row(id: &str, name: &str, cells: Vec<Cell>, figures: Vec<Figure>) -> Row {
    Row {
        version: VERSION,
        id: id.to_owned(),
        name: name.to_owned(),
        date: "2026-11-25T16:00:00Z".to_owned(),
        hal: "cuda".to_owned(),
        hardware: "NVIDIA H200".to_owned(),
        identity: Identity::default(),
        software: [("torch".to_owned(), "2.11".to_owned())].into(),
        quick: false,
        status: Status::Measured,
        command: format!("xsched-lab run {id}"),
        cells,
        figures,
        verdicts: Vec::new(),
        notes: vec!["A note | with a bar.".to_owned()],
        seconds: 61.0,
    }
}

pub(super) fn verdict(met: Option<bool>) -> Verdict {
    Verdict {
        goal: "P99 of foreground ≤ 1.30 × alone".to_owned(),
        whose: "plan".to_owned(),
        measured: "1.07".to_owned(),
        met,
        interval: Some((1.05, 1.09)),
        open: met.is_none().then(|| "the interval contains the goal".to_owned()),
    }
}

pub(super) fn prediction(id: &str, figures: Vec<Figure>) -> Prediction {
    Prediction {
        version: VERSION,
        id: id.to_owned(),
        date: "2026-11-25T16:00:01Z".to_owned(),
        device: "h200-streams".to_owned(),
        figures,
        left_out: [("eager, mps".to_owned(), "no kernels were said".to_owned())].into(),
    }
}

/// A row with a cell that was not run, and its prediction.
pub(super) fn fixed_priority() -> (Row, Prediction) {
    let mut mps = cell("eager, processes", "mps", 9.0);
    mps.status = Status::NotRun("MPS does not start".to_owned());
    let cells = ["native", "xsched"].into_iter().zip([9.0, 5.3]);
    let mut cells: Vec<Cell> = cells.map(|(way, ms)| cell("eager, processes", way, ms)).collect();
    cells.push(mps);
    let of = |way: &str, value| {
        figure(&format!("eager, processes, {way}"), "foreground", "p99_over_alone", value)
    };
    let lone = |value| figure("eager, processes, native", "foreground", "alone_p99_ms", value);
    let mut row =
        row("7.2.1", "Fixed Priority Policy", cells, vec![of("native", 1.8), of("xsched", 1.06)]);
    row.figures.push(lone(9.99));
    row.verdicts = vec![verdict(Some(true)), verdict(Some(false)), verdict(None)];
    let predicted = vec![of("native", 2.0), of("xsched", 1.06), lone(9.99)];
    (row, prediction("7.2.1", predicted))
}
